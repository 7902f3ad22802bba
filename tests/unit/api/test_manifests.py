"""The manifests that every server is held to: they use every field of our kinds, and the Structs can read them."""

import json

import pytest
from tests.manifests import cases
from tests.unit.api.test_crds import schema_of

from pumice.api import kinds
from pumice.api.decoding import decode_value


def shape(schema):
    """A part of a schema without its own description: an end and a start are written alike."""
    return json.dumps({key: value for key, value in schema.items() if key != "description"})


def parts(schema):
    """Every part of a schema that has fields, once: what two kinds write alike is one part."""
    if "properties" in schema:
        yield shape(schema), schema["properties"]
    below = [*schema.get("properties", {}).values(), schema.get("items"), schema.get("additionalProperties")]
    for part in below:
        if isinstance(part, dict):
            yield from parts(part)


def used(value, schema):
    """The fields that an object uses: which part of the schema, and which of its fields."""
    if isinstance(value, dict) and "properties" in schema:
        for name, item in value.items():
            if name in schema["properties"]:
                yield shape(schema), name
                yield from used(item, schema["properties"][name])
    elif isinstance(value, dict) and isinstance(schema.get("additionalProperties"), dict):
        for item in value.values():
            yield from used(item, schema["additionalProperties"])
    elif isinstance(value, list):
        for item in value:
            yield from used(item, schema["items"])


def test_every_field_of_every_kind_is_used_by_a_valid_manifest():
    wanted = {(part, name) for kind in kinds.CUSTOM_KINDS for part, names in parts(schema_of(kind)) for name in names}
    found = {
        field
        for case in cases.valid()
        for field in used(case.object, schema_of(kinds.by_kind(case.object["apiVersion"], case.object["kind"])))
    }
    assert len(wanted) > 400
    assert [f"{name} of {part}" for part, name in sorted(wanted - found)] == []


@pytest.mark.parametrize("case", cases.valid(), ids=lambda case: case.id)
def test_a_valid_manifest_is_read_by_its_struct(case):
    kind = kinds.by_kind(case.object["apiVersion"], case.object["kind"])
    if kind.struct is None:
        return  # passed through, never read
    assert decode_value(kind.struct, case.object).metadata.name == case.object["metadata"]["name"]


def test_there_are_refusals_for_every_kind():
    assert {case.object["kind"] for case in cases.invalid()} == {kind.kind for kind in kinds.CUSTOM_KINDS}

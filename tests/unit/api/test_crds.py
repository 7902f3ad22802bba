"""Struct, schema and table of kinds say the same about every kind of ours."""

import collections.abc
import functools
import json
import types
import typing

import msgspec
import pytest
from tools.crds import generate

from pumice import yamltext
from pumice.api import batch, columns, kinds
from pumice.api.meta import Quantity, Struct
from pumice.cli.crds import manifests

# Fields of a schema that no Struct holds, and why. A field that is in neither is a mistake.
NOT_READ: dict[str, str] = {}

# What a raw field holds, where that has a Struct of its own.
RAW = {
    "CronJob.spec.jobTemplate.spec": batch.JobSpec,
    "JobFlow.spec.flows[].patch.jobSpec": batch.JobSpec,
    "JobTemplate.spec": batch.JobSpec,
}

OURS = pytest.mark.parametrize("kind", kinds.CUSTOM_KINDS, ids=lambda kind: kind.kind)


@functools.cache
def all_printed():
    return {crd["metadata"]["name"]: crd for crd in yamltext.load_all(manifests(), source="pumice crds")}


def printed(kind):
    return all_printed()[kind.resource]


def schema_of(kind):
    (version,) = printed(kind)["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]


# ------------------------------------------------------------------------------------------------ the manifests


@OURS
def test_the_manifest_in_the_package_is_what_the_schemas_say(kind):
    assert generate.path(kind).read_text() == generate.render(kind), "run: python -m tools.crds.generate"


def test_the_manifests_of_pumice_up_are_the_same():
    assert generate.LINES.read_text() == generate.render_lines(), "run: python -m tools.crds.generate"
    lines = [json.loads(line) for line in generate.LINES.read_text().splitlines()]
    assert {crd["metadata"]["name"]: crd for crd in lines} == all_printed()


def test_pumice_crds_prints_every_kind_of_ours_and_nothing_else():
    crds = yamltext.load_all(manifests(), source="pumice crds")
    assert [crd["kind"] for crd in crds] == ["CustomResourceDefinition"] * len(kinds.CUSTOM_KINDS)
    assert {crd["metadata"]["name"] for crd in crds} == {kind.resource for kind in kinds.CUSTOM_KINDS}


@OURS
def test_a_manifest_is_small_enough_for_client_side_apply(kind):
    assert len(json.dumps(printed(kind))) <= generate.MANIFEST_BYTES_MAX


@OURS
def test_a_manifest_names_the_kind_as_the_table_does(kind):
    crd = printed(kind)
    assert crd["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert crd["spec"]["group"] == kind.group
    assert crd["spec"]["scope"] == kind.scope
    assert crd["spec"]["names"]["kind"] == kind.kind
    assert crd["spec"]["names"]["plural"] == kind.plural
    assert crd["spec"]["names"]["singular"] == kind.singular
    assert tuple(crd["spec"]["names"].get("shortNames", ())) == kind.short_names
    (version,) = crd["spec"]["versions"]
    assert version["name"] == kind.version
    assert version["served"]
    assert version["storage"]
    assert version.get("subresources", {}) == ({"status": {}} if kind.has_status else {})
    wanted = () if kind.columns is columns.DEFAULT else kind.columns
    assert [
        (c["name"], c["type"], c["jsonPath"], c.get("priority", 0)) for c in version.get("additionalPrinterColumns", ())
    ] == [(c.name, c.type, c.path, c.priority) for c in wanted]


def test_status_is_a_subresource_exactly_where_volcano_has_one():
    without = {kind.kind for kind in kinds.CUSTOM_KINDS if not kind.has_status}
    assert without == {"Command", "PodGroup", "Numatopology"}


@OURS
def test_every_field_has_a_description(kind):
    silent = [path for path, schema in fields(schema_of(kind), kind.kind) if not schema.get("description")]
    assert silent == [f"{kind.kind}.metadata"]


def fields(schema, path):
    """Every named field below a schema, with its path."""
    for name, part in schema.get("properties", {}).items():
        yield f"{path}.{name}", part
        yield from fields(part, f"{path}.{name}")
    for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if isinstance(schema.get(key), dict):
            yield from fields(schema[key], path + mark)


# ------------------------------------------------------------------------------------------------ Struct and schema


@pytest.mark.parametrize("kind", [kind for kind in kinds.CUSTOM_KINDS if kind.struct], ids=lambda kind: kind.kind)
def test_struct_and_schema_agree(kind):
    schema = schema_of(kind)
    own = {name: part for name, part in schema["properties"].items() if name not in ("apiVersion", "kind", "metadata")}
    assert list(disagreements({"type": "object", "properties": own}, kind.struct, kind.kind, skip=("metadata",))) == []


def disagreements(schema, struct, path, skip=()):
    """Sentences that say where a schema and the Struct that reads it differ."""
    properties = schema.get("properties", {})
    hints = typing.get_type_hints(struct)
    held = {field.encode_name: field for field in msgspec.structs.fields(struct) if field.encode_name not in skip}
    for name in properties.keys() - held.keys():
        if f"{path}.{name}" not in NOT_READ:
            yield f"{path}.{name}: in the schema, but neither in {struct.__name__} nor in NOT_READ"
    for name, field in held.items():
        where = f"{path}.{name}"
        if name not in properties:
            yield f"{where}: in {struct.__name__}, but not in the schema"
            continue
        yield from misfits(properties[name], hints[field.name], where)
        if name not in schema.get("required", ()) and not same_default(properties[name], field):
            yield f"{where}: {properties[name].get('default')!r} by the schema, {field.default!r} by {struct.__name__}"


def same_default(schema, field):
    if "default" in schema:
        return field.default == schema["default"]
    if isinstance(field.default, msgspec.Raw):
        return field.default in (batch.NO_JSON, batch.ABSENT)
    return not field.default or field.default == type(field.default)()  # None, "", 0, (), {}, or a Struct of such


def misfits(schema, hint, where):
    optional = typing.get_origin(hint) in (typing.Union, types.UnionType) and type(None) in typing.get_args(hint)
    if optional and (rest := [part for part in typing.get_args(hint) if part is not type(None)]):
        hint = rest[0] if len(rest) == 1 else typing.Union[tuple(rest)]  # noqa: UP007  the number of parts varies
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint == Quantity:
        if not schema.get("x-kubernetes-int-or-string"):
            yield f"{where}: a quantity in the Struct, {schema.get('type')} in the schema"
    elif origin is tuple:
        yield from unlike(schema, "array", where) or misfits(schema["items"], arguments[0], where + "[]")
    elif origin is collections.abc.Mapping:
        yield from unlike(schema, "object", where) or misfits(
            schema["additionalProperties"], arguments[1], where + "{}"
        )
    elif hint is msgspec.Raw:
        yield from unlike(schema, "object", where)
        if where in RAW:
            yield from disagreements(schema, RAW[where], where)
    elif issubclass(hint, Struct):
        yield from unlike(schema, "object", where) or disagreements(schema, hint, where)
    else:
        yield from unlike(schema, {str: "string", int: "integer", bool: "boolean"}[hint], where)


def unlike(schema, kind, where):
    return [] if schema.get("type") == kind else [f"{where}: {kind} in the Struct, {schema.get('type')} in the schema"]


class Inner(Struct):
    size: int = 1


class Outer(Struct):
    inner: Inner = Inner()
    names: tuple[str, ...] = ()


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({}, "X.inner: in Outer, but not in the schema"),
        ({"inner": {"type": "string"}}, "X.inner: object in the Struct, string in the schema"),
        (
            {"inner": {"type": "object", "properties": {"size": {"type": "integer"}}}},
            "X.inner.size: None by the schema, 1 by Inner",
        ),
        ({"extra": {"type": "string"}}, "X.extra: in the schema, but neither in Outer nor in NOT_READ"),
        (
            {"names": {"type": "array", "items": {"type": "integer"}}},
            "X.names[]: string in the Struct, integer in the schema",
        ),
    ],
)
def test_the_comparison_itself_sees_what_differs(properties, said):
    assert said in list(disagreements({"type": "object", "properties": properties}, Outer, "X"))


# ------------------------------------------------------------------------------------------------ words


@pytest.mark.parametrize(
    ("kind", "path", "words"),
    [
        ("Job", "Job.status.state.phase", batch.JobPhase),
        ("Job", "Job.spec.policies[].event", batch.JobEvent),
        ("Job", "Job.spec.tasks[].policies[].events[]", batch.JobEvent),
        ("Job", "Job.spec.tasks[].topologyPolicy", batch.NumaPolicy),
        ("Job", "Job.spec.networkTopology.mode", batch.TopologyMode),
        ("CronJob", "CronJob.spec.concurrencyPolicy", batch.ConcurrencyPolicy),
    ],
)
def test_a_schema_accepts_exactly_the_words_that_the_enum_names(kind, path, words):
    (kind,) = [one for one in kinds.CUSTOM_KINDS if one.kind == kind]
    schema = dict(fields(schema_of(kind), kind.kind))[path.removesuffix("[]")]
    schema = schema["items"] if path.endswith("[]") else schema
    assert schema["enum"] == [word.value for word in words]


def test_four_kinds_embed_one_and_the_same_job_spec():
    def spec(kind, *path):
        schema = schema_of(kinds.by_struct(kind) if isinstance(kind, type) else kind)
        for name in path:
            schema = schema["items"] if name == "[]" else schema["properties"][name]
        return schema["properties"]

    job = spec(batch.Job, "spec")
    by_name = {kind.kind: kind for kind in kinds.CUSTOM_KINDS}
    assert spec(by_name["CronJob"], "spec", "jobTemplate", "spec") == job
    assert spec(by_name["JobTemplate"], "spec") == job
    assert spec(by_name["JobFlow"], "spec", "flows", "[]", "patch", "jobSpec") == job

"""Custom kinds: served when defined, checked against their schema, gone with their definition."""

import copy
import random

import pytest
from tests.unit.local.apiserver.words import Api

from pumice.local.apiserver.server import Server, Settings
from pumice.local.up import kinds

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GANGS = "/apis/example.com/v1/namespaces/default/gangs"
SCHEMA = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "format": "int32", "minimum": 1},
                "mode": {"type": "string", "enum": ["fast", "slow"], "default": "fast"},
                "word": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
                "port": {"x-kubernetes-int-or-string": True},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "note": {"type": "string", "nullable": True},
                "template": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "properties": {"spec": {"type": "object"}},
                },
                "tasks": {
                    "type": "array",
                    "maxItems": 3,
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}, "copies": {"type": "integer", "default": 1}},
                    },
                },
            },
            "x-kubernetes-validations": [
                {"rule": "self.size <= 10", "message": "a gang has at most ten members"},
                {"rule": "!has(oldSelf.word) || self.word == oldSelf.word", "message": "word cannot change"},
            ],
        },
        "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
    },
}


def a_definition():
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": copy.deepcopy(SCHEMA)},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.replicas"},
        },
        "selectableFields": [{"jsonPath": ".spec.mode"}],
        "additionalPrinterColumns": [
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
            {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
    }
    names = {"plural": "gangs", "kind": "Gang", "shortNames": ["gg"]}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gangs.example.com"},
        "spec": spec,
    }


def a_gang(name="g", **spec):
    return {"apiVersion": "example.com/v1", "kind": "Gang", "metadata": {"name": name}, "spec": {"size": 2} | spec}


@pytest.fixture
async def gangs(server):
    api = Api(server)
    await api.create(CRDS, a_definition())
    assert api.status == 201
    return api


async def test_a_definition_is_established_and_served_at_once(gangs):
    definition = await gangs.get(f"{CRDS}/gangs.example.com")
    assert {c["type"]: c["status"] for c in definition["status"]["conditions"]} == {
        "NamesAccepted": "True",
        "Established": "True",
    }
    created = await gangs.create(GANGS, a_gang())
    assert (gangs.status, created["metadata"]["generation"]) == (201, 1)
    assert (await gangs.get("/apis/example.com/v1"))["resources"][0]["shortNames"] == ["gg"]


async def test_defaults_are_filled_in(gangs):
    created = await gangs.create(GANGS, a_gang(tasks=[{"name": "a"}]))
    assert created["spec"] == {"size": 2, "mode": "fast", "tasks": [{"name": "a", "copies": 1}]}


async def test_unknown_fields_are_pruned_but_not_where_they_are_welcome(gangs):
    spec = {
        "extra": 1,
        "free": {"any": {"thing": 1}},
        "tasks": [{"name": "a", "more": 2}],
        "template": {"kind": "Pod", "metadata": {"x": 1}, "y": 2},
    }
    created = await gangs.create(GANGS, a_gang(**spec), fieldValidation="Warn")
    assert created["spec"]["free"] == {"any": {"thing": 1}}
    assert created["spec"]["tasks"] == [{"name": "a", "copies": 1}]
    assert created["spec"]["template"] == {"kind": "Pod", "metadata": {}}
    for path in ("spec.extra", "spec.tasks[0].more", "spec.template.y", "spec.template.metadata.x"):
        assert path in gangs.headers["warning"]


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        ({"size": "two"}, "spec.size", 'Invalid value: "string": spec.size in body must be of type integer: "string"'),
        ({"size": 0}, "spec.size", "Invalid value: 0: spec.size in body should be greater than or equal to 1"),
        ({"size": 2**31}, "<nil>", "Checked value must be of type integer with format int32 in spec.size"),
        ({"mode": "warp"}, "spec.mode", 'Unsupported value: "warp": supported values: "fast", "slow"'),
        ({"word": "B"}, "spec.word", "spec.word in body should match '^[a-z]+$'"),
        ({"word": "toolong"}, "spec.word", "Too long: may not be more than 5 bytes"),
        ({"port": True}, "spec.port", "must be of type integer,string"),
        ({"tasks": [{}]}, "spec.tasks[0].name", "Required value"),
        ({"tasks": [{"name": str(n)} for n in range(4)]}, "spec.tasks", "Too many: 4: must have at most 3 items"),
        ({"tasks": [{"name": "a"}, {"name": "a"}]}, "spec.tasks[1]", 'Duplicate value: {"name":"a"}'),
        ({"size": 11}, "spec", "a gang has at most ten members"),
    ],
)
async def test_what_the_schema_forbids_is_refused_in_the_words_of_a_real_server(gangs, spec, field, message):
    answer = await gangs.create(GANGS, a_gang(**spec))
    assert gangs.status == 422
    assert answer["details"]["causes"][0]["field"] == field
    assert message in answer["details"]["causes"][0]["message"]


@pytest.mark.parametrize("spec", [{"port": 80}, {"port": "http"}, {"note": None}, {"size": 10}])
async def test_what_the_schema_allows_is_stored(gangs, spec):
    created = await gangs.create(GANGS, a_gang(**spec))
    assert gangs.status == 201
    assert created["spec"].items() >= spec.items()


async def test_a_rule_may_compare_with_the_old_object(gangs):
    created = await gangs.create(GANGS, a_gang("same", word="abc"))
    answer = await gangs.update(f"{GANGS}/same", created | {"spec": {"size": 1, "word": "xyz"}})
    assert (gangs.status, "word cannot change" in answer["message"]) == (422, True)


async def test_status_and_spec_are_written_apart(gangs):
    created = await gangs.create(GANGS, a_gang() | {"status": {"phase": "Lost"}})
    assert "status" not in created
    updated = await gangs.update(f"{GANGS}/g/status", created | {"spec": {"size": 9}, "status": {"phase": "Running"}})
    assert (updated["spec"]["size"], updated["status"]["phase"], updated["metadata"]["generation"]) == (2, "Running", 1)
    updated = await gangs.update(f"{GANGS}/g", updated | {"spec": {"size": 3}, "status": {"phase": "Lost"}})
    assert (updated["status"]["phase"], updated["metadata"]["generation"]) == ("Running", 2)


async def test_an_update_must_name_its_version(gangs):
    await gangs.create(GANGS, a_gang())
    await gangs.update(f"{GANGS}/g", a_gang(size=3))
    assert gangs.status == 422


async def test_columns_are_printed(gangs, clock):
    created = await gangs.create(GANGS, a_gang())
    await gangs.update(f"{GANGS}/g/status", created | {"status": {"phase": "Running"}})
    clock.advance(90)
    table = await gangs.get(GANGS, accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Size", "Phase", "Age"]
    assert table["rows"][0]["cells"] == ["g", 2, "Running", "90s"]


async def test_scale_and_selectable_fields_work(gangs):
    await gangs.create(GANGS, a_gang("a"))
    await gangs.create(GANGS, a_gang("b", mode="slow"))
    assert await gangs.names(GANGS, fieldSelector="spec.mode=slow") == ["b"]
    await gangs.merge(f"{GANGS}/a/scale", {"spec": {"replicas": 7}})
    assert (await gangs.get(f"{GANGS}/a"))["spec"]["size"] == 7


async def test_a_strategic_patch_is_not_for_custom_kinds(gangs):
    await gangs.create(GANGS, a_gang())
    await gangs.strategic(f"{GANGS}/g", {"spec": {"size": 3}})
    assert gangs.status == 415


async def test_a_definition_takes_its_objects_with_it(gangs):
    await gangs.create(GANGS, a_gang())
    await gangs.delete(f"{CRDS}/gangs.example.com")
    await gangs.settle()
    await gangs.get(GANGS)
    assert gangs.status == 404
    await gangs.create(CRDS, a_definition())
    assert await gangs.names(GANGS) == []


async def test_a_definition_waits_for_an_object_that_somebody_holds(gangs):
    held = a_gang()
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await gangs.create(GANGS, held)
    await gangs.delete(f"{CRDS}/gangs.example.com")
    await gangs.settle()
    assert await gangs.names(GANGS) == ["g"]
    await gangs.merge(f"{GANGS}/g", {"metadata": {"finalizers": None}})
    await gangs.settle()
    await gangs.get(f"{CRDS}/gangs.example.com")
    assert gangs.status == 404


async def test_a_changed_definition_counts_for_the_next_object(gangs):
    definition = await gangs.get(f"{CRDS}/gangs.example.com")
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"]["color"] = {"type": "string", "default": "red"}
    await gangs.update(f"{CRDS}/gangs.example.com", definition)
    assert (await gangs.create(GANGS, a_gang()))["spec"]["color"] == "red"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda crd: crd["metadata"].update(name="wrong.example.com"), "metadata.name"),
        (lambda crd: crd["spec"].update(scope="Everywhere"), "spec.scope"),
        (lambda crd: crd["spec"]["versions"][0].update(storage=False), "spec.versions"),
        (lambda crd: crd["spec"]["versions"][0].pop("schema"), "spec.versions[0].schema.openAPIV3Schema"),
        (
            lambda crd: crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"].pop("type"),
            "spec.versions[0].schema.openAPIV3Schema.properties[spec].type",
        ),
        (
            lambda crd: crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].update(
                {"x-kubernetes-validations": [{"rule": "self.("}]}
            ),
            "spec.versions[0].schema.openAPIV3Schema.x-kubernetes-validations.rule",
        ),
        (lambda crd: crd["spec"].update(conversion={"strategy": "Webhook"}), "spec.conversion.strategy"),
    ],
)
async def test_a_broken_definition_is_refused(api, change, field):
    definition = a_definition()
    change(definition)
    answer = await api.create(CRDS, definition)
    assert (api.status, answer["details"]["causes"][0]["field"]) == (422, field)


async def test_two_versions_show_the_same_object(api):
    definition = a_definition()
    second = copy.deepcopy(definition["spec"]["versions"][0]) | {"name": "v2", "storage": False}
    definition["spec"]["versions"].append(second)
    await api.create(CRDS, definition)
    await api.create(GANGS, a_gang())
    other = await api.get(GANGS.replace("/v1/", "/v2/") + "/g")
    assert (other["apiVersion"], other["spec"]["size"]) == ("example.com/v2", 2)
    assert (await api.get("/apis/example.com"))["preferredVersion"]["version"] == "v2"


async def test_definitions_that_are_there_from_the_start_are_as_if_they_had_been_posted(api, clock):
    for body in kinds():
        await api.create(CRDS, body)
        assert api.status == 201
    born_with = Api(Server(Settings(now=clock, chance=random.Random(7), definitions=kinds())))
    assert await told(born_with) == await told(api)


async def told(api):
    """All definitions, without what differs from one creation to the next."""
    items = (await api.get(CRDS))["items"]
    own = ("name", "annotations", "creationTimestamp", "generation", "finalizers")
    return [item | {"metadata": {key: item["metadata"].get(key) for key in own}} for item in items]

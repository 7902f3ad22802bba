"""Server-side apply: owners of fields, conflicts, force, and fields that are let go of."""

import pytest
from tests.unit.local.apiserver.words import MAPS, PODS, a_map, a_pod

from pumice.local.apiserver.apply import fieldsets
from pumice.local.apiserver.apply.layout import Layout
from pumice.local.apiserver.structures import Field

POD = Layout(Field("@core.v1.Pod"))


def owners(obj):
    return {entry["manager"]: entry["fieldsV1"] for entry in obj["metadata"]["managedFields"]}


async def test_an_apply_creates_what_is_not_there(api):
    created = await api.apply(f"{MAPS}/a", a_map("a", {"k": "1"}))
    assert api.status == 201
    (entry,) = created["metadata"]["managedFields"]
    assert (entry["manager"], entry["operation"], entry["fieldsV1"]) == ("me", "Apply", {"f:data": {"f:k": {}}})


async def test_the_same_again_changes_nothing(api):
    created = await api.apply(f"{MAPS}/a", a_map("a", {"k": "1"}))
    again = await api.apply(f"{MAPS}/a", a_map("a", {"k": "1"}))
    assert (api.status, again) == (200, created)


async def test_fields_of_others_stay(api):
    await api.apply(f"{MAPS}/a", a_map("a", {"mine": "1"}))
    both = await api.apply(f"{MAPS}/a", a_map("a", {"yours": "2"}), manager="you")
    assert both["data"] == {"mine": "1", "yours": "2"}
    assert owners(both) == {"me": {"f:data": {"f:mine": {}}}, "you": {"f:data": {"f:yours": {}}}}


async def test_a_field_of_another_conflicts_unless_forced(api):
    await api.apply(f"{MAPS}/a", a_map("a", {"k": "1"}))
    answer = await api.apply(f"{MAPS}/a", a_map("a", {"k": "2"}), manager="you")
    assert (api.status, answer["reason"]) == (409, "Conflict")
    assert answer["message"] == 'Apply failed with 1 conflict: conflict with "me": .data.k'
    assert answer["details"]["causes"][0]["field"] == ".data.k"
    forced = await api.apply(f"{MAPS}/a", a_map("a", {"k": "2"}), manager="you", force="true")
    assert (forced["data"], owners(forced)) == ({"k": "2"}, {"you": {"f:data": {"f:k": {}}}})


async def test_the_same_value_is_shared_without_conflict(api):
    await api.apply(f"{MAPS}/a", a_map("a", {"k": "1"}))
    shared = await api.apply(f"{MAPS}/a", a_map("a", {"k": "1"}), manager="you")
    assert owners(shared) == {"me": {"f:data": {"f:k": {}}}, "you": {"f:data": {"f:k": {}}}}
    left = await api.apply(f"{MAPS}/a", a_map("a") | {"data": {}}, manager="me")
    assert left["data"] == {"k": "1"}


async def test_a_field_that_is_let_go_of_goes(api):
    await api.apply(f"{MAPS}/a", a_map("a", {"k": "1", "l": "2"}))
    assert (await api.apply(f"{MAPS}/a", a_map("a", {"l": "2"})))["data"] == {"l": "2"}


async def test_whoever_created_an_object_owns_it_until_told_otherwise(api):
    await api.create(MAPS, a_map("a", {"k": "1"}), agent="kubectl-create/1.36")
    answer = await api.apply(f"{MAPS}/a", a_map("a", {"k": "2"}))
    assert answer["message"] == 'Apply failed with 1 conflict: conflict with "kubectl-create" using v1: .data.k'


async def test_an_update_takes_what_it_changes(api):
    await api.apply(f"{MAPS}/a", a_map("a", {"k": "1", "l": "2"}))
    changed = await api.merge(f"{MAPS}/a", {"data": {"k": "9"}}, agent="controller/1")
    assert owners(changed) == {"me": {"f:data": {"f:l": {}}}, "controller": {"f:data": {"f:k": {}}}}
    await api.apply(f"{MAPS}/a", a_map("a", {"k": "1", "l": "2"}))
    assert api.status == 409


async def test_items_of_keyed_lists_are_owned_one_by_one(api):
    pod = a_pod("p")
    await api.apply(f"{PODS}/p", pod)
    condition = {"type": "example.com/Gate", "status": "True"}
    side = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {"conditions": [condition]}}
    applied = await api.apply(f"{PODS}/p/status", side, manager="gatekeeper")
    assert [c["type"] for c in applied["status"]["conditions"]] == ["example.com/Gate"]
    entry = next(e for e in applied["metadata"]["managedFields"] if e["manager"] == "gatekeeper")
    assert entry["subresource"] == "status"
    assert entry["fieldsV1"] == {
        "f:status": {"f:conditions": {'k:{"type":"example.com/Gate"}': {".": {}, "f:status": {}, "f:type": {}}}}
    }


async def test_an_item_that_is_let_go_of_goes(api):
    path, body = (
        "/api/v1/namespaces/default/services",
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}},
    )
    ports = [{"name": "a", "port": 1}, {"name": "b", "port": 2}]
    await api.apply(f"{path}/s", body | {"spec": {"ports": ports}})
    applied = await api.apply(f"{path}/s", body | {"spec": {"ports": ports[1:]}})
    assert [port["name"] for port in applied["spec"]["ports"]] == ["b"]


async def test_defaults_come_back_when_a_field_is_let_go_of(api):
    await api.apply(f"{PODS}/p", a_pod("p", restartPolicy="Always"))
    applied = await api.apply(f"{PODS}/p", a_pod("p"))
    assert (api.status, applied["spec"]["restartPolicy"]) == (200, "Always")


@pytest.mark.parametrize(
    ("body", "options", "status"),
    [
        (a_map("a"), {"manager": ""}, 422),
        ({"metadata": {"name": "a"}}, {}, 400),
        (a_map("a", managedFields=[{"manager": "x"}]), {}, 400),
        (a_map("b"), {}, 400),
    ],
)
async def test_an_apply_that_makes_no_sense_is_refused(api, body, options, status):
    await api.apply(f"{MAPS}/a", body, **options)
    assert api.status == status


async def test_a_body_in_yaml_is_applied(api):
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: '1'\n"
    assert (await api.apply(f"{MAPS}/a", text))["data"] == {"k": "1"}


async def test_a_client_may_forget_all_managers(api):
    await api.apply(f"{MAPS}/a", a_map("a", {"k": "1"}))
    cleared = await api.merge(f"{MAPS}/a", {"metadata": {"managedFields": [{}]}})
    assert "managedFields" not in cleared["metadata"]


def test_a_set_of_fields_survives_its_encoding():
    pod = a_pod("p", tolerations=[{"key": "a"}])
    pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80}]
    fields = fieldsets.fields_of(POD, pod)
    assert fieldsets.decode_set(fieldsets.encode_set(fields)) == fields
    assert (
        "f:spec",
        "f:containers",
        'k:{"name":"main"}',
        "f:ports",
        'k:{"containerPort":80,"protocol":"TCP"}',
    ) in fields
    assert ("f:spec", "f:tolerations") in fields

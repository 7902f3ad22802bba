"""Patches that describe a change: JSON, merge, strategic."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.local.apiserver.words import MAPS, PODS, a_map, a_pod

from pumice.local.apiserver.patches.plain import apply_merge_patch
from pumice.local.apiserver.patches.strategic import apply_strategic_patch

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda x: st.lists(x) | st.dictionaries(st.text(max_size=2), x),
    max_leaves=8,
)


def patched(original, patch):
    """A pod's spec after a strategic merge patch."""
    return apply_strategic_patch("core.v1.Pod", {"spec": original}, {"spec": patch})["spec"]


async def test_a_json_patch_is_done_as_a_whole_or_not_at_all(api):
    await api.create(MAPS, a_map("a", {"k": "1"}))
    change = [{"op": "test", "path": "/data/k", "value": "1"}, {"op": "replace", "path": "/data/k", "value": "2"}]
    assert (await api.json_patch(f"{MAPS}/a", change))["data"] == {"k": "2"}
    await api.json_patch(f"{MAPS}/a", [{"op": "add", "path": "/data/x", "value": "1"}, *change])
    assert api.status == 422
    assert (await api.get(f"{MAPS}/a"))["data"] == {"k": "2"}


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ([{"op": "remove", "path": "/data/none"}], 422),
        ([{"op": "dance"}], 400),
        ({}, 400),
        ([{"op": "replace", "path": "", "value": 1}], 400),
    ],
)
async def test_a_json_patch_that_cannot_be_done_is_refused(api, change, status):
    await api.create(MAPS, a_map("a"))
    await api.json_patch(f"{MAPS}/a", change)
    assert api.status == status


async def test_a_merge_patch_removes_with_null(api):
    await api.create(MAPS, a_map("a", {"k": "1", "l": "2"}))
    assert (await api.merge(f"{MAPS}/a", {"data": {"k": None, "m": "3"}}))["data"] == {"l": "2", "m": "3"}


async def test_a_patch_with_an_old_version_conflicts_and_one_without_does_not(api):
    created = await api.create(MAPS, a_map("a"))
    await api.merge(f"{MAPS}/a", {"data": {"k": "1"}})
    await api.merge(
        f"{MAPS}/a", {"metadata": {"resourceVersion": created["metadata"]["resourceVersion"]}, "data": {"k": "2"}}
    )
    assert api.status == 409
    await api.merge(f"{MAPS}/a", {"data": {"k": "3"}})
    assert api.status == 200


async def test_a_patch_cannot_rename(api):
    await api.create(MAPS, a_map("a"))
    await api.merge(f"{MAPS}/a", {"metadata": {"name": "b"}})
    assert api.status == 400


@given(JSON, JSON)
def test_a_merge_patch_done_twice_is_done_once(value, patch):
    once = apply_merge_patch(value, patch)
    assert apply_merge_patch(once, patch) == once


def test_containers_merge_by_name():
    original = {"containers": [{"name": "a", "image": "1"}, {"name": "b", "image": "1"}]}
    change = {"containers": [{"name": "b", "image": "2"}, {"name": "c", "image": "3"}]}
    assert patched(original, change)["containers"] == [
        {"name": "a", "image": "1"},
        {"name": "b", "image": "2"},
        {"name": "c", "image": "3"},
    ]


def test_lists_without_a_key_are_replaced():
    assert patched(
        {"containers": [{"name": "a", "args": ["1", "2"]}]}, {"containers": [{"name": "a", "args": ["3"]}]}
    ) == {"containers": [{"name": "a", "args": ["3"]}]}


def test_an_item_is_deleted_by_directive():
    original = {"containers": [{"name": "a"}, {"name": "b"}]}
    assert patched(original, {"containers": [{"$patch": "delete", "name": "a"}]}) == {"containers": [{"name": "b"}]}


def test_a_list_is_replaced_by_directive():
    original = {"containers": [{"name": "a"}, {"name": "b"}]}
    assert patched(original, {"containers": [{"name": "c"}, {"$patch": "replace"}]}) == {"containers": [{"name": "c"}]}


def test_a_map_is_replaced_by_directive():
    original = {"nodeSelector": {"a": "1", "b": "2"}}
    assert patched(original, {"nodeSelector": {"$patch": "replace", "c": "3"}}) == {"nodeSelector": {"c": "3"}}


def test_the_order_of_items_can_be_given():
    original = {"containers": [{"name": "a"}, {"name": "b"}]}
    change = {
        "$setElementOrder/containers": [{"name": "c"}, {"name": "b"}, {"name": "a"}],
        "containers": [{"name": "c"}],
    }
    assert [c["name"] for c in patched(original, change)["containers"]] == ["c", "b", "a"]


def test_scalars_of_a_merged_list_are_added_and_removed():
    pod = {"metadata": {"finalizers": ["a", "b"]}}
    added = apply_strategic_patch("core.v1.Pod", pod, {"metadata": {"finalizers": ["b", "c"]}})
    assert added["metadata"]["finalizers"] == ["a", "b", "c"]
    removed = apply_strategic_patch("core.v1.Pod", pod, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}})
    assert removed["metadata"]["finalizers"] == ["b"]


def test_keys_that_are_not_retained_go():
    original = {"volumes": [{"name": "v", "emptyDir": {}}]}
    change = {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]}
    assert patched(original, change) == {"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]}


def test_an_item_without_its_key_is_refused():
    with pytest.raises(Exception, match="does not contain declared merge key: name"):
        patched({"containers": []}, {"containers": [{"image": "x"}]})


async def test_status_conditions_merge_by_type(api):
    await api.create(PODS, a_pod("p"))
    first = {"status": {"conditions": [{"type": "A", "status": "True"}]}}
    await api.strategic(f"{PODS}/p/status", first)
    pod = await api.strategic(f"{PODS}/p/status", {"status": {"conditions": [{"type": "B", "status": "False"}]}})
    assert sorted(c["type"] for c in pod["status"]["conditions"]) == ["A", "B"]

"""Ends of objects: grace, finalizers, owners, namespaces."""

import pytest
from tests.unit.local.apiserver.words import MAPS, PODS, a_map, a_pod


async def is_there(api, path):
    await api.get(path)
    return api.status == 200


def owned_by(owner, **more):
    reference = {
        "apiVersion": "v1",
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    }
    return {"ownerReferences": [reference | more]}


async def test_a_deleted_object_is_gone_and_the_answer_says_which(api):
    created = await api.create(MAPS, a_map("a"))
    answer = await api.delete(f"{MAPS}/a")
    assert (answer["status"], answer["details"]["uid"]) == ("Success", created["metadata"]["uid"])
    assert not await is_there(api, f"{MAPS}/a")


@pytest.mark.parametrize("condition", [{"uid": "other"}, {"resourceVersion": "1"}])
async def test_a_deletion_with_a_wrong_precondition_conflicts(api, condition):
    await api.create(MAPS, a_map("a"))
    await api.delete(f"{MAPS}/a", {"preconditions": condition})
    assert api.status == 409
    assert await is_there(api, f"{MAPS}/a")


async def test_a_finalizer_holds_an_object_until_it_is_removed(api):
    await api.create(MAPS, a_map("a", finalizers=["example.com/hold"]))
    answer = await api.delete(f"{MAPS}/a")
    assert answer["metadata"]["deletionTimestamp"] == "2026-01-02T03:04:05Z"
    assert await is_there(api, f"{MAPS}/a")
    await api.merge(f"{MAPS}/a", {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}})
    assert (await api.get(f"{MAPS}/a"))["metadata"]["finalizers"] == ["example.com/hold"]
    await api.merge(f"{MAPS}/a", {"metadata": {"finalizers": None}})
    assert not await is_there(api, f"{MAPS}/a")


async def test_an_unbound_pod_goes_at_once(api):
    await api.create(PODS, a_pod("p"))
    await api.delete(f"{PODS}/p")
    assert not await is_there(api, f"{PODS}/p")


async def test_a_bound_pod_waits_for_its_node(api):
    await api.create(PODS, a_pod("p", nodeName="n1"))
    answer = await api.delete(f"{PODS}/p")
    assert answer["metadata"]["deletionGracePeriodSeconds"] == 30
    assert answer["metadata"]["deletionTimestamp"] == "2026-01-02T03:04:35Z"
    await api.delete(f"{PODS}/p", gracePeriodSeconds="5")
    assert (await api.get(f"{PODS}/p"))["metadata"]["deletionGracePeriodSeconds"] == 5
    await api.delete(f"{PODS}/p", gracePeriodSeconds="20")
    assert (await api.get(f"{PODS}/p"))["metadata"]["deletionGracePeriodSeconds"] == 5
    await api.delete(f"{PODS}/p", {"gracePeriodSeconds": 0})
    assert not await is_there(api, f"{PODS}/p")


async def test_a_finished_pod_goes_at_once(api):
    pod = await api.create(PODS, a_pod("p", nodeName="n1"))
    await api.update(f"{PODS}/p/status", pod | {"status": {"phase": "Succeeded"}})
    await api.delete(f"{PODS}/p")
    assert not await is_there(api, f"{PODS}/p")


async def test_a_collection_is_deleted_by_selector(api):
    for name, tier in (("a", "x"), ("b", "y"), ("c", "x")):
        await api.create(MAPS, a_map(name, labels={"tier": tier}))
    answer = await api.delete(MAPS, labelSelector="tier=x")
    assert [item["metadata"]["name"] for item in answer["items"]] == ["a", "c"]
    assert await api.names(MAPS) == ["b"]


async def test_dependents_follow_their_owner(api):
    owner = await api.create(MAPS, a_map("owner"))
    child = await api.create(MAPS, a_map("child", **owned_by(owner)))
    await api.create(MAPS, a_map("grandchild", **owned_by(child)))
    await api.delete(f"{MAPS}/owner")
    await api.settle()
    assert await api.names(MAPS) == []


async def test_a_dependent_with_another_living_owner_stays(api):
    one, two = await api.create(MAPS, a_map("one")), await api.create(MAPS, a_map("two"))
    references = owned_by(one)["ownerReferences"] + owned_by(two)["ownerReferences"]
    await api.create(MAPS, a_map("child", ownerReferences=references))
    await api.delete(f"{MAPS}/one")
    await api.settle()
    child = await api.get(f"{MAPS}/child")
    assert [reference["name"] for reference in child["metadata"]["ownerReferences"]] == ["two"]


async def test_orphans_lose_their_reference_and_stay(api):
    owner = await api.create(MAPS, a_map("owner"))
    await api.create(MAPS, a_map("child", **owned_by(owner)))
    await api.delete(f"{MAPS}/owner", {"propagationPolicy": "Orphan"})
    await api.settle()
    assert await api.names(MAPS) == ["child"]
    assert "ownerReferences" not in (await api.get(f"{MAPS}/child"))["metadata"]


async def test_in_the_foreground_an_owner_waits_for_dependents_that_block_it(api):
    owner = await api.create(MAPS, a_map("owner"))
    held = a_map("child", finalizers=["example.com/hold"], **owned_by(owner, blockOwnerDeletion=True))
    await api.create(MAPS, held)
    await api.delete(f"{MAPS}/owner", {"propagationPolicy": "Foreground"})
    await api.settle()
    assert await api.names(MAPS) == ["child", "owner"]
    await api.merge(f"{MAPS}/child", {"metadata": {"finalizers": None}})
    await api.settle()
    assert await api.names(MAPS) == []


async def test_in_the_foreground_nobody_waits_for_dependents_that_do_not_block(api):
    owner = await api.create(MAPS, a_map("owner"))
    await api.create(MAPS, a_map("child", finalizers=["example.com/hold"], **owned_by(owner)))
    await api.delete(f"{MAPS}/owner", propagationPolicy="Foreground")
    await api.settle()
    assert await api.names(MAPS) == ["child"]


async def test_an_owner_is_its_uid_not_its_name(api):
    owner = await api.create(MAPS, a_map("owner"))
    impostor = owned_by(owner | {"metadata": {"name": "owner", "uid": "of-an-earlier-life"}})
    await api.create(MAPS, a_map("child", **impostor))
    await api.settle()
    assert await api.names(MAPS) == ["owner"]


async def test_an_owner_in_another_namespace_does_not_count(api):
    owner = await api.create("/api/v1/namespaces/kube-system/configmaps", a_map("owner"))
    await api.create(MAPS, a_map("child", **owned_by(owner)))
    await api.settle()
    assert await api.names(MAPS) == []


async def test_an_owner_of_a_kind_that_is_not_served_keeps_its_dependents(api):
    reference = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "t", "uid": "u"}
    await api.create(MAPS, a_map("child", ownerReferences=[reference]))
    await api.settle()
    assert await api.names(MAPS) == ["child"]


async def test_a_namespace_ends_with_everything_in_it(api):
    await api.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    assert await api.names("/api/v1/namespaces/team/serviceaccounts") == ["default"]
    await api.create("/api/v1/namespaces/team/configmaps", a_map("held", finalizers=["example.com/hold"]))
    answer = await api.delete("/api/v1/namespaces/team")
    assert answer["status"]["phase"] == "Terminating"
    await api.settle()
    assert await api.names("/api/v1/namespaces/team/serviceaccounts") == []
    answer = await api.create("/api/v1/namespaces/team/configmaps", a_map("late"))
    assert (api.status, "being terminated" in answer["message"]) == (403, True)
    await api.merge("/api/v1/namespaces/team/configmaps/held", {"metadata": {"finalizers": None}})
    await api.settle()
    assert not await is_there(api, "/api/v1/namespaces/team")


async def test_the_systems_namespaces_cannot_be_deleted(api):
    await api.delete("/api/v1/namespaces/kube-system")
    assert api.status == 403


async def test_housekeeping_runs_beside_a_server_that_was_entered(server, api):
    async with server:
        owner = await api.create(MAPS, a_map("owner"))
        await api.create(MAPS, a_map("child", **owned_by(owner)))
        watch = await api.watch(MAPS, fieldSelector="metadata.name=child")
        await watch.next()
        await api.delete(f"{MAPS}/owner")
        assert (await watch.next())["type"] == "DELETED"

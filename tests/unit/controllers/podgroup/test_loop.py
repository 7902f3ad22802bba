"""Groups on a server: bare pods, workloads, and deaths at any write."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.controllers.stage import Stage, outcome, same_after_every_crash

from pumice.api import names
from pumice.api.apps import ReplicaSet
from pumice.api.pods import Pod
from pumice.api.scheduling import PodGroup
from pumice.controllers.podgroup import loop


def a_stage():
    return Stage(loop.controller, kinds=[PodGroup])


async def pod(stage, name, *, owner=None, scheduler="volcano", marks=None, **spec):
    container = {"name": "main", "image": "train", "resources": {"limits": {"cpu": "1"}}}
    owners = []
    if owner:
        uid = owner["metadata"]["uid"]
        owners = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": uid, "controller": True}]
    metadata = {"ownerReferences": owners, "annotations": marks or {}, "labels": {"app": "web"}}
    return await stage.make(
        Pod, name, metadata=metadata, spec={"schedulerName": scheduler, "containers": [container], **spec}
    )


async def replica_set(stage, *, replicas=3, **annotations):
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "train"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return await stage.make(ReplicaSet, "web", metadata={"annotations": annotations}, spec=spec)


async def memberships(stage):
    return {
        each["metadata"]["name"]: each["metadata"].get("annotations", {}).get(names.GROUP_NAME)
        for each in await stage.all(Pod)
    }


def test_a_bare_pod_costs_two_writes_and_its_group_goes_with_it():
    async def body(stage):
        uid = (await pod(stage, "alone"))["metadata"]["uid"]
        await stage.settle()
        assert await stage.names(PodGroup) == [f"podgroup-{uid}"]
        assert await memberships(stage) == {"alone": f"podgroup-{uid}"}
        assert stage.executor.writes == {"create PodGroup": 1, "patch Pod": 1}
        await stage.client.delete(Pod, "alone", namespace="team", grace_s=0)
        await stage.settle()
        assert await stage.names(PodGroup) == []

    a_stage().run(body)


def test_pods_of_others_and_pods_that_name_a_group_are_left_alone():
    async def body(stage):
        await pod(stage, "theirs", scheduler="default-scheduler")
        await pod(stage, "member", marks={names.GROUP_NAME: "mine"})
        await pod(stage, "new-spelling", marks={names.VOLCANO_GROUP_NAME: "mine"})
        await stage.settle()
        assert await stage.names(PodGroup) == []
        assert not stage.executor.writes

    a_stage().run(body)


def test_other_schedulers_may_be_served_instead():
    async def body(stage):
        ours = (await pod(stage, "ours", scheduler="mine"))["metadata"]["uid"]
        await pod(stage, "theirs")
        await stage.settle()
        assert await memberships(stage) == {"ours": f"podgroup-{ours}", "theirs": None}

    Stage(lambda known: loop.controller(known, frozenset({"mine"})), kinds=[PodGroup]).run(body)


def test_a_workloads_wish_for_a_gang_counts_for_nothing_where_nothing_is_inherited():
    async def body(stage):
        owner = await replica_set(stage, **{names.GROUP_MIN_MEMBER: "2"})
        for number in range(2):
            await pod(stage, f"web-{number}", owner=owner)
        await stage.settle()
        (group,) = await stage.all(PodGroup)
        assert group["spec"]["minMember"] == 1

    Stage(lambda known: loop.controller(known, inherits=False), kinds=[PodGroup]).run(body)


def test_twenty_pods_of_a_workload_cost_one_group_and_a_patch_each():
    async def body(stage):
        owner = await replica_set(stage, replicas=20, **{names.GROUP_MIN_MEMBER: "3"})
        for number in range(20):
            await pod(stage, f"web-{number}", owner=owner)
        await stage.settle()
        (group,) = await stage.all(PodGroup)
        assert group["spec"]["minMember"] == 3
        assert set((await memberships(stage)).values()) == {group["metadata"]["name"]}
        assert stage.executor.writes == {"create PodGroup": 1, "patch Pod": 20}

    a_stage().run(body)


def test_a_workload_scaled_to_nothing_and_up_again_has_no_group_and_then_one():
    async def body(stage):
        owner = await replica_set(stage, replicas=1)
        await pod(stage, "web-0", owner=owner)
        await stage.settle()
        assert len(await stage.names(PodGroup)) == 1
        await stage.patch(ReplicaSet, "web", {"spec": {"replicas": 0}})
        await stage.client.delete(Pod, "web-0", namespace="team", grace_s=0)
        await stage.settle()
        assert await stage.names(PodGroup) == []
        await stage.patch(ReplicaSet, "web", {"spec": {"replicas": 1}})
        await pod(stage, "web-1", owner=owner)
        await stage.settle()
        assert await stage.names(PodGroup) == [f"podgroup-{owner['metadata']['uid']}"]

    a_stage().run(body)


def test_another_minimum_on_the_workload_reaches_its_group():
    async def body(stage):
        owner = await replica_set(stage, **{names.GROUP_MIN_MEMBER: "2"})
        await pod(stage, "web-0", owner=owner)
        await stage.settle()
        await stage.patch(ReplicaSet, "web", {"metadata": {"annotations": {names.GROUP_MIN_MEMBER: "3"}}})
        await stage.settle()
        (group,) = await stage.all(PodGroup)
        assert (group["spec"]["minMember"], group["spec"]["minResources"]["pods"]) == (3, "3")
        assert stage.executor.writes == {"create PodGroup": 1, "patch Pod": 1, "patch PodGroup": 1}

    a_stage().run(body)


async def some_pods(stage):
    owner = await replica_set(stage, replicas=2, **{names.GROUP_MIN_MEMBER: "2"})
    await pod(stage, "web-0", owner=owner)
    await pod(stage, "web-1", owner=owner)
    await pod(stage, "alone")


def test_a_death_at_any_write_leaves_no_pod_without_its_group():
    assert same_after_every_crash(a_stage(), some_pods, [Pod, PodGroup]) == 5


@settings(max_examples=20, deadline=None)
@given(
    steps=st.lists(st.sampled_from(["bare", "owned", "finish", "scale", "pause"]), min_size=1, max_size=6),
    cut=st.integers(1, 10),
)
def test_whatever_comes_and_goes_a_death_changes_nothing_of_the_end(steps, cut):
    async def story(stage):
        owner = await replica_set(stage, **{names.GROUP_MIN_MEMBER: "2"})
        for number, step in enumerate(steps):
            if step == "bare":
                await pod(stage, f"bare-{number}")
            elif step == "owned":
                await pod(stage, f"web-{number}", owner=owner)
            elif step == "finish":
                for name in await stage.names(Pod):
                    await stage.patch(Pod, name, {"status": {"phase": "Succeeded"}}, subresource="status")
            elif step == "scale":
                await stage.patch(ReplicaSet, "web", {"spec": {"replicas": number % 2}})
            else:
                await stage.settle()
            await stage.settle(1)
        await stage.settle()
        return await outcome(stage, [Pod, PodGroup])

    stage = a_stage()
    wanted = stage.run(story)
    stage.crash_before = cut
    assert stage.run(story) == wanted


def test_an_empty_name_of_a_group_is_none():
    """The scheduler reads it so, and such a pod would wait for ever for a group that nothing makes."""

    async def body(stage):
        owner = await replica_set(stage)
        await pod(stage, "a", owner=owner, marks={names.GROUP_NAME: "", names.VOLCANO_GROUP_NAME: ""})
        await stage.settle()
        assert await memberships(stage) == {"a": f"podgroup-{owner['metadata']['uid']}"}

    a_stage().run(body)

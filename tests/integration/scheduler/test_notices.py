"""A victim is told, answers or does not, and leaves or stays: the whole way over the API server, under virtual time."""

import json

from tests.integration.scheduler.test_memory import play, policy

from pumice.api import disruptions, kinds, names
from pumice.api.events import CoreEvent
from pumice.api.pods import Pod
from pumice.api.priority import PriorityClass
from pumice.api.scheduling import PodGroup

TWO_MINUTES = policy(
    "enqueue, allocate, preempt",
    {"name": "priority"},
    {"name": "conformance"},
    {"name": "eviction", "arguments": {"notice": "2m"}},
)


async def full(stage):
    """A node that a gang fills which asks for a signal, and one of higher priority that wants it."""
    await stage.node("n1", cpu="1")
    await stage.client.create(PriorityClass, {"metadata": {"name": "high"}, "value": 9})
    await stage.gang("low", 1, node="n1", **{names.CHECKPOINT_SIGNAL: "SIGUSR1"})
    await stage.client.patch(PodGroup, "low", {"spec": {"minMember": 0}}, namespace="default")
    await stage.gang("urgent", 1)
    await stage.client.patch(PodGroup, "urgent", {"spec": {"priorityClassName": "high"}}, namespace="default")


async def pod(stage, name="low-0"):
    return (await stage.client.get(Pod, name, namespace="default")).json()


async def notice(stage):
    """What stands on the victim: the notice, and the status of its condition."""
    found = await pod(stage)
    written = found["metadata"].get("annotations", {}).get(names.EVICTION_NOTICE)
    conditions = {each["type"]: each["status"] for each in found["status"].get("conditions", ())}
    return written and json.loads(written), conditions.get(disruptions.NOTICE)


async def events(stage):
    found = await stage.client.list_json(kinds.by_struct(CoreEvent), namespace="default")
    return {(each["involvedObject"]["kind"], each["reason"]) for each in found}


async def node_of(stage, name):
    return (await pod(stage, name))["spec"].get("nodeName")


def test_a_victim_that_answers_leaves_at_once_and_the_claimant_has_its_room():
    async def story(stage):
        await full(stage)
        async with stage.scheduler(TWO_MINUTES):
            written, condition = await notice(stage)
            assert (written["story"]["claimant"]["gang"], condition) == ("default/urgent", "True")
            assert await stage.leaving() == []
            assert {("Pod", "EvictionNotice"), ("PodGroup", "EvictionNotice")} <= await events(stage)
            body = {"metadata": {"annotations": {names.CHECKPOINTED_AT: "2026-01-15T12:00:10Z"}}}
            await stage.clock.sleep(10)
            await stage.client.patch(Pod, "low-0", body, namespace="default")
            await stage.clock.sleep(2)
            assert await stage.leaving() == ["low-0"]
            await stage.clock.sleep(2)
            assert await node_of(stage, "urgent-0") == "n1"

    play(story)


def test_a_victim_that_does_not_answer_leaves_when_its_time_is_over_whichever_scheduler_told_it():
    async def story(stage):
        await full(stage)
        async with stage.scheduler(TWO_MINUTES):
            first, _ = await notice(stage)
        await stage.clock.sleep(30)
        async with stage.scheduler(TWO_MINUTES):
            assert await notice(stage) == (first, "True")
            await stage.clock.sleep(75)
            assert await stage.leaving() == []
            await stage.clock.sleep(10)
            assert await stage.leaving() == ["low-0"]
            await stage.clock.sleep(2)
            assert await node_of(stage, "urgent-0") == "n1"
        assert len(stage.logged("pod_evicted")) == 1

    play(story)


def test_a_victim_stays_where_the_claimant_goes():
    async def story(stage):
        await full(stage)
        async with stage.scheduler(TWO_MINUTES):
            assert (await notice(stage))[1] == "True"
            await stage.client.delete(Pod, "urgent-0", namespace="default", grace_s=0)
            await stage.clock.sleep(2)
            assert await notice(stage) == (None, "False")
            await stage.clock.sleep(300)
            assert await stage.leaving() == []
            assert ("PodGroup", "EvictionWithdrawn") in await events(stage)

    play(story)


def test_a_victim_stays_where_the_claimant_finds_room_elsewhere():
    async def story(stage):
        await full(stage)
        async with stage.scheduler(TWO_MINUTES):
            await stage.node("n2", cpu="1")
            await stage.clock.sleep(2)
            assert await node_of(stage, "urgent-0") == "n2"
            await stage.clock.sleep(2)
            assert await notice(stage) == (None, "False")
            await stage.clock.sleep(300)
            assert await stage.leaving() == []

    play(story)

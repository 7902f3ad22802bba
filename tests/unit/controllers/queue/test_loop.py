"""Queues on a server: cascades, Commands, counts; and a death at any write changes nothing of how it ends."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.controllers.stage import Stage, outcome, same_after_every_crash

from pumice.api import names
from pumice.api.bus import Command
from pumice.api.scheduling import PodGroup, Queue
from pumice.controllers.queue import loop
from pumice.kube import errors
from pumice.kube.client import Client

KINDS = [Queue, PodGroup, Command]


def a_stage():
    return Stage(loop.controller, kinds=KINDS)


async def command(stage, action, queue, number=0):
    target = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "name": queue, "uid": "any"}
    await stage.make(Command, f"{action.lower()}-{queue}-{number}", action=action, target=target)


async def a_tree(stage):
    """root <- research <- (vision <- cats, speech)"""
    await stage.make(Queue, "root", spec={"weight": 1})
    for name, parent in (("research", "root"), ("vision", "research"), ("speech", "research"), ("cats", "vision")):
        await stage.make(Queue, name, spec={"parent": parent})
    await stage.settle(1)


async def states(stage):
    found = {each["metadata"]["name"]: each for each in await stage.all(Queue)}
    return {
        name: (each["status"]["state"], each["metadata"].get("annotations", {}).get(names.CLOSED_BY_PARENT))
        for name, each in found.items()
        if name != "root"
    }


def test_a_new_queue_is_open_and_lies_below_the_root():
    async def body(stage):
        await stage.make(Queue, "q", spec={})
        await stage.settle(1)
        queue = await stage.get(Queue, "q")
        assert (queue["spec"]["parent"], queue["status"]["state"]) == ("root", "Open")
        owned = {each["manager"]: each["fieldsV1"] for each in queue["metadata"]["managedFields"]}
        assert owned["queue-controller"] == {"f:status": {"f:state": {}}}
        assert stage.executor.writes == {"apply Queue": 1, "patch Queue": 1}

    a_stage().run(body)


def test_closing_a_parent_closes_what_is_below_it_and_opening_it_opens_that_again():
    async def body(stage):
        await a_tree(stage)
        await command(stage, "CloseQueue", "speech")
        await stage.settle(1)
        await command(stage, "CloseQueue", "research")
        await stage.settle(1)
        assert await states(stage) == {
            "research": ("Closed", None),
            "vision": ("Closed", "true"),
            "speech": ("Closed", None),
            "cats": ("Closed", "true"),
        }
        await command(stage, "OpenQueue", "research")
        await stage.settle(1)
        assert await states(stage) == {
            "research": ("Open", None),
            "vision": ("Open", "false"),
            "speech": ("Closed", None),
            "cats": ("Open", "false"),
        }
        assert await stage.names(Command) == []
        assert ("CloseQueue", "the queue is closed") in await stage.events()

    a_stage().run(body)


def test_a_queue_is_closing_until_its_last_group_is_gone():
    async def body(stage):
        await stage.make(Queue, "q", spec={"parent": "root"})
        await stage.make(PodGroup, "train", spec={"queue": "q", "minMember": 1}, status={"phase": "Completed"})
        await command(stage, "CloseQueue", "q")
        await stage.settle(3)
        assert (await stage.get(Queue, "q"))["status"]["state"] == "Closing"
        await stage.remove(PodGroup, "train")
        await stage.settle(3)
        assert (await stage.get(Queue, "q"))["status"]["state"] == "Closed"

    a_stage().run(body)


def test_a_write_of_a_former_command_that_arrives_late_changes_nothing(monkeypatch):
    """A write without an answer is made again, and the first one may still be on its way when the queue was opened long since."""
    apply, sent = Client.apply, []

    async def noting(self, *what, **how):
        sent.append((self, what, how))
        return await apply(self, *what, **how)

    async def body(stage):
        await stage.make(Queue, "q", spec={"parent": "root"})
        await stage.settle(1)
        monkeypatch.setattr(Client, "apply", noting)
        await command(stage, "CloseQueue", "q")
        await stage.settle(1)
        await command(stage, "OpenQueue", "q")
        await stage.settle(1)
        assert [what[2]["status"]["state"] for _, what, _ in sent] == ["Closed", "Open"]
        client, what, how = sent[0]
        with pytest.raises(errors.Conflict):
            await apply(client, *what, **how)
        await stage.settle()
        assert (await states(stage))["q"] == ("Open", None)

    a_stage().run(body)


def test_a_command_may_arrive_before_its_queue():
    async def body(stage):
        await command(stage, "CloseQueue", "q")
        await stage.settle(1)
        await stage.make(Queue, "q", spec={"parent": "root"})
        await stage.settle(1)
        assert (await stage.get(Queue, "q"))["status"]["state"] == "Closed"
        assert await stage.names(Command) == []

    a_stage().run(body)


def test_commands_for_others_are_left_alone():
    async def body(stage):
        await stage.make(Queue, "q", spec={"parent": "root"})
        target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "q", "uid": "any"}
        await stage.make(Command, "abort", action="AbortJob", target=target)
        await stage.settle()
        assert await stage.names(Command) == ["abort"]

    a_stage().run(body)


def test_a_hundred_gangs_that_come_at_once_are_counted_in_few_writes():
    async def body(stage):
        await stage.make(Queue, "q", spec={"parent": "root"})
        await stage.settle(1)
        for number in range(100):
            await stage.make(PodGroup, f"g{number}", spec={"queue": "q"}, status={"phase": "Pending"})
            await stage.clock.sleep(0.02)
        await stage.settle(5)
        status = (await stage.get(Queue, "q"))["status"]
        assert (status["pending"], status["running"]) == (100, 0)
        assert stage.executor.writes["patch Queue"] <= 4  # two seconds of arrivals, a write each second, and the last
        for number in range(40):
            await stage.patch(PodGroup, f"g{number}", {"status": {"phase": "Running"}})
        for number in range(40, 50):
            await stage.remove(PodGroup, f"g{number}")
        await stage.settle(5)
        status = (await stage.get(Queue, "q"))["status"]
        assert (status["pending"], status["running"]) == (50, 40)
        assert stage.executor.writes["patch Queue"] <= 6

    a_stage().run(body)


def test_a_group_that_changes_its_queue_is_found_by_both_in_the_end():
    async def body(stage):
        for name in ("a", "b"):
            await stage.make(Queue, name, spec={"parent": "root"})
        await stage.make(PodGroup, "g", spec={"queue": "a"}, status={"phase": "Running"})
        await stage.settle(5)
        await stage.patch(PodGroup, "g", {"spec": {"queue": "b"}})
        await stage.settle(400)
        assert [(await stage.get(Queue, name))["status"].get("running", 0) for name in ("a", "b")] == [0, 1]

    a_stage().run(body)


def test_the_default_queue_comes_back():
    async def body(stage):
        await stage.make(Queue, "default", spec={"parent": "root"})
        await stage.settle(1)
        await stage.remove(Queue, "default")
        await stage.settle(1)
        queue = await stage.get(Queue, "default")
        assert (queue["spec"]["parent"], queue["status"]["state"]) == ("root", "Open")

    a_stage().run(body)


def test_an_idle_controller_writes_nothing():
    async def body(stage):
        await a_tree(stage)
        await stage.settle(5)
        before = dict(stage.executor.writes)
        await stage.settle(3600)
        assert stage.executor.writes == before

    a_stage().run(body)


async def a_cascade(stage):
    await a_tree(stage)
    await command(stage, "CloseQueue", "research")
    await stage.settle()
    await command(stage, "OpenQueue", "research", 1)


def test_a_cascade_that_is_cut_anywhere_ends_as_if_it_had_not_been():
    assert same_after_every_crash(a_stage(), a_cascade, KINDS) > 10


WISHES = st.lists(
    st.tuples(st.sampled_from(["OpenQueue", "CloseQueue"]), st.sampled_from(["research", "vision", "speech", "cats"])),
    min_size=1,
    max_size=4,
)


@settings(max_examples=25, deadline=None)
@given(wishes=WISHES, cut=st.integers(1, 20))
def test_whatever_is_wished_a_death_changes_nothing_of_the_end(wishes, cut):
    async def story(stage):
        await a_tree(stage)
        await stage.settle()
        for number, (action, queue) in enumerate(wishes):
            await command(stage, action, queue, number)
            await stage.settle()
        return await outcome(stage, KINDS)

    stage = a_stage()
    wanted = stage.run(story)
    stage.crash_before = cut
    assert stage.run(story) == wanted

"""What is said, and when, of gangs that are still being created: by cycles on the embedded server, under virtual time."""

import json
import random

import pytest

from pumice import instant
from pumice.api import names
from pumice.api.changes import Upserted
from pumice.api.core import ConfigMap, Node
from pumice.api.pods import Pod
from pumice.api.scheduling import PodGroup, Queue
from pumice.clock import VirtualClock
from pumice.cluster.intake import Intake
from pumice.cluster.state import Cluster
from pumice.dispatch.forming import FORMING_S, FORMING_S_MAX
from pumice.dispatch.statuses import POD_EVENTS_MAX, Statuses
from pumice.kube.client import Client
from pumice.kube.recorder import Recorder
from pumice.local.apiserver.local import LocalTransport
from pumice.local.apiserver.server import Server, Settings
from pumice.local.up import install_kinds
from pumice.runtime import Runtime
from pumice.scheduling.core import builtin, cycle

NOON = instant.parse_instant("2026-01-31T12:00:00Z")
POLICY = builtin.parse(builtin.TEXT, "built-in policy")


class Told(Recorder):
    """Remembers instead of writing."""

    def __init__(self, client, clock):
        super().__init__(client, component="test", clock=clock)
        self.said = []

    def record(self, regarding, type_, reason, message, *, action=""):
        self.said.append((regarding.metadata.name, reason, message))


class Place:
    """A server with one GPU, and cycles whose reports are written there."""

    def __init__(self, client, clock):
        self.client = client
        self.clock = clock
        self.cluster = Cluster()
        self.intake = Intake(self.cluster)
        self.recorder = Told(client, clock)
        self.statuses = Statuses(
            client, self.cluster, self.intake.apply, self.recorder, Runtime(clock=clock, chance=random.Random(0))
        )

    async def see(self, struct, manifest, **where):
        made = await self.client.create(struct, manifest, **where)
        self.intake.apply(Upserted(object=made.into(struct)))

    async def group(self, minimum, name="train", *, is_controlled=False, **spec):
        metadata = {"name": name, "ownerReferences": [await self.owner(name)] if is_controlled else []}
        body = {"metadata": metadata, "spec": {"minMember": minimum, **spec}, "status": {"phase": "Pending"}}
        await self.see(PodGroup, body, namespace="default")

    async def owner(self, name):
        made = await self.client.create(ConfigMap, {"metadata": {"name": name}}, namespace="default")
        uid = made.json()["metadata"]["uid"]
        return {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid, "controller": True}

    async def pod(self, name, gang="train", role=""):
        self.intake.apply(Upserted(object=await self.make(name, gang, role)))

    async def make(self, name, gang="train", role=""):
        """A pod that no watch has told of yet."""
        limits = {"limits": {"nvidia.com/gpu": "1"}}
        of_job = {names.TASK_SPEC: role} if role else {}
        body = {
            "metadata": {"name": name, "annotations": {names.GROUP_NAME: gang, **of_job}},
            "spec": {"schedulerName": "volcano", "containers": [{"name": "c", "image": "i", "resources": limits}]},
        }
        return (await self.client.create(Pod, body, namespace="default")).into(Pod)

    async def turn(self, *meanwhile, sees=True):
        """One cycle; what it wrote is known to the next one. Pods that come `meanwhile` come before it is written."""
        decisions = cycle.plan(self.cluster.snapshot(), POLICY, now=self.clock.now())
        for name in meanwhile:
            await self.pod(name)
        await self.statuses.write(decisions)
        for struct, namespace in ((PodGroup, "default"), (Pod, "default"), (Queue, "")) if sees else ():
            for thing in (await self.client.list(struct, namespace=namespace)).items:
                self.intake.apply(Upserted(object=thing))

    async def written(self, name="train"):
        """Phase, types of conditions, and the reasons of the verdict."""
        found = (await self.client.get(PodGroup, name, namespace="default")).json()
        verdict = json.loads(found["metadata"].get("annotations", {}).get(names.VERDICT, "{}"))
        conditions = [each["type"] for each in found["status"].get("conditions", ())]
        return found["status"]["phase"], conditions, [each["reason"] for each in verdict.get("reasons", ())]

    async def condition(self, name):
        pod = (await self.client.get(Pod, name, namespace="default")).into(Pod)
        return next(((each.reason, each.message) for each in pod.status.conditions), None)


def play(body):
    clock = VirtualClock(NOON)

    async def main():
        async with Server(Settings(now=clock.now, chance=random.Random(0))) as server:
            client = Client(LocalTransport(server), clock=clock, chance=random.Random(1))
            await install_kinds(client)
            place = Place(client, clock)
            room = {"cpu": "8", "memory": "8Gi", "pods": "9", "nvidia.com/gpu": "1"}
            await place.see(Node, {"metadata": {"name": "n1"}, "status": {"allocatable": room, "capacity": room}})
            await place.see(Queue, {"metadata": {"name": "default"}, "spec": {"weight": 1}})
            await body(place)

    clock.run(main())


def test_of_a_gang_whose_pods_are_on_their_way_only_its_admission_is_written():
    async def body(place):
        await place.group(3)
        await place.pod("train-0")
        for _ in range(2):
            await place.turn()
            assert await place.written() == ("Inqueue", [], [])
            assert (place.recorder.said, place.statuses.unwritten) == ([], False)
        assert place.statuses.again_at == NOON + FORMING_S * instant.SECOND  # until then nobody need ask again
        await place.clock.sleep(FORMING_S)
        await place.turn()
        phase, conditions, reasons = await place.written()
        assert (phase, conditions) == ("Inqueue", ["Unschedulable"])
        assert reasons[0] == "Not enough valid tasks for gang-scheduling, valid: 1, min: 3"
        said = [("train", "Unschedulable"), ("train-0", "FailedScheduling")]
        assert [(name, reason) for name, reason, _ in place.recorder.said] == said
        assert (place.statuses.unwritten, place.statuses.again_at) == (False, None)

    play(body)


def test_nothing_is_said_of_pods_that_came_while_the_cycle_was_planned():
    async def body(place):
        await place.group(1)
        await place.turn()
        await place.turn("train-0")
        assert await place.written() == ("Inqueue", [], [])
        assert (place.recorder.said, place.statuses.again_at is not None) == ([], True)

    play(body)


def test_while_pods_still_come_nothing_is_said_however_long_that_takes():
    """A gang of thousands takes a minute to create; a condition on each pod that is there already would double the work."""

    async def body(place):
        await place.group(9)
        for number in range(5):
            await place.pod(f"train-{number}")
            await place.turn()
            await place.clock.sleep(FORMING_S - 1)
        assert place.clock.monotonic() > 2 * FORMING_S
        await place.turn()
        assert await place.written() == ("Inqueue", [], [])
        assert [await place.condition(f"train-{number}") for number in range(5)] == [None] * 5
        assert (place.recorder.said, place.statuses.again_at) == ([], place.clock.now() + instant.SECOND)
        await place.clock.sleep(1)
        await place.turn()
        assert (await place.written())[1] == ["Unschedulable"]
        assert (await place.condition("train-4"))[0] == "Unschedulable"

    play(body)


@pytest.mark.parametrize("is_controlled", [True, False])
def test_while_pods_come_for_gangs_before_it_nothing_is_said_of_one_whose_pods_are_made_for_it(is_controlled):
    """A burst of Jobs: their pods are made for one after the other, and the last has its turn when it comes."""

    async def body(place):
        await place.group(9, "first", is_controlled=True)
        await place.group(3, is_controlled=is_controlled)
        for number in range(4):
            await place.pod(f"first-{number}", gang="first")
            await place.turn()
            await place.clock.sleep(FORMING_S / 2)
        assert (await place.written())[1] == ([] if is_controlled else ["Unschedulable"])
        await place.clock.sleep(FORMING_S)
        await place.turn()
        assert (await place.written())[1] == ["Unschedulable"]  # the line has come to a halt

    play(body)


def test_pods_that_come_for_gangs_behind_it_do_not_keep_a_gang_silent():
    """Its own pods would have come before theirs: something is in the way."""

    async def body(place):
        await place.group(3, is_controlled=True)
        await place.turn()
        await place.clock.sleep(FORMING_S)
        await place.group(9, "behind", is_controlled=True)
        await place.pod("behind-0", gang="behind")
        await place.turn()
        assert (await place.written())[1] == ["Unschedulable"]
        assert await place.written("behind") == ("Inqueue", [], [])

    play(body)


def test_news_that_is_late_counts_from_when_it_came():
    """A watch of a busy server is behind by more than it takes to make a gang."""

    async def body(place):
        await place.group(3)
        late = [await place.make(f"train-{number}") for number in range(2)]
        await place.turn()
        for pod in late:
            await place.clock.sleep(FORMING_S - 1)
            place.intake.apply(Upserted(object=pod))
            await place.turn(sees=False)
        assert await place.written() == ("Inqueue", [], [])

    play(body)


def test_pods_that_come_and_go_for_ever_do_not_keep_their_group_silent():
    async def body(place):
        await place.group(3)
        await place.turn()
        await place.clock.sleep(FORMING_S_MAX)
        await place.pod("train-0")
        await place.turn()
        assert (await place.written())[1] == ["Unschedulable"]

    play(body)


def test_the_first_members_of_a_gang_have_an_event_with_the_reason_of_the_gang():
    """`kubectl describe pod` shows events; of a gang of thousands a few pods have one, the first of each role among them."""

    async def body(place):
        await place.group(9)
        for role in ("worker", "ps"):
            for number in range(6):
                await place.pod(f"train-{role}-{number}", role=role)
        await place.turn()
        (_, _, text), *of_pods = place.recorder.said
        assert " tasks in gang unschedulable: pod group is not ready" in text
        named = ["train-ps-0", "train-worker-0", "train-ps-1"]
        assert of_pods == [(name, "FailedScheduling", text) for name in named]
        assert len(named) == POD_EVENTS_MAX
        for _ in range(3):
            await place.turn()
        assert len(place.recorder.said) == 1 + POD_EVENTS_MAX

    play(body)


def test_a_group_whose_pods_never_came_says_so():
    async def body(place):
        await place.group(3)
        await place.turn()
        assert await place.written() == ("Inqueue", [], [])
        await place.clock.sleep(FORMING_S)
        for _ in range(2):
            await place.turn()
        text = "no pods yet: 0 of 3 members are created"
        assert await place.written() == ("Inqueue", ["Unschedulable"], [text])
        assert place.recorder.said == [("train", "Unschedulable", text)]

    play(body)


def test_who_is_not_admitted_is_told_at_once():
    async def body(place):
        await place.group(3, minResources={"nvidia.com/gpu": "100"})
        await place.turn()
        phase, _, reasons = await place.written()
        assert (phase, reasons[0][:18]) == ("Pending", "can never run here")

    play(body)


def test_a_group_from_the_future_is_not_waited_for():
    """Its server's clock is an hour ahead of ours."""

    async def body(place):
        await place.group(3)
        place.clock._start -= instant.HOUR
        for _ in range(2):
            await place.turn()
        assert await place.written() == ("Inqueue", ["Unschedulable"], ["no pods yet: 0 of 3 members are created"])

    play(body)


def test_pods_without_a_group_say_so_each_on_itself_and_in_one_event():
    async def body(place):
        await place.pod("p0", gang="lost")
        await place.pod("p1", gang="lost")
        await place.turn()
        assert ([await place.condition(name) for name in ("p0", "p1")], place.statuses.unwritten) == (
            [None, None],
            True,
        )
        await place.clock.sleep(FORMING_S)
        for _ in range(2):
            await place.turn()
        text = "waits for PodGroup default/lost, which does not exist; create it, or correct the pod's annotation"
        assert [await place.condition(name) for name in ("p0", "p1")] == [("PodGroupNotFound", text)] * 2
        assert place.recorder.said == [("p0", "PodGroupNotFound", text)]
        assert not place.statuses.unwritten

    play(body)

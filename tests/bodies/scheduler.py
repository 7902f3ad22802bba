"""What the scheduler must do on every API server: the same bodies run on the embedded server and on the real one.

A folder that uses them gives a fixture `world`: a client with every right, an empty namespace, and a scheduler that runs beside
the test. Nodes belong to the test: each pod of it can only land there.
"""

import asyncio
import contextlib
import json
import random

import pytest
from tests.bodies.patience import PATIENCE_S

from pumice.api import kinds, names
from pumice.api.changes import Evicting, Forgotten, Upserted
from pumice.api.core import ConfigMap, Node
from pumice.api.events import CoreEvent
from pumice.api.pods import Pod
from pumice.api.policy import PodDisruptionBudget
from pumice.api.scheduling import PodGroup, Queue
from pumice.clock import RealClock
from pumice.cluster.intake import Intake
from pumice.cluster.state import Cluster
from pumice.dispatch.dispatcher import Dispatcher
from pumice.dispatch.evictor import EvictionSettings
from pumice.kube import errors
from pumice.kube.recorder import Recorder
from pumice.runtime import Runtime
from pumice.scheduling.core.codes import Code
from pumice.scheduling.core.decisions import Decisions, Evict
from pumice.scheduling.core.verdict import Cause

WAIT_S = (
    PATIENCE_S / 2
)  # how long nothing may move while a test waits, and once more: a busy machine starts a process in this time
WAITS_MAX = 10  # a cluster that moves for ever without getting there fails too


class World:
    """One test's view of a cluster."""

    def __init__(self, client, namespace, scheduler):
        self.client = client
        self.namespace = namespace
        self.scheduler = scheduler
        self.owners = []  # of every pod that is made from now on
        self._nodes = []
        self._stirred = 0

    async def node(self, name, *, gpus, cpu="64"):
        room = {"cpu": cpu, "memory": "256Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
        name = f"{self.namespace}-{name}"
        self._nodes.append(name)
        # No agent: what is bound stays Pending, and the test itself says what has run and ended.
        body = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"test": self.namespace}},
            "spec": {},
            "status": {"allocatable": room, "capacity": room},
        }
        await self.client.create(Node, body)
        with contextlib.suppress(errors.NotFound):
            await self.client.patch(Node, name, {"status": body["status"]}, subresource="status")
        return name

    async def leave(self):
        """Nodes belong to no namespace, and the next test must not find them."""
        for pod in await self.pods():
            with contextlib.suppress(errors.NotFound):
                await self.client.delete(Pod, pod["metadata"]["name"], namespace=self.namespace, grace_s=0)
        for name in self._nodes:
            with contextlib.suppress(errors.NotFound):
                await self.client.delete(Node, name)

    async def gang(self, name, *, size, minimum=None, gpus=1, **spec):
        fixed = {"minMember": size if minimum is None else minimum, **spec}
        body = {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": name},
            "spec": fixed,
        }
        await self.client.create(PodGroup, body, namespace=self.namespace)
        for number in range(size):
            await self.pod(f"{name}-worker-{number}", gang=name, gpus=gpus)

    async def pod(self, name, *, gang=None, gpus=1, scheduler="volcano", labels=None, notes=None, **spec):
        fixed = {
            "schedulerName": scheduler,
            "nodeSelector": {"test": self.namespace},
            # The real server taints nodes without an agent.
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "main", "image": "train", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}],
        }
        annotations = {**({names.GROUP_NAME: gang} if gang else {}), **(notes or {})}
        metadata = {
            "name": name,
            "annotations": annotations,
            "labels": labels or {},
            "ownerReferences": self.owners,
        }
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**fixed, **spec}}
        await self.client.create(Pod, body, namespace=self.namespace)

    async def have_controller(self):
        """Pods that are made from now on belong to somebody who would make them anew."""
        body = {"metadata": {"name": "controller"}}
        made = (await self.client.create(ConfigMap, body, namespace=self.namespace)).json()
        uid = made["metadata"]["uid"]
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "controller", "uid": uid, "controller": True}
        self.owners = [owner]

    async def queue(self, name, **spec):
        body = {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": {"name": name},
            "spec": spec,
        }
        await self.client.create(Queue, body)
        await self.client.patch(Queue, name, {"status": {"state": "Open"}}, subresource="status")

    async def pods(self, gang=""):
        listed = await self.client.list_json(kinds.by_struct(Pod), namespace=self.namespace)
        return [pod for pod in listed if pod["metadata"]["name"].startswith(f"{gang}-" if gang else "")]

    async def bound(self, gang=""):
        return {
            pod["metadata"]["name"]: pod["spec"]["nodeName"]
            for pod in await self.pods(gang)
            if pod["spec"].get("nodeName")
        }

    async def group(self, name):
        return (await self.client.get(PodGroup, name, namespace=self.namespace)).json()

    async def finish(self, gang, phase="Succeeded"):
        for pod in await self.pods(gang):
            body = {"status": {"phase": phase}}
            await self.client.patch(Pod, pod["metadata"]["name"], body, namespace=self.namespace, subresource="status")

    async def run_bound(self, gang=""):
        """What a kubelet would say of bound pods."""
        for name in await self.bound(gang):
            body = {"status": {"phase": "Running"}}
            await self.client.patch(Pod, name, body, namespace=self.namespace, subresource="status")

    async def stir(self):
        """Makes the scheduler plan twice more, after which everything from before has been written."""
        for _ in range(2):
            cycles = self.scheduler.cycles
            self._stirred += 1
            await self.node(f"stirring-{self._stirred}", gpus=0)

            async def planned(cycles=cycles):
                return self.scheduler.cycles > cycles

            await self.until(planned, "the scheduler should plan when a node appears")
            await self.scheduler.dispatcher.settle()

    async def until(self, test, what, *, wait_s=None):
        """Asks until it is true. It fails when nothing in the cluster has moved for a whole wait; a busy machine only takes longer."""
        last, version = None, ""
        for _ in range(WAITS_MAX):
            try:
                async with asyncio.timeout(wait_s or WAIT_S):
                    while True:
                        last = await test()
                        if last:
                            return last
                        await asyncio.sleep(0.05)
            except TimeoutError:
                before, version = version, await self._version()
            if version == before:
                break
        raise AssertionError(f"{what}; last answer: {last!r}; groups: {await self.groups()}")

    async def _version(self):
        """What the API server's last change was, of any pod or group: it moves as long as somebody gets on."""
        kinds_that_move = (kinds.by_struct(Pod), kinds.by_struct(PodGroup))
        listed = [each for kind in kinds_that_move for each in await self.client.list_json(kind)]
        return max((int(each["metadata"]["resourceVersion"]) for each in listed), default=0)

    async def groups(self):
        listed = await self.client.list_json(kinds.by_struct(PodGroup), namespace=self.namespace)
        return json.dumps([{"name": each["metadata"]["name"], "status": each.get("status")} for each in listed])

    async def until_bound(self, gang, count):
        async def all_there():
            bound = await self.bound(gang)
            return bound if len(bound) == count else None

        return await self.until(all_there, f"{count} pods of {gang} should be bound")

    async def until_bound_as_pods_leave(self, gang, count):
        """The gang is bound, while pods that are asked to leave do so at once, as a kubelet would see to."""

        async def bound_at_last():
            for pod in await self.pods():
                if pod["metadata"].get("deletionTimestamp"):
                    name = pod["metadata"]["name"]
                    with contextlib.suppress(errors.NotFound):
                        await self.client.delete(Pod, name, namespace=self.namespace, grace_s=0)
            bound = await self.bound(gang)
            return bound if len(bound) == count else None

        return await self.until(bound_at_last, f"{count} pods of {gang} should be bound once others have left")

    async def until_said(self, gang, text):
        async def said():
            group = await self.group(gang)
            conditions = group.get("status", {}).get("conditions", [])
            return next(
                (each for each in conditions if text in each.get("message", "") and each["status"] == "True"), None
            )

        return await self.until(said, f"group {gang} should say {text!r}")


def condition(thing, kind):
    return next(each for each in thing["status"]["conditions"] if each["type"] == kind)


# --------------------------------------------------------------------------------------------------------- bodies


async def test_a_gang_of_eight_waits_for_its_last_two_gpus_and_then_starts_whole(world):
    await world.node("a", gpus=6)
    await world.gang("train", size=8)
    await world.until_said("train", "can never run here: 8 such pods must start together")
    assert await world.bound("train") == {}

    async def every_pod_says_why():
        pods = await world.pods("train")
        reasons = [
            each["reason"]
            for pod in pods
            for each in pod["status"].get("conditions", [])
            if each["type"] == "PodScheduled"
        ]
        return len(reasons) == 8 and set(reasons) <= {"Unschedulable", "Schedulable"}

    await world.until(every_pod_says_why, "every pod should have a PodScheduled condition")
    await world.node("b", gpus=2)
    bound = await world.until_bound("train", 8)
    assert sorted(bound.values()).count(f"{world.namespace}-b") == 2

    async def group_is_ready():
        group = await world.group("train")
        return group if group["status"]["phase"] == "Running" else None

    group = await world.until(group_is_ready, "the group should be Running")
    assert condition(group, "Scheduled")["status"] == "True"
    assert condition(group, "Unschedulable")["status"] == "False"
    assert (
        group["metadata"]["annotations"][names.ATTEMPT]
        == (await world.pods("train"))[0]["metadata"]["annotations"][names.ATTEMPT]
    )
    assert names.VERDICT not in group["metadata"]["annotations"]


async def test_of_two_gangs_of_64_on_100_slots_one_runs_and_the_other_follows(world):
    await world.node("a", gpus=50, cpu="640")
    await world.node("b", gpus=50, cpu="640")
    await world.gang("first", size=64)
    await world.until_bound("first", 64)
    await world.gang("second", size=64)
    await world.until_said(
        "second", "queue default has no share left (nvidia.com/gpu: 36 left of 100, the gang asks for 64)"
    )
    assert await world.bound("second") == {}
    await world.finish("first")
    await world.until_bound("second", 64)


async def test_a_minimum_beyond_the_whole_cluster_is_said_at_once(world):
    await world.node("a", gpus=4)
    await world.gang("huge", size=2, minResources={"nvidia.com/gpu": "100000"})

    async def verdict():
        group = await world.group("huge")
        return group["metadata"].get("annotations", {}).get(names.VERDICT)

    said = json.loads(await world.until(verdict, "the group should carry a verdict"))
    first = said["reasons"][0]
    assert "its minimum asks for more than the whole cluster has (nvidia.com/gpu 100k of" in first["reason"]
    assert first["cure"] == "change"
    assert await world.bound("huge") == {}


async def test_a_group_that_may_not_have_pods_yet_says_why_in_its_condition_and_that_it_is_over_when_it_starts(world):
    """Eight one-GPU workers on six GPUs, as the Job controller asks for them: the group comes first, its pods when it is admitted."""
    await world.node("a", gpus=6)
    await world.gang("train", size=0, minimum=8, minResources={"nvidia.com/gpu": "8"})
    said = await world.until_said("train", "its minimum asks for more than the whole cluster has")
    assert (said["type"], said["status"]) == ("Unschedulable", "True")
    await world.node("b", gpus=2)

    async def is_admitted():
        return (await world.group("train"))["status"]["phase"] == "Inqueue"

    await world.until(is_admitted, "the group should be admitted once there is room")
    for number in range(8):
        await world.pod(f"train-worker-{number}", gang="train")
    await world.until_bound("train", 8)

    async def is_over():
        return condition(await world.group("train"), "Unschedulable")["status"] == "False"

    await world.until(is_over, "a group that has started is not Unschedulable any more")


async def test_a_pod_behind_the_queue_gate_passes_it_when_its_queue_has_a_share(world):
    node = await world.node("a", gpus=2)
    gate = names.QUEUE_ALLOCATION_GATE
    for number in range(3):
        await world.pod(f"gated-{number}", notes={gate: "true"}, schedulingGates=[{"name": gate}])
    await world.pod("other-0", notes={gate: "true"}, schedulingGates=[{"name": gate}, {"name": "example.com/hold"}])
    await world.pod("alone-0", schedulingGates=[{"name": gate}])
    bound = await world.until_bound("gated", 2)
    assert set(bound.values()) == {node}
    await world.stir()
    held = {pod["metadata"]["name"] for pod in await world.pods() if pod["spec"].get("schedulingGates")}
    assert held == {"other-0", "alone-0", *({f"gated-{number}" for number in range(3)} - bound.keys())}


async def test_a_pod_that_is_bound_is_nominated_no_more(world):
    await world.pod("waits-0")
    status = {"status": {"nominatedNodeName": f"{world.namespace}-a"}}
    await world.client.patch(Pod, "waits-0", status, namespace=world.namespace, subresource="status")
    await world.node("a", gpus=1)
    await world.until_bound("waits", 1)
    (pod,) = await world.pods("waits")
    assert "nominatedNodeName" not in pod["status"]
    assert condition(pod, "PodScheduled")["status"] == "True"


async def test_pods_of_other_schedulers_are_never_touched_but_take_room(world):
    node = await world.node("a", gpus=4)
    await world.pod("theirs", scheduler="somebody-else", nodeName=node, gpus=3)
    await world.pod("waiting", scheduler="somebody-else", gpus=1)

    async def what_we_could_write():
        pods = [pod for pod in await world.pods() if not pod["metadata"]["name"].startswith("ours")]
        ours = {"PodScheduled", "DisruptionTarget"}  # and not Ready, which is the node controller's
        return {
            pod["metadata"]["name"]: (
                pod["spec"],
                pod["metadata"].get("annotations"),
                pod["metadata"].get("deletionTimestamp"),
                pod["status"].get("nominatedNodeName"),
                [each for each in pod["status"].get("conditions", []) if each["type"] in ours],
            )
            for pod in pods
        }

    before = await what_we_could_write()
    await world.gang("ours", size=2)
    await world.until_said("ours", "tasks in gang unschedulable")
    await world.stir()
    assert await world.bound() == {"theirs": node}
    assert await what_we_could_write() == before


async def test_a_lone_pod_that_names_us_is_a_gang_of_one(world):
    node = await world.node("a", gpus=1)
    await world.pod("alone-0", scheduler="pumice")
    assert await world.until_bound("alone", 1) == {"alone-0": node}


async def test_an_event_tells_why_a_gang_waits_once_per_reason(world):
    await world.node("a", gpus=1)
    await world.gang("train", size=2)
    await world.until_said("train", "can never run here")

    async def told():
        events = await world.client.list_json(kinds.by_struct(CoreEvent), namespace=world.namespace)
        return [
            each
            for each in events
            if each.get("reason") == "Unschedulable" and each["involvedObject"]["name"] == "train"
        ]

    await world.until(told, "an event should tell why the gang waits")
    await world.stir()
    texts = {"".join(filter(lambda sign: not sign.isdigit(), each["message"])) for each in await told()}
    assert len(texts) <= 2  # while its pods arrived, and when all were there


async def test_status_is_written_only_when_it_changes(world):
    await world.node("a", gpus=1)
    await world.gang("train", size=2)
    await world.until_said("train", "can never run here")
    await world.stir()
    before = (await world.group("train"))["metadata"]["resourceVersion"]
    await world.stir()
    assert (await world.group("train"))["metadata"]["resourceVersion"] == before


@pytest.mark.parametrize("delete_then", [False, True])
async def test_a_victim_whose_budget_refuses_is_deleted_only_where_that_is_configured(world, delete_then):
    node = await world.node("a", gpus=1)
    await world.pod("victim-0", nodeName=node, labels={"app": world.namespace})
    await world.run_bound("victim")
    spec = {"minAvailable": 9, "selector": {"matchLabels": {"app": world.namespace}}}
    await world.client.create(
        PodDisruptionBudget, {"metadata": {"name": "web"}, "spec": spec}, namespace=world.namespace
    )
    cluster, learnt, said = Cluster(), [], []
    Intake(cluster).apply(Upserted((await world.client.get(Pod, "victim-0", namespace=world.namespace)).into(Pod)))
    (task,) = cluster.tasks.values()
    clock = RealClock()
    runtime = Runtime(clock=clock, chance=random.Random(0), log=lambda event, **facts: said.append((event, facts)))
    recorder = Recorder(world.client, component="test", clock=clock)
    eviction_settings = EvictionSettings(patience_s=0.0, delete_then=delete_then)
    dispatcher = Dispatcher(
        world.client, cluster, learnt.append, recorder, runtime, eviction_settings=eviction_settings
    )
    dispatcher.carry_out(Decisions(evictions=(Evict(task, "preempt", "", Cause(Code.VICTIM_SPARED_BY_GANG)),)))
    await dispatcher.settle()
    found = (await world.client.get(Pod, "victim-0", namespace=world.namespace)).into(Pod)
    assert (found.metadata.deletion_timestamp is not None) is delete_then, said
    assert [type(change) for change in learnt] == ([Evicting] if delete_then else [Evicting, Forgotten])
    assert "429 TooManyRequests" in said[0][1]["reason"]


async def test_what_is_missing_is_named_when_it_has_been_missing_for_a_while(world):
    """A group without pods, and pods without a group: neither waits in silence for what never comes."""
    await world.gang("empty", size=0, minimum=3)
    await world.pod("lost-0", gang="lost")
    await world.pod("lost-1", gang="lost")

    async def verdict():
        return (await world.group("empty"))["metadata"].get("annotations", {}).get(names.VERDICT)

    said = json.loads(await world.until(verdict, "the group should carry a verdict"))
    assert [reason["reason"] for reason in said["reasons"]] == ["no pods yet: 0 of 3 members are created"]

    async def conditions():
        found = [each for pod in await world.pods("lost") for each in pod["status"].get("conditions", [])]
        found = [each for each in found if each["reason"] == "PodGroupNotFound"]
        return found if len(found) == 2 else None

    first, second = await world.until(conditions, "both pods should say what they wait for")
    assert first["message"] == second["message"]
    assert first["message"].startswith(f"waits for PodGroup {world.namespace}/lost, which does not exist")

    async def told():
        events = await world.client.list_json(kinds.by_struct(CoreEvent), namespace=world.namespace)
        return [each["message"] for each in events if each["reason"] == "PodGroupNotFound"]

    await world.until(told, "an event should say it, too")
    assert await told() == [first["message"]]

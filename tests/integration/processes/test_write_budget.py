"""What a Job costs in writes over its whole life, to the last one: everybody together on one embedded server, under virtual time.

The budget: two writes a pod (create, bind) and eight a gang. Waiting costs one more a pod and eight more a gang, however many pods
it has. An eviction costs three: the condition that says why, the eviction, an event; whoever has to wait for it, and the pod that is made anew, wait
like any other. What queues hold is written for queues, at most once a second, and counts for nobody.
"""

import asyncio
import collections
import random

import pytest
from tests.bodies.inline import Inline

from pumice import instant
from pumice.api import kinds
from pumice.api.batch import Job
from pumice.api.scheduling import PodGroup, Queue
from pumice.clock import VirtualClock
from pumice.kube.client import Client
from pumice.kube.informer import Informers
from pumice.kube.transport import Response
from pumice.local.apiserver.local import LocalTransport
from pumice.local.apiserver.server import Server, Settings
from pumice.local.nodes import distributions
from pumice.local.nodes.pretend import PretendAgent, pretend_nodes
from pumice.local.nodes.pretend_pods import Behaviour
from pumice.local.up import install_kinds
from pumice.processes.controllers import Controllers
from pumice.processes.scheduler import Scheduler, Served
from pumice.runtime import Runtime
from pumice.scheduling.core import builtin

NOON = instant.parse_instant("2026-01-31T12:00:00Z")
GPU = "nvidia.com/gpu"
REFUSAL = b'{"kind": "Status", "status": "Failure", "reason": "Forbidden", "message": "not today", "code": 403}'


class Counting:
    """A transport that counts writes about namespaced things of which `about` is part, by verb and kind.

    Where `refuses` is part of the path, nobody is bound.
    """

    def __init__(self, inner):
        self.inner = inner
        self.about = b""
        self.refuses = ""
        self.writes = collections.Counter()

    async def call(self, request):
        parts = request.path.strip("/").split("/")
        is_meant = self.about in request.path.encode() or self.about in (request.body or b"")
        if request.method != "GET" and "namespaces" in parts and is_meant:
            resource, *rest = parts[parts.index("namespaces") + 2 :]
            self.writes[" ".join([request.method, resource, *rest[1:]])] += 1
        if self.refuses and self.refuses in request.path and parts[-1] == "binding":
            return Response(403, {}, REFUSAL)
        return await self.inner.call(request)

    async def close(self):
        await self.inner.close()


class Cluster:
    """The scheduler and the controllers, whose writes are counted, and pretend nodes of eight GPUs, whose are not."""

    def __init__(self, server, clock, *, nodes, start, stop):
        chance = random.Random(1)
        self.clock = clock
        self.client = Client(LocalTransport(server), clock=clock, chance=chance)
        self.counting = Counting(LocalTransport(server))
        ours = Client(self.counting, clock=clock, chance=chance)
        informers = Informers(ours, clock=clock, chance=chance)
        watching = Informers(self.client, clock=clock, chance=chance)
        policy = builtin.parse(builtin.TEXT, "built-in policy")
        runtime = Runtime(clock=clock, chance=chance)
        scheduler = Scheduler(ours, informers, lambda: policy, runtime, Served())
        scheduler._thread = Inline()
        controllers = Controllers(ours, informers, runtime)
        self.agent = PretendAgent(
            self.client, watching, pretend_nodes(nodes, gpus=8), Runtime(clock=clock, chance=chance),
            behaviour=Behaviour(start=distributions.parse(start), stop=distributions.parse(stop)),
        )  # fmt: skip
        self._works = [informers.run, watching.run, scheduler.run, self.agent.run, controllers.run]
        self._tasks = []

    async def __aenter__(self):
        await install_kinds(self.client)
        self._tasks = [asyncio.create_task(work()) for work in self._works]
        await self.agent.ready.wait()
        await self.clock.sleep(2)  # queues are made
        self.counting.writes.clear()
        return self

    async def __aexit__(self, *_):
        for task in reversed(self._tasks):
            task.cancel()
        await asyncio.wait(self._tasks)
        for task in self._tasks:
            if not task.cancelled():
                task.result()

    async def submit(self, name, size, run, gpus=1, queue="default", minimum=None):
        container = {"name": "c", "image": "i", "resources": {"limits": {GPU: str(gpus)}}}
        template = {
            "metadata": {"annotations": {"pumice.dev/pretend-run": run}},
            "spec": {"restartPolicy": "Never", "containers": [container]},
        }
        tasks = [{"name": "worker", "replicas": size, "template": template}]
        spec = {"schedulerName": "volcano", "queue": queue, "minAvailable": minimum or size, "tasks": tasks}
        await self.client.create(Job, {"metadata": {"name": name}, "spec": spec}, namespace="default")

    async def phase(self, name):
        return (await self.client.get(Job, name, namespace="default")).json()["status"]["state"]["phase"]

    async def group(self):
        """The only PodGroup that there is."""
        (group,) = await self.client.list_json(kinds.by_struct(PodGroup), namespace="default")
        return group


def play(story, *, nodes=1, start="0s", stop="0s"):
    """What the story cost."""
    clock = VirtualClock(NOON)

    async def main():
        async with Server(Settings(now=clock.now, chance=random.Random(0))) as server:
            async with Cluster(server, clock, nodes=nodes, start=start, stop=stop) as cluster:
                await story(cluster)
            return dict(cluster.counting.writes)

    return clock.run(main())


async def one_job(cluster, size=8):
    await cluster.submit("train", size, "30s")
    await cluster.clock.sleep(25)
    assert await cluster.phase("train") == "Running"
    await cluster.clock.sleep(30)
    assert await cluster.phase("train") == "Completed"


GANG = {
    "POST podgroups": 1,
    "PATCH jobs status": 3,  # Pending, Running, Completed
    "PATCH podgroups": 3,  # Inqueue, Running, and how many run
    "DELETE podgroups": 1,
}


@pytest.mark.parametrize("start", ["500ms", "3500ms", "15s"])
def test_a_gang_of_eight_costs_eight_writes_beside_making_and_binding_its_pods_however_long_they_take_to_start(start):
    assert sum(GANG.values()) == 8
    assert play(one_job, start=start) == {"POST pods": 8, "POST pods binding": 8, **GANG}


def test_pods_that_run_at_once_save_one_of_them():
    assert play(one_job) == {"POST pods": 8, "POST pods binding": 8, **GANG, "PATCH podgroups": 2}


@pytest.mark.parametrize("start", ["uniform:0s,900ms", "uniform:100ms,800ms"])
def test_pods_that_start_one_after_another_are_counted_when_all_have(start):
    assert play(one_job, start=start)["PATCH podgroups"] == 3


def test_a_gang_of_fifty_costs_little_more_than_two_writes_a_pod():
    writes = play(lambda cluster: one_job(cluster, size=50), nodes=7, start="500ms")
    assert writes == {"POST pods": 50, "POST pods binding": 50, **GANG}
    assert sum(writes.values()) / 50 < 2.2


async def one_after_the_other(cluster, size, gpus):
    """Three nodes: the first Job leaves too few GPUs for the second, which waits for its end."""
    await cluster.submit("first", 1, "60s", gpus=5)
    await cluster.clock.sleep(20)
    cluster.counting.about = b"second"
    cluster.counting.writes.clear()
    await cluster.submit("second", size, "30s", gpus=gpus)
    await cluster.clock.sleep(20)
    assert await cluster.phase("second") == "Pending"
    await cluster.clock.sleep(80)
    assert await cluster.phase("second") == "Completed"


@pytest.mark.parametrize(("size", "gpus"), [(3, 5), (6, 3)])
def test_a_gang_that_has_to_wait_costs_one_write_more_a_pod_and_says_when_it_waits_and_when_it_starts(size, gpus):
    waiting = {
        "PATCH podgroups": GANG["PATCH podgroups"] + 1,  # why it waits
        "PATCH jobs status": GANG["PATCH jobs status"] + 1,  # that its pods wait
        "POST events": 3 + 3,  # the group waits, so the Job does, at last the group starts; three pods say why
    }
    assert play(lambda cluster: one_after_the_other(cluster, size, gpus), nodes=3, start="500ms") == {
        "POST pods": size, "POST pods binding": size, **GANG, "PATCH pods status": size, **waiting,
    }  # fmt: skip


async def taking_back(cluster, lenders, owners):
    """All nodes are lent out to Jobs of four pods that need one each, and gangs of four take theirs back; the writes about those."""
    for name in ("lender", "owner"):
        named = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
        await cluster.client.create(Queue, {**named, "spec": {"weight": 1, "reclaimable": True}})
    for number in range(lenders):
        await cluster.submit(f"lent-{number}", 4, "6000s", gpus=8, queue="lender", minimum=1)
    await cluster.clock.sleep(60)
    cluster.counting.writes.clear()
    for number in range(owners):
        await cluster.submit(f"taken-{number}", 4, "6000s", gpus=8, queue="owner")
    await cluster.clock.sleep(120)
    assert [await cluster.phase(f"taken-{number}") for number in range(owners)] == ["Running"] * owners


async def taking_one_back(cluster):
    """One node after the other is left."""
    cluster.counting.about = b"taken"
    await taking_back(cluster, 6, 1)


def test_a_pod_that_others_leave_for_is_told_once_however_long_they_take():
    writes = play(taking_one_back, nodes=24, start="500ms", stop="uniform:500ms,9s")
    told, victims = 4, 4  # a victim's condition names the gang that it leaves for
    assert (writes["POST pods binding"], writes["PATCH pods status"]) == (4, told + victims)


async def taking_half_back(cluster):
    """Some of the Jobs lose all they have."""
    await taking_back(cluster, 10, 5)


@pytest.mark.parametrize("stop", ["500ms", "uniform:500ms,9s"])
def test_an_eviction_costs_three_writes_beside_those_of_the_pods_that_come_and_wait(stop):
    writes = play(taking_half_back, nodes=40, start="500ms", stop=stop)
    evicted, came, made_anew = 20, 20, 20
    about_pods = {write: count for write, count in writes.items() if "pods" in write}
    assert about_pods == {
        "POST pods eviction": evicted,
        "POST pods": came + made_anew,
        "POST pods binding": came,
        "PATCH pods status": evicted + came + made_anew,  # why it goes; why they wait
    }
    gangs = 10 + 5
    assert writes["POST events"] <= evicted + 6 * gangs
    assert writes["PATCH podgroups"] <= 5 * gangs


def test_numbers_that_never_rest_are_written_all_the_same():
    async def story(cluster):
        await cluster.submit("train", 40, "600s")
        await cluster.clock.sleep(40)
        assert 0 < (await cluster.group())["status"]["running"] < 40
        await cluster.clock.sleep(40)
        assert (await cluster.group())["status"]["running"] == 40

    assert 2 < play(story, nodes=5, start="uniform:0s,60s")["PATCH podgroups"] <= 8  # the budget of a gang


def test_a_gang_that_is_refused_again_and_again_is_tried_less_and_less_often():
    """Eight GPUs: one attempt and one more at once, then after 0.5, 1, 2, 4, 8, 16 and 30 s."""

    async def story(cluster):
        cluster.counting.refuses = "/refused-"
        await cluster.submit("refused", 8, "600s")
        await cluster.clock.sleep(20)
        assert 6 <= cluster.counting.writes["POST pods binding"] / 8 <= 8
        assert "not today" in (await cluster.group())["metadata"]["annotations"]["pumice.dev/verdict"]
        cluster.counting.refuses = ""
        await cluster.clock.sleep(40)
        assert await cluster.phase("refused") == "Running"

    play(story)

"""What a cycle found out about a group is written to that group, and not to the next one of its name."""

import asyncio
import random

import pytest
from tests.unit.scheduling.clusters import a_pod

from pumice import instant
from pumice.api import changes, decoding, names
from pumice.api.pods import Pod
from pumice.api.scheduling import PodGroup, Queue
from pumice.clock import RealClock, VirtualClock
from pumice.cluster.intake import Intake
from pumice.cluster.state import Cluster
from pumice.dispatch.statuses import Statuses
from pumice.kube.client import Client
from pumice.kube.recorder import Recorder
from pumice.kube.requests import PatchType
from pumice.kube.transport import Response
from pumice.local.apiserver.local import LocalTransport
from pumice.local.apiserver.server import Server, Settings
from pumice.local.up import install_kinds
from pumice.runtime import Runtime
from pumice.scheduling.core.codes import Code, Facts
from pumice.scheduling.core.decisions import Condition, Decisions, GangReport, GangSummary, PodVerdict, Shortage
from pumice.scheduling.core.verdict import FitError, Reason

NO_ROOM = Reason(Code.INSUFFICIENT, "resources", Facts(resource="cpu"))


@pytest.fixture
async def client():
    async with Server(Settings(chance=random.Random(0))) as server:
        client = Client(LocalTransport(server), clock=RealClock(), chance=random.Random(0))
        await install_kinds(client)
        yield client


async def make_group(client):
    body = {"metadata": {"name": "train"}, "spec": {"minMember": 0}, "status": {"phase": "Pending"}}
    return (await client.create(PodGroup, body, namespace="default")).json()


def a_report(uid, pods=()):
    return GangReport(
        gang="default/train",
        phase="Running",
        running=2,
        succeeded=0,
        failed=0,
        conditions=(),
        why=None,
        reasons=(),
        pods=pods,
        uid=uid,
    )


def statuses_over(client, *things, clock=None):
    cluster = Cluster(scheduler_names=frozenset({"volcano"}), default_queue="default")
    intake = Intake(cluster)
    for thing in things:
        intake.apply(changes.Upserted(object=thing))
    clock = clock or RealClock()
    recorder = Recorder(client, component="test", clock=clock)
    return cluster, Statuses(client, cluster, intake.apply, recorder, Runtime(clock=clock, chance=random.Random(0)))


async def phase_after(client, group, report):
    _, statuses = statuses_over(client, decoding.decode_value(PodGroup, group))
    await statuses.write(Decisions(gangs={report.gang: report}))
    found = (await client.get(PodGroup, "train", namespace="default")).json()
    return found["status"]["phase"], statuses.unwritten


async def test_a_report_reaches_the_group_it_is_about(client):
    group = await make_group(client)
    assert await phase_after(client, group, a_report(group["metadata"]["uid"])) == ("Running", False)


async def test_a_report_on_a_former_group_does_not_reach_its_successor(client):
    """A restarted Job's group has the name of the one before, and must be admitted for itself."""
    former = await make_group(client)
    await client.delete(PodGroup, "train", namespace="default")
    successor = await make_group(client)
    assert await phase_after(client, successor, a_report(former["metadata"]["uid"])) == ("Pending", True)


async def test_a_report_that_is_under_way_while_the_group_is_replaced_does_not_reach_its_successor(client):
    former = await make_group(client)
    await client.delete(PodGroup, "train", namespace="default")
    await make_group(client)
    assert await phase_after(client, former, a_report(former["metadata"]["uid"])) == ("Pending", True)


async def test_a_report_that_was_long_on_its_way_does_not_land_on_what_was_written_since(client):
    """Else a reason from before comes back, and stays until somebody looks again."""
    group = await make_group(client)
    since = {"status": {"phase": "Inqueue"}}
    await client.patch(PodGroup, "train", since, how=PatchType.MERGE, namespace="default")
    assert await phase_after(client, group, a_report(group["metadata"]["uid"])) == ("Inqueue", True)


async def test_what_was_said_of_pods_is_forgotten_once_they_no_longer_wait(client):
    """A scheduler lives for months, and every pod that ever waited would be remembered."""
    told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": NO_ROOM.text}
    cluster, statuses = statuses_over(client, a_pod("p", gang="train", status={"conditions": [told]}))
    (task,) = cluster.tasks.values()
    waiting = a_report("", pods=(PodVerdict(task, "Unschedulable", NO_ROOM),))
    await statuses.write(Decisions(gangs={waiting.gang: waiting}))
    assert statuses.remembered_pods == 1
    await statuses.write(Decisions(gangs={waiting.gang: a_report("")}))
    assert statuses.remembered_pods == 0


def waits_for_room(uid, *, nodes, resource="cpu", pods=()):
    """A gang of one whose pod finds no room on so many nodes."""
    reasons = (Reason(Code.INSUFFICIENT, "resources", Facts(resource=resource), nodes),)
    summary = GangSummary({"Pending": 1}, 1, {"Unschedulable": 1}, FitError(reasons, nodes), "p")
    shortage = Shortage(1, 1, summary)
    return GangReport(
        gang="default/train",
        phase="Inqueue",
        running=0,
        succeeded=0,
        failed=0,
        conditions=(Condition("Unschedulable", True, "NotEnoughResources", shortage),),
        why=shortage,
        reasons=reasons,
        pods=tuple(PodVerdict(task, "Unschedulable", summary) for task in pods),
        uid=uid,
    )


async def told(client):
    """The group as it stands, with the message of its condition."""
    group = (await client.get(PodGroup, "train", namespace="default")).json()
    return group, group["status"]["conditions"][0]["message"]


async def test_a_number_alone_is_not_written_and_another_resource_is(client):
    group = await make_group(client)
    cluster, statuses = statuses_over(client, decoding.decode_value(PodGroup, group))
    said = []
    for report in (
        waits_for_room(group["metadata"]["uid"], nodes=3),
        waits_for_room(group["metadata"]["uid"], nodes=4),
        waits_for_room(group["metadata"]["uid"], nodes=4, resource="example.com/gen-1"),
        waits_for_room(group["metadata"]["uid"], nodes=4, resource="example.com/gen-2"),
    ):
        await statuses.write(Decisions(gangs={report.gang: report}))
        now, message = await told(client)
        Intake(cluster).apply(changes.Upserted(object=decoding.decode_value(PodGroup, now)))
        said.append(message.rpartition(": ")[2])
    assert said == [
        "3 Insufficient cpu.",
        "3 Insufficient cpu.",
        "4 Insufficient example.com/gen-1.",
        "4 Insufficient example.com/gen-2.",
    ]


def test_what_a_pod_was_told_stands_for_a_while_and_reasons_that_change_to_and_fro_are_said_of_its_group():
    """Where others leave and come, a gang of fifty would be told fifty times what holds for a second."""
    clock = VirtualClock(instant.parse_instant("2026-01-31T12:00:00Z"))

    async def main():
        async with Server(Settings(now=clock.now, chance=random.Random(0))) as server:
            client = Client(LocalTransport(server), clock=clock, chance=random.Random(0))
            await install_kinds(client)
            group = decoding.decode_value(PodGroup, await make_group(client))
            annotations = {names.GROUP_NAME: "train"}
            spec = {"schedulerName": "volcano", "containers": [{"name": "c", "image": "i"}]}
            body = {"metadata": {"name": "p", "annotations": annotations}, "spec": spec}
            pod = (await client.create(Pod, body, namespace="default")).into(Pod)
            cluster, statuses = statuses_over(client, group, pod, clock=clock)

            async def say(resource):
                tasks = tuple(cluster.tasks.values())
                report = waits_for_room(group.metadata.uid, nodes=3, resource=resource, pods=tasks)
                await statuses.write(Decisions(gangs={report.gang: report}))
                conditions = (await client.get(Pod, "p", namespace="default")).json()["status"]["conditions"]
                return conditions[-1]["message"].rpartition(" ")[2], (await told(client))[1].rpartition(" ")[2]

            await clock.sleep(60)  # it is no longer new, and its gang not forming
            assert await say("cpu") == ("cpu.", "cpu.")
            assert await say("memory") == ("cpu.", "memory.")
            assert statuses.again_at == clock.now() + 10 * instant.SECOND
            assert await say("cpu") == ("cpu.", "cpu.")
            assert statuses.again_at is None
            await clock.sleep(10)
            assert await say("memory") == ("memory.", "memory.")

    clock.run(main())


async def test_a_new_leader_writes_nothing_where_only_numbers_have_changed(client):
    """Neither on the group nor on its pods, of which there may be very many."""
    group = await make_group(client)
    uid = group["metadata"]["uid"]
    _, former = statuses_over(client, decoding.decode_value(PodGroup, group))
    before = waits_for_room(uid, nodes=3)
    await former.write(Decisions(gangs={before.gang: before}))
    written, message = await told(client)
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    pod = a_pod("p", gang="train", status={"conditions": [condition]})
    cluster, successor = statuses_over(client, decoding.decode_value(PodGroup, written), pod)
    after = waits_for_room(uid, nodes=4, pods=tuple(cluster.tasks.values()))
    await successor.write(Decisions(gangs={after.gang: after}))
    assert (await told(client))[0]["metadata"]["resourceVersion"] == written["metadata"]["resourceVersion"]
    assert (
        successor.remembered_pods == 1
    )  # it exists in the cache alone: to write it would have failed, and be forgotten
    other = waits_for_room(uid, nodes=4, resource="memory", pods=tuple(cluster.tasks.values()))
    await successor.write(Decisions(gangs={other.gang: other}))
    assert (await told(client))[1].endswith("4 Insufficient memory.")
    assert successor.remembered_pods == 0


class Counting:
    """A transport that counts patches, and says what happens before an answer to one is heard."""

    def __init__(self, inner):
        self.inner = inner
        self.patches = 0
        self.before_answer = lambda: None

    async def call(self, request):
        response = await self.inner.call(request)
        if request.method == "PATCH":
            self.patches += 1
            self.before_answer()
        return response

    async def close(self):
        await self.inner.close()


@pytest.fixture
async def counting():
    async with Server(Settings(chance=random.Random(0))) as server:
        transport = Counting(LocalTransport(server))
        await install_kinds(Client(transport, clock=RealClock(), chance=random.Random(0)))
        transport.patches = 0
        yield transport


async def test_what_was_written_is_not_written_again_because_the_watch_is_late(counting):
    client = Client(counting, clock=RealClock(), chance=random.Random(0))
    group = await make_group(client)
    cluster, statuses = statuses_over(client, decoding.decode_value(PodGroup, group))
    report = a_report(group["metadata"]["uid"])
    for _ in range(2):
        await statuses.write(Decisions(gangs={report.gang: report}))
    assert counting.patches == 1
    assert cluster.gangs[report.gang].group.status.phase == "Running"


async def test_what_somebody_else_has_written_over_it_is_written_again(counting):
    client = Client(counting, clock=RealClock(), chance=random.Random(0))
    group = await make_group(client)
    cluster, statuses = statuses_over(client, decoding.decode_value(PodGroup, group))
    report = a_report(group["metadata"]["uid"])
    for _ in range(3):
        await statuses.write(Decisions(gangs={report.gang: report}))
    other = await client.patch(
        PodGroup, "train", {"status": {"phase": "Pending"}}, how=PatchType.MERGE, namespace="default"
    )
    Intake(cluster).apply(changes.Upserted(object=other.into(PodGroup)))
    await statuses.write(Decisions(gangs={report.gang: report}))
    assert counting.patches == 3  # ours, theirs, and ours
    assert cluster.gangs[report.gang].group.status.phase == "Running"


async def test_an_answer_about_a_group_whose_end_was_heard_of_before_does_not_bring_it_back(counting):
    client = Client(counting, clock=RealClock(), chance=random.Random(0))
    group = decoding.decode_value(PodGroup, await make_group(client))
    cluster, statuses = statuses_over(client, group)
    counting.before_answer = lambda: Intake(cluster).apply(changes.Deleted(object=group))
    report = a_report(group.metadata.uid)
    await statuses.write(Decisions(gangs={report.gang: report}))
    assert (counting.patches, report.gang in cluster.gangs) == (1, False)


class Refusing:
    """Refuses what is written to groups while a write to a queue is under way, which is answered after that."""

    def __init__(self, inner):
        self.inner = inner
        self.queue_asked, self.group_refused = asyncio.Event(), asyncio.Event()

    async def call(self, request):
        if request.method == "PATCH" and "/podgroups/" in request.path:
            await self.queue_asked.wait()
            self.group_refused.set()
            return Response(409, {}, b'{"kind": "Status", "status": "Failure", "reason": "Conflict", "code": 409}')
        if request.method == "PATCH":
            self.queue_asked.set()
            await self.group_refused.wait()
        return await self.inner.call(request)


async def test_what_was_refused_is_written_again_though_a_queue_is_answered_later(client):
    group = await make_group(client)
    queue = (await client.create(Queue, {"metadata": {"name": "q"}, "spec": {"weight": 1}})).json()
    refusing = Client(Refusing(client._transport), clock=RealClock(), chance=random.Random(0))
    _, statuses = statuses_over(refusing, decoding.decode_value(PodGroup, group), decoding.decode_value(Queue, queue))
    report = a_report(group["metadata"]["uid"])
    await statuses.write(Decisions(gangs={report.gang: report}, queues={"q": {"cpu": 1000}}))
    assert (await client.get(Queue, "q")).json()["status"]["allocated"]["cpu"] == "1"
    assert statuses.unwritten


async def test_a_pod_that_was_told_why_it_waits_is_known_with_its_new_version(client):
    """A bind names the version of the pod: one that is out of date would be refused."""
    group = await make_group(client)
    body = {
        "metadata": {"name": "p", "annotations": {names.GROUP_NAME: "train"}},
        "spec": {"schedulerName": "volcano", "containers": [{"name": "c", "image": "i"}]},
    }
    made = (await client.create(Pod, body, namespace="default")).into(Pod)
    cluster, statuses = statuses_over(client, decoding.decode_value(PodGroup, group), made)
    report = waits_for_room(group["metadata"]["uid"], nodes=1, pods=tuple(cluster.tasks.values()))
    await statuses.write(Decisions(gangs={report.gang: report}))
    stands = (await client.get(Pod, "p", namespace="default")).into(Pod)
    assert stands.status.conditions[0].reason == "Unschedulable"
    assert cluster.tasks[made.metadata.uid].pod.metadata.resource_version == stands.metadata.resource_version


async def test_what_a_queue_allocates_is_written_over_what_is_no_quantity(client):
    body = {"metadata": {"name": "q"}, "spec": {"weight": 1}}
    await client.create(Queue, body)
    nonsense = {"status": {"allocated": {"cpu": "1e1.5"}}}
    written = await client.patch(Queue, "q", nonsense, how=PatchType.MERGE, subresource="status")
    _, statuses = statuses_over(client, decoding.decode_value(Queue, written.json()))
    await statuses.write(Decisions(queues={"q": {"cpu": 1000}}))
    assert (await client.get(Queue, "q")).json()["status"]["allocated"]["cpu"] == "1"

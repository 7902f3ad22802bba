"""What a cycle found out about a group is written to that group, and not to the next one of its name."""

import random

import pytest
from tests.unit.scheduling.clusters import a_pod

from pumice.api import changes, decoding
from pumice.api.scheduling import PodGroup
from pumice.clock import RealClock
from pumice.cluster.intake import Intake
from pumice.cluster.state import Cluster
from pumice.dispatch.runtime import Runtime
from pumice.dispatch.statuses import Statuses
from pumice.kube.client import Client
from pumice.kube.recorder import Recorder
from pumice.local.apiserver.local import LocalTransport
from pumice.local.apiserver.server import Server, Settings
from pumice.local.up import install_kinds
from pumice.scheduling.core.decisions import Decisions, GangReport, PodVerdict


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
        message="",
        reasons=(),
        pods=pods,
        uid=uid,
    )


def statuses_over(client, *things):
    cluster = Cluster(scheduler_names=frozenset({"volcano"}), default_queue="default")
    intake = Intake(cluster)
    for thing in things:
        intake.apply(changes.Upserted(object=thing))
    clock = RealClock()
    recorder = Recorder(client, component="test", clock=clock)
    return cluster, Statuses(client, cluster, recorder, Runtime(clock=clock, chance=random.Random(0)))


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


async def test_what_was_said_of_pods_is_forgotten_once_they_no_longer_wait(client):
    """A scheduler lives for months, and every pod that ever waited would be remembered."""
    told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
    cluster, statuses = statuses_over(client, a_pod("p", gang="train", status={"conditions": [told]}))
    (task,) = cluster.tasks.values()
    waiting = a_report("", pods=(PodVerdict(task, "Unschedulable", "no room"),))
    await statuses.write(Decisions(gangs={waiting.gang: waiting}))
    assert statuses.remembered_pods == 1
    await statuses.write(Decisions(gangs={waiting.gang: a_report("")}))
    assert statuses.remembered_pods == 0

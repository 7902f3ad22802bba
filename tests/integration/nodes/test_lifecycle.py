"""Nodes that fall silent, come back or vanish, on the embedded server under virtual time."""

import asyncio
import contextlib
import random

from tests.bodies.world import running, world

from pumice import instant
from pumice.api.changes import Upserted
from pumice.api.core import Node
from pumice.api.pods import Pod
from pumice.clock import VirtualClock
from pumice.local.apiserver.local import LocalTransport
from pumice.local.apiserver.server import Server, Settings
from pumice.local.nodes.lifecycle import NOT_READY, UNREACHABLE, NodeLifecycle
from pumice.local.nodes.pretend import PretendAgent, Trouble, pretend_nodes
from pumice.runtime import Runtime

NOON = instant.parse_instant("2026-01-31T12:00:00Z")
FOR_EVER = {"pumice.dev/pretend-run": "10h"}


def play(body):
    """Runs `body(place, agent)` beside a lifecycle controller and an agent with two nodes, a and b."""
    clock = VirtualClock(NOON)

    async def main():
        async with (
            Server(Settings(now=clock.now, chance=random.Random(0))) as server,
            world(LocalTransport(server), clock, "default", patience_s=86_400.0) as place,
            watched(place, clock),
        ):
            facts = pretend_nodes(1, prefix="a") + pretend_nodes(1, prefix="b")
            agent = PretendAgent(place.client, place.informers, facts, Runtime(clock=clock, chance=random.Random(1)))
            async with running(agent):
                await body(place, agent)

    clock.run(main())


@contextlib.asynccontextmanager
async def watched(place, clock):
    lifecycle = NodeLifecycle(place.client, place.informers, Runtime(clock=clock, chance=random.Random(2)))
    task = asyncio.create_task(lifecycle.run())
    try:
        yield
        assert not task.done(), task
    finally:
        task.cancel()
        await asyncio.wait({task})


def readiness(node):
    return next(each["status"] for each in node["status"]["conditions"] if each["type"] == "Ready")


def taints(node):
    return sorted((each["key"], each["effect"]) for each in node["spec"].get("taints", ()))


def both(key):
    return [(key, "NoExecute"), (key, "NoSchedule")]


def disruption(pod):
    return next((each for each in pod["status"]["conditions"] if each["type"] == "DisruptionTarget"), None)


def test_a_silent_node_becomes_unknown_and_unreachable_after_forty_seconds_and_not_before():
    async def body(place, agent):
        agent.trouble("a0", Trouble.GONE)
        began = place.clock.monotonic()
        await place.node_until("a0", lambda node: readiness(node) == "Unknown")
        # The last heartbeat may have been up to eleven seconds before the silence began.
        assert 28 < place.clock.monotonic() - began <= 41
        node = await place.node_until("a0", lambda node: taints(node) == both(UNREACHABLE))
        assert {each["status"] for each in node["status"]["conditions"]} == {"Unknown"}

    play(body)


def test_nodes_that_keep_beating_are_left_alone_for_hours():
    async def body(place, agent):
        del agent
        before = await place.node("b0")
        await place.clock.sleep(3 * 3600)
        after = await place.node("b0")
        assert (readiness(after), taints(after)) == ("True", [])
        assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]

    play(body)


def test_a_node_that_comes_back_loses_its_taints_and_keeps_its_pods():
    async def body(place, agent):
        await place.submit("patient", "a0", annotations=FOR_EVER)
        await place.phase("patient", "Running")
        agent.trouble("a0", Trouble.GONE)
        await place.node_until("a0", lambda node: taints(node) == both(UNREACHABLE))
        await place.clock.sleep(200)  # of the five minutes that every pod tolerates
        agent.trouble("a0", Trouble.NONE)
        node = await place.node_until("a0", lambda node: readiness(node) == "True" and not taints(node))
        assert sorted(each["status"] for each in node["status"]["conditions"]) == ["False", "False", "False", "True"]
        await place.clock.sleep(3600)
        pod = await place.pod("patient")
        assert pod["status"]["phase"] == "Running"
        assert disruption(pod) is None

    play(body)


def test_pods_leave_a_silent_node_when_their_toleration_ends_and_say_why():
    async def body(place, agent):
        now = {"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}
        always = {"operator": "Exists"}
        await place.submit("hasty", "a0", annotations=FOR_EVER, tolerations=[now])
        await place.submit("ordinary", "a0", annotations=FOR_EVER)
        await place.submit("loyal", "a0", annotations=FOR_EVER, tolerations=[always])
        await place.submit("elsewhere", "b0", annotations=FOR_EVER)
        for name in ("hasty", "ordinary", "loyal", "elsewhere"):
            await place.phase(name, "Running")
        agent.trouble("a0", Trouble.GONE)
        leaving = [
            await place.until(name, lambda pod: "deletionTimestamp" in pod["metadata"])
            for name in ("hasty", "ordinary")
        ]
        assert [disruption(pod)["reason"] for pod in leaving] == ["DeletionByTaintManager"] * 2
        silent_at, left_at = (instant.parse_instant(disruption(pod)["lastTransitionTime"]) for pod in leaving)
        assert left_at - silent_at == 300 * instant.SECOND
        await place.clock.sleep(3600)
        for name in ("loyal", "elsewhere"):
            assert "deletionTimestamp" not in (await place.pod(name))["metadata"]
        agent.trouble("a0", Trouble.NONE)  # its kubelet is back, and ends what was deleted meanwhile
        await place.gone("hasty")
        await place.gone("ordinary")

    play(body)


def test_a_node_that_says_it_is_not_ready_keeps_new_pods_away():
    async def body(place, agent):
        agent.trouble("a0", Trouble.NOT_READY)
        await place.node_until("a0", lambda node: taints(node) == both(NOT_READY))
        agent.trouble("a0", Trouble.NONE)
        await place.node_until("a0", lambda node: not taints(node))

    play(body)


def test_pods_of_a_node_that_was_deleted_are_collected_as_failed():
    async def body(place, agent):
        del agent
        await place.submit("orphan", "a0", annotations=FOR_EVER)
        await place.submit("sibling", "b0", annotations=FOR_EVER)
        await place.phase("orphan", "Running")
        lives = []
        place.informers.of(Pod).subscribe(lives.extend)
        await place.client.delete(Node, "a0")
        await place.gone("orphan")
        seen = [
            each.object.status for each in lives if isinstance(each, Upserted) and each.object.metadata.name == "orphan"
        ]
        reasons = [each.reason for each in seen[-1].conditions if each.type == "DisruptionTarget"]
        assert (seen[-1].phase, reasons) == ("Failed", ["DeletionByPodGC"])
        await place.clock.sleep(600)
        assert (await place.pod("sibling"))["status"]["phase"] == "Running"

    play(body)


def test_a_pod_that_is_seen_before_its_node_is_not_taken_for_an_orphan():
    async def body(place, agent):
        del agent
        await place.submit("early", "later", annotations=FOR_EVER)
        await place.clock.sleep(20)
        await place.client.create(Node, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "later"}})
        await place.clock.sleep(35)
        assert "deletionTimestamp" not in (await place.pod("early"))["metadata"]

    play(body)


def test_a_node_that_never_had_an_agent_becomes_unknown_too():
    async def body(place, agent):
        del agent
        await place.client.create(Node, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "stillborn"}})
        node = await place.node_until("stillborn", lambda node: taints(node) == both(UNREACHABLE))
        assert {each["reason"] for each in node["status"]["conditions"]} == {"NodeStatusNeverUpdated"}

    play(body)

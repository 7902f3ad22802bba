"""Pretend nodes on the embedded server, in process and under virtual time: hours pass in milliseconds."""

import os
import random
import socket

import pytest
from tests.bodies import pretend_nodes as bodies
from tests.bodies.world import running, world

from pumice import instant
from pumice.api import names
from pumice.api.coordination import Lease
from pumice.api.core import Node
from pumice.api.events import CoreEvent
from pumice.api.kinds import by_struct
from pumice.api.pods import Pod
from pumice.clock import VirtualClock
from pumice.errors import Refused
from pumice.local.apiserver.local import LocalTransport
from pumice.local.apiserver.server import Server, Settings
from pumice.local.nodes import distributions, pretend, registration
from pumice.local.nodes.pretend import PretendAgent, Trouble, pretend_nodes
from pumice.local.nodes.pretend_pods import Behaviour
from pumice.runtime import Runtime

NOON = instant.parse_instant("2026-01-31T12:00:00Z")


class Counting:
    """A transport that counts the writes that pass."""

    def __init__(self, inner):
        self.inner = inner
        self.writes = []

    async def call(self, request):
        if request.method != "GET" and "/leases" not in request.path and "/events" not in request.path:
            self.writes.append((request.method, request.path))
        return await self.inner.call(request)

    async def close(self):
        await self.inner.close()


def play(body, *args):
    """Runs `body(world, ...)` against a fresh embedded server; returns what it returns."""
    clock = VirtualClock(NOON)

    async def main():
        async with Server(Settings(now=clock.now, chance=random.Random(0))) as server:
            transport = Counting(LocalTransport(server))
            async with world(transport, clock, "default", patience_s=86_400.0) as place:
                place.transport = transport
                return await body(place, *args)

    return clock.run(main())


@pytest.mark.parametrize("body", bodies.BODIES, ids=lambda body: body.__name__)
def test_on_the_embedded_server(body):
    play(body)


def test_a_pod_costs_two_writes_from_bound_to_succeeded():
    async def body(place):
        async with running(bodies.an_agent(place, "cheap")):
            await place.submit("p", "cheap-0", annotations={"pumice.dev/pretend-run": "1h"})
            place.transport.writes.clear()
            await place.phase("p", "Succeeded")
            assert place.transport.writes == [("PATCH", "/api/v1/namespaces/default/pods/p/status")] * 2

    play(body)


def test_run_times_and_failures_are_drawn_from_distributions_and_the_same_for_the_same_seed():
    async def body(place):
        behaviour = Behaviour(run=distributions.parse("exponential:60s"), failure_rate=0.5)
        async with running(bodies.an_agent(place, "drawn", behaviour=behaviour)):
            for number in range(20):
                await place.submit(f"p{number}", "drawn-0")
            return [
                (status["phase"], status["containerStatuses"][0]["state"]["terminated"]["finishedAt"])
                for number in range(20)
                if (status := await place.phase(f"p{number}", "Succeeded", "Failed"))
            ]

    first = play(body)
    assert {phase for phase, _ in first} == {"Succeeded", "Failed"}
    assert len({finished_at for _, finished_at in first}) > 10
    assert play(body) == first


def test_a_lease_is_renewed_four_times_in_its_duration_and_not_at_all_once_the_node_is_gone():
    async def body(place):
        async def renewed():
            lease = (await place.client.get(Lease, "beats-0", namespace="kube-node-lease")).into(Lease)
            return instant.parse_instant(lease.spec.renew_time)

        async with running(bodies.an_agent(place, "beats", 1)) as agent:
            await place.clock.sleep(95.0)
            assert place.clock.now() - await renewed() <= 11 * instant.SECOND
            agent.trouble("beats-0", Trouble.GONE)
            await place.clock.sleep(95.0)
            assert place.clock.now() - await renewed() >= 84 * instant.SECOND
            agent.trouble("beats-0", Trouble.NONE)
            await place.clock.sleep(1.0)
            assert place.clock.now() - await renewed() <= instant.SECOND

    play(body)


def test_a_rejected_pod_and_a_bad_annotation_are_told_in_events():
    async def body(place):
        async with running(bodies.an_agent(place, "events")):
            gpus = {"nvidia.com/gpu": "9"}
            await place.submit("big", "events-0", container={"resources": {"limits": gpus, "requests": gpus}})
            await place.submit("odd", "events-0", annotations={"pumice.dev/pretend-run": "soon"})
            await place.phase("big", "Failed")
            await place.phase("odd", "Running")
            await place.clock.sleep(5.0)
            events = await place.client.list_json(by_struct(CoreEvent), namespace="default")
            told = {(each["involvedObject"]["name"], each["type"], each["reason"]) for each in events}
            assert told == {
                ("big", "Warning", "OutOfnvidia.com/gpu"),
                ("odd", "Warning", "PretendAnnotation"),
            }

    play(body)


def test_a_node_of_another_agent_is_not_taken_over():
    async def body(place):
        other = {"nodeInfo": {"containerRuntimeVersion": "containerd://2.0"}}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "real-0"}, "status": other}
        await place.client.create(Node, node)
        agent = bodies.an_agent(place, "real", 1)
        with pytest.raises(Refused, match=r"'real-0' belongs to another agent \(containerd://2.0\); join under"):
            await agent.run()

    play(body)


async def until_it_beats(place, name):
    """Registered, and its lease is written."""
    while not [each for each in await place.client.list_json(by_struct(Lease)) if each["metadata"]["name"] == name]:
        await place.clock.sleep(1)


def test_the_nodes_of_a_live_agent_are_not_taken_over_until_it_has_been_silent(monkeypatch):
    async def body(place):
        async with running(bodies.an_agent(place, "kept", 1)):
            await until_it_beats(place, "kept-0")
            monkeypatch.setattr(pretend, "own_identity", lambda: "elsewhere:process-7-1")
            with pytest.raises(Refused, match=r"'kept-0' is kept by an agent that is alive \(.*\); stop that one, or"):
                await bodies.an_agent(place, "kept", 1).run()
        await place.clock.sleep(registration.LEASE_S + 1)
        async with running(bodies.an_agent(place, "kept", 1)):
            node = (await place.client.get(Node, "kept-0")).into(Node)
            assert node.metadata.annotations[names.NODE_AGENT] == "elsewhere:process-7-1"

    play(body)


def test_the_nodes_of_an_agent_of_this_machine_that_has_died_are_taken_over_at_once(monkeypatch):
    async def body(place):
        monkeypatch.setattr(pretend, "own_identity", lambda: f"{socket.gethostname()}:process-{os.getpid()}-1")
        async with running(bodies.an_agent(place, "late", 1)):
            await until_it_beats(place, "late-0")
        monkeypatch.undo()
        async with running(bodies.an_agent(place, "late", 1)):
            node = (await place.client.get(Node, "late-0")).into(Node)
            assert node.metadata.annotations[names.NODE_AGENT] == registration.own_identity()

    play(body)


def test_a_node_that_somebody_deletes_plays_its_pods_no_longer():
    async def body(place):
        async with running(bodies.an_agent(place, "deleted")):
            await place.client.delete(Node, "deleted-0")
            await place.submit("unheard", "deleted-0")
            await place.submit("heard", "deleted-1")
            await place.phase("heard", "Running")
            assert (await place.pod("unheard"))["status"]["phase"] == "Pending"

    play(body)


def test_a_node_that_carries_the_annotation_for_gone_falls_silent_until_it_is_taken_off():
    async def body(place):
        async with running(bodies.an_agent(place, "silent")):
            gone = {"metadata": {"annotations": {"pumice.dev/pretend-gone": "true"}}}
            await place.client.patch(Node, "silent-0", gone)
            await place.submit("unheard", "silent-0")
            await place.clock.sleep(100.0)
            assert (await place.pod("unheard"))["status"]["phase"] == "Pending"
            lease = (await place.client.get(Lease, "silent-0", namespace="kube-node-lease")).into(Lease)
            assert place.clock.now() - instant.parse_instant(lease.spec.renew_time) >= 99 * instant.SECOND
            await place.client.patch(Node, "silent-0", {"metadata": {"annotations": {"pumice.dev/pretend-gone": None}}})
            await place.phase("unheard", "Running")

    play(body)


def test_a_pod_of_the_same_name_begins_anew():
    async def body(place):
        async with running(bodies.an_agent(place, "again")):
            for _ in range(3):
                await place.submit("p", "again-0", annotations={"pumice.dev/pretend-run": "10s"})
                await place.phase("p", "Succeeded")
                await place.client.delete(Pod, "p", namespace="default")
                await place.gone("p")

    play(body)


def test_a_thousand_pods_come_and_go():
    async def body(place):
        nodes = pretend_nodes(100, capacity={"pods": "1000"})
        chance = random.Random(0)
        agent = PretendAgent(
            place.client,
            place.informers,
            nodes,
            Runtime(clock=place.clock, chance=chance),
            behaviour=Behaviour(run=distributions.parse("uniform:1s,60s")),
        )
        async with running(agent):
            for number in range(1_000):
                await place.submit(f"p{number}", f"node-{number % 100}")
            await place.clock.sleep(61.0)
            phases = {pod.status.phase for pod in (await place.client.list(Pod, namespace="default")).items}
            assert phases == {"Succeeded"}

    play(body)

"""Ordinary pods on an embedded server: one by one, first fit, and told why they wait."""

import random

import pytest
from tests.bodies.beside import beside

from pumice.api.core import Node
from pumice.api.pods import Pod
from pumice.clock import RealClock
from pumice.kube.client import Client
from pumice.kube.informer import Informers
from pumice.kube.requests import PatchType
from pumice.local.apiserver.local import LocalTransport
from pumice.local.apiserver.server import Server, Settings
from pumice.local.nodes.ordinary import OrdinaryPods
from pumice.runtime import Runtime


def a_node(name, *, cpu="4", labels=None, **spec):
    amounts = {"cpu": cpu, "memory": "8Gi", "pods": "10"}
    status = {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": spec, "status": status}


def a_pod(name, *, cpu="1", scheduler="default-scheduler", **spec):
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {"metadata": {"name": name}, "spec": {"schedulerName": scheduler, "containers": [container]} | spec}


class World:
    def __init__(self, client, server):
        self.client = client
        self.history = server.backend.store.collection("pods").history

    async def nodes(self, *nodes):
        for node in nodes:
            await self.client.create(Node, node)

    async def pods(self, *pods):
        for pod in pods:
            await self.client.create(Pod, pod, namespace="default")

    async def pod(self, name):
        return (await self.client.get(Pod, name, namespace="default")).json()

    async def until(self, name, holds):
        """The pod, as soon as it is as wanted; a test that never gets there ends by its timeout."""
        while True:
            news = self.history.news()
            pod = await self.pod(name)
            if holds(pod):
                return pod
            await news

    async def place_of(self, name):
        return (await self.until(name, lambda pod: "nodeName" in pod["spec"]))["spec"]["nodeName"]

    async def complaint_of(self, name, word=""):
        def waits(pod):
            found = [c for c in pod["status"].get("conditions", ()) if c["type"] == "PodScheduled"]
            return found and found[0]["status"] == "False" and word in found[0]["message"]

        pod = await self.until(name, waits)
        return next(c["message"] for c in pod["status"]["conditions"] if c["type"] == "PodScheduled")


@pytest.fixture
async def world():
    clock, chance = RealClock(), random.Random(5)
    async with Server(Settings(chance=chance)) as server:
        client = Client(LocalTransport(server), clock=clock, chance=chance)
        informers = Informers(client, clock=clock, chance=chance)
        ordinary = OrdinaryPods(client, informers, Runtime(clock=clock, chance=random.Random(0)))
        async with beside(informers.run(), ordinary.run()):
            yield World(client, server)


async def test_pods_fill_the_first_node_and_then_the_next(world):
    await world.nodes(a_node("n1", cpu="2"), a_node("n2", cpu="2"))
    await world.pods(*(a_pod(f"p{number}") for number in range(3)))
    assert [await world.place_of(f"p{number}") for number in range(3)] == ["n1", "n1", "n2"]


async def test_half_a_gang_is_placed_where_half_of_it_fits(world):
    await world.nodes(a_node("n1", cpu="2"))
    await world.pods(*(a_pod(f"p{number}") for number in range(4)))
    assert await world.place_of("p0") == await world.place_of("p1") == "n1"
    assert await world.complaint_of("p2") == "0/1 nodes are available: 1 Insufficient cpu."


async def test_a_pod_that_waits_is_placed_when_room_comes(world):
    await world.nodes(a_node("n1", cpu="1"))
    await world.pods(a_pod("p"), a_pod("q"))
    await world.place_of("p")
    await world.complaint_of("q")
    await world.client.delete(Pod, "p", namespace="default", grace_s=0)
    assert await world.place_of("q") == "n1"


async def test_closed_nodes_and_nodes_without_the_label_are_passed_over(world):
    taint = {"key": "gpu", "effect": "NoSchedule"}
    await world.nodes(
        a_node("a", unschedulable=True), a_node("b", taints=[taint]), a_node("c"), a_node("d", labels={"zone": "x"})
    )
    await world.pods(a_pod("p", nodeSelector={"zone": "x"}), a_pod("q"))
    assert (await world.place_of("p"), await world.place_of("q")) == ("d", "c")
    toleration = {"key": "gpu", "operator": "Exists"}
    await world.pods(a_pod("r", tolerations=[toleration]))
    assert await world.place_of("r") == "b"


async def test_pods_of_other_schedulers_and_gated_pods_are_left_alone(world):
    await world.nodes(a_node("n1"))
    await world.pods(
        a_pod("gang", scheduler="pumice"), a_pod("gated", schedulingGates=[{"name": "example.com/g"}]), a_pod("p")
    )
    await world.place_of("p")
    assert "nodeName" not in (await world.pod("gang"))["spec"]
    await world.client.patch(Pod, "gated", {"spec": {"schedulingGates": []}}, how=PatchType.MERGE, namespace="default")
    assert await world.place_of("gated") == "n1"


async def test_pods_that_others_placed_take_their_room(world):
    await world.nodes(a_node("n1", cpu="2"))
    await world.pods(a_pod("taken", cpu="2", scheduler="pumice", nodeName="n1"), a_pod("p"))
    assert "Insufficient cpu" in await world.complaint_of("p")


async def test_without_nodes_a_pod_is_told_so(world):
    await world.pods(a_pod("p"))
    assert await world.complaint_of("p") == "0/0 nodes are available."
    await world.nodes(a_node("n1"))
    assert await world.place_of("p") == "n1"

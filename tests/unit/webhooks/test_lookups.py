"""What reviews look up follows the informers, and is not counted anew for every review."""

import asyncio
import random

import pytest
from tests.bodies.beside import beside
from tests.bodies.patience import PATIENCE_S
from tests.cases import admission

from pumice.api.core import Node
from pumice.api.scheduling import PodGroup, Queue
from pumice.clock import RealClock
from pumice.kube.client import Client
from pumice.kube.informer import Informers
from pumice.local.apiserver.local import LocalTransport
from pumice.local.apiserver.server import Server, Settings
from pumice.local.up import install_kinds
from pumice.webhooks.lookups import InformerLookup


class Place:
    def __init__(self, client, informers):
        self.client = client
        self.informers = informers
        self.lookup = InformerLookup(informers)

    async def until(self, struct, test):
        changed = asyncio.Event()
        leave = self.informers.of(struct).subscribe(lambda _: changed.set())
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not test():
                    changed.clear()
                    await changed.wait()
        finally:
            leave()

    async def node(self, name, **allocatable):
        body = admission.node(name, **allocatable)
        await self.client.create(Node, body)
        await self.client.patch(Node, name, {"status": {"allocatable": allocatable}}, subresource="status")


@pytest.fixture
async def place():
    async with Server(Settings(chance=random.Random(0))) as server:
        client = Client(LocalTransport(server), clock=RealClock(), chance=random.Random(0))
        await install_kinds(client)
        informers = Informers(client, clock=RealClock(), chance=random.Random(0))
        made = Place(client, informers)
        async with beside(informers.run()):
            await informers.synced()
            yield made


async def test_a_cluster_without_nodes_has_no_size(place):
    assert place.lookup.cluster_size() is None


async def test_the_size_follows_the_nodes_and_stays_while_they_only_beat(place):
    await place.node("a", cpu="4", memory="8Gi")
    await place.node("b", cpu="8", memory="4Gi")
    await place.until(Node, lambda: (size := place.lookup.cluster_size()) and size.total.get("cpu") == "12000m")
    size = place.lookup.cluster_size()
    assert size.total == {"cpu": "12000m", "memory": 12 * 2**30}
    assert size.largest_node == {"cpu": "8", "memory": "8Gi"}
    seen = []
    leave = place.informers.of(Node).subscribe(seen.extend)
    before = len(seen)
    await place.client.patch(Node, "a", {"metadata": {"labels": {"beat": "1"}}})
    await place.until(Node, lambda: len(seen) > before)
    leave()
    assert place.lookup.cluster_size() is size, "counted anew for a label"
    await place.client.delete(Node, "b")
    await place.until(Node, lambda: place.lookup.cluster_size().total["cpu"] == "4000m")


async def test_children_follow_the_queues(place):
    for name, parent in (("team", {"parent": "root"}), ("a", {"parent": "team"}), ("b", {})):
        await place.client.create(Queue, admission.queue(name, **parent))
    await place.until(Queue, lambda: place.lookup.queue("b") is not None)

    def names(queue):
        return {child.metadata.name for child in place.lookup.children(queue)}

    assert names("root") == {"team", "b"}
    assert names("team") == {"a"}
    await place.client.delete(Queue, "a")
    await place.until(Queue, lambda: names("team") == set())


async def test_groups_are_watched_only_where_somebody_asks_for_them(place):
    assert PodGroup not in place.informers._informers
    assert place.lookup.pod_group("team", "g") is None
    assert PodGroup in place.informers._informers

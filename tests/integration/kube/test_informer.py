"""Whatever the network and the server do, an informer ends up with what is there, and its subscribers too."""

import asyncio
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.integration.kube.faults import Faulty

from pumice import instant
from pumice.api.changes import Deleted, Relisted, Upserted
from pumice.api.core import ConfigMap
from pumice.clock import VirtualClock
from pumice.kube import errors
from pumice.kube.client import Client
from pumice.kube.informer import Informer
from pumice.local.apiserver import history
from pumice.local.apiserver.local import LocalTransport
from pumice.local.apiserver.server import Server, Settings

NOON = instant.parse_instant("2026-11-15T12:00:00Z")
NAMES = ("a", "b", "c")


class Follower:
    """A subscriber that keeps its own picture from news alone, and checks that each of them makes sense."""

    def __init__(self):
        self.alive = {}  # uid -> (name, value)
        self.gone = set()

    def __call__(self, news):
        for each in news:
            if isinstance(each, Relisted):
                assert each.uids == set(self.alive)
                continue
            uid = each.object.metadata.uid
            assert uid not in self.gone, "a dead object came back"
            if isinstance(each, Upserted):
                same_name = [
                    other
                    for other, (name, _) in self.alive.items()
                    if name == each.object.metadata.name and other != uid
                ]
                assert same_name == [], "its predecessor was not told dead"
                self.alive[uid] = (each.object.metadata.name, each.object.data["x"])
            else:
                assert isinstance(each, Deleted)
                self.alive.pop(uid, None)
                self.gone.add(uid)


steps = st.one_of(
    st.tuples(st.just("write"), st.sampled_from(NAMES)),
    st.tuples(st.just("delete"), st.sampled_from(NAMES)),
    st.tuples(st.just("cut"), st.just("")),
    st.tuples(st.just("silence"), st.just("")),
    st.tuples(st.just("network"), st.sampled_from(Faulty.MODES)),
    st.tuples(st.just("wait"), st.sampled_from([0.0, 0.1, 5.0, 200.0])),
)


async def act(world, step, argument, value):
    match step:
        case "write":
            body = {"metadata": {"name": argument}, "data": {"x": str(value)}}
            try:
                await world.direct.create(ConfigMap, body, namespace="default")
            except errors.AlreadyExists:
                await world.direct.patch(ConfigMap, argument, {"data": {"x": str(value)}}, namespace="default")
        case "delete":
            try:
                await world.direct.delete(ConfigMap, argument, namespace="default")
            except errors.NotFound:
                return
        case "network":
            world.network.mode = argument
        case "wait":
            await world.clock.sleep(argument)
        case how:
            for wire in world.network.wires:
                wire.harm(how)


class World:
    def __init__(self, clock, server, slice_bytes):
        self.clock = clock
        self.direct = Client(LocalTransport(server), clock=clock, chance=random.Random(0))
        self.network = Faulty(LocalTransport(server))
        self.network.slice_bytes = slice_bytes
        client = Client(self.network, clock=clock, chance=random.Random(1))
        self.informer = Informer(client, ConfigMap, clock=clock, chance=random.Random(2), namespace="default")
        self.follower = Follower()
        self.informer.subscribe(self.follower)

    async def truth(self):
        found = (await self.direct.list(ConfigMap, namespace="default")).items
        return {each.metadata.uid: (each.metadata.name, each.data["x"]) for each in found}


@settings(max_examples=150, deadline=None)
@given(
    script=st.lists(steps, max_size=30),
    slice_bytes=st.sampled_from([0, 1, 7, 300]),
    history_max=st.sampled_from([2, 4, 1_000]),
    streams_lists=st.booleans(),
)
def test_no_fault_makes_an_informer_miss_or_invent_anything(script, slice_bytes, history_max, streams_lists):
    clock = VirtualClock(NOON)

    async def main():
        async with Server(Settings(now=clock.now, chance=random.Random(0))) as server:
            world = World(clock, server, slice_bytes)
            world.informer._streams_lists = streams_lists
            running = asyncio.create_task(world.informer.run())
            for value, (step, argument) in enumerate(script):
                await act(world, step, argument, value)
            world.network.mode = "ok"
            await clock.sleep(400)  # longer than any silence, and than the longest pause after a failure
            truth = await world.truth()
            assert {
                each.metadata.uid: (each.metadata.name, each.data["x"]) for each in world.informer.objects.values()
            } == truth
            assert world.follower.alive == truth
            running.cancel()
            await asyncio.wait({running})
            assert running.cancelled(), running.exception()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(history, "HISTORY_CHANGES_MAX", history_max)
        clock.run(main())

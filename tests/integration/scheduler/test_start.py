"""What a scheduler needs to start."""

import asyncio
import random

import pytest
from tests.bodies.beside import a_scheduler, beside, scheduler_beside
from tests.bodies.scheduler import World

from pumice.api import apps, core, native, pods, scheduling
from pumice.api.core import Namespace
from pumice.api.events import CoreEvent
from pumice.api.pods import Pod
from pumice.clock import RealClock
from pumice.errors import NotFound
from pumice.kube import recorder
from pumice.kube.client import Client
from pumice.kube.discovery import served_kinds
from pumice.kube.informer import Informers
from pumice.local.apiserver.local import LocalTransport
from pumice.local.apiserver.server import Server, Settings
from pumice.processes import scheduler as processes
from pumice.processes.scheduler import Scheduler, Served
from pumice.runtime import Runtime
from pumice.scheduling.core import builtin


async def test_without_our_kinds_a_scheduler_says_how_to_install_them():
    async with Server(Settings(chance=random.Random(0))) as server:
        clock, chance = RealClock(), random.Random(0)
        client = Client(LocalTransport(server), clock=clock, chance=chance)
        informers = Informers(client, clock=clock, chance=chance)
        policy = builtin.parse(builtin.TEXT, "built-in policy")
        scheduler = Scheduler(client, informers, lambda: policy, Runtime(clock=clock, chance=chance), Served())
        watching = asyncio.create_task(informers.run())
        with pytest.raises(NotFound, match="install them with `pumice crds"):
            await scheduler.run()
        watching.cancel()


async def test_only_kinds_that_the_server_serves_are_watched(client):
    wanted = [pods.Pod, core.Node, apps.ReplicaSet, scheduling.PodGroup, native.NativePodGroup]
    assert await served_kinds(client, wanted) == wanted[:-1]


async def test_room_that_a_former_leader_made_for_a_gang_is_kept_for_it(client):
    """One GPU is free and one about to be; both were promised to the gang before the other one came, which stands first in line."""
    await client.create(Namespace, {"metadata": {"name": "team"}})
    policy = builtin.parse("{actions: allocate, tiers: [{plugins: [{name: gang}, {name: predicates}]}]}", "test policy")
    scheduler, informers = a_scheduler(client, policy)
    world = World(client, "team", scheduler)
    node = await world.node("a", gpus=2)
    await world.gang("early", size=1)
    await world.gang("victim", size=1)
    await client.bind("victim-worker-0", namespace="team", node=node, uid="")
    await client.delete(Pod, "victim-worker-0", namespace="team")
    await world.gang("late", size=2)
    for number in range(2):
        promised = {"status": {"nominatedNodeName": node}}
        await client.patch(Pod, f"late-worker-{number}", promised, namespace="team", subresource="status")
    async with beside(informers.run(), scheduler.run()):
        await world.until_said("late", "1 Pipelined")
        assert list(await world.bound()) == ["victim-worker-0"]
        await client.delete(Pod, "victim-worker-0", namespace="team", grace_s=0)
        await world.until_bound("late", 2)


async def test_a_new_policy_is_obeyed_although_nothing_else_happens(client, monkeypatch):
    monkeypatch.setattr(processes, "SWEEP_S", 1e9)
    await client.create(Namespace, {"metadata": {"name": "team"}})
    clock, chance = RealClock(), random.Random(1)
    informers = Informers(client, clock=clock, chance=chance)
    waiting, starting = (
        builtin.parse(f"{{actions: {actions}, tiers: [{{plugins: [{{name: gang}}, {{name: predicates}}]}}]}}", "test")
        for actions in ("enqueue", "'enqueue, allocate'")
    )
    policies = [waiting]
    scheduler = Scheduler(client, informers, lambda: policies[-1], Runtime(clock=clock, chance=chance), Served())
    world = World(client, "team", scheduler)
    await world.node("a", gpus=2)
    await world.gang("g", size=2)
    async with beside(informers.run(), scheduler.run()):
        seen = -1
        while not scheduler.cycles or seen != scheduler.cycles:  # until it has come to rest
            seen = scheduler.cycles
            await clock.sleep(2 * processes.TICK_S)
        policies.append(starting)
        await world.until_bound("g", 2)


async def test_a_scheduler_that_ends_writes_its_last_events_first(client, monkeypatch):
    monkeypatch.setattr(recorder, "WRITE_S", 1e9)  # one round of writing at the start, and none after it
    await client.create(Namespace, {"metadata": {"name": "team"}})
    async with scheduler_beside(client) as scheduler:
        world = World(client, "team", scheduler)
        for name in ("first", "last"):
            await world.gang(name, size=1)
            await world.until_said(name, "can never run here")
    told = {each.involved_object.name for each in (await client.list(CoreEvent)).items}
    assert {"first", "last"} <= told

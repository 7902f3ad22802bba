"""What a scheduler needs to start."""

import asyncio
import random

import pytest

from pumice.api import apps, core, native, pods, scheduling
from pumice.apiserver.local import LocalTransport
from pumice.apiserver.server import Server, Settings
from pumice.clock import RealClock
from pumice.dispatch.rim import Rim
from pumice.errors import NotFound
from pumice.kube.client import Client
from pumice.kube.discovery import served_kinds
from pumice.kube.informer import Informers
from pumice.processes.scheduler import Scheduler, Served
from pumice.scheduling import builtin


async def test_without_our_kinds_a_scheduler_says_how_to_install_them():
    async with Server(Settings(chance=random.Random(0))) as server:
        clock, chance = RealClock(), random.Random(0)
        client = Client(LocalTransport(server), clock=clock, chance=chance)
        informers = Informers(client, clock=clock, chance=chance)
        policy = builtin.parse(builtin.TEXT, "built-in policy")
        scheduler = Scheduler(client, informers, lambda: policy, Rim(clock=clock, chance=chance), Served())
        watching = asyncio.create_task(informers.run())
        with pytest.raises(NotFound, match="install them with `pumice crds"):
            await scheduler.run()
        watching.cancel()


async def test_only_kinds_that_the_server_serves_are_watched(client):
    wanted = [pods.Pod, core.Node, apps.ReplicaSet, scheduling.PodGroup, native.NativePodGroup]
    assert await served_kinds(client, wanted) == wanted[:-1]

"""The storm of tests/bodies/stormy.py on the embedded server."""

import asyncio
import contextlib
import random

import pytest
from tests.bodies import stormy

from pumice.api.core import Namespace
from pumice.clock import RealClock
from pumice.kube.client import Client
from pumice.kube.informer import Informers
from pumice.processes.scheduler import Scheduler, Served
from pumice.runtime import Runtime
from pumice.scheduling.core import builtin


@pytest.mark.parametrize("seed", [1, 34, 39])
async def test_in_a_storm_every_gang_ends_whole(client, seed):
    await client.create(Namespace, {"metadata": {"name": "team"}})
    clock, chance = RealClock(), random.Random(seed)
    storm = stormy.Storm(client._transport, seed)
    shaken = Client(storm, clock=clock, chance=chance)
    informers = Informers(shaken, clock=clock, chance=chance)
    policy = builtin.parse(builtin.TEXT, "built-in policy")
    scheduler = Scheduler(shaken, informers, lambda: policy, Runtime(clock=clock, chance=chance), Served())
    tasks = [asyncio.create_task(informers.run()), asyncio.create_task(scheduler.run())]
    try:
        await stormy.every_gang_ends_whole(client, "team", scheduler, storm)
        assert sum(storm.done.values()) >= 5, storm.done
    finally:
        for task in reversed(tasks):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

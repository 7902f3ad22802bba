"""The storm of tests/bodies/stormy.py on the embedded server."""

import random

import pytest
from tests.bodies import stormy
from tests.bodies.beside import scheduler_beside

from pumice.api.core import Namespace
from pumice.clock import RealClock
from pumice.kube.client import Client


@pytest.mark.parametrize("seed", [1, 34, 39])
async def test_in_a_storm_every_gang_ends_whole(client, seed):
    await client.create(Namespace, {"metadata": {"name": "team"}})
    storm = stormy.Storm(client._transport, seed)
    shaken = Client(storm, clock=RealClock(), chance=random.Random(seed))
    async with scheduler_beside(shaken, seed=seed) as scheduler:
        await stormy.every_gang_ends_whole(client, "team", scheduler, storm)
        assert sum(storm.done.values()) >= 5, storm.done

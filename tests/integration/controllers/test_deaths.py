"""Controllers that die at random writes, on the embedded server; tests/kube has kill -9 of the whole process."""

import pytest
from tests.bodies import job_deaths, jobs
from tests.bodies.beside import beside

from pumice.local.apiserver.local import LocalTransport


async def suffer(server, *, count, deaths, writes_of_a_life, seed):
    ours, others = LocalTransport(server), LocalTransport(server)
    mortal = job_deaths.MortalControllers(
        LocalTransport(server), deaths=deaths, writes_of_a_life=writes_of_a_life, seed=seed
    )
    nodes = {"nodes": 2, "gpus": 64}
    async with jobs.job_world(ours, others, "team", **nodes, controls=False) as world, beside(mortal.run()):
        await job_deaths.nothing_is_lost_or_made_twice(world, count=count, seed=seed)
        assert mortal.deaths == deaths


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [1, 2])
async def test_controllers_that_die_at_random_writes_lose_nothing_and_make_nothing_twice(server, seed):
    await suffer(server, count=12, deaths=10, writes_of_a_life=24, seed=seed)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", [100, 101])
async def test_a_hundred_deaths_at_random_writes_lose_nothing_and_make_nothing_twice(server, seed):
    await suffer(server, count=200, deaths=100, writes_of_a_life=40, seed=seed)

"""Many Jobs on the embedded server: what they cost, and that nothing is left of them."""

import random

import pytest
from tests.bodies import jobs, many_jobs

from pumice.api.core import Namespace
from pumice.clock import RealClock
from pumice.kube.client import Client
from pumice.local.apiserver.local import LocalTransport
from pumice.local.apiserver.server import Server, Settings
from pumice.local.up import install_kinds


async def come_run_and_go(count):
    async with Server(Settings(chance=random.Random(0))) as server:
        client = Client(LocalTransport(server), clock=RealClock(), chance=random.Random(0))
        await install_kinds(client)
        await client.create(Namespace, {"metadata": {"name": "team"}})
        transports = LocalTransport(server), LocalTransport(server)
        async with jobs.job_world(*transports, "team", **many_jobs.room_for(count)) as world:
            await many_jobs.jobs_come_run_and_go(world, count)


@pytest.mark.timeout(300)
async def test_jobs_come_run_and_go_within_the_budget_and_without_a_trace():
    await come_run_and_go(120)


@pytest.mark.soak
@pytest.mark.timeout(1200)
async def test_a_thousand_jobs_come_run_and_go_within_the_budget_and_without_a_trace():
    await come_run_and_go(1_000)

"""Many Jobs on the embedded server: what they cost, and that nothing is left of them."""

import pytest
from tests.bodies import jobs, many_jobs

from pumice.local.apiserver.local import LocalTransport


async def come_run_and_go(server, count):
    transports = LocalTransport(server), LocalTransport(server)
    async with jobs.job_world(*transports, "team", **many_jobs.room_for(count)) as world:
        await many_jobs.jobs_come_run_and_go(world, count)


@pytest.mark.timeout(300)
async def test_jobs_come_run_and_go_within_the_budget_and_without_a_trace(server):
    await come_run_and_go(server, 120)


@pytest.mark.soak
@pytest.mark.timeout(1200)
async def test_a_thousand_jobs_come_run_and_go_within_the_budget_and_without_a_trace(server):
    await come_run_and_go(server, 1_000)

"""Jobs on the embedded server, with the scheduler, the controllers and pretend nodes; the same bodies run on the real one."""

import pytest
from tests.bodies import jobs

from pumice.local.apiserver.local import LocalTransport


@pytest.fixture
async def world(server):
    async with jobs.job_world(LocalTransport(server), LocalTransport(server), "team") as made:
        yield made


@pytest.mark.parametrize("body", jobs.BODIES, ids=lambda body: body.__name__)
async def test_jobs(body, world):
    await body(world)

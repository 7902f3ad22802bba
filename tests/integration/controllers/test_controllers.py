"""The controllers beside the Job's on the embedded server; the same bodies run on the real one."""

import pytest
from tests.bodies import controllers, jobs

from pumice.local.apiserver.local import LocalTransport


@pytest.fixture
async def world(server):
    async with jobs.job_world(LocalTransport(server), LocalTransport(server), "team") as made:
        made.makes_no_replicas = True
        yield made


@pytest.mark.parametrize("body", controllers.BODIES, ids=lambda body: body.__name__)
async def test_controllers(body, world):
    await body(world)

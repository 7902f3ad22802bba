"""Jobs on the real API server, with the scheduler, the controllers and pretend nodes; the same bodies run on the embedded one."""

import asyncio
import contextlib

import pytest
from tests.bodies import jobs, many_jobs, reclaiming

from pumice.clock import RealClock
from pumice.kube import config
from pumice.kube.http import HttpTransport


@contextlib.asynccontextmanager
async def a_world(plane, namespace, **room):
    await asyncio.to_thread(plane.create_namespace, namespace)
    connection = config.find(str(plane.kubeconfig), clock=RealClock())
    async with (
        HttpTransport(connection, user_agent="pumice") as transport,
        HttpTransport(connection, user_agent="pumice-test") as other,
        jobs.job_world(transport, other, namespace, **room) as made,
    ):
        yield made


@pytest.fixture
async def world(empty_plane, request):
    number = jobs.BODIES.index(request.node.callspec.params["body"])
    async with a_world(empty_plane, f"jobs-{number}") as made:
        yield made


@pytest.mark.parametrize("body", jobs.BODIES, ids=lambda body: body.__name__)
async def test_jobs(body, world):
    await body(world)


@pytest.mark.timeout(300)
async def test_jobs_come_run_and_go_within_the_budget_and_without_a_trace(empty_plane):
    async with a_world(empty_plane, "many", **many_jobs.room_for(60)) as world:
        await many_jobs.jobs_come_run_and_go(world, 60)


@pytest.mark.soak
@pytest.mark.timeout(3600)
async def test_a_thousand_jobs_come_run_and_go_within_the_budget_and_without_a_trace(empty_plane):
    async with a_world(empty_plane, "thousand", **many_jobs.room_for(1_000)) as world:
        await many_jobs.jobs_come_run_and_go(world, 1_000)


async def test_a_pod_that_others_leave_for_is_told_once(empty_plane):
    async with a_world(empty_plane, "reclaiming", nodes=reclaiming.NODES) as world:
        await reclaiming.a_pod_that_others_leave_for_is_told_once(world)

"""The controllers beside the Job's on the real API server; the same bodies run on the embedded one."""

import asyncio

import pytest
from tests.bodies import controllers, jobs

from pumice.clock import RealClock
from pumice.kube import config
from pumice.kube.http import HttpTransport

LEFT = (
    "jobflows.flow.volcano.sh,jobtemplates.flow.volcano.sh,cronjobs.batch.volcano.sh,jobs.batch.volcano.sh,"
    "replicasets.apps,pods,podgroups.scheduling.volcano.sh"
)


@pytest.fixture
async def world(empty_plane, request):
    number = controllers.BODIES.index(request.node.callspec.params["body"])
    namespace = f"others-{number}"
    await asyncio.to_thread(empty_plane.create_namespace, namespace)
    connection = config.find(str(empty_plane.kubeconfig), clock=RealClock())
    async with (
        HttpTransport(connection, user_agent="pumice") as transport,
        HttpTransport(connection, user_agent="pumice-test") as other,
        jobs.job_world(transport, other, namespace) as made,
    ):
        made.makes_no_replicas = False
        yield made
    # The next test counts what its controllers write: they must not find work of this one.
    await asyncio.to_thread(
        empty_plane.kubectl, "-n", namespace, "delete", LEFT, "--all", "--grace-period=0", "--force"
    )


@pytest.mark.parametrize("body", controllers.BODIES, ids=lambda body: body.__name__)
async def test_controllers(body, world):
    await body(world)

"""Jobs on the real API server, with the scheduler, the controllers and pretend nodes; the same bodies run on the embedded one."""

import asyncio

import pytest
from tests.bodies import jobs
from tools.kube.control_plane import ControlPlane

from pumice.api import kinds
from pumice.cli.crds import manifests
from pumice.clock import RealClock
from pumice.kube import config
from pumice.kube.http import HttpTransport


@pytest.fixture(scope="module")
def empty_plane(binaries):
    """A control plane of its own: shares are shares of all nodes, so nobody else's may be there."""
    with ControlPlane(nodes=()) as plane:
        plane.kubectl("apply", "--server-side", "-f", "-", input=manifests())
        names = [f"crd/{kind.resource}" for kind in kinds.CUSTOM_KINDS]
        plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", *names)
        yield plane


@pytest.fixture
async def world(empty_plane, request):
    number = jobs.BODIES.index(request.node.callspec.params["body"])
    namespace = f"jobs-{number}"
    await asyncio.to_thread(empty_plane.create_namespace, namespace)
    connection = config.find(str(empty_plane.kubeconfig), clock=RealClock())
    async with (
        HttpTransport(connection, user_agent="pumice") as transport,
        HttpTransport(connection, user_agent="pumice-test") as other,
        jobs.job_world(transport, other, namespace) as made,
    ):
        yield made


@pytest.mark.parametrize("body", jobs.BODIES, ids=lambda body: body.__name__)
async def test_jobs(body, world):
    await body(world)

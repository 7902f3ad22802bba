"""Gangs of real processes on the real API server."""

import asyncio
import types
import uuid

import pytest
from tests.bodies import jobs, real_gangs
from tests.bodies.gate import require_namespaces
from tools.kube.control_plane import ControlPlane
from tools.kube.kinds import install_kinds

from pumice.clock import RealClock
from pumice.kube import config
from pumice.kube.http import HttpTransport


@pytest.fixture(scope="module")
def process_plane(binaries, tmp_path_factory):
    require_namespaces(tmp_path_factory.mktemp("probe"))
    with ControlPlane(nodes=()) as plane:
        install_kinds(plane)
        yield plane


@pytest.mark.parametrize("body", real_gangs.BODIES, ids=lambda body: body.__name__)
async def test_real_gangs(body, process_plane, tmp_path):
    team = f"team-{uuid.uuid4().hex[:8]}"
    await asyncio.to_thread(process_plane.create_namespace, team)
    connection = config.find(str(process_plane.kubeconfig), clock=RealClock())
    machine = types.SimpleNamespace(authority=process_plane.ca.read_bytes(), server=process_plane.url)
    async with (
        HttpTransport(connection, user_agent="pumice") as transport,
        HttpTransport(connection, user_agent="pumice-test") as other,
        jobs.job_world(transport, other, team, nodes=0, policy=real_gangs.POLICY) as world,
    ):
        await body(world, machine, tmp_path)

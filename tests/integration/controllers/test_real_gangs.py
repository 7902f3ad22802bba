"""Gangs of real processes on the embedded server."""

import random
import types

import pytest
from tests.bodies import jobs, real_gangs
from tests.bodies.gate import require_namespaces

from pumice.clock import RealClock
from pumice.kube.client import Client
from pumice.local.apiserver.local import LocalTransport
from pumice.local.apiserver.serving import EmbeddedServer, Place
from pumice.local.up import install_kinds


@pytest.fixture(scope="session")
def namespaces(tmp_path_factory):
    require_namespaces(tmp_path_factory.mktemp("probe"))


@pytest.mark.parametrize("body", real_gangs.BODIES, ids=lambda body: body.__name__)
async def test_real_gangs(body, namespaces, tmp_path):
    async with EmbeddedServer(Place(tmp_path / "server")) as served:
        transport = LocalTransport(served.server)
        await install_kinds(Client(transport, clock=RealClock(), chance=random.Random(0)))
        authority = (tmp_path / "server" / "ca.crt").read_bytes()
        machine = types.SimpleNamespace(authority=authority, server=served.url)
        async with jobs.job_world(
            transport, LocalTransport(served.server), "default", nodes=0, policy=real_gangs.POLICY
        ) as world:
            await body(world, machine, tmp_path)

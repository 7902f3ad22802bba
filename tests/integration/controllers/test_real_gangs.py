"""Gangs of real processes on the embedded server."""

import types

import pytest

from pumice.apiserver.local import LocalTransport
from pumice.apiserver.serving import EmbeddedServer, Place
from pumice.clock import RealClock
from pumice.kube.client import Client
from pumice.processes.up import install_kinds

for name in ("gate", "jobs", "real_gangs", "world"):
    pytest.register_assert_rewrite(f"tests.bodies.{name}")

import random  # noqa: E402  after assertions of the bodies may be rewritten

from tests.bodies import jobs, real_gangs  # noqa: E402
from tests.bodies.gate import require_namespaces  # noqa: E402


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
        async with jobs.job_world(transport, LocalTransport(served.server), "default", nodes=0) as world:
            await body(world, machine, tmp_path)

"""The controllers beside the Job's on the embedded server; the same bodies run on the real one."""

import random

import pytest
from tests.bodies import controllers, jobs

from pumice.api.core import Namespace
from pumice.clock import RealClock
from pumice.kube.client import Client
from pumice.local.apiserver.local import LocalTransport
from pumice.local.apiserver.server import Server, Settings
from pumice.local.up import install_kinds


@pytest.fixture
async def world():
    async with Server(Settings(chance=random.Random(0))) as server:
        client = Client(LocalTransport(server), clock=RealClock(), chance=random.Random(0))
        await install_kinds(client)
        await client.create(Namespace, {"metadata": {"name": "team"}})
        async with jobs.job_world(LocalTransport(server), LocalTransport(server), "team") as made:
            made.makes_no_replicas = True
            yield made


@pytest.mark.parametrize("body", controllers.BODIES, ids=lambda body: body.__name__)
async def test_controllers(body, world):
    await body(world)

"""An embedded server with our kinds and the namespace team."""

import random

import pytest

from pumice.api.core import Namespace
from pumice.clock import RealClock
from pumice.kube.client import Client
from pumice.local.apiserver.local import LocalTransport
from pumice.local.apiserver.server import Server, Settings
from pumice.local.up import install_kinds


@pytest.fixture
async def server():
    async with Server(Settings(chance=random.Random(0))) as server:
        client = Client(LocalTransport(server), clock=RealClock(), chance=random.Random(0))
        await install_kinds(client)
        await client.create(Namespace, {"metadata": {"name": "team"}})
        yield server

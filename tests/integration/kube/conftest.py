"""An embedded server for each test, called in process and over HTTP."""

import random

import pytest

from pumice.api.core import Namespace, Node
from pumice.apiserver.local import LocalTransport
from pumice.apiserver.server import Server, Settings
from pumice.clock import RealClock
from pumice.kube.client import Client

pytest.register_assert_rewrite("tests.bodies.client")


@pytest.fixture
async def embedded():
    async with Server(Settings(chance=random.Random(0))) as server:
        yield server


@pytest.fixture
def client(embedded):
    return Client(LocalTransport(embedded), clock=RealClock(), chance=random.Random(0))


@pytest.fixture
async def namespace(client):
    await client.create(Namespace, {"metadata": {"name": "team"}})
    return "team"


@pytest.fixture
async def node(client):
    await client.create(Node, {"metadata": {"name": "n1"}})
    return "n1"

"""An embedded server for each test, called in process or over HTTP and TLS."""

import random

import pytest

from pumice.api.core import Namespace, Node
from pumice.clock import RealClock
from pumice.kube import config
from pumice.kube.client import Client
from pumice.kube.http import HttpTransport
from pumice.local.apiserver.local import LocalTransport
from pumice.local.apiserver.server import Server, Settings
from pumice.local.apiserver.serving import EmbeddedServer, Place


@pytest.fixture(params=["in process", "over HTTP"])
async def client(request, tmp_path):
    if request.param == "in process":
        async with Server(Settings(chance=random.Random(0))) as server:
            yield Client(LocalTransport(server), clock=RealClock(), chance=random.Random(0))
    else:
        async with EmbeddedServer(Place(tmp_path / "server")) as served:
            connection = config.find(str(served.kubeconfig), clock=RealClock())
            async with HttpTransport(connection, user_agent="pumice-test/1") as transport:
                yield Client(transport, clock=RealClock(), chance=random.Random(0))


@pytest.fixture
async def namespace(client):
    await client.create(Namespace, {"metadata": {"name": "team"}})
    return "team"


@pytest.fixture
async def node(client):
    await client.create(Node, {"metadata": {"name": "n1"}})
    return "n1"

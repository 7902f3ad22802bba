import random

import pytest
from tests.unit.kube.peers import serve

from pumice.clock import RealClock
from pumice.kube.client import Client
from pumice.kube.connection import Connection
from pumice.kube.direct import DirectTransport
from pumice.kube.http import HttpTransport


@pytest.fixture
async def server():
    async with serve() as running:
        yield running


@pytest.fixture(params=[HttpTransport, DirectTransport])
def carrier(request):
    """Both kinds of Transport over HTTP: what one promises, the other keeps."""
    return request.param


@pytest.fixture
async def transport(server, carrier):
    async with carrier(Connection(server=server.url), user_agent="pumice-test/1") as made:
        yield made


@pytest.fixture
def client(transport):
    return Client(transport, clock=RealClock(), chance=random.Random(0))

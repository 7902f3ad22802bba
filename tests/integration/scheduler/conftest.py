"""An embedded server with our kinds, and a scheduler beside the test."""

import random

import msgspec
import pytest
from tests.bodies import scheduler as bodies
from tests.bodies.beside import scheduler_beside

from pumice import yamltext
from pumice.api.core import Namespace
from pumice.cli.crds import manifests
from pumice.clock import RealClock
from pumice.kube.client import Client
from pumice.kube.transport import Request
from pumice.local.apiserver.local import LocalTransport
from pumice.local.apiserver.server import Server, Settings
from pumice.scheduling.core import builtin

CRDS = [msgspec.json.encode(manifest) for manifest in yamltext.load_all(manifests(), source="pumice crds")]


@pytest.fixture
async def client():
    async with Server(Settings(chance=random.Random(0))) as server:
        client = Client(LocalTransport(server), clock=RealClock(), chance=random.Random(0))
        for manifest in CRDS:
            path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            await client.call(Request("POST", path, {}, {"content-type": "application/json"}, manifest))
        yield client


@pytest.fixture
def policy():
    """Of the scheduler beside the test; a folder or file that wants another one has a fixture of this name."""
    return builtin.parse(builtin.TEXT, "built-in policy")


@pytest.fixture
async def world(client, policy):
    await client.create(Namespace, {"metadata": {"name": "team"}})
    async with scheduler_beside(client, policy) as scheduler:
        here = bodies.World(client, "team", scheduler)
        yield here
        await here.leave()

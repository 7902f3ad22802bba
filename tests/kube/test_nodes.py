"""Node agents on the real API server: the same bodies as on the embedded one."""

import pytest
from tests.bodies import pretend_nodes, process_nodes
from tests.bodies.world import world

from pumice.clock import RealClock
from pumice.kube import config
from pumice.kube.http import HttpTransport


@pytest.fixture
async def place(plane, namespace):
    clock = RealClock()
    connection = config.find(str(plane.kubeconfig), clock=clock)
    transport = HttpTransport(connection, user_agent="pumice-test/1")
    async with world(transport, clock, namespace) as made:
        made.authority = plane.ca.read_bytes()
        made.server = plane.url
        made.kubeconfig = str(plane.kubeconfig)
        yield made


@pytest.fixture
def own_nodes(plane):
    """What a test's nodes leave behind is removed, so that no other test schedules onto them."""
    before = {node["metadata"]["name"] for node in plane.request("GET", "/api/v1/nodes").body["items"]}
    yield
    for node in plane.request("GET", "/api/v1/nodes").body["items"]:
        if node["metadata"]["name"] not in before:
            plane.request("DELETE", f"/api/v1/nodes/{node['metadata']['name']}")


@pytest.mark.parametrize("body", pretend_nodes.BODIES, ids=lambda body: body.__name__)
async def test_pretend_nodes(body, place, own_nodes):
    await body(place)


@pytest.mark.parametrize("body", process_nodes.BODIES, ids=lambda body: body.__name__)
async def test_process_nodes(body, place, own_nodes, tmp_path):
    await body(place, tmp_path)

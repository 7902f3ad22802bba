"""Process nodes on the embedded server: its nodes' agents in this process, real processes below them."""

import pytest
from tests.bodies import process_nodes
from tests.bodies.world import world

from pumice.apiserver.local import LocalTransport
from pumice.apiserver.serving import EmbeddedServer, Place
from pumice.clock import RealClock


@pytest.fixture
async def place(namespaces, tmp_path):
    async with (
        EmbeddedServer(Place(tmp_path / "server")) as served,
        world(LocalTransport(served.server), RealClock(), "default") as made,
    ):
        made.authority = (tmp_path / "server" / "ca.crt").read_bytes()
        made.server = served.url
        made.kubeconfig = str(served.kubeconfig)
        yield made


@pytest.mark.parametrize("body", process_nodes.BODIES, ids=lambda body: body.__name__)
async def test_on_the_embedded_server(body, place, tmp_path):
    await body(place, tmp_path)

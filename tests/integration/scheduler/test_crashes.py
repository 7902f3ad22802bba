"""kill -9 at named steps on the embedded server; the same bodies run on the real one, and a hundred times in `make soak`."""

import pytest
from tests.bodies import crashes

from pumice.api.core import Namespace
from pumice.clock import RealClock
from pumice.kube import config
from pumice.kube.client import Client
from pumice.kube.http import HttpTransport
from pumice.local.apiserver.serving import EmbeddedServer, Place
from pumice.local.up import install_kinds

pytestmark = pytest.mark.timeout(300)  # processes start and die: a busy machine takes its time


@pytest.fixture
async def server(tmp_path):
    """A transport to an embedded server with our kinds and a namespace, and the kubeconfig for processes."""
    async with EmbeddedServer(Place(tmp_path / "server")) as embedded:
        connection = config.find(str(embedded.kubeconfig), clock=RealClock())
        async with HttpTransport(connection, user_agent="pumice-test") as transport:
            client = Client(transport, clock=RealClock(), chance=None)
            await install_kinds(client)
            await client.create(Namespace, {"metadata": {"name": "team"}})
            yield transport, embedded.kubeconfig


async def test_after_deaths_at_any_step_every_gang_ends_whole(server, tmp_path):
    transport, kubeconfig = server
    await crashes.every_gang_ends_whole(transport, kubeconfig, "team", tmp_path / "log", deaths=2, seed=1)


async def test_an_eviction_cut_short_takes_no_more_than_it_needs(server, tmp_path):
    transport, kubeconfig = server
    await crashes.an_eviction_cut_short_takes_no_more_than_it_needs(
        transport, kubeconfig, "team", tmp_path / "log", "evicting:3"
    )

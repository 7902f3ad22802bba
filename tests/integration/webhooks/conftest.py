"""The embedded server, reached over HTTP and calling webhooks over TLS."""

import pytest
from tests.bodies.webhooks import client_of

from pumice.clock import RealClock
from pumice.kube import config
from pumice.kube.http import HttpTransport
from pumice.local.apiserver.registry import ALPHA
from pumice.local.apiserver.server import Settings
from pumice.local.apiserver.serving import EmbeddedServer, Place
from pumice.local.up import install_kinds


@pytest.fixture
async def transport(tmp_path):
    """As the administrator."""
    async with EmbeddedServer(Place(tmp_path / "server"), Settings(alpha=ALPHA)) as server:
        connection = config.find(str(server.kubeconfig), clock=RealClock())
        async with HttpTransport(connection, user_agent="pumice-test") as made:
            await install_kinds(client_of(made))
            yield made

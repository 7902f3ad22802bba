"""kube-apiserver dies and is restarted while a scheduler binds; the same body runs on the embedded server."""

import asyncio
import contextlib

import pytest
from tests.bodies import restarts
from tools.kube.control_plane import ControlPlane
from tools.kube.kinds import install_kinds

from pumice.clock import RealClock
from pumice.kube import config
from pumice.kube.http import HttpTransport


class Server:
    """The API server of a control plane; etcd keeps what it knew."""

    def __init__(self, plane):
        self._plane = plane
        self._is_down = False

    async def start(self):
        """Back and ready; one that was restarted in good order is so already."""
        if self._is_down:
            await asyncio.to_thread(self._plane.restart_apiserver)

    async def kill(self):
        self._is_down = True
        await asyncio.to_thread(self._plane.kill, "kube-apiserver")

    async def restart(self):
        self._is_down = False
        await asyncio.to_thread(self._plane.restart_apiserver)


@pytest.fixture
def mortal_plane(binaries):
    with ControlPlane(durable=True) as plane:
        install_kinds(plane)
        plane.create_namespace("team")
        yield plane


@pytest.mark.timeout(300)
async def test_gangs_end_whole_though_the_server_dies_in_the_middle_of_their_binds(mortal_plane):
    connection = config.find(str(mortal_plane.kubeconfig), clock=RealClock())
    server = Server(mortal_plane)
    async with contextlib.AsyncExitStack() as stack:

        def connect():
            transport = HttpTransport(connection, user_agent="pumice-test")
            stack.push_async_callback(transport.close)
            return transport

        await restarts.every_gang_ends_whole(server, connect, "team", ends=[server.kill, server.restart])

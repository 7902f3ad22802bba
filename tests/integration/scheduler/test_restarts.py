"""The embedded server dies and is restarted while a scheduler binds; the same body runs on the real one."""

import asyncio
import contextlib
import sys

import pytest
from tests.bodies import restarts

from pumice.api.core import Namespace
from pumice.clock import RealClock
from pumice.kube import config
from pumice.kube.client import Client
from pumice.kube.http import HttpTransport
from pumice.local.up import install_kinds

pytestmark = pytest.mark.timeout(300)  # processes start and die: a busy machine takes its time


class Process:
    """A durable server in a process of its own, on one port for all its lives."""

    def __init__(self, folder):
        self._folder = folder
        self._port = 0
        self._process = None

    async def start(self):
        command = [
            sys.executable,
            "-m",
            "pumice.local.apiserver",
            str(self._folder),
            "--durable",
            "--port",
            str(self._port),
        ]
        self._process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        address = (await self._process.stdout.readline()).split()[0].decode()
        self._port = int(address.rpartition(":")[2])

    async def kill(self):
        self._process.kill()
        await self._process.communicate()

    async def stop(self):
        self._process.terminate()
        await self._process.communicate()


@pytest.fixture
async def server(tmp_path):
    process = Process(tmp_path / "server")
    await process.start()
    yield process
    if process._process.returncode is None:
        await process.kill()


@pytest.fixture
async def connect(server, tmp_path):
    connection = config.find(str(tmp_path / "server" / "kubeconfig"), clock=RealClock())
    async with contextlib.AsyncExitStack() as stack:

        def open_line():
            transport = HttpTransport(connection, user_agent="pumice-test")
            stack.push_async_callback(transport.close)
            return transport

        client = Client(open_line(), clock=RealClock(), chance=None)
        await install_kinds(client)
        await client.create(Namespace, {"metadata": {"name": "team"}})
        yield open_line


async def test_gangs_end_whole_though_the_server_dies_in_the_middle_of_their_binds(server, connect):
    await restarts.every_gang_ends_whole(server, connect, "team", ends=[server.kill, server.stop])

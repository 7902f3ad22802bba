"""Embedded servers in folders, as `pumice up` runs them."""

import contextlib
import signal
import ssl
import subprocess
import sys

import aiohttp
import pytest

from pumice.local.apiserver.serving import EmbeddedServer, Place


@pytest.fixture
async def embedded(tmp_path):
    async with EmbeddedServer(Place(tmp_path / "server")) as server:
        yield server


def trusting(folder, *, client=True):
    context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    if client:
        context.load_cert_chain(folder / "admin.crt", folder / "admin.key")
    return context


@contextlib.asynccontextmanager
async def session(folder, *, client=True):
    connector = aiohttp.TCPConnector(ssl=trusting(folder, client=client))
    async with aiohttp.ClientSession(connector=connector) as opened:
        yield opened


class Process:
    """A server in a process of its own, which can be killed."""

    def __init__(self, folder):
        self.folder = folder
        command = [sys.executable, "-m", "pumice.local.apiserver", folder, "--durable"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.url = self._process.stdout.readline().split()[0]

    def kill(self):
        self._end(signal.SIGKILL)

    def stop(self):
        self._end(signal.SIGTERM)
        return self._process.returncode

    def _end(self, number):
        if self._process.returncode is None:
            self._process.send_signal(number)
            self._process.communicate()


@pytest.fixture
def start(tmp_path):
    """Starts a durable server in the test's folder, as often as wanted; the last one is stopped."""
    running = []

    def start_one():
        running.append(Process(tmp_path / "server"))
        return running[-1]

    yield start_one
    for process in running:
        process.stop()

"""Process nodes on the embedded server: its nodes' agents in this process, real processes below them."""

import signal
import subprocess
import sys

import pytest
from tests.bodies import process_nodes
from tests.bodies.gate import an_agent
from tests.bodies.world import running, world

from pumice.clock import RealClock
from pumice.local.apiserver.local import LocalTransport
from pumice.local.apiserver.serving import EmbeddedServer, Place
from pumice.local.nodes.process.leftovers import Leftovers


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


@pytest.fixture
def sleeper():
    process = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    yield process
    process.kill()
    process.wait()


async def test_what_a_former_agent_left_running_is_ended_before_anything_else(place, tmp_path, sleeper):
    Leftovers(tmp_path / "heir" / "running").add(sleeper.pid)
    async with running(an_agent(place, tmp_path, "heir")):
        assert sleeper.wait(10) == -signal.SIGKILL


async def test_folders_of_pods_that_vanished_meanwhile_are_removed(place, tmp_path):
    stale = tmp_path / "heir" / "pods" / "a-uid-that-nobody-has"
    (stale / "logs" / "main" / "0").mkdir(parents=True)
    async with running(an_agent(place, tmp_path, "heir")):
        await place.submit("p", "heir", container={"command": ["true"]})
        await place.phase("p", "Succeeded")
        assert not stale.exists()

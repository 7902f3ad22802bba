"""Node agents on the real API server: the same bodies as on the embedded one, and kubectl's logs on both."""

import asyncio
from pathlib import Path

import pytest
from tests.bodies import pretend_nodes, process_nodes
from tests.bodies.gate import a_gate, an_agent, python
from tests.bodies.world import running, world

from pumice.clock import RealClock
from pumice.kube import config
from pumice.kube.http import HttpTransport
from pumice.local.apiserver.local import LocalTransport
from pumice.local.apiserver.serving import EmbeddedServer, Place


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


@pytest.fixture
async def embedded(tmp_path):
    async with (
        EmbeddedServer(Place(tmp_path / "server")) as served,
        world(LocalTransport(served.server), RealClock(), "default") as made,
    ):
        made.authority = (tmp_path / "server" / "ca.crt").read_bytes()
        made.server = served.url
        made.kubeconfig = str(served.kubeconfig)
        yield made


async def kubectl_reads_a_log(either, plane, tmp_path):
    def kubectl(*args, check=True):
        arguments = (f"--namespace={either.namespace}", *args)
        return asyncio.to_thread(plane.kubectl, *arguments, kubeconfig=Path(either.kubeconfig), check=check)

    program = """
        for number in range(5):
            print("line", number)
        wait("pause")
        print("last")
        sys.exit(3)
    """
    async with a_gate() as gate, running(an_agent(either, tmp_path, "logs")):
        await either.submit("p", "logs", container=python(program, gate=gate))
        await gate.arrival("pause")
        following = await asyncio.create_subprocess_exec(
            plane._binaries / "kubectl",
            f"--kubeconfig={either.kubeconfig}",
            f"--namespace={either.namespace}",
            *("logs", "-f", "--tail=2", "p"),
            stdout=asyncio.subprocess.PIPE,
        )
        assert await following.stdout.readexactly(14) == b"line 3\nline 4\n"
        assert (await kubectl("logs", "--tail=1", "p")).stdout == "line 4\n"
        await gate.open("pause")
        assert await following.communicate() == (b"last\n", None)
        assert following.returncode == 0
        stamped = (await kubectl("logs", "--timestamps", "--limit-bytes=37", "p")).stdout
        assert stamped.endswith("Z line 0")
        assert (await kubectl("logs", "--since=1h", "p", "-c", "main")).stdout.count("line") == 5
        refused = await kubectl("logs", "--previous", "p", check=False)
        assert 'previous terminated container "main" in pod "p" not found' in refused.stderr
        described = (await kubectl("describe", "pod", "p")).stdout
        assert "Exit Code:    3" in described


async def test_kubectl_follows_a_log_of_the_real_server(place, own_nodes, plane, tmp_path):
    await kubectl_reads_a_log(place, plane, tmp_path)


async def test_kubectl_follows_a_log_of_the_embedded_server(embedded, plane, tmp_path):
    await kubectl_reads_a_log(embedded, plane, tmp_path)

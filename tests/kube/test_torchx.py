"""TorchX from PyPI, unmodified and in an environment of its own, on the embedded server and on the real one.

TorchX makes Volcano Jobs through the official client and knows nothing of us. The app is the one that the guide shows.
"""

import asyncio
import contextlib
import os
import re
import shutil

import pytest
from tests.bodies import frameworks, jobs
from tests.bodies.gate import require_namespaces
from tools.kube import environments

from pumice.api.batch import Job
from pumice.api.core import ConfigMap, Service
from pumice.api.pods import Pod
from pumice.api.scheduling import PodGroup
from pumice.clock import RealClock
from pumice.kube import config
from pumice.kube.http import HttpTransport
from pumice.local.nodes.process.machine import ProcessSettings

COMMAND_S_MAX = 90.0  # most of it goes into importing the official client
NAMESPACE = "team"
HANDLE = re.compile(r"^kubernetes://torchx/(?P<namespace>[^:]+):(?P<name>\S+)$", re.MULTILINE)


class TorchX:
    """The command, in a folder that holds the guide's app and the only kubeconfig that it can find."""

    def __init__(self, folder, kubeconfig):
        self._folder = folder
        self._command = environments.require("torchx") / "torchx"
        (folder / "two_roles.py").write_text(frameworks.shown("two_roles.py"))
        self._env = {"PATH": os.environ["PATH"], "HOME": str(folder), "KUBECONFIG": str(kubeconfig)}

    async def __call__(self, *arguments):
        process = await asyncio.create_subprocess_exec(
            self._command,
            *arguments,
            cwd=self._folder,
            env=self._env,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(COMMAND_S_MAX):
                out, err = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        assert process.returncode == 0, f"torchx {' '.join(arguments)}: {err.decode()}"
        return out.decode()

    async def run(self, namespace):
        """Submits the app; returns its handle and the name of its Job."""
        said = await self(
            "run",
            "-s",
            "kubernetes",
            "-cfg",
            f"queue=default,namespace={namespace}",
            "--workspace=",
            "two_roles.py:two_roles",
        )
        found = HANDLE.search(said)
        assert found, said
        assert found["namespace"] == namespace
        return found.group(), found["name"]


@pytest.fixture(scope="module")
def real_plane(empty_plane):
    empty_plane.create_namespace(NAMESPACE)
    return empty_plane


@contextlib.asynccontextmanager
async def on_the_embedded_server(request, folder):
    async with frameworks.a_cluster(folder / "server") as (up, world):
        yield world, up.kubeconfig


@contextlib.asynccontextmanager
async def on_the_real_server(request, folder):
    plane = request.getfixturevalue("real_plane")
    kubeconfig = folder / "kubeconfig"
    shutil.copy(plane.kubeconfig, kubeconfig)
    plane.kubectl("config", "set-context", "--current", f"--namespace={NAMESPACE}", kubeconfig=kubeconfig)
    connection = config.find(str(plane.kubeconfig), clock=RealClock())
    async with (
        HttpTransport(connection, user_agent="pumice") as transport,
        HttpTransport(connection, user_agent="pumice-test") as other,
        jobs.job_world(transport, other, NAMESPACE) as world,
    ):
        yield world, kubeconfig


@pytest.mark.parametrize("place", [on_the_embedded_server, on_the_real_server], ids=lambda place: place.__name__)
async def test_torchx_submits_lists_describes_and_cancels_an_app_of_two_roles(place, request, tmp_path):
    async with place(request, tmp_path) as (world, kubeconfig):
        torchx = TorchX(tmp_path, kubeconfig)
        before = await names(world)
        handle, name = await torchx.run(world.namespace)
        await world.phase("Running", name=name, running=3)
        assert (await world.group(name))["spec"]["minMember"] == 3  # all or nothing, though TorchX asks for no minimum
        pods = {f"{name}-{replica}-0" for replica in ("trainer-0", "trainer-1", "reader-0")}
        assert set(await world.pods()) == pods

        listed = await torchx("list", "-s", "kubernetes")
        assert [line.split() for line in listed.splitlines()[2:]] == [[handle, "RUNNING"]]
        status = await torchx("status", handle)
        assert "State: RUNNING" in status
        for replica in ("trainer[0]:RUNNING", "trainer[1]:RUNNING", "reader[0]:RUNNING"):
            assert replica in status
        described = await torchx("describe", handle)
        roles = re.findall(r"'name': '(trainer|reader)',\s+'num_replicas': (\d+)", described)
        assert sorted(roles) == [("reader", "1"), ("trainer", "2")]

        await torchx("cancel", handle)
        assert await world.all(Job) == []
        if (
            place is on_the_embedded_server
        ):  # kube-controller-manager takes half a minute to learn of new kinds of owners

            async def nothing_is_left():
                return await names(world) == before

            await world.until(nothing_is_left, "the end of all that the app was made of", Service, ConfigMap)
        assert (await torchx("list", "-s", "kubernetes")).splitlines()[2:] == []


@pytest.fixture
def namespaces(tmp_path_factory):
    require_namespaces(tmp_path_factory.mktemp("probe"))


async def test_replicas_find_rank_0_and_torchx_reads_their_logs(namespaces, tmp_path):
    async with frameworks.a_cluster(tmp_path / "server", nodes=0) as (up, world):
        await up.add_process_node(ProcessSettings(name="machine", folder=tmp_path / "machine", capacity={"cpu": "8"}))
        torchx = TorchX(tmp_path, up.kubeconfig)
        handle, name = await torchx.run(world.namespace)
        await world.phase("Completed", name=name)
        assert "State: SUCCEEDED" in await torchx("status", handle)
        said = re.findall(r"(trainer/0|trainer/1|reader/0) .*? finds rank 0 at ([\w.-]+)", await torchx("log", handle))
        first = f"{name}-trainer-0-0.{name}"
        assert dict(said) == {"trainer/0": "localhost", "trainer/1": first, "reader/0": first}


async def names(world):
    """Of everything that a Job makes."""
    made = (Job, Pod, PodGroup, Service, ConfigMap)
    return {(struct, each["metadata"]["name"]) for struct in made for each in await world.all(struct)}

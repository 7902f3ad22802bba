"""The example of the guide, installed as anybody's package would be, in the real scheduler process."""

import asyncio
import contextlib
import json
import os
import random
import sys
import urllib.request
from pathlib import Path

import pytest
from tests.bodies.scheduler import World

from pumice.api.core import ConfigMap, Namespace
from pumice.clock import RealClock
from pumice.kube import config
from pumice.kube.client import Client
from pumice.kube.http import HttpTransport
from pumice.local.apiserver.server import Settings
from pumice.local.apiserver.serving import EmbeddedServer, Place
from pumice.local.up import install_kinds

ROOM = {"nvidia.com/gpu": "1"}  # a gang that names no minimum is admitted without a question
EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "day_limit.py"
POLICY = "actions: 'enqueue, allocate'\ntiers:\n- plugins: [{name: gang}, {name: predicates}, {name: day-limit}]\n"

pytestmark = pytest.mark.timeout(300)  # processes start and end: a busy machine takes its time


def install(folder):
    """The example and its entry point, as an installer leaves them."""
    (folder / "day_limit.py").write_text(EXAMPLE.read_text())
    about = folder / "day_limit-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: day-limit\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[pumice.plugins]\nday-limit = day_limit:DayLimit\n")
    (folder / "policy.yaml").write_text(POLICY)


@contextlib.asynccontextmanager
async def scheduler(folder, kubeconfig, life):
    """One life of `pumice scheduler`; gives the address of its metrics."""
    log = folder / f"scheduler-{life}.log"
    command = [sys.executable, "-m", "pumice.cli", "scheduler", "--kubeconfig", str(kubeconfig), "--no-leader-elect"]
    command += ["--listen", "127.0.0.1:0", "--policy", str(folder / "policy.yaml")]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(*command, env=environment, stdout=out, stderr=out)
    try:
        while True:
            lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
            ports = [line["port"] for line in lines if line["event"] == "listening"]
            if ports:
                break
            assert process.returncode is None, log.read_text()
            await asyncio.sleep(0.05)
        yield f"http://127.0.0.1:{ports[0]}/metrics"
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def left(address):
    """The plugin's own metric, or None before the first cycle."""

    def ask():
        with contextlib.suppress(OSError), urllib.request.urlopen(address, timeout=10) as answer:
            lines = [line for line in answer.read().decode().splitlines() if line.startswith("day_limit_left_gangs ")]
            return float(lines[0].split()[1]) if lines else None

    return await asyncio.to_thread(ask)


async def test_a_plugin_in_one_file_reads_a_kind_remembers_and_measures_without_a_change_in_pumice(tmp_path):
    install(tmp_path)
    async with EmbeddedServer(Place(tmp_path / "server"), Settings()) as server:
        connection = config.find(str(server.kubeconfig), clock=RealClock())
        async with HttpTransport(connection, user_agent="test") as transport:
            client = Client(transport, clock=RealClock(), chance=random.Random(1))
            await install_kinds(client)
            await client.create(Namespace, {"metadata": {"name": "team"}})
            settings = {"metadata": {"name": "day-limit"}, "data": {"gangs": "2"}}
            await client.create(ConfigMap, settings, namespace="kube-system")
            world = World(client, "team", None)
            await world.node("a", gpus=8)
            async with scheduler(tmp_path, server.kubeconfig, 1) as metrics:
                await world.gang("first", size=1, minResources=ROOM)
                await world.until_bound("first", 1)
                await world.until(lambda: is_left(metrics, 1), "one more gang may come today")
            async with scheduler(tmp_path, server.kubeconfig, 2) as metrics:
                await world.until(lambda: is_left(metrics, 1), "the first gang is remembered")
                await world.gang("second", size=1, minResources=ROOM)
                await world.until_bound("second", 1)
                await world.gang("third", size=1, minResources=ROOM)
                await world.until(lambda: is_left(metrics, 0), "the day's number is reached")
                assert await world.bound("third") == {}
                more = {"data": {"gangs": "3"}}
                await client.patch(ConfigMap, "day-limit", more, namespace="kube-system")
                await world.until_bound("third", 1)


async def is_left(metrics, number):
    return await left(metrics) == number

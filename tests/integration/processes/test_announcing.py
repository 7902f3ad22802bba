"""Where a scheduler without an election says that it can be asked."""

import asyncio
import json
import os
import random
import signal
import sys

import pytest

from pumice.api import names
from pumice.api.coordination import Lease
from pumice.api.core import Namespace
from pumice.clock import RealClock
from pumice.kube.client import Client
from pumice.local import viewer
from pumice.local.apiserver.local import LocalTransport
from pumice.local.apiserver.server import Server, Settings
from pumice.local.apiserver.serving import Place
from pumice.local.nodes.pretend import pretend_nodes
from pumice.local.up import Up
from pumice.processes import lifecycle
from pumice.runtime import silent

NOTICE = ("team", "special")
WAIT_S_MAX = 60


@pytest.fixture
async def client():
    async with Server(Settings(chance=random.Random(0))) as server:
        made = Client(LocalTransport(server), clock=RealClock(), chance=random.Random(0))
        await made.create(Namespace, {"metadata": {"name": "team"}})
        yield made


async def lease(client):
    return (await client.get(Lease, "special", namespace="team")).json()


async def test_a_lease_that_nobody_holds_is_made_and_told_anew(client):
    for address in ("http://127.0.0.1:1", "http://127.0.0.1:2"):
        await lifecycle.announce(client, NOTICE, address, silent)
        found = await lease(client)
        assert found["metadata"]["annotations"][names.VIEW_ADDRESS] == address
        assert found["metadata"]["labels"] == {names.VIEW_LABEL: "scheduler"}
        assert not found["spec"].get("holderIdentity")


async def test_a_lease_that_somebody_holds_stays_as_it_is(client):
    body = {"metadata": {"name": "special"}, "spec": {"holderIdentity": "other"}}
    await client.create(Lease, body, namespace="team")
    said = []
    await lifecycle.announce(client, NOTICE, "http://127.0.0.1:1", lambda event, **facts: said.append((event, facts)))
    assert "annotations" not in (await lease(client))["metadata"]
    assert said == [("view_not_announced", {"lease": "team/special", "reason": "another process holds it"})]


async def test_a_server_that_refuses_it_costs_nobody_anything(client):
    said = []
    await lifecycle.announce(client, ("nowhere", "x"), "http://127.0.0.1:1", lambda event, **_: said.append(event))
    assert said == ["view_not_announced"]


async def output_of(*arguments, **env):
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pumice.cli", *arguments, env={**os.environ, **env},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await process.communicate()
    return json.loads(out), err.decode()


async def test_the_command_line_asks_a_scheduler_without_an_election_whatever_its_lease_is_called(tmp_path):
    async with asyncio.timeout(WAIT_S_MAX), Up(Place(tmp_path), pretend_nodes(1, gpus=8), log=silent) as cluster:
        await cluster.client.delete(Lease, names.SCHEDULER_LEASE, namespace=viewer.NAMESPACE)
        flags = ("--no-leader-elect", "--lease-name=special", "--listen=127.0.0.1:0", "--scheduler-name=another")
        scheduler = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "pumice.cli", "scheduler", *flags, f"--kubeconfig={cluster.kubeconfig}",
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        try:
            async for line in scheduler.stdout:
                if b"scheduler_started" in line:
                    break
            while True:  # its first cycle comes a moment after that
                found, said = await output_of("top", "-o", "json", KUBECONFIG=str(cluster.kubeconfig))
                if found["source"] == "leader":
                    break
                assert "no cycle has been planned yet" in said
            assert said == ""
        finally:
            scheduler.send_signal(signal.SIGTERM)
            await scheduler.communicate()

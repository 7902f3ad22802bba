"""Where a process says that it can be asked."""

import asyncio
import random
import socket

import pytest
from tests.bodies.patience import PATIENCE_S

from pumice.clock import VirtualClock
from pumice.errors import PumiceError
from pumice.processes import lifecycle
from pumice.processes.health import HealthServer, Pulse
from pumice.runtime import Runtime, silent
from pumice.telemetry.meters import Meters


@pytest.mark.parametrize(
    ("listen", "address"),
    [
        ("127.0.0.1:0", "http://127.0.0.1:4711"),
        ("0.0.0.0:8080", "http://127.0.0.1:4711"),
        (":8080", "http://127.0.0.1:4711"),
        ("[::]:8080", "http://127.0.0.1:4711"),
        ("192.0.2.7:8080", "http://192.0.2.7:4711"),
    ],
)
def test_a_process_that_is_no_pod_is_asked_at_its_port(monkeypatch, listen, address):
    monkeypatch.delenv("KUBE_POD_NAME", raising=False)
    assert lifecycle.address(listen, 4711) == address


def test_a_pod_is_asked_through_the_api_server(monkeypatch):
    monkeypatch.setenv("KUBE_POD_NAMESPACE", "pumice-system")
    monkeypatch.setenv("KUBE_POD_NAME", "pumice-scheduler-7d4-x2")
    assert lifecycle.address("0.0.0.0:8080", 8080) == "pods/pumice-system/pumice-scheduler-7d4-x2:8080"


def test_what_runs_beside_the_work_runs_with_it_and_ends_with_it():
    began, ended = asyncio.Event(), []

    class Silent:
        async def run(self):
            await asyncio.Event().wait()

    async def beside():
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("beside")

    async def main():
        process = lifecycle.Process(None, Silent(), Runtime(clock=VirtualClock(), chance=random.Random(1), log=silent))
        health = HealthServer(Pulse(VirtualClock()), Meters())
        async with asyncio.timeout(PATIENCE_S):
            await process.work(began.wait, health, "127.0.0.1:0", [beside])

    asyncio.run(main())
    assert ended == ["beside"]


def test_a_process_whose_port_is_taken_says_so_and_has_begun_nothing():
    begun = []

    async def work():
        begun.append("work")

    async def main(taken):
        process = lifecycle.Process(None, None, Runtime(clock=VirtualClock(), chance=random.Random(1), log=silent))
        health = HealthServer(Pulse(VirtualClock()), Meters())
        await process.work(work, health, f"127.0.0.1:{taken}", [lambda: begun.append("beside") or work()])

    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]
        with pytest.raises(PumiceError, match=f"127.0.0.1:{taken}.*nothing can listen there.*choose another"):
            asyncio.run(main(taken))
    assert begun == []

"""What probes see of a process."""

import asyncio
import dataclasses
import urllib.error
import urllib.request

import pytest
from tests.bodies.beside import beside

from pumice.clock import RealClock, VirtualClock
from pumice.processes.health import STALLED_S, HealthServer, Pulse
from pumice.telemetry.meters import Meters


@dataclasses.dataclass
class Waiting:
    """As much of an Election as readiness asks for."""

    stands_by: bool


async def readiness(pulse, election):
    health = HealthServer(pulse, Meters(), election=election)
    port = await health.start("127.0.0.1:0")

    def ask():
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=60) as answer:
                return answer.status
        except urllib.error.HTTPError as refusal:
            refusal.close()
            return refusal.code

    try:
        return await asyncio.to_thread(ask)
    finally:
        await health.stop()


@pytest.mark.parametrize(
    ("is_filled", "election", "status"),
    [
        (False, None, 503),
        (True, None, 200),
        (False, Waiting(stands_by=False), 503),  # it leads, or nobody does: its caches must be filled first
        (True, Waiting(stands_by=False), 200),
        (False, Waiting(stands_by=True), 200),  # else the update of a Deployment with a standby would never end
    ],
)
async def test_a_process_is_ready_when_it_can_work_or_stands_by(is_filled, election, status):
    pulse = Pulse(RealClock())
    pulse.ready = is_filled
    assert await readiness(pulse, election) == status


def test_a_process_is_alive_while_its_loop_comes_round():
    clock = VirtualClock()

    async def body():
        pulse = Pulse(clock)
        async with beside(pulse.keep_beating()):
            await clock.sleep(10 * STALLED_S)
            assert pulse.is_alive
        await clock.sleep(STALLED_S + 1)
        assert not pulse.is_alive

    clock.run(body())

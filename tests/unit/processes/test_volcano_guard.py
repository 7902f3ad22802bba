"""Never two masters, whatever the clocks say: a lease is alive if it is renewed."""

import asyncio
import random

import pytest

from pumice import instant
from pumice.api.coordination import Lease
from pumice.api.core import Namespace
from pumice.clock import VirtualClock
from pumice.errors import Conflict
from pumice.kube.client import Client
from pumice.local.apiserver.local import LocalTransport
from pumice.local.apiserver.server import Server, Settings
from pumice.processes.volcano_guard import VOLCANO_LEASES, refuse_two_masters

NOON = instant.parse_instant("2026-01-31T12:00:00Z")


def play(*, behind_s, renews):
    """Whether we are refused; Volcano's clock is behind ours, and it renews its lease every second or is dead."""
    clock = VirtualClock(NOON)

    def stamp():
        return instant.format_micro_instant(clock.now() - int(behind_s * instant.SECOND))

    async def renew(client):
        while renews:
            await clock.sleep(1)
            await client.patch(Lease, "volcano", {"spec": {"renewTime": stamp()}}, namespace="volcano-system")

    async def main():
        async with Server(Settings(now=clock.now, chance=random.Random(0))) as server:
            client = Client(LocalTransport(server), clock=clock, chance=random.Random(1))
            await client.create(Namespace, {"metadata": {"name": "volcano-system"}})
            spec = {"holderIdentity": "theirs", "leaseDurationSeconds": 15, "renewTime": stamp()}
            await client.create(Lease, {"metadata": {"name": "volcano"}, "spec": spec}, namespace="volcano-system")
            renewing = asyncio.create_task(renew(client))
            try:
                await refuse_two_masters(client, frozenset({"volcano"}), clock=clock, lease=VOLCANO_LEASES[0])
            except Conflict:
                return True
            finally:
                renewing.cancel()
            return False

    return clock.run(main())


@pytest.mark.parametrize("behind_s", [0, 60, -3600], ids=["right", "a minute behind", "an hour ahead"])
def test_a_volcano_that_renews_its_lease_is_alive_whatever_its_clock_says(behind_s):
    assert play(behind_s=behind_s, renews=True)


@pytest.mark.parametrize(
    "behind_s", [60, 3600, -3600], ids=["a minute ago", "an hour ago", "by a clock that was ahead"]
)
def test_a_volcano_that_does_not_is_not(behind_s):
    assert not play(behind_s=behind_s, renews=False)

"""Who leads in a world, as leases tell it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pumice.sim.worlds.replicas import LEASE_NAMESPACE

if TYPE_CHECKING:
    from pumice.api.coordination import Lease
    from pumice.clock import VirtualClock


class Leader(NamedTuple):
    """Who holds a lease, since when, and when it was last renewed."""

    identity: str
    since: float
    renewed: float


NOBODY = Leader("", 0.0, 0.0)


class Leaders:
    """The holders of all leases."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._holders: dict[str, Leader] = {}  # by namespace/name of the lease

    def of(self, lease: str) -> Leader:
        return self._holders.get(f"{LEASE_NAMESPACE}/{lease}", NOBODY)

    def see(self, key: str, lease: Lease) -> None:
        identity, now = lease.spec.holder_identity or "", self._clock.monotonic()
        known = self._holders.get(key, NOBODY)
        self._holders[key] = Leader(identity, known.since if known.identity == identity else now, now)

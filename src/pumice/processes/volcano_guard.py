"""No two schedulers serve one name: while a live Volcano serves it, we do not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice import instant
from pumice.api.coordination import Lease
from pumice.api.scheduling import VOLCANO
from pumice.errors import Conflict
from pumice.kube import errors

if TYPE_CHECKING:
    from pumice.clock import Clock
    from pumice.kube.client import Client

VOLCANO_LEASES = ("volcano", "vc-controller-manager")  # of its scheduler and its controllers
VOLCANO_NAMESPACE = "volcano-system"
SKEW_S_MAX = 300.0  # by so much another machine's clock may be behind ours


async def refuse_two_masters(client: Client, names: frozenset[str], *, clock: Clock, lease: str) -> None:
    """Raises Conflict where a running Volcano holds the lease that goes with a name that we were asked to serve."""
    if VOLCANO not in names:
        return
    holder = await _live_holder(client, lease, clock)
    if holder:
        raise Conflict(
            f"Volcano is running here (lease {VOLCANO_NAMESPACE}/{lease} is held by {holder}): two schedulers must not serve the "
            f"name {VOLCANO!r}; scale it down, or serve another name with --scheduler-name pumice"
        )


async def _live_holder(client: Client, name: str, clock: Clock) -> str:
    try:
        lease = (await client.get(Lease, name, namespace=VOLCANO_NAMESPACE)).into(Lease)
    except (errors.NotFound, errors.Refused):
        return ""
    spec = lease.spec
    if not spec.holder_identity or spec.renew_time is None:
        return ""
    lasts_s = spec.lease_duration_seconds or 15
    age_s = (clock.now() - instant.parse_instant(spec.renew_time)) / instant.SECOND
    if 0 <= age_s < lasts_s:
        return spec.holder_identity
    if age_s >= SKEW_S_MAX:
        return ""
    # By our clock it has just ended, or not even begun. Clocks differ: a live holder renews while we look.
    await clock.sleep(lasts_s)
    return spec.holder_identity if await _renew_time(client, name) != spec.renew_time else ""


async def _renew_time(client: Client, name: str) -> str | None:
    try:
        return (await client.get(Lease, name, namespace=VOLCANO_NAMESPACE)).into(Lease).spec.renew_time
    except (errors.NotFound, errors.Refused):
        return None

"""Never two masters: while a live Volcano serves a scheduler name, we do not."""

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
VOLCANOSPACE = "volcano-system"


async def refuse_two_masters(client: Client, names: frozenset[str], *, clock: Clock, lease: str) -> None:
    """Raises Conflict where a running Volcano holds the lease that goes with a name that we were asked to serve."""
    if VOLCANO not in names:
        return
    holder = await _live_holder(client, lease, clock)
    if holder:
        raise Conflict(
            f"Volcano is running here (lease {VOLCANOSPACE}/{lease} is held by {holder}): two schedulers must not serve the "
            f"name {VOLCANO!r}; scale it down, or serve another name with --scheduler-name pumice"
        )


async def _live_holder(client: Client, name: str, clock: Clock) -> str:
    try:
        lease = (await client.get(Lease, name, namespace=VOLCANOSPACE)).into(Lease)
    except (errors.NotFound, errors.Refused):
        return ""
    spec = lease.spec
    if not spec.holder_identity or spec.renew_time is None:
        return ""
    age = clock.now() - instant.parse_instant(spec.renew_time)
    return spec.holder_identity if age < (spec.lease_duration_seconds or 15) * instant.SECOND else ""

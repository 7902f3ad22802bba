"""What admitted gangs still wait for: the part of their minimum that is promised but not used yet.

Gated pods (by anything but Volcano's own gate) cannot run yet, so their requests are taken off what their gang waits for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.api import names
from pumice.cluster import amounts

if TYPE_CHECKING:
    from pumice.cluster.amounts import MutableAmounts
    from pumice.cluster.gangs import Gang
    from pumice.scheduling.core.gangstate import GangState


def is_held_back(gates: tuple[str, ...]) -> bool:
    return bool(gates) and gates != (names.QUEUE_ALLOCATION_GATE,)


def _gated_amounts(gang: GangState | Gang) -> MutableAmounts:
    return amounts.sum_of(task.request.amounts for task in gang.tasks if is_held_back(task.gates))


def ungated_minimum(gang: GangState) -> MutableAmounts:
    """The minimum less what gated members ask for."""
    assert gang.spec.minimum is not None
    gated = _gated_amounts(gang)
    return amounts.surplus(gang.spec.minimum, gated) if gated else dict(gang.spec.minimum)


def outstanding(gang: GangState | Gang) -> MutableAmounts:
    """The minimum less what its members hold already and what gated ones ask for."""
    assert gang.spec.minimum is not None
    return amounts.surplus(amounts.surplus(gang.spec.minimum, gang.occupied), _gated_amounts(gang))

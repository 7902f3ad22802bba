"""What can never run here, said at once and in numbers instead of waiting in silence."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from pumice.cluster import amounts
from pumice.cluster.tasks import Status
from pumice.scheduling.core.verdict import Cure, Reason

if TYPE_CHECKING:
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape


def exceeds_cluster(session: Session, gang: GangState) -> Reason | None:
    """A minimum that the whole cluster, empty, could not give."""
    minimum = gang.spec.minimum
    if not minimum:
        return None
    over = amounts.beyond(minimum, session.total, asked=minimum)
    if not over:
        return None
    parts = [
        f"{name} {amounts.quantity_text(name, minimum[name])} of {amounts.quantity_text(name, session.total.get(name, 0))}"
        for name in over
    ]
    text = f"can never run here: its minimum asks for more than the whole cluster has ({'; '.join(parts)})"
    return Reason("cluster", text, cure=Cure.CHANGE)


def never(session: Session, gang: GangState) -> Reason | None:
    """Why even an empty cluster could not start the gang; None where it could, or where that is hard to tell."""
    reason = exceeds_cluster(session, gang)
    if reason is not None:
        return reason
    unplaced = gang.tasks_in(Status.PENDING, Status.PIPELINED, Status.ALLOCATED)
    waiting = Counter(session.shape(task) for task in unplaced if not task.is_best_effort)
    undemanding = len(unplaced) - sum(waiting.values())  # they count for the gang before they have a place
    missing = gang.spec.min_member - (gang.tally.ready - gang.tally[Status.ALLOCATED]) - undemanding
    for shape, count in waiting.items():
        # Members of other shapes may stand in for these, as far as the minimum allows.
        needed = min(count, missing - (sum(waiting.values()) - count))
        room = capacity_when_empty(session, shape)
        if needed > room:
            each = amounts.text({name: value for name, value in shape.request.amounts.items() if name != amounts.PODS})
            text = f"can never run here: {needed} such pods must start together ({each} each), "
            text += f"and the nodes that may take them hold {room} even when empty"
            return Reason("cluster", text, cure=Cure.CHANGE)
    return None


def capacity_when_empty(session: Session, shape: Shape) -> int:
    """How many such pods the nodes that may take them could hold if nothing else ran there."""
    if shape.most is None:
        table = session.room.table
        if not len(table):
            shape.most = 0
        else:
            copies = shape.copies(table.allocatable)
            shape.most = int(np.sum(copies[session.placer.conceivable(shape)]))
    return shape.most

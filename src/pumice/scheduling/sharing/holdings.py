"""What steady gangs hold together, by queue: most of what queues' books are made of, and hardly ever different from the cycle before."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pumice.cluster import amounts
from pumice.cluster.tasks import EVICTABLE
from pumice.scheduling.core.steady import AmountSum
from pumice.scheduling.sharing import admitted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pumice.cluster.gangs import Gang
    from pumice.scheduling.core.session import Session


class Holding:
    """Of one queue's steady gangs: what they hold, what of it lies beyond their minimums, and what of their minimums they do not hold."""

    def __init__(self) -> None:
        self.gangs = 0
        self.occupied = AmountSum()
        self.elastic = AmountSum()
        self.admitted = AmountSum()
        self.priorities: Counter[int] = Counter()  # how many have which


class _ByQueue:
    def __init__(self) -> None:
        self.queues: dict[str, Holding] = {}

    def add(self, gang: Gang, sign: int) -> None:
        queue, minimum = gang.spec.queue, gang.spec.minimum
        held = self.queues.get(queue)
        if held is None:
            held = self.queues[queue] = Holding()
        held.gangs += sign
        held.priorities[gang.spec.priority] += sign
        if not held.priorities[gang.spec.priority]:
            del held.priorities[gang.spec.priority]
        held.occupied.add(gang.occupied, sign)
        held.elastic.add(amounts.surplus(gang.occupied, minimum) if minimum else gang.occupied, sign)
        if minimum is not None:
            held.admitted.add(admitted.outstanding(gang), sign)
        if sign < 0 and not held.gangs:
            del self.queues[queue]


def by_queue(session: Session) -> dict[str, Holding]:
    """Of the queues that have steady gangs, in the order of their names; as the session began."""
    held = session.steady.sum(_ByQueue).queues
    return {name: held[name] for name in session.queues if name in held}


def lowest_priority(session: Session, queue: str) -> int | None:
    """Of the queue's gangs that had pods on nodes as the session began; None where there is none."""
    held = by_queue(session).get(queue)
    found = [] if held is None else [min(held.priorities)]
    for gang in session.restless:
        counts = gang.gang.counts
        if gang.queue == queue and any(counts[status] for status in EVICTABLE):
            found.append(gang.priority)
    return min(found, default=None)


def as_of_now(session: Session) -> Iterator[tuple[str, AmountSum]]:
    """What each queue's gangs hold after what the session has done; queues without are left out."""
    sums = {queue: held.occupied.copy() for queue, held in by_queue(session).items()}
    for gang in session.gangs.moved:
        if gang.gang.is_steady:
            sums[gang.queue].add(gang.gang.occupied, -1)
    changed = [*session.restless, *(gang for gang in session.gangs.moved if gang.gang.is_steady)]
    for gang in changed:
        if gang.tally.occupying:
            sums.setdefault(gang.queue, AmountSum()).add(gang.occupied, 1)
    return ((queue, sums[queue]) for queue in session.queues if sums.get(queue))

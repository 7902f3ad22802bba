"""Gangs for which others may have to leave: queue by queue, and each in its turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.scheduling.evicting import backoff, eviction
from pumice.scheduling.placing import turns
from pumice.scheduling.placing.heap import Heap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pumice.cluster.queues import QueueInfo
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.session import Session


def _anyone(gang: GangState) -> bool:
    del gang
    return True


def by_queue(
    session: Session, of: Callable[[GangState], bool] = _anyone
) -> Iterator[tuple[QueueInfo, list[GangState]]]:
    """Queues in their order, each with those of its gangs that may evict for themselves."""
    found: dict[str, list[GangState]] = {}
    for gang in turns.contenders(session):
        if of(gang) and eviction.may_evict(session, gang):
            found.setdefault(gang.queue, []).append(gang)
    queues: Heap[QueueInfo] = Heap(session.queue_before, (session.queues[name] for name in found))
    while queues:
        queue = queues.pop()
        yield queue, found[queue.name]


def in_order(session: Session, gangs: Sequence[GangState]) -> Iterator[GangState]:
    """One gang of a queue after the other, for as long as the cycle's budget lasts."""
    turns.rank(session, gangs)
    heap = Heap(session.gang_before, gangs)
    while heap and session.spend(1):
        yield heap.pop()


def take_turns(session: Session, action: str, gangs: Sequence[GangState], attempt: Callable[[GangState], None]) -> None:
    """Each tries to make room in its turn, but for those whose back-off lasts, and those to which a plugin gives no turn."""
    for gang in in_order(session, gangs):
        if not backoff.lasts(session, action, gang):
            with session.turn_of(gang):
                if not turns.is_held_back(session, gang):
                    attempt(gang)

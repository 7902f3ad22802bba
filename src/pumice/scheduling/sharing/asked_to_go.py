"""Pods that were asked to go, and that nobody knows yet to go: their eviction may be refused, or they were given notice, which may be withdrawn.

Under Volcano, and so in the books of queues, they are charged no more from the moment on at which somebody decides that they have to go. Who
starts in what that leaves would take the queue beyond its limit, for good where they stay. So a limit counts them until they are deleted. Shares
do not: they say whose turn it is, and not how much a queue may hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice import instant
from pumice.cluster import amounts
from pumice.cluster.tasks import Status
from pumice.scheduling.core.statement import Eviction

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.cluster.amounts import Amounts, MutableAmounts
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.session import Session


class AskedToGo:
    """Those of earlier cycles, and those that this one evicts; what they hold, by queue."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._held: dict[str, MutableAmounts] = {}
        self._counted = 0  # of what the cycle has decided
        self._evicts = False
        for gang in session.restless:
            for task in gang.gang.tasks if gang.gang.counts[Status.RELEASING] else ():
                if task.status is Status.RELEASING and task.pod.metadata.deletion_timestamp is None:
                    self._add(gang.queue, task.request.amounts)

    def keep_out(self, gang: GangState) -> bool:
        """Whether the gang, in the places that it has just found, is more than its queue's limit has room for beside them."""
        self._count_evictions()
        if not self._held or self._fits_beside(gang, self._held):
            return False
        # What is promised to gangs starts when others have left: it does not come on top of these.
        if self._fits_beside(gang, {queue: self._not_promised(queue) for queue in self._held}):
            return False
        if self._evicts:
            self._session.changes_at.append(self._session.now + instant.SECOND)  # they may be known to go by then
        return True

    def _count_evictions(self) -> None:
        accepted = self._session.accepted
        for operation, _ in accepted[self._counted :]:
            if isinstance(operation, Eviction):
                self._add(operation.gang.queue, operation.shape.request.amounts)
                self._evicts = True
        self._counted = len(accepted)

    def _add(self, queue: str, held: Amounts) -> None:
        amounts.add(self._held.setdefault(queue, {}), held)

    def _fits_beside(self, gang: GangState, held: Mapping[str, Amounts]) -> bool:
        return self._session.points.allocatable.holds_beside(self._session.queue_of(gang), gang, held)

    def _not_promised(self, queue: str) -> Amounts:
        gangs = (each for each in self._session.restless if each.queue == queue and each.tally[Status.PIPELINED])
        tasks = (task for gang in gangs for task in gang.tasks_in(Status.PIPELINED))
        return amounts.surplus(self._held[queue], amounts.sum_of(task.request.amounts for task in tasks))

"""priority: higher classes first, and they may evict lower ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.cluster.tasks import Status
from pumice.scheduling.core.plugin import Plugin
from pumice.scheduling.core.points import Bound, EvictionKind
from pumice.scheduling.sharing import holdings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.evicting.victim_columns import VictimColumns


class Priority(Plugin):
    """Gangs by the class of their group, members by their pods' own priority."""

    stays_open = True

    def open(self, session: Session) -> None:
        self.session = session
        self._lowest: dict[str, int | None] = {}  # of those that hold something, by queue
        on = session.on
        on.task_order(lambda task: -task.priority)
        on.gang_order(lambda gang: -gang.priority)
        on.sub_order(lambda sub: -sub.sub.priority)
        bound = Bound(
            self._rank, lambda rank, view: view.gang_priority < rank, exact=True, nobody=self._outranks_nobody
        )
        on.preemptable(self.lower, bound)
        on.evictable(self.of_lower_gangs)
        on.starving(has_unplaced)

    def _rank(self, claimant: Task, columns: VictimColumns) -> int:
        del columns
        return self.session.gangs[claimant.gang].priority

    def _outranks_nobody(self, claimant: Task, queue: str) -> bool:
        if queue not in self._lowest:
            self._lowest[queue] = holdings.lowest_priority(self.session, queue)
        lowest = self._lowest[queue]
        return lowest is None or self.session.gangs[claimant.gang].priority <= lowest

    def lower(self, claimant: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        gangs = self.session.gangs
        own = gangs[claimant.gang]
        chosen = []
        for task in candidates:
            if task.gang == claimant.gang:
                if task.priority < claimant.priority:
                    chosen.append(task)
            elif task.gang in gangs and gangs[task.gang].priority < own.priority:
                chosen.append(task)
        return chosen

    def of_lower_gangs(self, kind: EvictionKind, claimant: GangState, candidates: Sequence[Task]) -> Sequence[Task]:
        if kind is EvictionKind.RECLAIM:
            return candidates
        gangs = self.session.gangs
        if kind is EvictionKind.CONSOLIDATE:  # they keep what they have, elsewhere
            return [task for task in candidates if gangs[task.gang].priority <= claimant.priority]
        return [task for task in candidates if gangs[task.gang].priority < claimant.priority]


def has_unplaced(gang: GangState) -> bool:
    """Any member without a place makes the gang want more, finished members included in what it wants."""
    return gang.tally.ready + gang.tally[Status.PIPELINED] < len(gang.tasks)

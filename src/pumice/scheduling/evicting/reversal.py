"""A plan seen from its victims' side: would one of them win the room back by the rule that takes it away?

Two gangs that may evict each other do so for ever, and neither gets anything done. The question is asked while the plan holds: the
victims have left, the claimant has its places, and every share counts as it will then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.cluster import amounts
from pumice.cluster.tasks import EVICTABLE
from pumice.scheduling.core.points import EvictionKind
from pumice.scheduling.core.statement import without

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.statement import Statement

ASKED_MAX = 64  # victims' gangs; of a larger plan the first ones
PREEMPT, RECLAIM = "preempt", "reclaim"


def who_wins_back(session: Session, claimant: GangState, statement: Statement) -> GangState | None:
    """The first gang whose members would leave by this plan and that could then evict the claimant for its room."""
    lost: dict[str, list[Task]] = {}
    for each in statement.evictions:
        if each.gang is not claimant:
            lost.setdefault(each.gang.key, []).append(each.task)
    taken = [task for placement in statement.placements for task in placement.tasks if task.preemptable]
    rule = statement.evictions[0].rule
    for key, tasks in list(lost.items())[:ASKED_MAX]:
        gang = session.gangs[key]
        # Below its minimum what is left of it goes too, and counts for nobody then.
        with without(session, gang, *(EVICTABLE if gang.tally.ready < gang.minimum else ())):
            holds = session.points.starving.holds(gang)
            offered = _offered(session, rule, gang, claimant, tasks, taken) if holds else ()
        if _covers(offered, tasks, taken):
            return gang
    return None


def _offered(
    session: Session, rule: str, gang: GangState, claimant: GangState, lost: Sequence[Task], taken: Sequence[Task]
) -> Sequence[Task]:
    """What of the claimant's places the rule would give to the gang."""
    points = session.points
    if rule == PREEMPT:
        return points.preemptable.of(lost[0], taken)
    if rule == EvictionKind.PREEMPT.value:
        return points.evictable.of(EvictionKind.PREEMPT, gang, taken) if claimant.priority < gang.priority else ()
    if rule not in {RECLAIM, EvictionKind.RECLAIM.value}:
        return ()  # who is moved has room elsewhere
    queue, other = session.queue_of(gang), session.queue_of(claimant)
    if queue is other or not other.reclaimable or points.overused.holds(queue):
        return ()
    if rule == RECLAIM:
        return points.reclaimable.of(lost[0], taken) if points.preemptive.holds(queue, [lost[0]]) else ()
    return points.evictable.of(EvictionKind.RECLAIM, gang, taken) if points.preemptive.holds(queue, lost) else ()


def _covers(offered: Sequence[Task], lost: Sequence[Task], taken: Sequence[Task]) -> bool:
    """Whether that is all that the gang has lost to the claimant."""
    if not offered:
        return False
    gives, needs, has = (amounts.sum_of(task.request.amounts for task in tasks) for tasks in (offered, lost, taken))
    return all(gives.get(name, 0) >= min(value, has.get(name, 0)) for name, value in needs.items())

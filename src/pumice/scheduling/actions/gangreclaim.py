"""gangreclaim: a queue that has less than its due takes back from others, gang by gang, if that lets one of its own start as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.cluster.tasks import Status
from pumice.scheduling.core.arguments import read_action
from pumice.scheduling.core.codes import Code
from pumice.scheduling.core.points import EvictionKind
from pumice.scheduling.evicting import claimants, eviction, gang_eviction
from pumice.scheduling.evicting.bundles import Candidates
from pumice.scheduling.evicting.gang_eviction import Arguments

if TYPE_CHECKING:
    from pumice.cluster.queues import QueueInfo
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.session import Session

_RUNNING = frozenset({Status.RUNNING})


def run(session: Session) -> None:
    arguments = read_action(Arguments, session.policy, EvictionKind.RECLAIM.value)
    for queue, gangs in claimants.by_queue(session):
        if session.points.overused.holds(queue):
            continue
        rules = _rules(session, queue)
        for gang in claimants.in_order(session, gangs):
            with session.turn_of(gang):
                if session.points.preemptive.holds(queue, gang_eviction.Wanted(session, gang).tasks):
                    gang_eviction.pursue(session, gang, rules, arguments)


def _rules(session: Session, queue: QueueInfo) -> gang_eviction.Rules:
    lending = {name for name, other in session.queues.items() if other.reclaimable and name != queue.name}

    def queue_that_bears_it_first(left: GangState, right: GangState) -> float:
        if left.queue == right.queue:
            return eviction.victim_compare(session, left, right)
        return eviction.queue_compare(session, session.queue_of(left), session.queue_of(right), queue)

    return gang_eviction.Rules(
        kind=EvictionKind.RECLAIM,
        candidates=Candidates(session, _RUNNING, lambda gang: gang.queue in lending),
        below=lambda _: float("inf"),
        compare=queue_that_bears_it_first,
        too_little=Code.RECLAIM_FALLS_SHORT,
    )

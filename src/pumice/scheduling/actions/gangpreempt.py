"""gangpreempt: a gang that starves may break up or thin out lower-ranked gangs of its own queue, if that lets it start as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.cluster.tasks import EVICTABLE
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


def run(session: Session) -> None:
    arguments = read_action(Arguments, session.policy, EvictionKind.PREEMPT.value)
    for queue, gangs in claimants.by_queue(session):
        rules = _rules(session, queue)
        for gang in claimants.in_order(session, gangs):
            with session.turn_of(gang):
                gang_eviction.pursue(session, gang, rules, arguments)


def _rules(session: Session, queue: QueueInfo) -> gang_eviction.Rules:
    def served_last_first(left: GangState, right: GangState) -> float:
        return eviction.gang_compare(session, left, right) or (1 if session.gang_before(left, right) else -1)

    return gang_eviction.Rules(
        kind=EvictionKind.PREEMPT,
        candidates=Candidates(session, EVICTABLE, lambda gang: gang.queue == queue.name),
        below=lambda claimant: claimant.priority,
        compare=served_last_first,
        too_little=Code.PREEMPTION_FALLS_SHORT,
    )

"""gangpreempt: a gang that starves may break up or thin out lower-ranked gangs of its own queue, if that lets it start as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.cluster.tasks import EVICTABLE
from pumice.scheduling import gangwise
from pumice.scheduling.arguments import read_action
from pumice.scheduling.bundles import Candidates
from pumice.scheduling.codes import Code
from pumice.scheduling.gangwise import Arguments
from pumice.scheduling.points import Kind

if TYPE_CHECKING:
    from pumice.cluster.queues import QueueSpec
    from pumice.scheduling.gangstate import GangState
    from pumice.scheduling.session import Session


def run(session: Session) -> None:
    arguments = read_action(Arguments, session.policy, Kind.PREEMPT.value)
    for queue, gangs in gangwise.starving(session):
        rules = _rules(session, queue)
        while gangs and session.spend(1):
            gangwise.pursue(session, gangs.pop(), rules, arguments)


def _rules(session: Session, queue: QueueSpec) -> gangwise.Rules:
    def served_last_first(left: GangState, right: GangState) -> float:
        return 1 if session.gang_before(left, right) else -1

    return gangwise.Rules(
        kind=Kind.PREEMPT,
        candidates=Candidates(session, EVICTABLE, lambda gang: gang.queue == queue.name),
        below=lambda claimant: claimant.priority,
        compare=served_last_first,
        too_little=Code.PREEMPTION_FALLS_SHORT,
    )

"""consolidate: running gangs start again elsewhere, so that what is free in pieces becomes room for a gang that waits.

Off unless a policy lists it. Nobody loses a place by it: a plan is carried out only if every pod that has to go has room elsewhere at
once, beside the gang that it makes room for. Who may be moved: members beyond their gang's minimum, gangs that say so (`pumice.dev/movable`),
and gangs whose pods say up to when their work is safe (`pumice.dev/checkpointed-at`). What such pods have done since is lost; it is weighed
against what the waiting gang gains, and there is a budget of it by the hour.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.cluster.tasks import Status
from pumice.scheduling.core.arguments import read_action
from pumice.scheduling.core.codes import Code
from pumice.scheduling.core.points import EvictionKind
from pumice.scheduling.evicting import backoff, claimants, gang_eviction, moving
from pumice.scheduling.evicting.bundles import Candidates

if TYPE_CHECKING:
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.session import Session

NAME = EvictionKind.CONSOLIDATE.value
_RUNNING = frozenset({Status.RUNNING})


def run(session: Session) -> None:
    arguments = read_action(moving.Arguments, session.policy, NAME)
    moves = moving.Moves(session, arguments)
    for _, gangs in claimants.by_queue(session):
        for gang in claimants.in_order(session, gangs):
            if moves.left <= 0:
                return
            if gang.key in session.made_room_for or backoff.lasts(session, NAME, gang):
                continue
            with session.turn_of(gang):
                budget = session.budget
                if gang_eviction.pursue(session, gang, _rules(session, gang, moves), arguments):
                    moves.left -= 1
                else:
                    backoff.record(session, NAME, gang, budget)


def _rules(session: Session, claimant: GangState, moves: moving.Moves) -> gang_eviction.Rules:
    def least_lost_first(left: GangState, right: GangState) -> float:
        return moves.lost(left) - moves.lost(right)

    return gang_eviction.Rules(
        kind=EvictionKind.CONSOLIDATE,
        candidates=Candidates(session, _RUNNING, lambda gang: gang is not claimant and moves.may_move(gang)),
        below=lambda gang: gang.priority + 1,
        compare=least_lost_first,
        too_little=Code.CONSOLIDATION_FALLS_SHORT,
        goes_whole=moves.may_move_whole,
        accepts=moves.is_worth_it,
    )

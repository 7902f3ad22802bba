"""gang: a group starts when all of its minimum can, and not before. The rule that makes a gang, and the smallest plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.cluster.tasks import Status
from pumice.scheduling.core.codes import Code, Facts
from pumice.scheduling.core.plugin import Plugin
from pumice.scheduling.core.points import Bound, EvictionKind, Vote
from pumice.scheduling.core.verdict import Cure, Reason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.gangstate import GangState, SubState
    from pumice.scheduling.core.session import Session


class GangPlugin(Plugin):
    """minMember, minTaskMember and sub groups decide when a gang is valid, ready, pipelined and starving."""

    essential = True
    stays_open = True

    def open(self, session: Session) -> None:
        self.session = session
        on = session.on
        on.valid(valid)
        on.gang_order(lambda gang: float(gang.is_ready))
        on.sub_order(lambda sub: float(sub.is_ready))
        on.ready(ready, until_ready, of_steady=True)
        on.sub_ready(lambda sub: sub.is_ready, lambda sub, _: until_sub_ready(sub))
        on.shortfall(shortfall)
        on.pipelined(lambda gang: _vote(yes=pipelined(gang)))
        on.sub_pipelined(lambda sub: _vote(yes=sub.is_pipelined))
        on.starving(lambda gang: gang.is_starving)
        beyond_minimum = Bound(lambda _claimant, _columns: None, lambda _key, view: view.surplus > 0)
        on.preemptable(self.surplus, beyond_minimum)
        on.reclaimable(self.surplus, beyond_minimum)
        on.evictable(self.all_of)

    def surplus(self, claimant: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        """Members above their gang's minimum, in the given order."""
        del claimant
        left: dict[str, int] = {}
        chosen = []
        for task in candidates:
            gang = self.session.gangs.get(task.gang)
            if gang is None:
                continue
            ready = left.setdefault(gang.key, gang.tally.ready)
            if ready > gang.spec.min_member:
                left[gang.key] = ready - 1
                chosen.append(task)
        return chosen

    def all_of(self, kind: EvictionKind, claimant: GangState, candidates: Sequence[Task]) -> Sequence[Task]:
        del kind, claimant
        return candidates


def _vote(*, yes: bool) -> Vote:
    return Vote.PERMIT if yes else Vote.REJECT


def ready(gang: GangState) -> bool:
    return gang.is_ready and gang.roles_ready() and gang.subs_ready()


def pipelined(gang: GangState) -> bool:
    return gang.is_pipelined and gang.roles_ready(pipelined=True) and gang.subs_ready(pipelined=True)


def until_ready(sub: SubState, role: str) -> int | None:
    """How many more members of the role make the gang ready; None where another role is short."""
    gang = sub.gang
    missing = gang.spec.min_member - gang.tally.ready - gang.tally.waiting_best_effort
    if gang.roles_count:
        for name, least in gang.spec.role_minimums.items():
            short = least - gang.role_ready(name)
            if name == role:
                missing = max(missing, short)
            elif short > 0:
                return None
    return missing


def until_sub_ready(sub: SubState) -> int:
    return sub.minimum - sub.tally.ready - sub.tally.waiting_best_effort


def shortfall(subject: GangState | SubState) -> int:
    """Promised places count here: they suffice to be pipelined, and to be ready takes no fewer members."""
    tally = subject.tally
    return subject.minimum - tally.ready - tally.waiting_best_effort - tally[Status.PIPELINED]


def valid(gang: GangState) -> Reason | None:
    """Whether enough members exist at all."""
    spec = gang.spec
    if gang.roles_count:
        for name, least in spec.role_minimums.items():
            tally = gang.role(name)
            have = tally.occupying + tally[Status.SUCCEEDED] + tally[Status.PIPELINED] + tally[Status.PENDING]
            if least and have < least:
                return _missing(Code.TASK_PODS_MISSING, Facts(role=name, free=have, wanted=least))
    for index, policy in enumerate(spec.policies):
        have = sum(sub.sub.policy == index for sub in gang.subs)
        if have < policy.min_sub_groups:
            return _missing(Code.SUB_GROUPS_MISSING, Facts(role=policy.name, free=have, wanted=policy.min_sub_groups))
    if gang.tally.valid < spec.min_member:
        return _missing(Code.PODS_MISSING, Facts(free=gang.tally.valid, wanted=spec.min_member))
    return None


def _missing(code: Code, facts: Facts) -> Reason:
    return Reason(code, "gang", facts, cure=Cure.WAITING)

"""overcommit: admits gangs until their minimums add up to a little more than the cluster has left."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

import msgspec

from pumice.api.scheduling import PodGroupPhase
from pumice.cluster import amounts
from pumice.scheduling.core import arguments
from pumice.scheduling.core.codes import Code, Facts
from pumice.scheduling.core.plugin import AdmittingBooks, Plugin
from pumice.scheduling.core.points import Vote
from pumice.scheduling.core.verdict import Cure, Reason
from pumice.scheduling.sharing import admitted, holdings

if TYPE_CHECKING:
    from pumice.cluster.amounts import Amounts
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.policy import PluginOption
    from pumice.scheduling.core.session import Session

FACTOR_DEFAULT = 1.2


class Args(arguments.Args, frozen=True, kw_only=True):
    factor: Annotated[
        float, msgspec.Meta(description="the cluster counts as so many times its size; below 1 the default holds")
    ] = msgspec.field(name="overcommit-factor", default=FACTOR_DEFAULT)


class _Budget(AdmittingBooks):
    def __init__(self, total: Amounts, factor: float) -> None:
        self._total = total
        self._factor = factor

    def admits(self, each: Amounts, used: Amounts, promised: Amounts) -> int:
        budget = {name: math.floor(left) for name, left in budget_of(self._total, self._factor, used).items()}
        return amounts.times_within(budget, promised, each)


class Overcommit(Plugin):
    """Budget: all nodes' allocatable times the factor, less what is used and what admitted gangs still wait for.

    A gang that is starting counts twice until it runs, with what its pods use and with its whole minimum: as under Volcano.
    """

    args_type = Args
    stays_open = True

    def __init__(self, args: Args, option: PluginOption) -> None:
        del option
        self.factor = args.factor if args.factor >= 1 else FACTOR_DEFAULT

    def open(self, session: Session) -> None:
        nodes = session.snapshot.nodes
        rows = nodes.axis.rows
        used = {name: sum(nodes.used[rows[name]].tolist()) for name in session.total if name in rows}
        self.budget = budget_of(session.total, self.factor, used)
        self.admitted = amounts.sum_of(held.admitted.total() for held in holdings.by_queue(session).values())
        for gang in session.restless:
            if gang.spec.minimum is None or gang.has_reservation:
                continue
            if gang.phase == PodGroupPhase.INQUEUE.value:
                amounts.add(self.admitted, admitted.ungated_minimum(gang))
            elif gang.phase == PodGroupPhase.RUNNING.value and gang.tally.occupying >= gang.spec.min_member:
                amounts.add(self.admitted, admitted.outstanding(gang))
        session.on.enqueueable(self.vote)
        session.on.enqueued(self.charge)

    def open_books(self, session: Session) -> AdmittingBooks:
        return _Budget(session.total, self.factor)

    def vote(self, gang: GangState) -> Vote | Reason:
        minimum = gang.spec.minimum
        if minimum is None:
            return Vote.PERMIT
        over = amounts.too_much(self.admitted, minimum, self.budget)
        if not over:
            return Vote.PERMIT
        return Reason(Code.CLUSTER_OVERCOMMITTED, "overcommit", Facts(names=tuple(over)), cure=Cure.WAITING)

    def charge(self, gang: GangState) -> None:
        if gang.spec.minimum is not None:
            amounts.add(self.admitted, admitted.ungated_minimum(gang))


def budget_of(total: Amounts, factor: float, used: Amounts) -> dict[str, float]:
    return {name: value * factor - used.get(name, 0) for name, value in total.items()}

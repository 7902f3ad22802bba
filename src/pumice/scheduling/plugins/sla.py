"""sla: a gang that has waited long enough comes first, is admitted, and keeps the room that it finds until there is enough of it.

It has force only over plugins in lower tiers: put it into a tier above those of overcommit, proportion, capacity and gang.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated

import msgspec

from pumice.api import names
from pumice.cluster.tasks import Status
from pumice.scheduling.core import arguments
from pumice.scheduling.core.plugin import Plugin
from pumice.scheduling.core.points import Vote
from pumice.scheduling.placing import annotation_values

if TYPE_CHECKING:
    from pumice.instant import Duration, Instant
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.policy import PluginOption
    from pumice.scheduling.core.session import Session

WAITING_TIME = "sla-waiting-time"


class Args(arguments.Args, frozen=True, kw_only=True):
    """A PodGroup's own annotation `volcano.sh/sla-waiting-time` wins over the default for all."""

    waiting_time: Annotated[
        str | None, msgspec.Meta(description="how long a gang may wait before it takes precedence; absent: for ever")
    ] = msgspec.field(name=WAITING_TIME, default=None)

    def __post_init__(self) -> None:
        self.waiting()

    def waiting(self) -> Duration | None:
        return None if self.waiting_time is None else arguments.duration(WAITING_TIME, self.waiting_time)


class Sla(Plugin):
    """Deadline = creation + waiting time; before it the plugin only orders, after it it also insists."""

    args_type = Args

    def __init__(self, args: Args, option: PluginOption) -> None:
        del option
        self.default = args.waiting()

    def open(self, session: Session) -> None:
        self.now = session.now
        session.on.gang_order(self.order)
        session.on.enqueueable(self.vote)
        session.on.pipelined(self.vote)

    def deadline(self, gang: GangState) -> Instant | None:
        waiting = annotation_values.positive_duration(gang.spec.annotations, names.SLA_WAITING_TIME, WAITING_TIME)
        waiting = self.default if waiting is None else waiting
        if waiting is None:
            return None
        created = gang.gang.created
        return (self.now if created is None else created) + waiting

    def next_change(self, session: Session) -> Instant | None:
        """The next deadline of a gang that waits."""
        waiting = (gang for gang in session.restless if gang.is_waiting_for_admission or gang.tally[Status.PENDING])
        deadlines = (self.deadline(gang) for gang in waiting if gang.spec.created)
        return min((when for when in deadlines if when is not None and when > self.now), default=None)

    def order(self, gang: GangState) -> float:
        """Gangs with a deadline before all that have none, the earliest first."""
        deadline = self.deadline(gang)
        return math.inf if deadline is None else deadline

    def vote(self, gang: GangState) -> Vote:
        deadline = self.deadline(gang)
        return Vote.PERMIT if deadline is not None and self.now >= deadline else Vote.ABSTAIN

"""How long a gang runs, and who says so: its hard limit, its owner, its past, its queue, the policy.

The first of these that is known counts. A gang that outlives its estimate is expected to end after another tenth of its age, and after
a minute at least: that moves further off the longer the estimate has been wrong, and never lies in the past.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import numpy as np

from pumice import instant
from pumice.api import names
from pumice.scheduling.core.decisions import Expected
from pumice.scheduling.placing import annotation_values
from pumice.scheduling.time import run_times
from pumice.values import Value

if TYPE_CHECKING:
    from pumice.cluster.columns import Column
    from pumice.cluster.gangs import Gang
    from pumice.instant import Duration, Instant
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.policy import Policy
    from pumice.scheduling.core.session import Session

LENGTH_MAX = 100 * 365 * 24 * instant.HOUR  # of a run; with the clock, and once more, still a number of 64 bits
OVERDUE_LEAST = instant.MINUTE
OVERDUE_PART = 10  # of the gang's age


class Source(enum.Enum):
    """Who says how long a gang runs; the value is its name in JSON."""

    LIMIT = "limit"  # pumice.dev/time-limit: it is ended then
    DECLARED = "declared"  # pumice.dev/running-estimate
    RECORDED = "recorded"  # past runs of the same user, queue and name, as the record has them
    LEARNED = "learned"  # the same, of those that this scheduler has seen end
    QUEUE = "queue"  # pumice.dev/default-run-time on the Queue
    POLICY = "policy"  # the plugin's argument default-estimate


class Estimate(Value):
    length: Duration
    source: Source
    right: float | None = None  # learned: the part of the runs judged so far that ended in time


DEFAULT = "1h"  # of a policy that says nothing


def default_of(policy: Policy) -> Duration:
    """How long a gang is expected to run that nothing is known of."""
    option = policy.option(run_times.ASKED_FOR_BY)
    return instant.parse_duration(str(option.arguments.get("default-estimate", DEFAULT)) if option else DEFAULT)


class Estimates:
    """The estimates of one session; each gang's is found once."""

    def __init__(self, session: Session, default: Duration) -> None:
        self.session = session
        self.now = session.now
        self.default = Estimate(default, Source.POLICY)
        self._known: dict[str, Estimate] = {}
        self._ends: dict[str, Instant] = {}

    def of(self, gang: GangState) -> Estimate:
        known = self._known.get(gang.key)
        if known is None:
            known = self._known[gang.key] = self.estimate(gang.gang)
        return known

    def estimate(self, gang: Gang) -> Estimate:
        """The same for one of which this session need not know that it was asked for."""
        found = self._found(gang)
        # Whoever writes three centuries must not fail in the columns of everybody, or come out as a time that has passed.
        return found if found.length <= LENGTH_MAX else Estimate(LENGTH_MAX, found.source, found.right)

    def _found(self, gang: Gang) -> Estimate:
        spec = gang.spec
        if spec.time_limit is not None:
            return Estimate(spec.time_limit, Source.LIMIT)
        if spec.running_estimate is not None:
            return Estimate(spec.running_estimate, Source.DECLARED)
        if (past := self._past(gang)) is not None:
            return past
        queue = self.session.queues.get(spec.queue)
        of_queue = (
            None if queue is None else annotation_values.positive_duration(queue.annotations, names.DEFAULT_RUN_TIME)
        )
        return self.default if of_queue is None else Estimate(of_queue, Source.QUEUE)

    def _past(self, gang: Gang) -> Estimate | None:
        """The record goes back further than the memory, and knows runs that ended while no scheduler looked."""
        sources = (
            (Source.RECORDED, self.session.ports.run_times),
            (Source.LEARNED, self.session.memory.of(run_times.SLOT)),
        )
        kind = run_times.kind_of(gang)
        for source, runs in sources:
            if runs is not None and (past := runs.of(kind)) is not None:
                return Estimate(past.length, source, past.right)
        return None

    def end(self, gang: GangState) -> Instant:
        """When the gang is expected to end, after now: from its start, or from now where it has not started."""
        end = self._ends.get(gang.key)
        if end is None:
            end = self._ends[gang.key] = self._end(gang)
        return end

    def _end(self, gang: GangState) -> Instant:
        started, length = gang.gang.started, self.of(gang).length
        if started is None or started > self.now:
            return self.now + length
        if started + length > self.now:
            return started + length
        return self.now + max((self.now - started) // OVERDUE_PART, OVERDUE_LEAST)

    def ends(self, started: Column, lengths: Column) -> Column:
        """`end` for many gangs: of those that have not started `started` is negative."""
        overdue = self.now + np.maximum((self.now - started) // OVERDUE_PART, OVERDUE_LEAST)
        ends: Column = np.where(started + lengths > self.now, started + lengths, overdue)
        return np.where((started < 0) | (started > self.now), self.now + lengths, ends)

    def asked(self) -> dict[str, Expected]:
        """What somebody wanted to know in this session, by gang."""
        gangs = self.session.gangs
        return {
            key: Expected(
                each.length, each.source.value, each.right, self.end(gangs[key]) if gangs[key].gang.held else None
            )
            for key, each in self._known.items()
        }

    def is_overdue(self, gang: GangState) -> bool:
        """Whether the gang runs for longer than was expected."""
        started = gang.gang.started
        return started is not None and started + self.of(gang).length <= self.now

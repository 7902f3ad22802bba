"""When the next cycle is due: at once, soon, or when the clock says so. All Changes enter the scheduler's state here."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pumice.api.changes import Upserted
from pumice.api.pods import Pod
from pumice.cluster.relevance import Urgency, urgency
from pumice.cluster.tasks import Status
from pumice.scheduling.core.codes import Code

if TYPE_CHECKING:
    from pumice.api.changes import Change
    from pumice.cluster.intake import Intake
    from pumice.cluster.relevance import Concerns
    from pumice.cluster.state import Snapshot
    from pumice.scheduling.core.decisions import Decisions, GangReport
    from pumice.scheduling.core.policy import Policy

# Thousands of pods that are bound, or start, one after the other are planned for so often at most; and where a cycle takes long, it
# takes no more than a fortieth of the time, because it has something to say and nothing to decide.
PROGRESS_S = 0.25
PROGRESS_S_MAX = 1.0
PROGRESS_SHARE = 40
# The same for members of a gang that is still being created: until it may be complete there is nothing to plan, and for so long
# nothing is said of it.
ARRIVAL_S = 5.0
# While news never ends, planning uses a quarter of the time: what comes meanwhile is planned together. Before that it may use so many
# seconds at once, so that nobody waits where little happens; and nobody waits for longer than the last of these.
PLAN_SHARE = 0.25
PLAN_S_AT_ONCE = 0.25
REST_S_MAX = 0.5
_MISSING = frozenset({Code.PODS_MISSING, Code.TASK_PODS_MISSING, Code.SUB_GROUPS_MISSING})


class Pace:
    """How long planning has to rest, by how long it took; times are seconds of any clock."""

    def __init__(self) -> None:
        self._credit_s = PLAN_S_AT_ONCE
        self._at = 0.0

    def planned(self, began: float, ended: float) -> None:
        credit_s = min(self._credit_s + (ended - self._at) * PLAN_SHARE, PLAN_S_AT_ONCE) - (ended - began)
        self._credit_s, self._at = max(credit_s, -REST_S_MAX * PLAN_SHARE), ended

    def rest_s(self, now: float) -> float:
        return max(-self._credit_s / PLAN_SHARE - (now - self._at), 0.0)


class Wakeups:
    """Takes news in and says when to plan for it; belongs to one event loop."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._cluster = intake.cluster
        self._news = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None  # when what can wait is due
        self._began = 0.0  # the last cycle
        self._progress_s = PROGRESS_S
        self._needed: dict[str, int] = {}  # gang -> how many members it has at least when it may be complete

    def learn(self, change: Change, concerns: Concerns) -> None:
        how = urgency(self._cluster, change, concerns)
        self._intake.apply(change)
        if how is Urgency.SOON:
            self._plan_within(self._progress_s)
        elif how is Urgency.NOW and self._is_one_of_many(change):
            self._plan_within(ARRIVAL_S)
        elif how is Urgency.NOW:
            self._news.set()

    def now(self) -> None:
        """There is news that is in no Change."""
        self._news.set()

    def begin(self) -> None:
        """A cycle begins, and plans for all that is known."""
        self._began = asyncio.get_running_loop().time()
        self._news.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def expect(self, snapshot: Snapshot, decisions: Decisions, policy: Policy) -> None:
        """A cycle has ended; of gangs that it set aside it is known how many members they lack.

        That a gang has no pods yet is always said; that it cannot start with its first one only where the gang plugin is at work.
        """
        took_s = asyncio.get_running_loop().time() - self._began
        self._progress_s = min(max(PROGRESS_S, took_s * PROGRESS_SHARE), PROGRESS_S_MAX)
        codes = _MISSING if policy.option("gang") is None else _MISSING | {Code.NO_PODS}
        self._needed = {
            key: len(gang.tasks) + lacking
            for key, report in decisions.gangs.items()
            if (lacking := _lacking(report, codes))
            and (gang := snapshot.gangs[key]).counts[Status.PENDING] == len(gang.tasks)  # else it may have to be mended
        }
        if any(self._has(key) >= needed for key, needed in self._needed.items()):
            self._news.set()  # they came while it was planned

    async def wait(self, seconds: float) -> bool:
        """Returns when a cycle is due for the sake of news, True, or after so long."""
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return False
        return True

    def _plan_within(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        if self._timer is None or self._timer.when() > due:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = loop.call_at(due, self._news.set)

    def _is_one_of_many(self, change: Change) -> bool:
        """A member of a gang that lacks still more of them: until then a cycle can do no more for it than the last one."""
        if not isinstance(change, Upserted) or not isinstance(change.object, Pod):
            return False
        task = self._cluster.tasks.get(change.object.metadata.uid or change.object.metadata.key)
        if task is None or task.status is not Status.PENDING or task.gates:
            return False
        return self._has(task.gang) < self._needed.get(task.gang, 0)

    def _has(self, gang: str) -> int:
        slot = self._cluster.gangs.get(gang)
        return 0 if slot is None else len(slot.tasks)


def _lacking(report: GangReport, codes: frozenset[Code]) -> int:
    """At least how many more pods must come before the gang can start; 0 where something else is in its way."""
    missing = [each.facts for each in report.reasons if each.code in codes]
    return max(((facts.wanted or 0) - (facts.free or 0) for facts in missing), default=0)

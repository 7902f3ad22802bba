"""When to see whether what a Job's plugins made is still there.

These objects are not watched: to watch Secrets is to be allowed to read all of them. So each Job that runs is asked about now and then,
more rarely where there are many, and so that the API server hears of a few at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice import instant
from pumice.controllers.job.phases import ENDING, phase_of
from pumice.controllers.operations import Plan
from pumice.kube.informer import Key

if TYPE_CHECKING:
    from pumice.api.batch import Job
    from pumice.instant import Instant

RESTORE_S_MIN = 30.0
JOBS_A_SECOND = 5.0  # each has up to five such objects


class Rounds:
    """Each Job's turn; a restart of the controller begins a new round."""

    def __init__(self, interval_s: float = RESTORE_S_MIN) -> None:
        self._interval_s = interval_s
        self._turns: dict[Key, tuple[str, Instant]] = {}  # by uid, and when

    def __len__(self) -> int:
        return len(self._turns)

    def is_due(self, job: Job, now: Instant) -> bool:
        """True once an interval; of a Job that has no such objects, or is over, never."""
        key = Key(job.metadata.namespace, job.metadata.name)
        if not _has_objects(job) or phase_of(job.status) in ENDING:
            self.leave(key)
            return False
        uid, turn = self._turns.get(key, ("", 0))
        if uid == job.metadata.uid and now < turn:
            return False
        self._turns[key] = job.metadata.uid, now + round(self._pace_s() * instant.SECOND)
        return uid == job.metadata.uid  # what has just been made is there

    def schedule_repair(self, plan: Plan, job: Job) -> Plan:
        """The plan, made again when the Job's turn comes."""
        turn = self._turns.get(Key(job.metadata.namespace, job.metadata.name))
        if turn is None:
            return plan
        return Plan(plan.stages, turn[1] if plan.again_at is None else min(plan.again_at, turn[1]))

    def leave(self, key: Key) -> None:
        self._turns.pop(key, None)

    def _pace_s(self) -> float:
        return max(self._interval_s, len(self._turns) / JOBS_A_SECOND)


def _has_objects(job: Job) -> bool:
    return any(key.startswith("plugin-") for key in job.status.controlled_resources)

"""The table of phase x action, and the rules by which a phase ends by itself.

Volcano's table with seven of its cells mended (docs/differences.md): AbortJob, TerminateJob and CompleteJob during Restarting do
what they say; in Aborting and Aborted ResumeJob costs no retry, and RestartJob starts the Job anew.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from pumice.api.batch import LIVE_PHASES, SUSPENDED_PHASES, Action, JobPhase
from pumice.controllers.job.defaulting import total_replicas
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.api.batch import Job, JobSpec, JobStatus
    from pumice.controllers.job.status import Counters


class Kill(enum.Enum):
    """Which pods have to go when a phase is left by an action."""

    ALL = "all"  # Volcano's KN; on the last retry finished pods stay, for inspection
    UNFINISHED = "unfinished"  # KS
    TARGETS = "targets"  # KT


class Move(Value):
    to: JobPhase
    kill: Kill
    costs_retry: bool = False


_TARGETED = (Action.RESTART_TASK, Action.RESTART_POD, Action.RESTART_PARTITION)
_ENDS = {
    Action.ABORT_JOB: JobPhase.ABORTING,
    Action.TERMINATE_JOB: JobPhase.TERMINATING,
    Action.COMPLETE_JOB: JobPhase.COMPLETING,
}


def _table() -> Mapping[tuple[JobPhase, Action], Move]:
    table: dict[tuple[JobPhase, Action], Move] = {}
    for phase in LIVE_PHASES:
        costs = phase is not JobPhase.RESTARTING  # a restart that is under way was paid for
        table[phase, Action.RESTART_JOB] = Move(JobPhase.RESTARTING, Kill.ALL, costs)
        for action in _TARGETED:
            table[phase, action] = Move(JobPhase.RESTARTING, Kill.TARGETS, costs)
        for action, end in _ENDS.items():
            table[phase, action] = Move(end, Kill.UNFINISHED)
    for phase in SUSPENDED_PHASES:
        table[phase, Action.RESUME_JOB] = Move(JobPhase.RESTARTING, Kill.UNFINISHED)
        table[phase, Action.RESTART_JOB] = Move(JobPhase.RESTARTING, Kill.ALL)  # by a Command: no policy acts here
    return table


TABLE = _table()

# In these phases nothing is started any more, and what is not finished has to go.
ENDING = frozenset(
    {
        JobPhase.ABORTING,
        JobPhase.ABORTED,
        JobPhase.COMPLETING,
        JobPhase.COMPLETED,
        JobPhase.TERMINATING,
        JobPhase.TERMINATED,
        JobPhase.FAILED,
    }
)
# Nothing happens in these of itself; Aborted is left by ResumeJob and RestartJob alone, the others by nothing.
FINAL = frozenset({JobPhase.ABORTED, JobPhase.COMPLETED, JobPhase.TERMINATED, JobPhase.FAILED})
_WHEN_QUIET = {
    JobPhase.ABORTING: JobPhase.ABORTED,
    JobPhase.COMPLETING: JobPhase.COMPLETED,
    JobPhase.TERMINATING: JobPhase.TERMINATED,
}


def phase_of(status: JobStatus) -> JobPhase:
    """The phase; one that is empty or unknown is Pending, as with Volcano."""
    try:
        return JobPhase(status.state.phase)
    except ValueError:
        return JobPhase.PENDING


def move_for(phase: JobPhase, action: str) -> Move | None:
    """What the action does in this phase; None: nothing but an ordinary look at the Job."""
    try:
        return TABLE.get((phase, Action(action)))
    except ValueError:
        return None


def is_exhausted(job: Job, status: JobStatus) -> bool:
    """True where no restart is left: maxRetry N allows N-1 of them."""
    return status.retry_count >= job.spec.max_retry


def next_phase(job: Job, status: JobStatus, counters: Counters, *, killing: bool) -> JobPhase:
    """The phase that follows by itself from what the pods do; `killing` says that some still have to be deleted."""
    phase = phase_of(status)
    match phase:
        case JobPhase.PENDING:
            started = counters.running + counters.succeeded + counters.failed
            return JobPhase.RUNNING if job.spec.min_available <= started else phase
        case JobPhase.RUNNING:
            return _after_running(job.spec, total_replicas(job), counters)
        case JobPhase.RESTARTING:
            if is_exhausted(job, status):
                return JobPhase.FAILED
            enough = total_replicas(job) - counters.terminating >= status.min_available
            return JobPhase.PENDING if enough and not killing else phase
        case _:
            is_quiet = not (counters.terminating or counters.pending or counters.running or killing)
            return _WHEN_QUIET.get(phase, phase) if is_quiet else phase


def _after_running(spec: JobSpec, replicas: int, counters: Counters) -> JobPhase:
    """Volcano's rules for when a running Job is over, or waits again."""
    if not replicas:
        return JobPhase.RUNNING
    if spec.min_success is not None and counters.succeeded >= spec.min_success:
        return JobPhase.COMPLETED
    if counters.succeeded + counters.failed == replicas:
        return JobPhase.COMPLETED if _has_succeeded(spec, counters) else JobPhase.FAILED
    if counters.pending > replicas - spec.min_available:
        return JobPhase.PENDING
    return JobPhase.RUNNING


def _has_succeeded(spec: JobSpec, counters: Counters) -> bool:
    if spec.min_available >= sum(task.min_available or 0 for task in spec.tasks):
        for task in spec.tasks:
            counted = counters.tasks.get(task.name)
            if counted is not None and counted.get("Succeeded", 0) < (task.min_available or 0):
                return False
    if spec.min_success is not None:
        return False  # enough would have ended it before
    return counters.succeeded >= spec.min_available

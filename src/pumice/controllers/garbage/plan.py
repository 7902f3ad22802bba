"""When a finished Job has to go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice import instant
from pumice.api.batch import Job, JobPhase
from pumice.controllers.operations import NOTHING_TO_DO, Blame, Delete, Plan, target_of
from pumice.kube.requests import Propagation

if TYPE_CHECKING:
    from pumice.instant import Instant

# Aborted is not among them: such a Job may be resumed.
FINISHED = frozenset({JobPhase.COMPLETED.value, JobPhase.FAILED.value, JobPhase.TERMINATED.value})


def plan(job: Job, now: Instant) -> Plan:
    """The Job is deleted with all that it made once its time to live has passed since it finished."""
    ttl_s, state = job.spec.ttl_seconds_after_finished, job.status.state
    if ttl_s is None or state.phase not in FINISHED or job.metadata.deletion_timestamp is not None:
        return NOTHING_TO_DO
    if state.last_transition_time is None:
        return NOTHING_TO_DO  # the status that says that it has finished will say when
    due = instant.parse_instant(state.last_transition_time) + ttl_s * instant.SECOND
    if now < due:
        return Plan(again_at=due)
    delete = Delete(**target_of(job), propagation=Propagation.FOREGROUND, blame=Blame(job, "FailedDelete"))
    return Plan(((delete,),))

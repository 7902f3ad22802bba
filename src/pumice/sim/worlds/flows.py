"""What must hold of JobFlows: what is over is over for good, and Jobs that are to go with their flow's end are gone then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.api.batch import JobPhase
from pumice.api.flow import JobFlow, JobRetainPolicy
from pumice.api.kinds import is_of_kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pumice.api.batch import Job

SUCCEEDED = "Succeed"
_OVER = frozenset({SUCCEEDED, "Failed"})


class Flows:
    """Sees JobFlows, which nobody deletes."""

    def __init__(self) -> None:
        self._seen: dict[str, JobFlow] = {}  # by namespace/name

    def see(self, key: str, flow: JobFlow) -> Iterator[str]:
        """What is wrong with a flow's new status, beside the one before it."""
        before = self._seen.get(key, flow).status
        self._seen[key] = flow
        if before.state.phase in _OVER and flow.status.state.phase != before.state.phase:
            yield f"flow {key} was {before.state.phase}, and is {flow.status.state.phase or 'new'} again"
        for name, condition in before.conditions.items():
            now = flow.status.conditions.get(name)
            if condition.phase == JobPhase.COMPLETED.value and (now is None or now.phase != condition.phase):
                yield f"flow {key} had job {name} as completed, and has it as {now.phase if now is not None else 'new'}"

    def unfinished(self) -> Iterator[str]:
        for key, flow in self._seen.items():
            if flow.status.state.phase not in _OVER:
                yield f"flow {key} is {flow.status.state.phase or 'new'} long after the faults"

    def wrong(self, jobs: Mapping[str, Job]) -> Iterator[str]:
        """What does not hold in the end."""
        yield from self.unfinished()
        gone = {
            flow.metadata.uid
            for flow in self._seen.values()
            if flow.spec.job_retain_policy == JobRetainPolicy.DELETE and flow.status.state.phase == SUCCEEDED
        }
        for key, job in jobs.items():
            owner = job.metadata.controller
            if owner is not None and is_of_kind(owner, JobFlow) and owner.uid in gone:
                yield f"job {key} is there, and was to go when its flow had succeeded"

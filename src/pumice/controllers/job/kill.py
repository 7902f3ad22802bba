"""Which pods have to go, told from the status and the pods alone, so that a controller that died half-way kills the other half."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.api import names
from pumice.controllers.job.phases import ENDING, is_exhausted, phase_of
from pumice.controllers.job.progress import in_ranges

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pumice.api.batch import Job, JobStatus
    from pumice.controllers.job.members import Member
    from pumice.controllers.job.progress import Progress


class Judge:
    """Says of each member whether it must go, under a certain status."""

    def __init__(self, job: Job, status: JobStatus, progress: Progress) -> None:
        self._version = status.version
        self._floor = progress.floor
        self._is_ending = phase_of(status) in ENDING
        self._is_exhausted = is_exhausted(job, status)
        self._sizes = {task.name: task.replicas for task in job.spec.tasks}
        self._targets = [(target.task, target.below, in_ranges(target.indexes)) for target in progress.targets]

    def members_to_delete(self, members: Iterable[Member]) -> list[Member]:
        """Members that must be deleted and are not on their way out yet."""
        return [member for member in members if not member.is_leaving and self.must_go(member)]

    def must_go(self, member: Member) -> bool:
        if self._is_ending:
            return not member.is_finished
        if not self.is_wanted(member) or member.pod.metadata.annotations.get(names.OUT_OF_SYNC) == "true":
            return True
        if member.is_finished:
            # Those of the last retry are kept for inspection.
            is_condemned = member.version < self._floor or self.is_target(member)
            return is_condemned and not self._is_exhausted
        return member.version < self._version or self.is_target(member)

    def is_wanted(self, member: Member) -> bool:
        """False for what a smaller number of replicas has left over."""
        return member.index < self._sizes.get(member.task, 0)

    def is_target(self, member: Member) -> bool:
        """True for a member that a restart of single pods was aimed at, and that is not its own successor."""
        return any(
            task == member.task and member.retries < below and member.index in indexes
            for task, below, indexes in self._targets
        )

    def is_fresh(self, member: Member) -> bool:
        """True for a member that counts for the Job now: of its present version, wanted, and not to be killed."""
        return (
            member.version >= self._version
            and self.is_wanted(member)
            and not self.is_target(member)
            and (member.is_leaving or not self.must_go(member))
        )

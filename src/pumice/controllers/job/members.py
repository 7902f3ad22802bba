"""The pods of a Job as members: which task and index they are, and which start of the Job made them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice import instant
from pumice.api import names
from pumice.api.disruptions import CONDITION, RELEASED
from pumice.api.pods import ENDED
from pumice.api.validation.limits import JOB_REPLICAS_MAX
from pumice.digits import whole_number
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pumice.api.batch import Job
    from pumice.api.pods import Pod
    from pumice.instant import Instant


class Member(Value):
    pod: Pod
    name: str
    task: str
    index: int
    version: int  # status.version of the Job when it was made
    retries: int  # status.retryCount of the Job when it was made
    phase: str
    is_leaving: bool

    @property
    def is_finished(self) -> bool:
        return self.phase in ENDED

    @property
    def is_released(self) -> bool:
        """True where the scheduler took back what it had begun: no failure of the pod."""
        return self.disruption is not None and self.disruption[0] == RELEASED

    @property
    def disruption(self) -> tuple[str, str] | None:
        """Reason and message of what is taking the pod away."""
        for condition in self.pod.status.conditions:
            if condition.type == CONDITION and condition.status == "True":
                return condition.reason, condition.message
        return None

    @property
    def exit_code(self) -> int | None:
        """That of the first container, as Volcano reads it."""
        statuses = self.pod.status.container_statuses
        ended = statuses[0].state.terminated if statuses else None
        return ended.exit_code if ended is not None else None

    @property
    def failure(self) -> str:
        """Why it failed, in a few words."""
        code = self.exit_code
        return self.pod.status.reason or (f"exit code {code}" if code is not None else "no reason given")

    @property
    def restarts(self) -> int:
        """How often its containers have been restarted in place."""
        status = self.pod.status
        return sum(each.restart_count for each in (*status.init_container_statuses, *status.container_statuses))

    def started_at(self) -> Instant | None:
        """Since when it runs, or ran; None for a pod that never did."""
        states = [each.state.running or each.state.terminated for each in self.pod.status.container_statuses]
        times = [state.started_at for state in states if state is not None] or [self.pod.status.start_time]
        return min((instant.parse_instant(time) for time in times if time), default=None)

    def finished_at(self) -> Instant:
        """When it ended, as far as its status says; else when it was made."""
        ends = [each.state.terminated for each in self.pod.status.container_statuses]
        times = [end.finished_at for end in ends if end is not None and end.finished_at]
        if not times:
            times = [each.last_transition_time for each in self.pod.status.conditions if each.last_transition_time]
        return max((instant.parse_instant(time) for time in times), default=self.pod.metadata.created_at)

    def gone_by(self) -> Instant | None:
        """When it has to be gone, once it is asked to leave."""
        due = self.pod.metadata.deletion_timestamp
        return instant.parse_instant(due) if due is not None else None


def has_started(known: Pod, fresh: Pod) -> bool:
    """Whether a pod that waited runs now."""
    return _waits(known) and fresh.status.phase == "Running" and fresh.metadata.deletion_timestamp is None


def concerns(known: Pod, fresh: Pod) -> bool:
    """Whether a Job's plan could tell the two apart: of a pod that waits for its start it makes no difference that it was bound.

    That it has started is told apart (`has_started`).
    """
    if _waits(known) and _waits(fresh):
        return _seen(known) != _seen(fresh)
    return not has_started(known, fresh)


def _waits(pod: Pod) -> bool:
    return pod.status.phase in {"", "Pending"} and pod.metadata.deletion_timestamp is None


def _seen(pod: Pod) -> tuple[object, ...]:
    metadata, status = pod.metadata, pod.status
    annotations = {key: value for key, value in metadata.annotations.items() if key != names.ATTEMPT}
    disruptions = [each for each in status.conditions if each.type == CONDITION]
    return (
        metadata.owner_references,
        annotations,
        status.container_statuses,
        status.init_container_statuses,
        disruptions,
    )


class Roster(Value):
    """Members in the order of tasks and indexes, and the names that others still hold."""

    members: tuple[Member, ...]
    taken: frozenset[str]  # names of pods of a former Job of this name


def roster_of(job: Job, pods: Iterable[Pod]) -> Roster:
    """The Job's own pods; those without the controller's annotations are no members, as with Volcano."""
    order = {task.name: number for number, task in enumerate(job.spec.tasks)}
    members: list[Member] = []
    taken: set[str] = set()
    for pod in pods:
        member = _member(job, pod)
        if member is not None:
            members.append(member)
        else:
            taken.add(pod.metadata.name)
    members.sort(key=lambda member: (order.get(member.task, len(order)), member.task, member.index, member.name))
    return Roster(tuple(members), frozenset(taken))


def _member(job: Job, pod: Pod) -> Member | None:
    metadata = pod.metadata
    controller = metadata.controller
    annotations = metadata.annotations
    written = annotations.get(names.TASK_INDEX) or metadata.name.rpartition("-")[2]
    index = whole_number(written, most=JOB_REPLICAS_MAX - 1)
    if controller is None or controller.uid != job.metadata.uid or index is None:
        return None
    if names.TASK_SPEC not in annotations or names.JOB_VERSION not in annotations:
        return None
    # A pod that our scheduler bound and the node refused has not failed: the scheduler takes it back, and it is made anew.
    is_refused = pod.is_refused and names.ATTEMPT in annotations
    return Member(
        pod=pod,
        name=metadata.name,
        task=annotations[names.TASK_SPEC],
        index=index,
        version=whole_number(annotations[names.JOB_VERSION]) or 0,
        retries=whole_number(annotations.get(names.JOB_RETRY_COUNT, "")) or 0,
        phase=pod.status.phase if pod.status.phase and not is_refused else "Pending",
        is_leaving=metadata.deletion_timestamp is not None,
    )

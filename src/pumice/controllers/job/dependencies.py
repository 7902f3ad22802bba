"""Tasks that wait for other tasks: their pods are made when enough pods of those are ready."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pumice.api.batch import Job, Task
    from pumice.controllers.job.members import Member


def may_start(job: Job, members: Iterable[Member]) -> set[str]:
    """Names of the tasks whose dependencies are met."""
    ready: dict[str, int] = {}
    for member in members:
        if not member.is_leaving and _is_ready(member):
            ready[member.task] = ready.get(member.task, 0) + 1
    tasks = {task.name: task for task in job.spec.tasks}
    return {task.name for task in job.spec.tasks if _is_met(task, tasks, ready)}


def _is_ready(member: Member) -> bool:
    if member.phase == "Succeeded":
        return True
    return member.phase == "Running" and all(each.ready for each in member.pod.status.container_statuses)


def _is_met(task: Task, tasks: dict[str, Task], ready: dict[str, int]) -> bool:
    if task.depends_on is None or not task.depends_on.name:
        return True
    met = [name in tasks and ready.get(name, 0) >= (tasks[name].min_available or 0) for name in task.depends_on.name]
    return any(met) if task.depends_on.iteration == "any" else all(met)

"""Members of one gang in the order of placement: by the plugins, then by number, age and uid."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.points import Points


def in_placement_order(points: Points, tasks: Iterable[Task]) -> list[Task]:
    tasks, key = list(tasks), points.task_order.of
    if all(task.index is not None for task in tasks):
        return sorted(tasks, key=lambda task: (key(task), task.index, task.created, task.uid))
    if all(task.index is None for task in tasks):
        return sorted(tasks, key=lambda task: (key(task), task.created, task.uid))
    return sorted(tasks, key=functools.cmp_to_key(functools.partial(compare, points)))


def compare(points: Points, left: Task, right: Task) -> int:
    own, other = points.task_order.of(left), points.task_order.of(right)
    if own != other:
        return -1 if own < other else 1
    if left.index is not None and right.index is not None and left.index != right.index:
        return -1 if left.index < right.index else 1
    return -1 if (left.created, left.uid) < (right.created, right.uid) else 1

"""Members of one gang in the order of placement: by the plugins, then by number, age and uid."""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING

_BY_NUMBER, _BY_AGE = operator.attrgetter("index", "created", "uid"), operator.attrgetter("created", "uid")

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.points import Points


def in_placement_order(points: Points, tasks: Iterable[Task]) -> list[Task]:
    tasks = list(tasks)
    numbers = [task.index for task in tasks]
    if None not in numbers:
        tasks.sort(key=_BY_NUMBER)
    elif numbers.count(None) == len(numbers):
        tasks.sort(key=_BY_AGE)
    else:
        return sorted(tasks, key=functools.cmp_to_key(functools.partial(compare, points)))
    tasks.sort(key=points.task_order.of)  # those that are equal to the plugins stay in order
    return tasks


def compare(points: Points, left: Task, right: Task) -> int:
    own, other = points.task_order.of(left), points.task_order.of(right)
    if own != other:
        return -1 if own < other else 1
    if left.index is not None and right.index is not None and left.index != right.index:
        return -1 if left.index < right.index else 1
    return -1 if (left.created, left.uid) < (right.created, right.uid) else 1

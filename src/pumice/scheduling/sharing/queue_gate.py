"""Pods that are held by Volcano's own gate until their queue has a share for them.

They ask for it by an annotation, and admission gives them the gate. An autoscaler does not see gated pods, so it makes no nodes for
work that its queue may not start anyway.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING

from pumice.api import names
from pumice.cluster.tasks import Status

if TYPE_CHECKING:
    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape


def passing(session: Session) -> list[Task]:
    """Members of admitted gangs whose queue has a share left for them, beside those that have passed and not started yet."""
    found: list[Task] = []
    promised: collections.Counter[tuple[str, Shape]] = collections.Counter()
    gated: list[tuple[Task, str]] = []
    for gang in session.restless:
        if gang.is_waiting_for_admission or not gang.gang.asks_for_queue_gate:
            continue
        for task in gang.tasks_in(Status.PENDING):
            if task.pod.metadata.annotations.get(names.QUEUE_ALLOCATION_GATE) != "true":
                continue
            if not task.gates:
                promised[gang.queue, session.shape(task)] += 1
            elif task.gates == (names.QUEUE_ALLOCATION_GATE,):
                gated.append((task, gang.queue))
    for task, name in gated:
        shape = session.shape(task)
        wanted = promised[name, shape] + 1
        if session.points.allocatable.of(session.queues[name], shape, wanted) >= wanted:
            promised[name, shape] = wanted
            found.append(task)
    return found

"""The tree of queues by `spec.parent`: paths to the root, and what is wrong with branches that have none.

A broken branch concerns only those who use it: its queues have a fault, and the rest of the tree stands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pumice.api.meta import ObjectMeta
from pumice.api.scheduling import ROOT_QUEUE, Queue, QueueState, QueueStatus
from pumice.cluster.queues import queue_of
from pumice.scheduling.core.codes import Code, Facts
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pumice.cluster.queues import QueueInfo

# Stands in where the root has not been created: every queue hangs below it, and it limits nothing.
IMPLIED_ROOT = queue_of(Queue(ObjectMeta(name=ROOT_QUEUE), status=QueueStatus(state=QueueState.OPEN.value)))


Fault = tuple[Code, Facts]


class QueueTree(Value):
    """Paths run from a queue up to the root, both included; a queue with a fault hangs directly below the root."""

    queues: Mapping[str, QueueInfo]
    paths: Mapping[str, tuple[str, ...]]
    children: Mapping[str, Sequence[str]]
    faults: Mapping[str, Fault]

    def is_leaf(self, name: str) -> bool:
        return not self.children.get(name)


def queue_tree(queues: Mapping[str, QueueInfo]) -> QueueTree:
    """The tree over all queues; children in the order of their names."""
    known = {ROOT_QUEUE: IMPLIED_ROOT, **queues}
    paths: dict[str, tuple[str, ...]] = {ROOT_QUEUE: (ROOT_QUEUE,)}
    causes: dict[str, Fault] = {}
    children: dict[str, list[str]] = {}
    for start in sorted(known):
        trail, cause = _climb(known, start, paths, causes)
        for name in reversed(trail):
            if cause is not None:
                causes[name] = (cause[0], msgspec.structs.replace(cause[1], queue=name))
                paths[name] = (name, ROOT_QUEUE)
            else:
                paths[name] = (name, *paths[known[name].parent])
    for name in sorted(known):
        if name not in causes and name != ROOT_QUEUE:
            children.setdefault(known[name].parent, []).append(name)
    return QueueTree(known, paths, children, causes)


def _climb(
    queues: Mapping[str, QueueInfo], start: str, paths: Mapping[str, tuple[str, ...]], causes: Mapping[str, Fault]
) -> tuple[list[str], Fault | None]:
    """The queues from `start` up to the first one whose path is known, and why there is no way to the root from them."""
    trail: dict[str, None] = {}
    name = start
    while name not in paths:
        trail[name] = None
        parent = queues[name].parent
        if parent not in queues:
            return list(trail), (Code.QUEUE_PARENT_MISSING, Facts(child=name, parent=parent))
        if parent in trail:
            ring = list(trail)[list(trail).index(parent) :]
            return list(trail), (Code.QUEUE_RING, Facts(names=(*ring, parent), parent=ROOT_QUEUE))
        name = parent
    return list(trail), causes.get(name)

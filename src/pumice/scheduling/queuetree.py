"""The tree of queues by `spec.parent`: paths to the root, and what is wrong with branches that have none.

A broken branch concerns those who use it and nobody else: its queues have a fault in words, and the rest of the tree stands.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pumice.api.meta import ObjectMeta
from pumice.api.scheduling import ROOT_QUEUE, Queue, QueueState, QueueStatus
from pumice.cluster.queues import queue_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pumice.cluster.queues import QueueSpec

# Stands in where nobody has created the root: every queue hangs below it, and it limits nothing.
IMPLIED_ROOT = queue_of(Queue(ObjectMeta(name=ROOT_QUEUE), status=QueueStatus(state=QueueState.OPEN.value)))


@dataclasses.dataclass(frozen=True, slots=True)
class QueueTree:
    """Paths run from a queue up to the root, both included; a queue with a fault hangs directly below the root."""

    queues: Mapping[str, QueueSpec]
    paths: Mapping[str, tuple[str, ...]]
    children: Mapping[str, Sequence[str]]
    faults: Mapping[str, str]

    def is_leaf(self, name: str) -> bool:
        return not self.children.get(name)


def queue_tree(queues: Mapping[str, QueueSpec]) -> QueueTree:
    """The tree over all queues; children in the order of their names."""
    known = {ROOT_QUEUE: IMPLIED_ROOT, **queues}
    paths: dict[str, tuple[str, ...]] = {}
    faults: dict[str, str] = {}
    children: dict[str, list[str]] = {}
    for name in sorted(known):
        path, fault = _climb(known, name)
        if fault:
            faults[name] = fault
            path = (name, ROOT_QUEUE)
        elif name != ROOT_QUEUE:
            children.setdefault(known[name].parent, []).append(name)
        paths[name] = path
    return QueueTree(known, paths, children, faults)


def _climb(queues: Mapping[str, QueueSpec], start: str) -> tuple[tuple[str, ...], str]:
    """The path from a queue to the root, and why there is none."""
    path = [start]
    while path[-1] != ROOT_QUEUE:
        name = path[-1]
        parent = queues[name].parent
        if parent not in queues:
            return (), (
                f"queue {start} is cut off: the parent of queue {name}, {parent}, does not exist; "
                f"create {parent} or give {name} another parent"
            )
        if parent in path:
            ring = " -> ".join([*path[path.index(parent) :], parent])
            return (), (
                f"queue {start} is cut off: its ancestors form a ring ({ring}); "
                f"give one of them a parent that leads to {ROOT_QUEUE}"
            )
        path.append(parent)
    return tuple(path), ""

"""A plan is made on a snapshot; before it is carried out, it is held against what has changed meanwhile.

A gang whose plan no longer holds is dropped whole: the next cycle sees the new state and plans again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.cluster.columns import SCORED_CPU_ROW, SCORED_MEMORY_ROW
from pumice.cluster.tasks import EVICTABLE, Status

if TYPE_CHECKING:
    import numpy as np

    from pumice.cluster.state import Cluster
    from pumice.scheduling.core.decisions import Evict, GangCommit


def why_stale(cluster: Cluster, commit: GangCommit) -> str:
    """Why a commit can no longer be carried out as planned; empty where it can."""
    demand: dict[str, np.ndarray[tuple[int], np.dtype[np.int64]]] = {}
    for bind in commit.binds:
        task = cluster.tasks.get(bind.task.uid)
        if task is None or task.gang != commit.gang:
            return f"pod {bind.task.key} is gone"
        if task.status is not Status.PENDING:
            return f"pod {bind.task.key} is {task.status.text}"
        if task.request is not bind.task.request:
            return f"pod {bind.task.key} asks for something else now"
        node = cluster.nodes.get(bind.node)
        if node is None or node.node is None:
            return f"node {bind.node} is gone"
        if node.node.spec.unschedulable:
            return f"node {bind.node} was cordoned"
        own = cluster.axis.demand(task.request)
        demand[bind.node] = demand[bind.node] + own if bind.node in demand else own
    for name, needed in demand.items():
        column = cluster.nodes[name].column
        assert column is not None
        idle = cluster.allocatable[:, column] - cluster.used[:, column]
        short = needed > idle
        short[[SCORED_CPU_ROW, SCORED_MEMORY_ROW]] = False
        if (short & (needed > 0)).any():
            return f"node {name} has less room than when it was planned for"
    return ""


def still_evictable(cluster: Cluster, eviction: Evict) -> bool:
    task = cluster.tasks.get(eviction.task.uid)
    if task is None:
        return False
    if eviction.after_notice and task.status is Status.RELEASING:
        return task.pod.metadata.deletion_timestamp is None
    return task.status in EVICTABLE

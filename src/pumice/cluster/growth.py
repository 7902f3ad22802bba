"""The state's columns grow with what is heard of: a row for each resource, a column for each node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pumice.cluster.amounts import Amounts
    from pumice.cluster.state import Cluster

_TABLES = ("allocatable", "used", "releasing")


def learn(cluster: Cluster, new: Amounts) -> None:
    """Make room for resources never seen before: a new row is zero for every node that lacks it."""
    cluster.axis.learn(new)
    missing = len(cluster.axis) - len(cluster.used)
    if missing:
        for name in _TABLES:
            rows = getattr(cluster, name)
            setattr(cluster, name, np.vstack([rows, np.zeros((missing, rows.shape[1]), dtype=np.int64)]))


def new_column(cluster: Cluster) -> int:
    """A column that no node has; where there is none, as many again as there are."""
    if not cluster.free_columns:
        size = cluster.used.shape[1]
        cluster.free_columns = list(range(2 * size - 1, size - 1, -1))
        for name in _TABLES:
            rows = getattr(cluster, name)
            setattr(cluster, name, np.hstack([rows, np.zeros_like(rows)]))
    return cluster.free_columns.pop()

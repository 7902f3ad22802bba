"""Measured loads as columns: what nodes really use, as far as it was measured lately."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pumice.instant import MINUTE
from pumice.values import Value

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pumice.cluster.columns import Column, Mask
    from pumice.instant import Instant
    from pumice.scheduling.core.session import Session

DATA_AGE_MAX = 5 * MINUTE  # older measurements say nothing about now


class LoadColumns(Value, eq=False):
    """Parts of each node's capacity in use, 0 to 1; only where `known` is True."""

    known: Mask
    cpu: NDArray[np.float64]
    memory: NDArray[np.float64]
    measured_at: Column


def load_columns(session: Session) -> LoadColumns:
    table, loads = session.room.table, session.ports.loads
    found = LoadColumns(
        np.zeros(len(table), dtype=bool),
        np.zeros(len(table)),
        np.zeros(len(table)),
        np.zeros(len(table), dtype=np.int64),
    )
    for name, load in loads.items():
        node = table.index.get(name)
        if node is not None and session.now - load.measured_at <= DATA_AGE_MAX:
            found.known[node] = True
            found.cpu[node] = load.cpu_percent / 100
            found.memory[node] = load.memory_percent / 100
            found.measured_at[node] = load.measured_at
    return found


def expiry(session: Session) -> Instant | None:
    """When the next of the measurements that count now becomes too old."""
    ends = (load.measured_at + DATA_AGE_MAX + 1 for load in session.ports.loads.values())
    return min((end for end in ends if end > session.now), default=None)

"""On which nodes evictions could give a queue back enough of its own share for one more pod: a bound, for all nodes at once.

A queue that is full takes a pod only where one of its own leaves, and where requests differ, mostly too little does. Nodes on which those that could go hold
the same are asked about once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pumice.cluster import amounts

if TYPE_CHECKING:
    from pumice.cluster.amounts import Amounts
    from pumice.cluster.columns import Mask
    from pumice.cluster.queues import QueueInfo
    from pumice.scheduling.core.points import Indexes
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape
    from pumice.scheduling.evicting.victim_columns import View

UNKNOWN = 0  # what could go there is not counted: anything may be possible
HOLDINGS_MAX = 1_024  # different ones, each asked about with every member that others leave for
CODES_MAX = 2**62  # numbers of pods of each kind on a node are one number; where it would be larger, nothing is known


class ShareBound:
    """What could go on each node, as the number of one of few different holdings."""

    def __init__(self, session: Session, queue: QueueInfo) -> None:
        self._session = session
        self._queue = queue
        self._numbers: dict[tuple[tuple[int, int], ...], int] = {}
        self._freed: list[Amounts] = [{}]  # by number; the first stands for UNKNOWN

    def holdings(self, view: View, chosen: Mask) -> Indexes:
        """For each node of the view the number of what those hold that could go."""
        kinds = np.flatnonzero(np.bincount(view.kind[chosen]))
        code = np.zeros(len(view.nodes), dtype=np.int64)
        factors, factor = [], 1
        for kind in kinds.tolist():
            counts = view.sums(chosen & (view.kind == kind))
            code += counts * factor
            factors.append((kind, factor))
            factor *= int(counts.max(initial=0)) + 1
            if factor > CODES_MAX:
                return np.full(len(view.nodes), UNKNOWN)
        codes, where = np.unique(code, return_inverse=True)
        return np.array([self._number(each, factors, view) for each in codes.tolist()], dtype=np.intp)[where]

    def _number(self, code: int, factors: list[tuple[int, int]], view: View) -> int:
        held = []
        for kind, factor in reversed(factors):
            held.append((kind, code // factor))
            code %= factor
        key = tuple(held)
        if key not in self._numbers:
            if len(self._freed) > HOLDINGS_MAX:
                return UNKNOWN
            freed: dict[str, float] = {}
            for kind, count in held:
                amounts.add(freed, view.columns.kinds[kind][1].amounts, count)
            self._numbers[key] = len(self._freed)
            self._freed.append(freed)
        return self._numbers[key]

    def allows(self, shape: Shape, holdings: Indexes) -> Mask | None:
        """Where the queue may take such a pod once those have left; None: it may anywhere."""
        allocatable = self._session.points.allocatable
        if allocatable.of(self._queue, shape, 1) > 0:
            return None
        answers = np.ones(len(self._freed), dtype=bool)
        for number in np.flatnonzero(np.bincount(holdings)).tolist():
            if number != UNKNOWN:
                answers[number] = allocatable.could_take(self._queue, shape, self._freed[number])
        found: Mask = answers[holdings]
        return found

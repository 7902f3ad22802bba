"""Gangs that wait and cannot start in a trial either, whatever their turn: most of a long line, and most of what a plan costs.

A gang for whose minimum the free room of all nodes is too small, filters and shares left aside, needs no turn to be refused. One that stands
behind the gang in question has its turn after it. Gangs that hold anything, or were on their way in the last cycle, have their turn.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pumice.cluster.tasks import Status
from pumice.scheduling.core.shapes import copies

if TYPE_CHECKING:
    from pumice.cluster.gangs import Gang
    from pumice.cluster.requests import Request
    from pumice.cluster.state import Snapshot
    from pumice.scheduling.core.decisions import Decisions


class _Wants(NamedTuple):
    """How many pods of each size wait, and how many of all must find a place together."""

    sizes: Counter[Request]
    least: int


class Bystanders:
    """The gangs that some decisions have refused."""

    def __init__(self, snapshot: Snapshot, decisions: Decisions, asked: str) -> None:
        busy = {asked, *(each.gang for each in decisions.commits), *(each.gang for each in decisions.claims)}
        busy |= snapshot.claims.keys() | decisions.admitted.keys()
        self._asked, self._queue = asked, snapshot.gangs[asked].spec.queue
        place, reports = decisions.gangs[asked].position, decisions.gangs
        self._refused = {
            key: _Wants(Counter(task.request for task in gang.tasks), gang.spec.min_member)
            for key, gang in snapshot.gangs.items()
            if key not in busy and decisions.gangs[key].reservation is None and _only_waits(gang)
        }

        self._behind = frozenset(
            key
            for key in self._refused
            if snapshot.gangs[key].spec.queue == self._queue and 0 < place < reports[key].position
        )

    def in_(self, snapshot: Snapshot) -> frozenset[str]:
        """Those for whose minimum there is not enough room in this snapshot, which may be an edited one."""
        table = snapshot.nodes
        free = np.clip(table.allocatable - table.used + table.releasing, 0, None)
        fits: dict[Request, int] = {}
        for each in {each for wants in self._refused.values() for each in wants.sizes}:
            demand = table.axis.vector(each.amounts)
            fits[each] = int(copies(free, demand, np.flatnonzero(demand).tolist()).sum())
        stays = snapshot.gangs[self._asked].spec.queue == self._queue
        return (self._behind if stays else frozenset()) | frozenset(
            key
            for key, wants in self._refused.items()
            if sum(min(count, fits[each]) for each, count in wants.sizes.items()) < wants.least
        )


def _only_waits(gang: Gang) -> bool:
    """Whether all of its members wait for room."""
    return 0 < gang.counts[Status.PENDING] == len(gang.tasks)

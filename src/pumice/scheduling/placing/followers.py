"""Members that share what the first of them decides, a volume that is still to be made or devices: where it goes, the others find room, too.

This narrows the choice where it can, and never refuses: where no place is good for all, the members are placed one by one as far as it
goes, and the reasons say what the others run into.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from pumice.scheduling.placing import pending

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pumice.cluster.columns import Column, Mask
    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.points import Shared
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape


def with_room_for_all(session: Session, gang: GangState, task: Task, within: Mask | None) -> Mask | None:
    """Nodes to which the task, which others may follow, can go so that all of them find places, or as many as have to start together.

    Places that are free now come before those that others still have to leave.
    """
    shared = session.points.shared.of(task)
    if not shared or session.promised_node(task):
        return within
    waiting = [each for each in pending.waiting(session, gang) if not each.is_best_effort]
    together = (waiting, _needed(session, gang, waiting))
    for pipelining, members in itertools.product((False, True), together):
        nodes = np.ones(len(session.room.table), dtype=bool) if within is None else within
        for each in shared:
            nodes = nodes & _nodes_for(session, gang, each, task, members, pipelining=pipelining)
        if nodes.any():
            return nodes
    return within


def _needed(session: Session, gang: GangState, waiting: Sequence[Task]) -> Sequence[Task]:
    """Those that are placed, in their order, before the gang can start."""
    lacking = {role: least - gang.role_ready(role) for role, least in gang.spec.role_minimums.items()}
    needed = session.shortfall(gang)
    for number, task in enumerate(waiting, start=1):
        if lacking.get(task.role, 0) > 0:
            lacking[task.role] -= 1
            needed = max(needed, number)
    return waiting[:needed]


def _nodes_for(
    session: Session, gang: GangState, shared: Shared, task: Task, members: Sequence[Task], *, pipelining: bool
) -> Mask:
    """Nodes for the task from which all of the members that share this with it are within reach of room."""
    users = [each for each in members if any(own.key == shared.key for own in session.points.shared.of(each))]
    shapes = session.shapes.count(gang.gang, users)
    copies = {shape: _copies(session, shape, pipelining=pipelining) for shape in {session.shape(task), *shapes}}
    found = np.zeros(len(session.room.table), dtype=bool)
    for reach in shared.reaches():
        if reach.others is None:
            found |= reach.first & _takes_all(session, shapes, copies, pipelining=pipelining)
        elif all(np.minimum(copies[shape][reach.others], count).sum() >= count for shape, count in shapes.items()):
            found |= reach.first & (copies[session.shape(task)] > 0)
    return found


def _takes_all(
    session: Session, shapes: Mapping[Shape, int], copies: Mapping[Shape, Column], *, pipelining: bool
) -> Mask:
    """Nodes with room for all of them side by side."""
    room = session.room
    free = room.future if pipelining else np.minimum(room.idle, room.future)
    enough, demand = np.ones(free.shape[1], dtype=bool), np.zeros(len(free), dtype=np.int64)
    for shape, count in shapes.items():
        demand += shape.demand * count
        enough &= copies[shape] >= count
    rows = sorted({row for shape in shapes for row in shape.rows})  # the others are made up for scores
    return enough & (free[rows] >= demand[rows, None]).all(axis=0)


def _copies(session: Session, shape: Shape, *, pipelining: bool) -> Column:
    """How many such pods each node takes, each looked at by itself."""
    placer = session.placer
    copies: Column = np.zeros(len(session.room.table), dtype=np.int64)
    nodes = np.flatnonzero(placer.feasible(shape, None))
    copies[nodes] = placer.copies(shape, nodes, pipelining=pipelining)
    return copies

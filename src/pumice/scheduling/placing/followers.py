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
    from pumice.scheduling.core.points import Indexes, Shared
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
        for each, (mates, where) in itertools.product(shared, _by_reach(gang, task, members, within)):
            nodes = nodes & _nodes_for(session, each, task, mates, within=where, pipelining=pipelining)
        if nodes.any():
            return nodes
    return within


def _by_reach(
    gang: GangState, task: Task, members: Sequence[Task], within: Mask | None
) -> list[tuple[Sequence[Task], Mask | None]]:
    """Who has to find room, and where: its own sub gang stays with the task, the others go anywhere."""
    own = [each for each in members if gang.sub_of(each) is gang.sub_of(task)]
    if within is None or len(own) == len(members):
        return [(members, within)]
    return [(members, None), (own, within)]


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
    session: Session, shared: Shared, task: Task, members: Sequence[Task], *, within: Mask | None, pipelining: bool
) -> Mask:
    """Nodes for the task from which all of the members that share this with it are within reach of room."""
    users = [each for each in members if any(own.key == shared.key for own in session.points.shared.of(each))]
    shapes = session.shapes.count(session.gangs[task.gang].gang, users)
    asked = {session.shape(task), *shapes}
    copies = {shape: _copies(session, shape, within, pipelining=pipelining) for shape in asked}
    found = np.zeros(len(session.room.table), dtype=bool)
    for reach in shared.reaches():
        if reach.others is None:
            found |= reach.first & _takes_all(session, shapes, copies, pipelining=pipelining)
        elif _take_all(session, shapes, copies, np.flatnonzero(reach.others), pipelining=pipelining):
            found |= reach.first & (copies[session.shape(task)] > 0)
    return found


def _takes_all(
    session: Session, shapes: Mapping[Shape, int], copies: Mapping[Shape, Column], *, pipelining: bool
) -> Mask:
    """Nodes with room for all of them side by side."""
    free = _free(session, pipelining=pipelining)
    enough, demand = np.ones(free.shape[1], dtype=bool), np.zeros(len(free), dtype=np.int64)
    for shape, count in shapes.items():
        demand += shape.demand * count
        enough &= copies[shape] >= count
    rows = sorted({row for shape in shapes for row in shape.rows})  # the others are made up for scores
    return enough & (free[rows] >= demand[rows, None]).all(axis=0)


def _take_all(
    session: Session, shapes: Mapping[Shape, int], copies: Mapping[Shape, Column], nodes: Indexes, *, pipelining: bool
) -> bool:
    """Whether the nodes have room for all of them beside one another: one shape after the other, those that fit least often first."""
    free = _free(session, pipelining=pipelining)[:, nodes]
    for shape, count in sorted(shapes.items(), key=lambda each: int(copies[each[0]][nodes].sum())):
        own = np.minimum(np.minimum(copies[shape][nodes], shape.copies(free)), count)
        taken = np.clip(count - (own.cumsum() - own), 0, own)
        if taken.sum() < count:
            return False
        free = free - shape.demand[:, None] * taken
    return True


def _free(session: Session, *, pipelining: bool) -> Column:
    room = session.room
    free: Column = room.future if pipelining else np.minimum(room.idle, room.future)
    return free


def _copies(session: Session, shape: Shape, within: Mask | None, *, pipelining: bool) -> Column:
    """How many such pods each node takes, each looked at by itself."""
    placer = session.placer
    copies: Column = np.zeros(len(session.room.table), dtype=np.int64)
    nodes = np.flatnonzero(placer.feasible(shape, within))
    copies[nodes] = placer.copies(shape, nodes, pipelining=pipelining)
    return copies

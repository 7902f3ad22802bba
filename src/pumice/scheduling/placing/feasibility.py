"""What can never run here, said at once and in numbers instead of waiting in silence; and what room there is for those that wait."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

import numpy as np

from pumice.cluster import amounts
from pumice.cluster.tasks import Status
from pumice.cluster.topology import ROOT
from pumice.scheduling.core.codes import Amount, Code, Facts, wanted_amounts
from pumice.scheduling.core.decisions import HyperNodeRoom, ShapeRoom, ShortResource
from pumice.scheduling.core.verdict import Reason

if TYPE_CHECKING:
    from pumice.cluster.columns import Column, Mask
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape

SHAPES_TOLD_MAX = 5  # of one gang: those with the most members
SHAPES_EXAMINED_MAX = 1_000  # in one cycle: each costs some 100 microseconds on 5,000 nodes


def exceeds_cluster(session: Session, gang: GangState) -> Reason | None:
    """A minimum that the whole cluster, empty, could not give."""
    minimum = gang.spec.minimum
    if not minimum:
        return None
    over = amounts.beyond(minimum, session.total, asked=minimum)
    if not over:
        return None
    parts = (Amount.of(name, wanted=minimum[name], limit=session.total.get(name, 0)) for name in over)
    return Reason(Code.EXCEEDS_CLUSTER, "cluster", Facts(amounts=tuple(parts)))


def exceeds_queue(session: Session, gang: GangState) -> bool:
    """A minimum beyond the capability of its queue: neither time nor evictions help."""
    minimum, limit = gang.spec.minimum or {}, session.queue_of(gang).capability
    return any(value > limit.get(name, amounts.UNLIMITED) for name, value in minimum.items())


def never(session: Session, gang: GangState) -> Reason | None:
    """Why even an empty cluster could not start the gang; None where it could, or where that is hard to tell."""
    reason = exceeds_cluster(session, gang)
    if reason is not None:
        return reason
    unplaced = gang.tasks_in(Status.PENDING, Status.PIPELINED, Status.ALLOCATED)
    shapes = session.shapes.count(gang.gang, unplaced)
    waiting = {shape: count for shape, count in shapes.items() if not shape.request.is_best_effort}
    undemanding = len(unplaced) - sum(waiting.values())  # they count for the gang before they have a place
    missing = gang.spec.min_member - (gang.tally.ready - gang.tally[Status.ALLOCATED]) - undemanding
    for shape, count in waiting.items():
        # Members of other shapes may stand in for these, as far as the minimum allows.
        needed = min(count, missing - (sum(waiting.values()) - count))
        room = capacity_when_empty(session, shape)
        if needed > room:
            each = {name: value for name, value in shape.request.amounts.items() if name != amounts.PODS}
            return Reason(Code.EXCEEDS_NODES, "cluster", Facts(amounts=wanted_amounts(each), wanted=needed, free=room))
    return None


def capacity_when_empty(session: Session, shape: Shape) -> int:
    """How many such pods the nodes that may take them could hold if nothing else ran there."""
    if shape.most is None:
        table = session.room.table
        if not len(table):
            shape.most = 0
        else:
            copies = shape.copies(table.allocatable)
            shape.most = int(np.sum(copies[session.placer.conceivable(shape)]))
    return shape.most


# ----------------------------------------------------------------------------------------------------- room now


def fits_now(session: Session, shape: Shape) -> tuple[Mask, Column]:
    """Nodes that no filter refuses, and for every node how many such pods have room on it now, each looked at by itself."""
    if shape.now is None:
        placer, idle = session.placer, session.room.idle
        may_take = placer.allowed(shape).copy()
        for denial in placer.live_denials(shape):
            may_take &= ~denial.nodes
        copies = np.zeros(len(may_take), dtype=np.int64)
        nodes = np.flatnonzero(may_take & shape.fits(idle))  # most clusters that make gangs wait have few of them
        if len(nodes):
            copies[nodes] = placer.copies(shape, nodes, pipelining=False)
        shape.now = (may_take, copies)
    return shape.now


def room_for(session: Session, gang: GangState) -> tuple[ShapeRoom, ...]:
    """The room for members that wait at the end of the cycle, by their shapes; the largest shapes first."""
    placed = session.committed
    waiting = [task for task in gang.tasks if task.status is Status.PENDING and not (placed and task in placed)]
    shapes = session.shapes.count(gang.gang, waiting)
    found = []
    for shape, count in sorted(shapes.items(), key=operator.itemgetter(1), reverse=True)[:SHAPES_TOLD_MAX]:
        if shape.now is None:
            if session.shapes_examined >= SHAPES_EXAMINED_MAX:
                continue
            session.shapes_examined += 1
        if gang.spec.closeness is not None:
            found.append(_shape_room(session, gang, shape, count))
            continue
        if count not in shape.told:  # of equal pods the same is told
            shape.told[count] = _shape_room(session, gang, shape, count)
        found.append(shape.told[count])
    return tuple(found)


def _shape_room(session: Session, gang: GangState, shape: Shape, count: int) -> ShapeRoom:
    may_take, copies = fits_now(session, shape)
    asked = {name: value for name, value in shape.request.amounts.items() if name != amounts.PODS}
    rows, short = session.room.table.axis.rows, []
    for name, value in asked.items():
        free = np.maximum(session.room.idle[rows[name]][may_take], 0)
        enough = free[free >= value]
        if value > 0 and int(np.sum(enough // int(value))) < count:
            short.append(ShortResource(name, int(free.sum()), int(free.max(initial=0))))
    fit, within = int(copies.sum()), _closest(session, gang, copies)
    return ShapeRoom(asked, count, fit, len(may_take), int(np.count_nonzero(may_take)), tuple(short), within)


def _closest(session: Session, gang: GangState, copies: Column) -> HyperNodeRoom | None:
    """The hyper node with the most room, for a gang that must stay in one."""
    tree, wish = session.snapshot.tree, gang.spec.closeness
    if wish is None or not wish.hard or len(tree.tier) == 1:
        return None
    limit = wish.tier if wish.tier is not None else tree.tier_by_name.get(wish.tier_name)
    if limit is None:
        return None
    fit = {
        name: int(copies[tree.nodes[name]].sum())
        for name in sorted(tree.tier)
        if tree.tier[name] <= limit and name != ROOT
    }
    best = max(fit, key=lambda name: fit[name], default="")
    return HyperNodeRoom(limit, best, fit.get(best, 0))

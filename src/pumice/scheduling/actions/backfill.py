"""backfill: places pods that ask for nothing, wherever filters let them; they are no quota's business."""

from __future__ import annotations

from functools import cmp_to_key
from typing import TYPE_CHECKING

import numpy as np

from pumice.cluster.tasks import Status
from pumice.scheduling.core.statement import Placement
from pumice.scheduling.core.verdict import FitError
from pumice.scheduling.placing import turns

if TYPE_CHECKING:
    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape


def run(session: Session) -> None:
    held = session.reserved_room.held
    gangs = [
        gang
        for gang in session.restless
        if not gang.is_waiting_for_admission and (gang.tally.waiting_best_effort or gang.key in held)
    ]
    gangs = [gang for gang in gangs if session.obstacle(gang) is None]
    gangs.sort(key=lambda gang: (session.gang_key(gang), gang.spec.created, gang.key))
    gangs.sort(key=cmp_to_key(lambda left, right: _by_queue(session, left, right)))
    for gang in gangs:
        with session.turn_of(gang):
            if not turns.is_held_back(session, gang):
                _fill(session, gang)


def _fill(session: Session, gang: GangState) -> None:
    own_room = session.reserved_room.lift(gang)  # a claim may be for pods that ask for nothing but a slot
    waiting = [task for task in gang.tasks_in(Status.PENDING) if task.is_best_effort and not task.gates]
    if _place(session, gang, session.in_placement_order(waiting), keep=not own_room):
        session.reserved_room.settle(gang, own_room)
    else:
        session.reserved_room.put_back(gang, own_room)


def _by_queue(session: Session, left: GangState, right: GangState) -> int:
    if left.queue == right.queue:
        return 0
    return -1 if session.queue_before(session.queue_of(left), session.queue_of(right)) else 1


def _place(session: Session, gang: GangState, waiting: list[Task], *, keep: bool) -> bool:
    """Each pod for itself; all that have found a node are bound if the gang is ready, else `keep` holds the places."""
    statement = session.statement()
    for task in waiting:
        shape = session.shape(task)
        reason = session.placer.prefilter(shape)
        node = _best(session, shape, task) if reason is None else None
        if reason is not None:
            gang.fit_errors[task] = FitError((reason,), 0, instead=reason)
        elif node is None:
            gang.fit_errors[task] = session.placer.fit_error(shape, None)
        if node is None:
            continue
        statement.place(Placement(gang, shape, [task], [node], Status.ALLOCATED))
    is_ready = session.is_ready(gang)
    if is_ready:
        statement.commit()
    elif keep:
        session.kept.append(statement)
    else:
        statement.rollback(remember=True)
    return is_ready


def _best(session: Session, shape: Shape, task: Task) -> int | None:
    """The node that the pod may start on now: it asks for nothing, but a slot it needs."""
    room = session.room
    mask = session.placer.feasible(shape, None) & shape.fits(room.idle)
    candidates = np.flatnonzero(mask)
    if not len(candidates):
        return None
    return int(candidates[np.argmax(session.placer.scores(shape, task, candidates))])

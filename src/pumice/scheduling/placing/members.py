"""Placing the members of one sub gang, in runs of equal ones, until it is ready or cannot become so."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from pumice.cluster.tasks import Status
from pumice.scheduling.core.codes import Code, Facts
from pumice.scheduling.core.statement import Placement
from pumice.scheduling.core.verdict import FitError, Reason
from pumice.scheduling.placing import followers, pending

if TYPE_CHECKING:
    from pumice.cluster.columns import Mask
    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.gangstate import GangState, SubState
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape
    from pumice.scheduling.core.statement import Statement

LONG_RUN = 8  # members: telling whether a shorter run is equal costs less than counting the room


def place_tasks(
    session: Session,
    statement: Statement,
    sub: SubState,
    waiting: list[Task],
    within: Mask | None = None,
    hyper_node: str = "",
) -> None:
    """Take tasks off `waiting` and place them until the sub gang is ready; a task that finds no room is not tried again."""
    gang = sub.gang
    queue = session.queue_of(gang)
    while waiting:
        run, shape = _next_run(session, sub, waiting)
        allowed = session.points.allocatable.of(queue, shape, len(run))
        if allowed < len(run):
            del waiting[: allowed or len(run)]  # beyond the queue's share: equal pods fare no better
            if not allowed:
                refuse(gang, session.points.allocatable.why_none(queue, gang, shape))
                continue
            run = run[:allowed]
        else:
            del waiting[: len(run)]
        skipped = _role_has_failed(sub, run[0])
        if skipped is not None:
            gang.fit_errors[run[0]] = skipped
            continue
        where = followers.with_room_for_all(session, gang, run[0], within)
        lead = run if where is within else run[:1]  # the others go where that lets them
        placed = _place_run(session, statement, sub, lead, where)
        if placed < len(lead):
            gang.fit_errors[run[placed]] = _why(session, shape, within, hyper_node)
            if not _worth_going_on(sub):
                return
        else:
            waiting[:0] = run[len(lead) :]
        if session.sub_is_ready(sub) or (session.is_ahead and _is_whole(session, sub)):
            # Members left over from the run come in later turns.
            return


def is_beyond_share(session: Session, gang: GangState) -> bool:
    """Whether the queue takes none of the members, which are alike and wait: then they are not placed one by one, and the gang is told why."""
    shape = pending.shape_of_all(session, gang)
    reason = None if shape is None else session.points.allocatable.refusal(session.queue_of(gang), gang, shape)
    if reason is not None:
        refuse(gang, reason)
    return reason is not None


def is_refused_by_numbers(session: Session, gang: GangState) -> bool:
    """Whether there is too little room for the gang, whose members are alike and wait, or too little of its queue's share: they need not be
    placed and taken back to learn that. Only where nobody asks how far they got.
    """
    shape = None if session.explain or session.is_ahead else pending.shape_of_all(session, gang)
    if shape is None or not _needs_all(gang.subs[0]) or session.placer.prefilter(shape) is not None:
        return False
    placer, allocatable, queue = session.placer, session.points.allocatable, session.queue_of(gang)
    needed, allowed = session.shortfall(gang), allocatable.of(queue, shape, len(gang.tasks))
    if placer.free_places(shape) < min(allowed, needed):
        return True
    if session.points.live_filter.concerns(shape):
        return False
    places, limits = placer.limited_places(shape)
    if places < min(allowed, needed):
        gang.fit_errors[gang.tasks[0]] = FitError(limits, len(session.room.table))
    elif allowed < needed:
        refuse(gang, allocatable.why_no_more(queue, gang, shape, needed))
    return min(places, allowed) < needed


def _is_whole(session: Session, sub: SubState) -> bool:
    """At a later moment a place is a place: what is free only then looks promised."""
    if sub.gang.spec.policies:
        return session.points.sub_pipelined.is_unopposed(sub)
    return session.points.pipelined.is_unopposed(sub.gang)


def refuse(gang: GangState, reason: Reason) -> None:
    """Note once why the gang as a whole gets no more."""
    if reason not in gang.reasons:
        gang.reasons.append(reason)


def _next_run(session: Session, sub: SubState, waiting: list[Task]) -> tuple[list[Task], Shape]:
    """The longest run of equal members of one role from the front, no longer than it takes to become ready."""
    first = waiting[0]
    shape = session.shape(first)
    if session.promised_node(first):
        return [first], shape
    most = session.until_ready(sub, first.role, len(waiting))
    if most > LONG_RUN and _needs_all(sub):
        allowed = session.points.allocatable.of(session.queue_of(sub.gang), shape, most)
        # The run is refused as it is, and the gang with it: whether filters tell its members apart is no matter.
        if not allowed:
            alike = itertools.takewhile(lambda task: (task.request, task.role) == (first.request, first.role), waiting)
            return list(alike), shape
        if allowed >= most:
            # It is given up at the first that fits nowhere: who comes after that one need not be looked at.
            most = min(most, int(np.sum(shape.copies(session.room.future))) + 1)
    whole = sub.gang.gang
    run, are_alike = [first], most >= len(whole.tasks) and session.shapes.of_all(whole, first) is not None
    for task in waiting[1:most]:
        is_alike = task.role == first.role and (are_alike or session.shape(task) is shape)
        if not is_alike or session.promised_node(task):
            break
        run.append(task)
    return run, shape


def _place_run(session: Session, statement: Statement, sub: SubState, run: list[Task], within: Mask | None) -> int:
    """Place as many of the run as find room; the number placed."""
    shape = session.shape(run[0])
    if session.placer.prefilter(shape) is not None:
        return 0
    done = 0
    while done < len(run):
        task = run[done]
        places = session.placer.fill(shape, len(run) - done, _nominated_node(session, task, shape, within), task)
        if not places.nodes:
            break
        batch = run[done : done + len(places.nodes)]
        status = Status.PIPELINED if places.pipelined else Status.ALLOCATED
        statement.place(Placement(sub.gang, shape, batch, places.nodes, status))
        done += len(batch)
    return done


def _nominated_node(session: Session, task: Task, shape: Shape, within: Mask | None) -> Mask | None:
    """The one node that was promised to the task, if it can still take it; else wherever it may go."""
    promised = session.promised_node(task)
    index = session.room.table.index.get(promised) if promised else None
    if index is None or (within is not None and not within[index]):
        return within
    alone = np.zeros(len(session.room.table), dtype=bool)
    alone[index] = True
    return alone if session.placer.feasible(shape, alone).any() else within


def _why(session: Session, shape: Shape, within: Mask | None, hyper_node: str) -> FitError:
    reason = session.placer.prefilter(shape)
    if reason is not None:
        count = int(np.count_nonzero(within)) if within is not None else len(session.room.table)
        return FitError((reason,), count, instead=reason)
    return session.placer.fit_error(shape, within, hyper_node)


def _role_has_failed(sub: SubState, task: Task) -> FitError | None:
    """Pods of a role that has failed once in this cycle are not tried again (Volcano parity)."""
    if not task.role:
        return None
    for other in sub.gang.fit_errors:
        if other.role == task.role and sub.gang.sub_of(other) is sub:
            skipped = Reason(Code.ROLE_FAILED, "gang", Facts(pod=task.name, role=task.role))
            return FitError((), 0, instead=skipped)
    return None


def _needs_all(sub: SubState) -> bool:
    return sub.gang.spec.min_member == len(sub.gang.tasks) or sub.minimum >= len(sub.sub.tasks)


def _worth_going_on(sub: SubState) -> bool:
    """After a member found no room: could the others still make the gang ready?"""
    gang = sub.gang
    spec = gang.spec
    if _needs_all(sub):
        return False
    if spec.policies:
        return True
    failed = {task.role for task in gang.fit_errors if gang.sub_of(task) is sub}
    if spec.min_member < sum(spec.role_minimums.values()):
        hopeful = sum(gang.status(task) is Status.PENDING and task.role not in failed for task in gang.tasks)
        return gang.tally.ready + hopeful >= spec.min_member
    return all(gang.role_ready(role) >= spec.role_minimums.get(role, 0) for role in failed)

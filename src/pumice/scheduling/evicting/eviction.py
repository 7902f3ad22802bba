"""Making room: which pods may have to go for which gang, in which order, and which can be spared after all.

Plans are made inside a statement on the session itself, so that filters, quotas and orders see each eviction at once. A plan is
committed only if its gang becomes ready by it, and only after every victim that it can do without has been spared.
"""

from __future__ import annotations

from functools import cmp_to_key
from typing import TYPE_CHECKING

from pumice.cluster import amounts
from pumice.scheduling.core import task_order
from pumice.scheduling.core.codes import Code, Facts
from pumice.scheduling.core.statement import Eviction, Placement
from pumice.scheduling.core.verdict import Cause
from pumice.scheduling.placing import pending

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pumice.cluster.columns import Column
    from pumice.cluster.queues import QueueInfo
    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape
    from pumice.scheduling.core.statement import Statement

# Sparing replays the plan a few times for each victim that cannot stay: a larger plan is left as it is.
SPARED_BY_REPLAY_MAX = 256


def victim_order(session: Session, claimant: GangState | None, victims: Iterable[Task]) -> list[Task]:
    """Who goes first: of one gang the last placed, of one queue the gang served last, else the queue that can best bear it."""
    standings: dict[str, _Standing] = {}  # each gang is asked about once, and not with every comparison

    def standing(gang: GangState) -> _Standing:
        found = standings.get(gang.key)
        if found is None:
            found = standings[gang.key] = _standing(session, gang)
        return found

    def compare(left: Task, right: Task) -> int:
        own, other = session.gangs.get(left.gang), session.gangs.get(right.gang)
        if own is other:
            return -task_order.compare(session.points, left, right)
        if own is None or other is None:
            return -1 if own is None else 1
        if claimant is None or own.queue == other.queue:
            by_standing = _compare_standings(standing(own), standing(other))
            return by_standing or -task_order.compare(session.points, left, right)
        order = queue_compare(session, session.queue_of(own), session.queue_of(other), session.queue_of(claimant))
        return -1 if order < 0 else 1

    return sorted(victims, key=cmp_to_key(compare))


def gang_compare(session: Session, left: GangState, right: GangState) -> int:
    """Between gangs of one queue; negative: the left one loses a member first, zero: the plugins see no difference."""
    return _compare_standings(_standing(session, left), _standing(session, right))


_Standing = tuple[tuple[float, ...], tuple[float, ...]]  # as a victim, and in line


def _standing(session: Session, gang: GangState) -> _Standing:
    return session.points.victim_order.of(gang), session.gang_key(gang)


def _compare_standings(mine: _Standing, theirs: _Standing) -> int:
    if mine[0] != theirs[0]:
        return (mine[0] > theirs[0]) - (mine[0] < theirs[0])
    return (mine[1] < theirs[1]) - (mine[1] > theirs[1])


def victim_compare(session: Session, left: GangState, right: GangState) -> int:
    """The same, as far as plugins order victims as such."""
    order = session.points.victim_order
    if not order.hooks:
        return 0
    mine, theirs = order.of(left), order.of(right)
    return (mine > theirs) - (mine < theirs)


def queue_compare(session: Session, left: QueueInfo, right: QueueInfo, claimant: QueueInfo) -> float:
    """Negative: a victim of the left queue goes first."""
    return session.points.victim_queue_order.of(left, right, claimant) or -session.queue_compare(left, right)


def enough(session: Session, shape: Shape, node: int, victims: Sequence[Task]) -> bool:
    """Whether the pod fits onto the node once all victims have left."""
    free = session.room.future[:, node].copy()
    for task in victims:
        free += session.room.table.axis.demand(task.request)
    return all(free[row] >= shape.demand[row] for row in shape.rows)


def fits(session: Session, gang: GangState, shape: Shape, node: int, *, check_queue: bool = True) -> bool:
    """Whether one such pod may be promised this node now: room, queue and every filter."""
    future = session.room.future
    if not all(future[row, node] >= shape.demand[row] for row in shape.rows):
        return False
    if check_queue and session.points.allocatable.of(session.queue_of(gang), shape, 1) < 1:
        return False
    return session.placer.passes(shape, node)


def in_need(session: Session, gang: GangState) -> Sequence[Task]:
    """Members that others may have to leave for, in order; one that asks for nothing and finds a free slot needs no victim."""

    def finds_a_slot(task: Task) -> bool:
        shape = session.shape(task)
        return bool((session.placer.feasible(shape, None) & shape.fits(session.room.idle)).any())

    tasks = pending.waiting(session, gang)
    if not gang.tally.waiting_best_effort:
        return tasks
    return [task for task in tasks if not (task.is_best_effort and finds_a_slot(task))]


def may_evict(session: Session, gang: GangState) -> bool:
    """Whether others may have to leave for the gang; what it still has to wait for is noted."""
    if not session.points.starving.holds(gang):
        return False
    reason = session.points.patience.of(gang)
    if reason is not None and reason not in gang.reasons:
        gang.reasons.append(reason)
    return reason is None


def carry_out(session: Session, statement: Statement, gang: GangState) -> bool:
    """Commit a plan, unless a plugin objects to it: then nothing of it is left, and the gang is told why.

    What a plugin refuses to the gang in its turn (a reservation would not stand any more), it does not get by evictions either.
    """
    reason = session.points.objection.of(gang, statement) if statement.evictions else None
    if reason is None:
        reason = session.points.veto.of(gang, statement)
    if reason is None:
        statement.commit()
        return True
    statement.rollback()
    if reason not in gang.reasons:
        gang.reasons.append(reason)
    return False


def is_lost(session: Session, gang: GangState, left: int) -> bool:
    """Whether `left` further members could not make the gang start, wherever they found room: no use to look for it."""
    return session.shortfall(gang) > left


def is_worth_it(session: Session, statement: Statement, gang: GangState) -> bool:
    """Whether the plan may be carried out: the gang may wait for its places and, if others have to go, no plugin objects at all.

    A vote of a higher tier (sla's, for a gang that is due) may hold free room for half a gang. It may not evict a pod.
    Members of a sub group are only ever started together, so half a sub group is worth nothing either.
    """
    if gang.spec.policies:
        touched = {gang.sub_of(task): None for placement in statement.placements for task in placement.tasks}
        if not all(session.sub_is_ready(sub) or session.sub_is_pipelined(sub) for sub in touched):
            return False
    if statement.evictions:
        return session.points.pipelined.is_unopposed(gang)
    return session.is_pipelined(gang)


def cost(session: Session, victim: Task) -> Cause:
    """What the eviction costs: below its minimum the rest of a gang is worthless."""
    gang = session.gangs[victim.gang]
    left, least = gang.tally.ready - 1, gang.spec.min_member
    code = Code.VICTIM_BREAKS_GANG if left < least else Code.VICTIM_SPARED_BY_GANG
    return Cause(code, Facts(gang=gang.key, free=left, wanted=least))


def has_evicted_requests(evictions: Iterable[Eviction]) -> bool:
    """Only victims that asked for something leave room that is worth nominating a node for (Volcano parity)."""
    return any(not amounts.is_empty(each.task.request.amounts) for each in evictions)


def spare(
    session: Session,
    statement: Statement,
    *,
    check_queue: bool,
    of: Callable[[GangState], bool] = lambda _: True,
    accepts: Callable[[Statement], bool] = lambda _: True,
) -> None:
    """Take back every eviction (of such gangs) that the plan can do without, last one first; what is left is minimal.

    `accepts` has the last word on the smaller plan: what a spared pod keeps, another victim may have been meant to get.
    Victims are tried together, twice as many after each success and half as many after a failure: most plans can do without most or without none.
    """
    left = [each for each in reversed(statement.evictions) if of(each.gang)]
    if len(left) > SPARED_BY_REPLAY_MAX:
        return
    count = 1
    while left:
        tried, rest = _with_room(session, left, count)
        if not tried or _try_without(session, statement, tried, accepts, check_queue=check_queue):
            left, count = rest, count * 2
        elif len(tried) == 1:
            left, count = rest, 1
        else:
            count = len(tried) // 2


def _with_room(session: Session, left: Sequence[Eviction], count: int) -> tuple[list[Eviction], list[Eviction]]:
    """The first so many of them that could all stay where they are, as far as room goes, and all after them."""
    future = session.room.future
    rooms: dict[int, Column] = {}  # of nodes on which some of them stay
    found: list[Eviction] = []
    for number, each in enumerate(left):
        if len(found) == count:
            return found, list(left[number:])
        room, demand = rooms.get(each.node, future[:, each.node]), each.shape.demand
        if all(room[row] >= demand[row] for row in each.shape.rows):
            found.append(each)
            rooms[each.node] = room - demand
    return found, []


def _try_without(
    session: Session,
    statement: Statement,
    spared: Sequence[Eviction],
    accepts: Callable[[Statement], bool],
    *,
    check_queue: bool,
) -> bool:
    """Do the plan again without some victims; keep that if every placement still holds."""
    plan, stay = list(statement.operations), set(map(id, spared))
    mark = next(at for at, each in enumerate(plan) if isinstance(each, Placement) or id(each) in stay)
    statement.rollback(mark)  # what comes before is the same in both plans
    statement.replay([each for each in plan[mark:] if isinstance(each, Eviction) and id(each) not in stay])
    for operation in plan[mark:]:
        if isinstance(operation, Placement):
            if not fits(session, operation.gang, operation.shape, operation.nodes[0], check_queue=check_queue):
                break
            statement.replay([operation])
    else:
        if accepts(statement):
            return True
    statement.rollback(mark)
    statement.replay(plan[mark:])
    return False

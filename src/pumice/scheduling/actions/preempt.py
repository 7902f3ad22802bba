"""preempt: a gang that starves may evict lower-ranked pods of its own queue, if that lets it start as a whole.

Between gangs first, then within a gang (a higher-priority member for a lower one). Places are only promised: the pods are bound
in a later cycle, when the victims have left.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from pumice import instant
from pumice.cluster.tasks import EVICTABLE, Status
from pumice.scheduling.core.arguments import CachingArgs, read_action
from pumice.scheduling.core.statement import Eviction, Placement
from pumice.scheduling.evicting import backoff, claimants, eviction, votes
from pumice.scheduling.evicting.pool import Pool, Shut
from pumice.scheduling.evicting.share_bound import ShareBound
from pumice.scheduling.placing import members, pending
from pumice.values import Mutable, once

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.cluster.columns import Mask
    from pumice.cluster.queues import QueueInfo
    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.points import Indexes
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape
    from pumice.scheduling.core.statement import Statement
    from pumice.scheduling.evicting.pool import Screen

NAME = "preempt"
PREEMPTED_BY_SCHEDULER = "PreemptionByScheduler"


class Arguments(CachingArgs, frozen=True):
    """How far to look for victims, and by which rule."""

    topology_aware: bool = msgspec.field(name="enableTopologyAwarePreemption", default=False)
    workers: int = msgspec.field(name="topologyAwarePreemptWorkerNum", default=16)  # columns need no workers
    candidates_percent: int = msgspec.field(name="minCandidateNodesPercentage", default=10)
    candidates_least: int = msgspec.field(name="minCandidateNodesAbsolute", default=1)
    candidates_most: int = msgspec.field(name="maxCandidateNodesAbsolute", default=100)


def run(session: Session) -> None:
    arguments = read_action(Arguments, session.policy, NAME)
    for queue, gangs in claimants.by_queue(session, lambda gang: not gang.wants_closeness):
        _Preempting(session, arguments, queue, gangs).run()


class _Preempting:
    """Preemption within one queue."""

    def __init__(self, session: Session, arguments: Arguments, queue: QueueInfo, gangs: list[GangState]) -> None:
        self.session = session
        self.arguments = arguments
        self.queue = queue
        self.gangs = gangs
        self.point = session.points.preemptable
        self.is_silent = votes.is_silent(self.point)
        self.free_came_first = False  # in the last plan, for some member: by scores it would look elsewhere
        self.apart: set[str] = set()  # gangs that free room alone could not make whole, as things are

    @once
    def pool(self) -> Pool:
        """Only if somebody could go, or is to be asked about: to put all pods in columns takes its time."""
        share = ShareBound(self.session, self.queue)
        return Pool(self.session, self.point, {self.queue.name}, EVICTABLE, is_preempting=True, share=share)

    def run(self) -> None:
        session = self.session
        claimants.take_turns(session, NAME, self.gangs, self._between_gangs)
        last, may_leave_out = -1, self._leaves_only_hopes()
        for number, gang in enumerate(self.gangs):
            if may_leave_out and number > last:
                last = self._last_to_start(number)
                if last < number:
                    return
            if session.spend(1):
                with session.turn_of(gang):
                    self._within(gang)

    def _between_gangs(self, gang: GangState) -> None:
        """Free room first costs the fewest victims. Where that fails, in the order of scores: a share rule may refuse the last
        victim after free room has gone to an early member. Where nobody could go, both orders find the same places.
        """
        session, budget = self.session, self.session.budget
        has_victims = self._has_victims(gang)
        # Where plugins talk to claimants, those who could not go in any case say why, node by node.
        is_alone = not has_victims and self.is_silent
        if has_victims or not self._is_in_vain(gang):
            statement = session.statement(gang)
            self.free_came_first = False
            done = self._plan(statement, gang, free_first=True)
            if not done and self.free_came_first and not is_alone:
                done = self._plan(statement, gang, free_first=False)
            if done:
                self.apart.clear()
                eviction.spare(session, statement, check_queue=True)
                if eviction.carry_out(session, statement, gang):
                    return
        if is_alone and pending.shape_of_all(session, gang) is not None:  # else its own members may go
            self.apart.add(gang.key)
        backoff.record(session, NAME, gang, budget)

    def _plan(self, statement: Statement, gang: GangState, *, free_first: bool) -> bool:
        """Whether victims were found in the statement that are worth it; if not, nothing is left in it."""
        session = self.session
        needy = eviction.in_need(session, gang)
        self.pool.start_plan()
        for left, task in zip(range(len(needy), 0, -1), needy, strict=True):
            if not session.points.starving.holds(gang) or eviction.is_lost(session, gang, left):
                break
            self._make_room(statement, gang, task, free_first=free_first)
        if statement.operations and eviction.is_worth_it(session, statement, gang):
            return True
        statement.rollback()
        return False

    def _has_victims(self, gang: GangState) -> bool:
        """Whether somebody could go for any member; taken for granted where members differ."""
        if votes.lets_nobody_go(self.point, gang.tasks[0], self.queue.name):
            return False
        example = self._example(gang)
        return example is None or self.pool.frees_any(self.pool.screen(gang, example))

    def _is_in_vain(self, gang: GangState) -> bool:
        """Where nobody could go: whether free room is too little for the minimum, so that it is no use to try members one by one. A plugin may
        want half a gang to hold free room (sla, for one that is due): then they are.
        """
        session = self.session
        if self._example(gang) is None or session.is_pipelined(gang):
            return False
        if backoff.free_places(session, gang) < session.shortfall(gang):
            return True
        shape = pending.shape_of_all(session, gang) if self.is_silent else None
        return shape is not None and self._is_short(gang, shape)

    def _example(self, gang: GangState) -> Task | None:
        """A member that stands for all that are in need, where they are alike."""
        session = self.session
        if pending.shape_of_all(session, gang) is not None:
            return gang.tasks[0]
        needy = eviction.in_need(session, gang)
        are_alike = len(session.shapes.count(gang.gang, needy)) == 1 and len({task.priority for task in needy}) == 1
        return needy[0] if are_alike else None

    def _leaves_only_hopes(self) -> bool:
        """Whether places of gangs that are not whole by them go unseen: `lend` drops them before anybody misses them."""
        session = self.session
        if session.explain or not session.shortcuts.forgets_backoffs or len(session.queues_in_use) > 1:
            return False
        actions = session.policy.actions
        others = [name for name in actions[actions.index(NAME) :] if name != "reclaim"]  # with one queue, from nobody
        return others[:2] == [NAME, "lend"] and NAME not in others[1:]

    def _last_to_start(self, first: int) -> int:
        """Of the gangs from there on, the last that could become whole, or of which a member could go; -1 where none could."""
        numbers = range(len(self.gangs) - 1, first - 1, -1)
        return next((number for number in numbers if not self._stays_apart(self.gangs[number])), -1)

    def _stays_apart(self, gang: GangState) -> bool:
        """Whether nobody waits, or it has no members that could go, and there is too little free room for it to become whole."""
        if gang.key in self.apart:
            return True
        shape = pending.shape_of_all(self.session, gang)
        if shape is None:
            return not pending.waiting(self.session, gang)
        with self.session.turn_of(gang):
            return self._is_short(gang, shape)

    def _is_short(self, gang: GangState, shape: Shape) -> bool:
        """In its turn: whether free room is too little for a gang of such pods that waits as one, as far as plugins let it have any."""
        session = self.session
        nodes = np.flatnonzero(session.placer.allowed(shape))
        return int(session.placer.copies(shape, nodes, pipelining=True).sum()) < session.shortfall(gang)

    def _within(self, gang: GangState) -> None:
        """A member for a lower-ranked member, where the gang has its minimum also afterwards."""
        session, index = self.session, self.session.room.table.index
        shape = pending.shape_of_all(session, gang)
        if shape is not None and not session.placer.free_places(shape):
            return  # nobody of its own could go either
        own = [index[mate.node] for mate in gang.tasks_in(*EVICTABLE) if mate.node in index]
        hopes = []  # members that simply fit: no decisions
        for task in eviction.in_need(session, gang):
            statement = session.statement(gang)
            made = self._swap(statement, gang, task, own)
            if not made or (statement.evictions and not eviction.is_worth_it(session, statement, gang)):
                statement.rollback(remember=True)
                break
            if statement.evictions:
                statement.commit()
                self.apart.clear()
            else:
                hopes.append(statement)
        if hopes and not self._is_refused(gang, hopes[-1]):
            session.kept += hopes
        else:
            for statement in reversed(hopes):
                statement.rollback(remember=True)

    def _is_refused(self, gang: GangState, last: Statement) -> bool:
        """Whether a plugin keeps the gang from waiting in these places. A gang that is whole by them is told why here; one that is not was told in allocate."""
        session = self.session
        reason = session.points.veto.of(gang, last)
        if session.is_pipelined(gang):
            self.apart.clear()
            if reason is not None:
                members.refuse(gang, reason)
        return reason is not None

    def _swap(self, statement: Statement, gang: GangState, task: Task, own: Sequence[int]) -> bool:
        """Room for the task where members of its own gang could go; elsewhere only where it simply fits."""
        session = self.session
        shape = session.shape(task)
        if not (own or session.placer.free_places(shape)) or not _may_preempt(session, task, shape):
            return False
        question = _Question(session, task, self._nodes(shape))
        if not len(question.nodes):
            return False
        trial = _Trial(session, statement, gang, task, self.pool, within=True)
        if self.arguments.topology_aware:
            return trial.on_gentlest(question.nodes, self._candidates(len(question.nodes)))
        where = shape.fits(session.room.future)
        where[own] = True
        nodes = question.in_order(free_first=True)
        return any(session.spend(1) and trial.on(node) for node in nodes[where[nodes]].tolist())

    def _make_room(self, statement: Statement, gang: GangState, task: Task, *, free_first: bool) -> bool:
        """Room for the task where members of other gangs could go."""
        session, pool = self.session, self.pool
        shape = session.shape(task)
        if not _may_preempt(session, task, shape) or not session.spend(1):
            return False
        screen = pool.screen(gang, task)
        if (shut := pool.shut(screen, gang)) is None:
            question = _Question(session, task, self._nodes(shape))
            if pool.is_open(screen, question.nodes).any():
                return self._try_in_order(_Trial(session, statement, gang, task, pool, screen), question, free_first)
            mixed = not self.arguments.topology_aware and question.is_mixed
            shut = screen.shut = Shut(pool.columns.moves, question.nodes, mixed)
        self.free_came_first |= free_first and shut.mixed
        pool.give_up(shut.nodes, task)
        return False

    def _try_in_order(self, trial: _Trial, question: _Question, free_first: bool) -> bool:  # noqa: FBT001
        pool, task = trial.pool, trial.task
        if self.arguments.topology_aware:
            return trial.on_gentlest(pool.promising(question.nodes, task), self._candidates(len(question.nodes)))
        self.free_came_first |= free_first and question.is_mixed
        nodes = pool.promising(question.in_order(free_first=free_first), task)
        assert trial.screen is not None
        return pool.first_in_share(trial.screen, nodes, task, trial.on)

    def _nodes(self, shape: Shape) -> Indexes:
        """Those that evictions could open for such a pod."""
        mask = self.session.placer.evictable(shape) & self.pool.could_open(shape)
        if self.session.points.allocatable.of(self.queue, shape, 1) < 1:
            mask &= self.pool.has_members  # without a share free room is of no use: one of its own has to leave
        return np.flatnonzero(mask)

    def _candidates(self, feasible: int) -> int:
        arguments = self.arguments
        wanted = max(feasible * arguments.candidates_percent // 100, arguments.candidates_least)
        return min(wanted, arguments.candidates_most, feasible)


class _Question:
    """A task, and the nodes that evictions could open for it, as of now."""

    def __init__(self, session: Session, task: Task, nodes: Indexes) -> None:
        self.session = session
        self.task = task
        self.nodes = nodes

    @functools.cached_property
    def _costs(self) -> Mask:
        """Free room means free of evictions: a node with room that some filter refuses costs victims all the same."""
        costs: Mask = ~self.session.placer.feasible(self.session.shape(self.task), None)[self.nodes]
        return costs

    @property
    def is_mixed(self) -> bool:
        """Whether there is free room as well as room that costs victims."""
        return bool(self._costs.any() and not self._costs.all())

    def in_order(self, *, free_first: bool) -> Indexes:
        scores = self.session.placer.scores(self.session.shape(self.task), self.task, self.nodes)
        order = np.lexsort((-scores, self._costs)) if free_first else np.argsort(-scores, kind="stable")
        return self.nodes[order]


def _may_preempt(session: Session, task: Task, shape: Shape) -> bool:
    """Not if it can be placed nowhere, nor while an earlier preemption for this very pod is under way on the node that it was promised.

    A nomination alone proves nothing: the scheduler that made it may have died before it had evicted all victims.
    """
    if task.pod.spec.preemption_policy == "Never" or session.placer.prefilter(shape) is not None:
        return False
    node = session.room.table.index.get(task.nominated_node)
    if node is None or not session.placer.evictable(shape)[node]:
        return True
    return not any(
        other.status is Status.RELEASING and other.priority < task.priority and _is_preempted(other)
        for other in session.room.table.tasks[node]
    )


def _is_preempted(task: Task) -> bool:
    return any(
        condition.type == "DisruptionTarget"
        and condition.status == "True"
        and condition.reason == PREEMPTED_BY_SCHEDULER
        for condition in task.pod.status.conditions
    )


class _Trial(Mutable):
    """Tries one node after the other for one pod; what it leaves behind in the statement is one working place, or nothing."""

    session: Session
    statement: Statement
    gang: GangState
    task: Task
    pool: Pool
    screen: Screen | None = None  # where it may be known beforehand that nothing comes of it
    within: bool = False  # only members of the gang itself may go, else only those of others

    def victims(self, node: int) -> list[Task] | None:
        """The pods that the plugins let go on this node, first one first; None where even all of them are not enough."""
        session, task = self.session, self.task
        candidates = [
            each
            for each in self.pool.candidates(node, self.gang)
            if (each.gang == self.gang.key) is self.within and (not task.is_best_effort or each.is_best_effort)
        ]
        # Pods are asked about in the order of eviction: a surplus is spent on those that would be evicted anyway.
        candidates = eviction.victim_order(session, self.gang, candidates)
        victims = session.points.preemptable.of(task, candidates) if candidates else []
        if not eviction.enough(session, session.shape(task), node, victims):
            self.pool.give_up(node, task)
            if self.screen is not None:
                self.pool.refuse(self.screen, node, self.gang)
            return None
        chosen = {victim.uid for victim in victims}
        return [each for each in candidates if each.uid in chosen]

    def on(self, node: int) -> bool:
        """Evict until the pod fits here, spare who need not go, and promise the place."""
        victims = self.victims(node)
        if victims is None:
            return False
        mark = self.statement.checkpoint()
        if not self._evict(node, victims):
            self.statement.rollback(mark)
            return False
        self._promise(node, mark)
        return True

    def _fits(self, node: int) -> bool:
        return eviction.fits(self.session, self.gang, self.session.shape(self.task), node)

    def _evict(self, node: int, victims: Sequence[Task]) -> bool:
        mark = self.statement.checkpoint()
        fits = self._fits(node)
        for victim in victims:
            if fits:
                break
            self.statement.evict(victim, NAME, eviction.cost(self.session, victim))
            fits = self._fits(node)
        if fits:
            self._reprieve(node, mark)
        return fits

    def _reprieve(self, node: int, mark: int) -> None:
        """Not of the last victim: before it went, the pod did not fit."""
        for operation in reversed(self.statement.operations[mark:-1]):
            assert isinstance(operation, Eviction)
            self.statement.unevict(operation)
            if not self._fits(node):
                self.statement.replay([operation])

    def _promise(self, node: int, mark: int) -> None:
        shape = self.session.shape(self.task)
        after_eviction = eviction.has_evicted_requests(self._evicted_since(mark))
        self.statement.place(Placement(self.gang, shape, [self.task], [node], Status.PIPELINED, after_eviction))

    def _evicted_since(self, mark: int) -> list[Eviction]:
        return [each for each in self.statement.operations[mark:] if isinstance(each, Eviction)]

    def on_gentlest(self, nodes: Indexes, enough: int) -> bool:
        """Topology-aware mode: of some nodes that work, the one whose victims matter least."""
        found: list[tuple[tuple[float, ...], int, list[Task]]] = []
        is_open = np.ones_like(nodes, dtype=bool) if self.screen is None else self.pool.is_open(self.screen, nodes)
        for node, may_work in zip(nodes.tolist(), is_open.tolist(), strict=True):
            if not may_work:
                self.pool.give_up(node, self.task)
                continue
            victims = self.victims(node)
            if not victims:
                continue
            mark = self.statement.checkpoint()
            if self._evict(node, victims) and (chosen := [each.task for each in self._evicted_since(mark)]):
                found.append((_pain(self.session, chosen), node, chosen))
            self.statement.rollback(mark)
            if len(found) >= enough:
                break
        if not found:
            return False
        _, node, chosen = min(found, key=lambda each: each[:2])
        mark = self.statement.checkpoint()
        for victim in chosen:
            self.statement.evict(victim, NAME, eviction.cost(self.session, victim))
        self._promise(node, mark)
        return True


def _pain(session: Session, victims: Sequence[Task]) -> tuple[float, ...]:
    """Highest priority among the victims, their sum, their number, and how early the best of them started."""
    priorities = [task.pod.spec.priority or 0 for task in victims]
    highest = max(priorities)
    starts = [_start_time(session, task) for task, own in zip(victims, priorities, strict=True) if own == highest]
    return (highest, sum(own + 2**31 for own in priorities), len(victims), -min(starts))


def _start_time(session: Session, task: Task) -> int:
    start = task.pod.status.start_time
    return session.now if start is None else instant.parse_instant(start)

"""Evicting for a gang as a whole: in one hyper node after the other, the cheapest bundles that let it start, and no more.

For each domain the question "could evictions help at all?" is answered first, by a bound over columns. Then bundles are added in
their order until the bound no longer speaks against it, and the plan is tried for real: victims evicted, members placed, all
inside a statement. A plan that works is made minimal before it is committed: first every gang that it can do without is spared,
then every single member of a gang that keeps its minimum.
"""

from __future__ import annotations

import bisect
import functools
import operator
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from pumice.cluster import amounts
from pumice.cluster.tasks import Status
from pumice.cluster.topology import ROOT
from pumice.scheduling.core.arguments import ActionArgs
from pumice.scheduling.core.codes import Code, Facts
from pumice.scheduling.core.statement import Placement
from pumice.scheduling.core.verdict import Cure, Reason
from pumice.scheduling.evicting import bundles, eviction
from pumice.scheduling.placing import followers, members, topology, turns
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pumice.cluster.columns import Column
    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.gangstate import GangState, SubState
    from pumice.scheduling.core.points import EvictionKind
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.statement import Statement
    from pumice.scheduling.evicting.bundles import Bundle, Candidates

DOMAINS_MAX = 8
TRIALS_MAX = 16  # plans tried for real in one domain; each failure takes twice as many further bundles
SPARED_BUNDLES_MAX = 64  # of a larger plan only single victims are spared


class Arguments(ActionArgs, frozen=True):
    """Where to look, and whether a gang may be broken."""

    domains: int = msgspec.field(name="maxDomains", default=DOMAINS_MAX)
    allow_whole: bool = msgspec.field(name="allowWholeBundle", default=True)

    @property
    def domains_max(self) -> int:
        return self.domains if self.domains > 0 else DOMAINS_MAX


class Rules(Value):
    """What tells gangpreempt and gangreclaim apart."""

    kind: EvictionKind
    candidates: Candidates
    below: Callable[[GangState], float]  # victims' gangs must be of lower priority than this
    compare: Callable[[GangState, GangState], float]  # whose bundle goes first
    too_little: Code  # evicting all of them would not be enough
    goes_whole: Callable[[GangState], bool] = lambda _: True  # whether a gang may lose what it cannot spare
    accepts: Callable[[Statement], bool] = lambda _: True  # whether a plan that works may be carried out


def pursue(session: Session, gang: GangState, rules: Rules, arguments: Arguments) -> bool:
    """Evict for one gang, if that provably lets it start; whether it did."""
    if turns.is_held_back(session, gang):
        return False
    obstacle = topology.prepare(session, gang)
    if obstacle is not None:
        members.refuse(gang, obstacle)
        return False
    wanted = Wanted(session, gang)
    most = rules.candidates.most(rules.below(gang))
    if not wanted.tasks or most is None or any(task.pod.spec.preemption_policy == "Never" for task in wanted.tasks):
        return False
    domains = _domains(session, gang, arguments.domains_max)
    bounds = topology.room_for(session, wanted.tasks, ROOT, most)
    positions = [session.snapshot.tree.position[name] for name in domains]
    hopeful = [name for name, at in zip(domains, positions, strict=True) if bounds[at] >= wanted.least]
    if domains and not hopeful:
        most_room = max(int(bounds[at]) for at in positions)
        facts = Facts(queue=gang.queue, free=most_room, wanted=wanted.least)
        members.refuse(gang, Reason(rules.too_little, rules.kind.value, facts, cure=Cure.WAITING))
    for name in hopeful:
        statement = _Domain(session, gang, wanted, rules, name).plan(allow_whole=arguments.allow_whole)
        evictions = [] if statement is None else statement.evictions
        if statement is not None and eviction.carry_out(session, statement, gang):
            rules.candidates.forget(evictions)
            return True
    return False


def _domains(session: Session, gang: GangState, most: int) -> list[str]:
    """Where evictions are considered, widest first."""
    groups = topology.gradients(session, gang, ROOT, evicting=True)
    return [name for group in groups for name in group][:most]


def promise_places(session: Session, statement: Statement, gang: GangState) -> bool:
    """Places for the gang in what is free and in what the statement's victims leave; False: nothing was added to it."""
    wanted = Wanted(session, gang)
    if not wanted.tasks or topology.prepare(session, gang) is not None:
        return False
    mark = statement.checkpoint()
    for name in _domains(session, gang, DOMAINS_MAX):
        if Places(session, gang, wanted, name).promise(statement):
            return True
        statement.rollback(mark)
    return False


class Wanted:
    """The members to find places for: as many as the gang needs to start; of one that runs, the next sub gang."""

    def __init__(self, session: Session, gang: GangState) -> None:
        self.was_ready = session.is_ready(gang)
        self.by_sub: dict[str, list[Task]] = {}
        waiting = [task for task in gang.tasks_in(Status.PENDING) if not task.gates and not task.is_best_effort]
        for task in session.in_placement_order(waiting):
            self.by_sub.setdefault(gang.sub_of(task).sub.key, []).append(task)
        if self.was_ready and self.by_sub:
            first = topology.line(session, gang, self.by_sub).pop().sub.key
            self.by_sub = {first: self.by_sub[first]}
        self.tasks = [task for tasks in self.by_sub.values() for task in tasks]
        self.least = len(self.tasks) if self.was_ready else session.shortfall(gang)
        self.need = amounts.sum_of(task.request.amounts for task in self.tasks)


class Places:
    """Places in one hyper node for members that others leave for."""

    def __init__(self, session: Session, gang: GangState, wanted: Wanted, name: str) -> None:
        self.session = session
        self.gang = gang
        self.wanted = wanted
        self.name = name
        self.tree = session.snapshot.tree

    def promise(self, statement: Statement) -> bool:
        """Whether there are enough; they are in the statement then."""
        records = [sub.hyper_node for sub in self.gang.subs]
        works = self._place(statement)
        for sub, record in zip(self.gang.subs, records, strict=True):
            sub.hyper_node = record
        return works

    def _place(self, statement: Statement) -> bool:
        session, gang = self.session, self.gang
        turns = topology.line(session, gang, self.wanted.by_sub)
        while turns:
            sub = turns.pop()
            groups = topology.gradients(session, sub, self.name, evicting=True)
            placed = any(self._place_sub(statement, sub, name) for group in groups for name in group)
            if self.wanted.was_ready:
                return placed
            if placed and session.is_pipelined(gang):
                return True
        return False

    def _place_sub(self, statement: Statement, sub: SubState, hyper_node: str) -> bool:
        """Promise places in the hyper node to as many members as the sub gang needs; False: nothing has happened."""
        session = self.session
        waiting = list(self.wanted.by_sub[sub.sub.key])
        mark = statement.checkpoint()
        where = None if hyper_node == ROOT else self.tree.mask(hyper_node)
        while waiting and (self.wanted.was_ready or not session.sub_is_pipelined(sub)):
            task, shape = waiting[0], session.shape(waiting[0])
            if (
                session.points.allocatable.of(session.queue_of(self.gang), shape, 1) < 1
                or session.placer.prefilter(shape) is not None
            ):
                break
            near = followers.with_room_for_all(session, self.gang, task, where)
            places = session.placer.fill(shape, 1, near, task)
            if not places.nodes:
                break
            statement.place(Placement(self.gang, shape, [task], places.nodes, Status.PIPELINED, after_eviction=True))
            del waiting[0]
        done = not waiting if self.wanted.was_ready else session.sub_is_pipelined(sub)
        if done and statement.checkpoint() > mark:
            sub.hyper_node = self.tree.common(sub.hyper_node, hyper_node)
            return True
        statement.rollback(mark)
        return False


class _Domain:
    """The search for a plan in one hyper node."""

    def __init__(self, session: Session, gang: GangState, wanted: Wanted, rules: Rules, name: str) -> None:
        self.session = session
        self.gang = gang
        self.wanted = wanted
        self.rules = rules
        self.name = name
        self.tree = session.snapshot.tree

    def plan(self, *, allow_whole: bool) -> Statement | None:
        """A statement with a minimal plan that lets the gang start, or None."""
        whole = self.rules.goes_whole
        offered = [each for each in self._bundles() if not each.whole or (allow_whole and whole(each.gang))]
        count = self._fewest(offered)
        step = 1
        for _ in range(TRIALS_MAX):
            if count > len(offered) or not self.session.spend(1):
                return None
            statement = self._try(offered[:count])
            if statement is not None:
                return self._spare_victims(statement, offered[:count])
            if count == len(offered):
                return None
            count, step = min(count + step, len(offered)), step * 2
        return None

    def _bundles(self) -> list[Bundle]:
        rules, need = self.rules, self.wanted.need
        by_gang = rules.candidates.by_gang(self.tree.nodes[self.name].tolist(), rules.below(self.gang))
        gangs = self.session.gangs
        self.session.spend(sum(map(len, by_gang.values())))
        found = [
            bundle
            for key, tasks in by_gang.items()
            for bundle in bundles.bundles_of(gangs[key], tasks, rules.candidates.everywhere[key])
        ]
        ordered = bundles.in_order(found, need, rules.compare)
        return bundles.in_order(
            bundles.approved_bundles(self.session, rules.kind, self.gang, ordered), need, rules.compare
        )

    def _fewest(self, offered: Sequence[Bundle]) -> int:
        """The smallest number of bundles that the bound does not rule out; more bundles never make less room."""
        tasks = [task for bundle in offered for task in bundle.tasks]
        ends = np.cumsum([len(bundle.tasks) for bundle in offered])
        room = _Room(self.session, tasks)
        return 1 + bisect.bisect_left(
            range(1, len(offered) + 1), x=True, key=lambda count: self._could_do(room.of_first(ends[count - 1]))
        )

    def _could_do(self, more: Column) -> bool:
        """Whether the bound allows a plan, given room that evictions add; asked while no pod is evicted yet."""
        bound = topology.room_for(self.session, self.wanted.tasks, self.name, more)
        return bool(bound[self.tree.position[self.name]] >= self.wanted.least)

    # ------------------------------------------------------------------------------------------------- trying

    def _try(self, chosen: Sequence[Bundle]) -> Statement | None:
        """Evict all of the chosen and place the gang; the statement if that works, else nothing has happened."""
        session, gang = self.session, self.gang
        statement = session.statement(gang)
        for bundle in chosen:
            for task in bundle.victims:
                statement.evict(task, self.rules.kind.value, eviction.cost(session, task))
        works = Places(session, gang, self.wanted, self.name).promise(statement)
        if works and self.rules.accepts(statement):
            return statement
        statement.rollback()
        return None

    # ------------------------------------------------------------------------------------------------- sparing

    def _spare_victims(self, statement: Statement, chosen: Sequence[Bundle]) -> Statement:
        """The same plan without what it can do without: whole gangs first, then single members."""
        session = self.session
        plan, kept = list(statement.operations), list(chosen)
        statement.rollback()
        for bundle in reversed(chosen) if len(chosen) <= SPARED_BUNDLES_MAX else ():
            if not bundle.whole and any(each.whole and each.gang is bundle.gang for each in kept):
                continue  # the gang goes whole
            fewer = [each for each in kept if each is not bundle]
            room = _Room(session, [task for each in fewer for task in each.tasks])
            if not self._could_do(room.of_first(None)) or not session.spend(len(plan)):
                continue
            trial = self._try(fewer)
            if trial is not None:
                plan, kept = list(trial.operations), fewer
                trial.rollback()
        statement.replay(plan)
        self._spare_members(statement, [bundle.gang for bundle in kept if bundle.whole])
        return statement

    def _spare_members(self, statement: Statement, broken: Sequence[GangState]) -> None:
        """Spare single members, of a gang that goes whole only if those that stay are its minimum."""
        session, accepts = self.session, self.rules.accepts
        eviction.spare(session, statement, check_queue=True, of=lambda gang: gang not in broken, accepts=accepts)
        for gang in broken:
            plan = list(statement.operations)
            only = functools.partial(operator.is_, gang)
            eviction.spare(session, statement, check_queue=True, of=only, accepts=accepts)
            if not session.is_ready(gang):
                statement.rollback()
                statement.replay(plan)


class _Room:
    """What some tasks hold, as columns over nodes."""

    def __init__(self, session: Session, tasks: Sequence[Task]) -> None:
        self.shape = session.room.future.shape
        self.nodes = [session.node_index(task) for task in tasks]
        self.demands = bundles.demands(session, tasks)

    def of_first(self, count: int | None) -> Column:
        """The room of the first so many tasks; None: of all."""
        column: Column = np.zeros(self.shape, dtype=np.int64)
        if self.nodes[:count]:
            np.add.at(column.T, self.nodes[:count], self.demands[:count])
        return column

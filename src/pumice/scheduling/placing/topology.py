"""Placing gangs that want to be close together, or that consist of sub gangs: hyper node by hyper node, closest first.

A plugin says in which hyper nodes a gang may be tried, in groups (`gradient`): whatever works in an earlier group beats
everything in a later one. Within a group the hyper node with the best score wins. Each trial is made for real, inside a
statement, and rolled back; the best one is done again. Two things keep that cheap: hyper nodes that cannot hold as many members
as must start together are passed over unseen, by one sum over columns; and where scores are known beforehand, the best
hyper node is tried first and usually the only one.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from pumice.cluster.gangs import Closeness
from pumice.cluster.tasks import OCCUPYING
from pumice.cluster.topology import ROOT
from pumice.scheduling.core.codes import Code, Facts
from pumice.scheduling.core.verdict import Cure, Reason
from pumice.scheduling.placing import members
from pumice.scheduling.placing.heap import Heap
from pumice.values import Mutable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pumice.cluster.columns import Column
    from pumice.cluster.tasks import Task
    from pumice.cluster.topology import HyperTree
    from pumice.scheduling.core.gangstate import GangState, SubState
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.statement import Operation, Statement
    from pumice.scheduling.core.verdict import FitError
    from pumice.scheduling.placing.pending import PendingMembers

PLUGIN = "network-topology-aware"  # under this name reasons are counted

# ------------------------------------------------------------------------------------------------- what a gang wishes


def prepare(session: Session, gang: GangState) -> Reason | None:
    """Turn the wishes of a gang and its sub gangs into tier numbers, and find out where members are; a Reason: it cannot be tried.

    A soft wish is a hard one with the widest limit: closer hyper nodes are tried first, and the root is the last of them.
    """
    if not gang.wants_closeness:
        return None
    tree = session.snapshot.tree
    if tree.fault:
        return Reason(Code.HYPER_NODES_UNUSABLE, PLUGIN, Facts(text=tree.fault))
    subjects: list[GangState | SubState] = [gang, *gang.subs]
    for subject in subjects:
        if subject.closeness is None:
            continue
        name = subject.closeness.tier_name
        if subject.closeness.hard and name and name not in tree.tier_by_name:
            facts = Facts(tier_name=name, names=tuple(sorted(tree.tier_by_name)))
            return Reason(Code.TIER_NAME_UNKNOWN, PLUGIN, facts)
        subject.closeness = _in_numbers(tree, subject.closeness, gang.closeness)
    _recover(session, gang)
    return None


def _in_numbers(tree: HyperTree, wish: Closeness, of_gang: Closeness | None) -> Closeness:
    if wish.hard:
        return Closeness(
            hard=True, tier=tree.tier_by_name[wish.tier_name] if wish.tier_name else wish.tier, tier_name=""
        )
    widest = of_gang.tier if of_gang is not None and of_gang.hard else None
    return Closeness(hard=True, tier=tree.root_tier if widest is None else widest, tier_name="")


def _recover(session: Session, gang: GangState) -> None:
    """The lowest hyper nodes that hold what is placed already; they are not stored, the pods' nodes tell."""
    if gang.hyper_node or not gang.tally.occupying:
        return
    tree = session.snapshot.tree
    for sub in gang.subs:
        sub.hyper_node = tree.lowest_holding(_placed_nodes(session, sub))
        gang.hyper_node = tree.common(gang.hyper_node, sub.hyper_node)


def _placed_nodes(session: Session, sub: SubState) -> list[int]:
    """The nodes of its members, one for each."""
    tasks = [task for task in sub.sub.tasks if sub.gang.status(task) in OCCUPYING]
    return [node for _, node in session.on_nodes(tasks)]


def is_close_enough(session: Session, gang: GangState) -> bool:
    """Whether what is placed of the gang, which is prepared, lies as close together as it and its sub gangs must."""
    if not gang.wants_closeness:
        return True
    tree, nodes = session.snapshot.tree, {sub.sub.key: _placed_nodes(session, sub) for sub in gang.subs}
    parts = [(gang.closeness, [node for own in nodes.values() for node in own])]
    parts += [(sub.closeness, nodes[sub.sub.key]) for sub in gang.subs]
    return all(
        wish is None or wish.tier is None or not own or tree.tier[tree.lowest_holding(own)] <= wish.tier
        for wish, own in parts
    )


def gradients(
    session: Session, subject: GangState | SubState, within: str, *, evicting: bool = False
) -> list[list[str]]:
    """Hyper nodes to try, in groups; without a plugin that knows better, the one that is given."""
    if subject.closeness is None or subject.closeness.tier is None:
        return [[within]]
    return session.points.gradient.of(subject, within, evicting=evicting)


def scores(session: Session, sub: SubState, hyper_nodes: Sequence[str]) -> dict[str, float]:
    total = dict.fromkeys(hyper_nodes, 0.0)
    for own in session.points.hyper_score.of(sub, hyper_nodes):
        for name, score in own.items():
            total[name] += score
    return total


def line(session: Session, gang: GangState, keys: Iterable[str]) -> Heap[SubState]:
    """Sub gangs in the order of their turns: first as many as each policy still needs, then by the plugins' order."""
    needed: set[str] = set()
    for index, policy in enumerate(gang.spec.policies):
        own = [sub for sub in gang.subs if sub.sub.policy == index]
        waiting = sorted((sub for sub in own if not session.sub_is_ready(sub)), key=session.sub_key)
        missing = policy.min_sub_groups - (len(own) - len(waiting))
        needed.update(sub.sub.key for sub in waiting[: max(missing, 0)])

    def before(left: SubState, right: SubState) -> bool:
        return (left.sub.key not in needed, session.sub_key(left)) < (
            right.sub.key not in needed,
            session.sub_key(right),
        )

    wanted = set(keys)
    return Heap(before, (sub for sub in gang.subs if sub.sub.key in wanted))


def room_for(session: Session, tasks: Iterable[Task], within: str, more: Column | None = None) -> Column:
    """At most how many of the tasks fit into what of each hyper node lies within the given one: a bound, by a pass over columns.

    `more` is room that evictions would add; then nodes count that eviction may open.
    """
    tree = session.snapshot.tree
    nodes = tree.nodes[within]
    free = session.room.future[:, nodes]
    open_to = session.placer.allowed
    if more is not None:
        free, open_to = free + more[:, nodes], session.placer.evictable
    total: Column = np.zeros(len(tree.names), dtype=np.int64)
    shapes = Counter(session.shape(task) for task in tasks)
    for request in dict.fromkeys(shape.request for shape in shapes):
        alike = [shape for shape in shapes if shape.request is request]
        allowed = np.logical_or.reduce([open_to(shape)[nodes] for shape in alike])
        copies = np.zeros((1, tree.node_count), dtype=np.int64)
        copies[0, nodes] = np.where(allowed, alike[0].copies(free), 0)
        total += np.minimum(tree.sums(copies)[0], sum(shapes[shape] for shape in alike))
    return total


# ------------------------------------------------------------------------------------------------- the search


def allocate_close(session: Session, gang: GangState, pending: PendingMembers) -> Statement | None:
    """The closest places that let the gang start, in a statement; what is left to place stays in `pending`."""
    obstacle = prepare(session, gang)
    if obstacle is not None:
        members.refuse(gang, obstacle)
        return None
    groups = gradients(session, gang, ROOT)
    if not groups:
        members.refuse(gang, session.points.gradient.why_none(gang))
        return None
    search = _Search(session, gang, pending)
    for group in groups:
        found = search.best_of(group)
        if found is not None:
            return search.carry_out(found)
    search.explain()
    return None


class _Trial(Mutable, eq=False):
    """What came of trying one hyper node."""

    hyper_node: str
    works: bool
    score: float
    there: int  # members that were in the hyper node before
    operations: list[Operation]
    placed: int
    pending: PendingMembers
    records: list[str]  # hyper nodes of the sub gangs
    fit_errors: dict[Task, FitError]


class _Search:
    """Tries hyper nodes for one gang, and remembers what was most hopeful."""

    def __init__(self, session: Session, gang: GangState, pending: PendingMembers) -> None:
        self.session = session
        self.gang = gang
        self.pending = pending
        self.tree = session.snapshot.tree
        self.least = session.shortfall(gang)
        self.room = room_for(session, [task for tasks in pending.waiting.values() for task in tasks], ROOT).tolist()
        self.roomiest: tuple[int, str] | None = None  # of those passed over unseen
        self.furthest: _Trial | None = None  # of those that failed, the one that placed most

    def best_of(self, group: Sequence[str]) -> _Trial | None:
        best: _Trial | None = None
        for name, at_most in self._promising(group):
            if (best is not None and at_most <= best.score) or not self.session.spend(1):
                break
            trial = self._try(name)
            if not trial.works:
                if self.furthest is None or trial.placed > self.furthest.placed:
                    self.furthest = trial
            elif best is None or (trial.score, trial.there) > (best.score, best.there):
                best = trial
        return best

    def _promising(self, group: Sequence[str]) -> list[tuple[str, float]]:
        """Hyper nodes with room for enough members, each with the best score that it could get, best first."""
        enough = [name for name in group if self._holds_enough(name)]
        if len(self.gang.subs) > 1 or len(enough) == 1:
            return [(name, np.inf) for name in enough]
        sub = self.gang.subs[0]
        below = {name: [each for each in self.tree.breadth_first(name) if self._holds_enough(each)] for name in enough}
        own = scores(self.session, sub, list(dict.fromkeys(each for names in below.values() for each in names)))
        best = {name: max(own[each] for each in names) for name, names in below.items()}
        enough.sort(key=lambda name: (-best[name], -self._there(name, [sub])))
        return [(name, best[name]) for name in enough]

    def _holds_enough(self, hyper_node: str) -> bool:
        room = self.room[self.tree.position[hyper_node]]
        if room < self.least and (self.roomiest is None or room > self.roomiest[0]):
            self.roomiest = (room, hyper_node)
        return bool(room >= self.least)

    def _there(self, hyper_node: str, subs: Sequence[SubState]) -> int:
        """How many members are in the hyper node already."""
        if not self.gang.tally.occupying:
            return 0
        nodes = [node for sub in subs for node in _placed_nodes(self.session, sub)]
        return int(np.count_nonzero(self.tree.mask(hyper_node)[nodes]))

    def _try(self, hyper_node: str, *, for_reasons: bool = False) -> _Trial:
        session, gang = self.session, self.gang
        gang.fit_errors.clear()
        gang.last_tries.clear()
        there = self._there(hyper_node, gang.subs)
        before = [sub.hyper_node for sub in gang.subs]
        pending = self.pending.copy()
        statement = session.statement()
        score = 0.0
        turns = line(session, gang, [key for key, tasks in pending.waiting.items() if tasks])
        while turns:
            sub = turns.pop()
            own = self._place_sub(statement, sub, pending, hyper_node, for_reasons=for_reasons)
            if own is None:
                pending.waiting[sub.sub.key] = []  # each is tried once
                continue
            score += own
            if pending.waiting[sub.sub.key]:
                turns.push(sub)
            if session.is_ready(gang):
                break
        works = bool(statement.operations) and (session.is_ready(gang) or session.is_pipelined(gang))
        operations, placements = list(statement.operations), statement.placements
        records = [sub.hyper_node for sub in gang.subs]
        statement.rollback(remember=True)
        for sub, record in zip(gang.subs, before, strict=True):
            sub.hyper_node = record
        placed = sum(len(each.tasks) for each in placements)
        return _Trial(hyper_node, works, score, there, operations, placed, pending, records, dict(gang.fit_errors))

    def _place_sub(
        self, statement: Statement, sub: SubState, pending: PendingMembers, within: str, *, for_reasons: bool
    ) -> float | None:
        """Place members of a sub gang in the best hyper node that takes enough of them: its score, or None."""
        session, tree, key = self.session, self.tree, sub.sub.key
        least = session.shortfall(sub)
        groups = gradients(session, sub, within)
        room = room_for(session, pending.waiting[key], within).tolist()
        if for_reasons:
            if not groups and self.furthest is not None:
                members.refuse(self.gang, session.points.gradient.why_none(sub))
            names = [name for group in groups for name in group] or [within]
            groups, least = [[max(names, key=lambda name: room[tree.position[name]])]], 0
        for group in groups:
            enough = [name for name in group if room[tree.position[name]] >= least]
            rated = scores(session, sub, enough)
            enough.sort(key=lambda name: (-rated[name], -self._there(name, [sub])))
            for name in enough:
                waiting = list(pending.waiting[key])
                if self._place_in(statement, sub, waiting, name):
                    pending.waiting[key] = waiting
                    sub.hyper_node = tree.common(sub.hyper_node, name)
                    return rated[name]
        return None

    def _place_in(self, statement: Statement, sub: SubState, waiting: list[Task], hyper_node: str) -> bool:
        """Place what the hyper node takes; True if that is enough, else nothing is left behind but reasons."""
        session, gang = self.session, self.gang
        for task in [each for each in gang.fit_errors if gang.sub_of(each) is sub]:
            del gang.fit_errors[task]  # what failed elsewhere says nothing about here
        mark = statement.checkpoint()
        where, shown = (None, "") if hyper_node == ROOT else (self.tree.mask(hyper_node), hyper_node)
        members.place_tasks(session, statement, sub, waiting, where, shown)
        if len(statement.operations) > mark and (session.sub_is_ready(sub) or session.sub_is_pipelined(sub)):
            return True
        statement.rollback(mark, remember=True)
        return False

    def carry_out(self, trial: _Trial) -> Statement:
        """Do a trial again, for good."""
        gang = self.gang
        gang.fit_errors.clear()
        gang.fit_errors.update(trial.fit_errors)
        gang.last_tries.clear()
        statement = self.session.statement()
        statement.replay(trial.operations)
        self.pending.waiting = trial.pending.waiting
        for sub, record in zip(gang.subs, trial.records, strict=True):
            sub.hyper_node = record
            gang.hyper_node = self.tree.common(gang.hyper_node, record)
        return statement

    def explain(self) -> None:
        """After nothing worked: what the most hopeful trial runs into, and how much room there is where there is most."""
        if self.furthest is not None:
            self._try(self.furthest.hyper_node, for_reasons=True)
        elif self.roomiest is not None:
            room, name = self.roomiest
            self._try(name, for_reasons=True)
            if name != ROOT:
                facts = Facts(hyper_node=name, free=room, wanted=self.least)
                members.refuse(self.gang, Reason(Code.HYPER_NODE_TOO_FULL, PLUGIN, facts, cure=Cure.EVICTION))

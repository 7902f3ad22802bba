"""Where k equal pods go: what a loop of "best node, place, look again" would decide, found in one operation.

Scores of a node's own load form a trajectory: its score with 0, 1, 2 ... such pods on it. A loop always takes the best head of
all trajectories. Two facts make that a sort: a node not yet touched keeps its first score, so only the k best first scores
matter; and once a node's j-th pod is taken, every later pod of it that scores no worse follows at once, so a pod's place in the
sequence is decided by the lowest score on its node up to it. Equal scores go to the earlier node, as in the loop.
"""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING

import numpy as np

from pumice.scheduling.core.codes import Code, Facts
from pumice.scheduling.core.verdict import Cure, Denial, FitError, Reason, count_reasons
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from pumice.cluster.columns import Column, Mask
    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.points import Indexes, Pull, Scores
    from pumice.scheduling.core.room import Room
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape

# Trajectories are computed for this many pods at a time: the matrix stays in the cache, and the result is the same.
BATCH_MAX = 256
# Shapes whose scores of load are remembered; each costs nine bytes a node.
LOADS_REMEMBERED_MAX = 64


class Pairs(Value, eq=False):
    """Nodes, each with a number of copies of the shape imagined on it; what scores of load look at."""

    room: Room
    demand: Column
    nodes: Indexes
    copies: Column
    pipelining: bool  # promised room is not used yet, but scores of kube-scheduler's kind see it

    def allocatable(self, row: int) -> Column:
        allocatable: Column = self.room.table.allocatable[row].take(self.nodes)
        return allocatable

    def used(self, row: int) -> Column:
        """What is used before the next copy comes."""
        used: Column = self.room.used[row].take(self.nodes)
        return used if self.pipelining else used + self.copies * self.demand[row]

    def viewed(self, row: int) -> Column:
        """The same as kube-scheduler sees it."""
        viewed: Column = self.room.viewed[row].take(self.nodes)
        return viewed + self.copies * self.demand[row] if self.demand[row] else viewed


class Places(Value):
    """Nodes for some of the pods that were asked for; pipelined ones wait for room that is being released."""

    nodes: Sequence[int]
    pipelined: bool


class Remembered:
    """Scores of the nodes' loads as they were when last asked for, a row a node; a node that has changed since is asked about again."""

    def __init__(self, nodes: int) -> None:
        self._rows: Scores = np.zeros(0)
        self._valid: Mask = np.zeros(nodes, dtype=bool)
        self._seen = 0  # how much of the journal of loads is accounted for

    def of(self, nodes: Indexes, changed: Sequence[int], find: Callable[[Indexes], Scores]) -> Scores:
        self._valid[changed[self._seen :]] = False
        self._seen = len(changed)
        unknown = nodes[~self._valid[nodes]]
        if len(unknown):
            found = self._find(unknown, find)
            if not len(self._rows):
                self._rows = np.zeros((len(self._valid), *found.shape[1:]))
            self._rows[unknown] = found
            self._valid[unknown] = True
        rows: Scores = self._rows[nodes]
        return rows

    def _find(self, unknown: Indexes, find: Callable[[Indexes], Scores]) -> Scores:
        return find(unknown)


class Loads:
    """A journal of nodes whose load has changed. Who takes the place of an equal pod changes nothing."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self.changed: list[int] = []
        self._seen = len(room.touched)
        self._used, self._viewed = room.used.copy(), room.viewed.copy()

    def follow(self, *, closely: bool) -> None:
        """`closely`: take every node that was touched for a changed one."""
        touched = self.room.touched[self._seen :]
        self._seen = len(self.room.touched)
        if touched and not closely:
            touched = self._with_another_load(list(set(touched)))
        self.changed += touched

    def _with_another_load(self, touched: list[int]) -> list[int]:
        # One column by its number, as when members are promised one by one: a third of what a list of one costs.
        nodes: Indexes | int = touched[0] if len(touched) == 1 else np.array(touched, dtype=np.intp)
        used, viewed = self.room.used[:, nodes], self.room.viewed[:, nodes]
        is_new = ((self._used[:, nodes] != used) | (self._viewed[:, nodes] != viewed)).any(axis=0)
        self._used[:, nodes], self._viewed[:, nodes] = used, viewed
        return [node for node, changed in zip(touched, np.atleast_1d(is_new).tolist(), strict=True) if changed]


class Placer:
    """Filters, scores and fills; knows nothing of gangs."""

    def __init__(self, session: Session) -> None:
        self.points = session.points
        self.room = session.room
        self._everywhere = np.ones(len(session.room.table), dtype=bool)
        self._loads: dict[Hashable, Remembered] = {}
        self._journal: Loads | None = None
        self._free_places: dict[Shape, tuple[int, int]] = {}  # as of so many touched nodes

    @contextlib.contextmanager
    def apart(self) -> Iterator[None]:
        """Inside, loads are scored that are not those of now, and are not remembered."""
        remembered, self._loads = (self._loads, self._journal), {}
        self._journal = None
        try:
            yield
        finally:
            self._loads, self._journal = remembered

    # ------------------------------------------------------------------------------------------------- filters

    def allowed(self, shape: Shape) -> Mask:
        """Nodes that no fixed filter refuses; asked once per shape and cycle."""
        if shape.allowed is None:
            shape.denials = [denial for denial in self.points.filter.of(shape) if denial.nodes.any()]
            allowed = self._everywhere.copy()
            for denial in shape.denials:
                allowed &= ~denial.nodes
            shape.allowed = allowed
        return shape.allowed

    def live_denials(self, shape: Shape) -> list[Denial]:
        """What is refused because of where pods are at this moment."""
        return self.points.limit.denials(shape) + self.points.live_filter.denials(shape)

    def is_live(self, shape: Shape) -> bool:
        """True where each placement may change what the next one may do."""
        return self.points.live_filter.is_restless(shape) or self.points.live_score.is_restless(shape)

    def prefilter(self, shape: Shape) -> Reason | None:
        return self.points.prefilter.of(shape)

    def feasible(self, shape: Shape, within: Mask | None) -> Mask:
        """Nodes on which one such pod could be placed now, or promised a place."""
        mask = self.allowed(shape) & shape.fits(self.room.future)
        if within is not None:
            mask &= within
        if mask.any():
            for denial in self.live_denials(shape):
                mask &= ~denial.nodes
        return mask

    def evictable(self, shape: Shape) -> Mask:
        """Nodes that are open, or that evictions could open; the others wait for something else."""
        self.allowed(shape)
        mask = self._everywhere.copy()
        limits = self.points.limit.denials(shape, besides=Cure.EVICTION)
        for denial in (*(shape.denials or ()), *limits, *self.points.live_filter.denials(shape)):
            if denial.cure is not Cure.EVICTION:
                mask &= ~denial.nodes
        return mask

    def conceivable(self, shape: Shape) -> Mask:
        """Nodes that could take such a pod some day as things are: nothing but time or room speaks against them."""
        self.allowed(shape)
        mask = self._everywhere.copy()
        for denial in shape.denials or ():
            if denial.cure is Cure.CHANGE:
                mask &= ~denial.nodes
        return mask

    def passes(self, shape: Shape, node: int) -> bool:
        """Whether every filter lets such a pod onto that node now; room is not looked at."""
        if not self.allowed(shape)[node] or self.points.limit.refuse(shape, node):
            return False
        return not any(denial.nodes[node] for denial in self.points.live_filter.denials(shape))

    # ------------------------------------------------------------------------------------------------- filling

    def fill(self, shape: Shape, count: int, within: Mask | None = None, task: Task | None = None) -> Places:
        """Nodes for up to `count` pods, best first; idle room before promised room, whatever the scores say."""
        feasible = self.feasible(shape, within)
        idle = feasible & shape.fits(self.room.idle)
        pipelined = not idle.any()
        candidates = np.flatnonzero(feasible if pipelined else idle)
        if not len(candidates):
            return Places((), pipelined=False)
        example = task or shape.example
        if count == 1 or self.is_live(shape):
            return Places((self._best(shape, example, candidates, pipelining=pipelined),), pipelined)
        return Places(self._batch(shape, min(count, BATCH_MAX), candidates, pipelining=pipelined), pipelined)

    def scores(self, shape: Shape, task: Task, nodes: Indexes, *, pipelining: bool = False) -> Scores:
        """The sum of all scores for one pod on each of the nodes."""
        total = np.zeros(len(nodes))
        for own in self.points.fixed_score.of(shape, nodes):
            total = total + own
        total = total + self._first_load(shape, nodes, pipelining=pipelining)
        for own in self.points.live_score.of(shape, task, nodes):
            total = total + own
        for pull in self.points.pull_score.of(shape, nodes):
            total = total + pull.scores
        return total

    def _best(self, shape: Shape, task: Task, candidates: Indexes, *, pipelining: bool) -> int:
        if len(candidates) == 1:
            return int(candidates[0])
        return int(candidates[np.argmax(self.scores(shape, task, candidates, pipelining=pipelining))])

    def _sum_fixed_scores(self, shape: Shape, nodes: Indexes) -> tuple[Scores, bool]:
        """The sum of fixed scores, and whether it differs between nodes (and so may change when a node drops out)."""
        total = np.zeros(len(nodes))
        differs = False
        for own in self.points.fixed_score.of(shape, nodes):
            total = total + own
            differs = differs or bool((own != own[0]).any())
        return total, differs

    def _first_load(self, shape: Shape, nodes: Indexes, *, pipelining: bool) -> Scores:
        """The load scores for one more such pod: what one placement changes is one node's score."""
        journal = self._follow_loads()

        def find(unknown: Indexes) -> Scores:
            return self._load(shape, unknown, np.zeros(len(unknown), dtype=np.int64), pipelining=pipelining)

        return self._remembered((shape, pipelining)).of(nodes, journal.changed, find)

    def _follow_loads(self) -> Loads:
        journal = self._journal = self._journal or Loads(self.room)
        journal.follow(closely=self.points.load_score.look_beyond())
        return journal

    def _remembered(self, key: Hashable) -> Remembered:
        memory = self._loads.pop(key, None) or self._new_memory(key)
        self._loads[key] = memory  # the newest last
        if len(self._loads) > LOADS_REMEMBERED_MAX:
            del self._loads[next(iter(self._loads))]
        return memory

    def _new_memory(self, key: Hashable) -> Remembered:
        del key
        return Remembered(len(self.room.table))

    def _load(self, shape: Shape, nodes: Indexes, copies: Column, *, pipelining: bool) -> Scores:
        pairs = Pairs(self.room, shape.demand, nodes, copies, pipelining)
        total = np.zeros(len(nodes))
        for own in self.points.load_score.of(shape, pairs):
            total = total + own
        return total

    def _path(self, shape: Shape, nodes: Indexes, depth: int, *, pipelining: bool) -> Scores:
        """The load scores of the nodes' first such pods, so many of each, one node after the other."""
        copies = np.tile(np.arange(depth), len(nodes))
        return self._load(shape, nodes.repeat(depth), copies, pipelining=pipelining)

    def _batch(self, shape: Shape, count: int, candidates: Indexes, *, pipelining: bool) -> list[int]:
        steady, differs = self._sum_fixed_scores(shape, candidates)
        fixed = steady
        pulls = self.points.pull_score.of(shape, candidates)
        for pull in pulls:
            fixed = fixed + pull.scores
        first = fixed + self._first_load(shape, candidates, pipelining=pipelining)
        top = _best_first(first, count)
        nodes, fixed = candidates[top], fixed[top]
        caps = np.minimum(self.copies(shape, nodes, pipelining=pipelining), count)
        depth = int(caps.max())
        scores = fixed.repeat(depth) + self._path(shape, nodes, depth, pipelining=pipelining)
        lowest = np.minimum.accumulate(scores.reshape(len(nodes), depth), axis=1)
        lowest[np.arange(depth)[None, :] >= caps[:, None]] = -np.inf
        # nodes is ordered by first score; equal scores must go to the earlier node, so rank by node index.
        copies = np.tile(np.arange(depth), len(nodes))
        sequence = np.lexsort((copies, nodes.repeat(depth), -lowest.ravel()))[: min(count, int(caps.sum()))]
        if differs:
            taken = sequence // depth
            sequence = sequence[: self._until_scores_change(shape, candidates, steady, top[taken], caps[taken])]
        for pull in pulls:
            sequence = sequence[: _until_pull_ends(pull, top[sequence // depth])]
            sequence = sequence[: _until_full(sequence // depth, caps, pull.spare)]
        return [int(node) for node in nodes[sequence // depth]]

    def _until_scores_change(
        self, shape: Shape, candidates: Indexes, fixed: Scores, sequence: Indexes, caps: Column
    ) -> int:
        """How many placements until a node is full without which the others score differently: some scores compare candidates."""
        left = np.ones(len(candidates), dtype=bool)
        taken: dict[int, int] = {}
        for number, (position, cap) in enumerate(zip(sequence.tolist(), caps.tolist(), strict=True), start=1):
            taken[position] = taken.get(position, 0) + 1
            if taken[position] == cap:
                left[position] = False
                if not left.any() or not np.array_equal(
                    self._sum_fixed_scores(shape, candidates[left])[0], fixed[left]
                ):
                    return number
        return len(sequence)

    def copies(self, shape: Shape, nodes: Indexes, *, pipelining: bool) -> Column:
        """How many such pods each of the nodes still takes, by its room and by what plugins limit."""
        copies = shape.copies(self.room.future[:, nodes])
        if not pipelining:
            copies = np.minimum(copies, shape.copies(self.room.idle[:, nodes]))
        return self.points.limit.apply(shape, nodes, copies)

    def free_places(self, shape: Shape) -> int:
        """For how many such pods there is room now, or will be; counted again only after something has moved. Not at a later moment."""
        moves = len(self.room.touched)
        known = self._free_places.get(shape)
        if known is None or known[0] != moves:
            free = int(shape.copies(self.room.future)[self.allowed(shape)].sum())
            known = self._free_places[shape] = (moves, free)
        return known[1]

    def limited_places(self, shape: Shape) -> tuple[int, tuple[Reason, ...]]:
        """The same as plugins limit it for the gang whose turn it is, and which limits keep it from more."""
        nodes = np.flatnonzero(self.allowed(shape) & shape.fits(self.room.future))
        free = shape.copies(self.room.future[:, nodes])
        columns = [(hook, hook.call.count(shape)) for hook in self.points.limit.hooks]
        limits = [(hook, column[nodes]) for hook, column in columns if column is not None]
        least = functools.reduce(np.minimum, [own for _, own in limits], free)
        reached = [hook for hook, own in limits if ((own <= least) & (least < free)).any()]
        reasons = [Reason(hook.call.code, hook.plugin, hook.call.facts, cure=hook.call.cure) for hook in reached]
        return int(least.sum()), tuple(reasons)

    # ------------------------------------------------------------------------------------------------- explaining

    def fit_error(self, shape: Shape, within: Mask | None, hyper_node: str = "") -> FitError:
        """Why no node takes such a pod: first the room that is short, then what filters say of nodes that have room."""
        among = self._everywhere if within is None else within
        axis = self.room.table.axis
        reasons = []
        short = np.zeros(len(self._everywhere), dtype=bool)
        for row in sorted(shape.rows, key=lambda row: (row > 1, axis.names[row])):
            lacking = among & ~short & (self.room.future[row] < shape.demand[row])
            if lacking.any():
                short |= lacking
                reasons += _shortage(self.room, shape, row, lacking)
        self.allowed(shape)
        denials = (*(shape.denials or ()), *self.live_denials(shape))
        reasons += count_reasons(denials, among & ~short)
        return FitError(tuple(reasons), int(np.count_nonzero(among)), hyper_node=hyper_node)


def _shortage(room: Room, shape: Shape, row: int, lacking: Mask) -> list[Reason]:
    """Nodes that are too full, and nodes that are too small even when empty: eviction helps only the first."""
    name = room.table.axis.names[row]
    hopeless = lacking & (room.table.allocatable[row] < shape.demand[row])
    reasons = []
    for nodes, cure in ((lacking & ~hopeless, Cure.EVICTION), (hopeless, Cure.CHANGE)):
        number = int(np.count_nonzero(nodes))
        if number:
            reasons.append(Reason(Code.INSUFFICIENT, "resources", Facts(resource=name), number, cure))
    return reasons


def _best_first(scores: Scores, count: int) -> Indexes:
    """Positions of the `count` best scores, best first; equal ones in their order."""
    if count * 4 < len(scores):
        least = -np.partition(-scores, count - 1)[count - 1]
        kept = np.flatnonzero(scores >= least)
        return kept[np.argsort(-scores[kept], kind="stable")][:count]
    return np.argsort(-scores, kind="stable")[:count]


def _until_full(sequence: Indexes, caps: Column, spare: int) -> int:
    """How many placements until so many nodes are full: then the candidates change, and scores that compare them."""
    taken: dict[int, int] = {}
    full = 0
    for number, position in enumerate(sequence.tolist(), start=1):
        taken[position] = taken.get(position, 0) + 1
        full += taken[position] == caps[position]
        if full >= spare:
            return number
    return len(sequence)


def _until_pull_ends(pull: Pull, sequence: Indexes) -> int:
    """How many placements stay in the first one's neighbourhood, as long as its scores last."""
    where = pull.neighbourhood[sequence]
    elsewhere = np.flatnonzero(where != where[0])
    stay = int(elsewhere[0]) if len(elsewhere) else len(sequence)
    return max(1, min(stay, int(pull.lasts[sequence[0]])))

"""network-topology-aware: keeps gangs within as few switches as they ask for, and leaves whole switches free for others.

For gangs that ask for closeness it says which hyper nodes to try, and draws members to where others of their sub gang are. For
all other pods it prefers hyper nodes that are in use already, closest tier first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import msgspec
import numpy as np

from pumice.cluster import amounts
from pumice.cluster.tasks import OCCUPYING, Status
from pumice.cluster.topology import ROOT
from pumice.scheduling.core import arguments
from pumice.scheduling.core.codes import Code, Facts, wanted_amounts
from pumice.scheduling.core.gangstate import GangState
from pumice.scheduling.core.plugin import Plugin
from pumice.scheduling.core.points import Pull
from pumice.scheduling.core.shapes import Reads
from pumice.scheduling.core.verdict import Cure, Reason
from pumice.values import once

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.cluster.amounts import Amounts
    from pumice.cluster.columns import Column, Mask
    from pumice.cluster.tasks import Task
    from pumice.cluster.topology import HyperTree
    from pumice.scheduling.core.gangstate import SubState
    from pumice.scheduling.core.plugin import Books
    from pumice.scheduling.core.points import Indexes, Scores
    from pumice.scheduling.core.policy import PluginOption
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape

NAME = "network-topology-aware"
FADING_DEFAULT = 0.8
FADING_MAX = 1000.0
# Higher tiers fade no further: their numbers are a user's, and a power of them may be no number any more.
FADED_MAX = 32
EVICT_MAX_DEFAULT = 8
FULL = 100.0  # the best score, before the weight
_FOR_EVER = np.iinfo(np.int64).max
_PLACED = OCCUPYING | {Status.PIPELINED}

Weight = Annotated[int, msgspec.Meta(description="weight of the score, or of one resource in it; negative: 1")]


class Args(arguments.Args, frozen=True, kw_only=True):
    """List the resources that matter (GPUs!): those not listed have no influence on which hyper node is chosen."""

    PREFIXES: ClassVar[Mapping[str, str]] = {
        "hypernode.binpack.resources.": "weight of one resource of `hypernode.binpack.resources`, 1"
    }
    NAMED: ClassVar[Any] = int

    weight: Weight = 1
    cpu: Weight = msgspec.field(name="hypernode.binpack.cpu", default=1)
    memory: Weight = msgspec.field(name="hypernode.binpack.memory", default=1)
    resources: Annotated[str, msgspec.Meta(description="further resources, separated by commas")] = msgspec.field(
        name="hypernode.binpack.resources", default=""
    )
    normal_pods: Annotated[
        bool, msgspec.Meta(description="whether pods that ask for no closeness fill hyper nodes in use first")
    ] = msgspec.field(name="hypernode.binpack.normal-pod.enable", default=True)
    fading: Annotated[
        float,
        msgspec.Meta(
            le=FADING_MAX, description="for those pods, how much less each higher tier counts; negative: the default"
        ),
    ] = msgspec.field(name="hypernode.binpack.normal-pod.fading", default=FADING_DEFAULT)
    in_use: Annotated[
        float,
        msgspec.Meta(
            ge=0,
            le=1,
            description="for those pods, the part of the score that a hyper node gets for being in use at all, in the weightiest resource that they ask for; the rest is how full it is",
        ),
    ] = msgspec.field(name="hypernode.binpack.normal-pod.in-use", default=0.0)
    evict_max: Annotated[
        int, msgspec.Meta(description="hyper nodes that evictions are considered in, per gang; below 1: the default")
    ] = msgspec.field(name="hypernode.gradient.evict.max-hypernodes", default=EVICT_MAX_DEFAULT)

    def weights(self) -> dict[str, int]:
        """Resource -> weight."""
        found = {"cpu": self.cpu, "memory": self.memory}
        for name in filter(None, (part.strip() for part in self.resources.split(","))):
            found[name] = self.named.get(f"hypernode.binpack.resources.{name}", 1)
        return {name: 1 if weight < 0 else weight for name, weight in found.items()}


class NetworkTopologyAware(Plugin):
    """Gradients by tier, scores of hyper nodes by how full they would be, scores of nodes by closeness."""

    args_type = Args
    stays_open = True

    def __init__(self, args: Args, option: PluginOption) -> None:
        del option
        self.weight = 1 if args.weight < 0 else args.weight
        self.weights = args.weights()
        self.normal_pods = args.normal_pods
        self.fading = args.fading if args.fading >= 0 else FADING_DEFAULT
        self.in_use = args.in_use
        self.evict_max = args.evict_max if args.evict_max > 0 else EVICT_MAX_DEFAULT

    def open(self, session: Session) -> None:
        self.session = session
        self.tree = session.snapshot.tree
        self.rooms = _Rooms(session)
        on = session.on
        on.gradient(self.gradient, why=self.why_none)
        on.declare(Reads.NOTHING, self._sub_that_wants_closeness, concerns=self._is_to_be_close)
        if self.tree.is_flat:
            return  # every hyper node is the root, and every node as close as any other
        self.load = _Load(session, self.weights, self.rooms.allocatable)
        self.draws: dict[str, _Draw] = {}
        on.moved(self.moved)
        if self.weight:
            on.hyper_score(self.hyper_scores)
            on.pull_score(self.pull)
            self.distances = _Distances(self.tree)
            self.gathering: _Gathering | None = None
            if self.normal_pods:
                self.gathering = _Gathering(self.load, scale=FULL * self.weight, fading=self.fading, in_use=self.in_use)

    def open_books(self, session: Session) -> Books | None:
        """Where every node is as close as any other."""
        return super().open_books(session) if self.tree.is_flat else None

    def _sub_that_wants_closeness(self, task: Task) -> str:
        """Members of different sub gangs are drawn to different places, so they are different shapes."""
        gang = self.session.gangs.get(task.gang)
        if gang is None:
            return ""
        sub = gang.sub_of(task)
        return sub.sub.key if sub.closeness is not None else ""

    def _is_to_be_close(self, task: Task) -> bool:
        gang = self.session.snapshot.gangs.get(task.gang)
        return gang is not None and gang.wants_closeness

    def moved(self, gang: GangState, shape: Shape, tasks: Sequence[Task], nodes: Sequence[int], sign: int) -> None:
        self.load.move(shape, nodes, sign)
        if gang.wants_closeness:
            for task, node in zip(tasks, nodes, strict=True):
                draw = self.draws.get(gang.sub_of(task).sub.key)
                if draw is not None:
                    draw.move(node, sign)

    # ------------------------------------------------------------------------------------------------- gradients

    def gradient(self, subject: GangState | SubState, within: str, *, evicting: bool) -> list[list[str]]:
        """Hyper nodes of the allowed tiers that could hold the minimum, lowest tier first; for eviction the widest first."""
        assert subject.closeness is not None
        limit = subject.closeness.tier
        assert limit is not None
        start = self._search_root(subject, within, limit)
        if start is None:
            return []
        names = [name for name in self.tree.breadth_first(start) if self.tree.tier[name] <= limit]
        if not subject.hyper_node:  # those that run already go where the others are, whatever their minimum
            fits = self._rooms(_minimum_of(subject), evicting=evicting)
            names = [name for name in names if fits is not None and fits[self.tree.position[name]]]
        groups: dict[int, list[str]] = {}
        for name in names:
            groups.setdefault(self.tree.tier[name], []).append(name)
        ordered = [groups[tier] for tier in sorted(groups)]
        return self._widest_first(ordered) if evicting else ordered

    def _search_root(self, subject: GangState | SubState, within: str, limit: int) -> str | None:
        """Where given room and the room around what is placed already overlap; None where they do not."""
        tree = self.tree
        if not subject.hyper_node:
            return within
        if tree.tier[subject.hyper_node] > limit:
            return None
        highest = subject.hyper_node
        for name in tree.ancestors(subject.hyper_node):
            if tree.tier[name] > limit:
                break
            highest = name
        if tree.covers(highest, within):
            return within
        return highest if tree.covers(within, highest) else None

    def why_none(self, subject: GangState | SubState) -> Reason:
        assert subject.closeness is not None
        where, limit = subject.hyper_node, subject.closeness.tier
        assert limit is not None
        if where:
            facts = Facts(hyper_node=where, own_tier=self.tree.tier[where], tier=limit)
            return Reason(Code.HYPER_NODE_FIXED, NAME, facts)
        is_gang = isinstance(subject, GangState)
        code = Code.NO_HYPER_NODE_FOR_GANG if is_gang else Code.NO_HYPER_NODE_FOR_SUB_GROUP
        return Reason(code, NAME, Facts(tier=limit, amounts=wanted_amounts(_minimum_of(subject))), cure=Cure.EVICTION)

    def _rooms(self, minimum: Amounts, *, evicting: bool) -> Mask | None:
        """By hyper node whether the minimum fits into what it had at the start of the cycle, or has at the later moment that is looked at;
        None: there is no such resource.
        """
        asked = {name: value for name, value in minimum.items() if value > 0}
        axis = self.session.room.table.axis
        if not all(name in axis.rows for name in asked):
            return None
        rows = [axis.rows[name] for name in asked]
        wanted = np.array(list(asked.values()))[:, None]
        fits: Mask
        if evicting:
            fits = np.all(self.rooms.allocatable[rows] >= wanted, axis=0)
        elif self.session.is_ahead:
            fits = np.all(self.tree.sums(self.session.room.future)[rows] >= wanted, axis=0)
        else:
            fits = np.all(self.rooms.idle[rows] >= wanted, axis=0) | np.all(self.rooms.future[rows] >= wanted, axis=0)
        return fits

    def _widest_first(self, groups: list[list[str]]) -> list[list[str]]:
        """At most so many hyper nodes: whole tiers while they fit, then the last ones of the next."""
        left, found = self.evict_max, []
        for group in reversed(groups):
            if left:
                found.append(group[-left:])
                left -= len(found[-1])
        return found

    # ------------------------------------------------------------------------------------------------- scores

    def hyper_scores(self, sub: SubState, hyper_nodes: Sequence[str]) -> dict[str, float]:
        """How full each hyper node would be with the whole sub gang in it; one that would overflow is worth nothing."""
        total: amounts.MutableAmounts = {}
        for task in sub.sub.tasks:
            amounts.add(total, task.request.amounts)
        positions = [self.tree.position[name] for name in hyper_nodes]
        fullness = self.load.fullness(self.session.room.table.axis.vector(total))[positions]
        return dict(zip(hyper_nodes, (fullness * FULL * self.weight).tolist(), strict=True))

    def pull(self, shape: Shape, nodes: Indexes) -> Pull | None:
        gang = self.session.gangs.get(shape.example.gang)
        sub = gang.sub_of(shape.example) if gang is not None else None
        if sub is not None and sub.closeness is not None:
            draw = self.draws.get(sub.sub.key)
            if draw is None:
                draw = self.draws[sub.sub.key] = _Draw(self.session, sub, self.distances, scale=FULL * self.weight)
            return draw.pull(nodes)
        return self.gathering.pull(shape, nodes) if self.gathering is not None else None


def _minimum_of(subject: GangState | SubState) -> Amounts:
    """A gang's minResources; what all waiting members of a sub gang ask for (Volcano parity: also those beyond its minimum)."""
    if isinstance(subject, GangState):
        return subject.spec.minimum or {}
    waiting = (task for task in subject.sub.tasks if subject.gang.status(task) is Status.PENDING)
    return amounts.sum_of(task.request.amounts for task in waiting)


class _Rooms:
    """What the hyper nodes had at the start of the cycle, in columns."""

    def __init__(self, session: Session) -> None:
        self._tree, self._table = session.snapshot.tree, session.room.table

    @once
    def allocatable(self) -> Column:
        return self._tree.sums(self._table.allocatable)

    @once
    def idle(self) -> Column:
        return self.allocatable - self._tree.sums(self._table.used)

    @once
    def future(self) -> Column:
        return self.idle + self._tree.sums(self._table.releasing)


class _Load:
    """What is used in each hyper node at this moment: promised places count, evicted pods do not."""

    def __init__(self, session: Session, weights: Mapping[str, int], allocatable: Column) -> None:
        axis, self.tree = session.room.table.axis, session.snapshot.tree
        self.weights = {axis.rows[name]: weight for name, weight in weights.items() if name in axis.rows}
        self.allocatable = allocatable
        self.used: Column = self.tree.sums(session.room.viewed)

    def move(self, shape: Shape, nodes: Sequence[int], sign: int) -> None:
        held = np.concatenate([self.tree.above[node] for node in nodes])
        self.used += shape.demand[:, None] * (np.bincount(held, minlength=len(self.tree.names)) * sign)

    def rows(self, demand: Column) -> list[int]:
        """The resources of the demand that have a weight."""
        return [row for row in self.weights if demand[row] > 0]

    def fullness(self, demand: Column) -> Scores:
        """For each hyper node the weighted mean share in use after the demand comes on top; 0 where it does not fit."""
        rows = self.rows(demand)
        weight = np.array([self.weights[row] for row in rows], dtype=np.float64)
        if not weight.sum():
            return np.zeros(len(self.tree.names))
        after = self.used[rows] + demand[rows, None]
        share = weight @ (after / np.maximum(self.allocatable[rows], 1)) / weight.sum()
        return np.where((after > self.allocatable[rows]).any(axis=0), 0.0, share)

    def is_used(self, demand: Column) -> Mask:
        """For each hyper node whether any of the weightiest resource of the demand is in use."""
        row = max(self.rows(demand), key=self.weights.__getitem__)
        used: Mask = self.used[row] > 0
        return used

    def copies(self, demand: Column) -> Column:
        """For each hyper node how many more times the demand fits; for ever where it does not fit any more."""
        rows = self.rows(demand)
        left = ((self.allocatable[rows] - self.used[rows]) // demand[rows, None]).min(axis=0)
        return np.where(left > 0, left, _FOR_EVER)


class _Gathering:
    """Pods that ask for nothing special fill hyper nodes in use, the lowest tiers counting most: whole ones are for gangs that come next.

    A placement only raises the score of the hyper nodes that it goes to, so those after it stay there until they are full.
    """

    def __init__(self, load: _Load, *, scale: float, fading: float, in_use: float) -> None:
        tree = load.tree
        self.load = load
        self.in_use = in_use
        self.tier_weights = [fading ** min(max(tier - 1, 0), FADED_MAX) for tier in tree.tiers]
        self.scale = scale / sum(self.tier_weights) if any(self.tier_weights) else 0.0

    def pull(self, shape: Shape, nodes: Indexes) -> Pull | None:
        tree, chains = self.load.tree, self.load.tree.chains[nodes]
        if (chains == chains[0]).all() or not self.load.rows(shape.demand):
            return None
        # A node that no hyper node of a tier holds is preferred there: it takes nothing from those who need closeness.
        fullness = np.append(self.load.fullness(shape.demand), 1.0)
        if self.in_use:
            used = np.append(self.load.is_used(shape.demand), True)
            fullness = (1.0 - self.in_use) * fullness + self.in_use * used
        copies = np.append(self.load.copies(shape.demand), _FOR_EVER)
        holders = tree.holders[:, nodes]
        scores = np.zeros(len(nodes))
        for weight, holder in zip(self.tier_weights, holders, strict=True):
            scores += weight * fullness[holder]
        return Pull(scores * self.scale, chains, copies[holders].min(axis=0), _FOR_EVER)


class _Distances:
    """How close each hyper node of the lowest tier is to a given hyper node."""

    def __init__(self, tree: HyperTree) -> None:
        self.tree = tree
        self._known: dict[str, tuple[Scores, Mask]] = {}

    def to(self, where: str) -> tuple[Scores, Mask]:
        """By leaf (the last entry is for nodes in no leaf): 1 closest, 0 related by the root alone; and whether it lies inside."""
        found = self._known.get(where)
        if found is None:
            tree = self.tree
            span = tree.root_tier - tree.lowest_tier
            closeness = np.zeros(len(tree.leaves) + 1)
            for name in reversed(tree.ancestors(where)):
                closeness[tree.leaves_below[name]] = (tree.root_tier - tree.tier[name]) / span
            inside = np.zeros(len(tree.leaves) + 1, dtype=bool)
            inside[tree.leaves_below[where]] = True
            found = self._known[where] = closeness, inside
        return found


class _Draw:
    """Members of one sub gang are drawn to hyper nodes of the lowest tier, the closer to where the others are the more."""

    def __init__(self, session: Session, sub: SubState, distances: _Distances, *, scale: float) -> None:
        self.tree = session.snapshot.tree
        self.sub = sub
        self.distances = distances
        self.scale = scale
        self.placed = np.zeros(len(self.tree.leaves) + 1, dtype=np.int64)  # by leaf; last: in none
        tasks = [task for task in sub.sub.tasks if sub.gang.status(task) in _PLACED]
        for _, node in session.on_nodes(tasks):
            self.move(node, 1)

    def move(self, node: int, sign: int) -> None:
        self.placed[self.tree.leaf_of[node]] += sign

    def where(self) -> str:
        """The hyper node that covers all that is placed; empty at first."""
        found = self.sub.hyper_node
        for leaf in np.flatnonzero(self.placed[:-1]).tolist():
            found = self.tree.common(found, self.tree.leaves[leaf])
            if found == ROOT:
                break
        return found

    def pull(self, nodes: Indexes) -> Pull | None:
        leaf = self.tree.leaf_of[nodes]
        if (leaf == leaf[0]).all():
            return None
        where = self.where()
        if not where:
            return Pull(np.zeros(len(nodes)), leaf, np.ones(len(nodes), dtype=np.int64), 1)
        closeness, inside = self.distances.to(where)
        own = closeness[leaf]
        best = own == own.max()
        several = int(np.count_nonzero(best))
        if several > 1:
            own = own + np.where(best & (leaf >= 0), self.placed[leaf] / len(self.sub.sub.tasks), 0.0)
        return Pull(own * self.scale, leaf, np.where(inside[leaf], _FOR_EVER, 1), max(several - 1, 1))

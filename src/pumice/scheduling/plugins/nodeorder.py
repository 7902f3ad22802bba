"""nodeorder: kube-scheduler's scores, each from 0 to 100 and in its integer arithmetic, times a weight."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np

from pumice.api import apps, core, names
from pumice.cluster import amounts
from pumice.cluster.columns import CPU_ROW, MEMORY_ROW, SCORED_CPU_ROW, SCORED_MEMORY_ROW
from pumice.cluster.matching import compile_term
from pumice.digits import whole_number
from pumice.scheduling.core import arguments
from pumice.scheduling.core.plugin import Plugin, Watch
from pumice.scheduling.core.points import Pull
from pumice.scheduling.core.shapes import Reads
from pumice.scheduling.placing.constraints.affinity import PodAffinity
from pumice.scheduling.placing.constraints.images import NodeImages
from pumice.scheduling.placing.constraints.labels import NodeLabels
from pumice.scheduling.placing.constraints.spread import Defaults, PodSpread
from pumice.scheduling.placing.constraints.taints import NodeTaints
from pumice.scheduling.placing.placement import BATCH_MAX
from pumice.values import once

if TYPE_CHECKING:
    from pumice.cluster.columns import Column, NodeTable
    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.points import Indexes, Scores
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape
    from pumice.scheduling.placing.placement import Pairs

BEST = 100
GPU = "nvidia.com/gpu"
MEGABYTE = 1024 * 1024
IMAGE_BYTES_MIN = 23 * MEGABYTE  # smaller images are pulled so fast that they do not matter
IMAGE_BYTES_MAX = 1000 * MEGABYTE  # of one container; larger ones weigh no more

Weight = Annotated[int, msgspec.Meta(description="weight of the score; 0 turns it off")]


def _weight(name: str, default: int) -> Any:
    return msgspec.field(name=f"{name}.weight", default=default)


class Args(arguments.Args, frozen=True, kw_only=True):
    """The weights; their defaults spread pods and hardly help packing."""

    least_requested: Weight = _weight("leastrequested", 1)
    most_requested: Weight = _weight("mostrequested", 0)
    node_affinity: Weight = _weight("nodeaffinity", 2)
    pod_affinity: Weight = _weight("podaffinity", 2)
    balanced: Weight = _weight("balancedresource", 1)
    taints: Weight = _weight("tainttoleration", 3)
    images: Weight = _weight("imagelocality", 1)
    spread: Weight = _weight("podtopologyspread", 2)


class NodeOrder(Plugin):
    """The sum of the weighted scores. A score that does not concern a pod adds nothing to any node."""

    args_type = Args
    args: Args
    stays_open = True
    watches = tuple(
        Watch(kind)
        for kind in (core.Namespace, core.Service, apps.ReplicaSet, apps.StatefulSet, apps.ReplicationController)
    )

    def open(self, session: Session) -> None:
        self.gpu_row = session.room.table.axis.rows.get(GPU)
        self.table, self.kept = session.room.table, session.snapshot.kept
        self.labels = session.shared(NodeLabels)
        self.taints = session.shared(NodeTaints)
        self.images = session.shared(NodeImages)
        weights, on = self.args, session.on
        reads = Reads.NOTHING
        if weights.least_requested or weights.most_requested or weights.balanced:
            on.load_score(self.load, looks_beyond=lambda: False)
        if weights.node_affinity:
            reads |= Reads.NODE_AFFINITY
            on.fixed_score(self.preferred_nodes)
        if weights.taints:
            reads |= Reads.TOLERATIONS
            on.fixed_score(self.disliked_taints)
        if weights.images:
            reads |= Reads.IMAGES
            on.fixed_score(self.images_at_hand)
        if weights.pod_affinity:
            self.affinity = session.shared(PodAffinity)
            on.fixed_score(self.steady_company)
            on.pull_score(self.gathering)
            on.live_score(self.company, concerns=self._is_restless_company)
        if weights.spread:
            reads |= Reads.NODE_AFFINITY | Reads.TOLERATIONS
            self.spread = session.shared(PodSpread)
            self.spread.defaults = session.shared(Defaults)
            on.fixed_score(self.steady_spread)
            on.live_score(self.evenness, concerns=self.spread.changes_itself)
        on.declare(reads)

    @once
    def capacity(self) -> Column:
        return self.kept(real_capacity, self.table.allocatable, lambda: real_capacity(self.table))

    # ------------------------------------------------------------------------------------------------- load

    def load(self, shape: Shape, pairs: Pairs) -> Scores:
        weights = self.args
        total = np.zeros(len(pairs.nodes), dtype=np.int64)
        if weights.least_requested or weights.most_requested:
            total += self._request_score(shape, pairs)
        if weights.balanced:
            balanced = self._balance_score(shape, pairs)
            if balanced is not None:
                total += weights.balanced * balanced
        return total.astype(np.float64)

    def _request_score(self, shape: Shape, pairs: Pairs) -> Column:
        """Room left over after the pod, or room used with it: the mean over cpu and memory, rounded down each time."""
        weights = self.args
        least = np.zeros(len(pairs.nodes), dtype=np.int64)
        most = np.zeros_like(least)
        counted = np.zeros_like(least)
        for row, scored_row in ((CPU_ROW, SCORED_CPU_ROW), (MEMORY_ROW, SCORED_MEMORY_ROW)):
            capacity = self.capacity[row].take(pairs.nodes)
            counted += capacity > 0
            used = np.minimum(pairs.viewed(scored_row) + shape.demand[scored_row], capacity)
            if weights.least_requested:
                least += _percent(capacity - used, capacity)
            if weights.most_requested:
                most += _percent(used, capacity)
        if bool((counted == 2).all()):
            least >>= 1
            most >>= 1
        else:
            least //= np.maximum(counted, 1)
            most //= np.maximum(counted, 1)
        total: Column = weights.least_requested * least
        return total + weights.most_requested * most if weights.most_requested else total

    def _balance_score(self, shape: Shape, pairs: Pairs) -> Column | None:
        """How evenly the node's resources are used with the pod, against without it; about 75 where nothing changes."""
        rows = [CPU_ROW, MEMORY_ROW]
        if self.gpu_row is not None and shape.demand[self.gpu_row]:
            rows.append(self.gpu_row)
        if not any(shape.demand[row] for row in rows):
            return None
        capacities = [self.capacity[row].take(pairs.nodes) for row in rows]
        used = [pairs.viewed(row) for row in rows]
        before = _evenness(used, capacities)
        after = _evenness([own + shape.demand[row] for own, row in zip(used, rows, strict=True)], capacities)
        balanced: Column = 50 + (50 + after - before) // 2
        return balanced

    # ------------------------------------------------------------------------------------------------- preferences

    def preferred_nodes(self, shape: Shape, nodes: Indexes) -> Scores | None:
        affinity = shape.example.pod.spec.affinity
        preferred = (
            affinity.node_affinity.preferred if affinity is not None and affinity.node_affinity is not None else ()
        )
        if not preferred:
            return None
        total = np.zeros(len(nodes), dtype=np.int64)
        for term in preferred:
            total += term.weight * self.labels.selected(compile_term(term.preference))[nodes]
        best = int(total.max(initial=0))
        return None if not best else (self.args.node_affinity * (BEST * total // best)).astype(np.float64)

    def disliked_taints(self, shape: Shape, nodes: Indexes) -> Scores | None:
        everywhere = self.taints.disliked(shape.example.pod.spec.tolerations)
        if everywhere is None:
            return None
        disliked = everywhere[nodes]
        worst = int(disliked.max(initial=0))
        return None if not worst else (self.args.taints * (BEST - BEST * disliked // worst)).astype(np.float64)

    def images_at_hand(self, shape: Shape, nodes: Indexes) -> Scores | None:
        spec = shape.example.pod.spec
        containers = (*spec.init_containers, *spec.containers)
        at_hand = self.images.bytes_at_hand([container.image for container in containers])
        if at_hand is None:
            return None
        largest = IMAGE_BYTES_MAX * len(containers)
        counted = np.clip(at_hand[nodes], IMAGE_BYTES_MIN, largest) - IMAGE_BYTES_MIN
        return (self.args.images * (BEST * counted // (largest - IMAGE_BYTES_MIN))).astype(np.float64)

    # ------------------------------------------------------------------------------------------------- neighbours

    def steady_company(self, shape: Shape, nodes: Indexes) -> Scores | None:
        return None if self.affinity.prefers_itself(shape) else self._company(shape, nodes)

    def gathering(self, shape: Shape, nodes: Indexes) -> Pull | None:
        """Pods that draw one another to a place: where nodes of a place are alike, the next ones need not be asked again."""
        if not self.affinity.gathers(shape):
            return None
        scores, where, alike = self.affinity.gathering(shape, nodes, BEST)
        weighed = (self.args.pod_affinity * scores).astype(np.float64)
        return Pull(weighed, where, np.full(len(nodes), BATCH_MAX if alike else 1), spare=len(nodes) + 1)

    def _is_restless_company(self, shape: Shape) -> bool:
        return self.affinity.prefers_itself(shape) and not self.affinity.gathers(shape)

    def company(self, shape: Shape, task: Task, nodes: Indexes) -> Scores | None:
        del task
        return self._company(shape, nodes)

    def _company(self, shape: Shape, nodes: Indexes) -> Scores | None:
        score = self.affinity.score(shape, nodes, BEST) if self.affinity.has_preferences(shape) else None
        return None if score is None else (self.args.pod_affinity * score).astype(np.float64)

    def steady_spread(self, shape: Shape, nodes: Indexes) -> Scores | None:
        return None if self.spread.changes_itself(shape) else self._spread_score(shape, nodes)

    def evenness(self, shape: Shape, task: Task, nodes: Indexes) -> Scores | None:
        del task
        return self._spread_score(shape, nodes)

    def _spread_score(self, shape: Shape, nodes: Indexes) -> Scores | None:
        score = self.spread.score(shape, nodes, BEST)
        return None if score is None else (self.args.spread * score).astype(np.float64)


def real_capacity(table: NodeTable) -> Column:
    """What nodes have by their own word: scores do not look at what is oversold on top of it."""
    capacity = table.allocatable.copy()
    for annotation, row in ((names.OVERSUBSCRIPTION_CPU, CPU_ROW), (names.OVERSUBSCRIPTION_MEMORY, MEMORY_ROW)):
        for index, node in enumerate(table.objects):
            oversold = whole_number(node.metadata.annotations.get(annotation, ""), most=amounts.OFFERED_MAX)
            capacity[row, index] -= oversold or 0
    return capacity


def _percent(part: Column, whole: Column) -> Column:
    """`part * 100 // whole`; of nothing there is no part.

    Dividing integers is ten times slower. Below 2**46 a quotient of at most 100 is farther from the next integer than its
    rounding error, so a float finds the same.
    """
    divisor = np.maximum(whole, 1)
    if divisor.max(initial=1) < 2**46:
        return (part * BEST / divisor).astype(np.int64)
    return part * BEST // divisor


def _evenness(used: list[Column], capacities: list[Column]) -> Column:
    """100 where all resources are used to the same degree, less the farther apart they are; a node may lack some of them."""
    there = [capacity > 0 for capacity in capacities]
    if all(bool(each.all()) for each in there):
        shares = [np.minimum(own / capacity, 1.0) for own, capacity in zip(used, capacities, strict=True)]
        apart = abs(shares[0] - shares[1]) / 2 if len(shares) == 2 else _deviation(shares)
    else:
        apart = np.zeros(len(used[0]))
        for present in range(1, 2 ** len(there)):
            chosen = [row for row in range(len(there)) if present >> row & 1]
            nodes = np.logical_and.reduce([each if row in chosen else ~each for row, each in enumerate(there)])
            if len(chosen) > 1 and nodes.any():
                shares = [np.minimum(used[row][nodes] / capacities[row][nodes], 1.0) for row in chosen]
                apart[nodes] = abs(shares[0] - shares[1]) / 2 if len(shares) == 2 else _deviation(shares)
    evenness: Column = ((1 - apart) * BEST).astype(np.int64)
    return evenness


def _deviation(shares: list[Scores]) -> Scores:
    """The population's standard deviation, added up in kube-scheduler's order."""
    total = shares[0]
    for share in shares[1:]:
        total = total + share
    mean = total / len(shares)
    squares = np.zeros_like(mean)
    for share in shares:
        distance = share - mean
        squares += distance * distance
    deviation: Scores = np.sqrt(squares / len(shares))
    return deviation

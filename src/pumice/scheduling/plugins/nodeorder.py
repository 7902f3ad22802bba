"""nodeorder: kube-scheduler's scores, each from 0 to 100 and in its integer arithmetic, times a weight."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np

from pumice.api import names
from pumice.cluster.columns import CPU_ROW, MEMORY_ROW, SCORED_CPU_ROW, SCORED_MEMORY_ROW
from pumice.cluster.matching import compiled_term
from pumice.scheduling import arguments
from pumice.scheduling.constraints.affinity import PodAffinity
from pumice.scheduling.constraints.images import NodeImages
from pumice.scheduling.constraints.labels import NodeLabels
from pumice.scheduling.constraints.spread import Defaults, PodSpread
from pumice.scheduling.constraints.taints import NodeTaints
from pumice.scheduling.shapes import Reads

if TYPE_CHECKING:
    from pumice.cluster.columns import Column
    from pumice.cluster.tasks import Task
    from pumice.scheduling.placement import Pairs
    from pumice.scheduling.points import Indexes, Scores
    from pumice.scheduling.policy import PluginOption
    from pumice.scheduling.session import Session
    from pumice.scheduling.shapes import Shape

BEST = 100
GPU = "nvidia.com/gpu"
MEGABYTE = 1024 * 1024
IMAGE_BYTES_MIN = 23 * MEGABYTE  # smaller images are pulled before anybody notices
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


class NodeOrder:
    """The sum of the weighted scores. A score that does not concern a pod adds nothing to any node."""

    args_type = Args

    def __init__(self, args: Args, option: PluginOption) -> None:
        del option
        self.weights = args

    def open(self, session: Session) -> None:
        self.gpu_row = session.room.table.axis.rows.get(GPU)
        self.capacity = real_capacity(session)
        self.labels = session.shared(NodeLabels)
        self.taints = session.shared(NodeTaints)
        self.images = session.shared(NodeImages)
        weights, on = self.weights, session.on
        reads = Reads.NOTHING
        if weights.least_requested or weights.most_requested or weights.balanced:
            on.load_score(self.load)
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
            on.live_score(self.company, concerns=self.affinity.prefers_itself)
        if weights.spread:
            reads |= Reads.NODE_AFFINITY | Reads.TOLERATIONS
            self.spread = session.shared(PodSpread)
            self.spread.defaults = session.shared(Defaults)
            on.fixed_score(self.steady_spread)
            on.live_score(self.evenness, concerns=self.spread.changes_itself)
        on.declare(reads)

    # ------------------------------------------------------------------------------------------------- load

    def load(self, shape: Shape, pairs: Pairs) -> Scores:
        weights = self.weights
        total = np.zeros(len(pairs.nodes), dtype=np.int64)
        if weights.least_requested or weights.most_requested:
            total += self._requested(shape, pairs)
        if weights.balanced:
            balanced = self._balanced(shape, pairs)
            if balanced is not None:
                total += weights.balanced * balanced
        return total.astype(np.float64)

    def _requested(self, shape: Shape, pairs: Pairs) -> Column:
        """Room left over after the pod, or room used with it: the mean over cpu and memory, rounded down each time."""
        least = np.zeros(len(pairs.nodes), dtype=np.int64)
        most = np.zeros_like(least)
        counted = np.zeros_like(least)
        for row, scored_row in ((CPU_ROW, SCORED_CPU_ROW), (MEMORY_ROW, SCORED_MEMORY_ROW)):
            capacity = self.capacity[row, pairs.nodes]
            there = capacity > 0
            counted += there
            divisor = np.maximum(capacity, 1)
            used = np.minimum(pairs.viewed(scored_row) + shape.demand[scored_row], capacity)
            if self.weights.least_requested:
                least += np.where(there, (capacity - used) * BEST // divisor, 0)
            if self.weights.most_requested:
                most += np.where(there, used * BEST // divisor, 0)
        counted = np.maximum(counted, 1)
        total: Column = self.weights.least_requested * (least // counted) + self.weights.most_requested * (
            most // counted
        )
        return total

    def _balanced(self, shape: Shape, pairs: Pairs) -> Column | None:
        """How evenly the node's resources are used with the pod, against without it; about 75 where nothing changes."""
        rows = [CPU_ROW, MEMORY_ROW]
        if self.gpu_row is not None and shape.demand[self.gpu_row]:
            rows.append(self.gpu_row)
        if not shape.demand[rows].any():
            return None
        capacity = self.capacity[rows][:, pairs.nodes]
        used = np.stack([pairs.viewed(row) for row in rows])
        before = _evenness(used, capacity)
        after = _evenness(used + shape.demand[rows][:, None], capacity)
        balanced: Column = 50 + (50 + after - before) // 2
        return balanced

    # ------------------------------------------------------------------------------------------------- preferences

    def preferred_nodes(self, shape: Shape, nodes: Indexes) -> Scores | None:
        affinity = shape.example.pod.spec.affinity
        preferred = (
            affinity.node_affinity.preferred if affinity is not None and affinity.node_affinity is not None else ()
        )
        total = np.zeros(len(nodes), dtype=np.int64)
        for term in preferred:
            total += term.weight * self.labels.selected(compiled_term(term.preference))[nodes]
        best = int(total.max(initial=0))
        return None if not best else (self.weights.node_affinity * (BEST * total // best)).astype(np.float64)

    def disliked_taints(self, shape: Shape, nodes: Indexes) -> Scores | None:
        disliked = self.taints.disliked(shape.example.pod.spec.tolerations)[nodes]
        worst = int(disliked.max(initial=0))
        return None if not worst else (self.weights.taints * (BEST - BEST * disliked // worst)).astype(np.float64)

    def images_at_hand(self, shape: Shape, nodes: Indexes) -> Scores | None:
        spec = shape.example.pod.spec
        containers = (*spec.init_containers, *spec.containers)
        at_hand = self.images.bytes_at_hand([container.image for container in containers])
        if at_hand is None:
            return None
        largest = IMAGE_BYTES_MAX * len(containers)
        counted = np.clip(at_hand[nodes], IMAGE_BYTES_MIN, largest) - IMAGE_BYTES_MIN
        return (self.weights.images * (BEST * counted // (largest - IMAGE_BYTES_MIN))).astype(np.float64)

    # ------------------------------------------------------------------------------------------------- neighbours

    def steady_company(self, shape: Shape, nodes: Indexes) -> Scores | None:
        return None if self.affinity.prefers_itself(shape) else self._company(shape, nodes)

    def company(self, shape: Shape, task: Task, nodes: Indexes) -> Scores | None:
        del task
        return self._company(shape, nodes)

    def _company(self, shape: Shape, nodes: Indexes) -> Scores | None:
        score = self.affinity.score(shape, nodes, BEST) if self.affinity.has_preferences(shape) else None
        return None if score is None else (self.weights.pod_affinity * score).astype(np.float64)

    def steady_spread(self, shape: Shape, nodes: Indexes) -> Scores | None:
        return None if self.spread.changes_itself(shape) else self._spread(shape, nodes)

    def evenness(self, shape: Shape, task: Task, nodes: Indexes) -> Scores | None:
        del task
        return self._spread(shape, nodes)

    def _spread(self, shape: Shape, nodes: Indexes) -> Scores | None:
        score = self.spread.score(shape, nodes, BEST)
        return None if score is None else (self.weights.spread * score).astype(np.float64)


def real_capacity(session: Session) -> Column:
    """What nodes have by their own word: scores do not look at what is oversold on top of it."""
    table = session.room.table
    capacity = table.allocatable
    sold = (names.OVERSUBSCRIPTION_CPU, CPU_ROW), (names.OVERSUBSCRIPTION_MEMORY, MEMORY_ROW)
    for index, node in enumerate(table.objects):
        annotations = node.metadata.annotations
        if names.OVERSUBSCRIPTION_CPU in annotations or names.OVERSUBSCRIPTION_MEMORY in annotations:
            if capacity is table.allocatable:
                capacity = capacity.copy()
            for annotation, row in sold:
                oversold = annotations.get(annotation, "")
                if oversold.isascii() and oversold.isdigit():
                    capacity[row, index] -= int(oversold)
    return capacity


def _evenness(used: Column, capacity: Column) -> Column:
    """100 where all resources are used to the same degree, less the farther apart they are."""
    there = capacity > 0
    shares = np.where(there, np.minimum(used / np.maximum(capacity, 1), 1.0), 0.0)
    counted = there.sum(axis=0)
    if len(shares) > 2:
        divisor = np.maximum(counted, 1)
        mean = shares.sum(axis=0) / divisor
        distances = np.where(there, (shares - mean) ** 2, 0.0).sum(axis=0)
        apart = np.sqrt(distances / divisor)
    else:
        apart = np.zeros(used.shape[1])
    # Of two resources it is half their difference, also where there could be three.
    low = np.where(there, shares, np.inf).min(axis=0)
    apart = np.where(counted == 2, (shares.max(axis=0) - low) / 2, np.where(counted > 2, apart, 0.0))
    evenness: Column = ((1 - apart) * BEST).astype(np.int64)
    return evenness

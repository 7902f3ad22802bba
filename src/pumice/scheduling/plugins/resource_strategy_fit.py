"""resource-strategy-fit: packs some resources and spreads others, and keeps ordinary pods away from what is scarce.

resources    each resource by its own strategy: GPUs packed (MostAllocated), cpu spread (LeastAllocated)
sra          scarce resource avoidance: pods prefer nodes that own fewer of the scarce resources
proportional pods that ask for none of the scarce resources leave, beside each one idle, so much cpu and memory for it
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
import numpy as np

from pumice.api import names
from pumice.api.decoding import UNREADABLE
from pumice.cluster.columns import CPU_ROW, MEMORY_ROW
from pumice.scheduling.core import arguments
from pumice.scheduling.core.codes import Code, Facts
from pumice.scheduling.core.plugin import Plugin
from pumice.scheduling.core.shapes import Reads
from pumice.scheduling.core.verdict import Cure
from pumice.values import once

if TYPE_CHECKING:
    from pumice.cluster.columns import Column
    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.points import Indexes, Scores
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape
    from pumice.scheduling.placing.placement import Pairs

SCORE_MAX = 100.0
MEMORY_UNIT = 10**6  # bytes for each thousandth of a scarce resource: a ratio of 8 is 8 GB a card
UNBOUNDED = np.iinfo(np.int64).max

Allocation = Literal["LeastAllocated", "MostAllocated"]
Ratio = Annotated[float, msgspec.Meta(ge=0)]
Weight = Annotated[int, msgspec.Meta(ge=0)]


class Strategy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: Allocation = "LeastAllocated"
    weight: int = 1

    @property
    def counted(self) -> int:
        """A weight of nothing, or less, counts as one (Volcano parity)."""
        return self.weight if self.weight > 0 else 1


class Sra(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Resources, or prefixes that end in `*`: all that begin so count as one."""

    enable: bool = False
    resources: str = ""
    weight: Weight = 0
    resource_weight: Mapping[str, Weight] = {}

    def weights(self) -> dict[str, int]:
        return {name: self.resource_weight.get(name, 1) for name in _split_list(self.resources)}


class Proportional(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    enable: bool = False
    resources: str = ""
    resource_proportion: Mapping[str, Ratio] = {}

    def ratios(self) -> dict[str, tuple[float, float]]:
        """Scarce resource -> cpus and gigabytes to keep for each idle one."""
        proportion = self.resource_proportion
        return {
            name: (proportion.get(f"{name}.cpu", 1.0), proportion.get(f"{name}.memory", 1.0))
            for name in _split_list(self.resources)
        }


def _is_named(resource: str, name: str) -> bool:
    """Whether a name, or a prefix that ends in `*`, means the resource."""
    return resource.startswith(name[:-1]) if name.endswith("*") else resource == name


def _split_list(text: str) -> list[str]:
    return [part for part in (each.strip() for each in text.split(",")) if part]


def _default_strategies() -> dict[str, Strategy]:
    return {"cpu": Strategy(), "memory": Strategy()}


class Args(arguments.Args, frozen=True, kw_only=True):
    weight: Annotated[Weight, msgspec.Meta(description="weight of the score; 0 switches it off")] = msgspec.field(
        name="resourceStrategyFitWeight", default=10
    )
    resources: Annotated[
        Mapping[str, Strategy],
        msgspec.Meta(description="strategy and weight by resource, or by a prefix that ends in `*`"),
    ] = msgspec.field(default_factory=_default_strategies)
    sra: Annotated[Sra, msgspec.Meta(description="scarce resource avoidance")] = Sra()
    proportional: Annotated[Proportional, msgspec.Meta(description="cpu and memory kept for idle scarce resources")] = (
        Proportional()
    )

    def __post_init__(self) -> None:
        if "*" in self.resources:
            raise ValueError("resources: * alone names every resource; write a longer prefix, such as nvidia.com/*")


class ResourceStrategyFit(Plugin):
    """Score: the weighted mean of used or free shares after placement, each resource by its strategy."""

    args_type = Args
    args: Args
    stays_open = True

    def open(self, session: Session) -> None:
        self.session = session
        self.axis = session.room.table.axis
        # The cache belongs to this cycle's plugin: one of the class would keep the plugin.
        self._by_known_name = functools.cache(self._by_name)
        self._strategies: dict[tuple[str, str], dict[str, Strategy] | None] = {}
        self._scarce: dict[tuple[int, ...], Scores] = {}  # of all nodes, by the resources that a pod asks for
        on = session.on
        on.declare(Reads.NOTHING, own_choice, lasts=True)
        if self.args.weight:
            on.load_score(self.score, looks_beyond=lambda: False)
        sra, proportional = self.args.sra, self.args.proportional
        if sra.enable and sra.weight:
            on.fixed_score(self.avoid_scarce)
        if proportional.enable:
            for name, ratios in proportional.ratios().items():
                count = functools.partial(self.spare, name=name, ratios=ratios)
                on.limit(count, code=Code.PROPORTION, cure=Cure.WAITING, facts=Facts(resource=name))

    # ------------------------------------------------------------------------------------------------- strategies

    def strategy(self, shape: Shape, resource: str) -> Strategy | None:
        """The pod's own choice, else the policy's: the exact name before the longest prefix."""
        choice = own_choice(shape.example)
        if choice[0]:
            if choice not in self._strategies:
                self._strategies[choice] = _read_choice(*choice)
            return (self._strategies[choice] or {}).get(resource)
        return self._by_known_name(resource)

    def _by_name(self, resource: str) -> Strategy | None:
        known = self.args.resources
        if resource in known:
            return known[resource]
        prefixes = [key for key in known if key.endswith("*") and resource.startswith(key[:-1])]
        return known[max(prefixes, key=len)] if prefixes else None

    def score(self, shape: Shape, pairs: Pairs) -> Scores:
        total = np.zeros(len(pairs.nodes))
        divisor = 0
        overflow = np.zeros(len(pairs.nodes), dtype=bool)
        for row in shape.rows:
            strategy = self.strategy(shape, self.axis.names[row])
            if strategy is None:
                continue
            divisor += strategy.counted
            allocatable = pairs.allocatable(row)
            after = pairs.used(row) + shape.demand[row]
            there = allocatable > 0
            overflow |= there & (after > allocatable)
            kept = after if strategy.type == "MostAllocated" else allocatable - after
            total += np.where(there, kept * strategy.counted / np.maximum(allocatable, 1), 0.0)
        if divisor:
            total = total / divisor * (SCORE_MAX * self.args.weight)
        total[overflow] = 0.0
        return total

    # ------------------------------------------------------------------------------------------------- scarce resources

    def avoid_scarce(self, shape: Shape, nodes: Indexes) -> Scores | None:
        if self._unowned is None:
            return None
        scores = self._scarce.get(shape.rows)
        if scores is None:
            lacking = (self.session.room.table.allocatable[list(shape.rows)] == 0).any(axis=0)
            scores = self._scarce[shape.rows] = np.where(lacking, 0.0, self._unowned)
        found: Scores = scores[nodes]
        return found

    @once
    def _unowned(self) -> Scores | None:
        """The scores of all nodes for a pod that each of them has all resources for; None without weights."""
        weights = self.args.sra.weights()
        total = sum(weights.values())
        if not total:
            return None
        allocatable = self.session.room.table.allocatable
        owned = np.zeros(allocatable.shape[1])
        for name, weight in weights.items():
            rows = [row for row, known in enumerate(self.axis.names) if _is_named(known, name)]
            owned += np.where((allocatable[rows] > 0).any(axis=0), weight, 0)
        unowned: Scores = (1.0 - owned / total) * (SCORE_MAX * self.args.sra.weight)
        return unowned

    def spare(self, shape: Shape, *, name: str, ratios: tuple[float, float]) -> Column | None:
        """How many such pods each node takes before too little is left for its idle scarce resource."""
        scarce = [self.axis.rows[each] for each in self.args.proportional.ratios() if each in self.axis.rows]
        row = self.axis.rows.get(name)
        if row is None or any(each in shape.rows for each in scarce):
            return None
        idle = self.session.room.idle
        copies: Column = np.full(idle.shape[1], UNBOUNDED, dtype=np.int64)
        for base, ratio in ((CPU_ROW, ratios[0]), (MEMORY_ROW, ratios[1] * MEMORY_UNIT)):
            left = np.floor(idle[base] - idle[row] * ratio)
            most = left // shape.demand[base] if shape.demand[base] else np.where(left < 0, 0, UNBOUNDED)
            np.minimum(copies, np.clip(most, 0, 2.0**62).astype(np.int64), out=copies)
        copies[idle[row] <= 0] = UNBOUNDED
        return copies


def own_choice(task: Task) -> tuple[str, str]:
    """What the pod's annotations ask for, as they are written; most ask for nothing."""
    notes = task.pod.metadata.annotations
    kind = notes.get(names.STRATEGY_SCORING_TYPE, "")
    return (kind, notes.get(names.STRATEGY_WEIGHT, "")) if kind in {"LeastAllocated", "MostAllocated"} else ("", "")


def _read_choice(kind: str, weights: str) -> dict[str, Strategy] | None:
    try:
        written = msgspec.json.decode(weights, type=dict[str, int])
        return {name: msgspec.convert({"type": kind, "weight": weight}, Strategy) for name, weight in written.items()}
    except UNREADABLE:
        return None  # no weights, no score

"""binpack: fills nodes that are in use before it opens empty ones, so that whole nodes stay free for whole-node pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import msgspec
import numpy as np

from pumice.scheduling.core import arguments
from pumice.scheduling.core.plugin import Plugin
from pumice.scheduling.core.shapes import Reads

if TYPE_CHECKING:
    from pumice.scheduling.core.points import Scores
    from pumice.scheduling.core.policy import PluginOption
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape
    from pumice.scheduling.placing.placement import Pairs

Weight = Annotated[int, msgspec.Meta(description="weight of the score, or of one resource in it")]


class Args(arguments.Args, frozen=True, kw_only=True):
    """List the resources that matter (GPUs!): those not listed have no influence."""

    PREFIXES: ClassVar[Mapping[str, str]] = {"binpack.resources.": "weight of one resource of `binpack.resources`, 1"}
    NAMED: ClassVar[Any] = int

    weight: Weight = msgspec.field(name="binpack.weight", default=1)
    cpu: Weight = msgspec.field(name="binpack.cpu", default=1)
    memory: Weight = msgspec.field(name="binpack.memory", default=1)
    resources: Annotated[str, msgspec.Meta(description="further resources, separated by commas")] = msgspec.field(
        name="binpack.resources", default=""
    )

    def weights(self) -> dict[str, int]:
        """Resource -> weight; a negative weight counts as 1."""
        found = {"cpu": self.cpu, "memory": self.memory}
        for name in filter(None, (part.strip() for part in self.resources.split(","))):
            found[name] = self.named.get(f"binpack.resources.{name}", 1)
        return {name: 1 if weight < 0 else weight for name, weight in found.items()}


class Binpack(Plugin):
    """Score: the weighted mean share of the requested resources that would be in use, times 100 and the weight."""

    args_type = Args
    stays_open = True

    def __init__(self, args: Args, option: PluginOption) -> None:
        del option
        self.weight = args.weight
        self.weights = args.weights()

    def open(self, session: Session) -> None:
        if self.weight:
            self.axis = session.room.table.axis
            session.on.declare(Reads.NOTHING)
            session.on.load_score(self.score, looks_beyond=lambda: False)

    def score(self, shape: Shape, pairs: Pairs) -> Scores:
        total = np.zeros(len(pairs.nodes))
        divisor = 0
        overflow = np.zeros(len(pairs.nodes), dtype=bool)
        for row in shape.rows:
            weight = self.weights.get(self.axis.names[row])
            if weight is None:
                continue
            divisor += weight
            allocatable = pairs.allocatable(row)
            after = pairs.used(row) + shape.demand[row]
            there = (allocatable > 0) & (weight > 0)
            overflow |= there & (after > allocatable)
            total += np.where(there, after * weight / np.maximum(allocatable, 1), 0.0)
        if divisor:
            total = total / divisor * (100.0 * self.weight)
        total[overflow] = 0.0
        return total

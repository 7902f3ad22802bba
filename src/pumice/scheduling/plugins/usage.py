"""usage: places by what nodes really use. Busy nodes take no pod, and of the others the least busy comes first.

A measurement knows nothing of pods that started after it was taken, or shortly before: until a later one does, an estimate stands in
for them. Where nothing was measured lately, what the pods of a node request stands in for what they use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
import numpy as np

from pumice import instant
from pumice.cluster import amounts
from pumice.cluster.columns import CPU_ROW, MEMORY_ROW
from pumice.cluster.tasks import Status
from pumice.quantity import QuantityError
from pumice.scheduling.core import arguments
from pumice.scheduling.core.codes import Code
from pumice.scheduling.core.plugin import Plugin
from pumice.scheduling.core.shapes import Reads
from pumice.scheduling.core.verdict import Cure, Denial
from pumice.scheduling.placing import annotation_values
from pumice.scheduling.placing.loads import expiry, load_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pumice.cluster.columns import Column
    from pumice.cluster.tasks import Task
    from pumice.instant import Instant
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.points import Scores
    from pumice.scheduling.core.policy import PluginOption
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape
    from pumice.scheduling.placing.placement import Pairs

INTERVAL_DEFAULT = 30 * instant.SECOND  # between measurements; the policy file's `metrics` section may say otherwise
MEBI = 2**20

Percent = Annotated[float, msgspec.Meta(ge=0, le=100)]
Ratio = Annotated[float, msgspec.Meta(ge=0, le=1)]
Weight = Annotated[int, msgspec.Meta(ge=0, description="weight of the score, or of one resource in it")]


class Thresholds(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nodes that use more take no further pods."""

    cpu: Percent = 80
    mem: Percent = 80


class Estimator(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much of its requests and limits a pod is expected to use before it has been measured."""

    request_ratio: Ratio = 0.7
    burst_ratio: Ratio = 0.0  # of what the limit allows beyond the request
    risk_threshold: Ratio = 0.6  # on nodes at least so busy ...
    risk_factor: Annotated[float, msgspec.Meta(ge=1)] = 1.2  # ... estimates count so many times
    be_cpu: str | int = "250m"  # a pod without requests; plain numbers are milli-CPUs and MiB
    be_mem: str | int = "200Mi"

    def __post_init__(self) -> None:
        self.best_effort()

    def best_effort(self) -> tuple[int, int]:
        try:
            cpu = self.be_cpu if isinstance(self.be_cpu, int) else amounts.amount("cpu", self.be_cpu)
            memory = self.be_mem * MEBI if isinstance(self.be_mem, int) else amounts.amount("memory", self.be_mem)
        except QuantityError as error:
            raise ValueError(f"be_cpu and be_mem are quantities such as 250m and 200Mi: {error}") from error
        return cpu, memory


class Args(arguments.Args, frozen=True, kw_only=True):
    weight: Weight = msgspec.field(name="usage.weight", default=5)
    cpu: Weight = msgspec.field(name="cpu.weight", default=1)
    memory: Weight = msgspec.field(name="memory.weight", default=1)
    thresholds: Annotated[Thresholds, msgspec.Meta(description="percent of cpu and mem above which a node is full")] = (
        Thresholds()
    )
    estimator: Annotated[Estimator, msgspec.Meta(description="how pods count that no measurement knows yet")] = (
        Estimator()
    )


class Usage(Plugin):
    """Composite load of a node: the measured part plus estimates of pods that are not in it yet."""

    args_type = Args
    args: Args

    def __init__(self, args: Args, option: PluginOption) -> None:
        del option
        self.args = args
        self.estimator = args.estimator
        self.weights = args.cpu, args.memory

    def open(self, session: Session) -> None:
        self.loads = load_columns(session)
        if not self.loads.known.any():
            return  # nothing was measured: no opinion
        self.axis = session.room.table.axis
        self._set_risks()
        self.shadow: Column = np.zeros((2, len(session.room.table)), dtype=np.int64)  # cpu and memory, estimated
        self.unmeasured: dict[str, tuple[int, Column]] = {}
        self._count_newcomers(session)
        on = session.on
        on.declare(Reads.NOTHING, limits_of, lasts=True)
        on.filter(self.filter)
        on.moved(self.moved)
        if self.args.weight and sum(self.weights):
            on.load_score(self.score)

    def next_change(self, session: Session) -> Instant | None:
        """When a measurement becomes too old; a new one is news."""
        return expiry(session)

    def _set_risks(self) -> None:
        total = sum(self.weights) or 1
        busy = (self.loads.cpu * self.weights[0] + self.loads.memory * self.weights[1]) / total
        self.risk = np.where(busy >= self.estimator.risk_threshold, self.estimator.risk_factor, 1.0)

    def _count_newcomers(self, session: Session) -> None:
        """Pods that are on their nodes but too new to be in the measurement."""
        interval = annotation_values.positive_duration(session.policy.metrics, "interval") or INTERVAL_DEFAULT
        table = session.room.table
        for node in np.flatnonzero(self.loads.known).tolist():
            known_until = instant.format_instant(int(self.loads.measured_at[node]) - interval)
            for task in table.tasks[node]:
                if _is_new(task, known_until):
                    estimate = self.estimate(task, np.array([node]))[:, 0]
                    self.unmeasured[task.uid] = node, estimate
                    self.shadow[:, node] += estimate

    def estimate(self, task: Task, nodes: NDArray[np.intp]) -> Column:
        """What the pod is expected to use on each of the nodes: rows cpu and memory, whole units."""
        if task.is_best_effort:
            expected = np.array(self.estimator.best_effort(), dtype=np.float64)
            most = expected * self.estimator.risk_factor
        else:
            request = np.array([task.request.amounts.get(name, 0) for name in (amounts.CPU, amounts.MEMORY)])
            limit = np.array(limits_of(task))
            spread = np.maximum(limit - request, 0)
            expected = request * self.estimator.request_ratio + spread * self.estimator.burst_ratio
            most = np.where(limit > 0, limit, request)
        return np.minimum(expected[:, None] * self.risk[nodes], most[:, None]).astype(np.int64)

    def filter(self, shape: Shape) -> Sequence[Denial]:
        del shape
        thresholds, known = self.args.thresholds, self.loads.known
        busy, crowded = self.loads.cpu * 100 > thresholds.cpu, self.loads.memory * 100 > thresholds.mem
        return [
            Denial(Code.CPU_LOAD, "usage", known & busy, Cure.WAITING),
            Denial(Code.MEMORY_LOAD, "usage", known & crowded, Cure.WAITING),
        ]

    def score(self, shape: Shape, pairs: Pairs) -> Scores:
        estimate = self.estimate(shape.example, pairs.nodes)
        known = self.loads.known[pairs.nodes]
        total = np.zeros(len(pairs.nodes))
        for row, measured, weight, number in (
            (CPU_ROW, self.loads.cpu, self.weights[0], 0),
            (MEMORY_ROW, self.loads.memory, self.weights[1], 1),
        ):
            capacity = np.maximum(pairs.allocatable(row), 1)
            expected = self.shadow[number, pairs.nodes] + pairs.copies * estimate[number]
            composite = np.where(known, measured[pairs.nodes] + expected / capacity, pairs.used(row) / capacity)
            total += (1.0 - np.clip(composite, 0.0, 1.0)) * weight
        return total / sum(self.weights) * (100.0 * self.args.weight)

    def moved(self, gang: GangState, shape: Shape, tasks: Sequence[Task], nodes: Sequence[int], sign: int) -> None:
        del gang
        if tasks[0].status is Status.PENDING:
            where = np.asarray(nodes, dtype=np.intp)
            for row, estimates in zip(self.shadow, self.estimate(shape.example, where) * sign, strict=True):
                np.add.at(row, where, estimates)
            return
        for task in tasks:  # evicted, or spared
            if task.uid in self.unmeasured:
                node, estimate = self.unmeasured[task.uid]
                self.shadow[:, node] += estimate * sign


def _is_new(task: Task, known_until: str) -> bool:
    if task.status in {Status.BINDING, Status.BOUND}:
        return True
    # Times that the API server writes have equal length and sort as text.
    return task.status is Status.RUNNING and (task.pod.status.start_time or "") > known_until


def limits_of(task: Task) -> tuple[int, int]:
    """The limits of all containers together; zero where one of them has none, so that nothing bounds the pod."""
    found = []
    for name in (amounts.CPU, amounts.MEMORY):
        limits = [container.resources.limits.get(name) for container in task.pod.spec.containers]
        bounded = bool(limits) and all(limit is not None for limit in limits)
        found.append(sum(amounts.amount(name, limit) for limit in limits if limit is not None) if bounded else 0)
    return found[0], found[1]

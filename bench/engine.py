"""The engine alone: equal gangs, a mixed workload, and saying no; each figure with its ratio to a calibration loop.

Ratios are of CPU time, the best of some rounds: what else the machine does hardly changes them.
"""

from __future__ import annotations

import json
import random
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from pumice.api import changes
from pumice.api.core import Node, NodeSpec, NodeStatus, Taint
from pumice.api.meta import LabelSelector, ObjectMeta
from pumice.api.names import GROUP_NAME
from pumice.api.pods import (
    Affinity,
    Container,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    Toleration,
    WeightedPodAffinityTerm,
)
from pumice.api.scheduling import PodGroup, PodGroupSpec, PodGroupStatus, Queue, QueueSpec, QueueStatus
from pumice.cli import bench as plan_bench
from pumice.cluster.intake import Intake
from pumice.cluster.state import Cluster
from pumice.scheduling.core import builtin, cycle

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROUNDS = 5
CREATED = "2026-01-01T00:00:00Z"
VOLCANO_PODS_PER_S = 289  # mid-2026 master, 5,000 nodes and 100 gangs of 100, on such a machine


class Took(NamedTuple):
    """How long it took by the clock on the wall, and of this process's CPU time."""

    seconds: float
    cpu_s: float


def calibration() -> Took:
    """A fixed piece of Python and memory work: machines differ, ratios less."""
    started, busy = time.perf_counter(), time.process_time()
    total = 0
    table = {str(number): number for number in range(20_000)}
    for _ in range(5):
        for value in table.values():
            total += value
    sorted(range(200_000), key=lambda number: -number)
    return Took(time.perf_counter() - started, time.process_time() - busy)


def best(measure: Callable[[], Took]) -> Took:
    rounds = [measure() for _ in range(ROUNDS)]
    return Took(min(each.seconds for each in rounds), min(each.cpu_s for each in rounds))


def figures() -> Iterator[dict[str, float | str]]:
    base = best(calibration).cpu_s
    for nodes, gangs, size in ((5000, 100, 100), (1000, 20, 50), (10_000, 100, 100)):
        took = best(lambda n=nodes, g=gangs, s=size: _plan(n, g, s))  # type: ignore[misc]
        yield {
            "bench": "plan",
            "nodes": nodes,
            "gangs": gangs,
            "size": size,
            "seconds": round(took.seconds, 4),
            "pods_per_s": round(gangs * size / took.seconds),
            "calibrated": round(took.cpu_s / base, 2),
        }
    took, placed = _mixed()
    yield {
        "bench": "mixed",
        "nodes": 5000,
        "placed": placed,
        "seconds": round(took.seconds, 4),
        "pods_per_s": round(placed / took.seconds),
        "times_volcano": round(placed / took.seconds / VOLCANO_PODS_PER_S, 1),
        "calibrated": round(took.cpu_s / base, 2),
    }
    took = best(_refusal)
    yield {
        "bench": "refusal",
        "nodes": 5000,
        "milliseconds": round(took.seconds * 1000, 1),
        "calibrated": round(took.cpu_s / base, 2),
    }


def _plan(nodes: int, gangs: int, size: int) -> Took:
    took, placed = _timed(plan_bench.cluster_with_waiting_gangs(nodes, gangs, size))
    assert placed == gangs * size
    return took


def _timed(cluster: Cluster) -> tuple[Took, int]:
    policy = builtin.parse(builtin.TEXT, "built-in policy")
    started, busy = time.perf_counter(), time.process_time()
    decisions = cycle.plan(cluster.snapshot(), policy, now=0)
    took = Took(time.perf_counter() - started, time.process_time() - busy)
    return took, sum(len(commit.binds) for commit in decisions.commits)


def _refusal() -> Took:
    """One gang more than fits, on 5,000 nodes that are full."""
    cluster = plan_bench.cluster_with_waiting_gangs(5000, 1, 64)
    intake = Intake(cluster)
    asks = {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "8"}
    spec = PodSpec(containers=(Container(name="c", resources=ResourceRequirements(requests=asks)),))
    for number in range(5000):
        meta = ObjectMeta(namespace="other", name=f"full-{number}", uid=f"full-{number}", creation_timestamp=CREATED)
        placed = PodSpec(containers=spec.containers, node_name=f"node-{number:05}", scheduler_name="default-scheduler")
        intake.apply(changes.Upserted(object=Pod(metadata=meta, spec=placed, status=PodStatus(phase="Running"))))
    cluster.snapshot()
    took, placed_count = _timed(cluster)
    assert placed_count == 0
    return took


def _mixed() -> tuple[Took, int]:
    """20 shapes in 3 queues: selectors, taints, preferred affinity, sizes from 1 to 64."""
    chance = random.Random(7)  # noqa: S311  the same workload every time
    cluster = Cluster()
    intake = Intake(cluster)
    for name, weight in (("research", 3), ("product", 2), ("default", 1)):
        meta = ObjectMeta(name=name, creation_timestamp=CREATED)
        queue = Queue(metadata=meta, spec=QueueSpec(weight=weight), status=QueueStatus(state="Open"))
        intake.apply(changes.Upserted(object=queue))
    for number in range(5000):
        intake.apply(changes.Upserted(object=_mixed_node(number)))
    specs = [_mixed_spec(number) for number in range(20)]
    for number in range(600):
        for thing in _mixed_gang(number, chance, specs[number % len(specs)]):
            intake.apply(changes.Upserted(object=thing))
    return _timed(cluster)


def _mixed_node(number: int) -> Node:
    room = {"cpu": "96", "memory": "768Gi", "pods": "110", "nvidia.com/gpu": "8" if number % 2 else "4"}
    labels = {
        "kubernetes.io/hostname": f"node-{number}",
        "zone": f"z{number % 5}",
        "kind": "gpu" if number % 2 else "mixed",
    }
    taints = (Taint(key="dedicated", value="training", effect="NoSchedule"),) if number % 4 == 0 else ()
    meta = ObjectMeta(name=f"node-{number:05}", creation_timestamp=CREATED, labels=labels)
    return Node(metadata=meta, spec=NodeSpec(taints=taints), status=NodeStatus(allocatable=room, capacity=room))


def _mixed_spec(number: int) -> PodSpec:
    asks = {"cpu": str(1 + number % 7), "memory": f"{4 + 4 * (number % 5)}Gi"}
    if number % 3:
        asks["nvidia.com/gpu"] = str(1 + number % 2)
    affinity = None
    if number == 19:
        term = PodAffinityTerm(topology_key="zone", label_selector=LabelSelector(match_labels={"app": "cache"}))
        affinity = Affinity(pod_affinity=PodAffinity(preferred=(WeightedPodAffinityTerm(10, term),)))
    return PodSpec(
        containers=(Container(name="c", resources=ResourceRequirements(requests=asks)),),
        scheduler_name="volcano",
        node_selector={"zone": f"z{number % 5}"} if number % 4 == 1 else {},
        tolerations=(Toleration(key="dedicated", operator="Exists"),) if number % 2 else (),
        affinity=affinity,
    )


def _mixed_gang(number: int, chance: random.Random, spec: PodSpec) -> list[PodGroup | Pod]:
    size = chance.choice((1, 4, 8, 16, 32, 64))
    name, queue = f"gang-{number:04}", ("research", "product", "default")[number % 3]
    meta = ObjectMeta(namespace="team", name=name, uid=f"u-{name}", creation_timestamp=CREATED)
    group = PodGroup(
        metadata=meta, spec=PodGroupSpec(min_member=size, queue=queue), status=PodGroupStatus(phase="Inqueue")
    )
    pods = [
        Pod(
            metadata=ObjectMeta(
                namespace="team",
                name=f"{name}-w-{index}",
                uid=f"u-{name}-{index}",
                creation_timestamp=CREATED,
                annotations={GROUP_NAME: name},
                labels={"app": "train"},
            ),
            spec=spec,
            status=PodStatus(phase="Pending"),
        )
        for index in range(size)
    ]
    return [group, *pods]


def main() -> None:
    for figure in figures():
        sys.stdout.write(json.dumps(figure) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

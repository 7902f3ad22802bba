"""What reservations cost: one cycle with the plugin and one without, on 5,000 nodes with 1,000 gangs that run and 200 that wait.

The figure is the ratio of CPU time, the best of some rounds each, measured in turns. `full`: no GPU is idle. `gaps`: every twentieth node has
some, which short gangs may use and the largest, first in line, waits for.
"""

from __future__ import annotations

import json
import random
import sys
import time

from bench.engine import CREATED
from pumice import instant
from pumice.api import changes, names
from pumice.api.core import Node, NodeStatus
from pumice.api.meta import ObjectMeta
from pumice.api.pods import Container, Pod, PodSpec, PodStatus, ResourceRequirements
from pumice.api.scheduling import PodGroup, PodGroupSpec, PodGroupStatus, Queue, QueueStatus
from pumice.cluster.intake import Intake
from pumice.cluster.state import Cluster
from pumice.scheduling.core import builtin, cycle

NODES, RUNNING, WAITING, GPUS = 5_000, 1_000, 200, 8
ROUNDS = 7
# Evictions, which take far longer where everything is full, would only hide the difference.
WITH = builtin.TEXT.replace("enqueue, allocate, preempt, reclaim, backfill", "enqueue, allocate, backfill")
WITHOUT = WITH.replace("  - name: reservation\n    arguments: {patience: 5m}\n", "")
NOW = instant.parse_instant(CREATED) + instant.HOUR


def cluster_of(*, gaps: bool) -> Cluster:
    chance = random.Random(11)  # noqa: S311  the same workload every time
    cluster = Cluster()
    intake = Intake(cluster)
    queue = Queue(metadata=ObjectMeta(name="default", creation_timestamp=CREATED), status=QueueStatus(state="Open"))
    intake.apply(changes.Upserted(object=queue))
    room = {"cpu": "96", "memory": "768Gi", "pods": "110", "nvidia.com/gpu": str(GPUS)}
    slots = []
    for number in range(NODES):
        meta = ObjectMeta(name=f"node-{number:05}", creation_timestamp=CREATED)
        intake.apply(changes.Upserted(object=Node(metadata=meta, status=NodeStatus(allocatable=room, capacity=room))))
        free = chance.randint(1, GPUS) if gaps and number % 20 == 0 else 0
        slots += [meta.name] * (GPUS - free)
    chance.shuffle(slots)
    for number in range(RUNNING):
        places = slots[number::RUNNING]
        _gang(intake, f"run-{number:04}", len(places), chance.randint(70, 600), places)
    for number in range(WAITING):
        size = 2_048 if number == 0 else chance.choice((1, 1, 2, 4, 8, 32))
        _gang(intake, f"wait-{number:04}", size, chance.randint(5, 300))
    return cluster


def _gang(intake: Intake, name: str, size: int, minutes: int, places: list[str] | None = None) -> None:
    notes = {names.RUNNING_ESTIMATE: f"{minutes}m"}
    meta = ObjectMeta(namespace="team", name=name, uid=name, creation_timestamp=CREATED, annotations=notes)
    status = PodGroupStatus(phase="Running" if places else "Inqueue")
    intake.apply(changes.Upserted(object=PodGroup(metadata=meta, spec=PodGroupSpec(min_member=size), status=status)))
    asks = {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "1"}
    containers = (Container(name="c", resources=ResourceRequirements(requests=asks)),)
    for number in range(size):
        own = {names.GROUP_NAME: name}
        about = ObjectMeta(
            namespace="team",
            name=f"{name}-w-{number}",
            uid=f"{name}-{number}",
            creation_timestamp=CREATED,
            annotations=own,
        )
        spec = PodSpec(containers=containers, scheduler_name="volcano", node_name=places[number] if places else "")
        state = PodStatus(phase="Running", start_time=CREATED) if places else PodStatus(phase="Pending")
        intake.apply(changes.Upserted(object=Pod(metadata=about, spec=spec, status=state)))


def measure(*, gaps: bool) -> dict[str, float | str]:
    snapshot = cluster_of(gaps=gaps).snapshot()
    rules = {"with": builtin.parse(WITH, "with"), "without": builtin.parse(WITHOUT, "without")}
    memory = {name: cycle.plan(snapshot, each, now=NOW).memory for name, each in rules.items()}
    took: dict[str, list[float]] = {name: [] for name in rules}
    for _ in range(ROUNDS):
        for name, each in rules.items():
            busy = time.process_time()
            cycle.plan(snapshot, each, memory[name], now=NOW + instant.SECOND)
            took[name].append(time.process_time() - busy)
    best = {name: min(each) for name, each in took.items()}
    return {
        "bench": f"reservation-{'gaps' if gaps else 'full'}",
        "nodes": NODES,
        "gangs": WAITING,
        "with_ms": round(best["with"] * 1000, 1),
        "without_ms": round(best["without"] * 1000, 1),
        "ratio": round(best["with"] / best["without"], 2),
    }


def main() -> None:
    for gaps in (False, True):
        sys.stdout.write(json.dumps(measure(gaps=gaps)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

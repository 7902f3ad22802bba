"""What fair share and limits for users cost a cycle: 5,000 nodes, 1,000 gangs that wait, 200 users in 10 queues.

Each figure is the CPU time of a cycle under the built-in policy, not its first one, and its ratio to that of a cycle under the same policy
without the two plugins: in turns, the best of some rounds. In the first case the gangs that wait find room and start, in the second all nodes are full. `calibrated` is the ratio to the calibration loop, as everywhere.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

from bench.engine import CREATED, best, calibration
from pumice import instant
from pumice.api import changes, names
from pumice.api.core import Node, NodeStatus
from pumice.api.meta import ObjectMeta
from pumice.api.pods import Container, Pod, PodSpec, PodStatus, ResourceRequirements
from pumice.api.scheduling import PodGroup, PodGroupSpec, PodGroupStatus, Queue, QueueSpec, QueueStatus
from pumice.cluster.intake import Intake
from pumice.cluster.state import Cluster
from pumice.scheduling.core import builtin, cycle
from pumice.scheduling.core.memory import EMPTY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pumice.cluster.state import Snapshot
    from pumice.scheduling.core.memory import Memory
    from pumice.scheduling.core.policy import Policy

NODES, WAITING, USERS, QUEUES = 5000, 1000, 200, 10
ROUNDS = 5
NOW = instant.parse_instant(CREATED) + instant.HOUR
WITHOUT = builtin.TEXT.replace("  - name: user-limits\n  - name: fairshare\n", "")
RATIO_MAX = 1.1


def cluster(running: int) -> Snapshot:
    """A gang runs on each of so many nodes, and takes all of its GPUs; those that wait ask for a node each."""
    made = Cluster()
    intake = Intake(made)
    room = {"cpu": "96", "memory": "768Gi", "pods": "110", "nvidia.com/gpu": "8"}
    for number in range(QUEUES):
        meta = ObjectMeta(name=f"q{number}", creation_timestamp=CREATED)
        queue = Queue(metadata=meta, spec=QueueSpec(weight=1 + number % 3), status=QueueStatus(state="Open"))
        intake.apply(changes.Upserted(object=queue))
    for number in range(NODES):
        meta = ObjectMeta(name=f"node-{number:05}", creation_timestamp=CREATED)
        intake.apply(changes.Upserted(object=Node(metadata=meta, status=NodeStatus(allocatable=room, capacity=room))))
    for number in range(running):
        _gang(intake, f"run-{number}", number, f"node-{number:05}")
    for number in range(WAITING):
        _gang(intake, f"wait-{number}", number, "")
    return made.snapshot()


def _gang(intake: Intake, name: str, number: int, node: str) -> None:
    notes = {names.SUBMITTED_BY: f"user-{number % USERS}"}
    asks = {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "8"}
    group = PodGroup(
        metadata=ObjectMeta(
            namespace="team", name=name, uid=f"u-{name}", creation_timestamp=CREATED, annotations=notes
        ),
        spec=PodGroupSpec(min_member=1, queue=f"q{number % QUEUES}"),
        status=PodGroupStatus(phase="Running" if node else "Inqueue"),
    )
    intake.apply(changes.Upserted(object=group))
    spec = PodSpec(
        containers=(Container(name="c", resources=ResourceRequirements(requests=asks)),),
        scheduler_name="volcano",
        node_name=node,
    )
    status = PodStatus(phase="Running" if node else "Pending", start_time=CREATED if node else None)
    notes = {names.GROUP_NAME: name}
    meta = ObjectMeta(
        namespace="team", name=f"{name}-0", uid=f"u-{name}-0", creation_timestamp=CREATED, annotations=notes
    )
    intake.apply(changes.Upserted(object=Pod(metadata=meta, spec=spec, status=status)))


def _cycle(snapshot: Snapshot, policy: Policy, memory: Memory) -> tuple[float, Memory]:
    busy = time.process_time()
    decisions = cycle.plan(snapshot, policy, memory, now=NOW)
    return time.process_time() - busy, decisions.memory


def figures() -> Iterator[dict[str, float | str]]:
    base = best(calibration).cpu_s
    with_, without = (builtin.parse(text, "built-in policy") for text in (builtin.TEXT, WITHOUT))
    for case, running in (("fairshare-starting", NODES - WAITING), ("fairshare-waiting", NODES)):
        snapshot = cluster(running)
        memories = [(policy, _cycle(snapshot, policy, EMPTY)[1]) for policy in (with_, without)]
        rounds = [[_cycle(snapshot, *each)[0] for each in memories] for _ in range(ROUNDS)]
        dear, cheap = (min(each) for each in zip(*rounds, strict=True))
        yield {
            "bench": case,
            "nodes": NODES,
            "gangs": WAITING,
            "milliseconds": round(dear * 1000, 1),
            "ratio": round(dear / cheap, 3),
            "calibrated": round(dear / base, 2),
        }


def main() -> int:
    worst = 0.0
    for figure in figures():
        sys.stdout.write(json.dumps(figure) + "\n")
        sys.stdout.flush()
        worst = max(worst, float(figure["ratio"]))
    return int(worst > RATIO_MAX)


if __name__ == "__main__":
    sys.exit(main())

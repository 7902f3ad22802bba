"""What making room costs a cycle: full nodes, gangs of 8 that wait in four queues, some of them of higher priority.

The cases: those of higher priority evict within their queues (all of them in one cycle), nobody may evict anybody, both in the first cycle of a
process, nobody in the cycle after it, one queue takes back from another what it deserves, and some of higher priority among nodes, requests and gangs of different sizes, where most nodes
would give a queue too little of its share back. Each figure is the CPU time of a whole cycle under the built-in policy, the best of some rounds.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from bench.engine import CREATED, best, calibration
from pumice import instant
from pumice.api import changes
from pumice.api.core import Node, NodeStatus
from pumice.api.meta import ObjectMeta
from pumice.api.names import GROUP_NAME
from pumice.api.pods import Container, Pod, PodSpec, PodStatus, ResourceRequirements
from pumice.api.priority import PriorityClass
from pumice.api.scheduling import PodGroup, PodGroupSpec, PodGroupStatus, Queue, QueueSpec, QueueStatus
from pumice.cluster.intake import Intake
from pumice.cluster.state import Cluster
from pumice.scheduling.core import builtin, cycle
from pumice.scheduling.core.memory import EMPTY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pumice.cluster.state import Snapshot
    from pumice.instant import Instant
    from pumice.scheduling.core.memory import Memory
    from pumice.scheduling.core.policy import Policy

QUEUES = 4
SIZE = 8  # of gangs that wait
PAIR = 2  # of gangs that run
GPUS = 8
ROUNDS = 3
NOW = instant.parse_instant(CREATED) + instant.HOUR
BEFORE = builtin.parse(builtin.TEXT.replace("preempt, reclaim, ", ""), "built-in policy without evictions")


class Case(NamedTuple):
    """So many gangs wait, so many of them of higher priority; the running ones are spread over so many queues."""

    name: str
    waiting: int
    high: int
    holders: int = QUEUES
    first: bool = False  # the first cycle of a process: nothing is remembered or carried
    again: bool = False  # the cycle after: nothing has changed, and it is known what was tried in vain
    mixed: bool = False  # nodes, requests and gangs of different sizes


CASES = (
    Case("evict-high", 1000, 50),
    Case("evict-nobody", 1000, 0),
    Case("evict-high-first", 1000, 50, first=True),
    Case("evict-nobody-first", 1000, 0, first=True),
    Case("evict-again", 1000, 0, again=True),
    Case("evict-few", 200, 0),
    Case("evict-reclaim", 200, 0, holders=1),
    Case("evict-mixed", 200, 20, mixed=True),
)


ONE = {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "1"}
TWO = {"cpu": "16", "memory": "128Gi", "nvidia.com/gpu": "2"}
NONE = {"cpu": "4", "memory": "16Gi"}
LARGE = {"cpu": "96", "memory": "768Gi", "pods": "110", "nvidia.com/gpu": str(GPUS)}
SMALL = {"cpu": "48", "memory": "384Gi", "pods": "110", "nvidia.com/gpu": "4"}
PLAIN = {"cpu": "64", "memory": "256Gi", "pods": "110"}
MIXED = (
    (LARGE, ((ONE, 4), (TWO, 2))),
    (SMALL, ((ONE, 4),)),
    (PLAIN, ((NONE, 16),)),
)  # kinds of nodes, and what fills them


def cluster(nodes: int, case: Case) -> Snapshot:
    """Nodes full of pairs of one-GPU pods, or of gangs of 1, 8 and 64 of different pods, and gangs that wait."""
    made = Cluster()
    intake = Intake(made)
    high = PriorityClass(metadata=ObjectMeta(name="high"), value=1000)
    intake.apply(changes.Upserted(object=high))
    for number in range(QUEUES):
        meta = ObjectMeta(name=f"q{number}", creation_timestamp=CREATED)
        queue = Queue(metadata=meta, spec=QueueSpec(weight=1), status=QueueStatus(state="Open"))
        intake.apply(changes.Upserted(object=queue))
    for number in range(nodes):
        meta = ObjectMeta(name=f"node-{number:05}", creation_timestamp=CREATED)
        room = MIXED[number % len(MIXED)][0] if case.mixed else LARGE
        intake.apply(changes.Upserted(object=Node(metadata=meta, status=NodeStatus(allocatable=room, capacity=room))))
    for number, (own, asks) in enumerate(_running_mixed(nodes) if case.mixed else _running_pairs(nodes)):
        _gang(intake, f"run-{number:05}", f"q{number % case.holders}", own, asks=asks)
    sizes, kinds = ((1, 2, 4, 8, 16), (ONE, TWO, NONE)) if case.mixed else ((SIZE,), (ONE,))
    for number in range(case.waiting):
        name, size = f"wait-{number:05}", sizes[number % len(sizes)]
        priority_class, asks = "high" if number < case.high else "", kinds[number % len(kinds)]
        _gang(intake, name, f"q{number % QUEUES}", [""] * size, priority_class, asks)
    return made.snapshot()


def _running_pairs(nodes: int) -> Iterator[tuple[list[str], dict[str, str]]]:
    slots = [f"node-{number:05}" for _ in range(GPUS) for number in range(nodes)]
    for number in range(nodes * GPUS // PAIR):
        yield slots[number * PAIR : (number + 1) * PAIR], ONE


def _running_mixed(nodes: int) -> Iterator[tuple[list[str], dict[str, str]]]:
    chance = random.Random(1)  # noqa: S311
    for asks in (ONE, TWO, NONE):
        slots = [
            f"node-{number:05}"
            for number in range(nodes)
            for kind, count in MIXED[number % len(MIXED)][1]
            for _ in range(count if kind is asks else 0)
        ]
        chance.shuffle(slots)
        while slots:
            size = chance.choice((1, 1, 8, 8, 64))
            yield slots[:size], asks
            slots = slots[size:]


def _gang(
    intake: Intake, name: str, queue: str, nodes: list[str], priority_class: str = "", asks: dict[str, str] = ONE
) -> None:
    group = PodGroup(
        metadata=ObjectMeta(namespace="team", name=name, uid=f"u-{name}", creation_timestamp=CREATED),
        spec=PodGroupSpec(min_member=len(nodes), queue=queue, priority_class_name=priority_class),
        status=PodGroupStatus(phase="Running" if nodes[0] else "Inqueue"),
    )
    intake.apply(changes.Upserted(object=group))
    for number, node in enumerate(nodes):
        spec = PodSpec(
            containers=(Container(name="c", resources=ResourceRequirements(requests=asks)),),
            scheduler_name="volcano",
            node_name=node,
            priority_class_name=priority_class,
            priority=1000 if priority_class else 0,
        )
        meta = ObjectMeta(
            namespace="team",
            name=f"{name}-w-{number}",
            uid=f"u-{name}-{number}",
            creation_timestamp=CREATED,
            annotations={GROUP_NAME: name},
        )
        status = PodStatus(phase="Running" if node else "Pending", start_time=CREATED if node else None)
        intake.apply(changes.Upserted(object=Pod(metadata=meta, spec=spec, status=status)))


class Start(NamedTuple):
    """What a cycle begins with."""

    snapshot: Snapshot
    memory: Memory
    now: Instant


def _start(nodes: int, case: Case, policy: Policy) -> Start:
    snapshot, memory, now = cluster(nodes, case), EMPTY, NOW
    if not case.first:
        # What was used; evictions that came to nothing are not in it.
        memory = cycle.plan(snapshot, BEFORE, now=NOW).memory
    if case.again:
        memory, now = cycle.plan(snapshot, policy, memory, now=NOW).memory, NOW + instant.SECOND // 1000
    gc.collect()
    gc.freeze()  # as the scheduler does when it has listed
    return Start(snapshot, memory, now)


def figures(nodes: int, names: list[str], part: float = 1.0) -> Iterator[dict[str, float | str]]:
    policy = builtin.parse(builtin.TEXT, "built-in policy")
    for case in [each._replace(waiting=round(each.waiting * part)) for each in CASES]:
        if names and case.name not in names:
            continue
        cpu_s, start, base = [], _start(nodes, case, policy), best(calibration).cpu_s
        for number in range(ROUNDS):
            if case.first and number:
                start = _start(nodes, case, policy)
            busy = time.process_time()
            decisions = cycle.plan(start.snapshot, policy, start.memory, now=start.now)
            cpu_s.append(time.process_time() - busy)
        base = min(base, best(calibration).cpu_s)  # before and after: the speed of a shared machine changes
        yield {
            "bench": case.name,
            "nodes": nodes,
            "gangs": case.waiting,
            "evictions": len(decisions.evictions),
            "claims": len(decisions.claims),
            "milliseconds": round(min(cpu_s) * 1000, 1),
            "calibrated": round(min(cpu_s) / base, 2),
        }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.evictions")
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--part", type=float, default=1.0, help="of the gangs that wait: how the time grows with them")
    parser.add_argument("cases", nargs="*")
    given = parser.parse_args()
    for figure in figures(given.nodes, given.cases, given.part):
        sys.stdout.write(json.dumps(figure) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

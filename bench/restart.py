"""How long a scheduler that starts anew takes to its first cycle: 5,000 nodes and 50,000 running pods are listed, taken in and planned for.

    python -m bench.restart [--nodes 5000] [--pods 50000] [--changes 20] [--overdue]

What the API server sends is made beforehand and handed over within the process, in chunks, as a watch that begins with a list. The server's
own time and the network's are not in the figure, nor is the start of Python. `cycle_cpu_ms` is what a later cycle costs, snapshot included: a gang that finds
no room comes, and one that came before it goes. With `--overdue`, all gangs run for longer than was expected.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import random
import statistics
import time
from typing import TYPE_CHECKING

from bench.engine import best, calibration
from bench.memory import node, pod
from pumice import instant
from pumice.api import decoding
from pumice.api.changes import Deleted, Upserted
from pumice.api.core import Node
from pumice.api.pods import Pod
from pumice.api.scheduling import PodGroup, Queue
from pumice.clock import RealClock
from pumice.cluster.intake import Intake
from pumice.cluster.state import Cluster
from pumice.kube.client import Client
from pumice.kube.informer import Informers, News
from pumice.kube.transport import Request, Response
from pumice.scheduling.core import builtin, cycle

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence

    from pumice.api.meta import Struct
    from pumice.instant import Instant
    from pumice.scheduling.core.memory import Memory
    from pumice.scheduling.core.policy import Policy

GANG = 8
CHUNK_LINES = 32
MARK = {"annotations": {"k8s.io/initial-events-end": "true"}, "resourceVersion": "9"}
NOW = instant.parse_instant("2026-01-01T00:10:00Z")


OVERDUE = 60 * instant.MINUTE


def group(number: int) -> bytes:
    metadata = {"name": f"job-{number}", "namespace": "research", "uid": f"u-{number}", "resourceVersion": "8"}
    made = {**metadata, "creationTimestamp": "2026-01-01T00:00:00Z"}
    spec = {"minMember": GANG, "queue": "default"}
    return json.dumps({"metadata": made, "spec": spec, "status": {"phase": "Running", "running": GANG}}).encode()


class Listed:
    """A Transport that answers each watch with a list and then says nothing."""

    def __init__(self, listed: dict[str, list[bytes]]) -> None:
        self._listed = listed

    async def call(self, request: Request) -> Response:
        objects = self._listed[request.path.rpartition("/")[2]]
        return Response(200, {}, stream=_stream(objects))

    async def close(self) -> None:
        """Nothing is open."""


async def _stream(objects: Sequence[bytes]) -> AsyncIterator[bytes]:
    lines = [b'{"type":"ADDED","object":%s}\n' % each for each in objects]
    for first in range(0, len(lines), CHUNK_LINES):
        yield b"".join(lines[first : first + CHUNK_LINES])
    yield json.dumps({"type": "BOOKMARK", "object": {"metadata": MARK}}).encode() + b"\n"
    await asyncio.get_running_loop().create_future()


class Changes:
    """Cycles of a cluster in which all work runs, each after one change."""

    def __init__(self, intake: Intake, memory: Memory, policy: Policy, now: Instant) -> None:
        self._intake, self._memory, self._policy, self._now = intake, memory, policy, now
        self._last: list[Struct] = []

    def change(self, number: int) -> None:
        for former in self._last:
            self._intake.apply(Deleted(object=former))
        made, one = json.loads(group(number)), json.loads(pod(number, 1))
        for body in (made, one):
            body["metadata"] |= {"name": f"change-{number}", "uid": f"change-{number}-{'spec' in body}"}
        made |= {"spec": {"minMember": 1, "queue": "default"}, "status": {"phase": "Inqueue"}}
        del one["spec"]["nodeName"]
        one["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": f"change-{number}"}
        one["status"] = {"phase": "Pending"}
        self._last = [
            decoding.decode(PodGroup, json.dumps(made).encode()),
            decoding.decode(Pod, json.dumps(one).encode()),
        ]
        for each in self._last:
            self._intake.apply(Upserted(object=each))

    def cycle_s(self, number: int) -> float:
        self.change(number)
        began = time.process_time()
        decisions = cycle.plan(
            self._intake.cluster.snapshot(), self._policy, self._memory, now=self._now + number * instant.SECOND
        )
        self._memory = decisions.memory
        return time.process_time() - began


async def measure(nodes: int, pods: int, changes: int, now: Instant) -> dict[str, object]:
    queue = json.dumps({"metadata": {"name": "default", "uid": "q"}, "spec": {"weight": 1}}).encode()
    listed = {
        "nodes": [node(number, gpus=pods // nodes) for number in range(nodes)],
        "pods": [pod(number, nodes) for number in range(pods)],
        "podgroups": [group(number) for number in range(pods // GANG)],
        "queues": [queue],
    }
    clock, chance = RealClock(), random.Random(1)  # noqa: S311  jitter
    intake = Intake(Cluster())

    def receive(news: Iterable[News]) -> None:
        for change in news:
            intake.apply(change)

    began, used = time.perf_counter(), time.process_time()
    informers = Informers(Client(Listed(listed), clock=clock, chance=chance), clock=clock, chance=chance)
    kinds: tuple[type[Struct], ...] = (Pod, Node, PodGroup, Queue)
    for kind in kinds:
        informers.of(kind).subscribe(receive)
    running = asyncio.create_task(informers.run())
    await informers.synced()
    listed_s = time.process_time() - used
    policy = builtin.parse(builtin.TEXT, "built-in policy")
    decisions = cycle.plan(intake.cluster.snapshot(), policy, now=now)
    first_s, wall_s = time.process_time() - used, time.perf_counter() - began
    gc.freeze()  # as the scheduler does
    later = Changes(intake, decisions.memory, policy, now)
    cycles = [later.cycle_s(number) for number in range(1, changes + 1)]
    figure = {
        "bench": "restart",
        "nodes": nodes,
        "pods": pods,
        "gangs": len(decisions.gangs),
        "listed_cpu_s": round(listed_s, 2),
        "cpu_s": round(first_s, 2),
        "seconds": round(wall_s, 2),
        "cycle_cpu_ms": round(statistics.median(cycles) * 1e3, 1),
        "calibrated": round(min(cycles) / best(calibration).cpu_s, 2),  # of the quickest of those cycles
        "goal_s": 10.0,
    }
    running.cancel()
    return figure


def arguments(doc: str | None) -> argparse.Namespace:
    """How large a cluster to measure, and for how many changes."""
    parser = argparse.ArgumentParser(description=doc.partition("\n")[0] if doc else "")
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--changes", type=int, default=20)
    parser.add_argument("--overdue", action="store_true")
    return parser.parse_args()


def main() -> None:
    given = arguments(__doc__)
    now = NOW + OVERDUE if given.overdue else NOW
    print(json.dumps(asyncio.run(measure(given.nodes, given.pods, given.changes, now))))


if __name__ == "__main__":
    main()

"""Several engines, each with nodes of its own, and gangs that are routed between them: what bench/shards.py models, with the real `plan`.

    python -m bench.shards_engine [--nodes 256] [--gangs 500] [--load 0.95] [--shards 1 2 4 8]

Each shard is a state and a memory of its own, and plans under virtual time whenever a gang comes to it or ends in it. The router knows of each shard only how many
GPUs are free: it gives a gang to the one that has the most, and moves one that waits, with no member bound, to a shard that has room for all of it. Gangs are of whole
nodes of 8 GPUs, or of a single GPU. `cycle_cpu_ms` is the cost of one plan; `split` counts gangs with members in two shards, `never` those that no shard could hold.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import json
import random
import statistics
import time
from typing import TYPE_CHECKING, NamedTuple

from pumice import instant
from pumice.api import decoding
from pumice.api.changes import Deleted, Upserted
from pumice.api.core import Node
from pumice.api.pods import Pod
from pumice.api.scheduling import PodGroup, Queue
from pumice.cluster.intake import Intake
from pumice.cluster.state import Cluster
from pumice.scheduling.core import builtin, cycle, memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pumice.api.meta import Json, Struct

GPUS = 8  # of a node
SIZES = (1, 8, 16, 64, 256, 512)  # GPUs of a gang
WEIGHTS = (40, 25, 15, 10, 6, 2)
LARGE = 256
RUN_S_MEAN = 4 * 3_600.0
START = instant.parse_instant("2026-01-01T00:00:00Z")
POLICY = builtin.parse(builtin.TEXT, "built-in policy")


class Gang(NamedTuple):
    name: str
    at_s: float
    size: int
    run_s: float

    def objects(self, nodes: Sequence[str] = ()) -> Iterator[Struct]:
        """Group and pods as they wait, or as they run on these nodes."""
        count, each = (1, 1) if self.size < GPUS else (self.size // GPUS, GPUS)
        made = instant.format_instant(START + round(self.at_s) * instant.SECOND)
        group: Json = {"metadata": _named(self.name, made), "spec": {"minMember": count, "queue": "default"}}
        group["metadata"]["annotations"] = {"pumice.dev/running-estimate": f"{max(round(self.run_s), 1)}s"}
        yield _read(PodGroup, {**group, "status": {"phase": "Running" if nodes else "Inqueue", "running": len(nodes)}})
        for number in range(count):
            metadata = _named(f"{self.name}-{number}", made)
            metadata["annotations"] = {"scheduling.k8s.io/group-name": self.name}
            asks = {"limits": {"nvidia.com/gpu": str(each)}, "requests": {"nvidia.com/gpu": str(each)}}
            spec: Json = {"schedulerName": "volcano", "containers": [{"name": "worker", "resources": asks}]}
            spec |= {"nodeName": nodes[number]} if nodes else {}
            status = {"phase": "Running" if nodes else "Pending"}
            yield _read(Pod, {"metadata": metadata, "spec": spec, "status": status})


def _named(name: str, made: str) -> Json:
    return {"name": name, "namespace": "research", "uid": f"u-{name}", "creationTimestamp": made}


def _read(kind: type[Struct], body: Json) -> Struct:
    return decoding.decode(kind, json.dumps(body).encode())


def workload(count: int, nodes: int, load: float, seed: int) -> list[Gang]:
    chance = random.Random(seed)  # noqa: S311  a model
    mean = sum(size * weight for size, weight in zip(SIZES, WEIGHTS, strict=True)) / sum(WEIGHTS)
    pace = nodes * GPUS * load / (mean * RUN_S_MEAN)  # gangs a second
    arrivals = itertools.accumulate(chance.expovariate(pace) for _ in range(count))
    return [
        Gang(f"g{number}", at, chance.choices(SIZES, WEIGHTS)[0], chance.expovariate(1 / RUN_S_MEAN))
        for number, at in enumerate(arrivals)
    ]


class Shard:
    """A scheduler of its own, as far as it decides."""

    def __init__(self, nodes: range) -> None:
        self._intake, self._memory = Intake(Cluster()), memory.EMPTY
        self.size = self.free = len(nodes) * GPUS
        self.waiting: dict[str, Gang] = {}
        self.cpu_s: list[float] = []
        self._put(_read(Queue, {"metadata": {"name": "default", "uid": "q"}, "spec": {"weight": 1}}))
        room = {"cpu": "96", "memory": "768Gi", "pods": "110", "nvidia.com/gpu": str(GPUS)}
        ready = [{"type": "Ready", "status": "True"}]
        for number in nodes:
            metadata = {"name": f"node-{number:05}", "uid": f"node-{number}"}
            self._put(_read(Node, {"metadata": metadata, "status": {"allocatable": room, "conditions": ready}}))

    def _put(self, each: Struct) -> None:
        self._intake.apply(Upserted(object=each))

    def take(self, gang: Gang) -> None:
        self.waiting[gang.name] = gang
        for each in gang.objects():
            self._put(each)

    def give_back(self, gang: Gang) -> None:
        """It ended, or the router wants it back."""
        if self.waiting.pop(gang.name, None) is None:
            self.free += gang.size
        for each in reversed(list(gang.objects())):
            self._intake.apply(Deleted(object=each))

    def plan(self, now_s: float) -> dict[str, tuple[str, ...]]:
        """Plans, and starts what was planned: the nodes of each gang."""
        began = time.process_time()
        now = START + round(now_s * instant.SECOND)
        decisions = cycle.plan(self._intake.cluster.snapshot(), POLICY, self._memory, now=now)
        self.cpu_s.append(time.process_time() - began)
        self._memory = decisions.memory
        started = {}
        for commit in decisions.commits:
            gang = self.waiting.pop(commit.gang.partition("/")[2])
            nodes = {bind.task.name: bind.node for bind in commit.binds}
            started[gang.name] = tuple(nodes[f"{gang.name}-{number}"] for number in range(len(nodes)))
            self.free -= gang.size
            for each in gang.objects(started[gang.name]):
                self._put(each)
        return started


class Router:
    """Gives gangs to shards; every gang is in one of them, or in none."""

    def __init__(self, shards: Sequence[Shard], gangs: Sequence[Gang]) -> None:
        self.shards = shards
        self._gangs = {gang.name: gang for gang in gangs}
        self.home: dict[str, Shard] = {}
        self.ends: list[tuple[float, Gang]] = []
        self.waits_s: dict[Gang, float] = {}
        self.places: dict[str, set[int]] = {}  # the shards in which a gang has had members
        self.moved = 0

    def run(self) -> None:
        for gang in self._gangs.values():
            self._end_until(gang.at_s)
            fitting = [shard for shard in self.shards if shard.size >= gang.size]
            if fitting:
                shard = max(fitting, key=lambda each: each.free)
                self._give(gang, shard)
                self._plan(shard, gang.at_s)
        self._end_until(float("inf"))

    def _end_until(self, now_s: float) -> None:
        while self.ends and self.ends[0][0] <= now_s:
            at_s, gang = heapq.heappop(self.ends)
            shard = self.home.pop(gang.name)
            shard.give_back(gang)
            self._plan(shard, at_s)
            self._move(shard, at_s)

    def _give(self, gang: Gang, shard: Shard) -> None:
        shard.take(gang)
        self.home[gang.name] = shard

    def _plan(self, shard: Shard, now_s: float) -> None:
        for name, nodes in shard.plan(now_s).items():
            gang, number = self._gangs[name], self.shards.index(shard)
            self.places.setdefault(name, set()).update([number] * len(nodes))
            self.waits_s[gang] = now_s - gang.at_s
            heapq.heappush(self.ends, (now_s + gang.run_s, gang))

    def _move(self, shard: Shard, now_s: float) -> None:
        """The oldest gang that waits elsewhere and fits here whole, until none does."""
        while others := [
            gang
            for each in self.shards
            if each is not shard
            for gang in each.waiting.values()
            if gang.size <= shard.free - sum(own.size for own in shard.waiting.values())
        ]:
            gang = min(others, key=lambda each: each.at_s)
            self.home[gang.name].give_back(gang)
            self._give(gang, shard)
            self.moved += 1
            self._plan(shard, now_s)


def measure(gangs: Sequence[Gang], nodes: int, count: int) -> dict[str, object]:
    each = nodes // count
    shards = [Shard(range(number * each, (number + 1) * each)) for number in range(count)]
    router = Router(shards, gangs)
    router.run()
    cycles = [cpu_s for shard in shards for cpu_s in shard.cpu_s]
    large = [wait for gang, wait in router.waits_s.items() if gang.size >= LARGE]
    return {
        "shards": count,
        "mean_wait_s": round(statistics.fmean(router.waits_s.values())),
        "mean_wait_large_s": round(statistics.fmean(large)) if large else None,
        "never": len(gangs) - len(router.waits_s),
        "split": sum(len(where) > 1 for where in router.places.values()),
        "moved": router.moved,
        "cycles": len(cycles),
        "cycle_cpu_ms": round(statistics.fmean(cycles) * 1e3, 1),
        "cpu_s": round(sum(cycles), 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--nodes", type=int, default=256)
    parser.add_argument("--gangs", type=int, default=500)
    parser.add_argument("--load", type=float, default=0.95)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shards", type=int, nargs="+", default=(1, 2, 4, 8))
    given = parser.parse_args()
    gangs = workload(given.gangs, given.nodes, given.load, given.seed)
    for count in given.shards:
        sizes = {"bench": "shards-engine", "nodes": given.nodes, "gangs": given.gangs, "load": given.load}
        print(json.dumps({**sizes, **measure(gangs, given.nodes, count)}), flush=True)


if __name__ == "__main__":
    main()

"""The whole system on the real API server: Jobs in, bound pods out; scheduler and controllers as their own processes.

    python -m bench.live [MODE ...] [--nodes 1000]

Each mode has a server of its own and prints one JSON line, with the CPU that the scheduler and the controllers used and the most memory
that they held. Without a mode: limit, trickle, burst and large.

| mode    | what                                                                                                       |
|---------|------------------------------------------------------------------------------------------------------------|
| limit   | bare create and bind calls of one process and 32 connections, nothing else at work (bench/live_limit.py)    |
| trickle | a Job of 8 every 1.3 s, from created to last bind                                                           |
| burst   | 50 Jobs of 50 at once                                                                                       |
| large   | 2 Jobs of 2,000 at once                                                                                     |
| bare    | 1,000 pods without a group, at once; and the same for kube-scheduler                                        |
| waiting | 200 gangs of 8 wait on full nodes, and one that runs is deleted: until another one has all its pods         |
| reclaim | a queue holds all nodes, and 10 Jobs of 50 of another one want their half: until these are bound            |

`of_limit` is the share of the limit that was measured in the same run, where it was.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from tools.kube.control_plane import ControlPlane
from tools.kube.kinds import install_kinds
from tools.kube.nodes import pretend_nodes

from bench.live_limit import NAMESPACE, a_template, make_namespace
from bench.processes import Process, cpu_s, peak_mb
from pumice.api.batch import Job
from pumice.api.changes import Deleted, Upserted
from pumice.api.pods import Pod
from pumice.api.scheduling import Queue
from pumice.clock import RealClock
from pumice.kube import config
from pumice.kube.client import Client
from pumice.kube.http import HttpTransport
from pumice.kube.informer import Informer, News

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

WAIT_S_MAX = 900.0  # for anything at all
SUBMITTED_AT_ONCE = 32
GPUS = 8  # of a node
CLUSTER_NODES_QUIET = 2_000  # beyond, nodes renew their leases less often: the server has other work to do


def a_job(name: str, size: int, *, queue: str = "default", minimum: int | None = None) -> dict[str, Any]:
    least = size if minimum is None else minimum
    task = {"name": "worker", "replicas": size, "minAvailable": least, "template": {"spec": a_template()}}
    spec = {"minAvailable": least, "schedulerName": "volcano", "queue": queue, "maxRetry": 3, "tasks": [task]}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


class Seen:
    """When each pod was first seen bound, by Job, or by the pod's own name where it has none."""

    def __init__(self) -> None:
        self.bound: dict[str, dict[str, float]] = {}
        self.changed = asyncio.Event()

    def receive(self, news: list[News]) -> None:
        now = time.monotonic()
        for change in news:
            if not isinstance(change, Upserted | Deleted) or not isinstance(change.object, Pod):
                continue
            name = change.object.metadata.name
            of_job = self.bound.setdefault(name.rsplit("-worker-", 1)[0], {})
            if isinstance(change, Deleted):
                of_job.pop(name, None)
            elif change.object.spec.node_name:
                of_job.setdefault(name, now)
            self.changed.set()

    async def until(self, job: str, size: int) -> float:
        """The time at which the last of so many pods was bound."""
        while len(self.bound.get(job, {})) < size:
            await self.news()
        return max(self.bound[job].values())

    async def news(self) -> None:
        self.changed.clear()
        async with asyncio.timeout(WAIT_S_MAX):
            await self.changed.wait()


class Bench:
    """What a mode works with: a client, what it sees, and the processes it weighs."""

    def __init__(self, client: Client, seen: Seen, given: argparse.Namespace, ours: dict[str, Process]) -> None:
        self.client = client
        self.seen = seen
        self.nodes: int = given.nodes
        self.given = given
        self._ours = ours
        self._used = {name: cpu_s(process.pid) for name, process in ours.items()}

    async def submit(self, jobs: list[dict[str, Any]]) -> dict[str, float]:
        """Creates Jobs side by side; when each was there."""
        created: dict[str, float] = {}
        left = iter(jobs)

        async def work() -> None:
            for job in left:
                await self.client.create(Job, job, namespace=NAMESPACE)
                created[job["metadata"]["name"]] = time.monotonic()

        await asyncio.gather(*(work() for _ in range(SUBMITTED_AT_ONCE)))
        return created

    async def bound(self, jobs: list[dict[str, Any]]) -> list[float]:
        """When each of the Jobs had all its pods bound."""
        return [await self.seen.until(job["metadata"]["name"], job["spec"]["tasks"][0]["replicas"]) for job in jobs]

    def weighed(self) -> dict[str, float]:
        """What the processes used and held since this began."""
        used = {f"{name}_cpu_s": round(cpu_s(each.pid) - self._used[name], 2) for name, each in self._ours.items()}
        return used | {f"{name}_mb": peak_mb(each.pid) for name, each in self._ours.items()}

    def weighed_by_pod(self, pods: int) -> dict[str, float]:
        weighed = self.weighed()
        return weighed | {f"{name}_ms_a_pod": round(weighed[f"{name}_cpu_s"] / pods * 1e3, 2) for name in self._ours}


async def at_once(bench: Bench, count: int, size: int) -> dict[str, Any]:
    jobs = [a_job(f"burst-{number}", size) for number in range(count)]
    began = time.monotonic()
    created = await bench.submit(jobs)
    ends = await bench.bound(jobs)
    took = max(ends) - began
    waits = [end - created[job["metadata"]["name"]] for job, end in zip(jobs, ends, strict=True)]
    return {
        "jobs": count,
        "size": size,
        "seconds": round(took, 2),
        "pods_per_s": round(count * size / took, 1),
        "gang_p50_s": round(statistics.median(waits), 2),
        **bench.weighed_by_pod(count * size),
    }


async def burst(bench: Bench) -> dict[str, Any]:
    return await at_once(bench, bench.given.jobs, bench.given.size)


async def large(bench: Bench) -> dict[str, Any]:
    return await at_once(bench, 2, bench.given.large)


async def trickle(bench: Bench) -> dict[str, Any]:
    """One small Job after another on an idle cluster, once everybody has started: the first one shows that and is not counted."""
    waits = []
    for number in range(bench.given.trickle + 1):
        job = a_job(f"trickle-{number}", 8)
        began = time.monotonic()
        await bench.submit([job])
        waits.append((await bench.bound([job]))[0] - began)
        await asyncio.sleep(max(1.3 - (time.monotonic() - began), 0))
    waits = sorted(waits[1:])
    return {
        "jobs": len(waits),
        "size": 8,
        "p50_s": round(statistics.median(waits), 3),
        "p99_s": round(waits[min(int(len(waits) * 0.99), len(waits) - 1)], 3),
        **bench.weighed_by_pod(len(waits) * 8),
    }


async def bare(bench: Bench) -> dict[str, Any]:
    """Pods that name a scheduler and no group, first ours, then kube-scheduler."""
    rates = {}
    for scheduler in ("volcano", "default-scheduler"):
        left, began = iter(range(bench.given.bare)), time.monotonic()

        async def work(left: Iterator[int] = left, scheduler: str = scheduler) -> None:
            for number in left:
                spec = {**a_template(), "schedulerName": scheduler}
                body = {"metadata": {"name": f"{scheduler}-worker-{number}"}, "spec": spec}
                await bench.client.create(Pod, body, namespace=NAMESPACE)

        await asyncio.gather(*(work() for _ in range(SUBMITTED_AT_ONCE)))
        rates[scheduler] = round(bench.given.bare / (await bench.seen.until(scheduler, bench.given.bare) - began), 1)
    return {
        "pods": bench.given.bare,
        "pods_per_s": rates["volcano"],
        "kube_scheduler_pods_per_s": rates["default-scheduler"],
        **bench.weighed(),
    }


async def waiting(bench: Bench) -> dict[str, Any]:
    running = [a_job(f"runs-{number}", 8) for number in range(bench.nodes * GPUS // 8)]
    waits = [a_job(f"waits-{number}", 8) for number in range(bench.given.waiting)]
    await bench.submit(running)
    await bench.bound(running)
    await bench.submit(waits)
    await asyncio.sleep(bench.given.settle_s)  # they are admitted, refused and told
    before = bench.weighed()
    began = time.monotonic()
    await bench.client.delete(Job, "runs-0", namespace=NAMESPACE)
    while not any(len(pods) == 8 for job, pods in bench.seen.bound.items() if job.startswith("waits-")):
        await bench.seen.news()
    took, after = time.monotonic() - began, bench.weighed()
    used = {f"{name}_to_start_cpu_s": round(after[name] - before[name], 2) for name in before if name.endswith("cpu_s")}
    return {"gangs": len(waits), "seconds": round(took, 3), **used, **after}


async def reclaim(bench: Bench) -> dict[str, Any]:
    for name in ("lender", "owner"):
        body = {"metadata": {"name": name}, "spec": {"weight": 1, "reclaimable": True}}
        await bench.client.create(Queue, body)
    room = bench.nodes * GPUS
    lenders = [a_job(f"lends-{number}", 50, queue="lender", minimum=1) for number in range(room // 50)]
    owners = [a_job(f"owns-{number}", 50, queue="owner") for number in range(room // 100)]
    await bench.submit(lenders)
    await bench.bound(lenders)
    before = bench.weighed()
    began = time.monotonic()
    await bench.submit(owners)
    took, after = max(await bench.bound(owners)) - began, bench.weighed()
    used = {name: round(after[name] - before[name], 2) if name.endswith("cpu_s") else after[name] for name in after}
    return {"pods": 50 * len(owners), "seconds": round(took, 2), **used}


MODES: dict[str, Callable[[Bench], Awaitable[dict[str, Any]]]] = {
    "trickle": trickle,
    "burst": burst,
    "large": large,
    "bare": bare,
    "waiting": waiting,
    "reclaim": reclaim,
}


@contextlib.contextmanager
def a_plane(mode: str, nodes: int) -> Iterator[ControlPlane]:
    lease_s = 40 if nodes <= CLUSTER_NODES_QUIET else 400
    made = ControlPlane(nodes=pretend_nodes(nodes, gpus=GPUS), scheduler=mode == "bare", node_lease_s=lease_s)
    with made as plane:
        install_kinds(plane)
        yield plane


def measure_limit(given: argparse.Namespace) -> dict[str, Any]:
    """In a process of its own: a client that has other work to do would measure itself."""
    with a_plane("limit", given.nodes) as plane:
        words = ("--pods", str(given.limit), "--nodes", str(given.nodes))
        command = [sys.executable, "-m", "bench.live_limit", str(plane.kubeconfig), *words]
        found: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return found


@contextlib.asynccontextmanager
async def a_client(plane: ControlPlane, seen: Seen) -> AsyncIterator[Client]:
    clock, chance = RealClock(), random.Random(1)  # noqa: S311  jitter
    connection = config.find(str(plane.kubeconfig), clock=clock)
    async with HttpTransport(connection, user_agent="pumice-bench") as transport:
        client = Client(transport, clock=clock, chance=chance)
        await make_namespace(client)
        informer = Informer(client, Pod, clock=clock, chance=chance, namespace=NAMESPACE)
        informer.subscribe(lambda news: seen.receive(list(news)))
        watching = asyncio.create_task(informer.run())
        yield client
        watching.cancel()


async def measure(plane: ControlPlane, mode: str, given: argparse.Namespace) -> dict[str, Any]:
    ours = {
        "scheduler": Process(
            plane, "scheduler", "--no-leader-elect", "--listen", "127.0.0.1:0", ready="scheduler_started"
        ),
        "controllers": Process(plane, "controllers", "--no-leader-elect", ready="controllers_started"),
    }
    try:
        for process in ours.values():
            await asyncio.to_thread(process.wait)
        seen = Seen()
        async with a_client(plane, seen) as client:
            found = await MODES[mode](Bench(client, seen, given, ours))
    finally:
        for process in ours.values():
            process.end()
    return {"bench": f"live {mode}", "nodes": given.nodes, **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modes", nargs="*", metavar="MODE", choices=[[], "limit", *MODES])
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--limit", type=int, default=2_000, help="pods that the limit is measured with")
    parser.add_argument("--jobs", type=int, default=50, help="of the burst")
    parser.add_argument("--size", type=int, default=50, help="of the burst's Jobs")
    parser.add_argument("--large", type=int, default=2_000, help="pods of each of the two large Jobs")
    parser.add_argument("--trickle", type=int, default=30, help="Jobs, one after the other")
    parser.add_argument("--bare", type=int, default=1_000, help="pods without a group")
    parser.add_argument("--waiting", type=int, default=200, help="gangs that wait")
    parser.add_argument("--settle-s", type=float, default=15.0, help="until gangs that wait have been told so")
    given = parser.parse_args()
    limit = 0.0
    for mode in given.modes or ("limit", "trickle", "burst", "large"):
        if mode == "limit":
            figure = measure_limit(given)
            limit = figure["pods_per_s"]
        else:
            with a_plane(mode, given.nodes) as plane:
                figure = asyncio.run(measure(plane, mode, given))
            if limit and mode in {"burst", "large"}:
                figure["of_limit"] = round(figure["pods_per_s"] / limit, 2)
        print(json.dumps(figure), flush=True)


if __name__ == "__main__":
    main()

"""The whole system on the real API server: Jobs in, bound pods out; scheduler and controllers as their own processes.

    python -m bench.live [MODE ...] [--nodes 1000]

Each mode has a server of its own and prints one JSON line, with the CPU that the scheduler and the controllers used, the most memory
that they held, and what they wrote (bench/live_writes.py). Without a mode: limit, trickle, burst and large.

| mode    | what                                                                                                       |
|---------|------------------------------------------------------------------------------------------------------------|
| limit   | bare create and bind calls of one process and 32 connections, nothing else at work (bench/live_limit.py)    |
| trickle | a Job of 8 every 1.3 s, from created to last bind                                                           |
| burst   | 50 Jobs of 50 at once                                                                                       |
| large   | 2 Jobs of 2,000 at once                                                                                     |
| bare    | 1,000 pods without a group, at once; and the same for kube-scheduler                                        |
| waiting | 200 gangs of 8 nodes wait on a full cluster, and one that runs is deleted: until another has all its pods    |
| reclaim | a queue holds all nodes, and 10 Jobs of 50 nodes of another want their own: until these are bound            |

`of_limit` is the share of the limit that was measured in the same run, where it was. `over_budget` is what was written beyond the budget.
`calibrated` is the CPU time of both processes over that of the calibration loop (bench/engine.py).
CPU and writes of `waiting` and `reclaim` are those after their cluster was full.
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
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.kube.control_plane import ControlPlane
from tools.kube.kinds import install_kinds
from tools.kube.nodes import pretend_nodes

from bench.engine import best, calibration
from bench.live_limit import NAMESPACE, a_template, make_namespace
from bench.live_writes import AuditLog, by_process, over_budget
from bench.processes import Process, cpu_s, peak_mb
from pumice.api.batch import Job
from pumice.api.changes import Deleted, Upserted
from pumice.api.pods import Pod
from pumice.api.scheduling import Queue
from pumice.clock import RealClock
from pumice.kube import config
from pumice.kube.client import Client
from pumice.kube.direct import DirectTransport
from pumice.kube.informer import Informer, News

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

WAIT_S_MAX = 900.0  # for anything at all
SUBMITTED_AT_ONCE = 32
REST_S = 3.0  # when nothing was written for so long, all has been
GPUS = 8  # of a node
# Beyond so many, nodes are made ready and have no leases: they would come up for many minutes, and renew leases for ever.
NODES_WITH_LEASES_MAX = 2_000


def a_job(name: str, size: int, *, queue: str = "default", minimum: int | None = None, gpus: int = 1) -> dict[str, Any]:
    least = size if minimum is None else minimum
    task = {"name": "worker", "replicas": size, "minAvailable": least, "template": {"spec": a_template(gpus)}}
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

    def __init__(
        self, client: Client, seen: Seen, given: argparse.Namespace, ours: dict[str, Process], log: AuditLog
    ) -> None:
        self.client = client
        self.seen = seen
        self.nodes: int = given.nodes
        self.given = given
        self._ours = ours
        self._log = log
        self.begin()

    def begin(self) -> None:
        """What was used and written so far counts for nobody."""
        self._used = {name: cpu_s(process.pid) for name, process in self._ours.items()}
        self._written = self._log.count()
        self._cycles = self._planned()

    def _planned(self) -> int:
        return int(self._ours["scheduler"].metric("pumice_cycles_total"))

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

    def weighed(self, pods: int = 0) -> dict[str, float]:
        """What the processes used since it began, all together and for each of so many pods, and the most that they held."""
        used = {name: cpu_s(each.pid) - self._used[name] for name, each in self._ours.items()}
        found = {f"{name}_cpu_s": round(seconds, 2) for name, seconds in used.items()}
        if pods:
            found |= {f"{name}_ms_a_pod": round(seconds / pods * 1e3, 2) for name, seconds in used.items()}
        held = {f"{name}_mb": peak_mb(each.pid) for name, each in self._ours.items()}
        return {"cycles": self._planned() - self._cycles, **found, **held}

    async def written(self, *, pods: int = 0, gangs: int = 0) -> dict[str, Any]:
        """What the processes wrote since it began, once they have come to rest; held against the budget of so many pods and gangs."""
        written, last = self._log.count(), None
        while written != last:
            last = written
            await asyncio.sleep(REST_S)
            written = self._log.count()
        written -= self._written
        over = {"over_budget": over_budget(written, pods=pods, gangs=gangs)} if pods else {}
        return {"writes": by_process(written), **over}


async def at_once(bench: Bench, count: int, size: int) -> dict[str, Any]:
    jobs = [a_job(f"burst-{number}", size) for number in range(count)]
    began = time.monotonic()
    created = await bench.submit(jobs)
    ends = await bench.bound(jobs)
    took = max(ends) - began
    waits = [end - created[job["metadata"]["name"]] for job, end in zip(jobs, ends, strict=True)]
    figures = {
        "jobs": count,
        "size": size,
        "seconds": round(took, 2),
        "pods_per_s": round(count * size / took, 1),
        "gang_p50_s": round(statistics.median(waits), 2),
        "gang_p50_of_all": round(statistics.median(waits) / took, 2),
        **bench.weighed(count * size),
    }
    return figures | await bench.written(pods=count * size, gangs=count)


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
        **bench.weighed(len(waits) * 8),
        **await bench.written(pods=len(waits) * 8 + 8, gangs=len(waits) + 1),
    }


async def bare(bench: Bench) -> dict[str, Any]:
    """Pods that name a scheduler and no group, first ours, then kube-scheduler."""
    ours = await bare_of(bench, "volcano")
    figures = {"pods_per_s": ours, **bench.weighed(bench.given.bare), **await bench.written()}
    return {
        "pods": bench.given.bare,
        "kube_scheduler_pods_per_s": await bare_of(bench, "default-scheduler"),
        **figures,
    }


async def bare_of(bench: Bench, scheduler: str) -> float:
    """How many pods a second this scheduler binds, from the first create to the last bind."""
    left, began = iter(range(bench.given.bare)), time.monotonic()

    async def work() -> None:
        for number in left:
            spec = {**a_template(), "schedulerName": scheduler}
            body = {"metadata": {"name": f"{scheduler}-worker-{number}"}, "spec": spec}
            await bench.client.create(Pod, body, namespace=NAMESPACE)

    await asyncio.gather(*(work() for _ in range(SUBMITTED_AT_ONCE)))
    took = await bench.seen.until(scheduler, bench.given.bare) - began
    return round(float(bench.given.bare / took), 1)


async def waiting(bench: Bench) -> dict[str, Any]:
    running = [a_job(f"runs-{number}", 8, gpus=GPUS) for number in range(bench.nodes // 8)]
    waits = [a_job(f"waits-{number}", 8, gpus=GPUS) for number in range(bench.given.waiting)]
    await bench.submit(running)
    await bench.bound(running)
    filling = bench.weighed(8 * len(running))  # a pod a node
    await bench.written()  # that they run, too: it is none of what follows
    bench.begin()
    await bench.submit(waits)
    told = await bench.written()  # they are admitted, refused and told
    told_cpu = bench.weighed()
    bench.begin()
    began = time.monotonic()
    await bench.client.delete(Job, "runs-0", namespace=NAMESPACE)
    while not any(len(pods) == 8 for job, pods in bench.seen.bound.items() if job.startswith("waits-")):
        await bench.seen.news()
    return {
        "gangs": len(waits),
        "seconds": round(time.monotonic() - began, 3),
        **bench.weighed(),
        **await bench.written(),
        "filling": filling,
        "waiting": {**told_cpu, **told},
    }


async def reclaim(bench: Bench) -> dict[str, Any]:
    for name in ("lender", "owner"):
        named = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
        await bench.client.create(Queue, {**named, "spec": {"weight": 1, "reclaimable": True}})
    all_nodes, wanted = range(bench.nodes // 50), range(bench.given.reclaim // 50)
    lenders = [a_job(f"lends-{number}", 50, queue="lender", minimum=1, gpus=GPUS) for number in all_nodes]
    owners = [a_job(f"owns-{number}", 50, queue="owner", gpus=GPUS) for number in wanted]
    await bench.submit(lenders)
    await bench.bound(lenders)
    await bench.written()
    bench.begin()
    began = time.monotonic()
    await bench.submit(owners)
    took = max(await bench.bound(owners)) - began
    pods = 50 * len(owners)
    return {"pods": pods, "seconds": round(took, 2), **bench.weighed(pods), **await bench.written()}


MODES: dict[str, Callable[[Bench], Awaitable[dict[str, Any]]]] = {
    "trickle": trickle,
    "burst": burst,
    "large": large,
    "bare": bare,
    "waiting": waiting,
    "reclaim": reclaim,
}


@contextlib.contextmanager
def a_plane(mode: str, nodes: int) -> Iterator[tuple[ControlPlane, AuditLog]]:
    is_large = nodes > NODES_WITH_LEASES_MAX
    with tempfile.TemporaryDirectory() as folder:
        log = AuditLog(Path(folder), user="admin", namespace=NAMESPACE)
        untainted = ["--disable-admission-plugins=TaintNodesByCondition"] if is_large else []
        arguments = {"kube-apiserver": [*log.arguments, *untainted]}
        machines = pretend_nodes(nodes, gpus=GPUS, ready=is_large)
        lease_s = 0 if is_large else 40
        made = ControlPlane(nodes=machines, scheduler=mode == "bare", node_lease_s=lease_s, arguments=arguments)
        with made as plane:
            install_kinds(plane)
            yield plane, log


def measure_limit(given: argparse.Namespace) -> dict[str, Any]:
    """In a process of its own: a client that has other work to do would measure itself."""
    with a_plane("limit", given.nodes) as (plane, _):
        words = ("--pods", str(given.limit), "--nodes", str(given.nodes))
        command = [sys.executable, "-m", "bench.live_limit", str(plane.kubeconfig), *words]
        found: dict[str, Any] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return found


@contextlib.asynccontextmanager
async def a_client(plane: ControlPlane, seen: Seen) -> AsyncIterator[Client]:
    clock, chance = RealClock(), random.Random(1)  # noqa: S311  jitter
    connection = config.find(str(plane.kubeconfig), clock=clock)
    async with DirectTransport(connection, user_agent="pumice-bench") as transport:
        client = Client(transport, clock=clock, chance=chance)
        await make_namespace(client)
        informer = Informer(client, Pod, clock=clock, chance=chance, namespace=NAMESPACE)
        informer.subscribe(lambda news: seen.receive(list(news)))
        watching = asyncio.create_task(informer.run())
        yield client
        watching.cancel()


async def measure(plane: ControlPlane, log: AuditLog, mode: str, given: argparse.Namespace) -> dict[str, Any]:
    # Ports of their own: others on this machine may have those that these processes take by themselves.
    words = ("--no-leader-elect", "--listen", "127.0.0.1:0")
    ours = {name: Process(plane, name, *words, ready=f"{name}_started") for name in ("scheduler", "controllers")}
    try:
        for process in ours.values():
            await asyncio.to_thread(process.wait)
        seen = Seen()
        async with a_client(plane, seen) as client:
            found = await MODES[mode](Bench(client, seen, given, ours, log))
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
    parser.add_argument("--reclaim", type=int, default=500, help="pods that are reclaimed for Jobs of 50")
    given = parser.parse_args()
    limit, base = 0.0, best(calibration).cpu_s
    for mode in given.modes or ("limit", "trickle", "burst", "large"):
        if mode == "limit":
            figure = measure_limit(given)
            limit = figure["pods_per_s"]
        else:
            with a_plane(mode, given.nodes) as (plane, log):
                figure = asyncio.run(measure(plane, log, mode, given))
            if limit and mode in {"burst", "large"}:
                figure["of_limit"] = round(figure["pods_per_s"] / limit, 2)
            figure["calibrated"] = round((figure["scheduler_cpu_s"] + figure["controllers_cpu_s"]) / base, 1)
        print(json.dumps(figure), flush=True)


if __name__ == "__main__":
    main()

"""The whole system on the real API server: Jobs in, bound pods out; scheduler and controllers as their own processes.

    python -m bench.live [--nodes 1000] [--jobs 50] [--size 50] [--trickle 30]

One JSON line for the burst (all Jobs at once) and one for the trickle (a Job of 8 every 1.3 s, from created to last bind).
The limit that design allows is measured in the same run: bare create and bind calls with the same client.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tools.kube.control_plane import ControlPlane
from tools.kube.kinds import install_kinds
from tools.kube.nodes import pretend_nodes

from pumice.api import kinds
from pumice.api.batch import Job
from pumice.api.changes import Upserted
from pumice.api.core import Namespace, ServiceAccount
from pumice.api.pods import Pod
from pumice.clock import RealClock
from pumice.kube import config
from pumice.kube.client import Client
from pumice.kube.http import HttpTransport
from pumice.kube.informer import Informer, News

BURST_S_MAX = 300.0
IN_FLIGHT = 64


def a_job(name: str, size: int) -> dict[str, Any]:
    container = {
        "name": "worker",
        "image": "train",
        "resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"cpu": "1"}},
    }
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    task = {"name": "worker", "replicas": size, "minAvailable": size, "template": template}
    spec = {"minAvailable": size, "schedulerName": "volcano", "queue": "default", "maxRetry": 3, "tasks": [task]}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


class Seen:
    """When each pod was first seen bound, by Job."""

    def __init__(self) -> None:
        self.bound: dict[str, dict[str, float]] = {}
        self.changed = asyncio.Event()

    def receive(self, news: list[News]) -> None:
        now = time.monotonic()
        for change in news:
            if isinstance(change, Upserted) and isinstance(change.object, Pod) and change.object.spec.node_name:
                meta = change.object.metadata
                self.bound.setdefault(meta.name.rsplit("-worker-", 1)[0], {}).setdefault(meta.name, now)
                self.changed.set()

    async def until(self, job: str, size: int) -> float:
        """The time at which the last of so many pods was bound."""
        while len(self.bound.get(job, {})) < size:
            self.changed.clear()
            await self.changed.wait()
        return max(self.bound[job].values())


async def burst(client: Client, seen: Seen, jobs: int, size: int) -> dict[str, Any]:
    began = time.monotonic()
    created: dict[str, float] = {}

    async def submit(name: str) -> None:
        await client.create(Job, a_job(name, size), namespace="bench")
        created[name] = time.monotonic()

    names = [f"burst-{number}" for number in range(jobs)]
    await asyncio.gather(*(submit(name) for name in names))
    async with asyncio.timeout(BURST_S_MAX):
        ends = [await seen.until(name, size) for name in names]
    took = max(ends) - began
    waits = [end - created[name] for name, end in zip(names, ends, strict=True)]
    return {
        "bench": "live burst",
        "jobs": jobs,
        "size": size,
        "seconds": round(took, 2),
        "pods_per_s": round(jobs * size / took, 1),
        "gang_p50_s": round(statistics.median(waits), 2),
    }


async def trickle(client: Client, seen: Seen, count: int) -> dict[str, Any]:
    """One small Job after another on an idle cluster, once everybody has started: the first one shows that and is not counted."""
    waits = []
    for number in range(count + 1):
        name = f"trickle-{number}"
        began = time.monotonic()
        await client.create(Job, a_job(name, 8), namespace="bench")
        waits.append(await seen.until(name, 8) - began)
        await asyncio.sleep(max(1.3 - (time.monotonic() - began), 0))
    waits = sorted(waits[1:])
    return {
        "bench": "live trickle",
        "jobs": count,
        "size": 8,
        "p50_s": round(statistics.median(waits), 3),
        "p99_s": round(waits[min(int(len(waits) * 0.99), len(waits) - 1)], 3),
    }


async def limit(client: Client, pods: int) -> dict[str, Any]:
    """Bare create and bind calls: what the API server gives to anybody."""
    window = asyncio.Semaphore(IN_FLIGHT)
    template = a_job("x", 1)["spec"]["tasks"][0]["template"]["spec"]

    async def one(number: int) -> None:
        async with window:
            body = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"bare-{number}"},
                "spec": {**template, "schedulerName": "x"},
            }
            made = (await client.create(Pod, body, namespace="bench")).json()
            await client.bind(
                f"bare-{number}", namespace="bench", uid=made["metadata"]["uid"], node=f"node-{number % 100}"
            )

    began = time.monotonic()
    await asyncio.gather(*(one(number) for number in range(pods)))
    return {"bench": "live limit", "pods": pods, "pods_per_s": round(pods / (time.monotonic() - began), 1)}


async def measure(plane: ControlPlane, given: argparse.Namespace) -> None:
    clock, chance = RealClock(), random.Random(1)  # noqa: S311  jitter
    connection = config.find(str(plane.kubeconfig), clock=clock)
    async with HttpTransport(connection, user_agent="pumice-bench") as transport:
        client = Client(transport, clock=clock, chance=chance)
        await client.create(Namespace, {"metadata": {"name": "bench"}})
        while not await client.list_json(kinds.by_struct(ServiceAccount), namespace="bench"):  # noqa: ASYNC110
            await asyncio.sleep(0.1)  # the server tells nobody when it has made it
        seen = Seen()
        informer = Informer(client, Pod, clock=clock, chance=chance, namespace="bench")
        informer.subscribe(lambda news: seen.receive(list(news)))
        watching = asyncio.create_task(informer.run())
        for figure in (
            await trickle(client, seen, given.trickle),
            await burst(client, seen, given.jobs, given.size),
            await limit(client, 2000),
        ):
            sys.stdout.write(json.dumps({**figure, "nodes": given.nodes}) + "\n")
            sys.stdout.flush()
        watching.cancel()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=50)
    parser.add_argument("--size", type=int, default=50)
    parser.add_argument("--trickle", type=int, default=30)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ControlPlane(nodes=pretend_nodes(given.nodes, gpus=8)) as plane:
        install_kinds(plane)
        running = []
        for words in (
            ("scheduler", "--no-leader-elect", "--listen", "127.0.0.1:0"),
            ("controllers", "--no-leader-elect"),
        ):
            with (Path(folder) / f"{words[0]}.log").open("w") as log:
                command = [sys.executable, "-m", "pumice.cli", *words, "--kubeconfig", str(plane.kubeconfig)]
                running.append(subprocess.Popen(command, stdout=log, stderr=log, env=dict(os.environ)))
        try:
            asyncio.run(measure(plane, given))
        finally:
            for process in running:
                process.terminate()
                process.wait(timeout=20)


if __name__ == "__main__":
    main()

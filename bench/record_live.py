"""What keeping the record costs: the controllers' CPU for many small Jobs on the real API server, with it and without.

    python -m bench.record_live [--jobs 1000] [--rounds 2] [--url postgresql://...]

Rounds alternate, because the machine is not the same for two minutes. One JSON line a round with the seconds of CPU between ready and the
last Job's end (`threads_cpu_s`: of all threads but the event loop's, which is the record's own work and varies less with what else the
machine does), and how far the record was behind then; one at the end with the ratio of the medians.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import tempfile
import time
from typing import Any

from tools.kube.control_plane import ControlPlane
from tools.kube.kinds import install_kinds

from bench.processes import Process, cpu_s, threads_cpu_s
from pumice.api import names
from pumice.api.batch import Job
from pumice.api.changes import Upserted
from pumice.clock import RealClock
from pumice.kube import config
from pumice.kube.client import Client
from pumice.kube.http import HttpTransport
from pumice.kube.informer import Informer, News

SIZE = 4
ROUND_S_MAX = 900.0
IN_FLIGHT = 64


def a_job(name: str) -> dict[str, Any]:
    resources = {"limits": {"nvidia.com/gpu": "1"}, "requests": {"cpu": "1"}}
    pod = {"containers": [{"name": "worker", "image": "train", "resources": resources}], "restartPolicy": "Never"}
    template = {"metadata": {"annotations": {names.PRETEND_RUN: "2s"}}, "spec": pod}
    task = {"name": "worker", "replicas": SIZE, "minAvailable": SIZE, "template": template}
    spec = {"minAvailable": SIZE, "schedulerName": "volcano", "queue": "default", "tasks": [task]}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


async def one_round(client: Client, prefix: str, count: int) -> None:
    """Submit all and wait for their end."""
    left, done = {f"{prefix}-{number}" for number in range(count)}, asyncio.Event()

    def see(news: list[News]) -> None:
        for change in news:
            job = change.object if isinstance(change, Upserted) else None
            if isinstance(job, Job) and job.status.state.phase == "Completed":
                left.discard(job.metadata.name)
        if not left:
            done.set()

    informer = Informer(client, Job, clock=RealClock(), chance=random.Random(1), namespace="default")  # noqa: S311
    informer.subscribe(lambda news: see(list(news)))
    watching = asyncio.create_task(informer.run())
    window = asyncio.Semaphore(IN_FLIGHT)

    async def submit(name: str) -> None:
        async with window:
            await client.create(Job, a_job(name), namespace="default")

    async with asyncio.timeout(ROUND_S_MAX):
        await asyncio.gather(*(submit(name) for name in sorted(left)))
        await done.wait()
    watching.cancel()


async def measure(plane: ControlPlane, jobs: int, words: list[str]) -> dict[str, Any]:
    """One round, on a server of its own: what an earlier one left would make this one slower."""
    connection = config.find(str(plane.kubeconfig), clock=RealClock())
    ready = "record_opened" if words else "controllers_started"
    controllers = Process(plane, "controllers", "--no-leader-elect", "--listen", "127.0.0.1:0", *words, ready=ready)
    try:
        async with HttpTransport(connection, user_agent="pumice-bench") as transport:
            client = Client(transport, clock=RealClock(), chance=random.Random(1))  # noqa: S311  jitter
            await asyncio.to_thread(controllers.wait)
            before, beside, began = cpu_s(controllers.pid), threads_cpu_s(controllers.pid), time.monotonic()
            await one_round(client, "job", jobs)
            used, beside = cpu_s(controllers.pid) - before, threads_cpu_s(controllers.pid) - beside
            lag = await asyncio.to_thread(controllers.metric, "pumice_record_lag_seconds")
    finally:
        controllers.end()
    seconds = round(time.monotonic() - began, 1)
    return {
        "bench": "record live",
        "record": bool(words),
        "jobs": jobs,
        "size": SIZE,
        "cpu_s": round(used, 2),
        "threads_cpu_s": round(beside, 2),
        "seconds": seconds,
        "lag_s": round(lag, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--jobs", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--url", default="", help="a database; without it a new file")
    given = parser.parse_args()
    spent: dict[bool, list[float]] = {False: [], True: []}
    for number in range(2 * given.rounds):
        keeps = number % 2 == 1
        with tempfile.TemporaryDirectory() as folder, ControlPlane(nodes=()) as plane:
            install_kinds(plane)
            nodes = Process(plane, "node", "--pretend", "64", "--gpus", "64")
            scheduler = Process(plane, "scheduler", "--no-leader-elect", "--listen", "127.0.0.1:0")
            try:
                words = ["--record", given.url or f"sqlite:///{folder}/record.db"] if keeps else []
                found = asyncio.run(measure(plane, given.jobs, words))
            finally:
                scheduler.end()
                nodes.end()
        spent[keeps].append(found["cpu_s"])
        print(json.dumps(found), flush=True)
    ratio = statistics.median(spent[True]) / statistics.median(spent[False])
    print(json.dumps({"bench": "record live", "jobs": given.jobs, "more_cpu_percent": round((ratio - 1) * 100, 1)}))


if __name__ == "__main__":
    main()

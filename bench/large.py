"""Scheduler and controllers as processes beside a large cluster in which all work runs: memory, restart, and a cycle after one change.

    python -m bench.large [--nodes 5000] [--pods 50000] [--changes 20] [--overdue]

The embedded API server is in the benchmark's own process and is filled without a socket; the two processes list and watch it over HTTPS. A change
is a Job of one pod that is made and finds no room: the gang is admitted, its pod made, and it is told why it waits. Then it is deleted. A cycle's cost is all that the
scheduler's process uses meanwhile, divided by its cycles: status, view and metrics are in it. With `--overdue`, all gangs run for longer than was expected.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import random
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from bench.memory import node, pod
from bench.processes import Process, cpu_s, peak_mb
from bench.restart import arguments
from pumice.api import decoding
from pumice.api.batch import Job
from pumice.clock import RealClock
from pumice.controllers.job.podgroup import group_operation
from pumice.controllers.job.pods import PodMaker
from pumice.controllers.operations import Create
from pumice.kube.client import Client
from pumice.kube.errors import NotFound
from pumice.kube.transport import Request
from pumice.local.apiserver.local import LocalTransport
from pumice.local.apiserver.serving import EmbeddedServer, Place
from pumice.local.up import install_kinds

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from pumice.api.meta import Json

GANG = 8
NAMESPACE = "research"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
JOBS = f"/apis/batch.volcano.sh/v1alpha1/namespaces/{NAMESPACE}/jobs"
GROUPS = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{NAMESPACE}/podgroups"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
JSON = {"content-type": "application/json"}
REST_S = 3.0  # in which nothing is planned: all that follows from a change has been
POLL_S = 0.05
WAIT_S_MAX = 120.0  # for anything that follows from one change
RUNS_S = 600  # so far; an hour is what is expected of gangs of which nothing is known
OVERDUE_S = 30 * 24 * 3_600


class Cluster:
    """An embedded server with nodes, Jobs, groups and pods as the controllers and the scheduler would have made them."""

    def __init__(self, client: Client, started: str) -> None:
        self._client = client
        self._started = started

    async def post(self, path: str, body: Json) -> Json:
        answer = await self._client.call(Request("POST", path, {}, JSON, msgspec.json.encode(body)))
        made: Json = msgspec.json.decode(answer.body)
        return made

    async def with_status(self, path: str, body: Json, status: Json) -> Json:
        made = await self.post(path, body)
        where = f"{path}/{made['metadata']['name']}/status"
        body = {**made, "status": status}
        answer = await self._client.call(Request("PUT", where, {}, JSON, msgspec.json.encode(body)))
        told: Json = msgspec.json.decode(answer.body)
        return told

    async def fill(self, nodes: int, pods: int) -> None:
        await self.post("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        await self.post(QUEUES, {"metadata": {"name": "default"}, "spec": {"weight": 1}})
        for number in range(nodes):
            body = json.loads(node(number, gpus=pods // nodes))  # all of them are in use
            del body["metadata"]["uid"]
            await self.with_status("/api/v1/nodes", body, body.pop("status"))
        for number in range(pods // GANG):
            await self._gang(number, nodes)

    async def _gang(self, number: int, nodes: int) -> None:
        example = json.loads(pod(number * GANG, nodes))
        spec = {key: example["spec"][key] for key in ("containers", "tolerations", "volumes", "schedulerName")}
        counts = {"worker": {"phase": {"Running": GANG}}}
        state = {"phase": "Running", "lastTransitionTime": self._started}
        status = {"state": state, "minAvailable": GANG, "running": GANG, "taskStatusCount": counts}
        progress = msgspec.json.encode({"members": {"worker": f"0-{GANG - 1}"}}).decode()
        status["controlledResources"] = {"pumice.dev/progress": progress}
        written = await self.with_status(JOBS, a_job(f"job-{number}", GANG, spec), status)
        job = decoding.decode(Job, msgspec.json.encode(written))
        group = group_operation(job, None, {})
        assert isinstance(group, Create)
        ready = "tasks in gang are ready to be scheduled"
        scheduled = {"type": "Scheduled", "status": "True", "reason": ready, "lastTransitionTime": self._started}
        body: Json = {**group.body, "status": {"phase": "Running", "running": GANG, "conditions": [scheduled]}}
        await self.post(GROUPS, body)
        maker = PodMaker(job, (), group="", forwarded=False)
        for index, made in enumerate(maker.pods_of(job.spec.tasks[0], range(GANG))):
            made["spec"]["nodeName"] = f"node-{(number * GANG + index) % nodes:05}"
            told = {**example["status"], "startTime": self._started}
            await self.with_status(PODS, made, told)

    async def change(self, number: int) -> None:
        """A Job that finds no room comes and, when it was told so, goes."""
        asks = {"nvidia.com/gpu": "1"}
        container = {"name": "worker", "image": "registry.example/one", "resources": {"limits": asks}}
        name = f"change-{number}"
        made = await self.post(JOBS, a_job(name, 1, {"containers": [container]}))
        group = f"{GROUPS}/{name}-{made['metadata']['uid']}"
        await self._until(group, lambda body: b"Unschedulable" in body)
        await self._client.call(Request("DELETE", f"{JOBS}/{name}"))
        await self._until(group, lambda body: not body)

    async def _until(self, path: str, holds: Callable[[bytes], bool]) -> None:
        async with asyncio.timeout(WAIT_S_MAX):
            while not holds(await self._body(path)):  # noqa: ASYNC110  other processes change it
                await asyncio.sleep(POLL_S)

    async def _body(self, path: str) -> bytes:
        try:
            return (await self._client.call(Request("GET", path))).body
        except NotFound:
            return b""


def a_job(name: str, size: int, spec: Json) -> Json:
    task = {"name": "worker", "replicas": size, "minAvailable": size, "template": {"spec": spec}}
    wanted = {"minAvailable": size, "schedulerName": "volcano", "queue": "default", "maxRetry": 3, "tasks": [task]}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": wanted,
    }


async def rest(process: Process) -> None:
    """Returns when the process has planned nothing for a while."""
    seen = 0.0
    while seen != (planned := await asyncio.to_thread(process.metric, "pumice_cycles_total")) or not seen:
        seen = planned
        await asyncio.sleep(REST_S)


async def measure(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    age_s = OVERDUE_S if given.overdue else RUNS_S
    started = (dt.datetime.now(dt.UTC) - dt.timedelta(seconds=age_s)).strftime("%Y-%m-%dT%H:%M:%SZ")
    async with EmbeddedServer(Place(folder)) as server:
        client = Client(LocalTransport(server.server), clock=RealClock(), chance=random.Random(1))  # noqa: S311  jitter
        await install_kinds(client)
        cluster = Cluster(client, started)
        await cluster.fill(given.nodes, given.pods)
        words = ("--no-leader-elect", "--listen", "127.0.0.1:0")
        scheduler = Process(server, "scheduler", *words, ready="scheduler_started")
        controllers = Process(server, "controllers", *words, ready="controllers_started")
        try:
            await asyncio.to_thread(scheduler.wait)
            restart_s = cpu_s(scheduler.pid)
            await asyncio.to_thread(controllers.wait)
            await rest(scheduler)
            return {"restart_cpu_s": restart_s, **await changes(given, cluster, scheduler, controllers)}
        finally:
            scheduler.end()
            controllers.end()


async def changes(
    given: argparse.Namespace, cluster: Cluster, scheduler: Process, controllers: Process
) -> dict[str, Any]:
    cycles, used, theirs = scheduler.metric("pumice_cycles_total"), cpu_s(scheduler.pid), cpu_s(controllers.pid)
    planned = scheduler.metric("pumice_cycle_seconds_sum")
    for number in range(given.changes):
        await cluster.change(number)
    count = scheduler.metric("pumice_cycles_total") - cycles
    return {
        "cycles": int(count),
        "cycle_cpu_ms": round((cpu_s(scheduler.pid) - used) / count * 1e3, 1),
        "cycle_wall_ms": round((scheduler.metric("pumice_cycle_seconds_sum") - planned) / count * 1e3, 1),
        "controllers_cpu_s": round(cpu_s(controllers.pid) - theirs, 2),
        "scheduler_mb": peak_mb(scheduler.pid),
        "controllers_mb": peak_mb(controllers.pid),
    }


def main() -> None:
    given = arguments(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(measure(given, Path(folder)))
    sizes = {"nodes": given.nodes, "pods": given.pods, "overdue": given.overdue}
    print(json.dumps({"bench": "large", **sizes, **figures, "cpu_s": round(time.process_time(), 1)}))


if __name__ == "__main__":
    main()

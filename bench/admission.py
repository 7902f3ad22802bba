"""Admission reviews on one core: how many a second, and how long the slowest take.

The server runs in a process of its own, on one core, over TLS as API servers call it; callers on other cores send Jobs, pods and
PodGroups at a steady pace, so that a slow answer is counted from the moment at which its question was due.

2026-11-15, two cores that were busy with other work, so under `chrt -f 10`: p50 1.0 ms, p99 2.2 ms at 1,000 reviews a second, which took 0.44
of the server's core; 2,300 reviews for each second of a core's time.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import multiprocessing
import os
import ssl
import time
from typing import TYPE_CHECKING, Any

from pumice.api.decoding import decode_value
from pumice.api.scheduling import Queue
from pumice.api.validation import ClusterSize, Settings
from pumice.telemetry.meters import Meters
from pumice.webhooks.admission import Admission
from pumice.webhooks.certificate_store import ServingContext
from pumice.webhooks.keys import Keys, Lives, renew
from pumice.webhooks.reviews import Reviewer
from pumice.webhooks.serving import ReviewServer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from multiprocessing.connection import Connection

RATE = 1_000  # reviews a second
SECONDS = 10.0
WARM_UP_S = 2.0
CONNECTIONS = 16
QUEUES = 100


class World:
    """A cluster of a hundred queues."""

    def __init__(self) -> None:
        names = ["root", *(f"q{number}" for number in range(QUEUES))]
        self._queues = {
            name: decode_value(
                Queue, {"metadata": {"name": name}, "spec": {"parent": "root"}, "status": {"state": "Open"}}
            )
            for name in names
        }

    def queue(self, name: str) -> Queue | None:
        return self._queues.get(name)

    def queues(self) -> Sequence[Queue]:
        return list(self._queues.values())

    def children(self, queue: str) -> Sequence[Queue]:
        return self.queues()[1:] if queue == "root" else ()

    def job_template(self, namespace: str, name: str) -> None:
        del namespace, name

    def namespace_annotations(self, namespace: str) -> dict[str, str]:
        del namespace
        return {}

    def priority_class(self, name: str) -> None:
        del name

    def cluster_size(self) -> ClusterSize:
        return ClusterSize(
            total={"cpu": "1000", "memory": "10Ti", "nvidia.com/gpu": 1000},
            largest_node={"cpu": "64", "memory": "1Ti", "nvidia.com/gpu": 8},
        )


def reviews() -> list[tuple[str, bytes]]:
    """What a busy cluster sends: a Job of three tasks as people write them, its group, and pods."""
    container = {
        "name": "main",
        "image": "registry.example.com/train:1",
        "command": ["torchrun", "train.py"],
        "env": [{"name": f"VARIABLE_{number}", "value": "x" * 20} for number in range(20)],
        "resources": {"limits": {"nvidia.com/gpu": 1, "cpu": "8", "memory": "64Gi"}},
    }
    spec = {"restartPolicy": "Never", "schedulerName": "volcano", "containers": [container]}
    tasks = [{"name": name, "replicas": 2, "template": {"spec": spec}} for name in ("master", "worker", "evaluator")]
    job = {
        "queue": "q7",
        "minAvailable": 6,
        "schedulerName": "volcano",
        "tasks": tasks,
        "plugins": {"svc": [], "env": []},
    }
    subjects = [
        ("jobs", "batch.volcano.sh", "v1alpha1", "Job", job),
        ("podgroups", "scheduling.volcano.sh", "v1beta1", "PodGroup", {"queue": "q7", "minMember": 6}),
        ("pods", "", "v1", "Pod", spec),
        ("pods", "", "v1", "Pod", spec),
    ]
    found = []
    for plural, group, version, kind, wanted in subjects:
        subject = {
            "apiVersion": f"{group}/{version}".lstrip("/"),
            "kind": kind,
            "metadata": {"name": "train", "namespace": "team"},
            "spec": wanted,
        }
        asked = {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": {"group": group, "version": version, "kind": kind},
            "operation": "CREATE",
            "namespace": "team",
            "userInfo": {"username": "alice", "groups": ["blue"]},
            "object": subject,
        }
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked}
        found += [(f"/{plural}/{verb}", json.dumps(body).encode()) for verb in ("mutate", "validate")]
    return found


# ------------------------------------------------------------------------------------------------------------ server


def _serve(keys: Keys, pipe: Connection) -> None:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    asyncio.run(_served(keys, pipe))


async def _served(keys: Keys, pipe: Connection) -> None:
    context = ServingContext()
    context.take_up(keys.pair)
    reviewer = Reviewer(World(), Settings())
    server = ReviewServer(Admission(reviewer), Meters())
    pipe.send(await server.start("127.0.0.1:0", context.context))
    await asyncio.to_thread(pipe.recv)
    await server.stop()
    pipe.send(time.process_time())


# ------------------------------------------------------------------------------------------------------------ callers


class Callers:
    """Send reviews at a steady pace over a few connections, as API servers do; plain streams, so that they need little of a core."""

    def __init__(self, port: int, bundle: bytes) -> None:
        self._port = port
        self._context = ssl.create_default_context(cadata=bundle.decode())
        self._requests = [_http(path, body) for path, body in reviews()]
        self.took: list[float] = []
        self.failed = 0

    async def call(self, rate: int, seconds: float) -> None:
        self.took.clear()
        total, began = int(rate * seconds), time.perf_counter()
        async with asyncio.TaskGroup() as crew:
            for first in range(CONNECTIONS):
                crew.create_task(self._connection(began, rate, range(first, total, CONNECTIONS)))

    async def _connection(self, began: float, rate: int, numbers: range) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, ssl=self._context)
        try:
            for number in numbers:
                due = began + number / rate
                await asyncio.sleep(max(due - time.perf_counter(), 0))
                writer.write(self._requests[number % len(self._requests)])
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                content = await reader.readexactly(length)
                self.took.append(time.perf_counter() - due)
                self.failed += not head.startswith(b"HTTP/1.1 200") or b'"allowed":true' not in content
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


def _http(path: str, body: bytes) -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def measure(rate: int = RATE, seconds: float = SECONDS) -> dict[str, Any]:
    """Latencies in milliseconds at the rate, and how much of its core the server needed."""
    now = dt.datetime.now(dt.UTC)
    keys = renew(None, ["127.0.0.1"], now=now, lives=Lives(), trusted=b"")
    here, there = multiprocessing.get_context("spawn").Pipe()
    server = multiprocessing.get_context("spawn").Process(target=_serve, args=(keys, there))
    server.start()
    try:
        callers = Callers(here.recv(), keys.bundle)
        began = time.perf_counter()
        asyncio.run(callers.call(rate, WARM_UP_S))
        asyncio.run(callers.call(rate, seconds))
        wall = time.perf_counter() - began
        here.send("stop")
        cpu = here.recv()
    finally:
        with contextlib.suppress(OSError):
            here.close()
        server.join(timeout=10)
        if server.is_alive():
            server.kill()
            server.join()
    took = sorted(callers.took)

    def percentile(share: float) -> float:
        return round(took[min(int(len(took) * share), len(took) - 1)] * 1000, 2)

    return {
        "benchmark": "admission",
        "rate": rate,
        "reviews": len(took),
        "failed": callers.failed,
        "p50_ms": percentile(0.5),
        "p99_ms": percentile(0.99),
        "max_ms": percentile(1.0),
        "server_core_share": round(cpu / wall, 3),
        # Whatever else runs on the machine: what one core could do if it did nothing else.
        "reviews_per_core_second": round(rate * (seconds + WARM_UP_S) / cpu),
    }


def main() -> None:
    print(json.dumps(measure()))


if __name__ == "__main__":
    main()

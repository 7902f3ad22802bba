"""How fast the embedded server takes pods: created and bound over HTTPS, while a watcher sees every change once.

    python -m bench.apiserver --pods 10000

One JSON line: pods per second, the server's CPU time per call, and the share of one core that it used.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp

IN_FLIGHT = 64
EVENTS_PER_POD = 2  # created, bound
START_S_MAX = 30.0


def a_pod(number: int) -> bytes:
    container = {
        "name": "worker",
        "image": "registry.example/train:1",
        "command": ["python", "train.py"],
        "env": [{"name": f"VARIABLE_{index}", "value": f"value-{index}"} for index in range(10)],
        "resources": {"requests": {"cpu": "4", "memory": "16Gi"}, "limits": {"nvidia.com/gpu": "1"}},
    }
    labels = {"app": "train", "volcano.sh/job-name": "train", "volcano.sh/task-index": str(number)}
    metadata = {
        "name": f"train-worker-{number}",
        "labels": labels,
        "annotations": {"scheduling.k8s.io/group-name": "train"},
    }
    spec = {"schedulerName": "pumice", "restartPolicy": "Never", "containers": [container]}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}).encode()


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def watch(session: aiohttp.ClientSession, url: str, expected: int) -> dict[str, int]:
    """Counts what comes by pod and type until all is there; a change that came twice would show."""
    seen: dict[str, int] = {}
    async with session.get(f"{url}/api/v1/namespaces/default/pods?watch=true&resourceVersion=0") as answer:
        left = expected
        async for line in answer.content:
            change = json.loads(line)
            key = f"{change['type']} {change['object']['metadata']['name']}"
            seen[key] = seen.get(key, 0) + 1
            left -= 1
            if not left:
                return seen
    raise RuntimeError("the watch ended early")


async def submit(session: aiohttp.ClientSession, url: str, numbers: list[int]) -> None:
    headers = {"content-type": "application/json"}
    while numbers:
        number = numbers.pop()
        async with session.post(f"{url}/api/v1/namespaces/default/pods", data=a_pod(number), headers=headers) as answer:
            created: dict[str, Any] = json.loads(await answer.read())
            assert answer.status == 201, created
        metadata = {"name": created["metadata"]["name"], "uid": created["metadata"]["uid"]}
        target = {"apiVersion": "v1", "kind": "Node", "name": f"node-{number % 100}"}
        binding = json.dumps({"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}).encode()
        path = f"{url}/api/v1/namespaces/default/pods/{metadata['name']}/binding"
        async with session.post(path, data=binding, headers=headers) as answer:
            body = await answer.read()
            assert answer.status == 201, body


async def measure(url: str, folder: Path, pods: int, server: int) -> dict[str, Any]:
    context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    context.load_cert_chain(folder / "admin.crt", folder / "admin.key")
    connector = aiohttp.TCPConnector(limit=IN_FLIGHT + 8, ssl=context)
    async with aiohttp.ClientSession(connector=connector, read_bufsize=2**20) as session:
        watcher = asyncio.create_task(watch(session, url, pods * EVENTS_PER_POD))
        await asyncio.sleep(0.2)
        numbers = list(range(pods))
        began, cpu_began = time.perf_counter(), cpu_seconds(server)
        await asyncio.gather(*(submit(session, url, numbers) for _ in range(IN_FLIGHT)))
        took, cpu = time.perf_counter() - began, cpu_seconds(server) - cpu_began
        seen = await watcher
    return {
        "bench": "apiserver",
        "pods": pods,
        "seconds": round(took, 2),
        "pods_per_s": round(pods / took),
        "server_cpu_us_per_call": round(cpu / (2 * pods) * 1e6),
        "server_cpu_share": round(cpu / took, 2),
        "changes_seen": sum(seen.values()),
        "changes_seen_twice": sum(count > 1 for count in seen.values()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--durable", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        command = [sys.executable, "-m", "pumice.local.apiserver", name, *(["--durable"] if given.durable else [])]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            url = process.stdout.readline().split()[0]
            try:
                result = asyncio.run(measure(url, Path(name), given.pods, process.pid))
            finally:
                process.terminate()
    print(json.dumps(result | {"durable": given.durable}))


if __name__ == "__main__":
    main()

"""What an API server gives to anybody: bare create and bind calls of one process, with nothing else at work.

    python -m bench.live_limit KUBECONFIG [--pods 2000] [--connections 32] [--nodes 1000]

`bench.live` starts it before the scheduler and the controllers, on a server of its own: its figure is the limit that theirs is held against.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from typing import Any

from pumice.api import kinds
from pumice.api.core import Namespace, ServiceAccount
from pumice.api.pods import Pod
from pumice.clock import RealClock
from pumice.kube import config
from pumice.kube.client import Client
from pumice.kube.direct import DirectTransport

NAMESPACE = "bench"


def a_template(gpus: int = 1) -> dict[str, Any]:
    """The pod that all of these benchmarks make: one GPU, or all of a node, and one core."""
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}, "requests": {"cpu": "1"}}
    return {"containers": [{"name": "worker", "image": "train", "resources": resources}], "restartPolicy": "Never"}


async def make_namespace(client: Client) -> None:
    await client.create(Namespace, {"metadata": {"name": NAMESPACE}})
    while not await client.list_json(kinds.by_struct(ServiceAccount), namespace=NAMESPACE):  # noqa: ASYNC110
        await asyncio.sleep(0.1)  # the server tells nobody when it has made it


async def limit(client: Client, pods: int, connections: int, nodes: int) -> dict[str, Any]:
    numbers = iter(range(pods))

    async def work() -> None:
        for number in numbers:
            name = f"bare-{number}"
            spec = {**a_template(), "schedulerName": "nobody"}
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
            made = (await client.create(Pod, body, namespace=NAMESPACE)).into(Pod)
            node = f"node-{number % nodes}"
            await client.bind(name, namespace=NAMESPACE, uid=made.metadata.uid, node=node)

    began, used = time.monotonic(), time.process_time()
    await asyncio.gather(*(work() for _ in range(connections)))
    return {
        "bench": "live limit",
        "pods": pods,
        "pods_per_s": round(pods / (time.monotonic() - began), 1),
        "client_ms_a_pod": round((time.process_time() - used) / pods * 1e3, 3),
    }


async def measure(given: argparse.Namespace) -> None:
    connection = config.find(given.kubeconfig, clock=RealClock())
    async with DirectTransport(connection, user_agent="pumice-bench") as transport:
        client = Client(transport, clock=RealClock(), chance=random.Random(1))  # noqa: S311  jitter
        await make_namespace(client)
        print(json.dumps(await limit(client, given.pods, given.connections, given.nodes)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("kubeconfig")
    parser.add_argument("--pods", type=int, default=2_000)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--nodes", type=int, default=1_000)
    asyncio.run(measure(parser.parse_args()))


if __name__ == "__main__":
    main()

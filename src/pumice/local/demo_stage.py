"""What the demo's scenes are played on: clusters in this process, gangs in them, and waiting for what the story tells."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from pumice.api import kinds, names
from pumice.api.batch import Job
from pumice.api.kinds import type_meta
from pumice.api.pods import Pod
from pumice.api.scheduling import VOLCANO, PodGroup
from pumice.errors import PumiceError
from pumice.scheduling.core.verdict import decode

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Collection

    from pumice.local.nodes.registration import NodeFacts
    from pumice.local.up import Up
    from pumice.scheduling.core.codes import Code
    from pumice.scheduling.core.verdict import Reason

WAIT_S_MAX = 30.0
NAMESPACE = "default"


class DemoFailed(PumiceError):
    """The story did not go as told; that is a bug, and the exit code says so."""


# What many clusters have: every pod to the node with the most room.
SPREADING = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins:
  - name: predicates
  - name: resource-strategy-fit
    arguments: {resources: {nvidia.com/gpu: {type: LeastAllocated, weight: 1}}}
"""


def reserving_at_once() -> str:
    """The built-in policy, with reservations at once instead of after five minutes of waiting."""
    from pumice.scheduling.core import builtin

    return builtin.TEXT.replace("patience: 5m", "patience: 0s")


@contextlib.asynccontextmanager
async def start_cluster(*, gpus: int, nodes: int = 1, policy_text: str = "") -> AsyncIterator[Up]:
    from pumice.local.apiserver.serving import Place
    from pumice.local.up import Up
    from pumice.runtime import silent
    from pumice.scheduling.core import builtin

    policy = builtin.parse(policy_text or builtin.TEXT, "demo policy")
    facts = [node(f"node-{number}", gpus) for number in range(nodes)]
    with tempfile.TemporaryDirectory(prefix="pumice-demo-") as folder:
        async with Up(Place(Path(folder)), facts, log=silent, policy=lambda: policy) as cluster:
            yield cluster


def node(name: str, gpus: int) -> NodeFacts:
    from pumice.local.nodes.pretend import pretend_nodes

    return pretend_nodes(1, prefix=f"{name}-", gpus=gpus)[0]


async def create_pod(cluster: Up, name: str, *, scheduler: str, gang: str = "", cpu: str = "0") -> None:
    asks = {"requests": {"cpu": cpu}, "limits": {"nvidia.com/gpu": "1"}}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {names.GROUP_NAME: gang} if gang else {}},
        "spec": {
            "schedulerName": scheduler,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "worker", "image": "train", "resources": asks}],
        },
    }
    await cluster.client.create(Pod, body, namespace=NAMESPACE)


async def create_gang(cluster: Up, name: str, size: int, *, runs_for: str = "") -> None:
    """A group and its pods; `runs_for`: its owner says that it will run so long."""
    group = {
        **type_meta(PodGroup),
        "metadata": {"name": name, "annotations": {names.RUNNING_ESTIMATE: runs_for} if runs_for else {}},
        "spec": {"minMember": size},
    }
    await cluster.client.create(PodGroup, group, namespace=NAMESPACE)
    for number in range(size):
        await create_pod(cluster, f"{name}-worker-{number}", scheduler=VOLCANO, gang=name)


async def delete_gang(cluster: Up, name: str) -> None:
    for pod in await pods(cluster, name):
        await cluster.client.delete(Pod, pod["metadata"]["name"], namespace=NAMESPACE, grace_s=0)
    await cluster.client.delete(PodGroup, name, namespace=NAMESPACE)


async def pods(cluster: Up, prefix: str) -> list[dict[str, Any]]:
    listed = await cluster.client.list_json(kinds.by_struct(Pod), namespace=NAMESPACE)
    return [pod for pod in listed if pod["metadata"]["name"].startswith(f"{prefix}-")]


async def count_bound(cluster: Up, prefix: str) -> int:
    return sum(bool(pod["spec"].get("nodeName")) for pod in await pods(cluster, prefix))


async def count_all_bound(cluster: Up, prefixes: tuple[str, ...]) -> int:
    return sum([await count_bound(cluster, prefix) for prefix in prefixes])


async def phase_count(cluster: Up, prefix: str, phase: str) -> int:
    return sum(pod.get("status", {}).get("phase") == phase for pod in await pods(cluster, prefix))


async def until(count: Callable[[], Awaitable[int]], wanted: int) -> int:
    """Ask until the number is reached; the story fails if it never is."""
    deadline = time.monotonic() + WAIT_S_MAX
    while (found := await count()) < wanted:
        if time.monotonic() > deadline:
            raise DemoFailed(f"expected {wanted} pods and saw {found} after {WAIT_S_MAX:.0f} s; please report this")
        await asyncio.sleep(0.05)
    return found


async def until_reserved(cluster: Up, name: str) -> str:
    """Ask until the group says when room is reserved for it; that time."""
    deadline = time.monotonic() + WAIT_S_MAX
    while True:
        group = (await cluster.client.get(PodGroup, name, namespace=NAMESPACE)).into(PodGroup)
        text = group.metadata.annotations.get(names.RESERVATION)
        if text:
            return str(msgspec.json.decode(text)["time"])
        if time.monotonic() > deadline:
            raise DemoFailed(f"nothing was ever reserved for {name}; please report this")
        await asyncio.sleep(0.05)


async def until_reason(cluster: Up, name: str, codes: Collection[Code]) -> Reason:
    """Ask until the group's verdict names one of the codes."""
    deadline = time.monotonic() + WAIT_S_MAX
    while True:
        group = (await cluster.client.get(PodGroup, name, namespace=NAMESPACE)).into(PodGroup)
        verdict = decode(group.metadata.annotations.get(names.VERDICT, ""))
        for reason in verdict.reasons if verdict is not None else ():
            if reason.code in codes:
                return reason
        if time.monotonic() > deadline:
            said = ", ".join(sorted(code.value for code in codes))
            raise DemoFailed(f"group {name} never said {said}; please report this")
        await asyncio.sleep(0.05)


def training_job(checkpoints: Path) -> dict[str, Any]:
    program = str(Path(__file__).with_name("demo_worker.py"))
    container = {
        "name": "rank",
        "image": "none-needed",
        "command": [sys.executable, program],
        "env": [{"name": "CHECKPOINT_DIR", "value": "/checkpoints"}],
        "volumeMounts": [{"name": "checkpoints", "mountPath": "/checkpoints"}],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }
    volume = {"name": "checkpoints", "hostPath": {"path": str(checkpoints)}}
    template = {
        "spec": {
            "containers": [container],
            "volumes": [volume],
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
        }
    }
    return {
        **type_meta(Job),
        "metadata": {"name": "train"},
        "spec": {
            "schedulerName": VOLCANO,
            "minAvailable": 4,
            "plugins": {"pytorch": []},
            "policies": [{"event": "PodEvicted", "action": "RestartJob"}],
            "tasks": [
                {"name": "master", "replicas": 1, "template": template},
                {"name": "worker", "replicas": 3, "template": template},
            ],
        },
    }


async def until_step(checkpoints: Path, wanted: int) -> None:
    async def step() -> int:
        path = checkpoints / "step"
        return int(path.read_text() or 0) if path.exists() else 0

    await until(step, wanted)


async def until_phase(cluster: Up, name: str, phase: str) -> None:
    async def reached() -> int:
        job = (await cluster.client.get(Job, name, namespace=NAMESPACE)).json()
        return int(job.get("status", {}).get("state", {}).get("phase") == phase)

    await until(reached, 1)

"""`pumice demo`: what placing pods one by one does to a gang, and what Pumice does instead; on a real, embedded cluster."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pumice.api import kinds, names
from pumice.api.batch import Job
from pumice.api.pods import Pod
from pumice.api.scheduling import PodGroup
from pumice.errors import PumiceError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from pumice.nodes.registration import NodeFacts
    from pumice.processes.up import Up

GPU_DOLLARS_PER_HOUR = 2.50  # what a rented training GPU costs, roughly
WAIT_S_MAX = 30.0
NAMESPACE = "default"


class DemoFailed(PumiceError):
    """The story did not go as told; that is a bug, and the exit code says so."""


@click.command()
def demo() -> None:
    """Show, on a cluster inside this process, why gangs need a gang scheduler."""
    asyncio.run(_story())


async def _story() -> None:
    began = time.monotonic()
    shown: list[tuple[str, str]] = []
    for title, scene in (
        ("Pods placed one by one", _one_by_one),
        ("The same job as a gang", _as_a_gang),
        ("Two gangs of 64 on 100 GPUs", _two_gangs),
        ("Small jobs, packed or spread", _fragmentation),
        ("A gang of real processes", _real_processes),
    ):
        click.secho(f"\n{len(shown) + 1}. {title}", bold=True)
        shown.append((title, await scene()))
    click.secho("\nWhat was shown", bold=True)
    for title, outcome in shown:
        click.echo(f"  {title:<30} {outcome}")
    click.echo(
        f"\nAll of it ran on this machine in {time.monotonic() - began:.0f} s. Start a cluster to play with: pumice up"
    )


# ------------------------------------------------------------------------------------------------ scenes


async def _one_by_one() -> str:
    """Eight workers, six GPUs, a scheduler that looks at one pod at a time."""
    async with _cluster(gpus=6) as cluster:
        _say(
            "A training job of 8 workers needs 8 GPUs at once. The cluster has 6 free, and a scheduler that takes pods one by one."
        )
        for number in range(8):
            await _create_pod(cluster, f"train-worker-{number}", scheduler="default-scheduler")
        running = await _until(lambda: _phase_count(cluster, "train", "Running"), 6)
        _say(f"   {running} of 8 workers run. They wait at their first barrier for two that will never come.")
        dollars = running * GPU_DOLLARS_PER_HOUR
        _say(
            f"   Nothing is computed, and {running} GPUs are paid for: ${dollars:.2f} an hour, ${dollars * 24:.0f} a day."
        )
        return f"{running} of 8 run, none works: ${dollars:.2f}/hour for nothing"


async def _as_a_gang() -> str:
    async with _cluster(gpus=6) as cluster:
        _say("The same 8 workers on the same 6 GPUs, as a PodGroup with minMember 8 and schedulerName volcano.")
        await _create_gang(cluster, "train", 8)
        group = await _until_reason(cluster, "train", "can never run here")
        _say(
            f"   {await _bound(cluster, 'train')} of 8 are placed: nothing is held, nothing is paid for. The group says why:"
        )
        _say(f"   {_reason(group)}")
        _say("   Two GPUs are added.")
        await cluster.add_nodes([_node("node-new", 2)])
        running = await _until(lambda: _phase_count(cluster, "train", "Running"), 8)
        _say(f"   {running} of 8 run, all bound by one decision.")
        return f"0 of 8 while it cannot start, then {running} of 8"


async def _two_gangs() -> str:
    async with _cluster(gpus=50, nodes=2) as cluster:
        _say(
            "Two gangs of 64 arrive together. Placed one by one they would take 50 GPUs each and wait for each other for ever."
        )
        await asyncio.gather(_create_gang(cluster, "red", 64), _create_gang(cluster, "blue", 64))
        await _until(lambda: _total_bound(cluster, ("red", "blue")), 64)
        counts = {name: await _bound(cluster, name) for name in ("red", "blue")}
        first = max(counts, key=lambda name: counts[name])
        second = min(counts, key=lambda name: counts[name])
        _say(
            f"   {first}: {counts[first]} of 64, {second}: {counts[second]} of 64. No deadlock: one runs, one waits with nothing in its hands."
        )
        group = await _until_reason(cluster, second, "left of")
        _say(f"   {second} says: {_reason(group)}")
        await _delete_gang(cluster, first)
        await _until(lambda: _bound(cluster, second), 64)
        _say(f"   {first} ends, and {second} starts whole.")
        return "one runs, the other follows; no deadlock"


async def _fragmentation() -> str:
    free = {}
    for packing in (False, True):
        async with _cluster(gpus=8, nodes=4, packing=packing) as cluster:
            for number in range(8):
                await _create_pod(cluster, f"small-{number}-0", scheduler="pumice")
            await _until(lambda cluster=cluster: _bound(cluster, "small"), 8)  # type: ignore[misc]
            taken = {pod["spec"]["nodeName"] for pod in await _pods(cluster, "small")}
            free[packing] = 4 - len(taken)
    _say("Eight one-GPU jobs on four nodes of 8 GPUs. How many nodes are still whole, for a worker that needs all 8?")
    _say(f"   spread: {free[False]} of 4 nodes whole, although 24 of 32 GPUs are free")
    _say(f"   packed: {free[True]} of 4 nodes whole (plugin binpack, with the GPU listed)")
    if free[True] <= free[False]:
        raise DemoFailed(
            "packing left no more whole nodes than spreading; please report this with the output of `pumice version`"
        )
    return f"{free[False]} whole nodes left when spread, {free[True]} when packed"


async def _real_processes() -> str:
    """A Volcano Job with the pytorch plugin whose pods are processes of this machine."""
    from pumice.nodes.process.machine import ProcessSettings

    with tempfile.TemporaryDirectory(prefix="pumice-demo-") as folder:
        async with _cluster(gpus=0, nodes=0) as cluster:
            root = Path(folder)
            settings = ProcessSettings(name="this-machine", folder=root / "node", gpus=4, host_roots=(root,))
            try:
                await cluster.add_process_node(settings)
            except PumiceError as error:
                _say(f"   skipped: {error}")
                return "skipped here: process nodes need namespaces"
            checkpoints = root / "checkpoints"
            checkpoints.mkdir()
            _say(
                "A Volcano Job with the pytorch plugin: one master, three workers, each a real process with its own address."
            )
            await cluster.client.create(Job, _training_job(checkpoints), namespace=NAMESPACE)
            await _until(lambda: _phase_count(cluster, "train", "Running"), 4)
            await _until_step(checkpoints, 3)
            _say("   4 of 4 run, found their master by name and met at the barrier.")
            await cluster.client.delete(Pod, "train-worker-1", namespace=NAMESPACE)
            step = (checkpoints / "step").read_text()
            _say(f"   train-worker-1 is killed after step {step}. Policy: PodEvicted -> RestartJob.")
            await _until_phase(cluster, "train", "Completed")
            lines = (await cluster.client.log("train-master-0", namespace=NAMESPACE)).decode().splitlines()
            for line in lines:
                _say(f"   {line}")
            if not any("resumes after step" in line for line in lines):
                raise DemoFailed("the gang did not resume from its checkpoint; please report this")
            return "loses a member, restarts whole, resumes from its checkpoint"


def _training_job(checkpoints: Path) -> dict[str, Any]:
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
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {
            "schedulerName": "volcano",
            "minAvailable": 4,
            "plugins": {"pytorch": []},
            "policies": [{"event": "PodEvicted", "action": "RestartJob"}],
            "tasks": [
                {"name": "master", "replicas": 1, "template": template},
                {"name": "worker", "replicas": 3, "template": template},
            ],
        },
    }


async def _until_step(checkpoints: Path, wanted: int) -> None:
    async def step() -> int:
        path = checkpoints / "step"
        return int(path.read_text() or 0) if path.exists() else 0

    await _until(step, wanted)


async def _until_phase(cluster: Up, name: str, phase: str) -> None:
    async def reached() -> int:
        job = (await cluster.client.get(Job, name, namespace=NAMESPACE)).json()
        return int(job.get("status", {}).get("state", {}).get("phase") == phase)

    await _until(reached, 1)


# ------------------------------------------------------------------------------------------------ the cluster

_SPREADING = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: nodeorder, arguments: {leastrequested.weight: 0, balancedresource.weight: 0}}, PACKING]
"""
_PACK = "{name: binpack, arguments: {binpack.weight: 10, binpack.resources: nvidia.com/gpu, binpack.resources.nvidia.com/gpu: 10}}"
_SPREAD = "{name: resource-strategy-fit, arguments: {resources: {nvidia.com/gpu: {type: LeastAllocated, weight: 1}}}}"


@contextlib.asynccontextmanager
async def _cluster(*, gpus: int, nodes: int = 1, packing: bool | None = None) -> AsyncIterator[Up]:
    from pumice.apiserver.serving import Place
    from pumice.kube.informer import silent
    from pumice.processes.up import Up
    from pumice.scheduling import builtin

    text = builtin.TEXT if packing is None else _SPREADING.replace("PACKING", _PACK if packing else _SPREAD)
    policy = builtin.parse(text, "demo policy")
    facts = [_node(f"node-{number}", gpus) for number in range(nodes)]
    with tempfile.TemporaryDirectory(prefix="pumice-demo-") as folder:
        async with Up(Place(Path(folder)), facts, log=silent, policy=lambda: policy) as cluster:
            yield cluster


def _node(name: str, gpus: int) -> NodeFacts:
    from pumice.nodes.pretend import pretend_nodes

    return pretend_nodes(1, prefix=f"{name}-", gpus=gpus)[0]


async def _create_pod(cluster: Up, name: str, *, scheduler: str, gang: str = "") -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {names.GROUP_NAME: gang} if gang else {}},
        "spec": {
            "schedulerName": scheduler,
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "worker", "image": "train", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
        },
    }
    await cluster.client.create(Pod, body, namespace=NAMESPACE)


async def _create_gang(cluster: Up, name: str, size: int) -> None:
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": size},
    }
    await cluster.client.create(PodGroup, group, namespace=NAMESPACE)
    for number in range(size):
        await _create_pod(cluster, f"{name}-worker-{number}", scheduler="volcano", gang=name)


async def _delete_gang(cluster: Up, name: str) -> None:
    for pod in await _pods(cluster, name):
        await cluster.client.delete(Pod, pod["metadata"]["name"], namespace=NAMESPACE, grace_s=0)
    await cluster.client.delete(PodGroup, name, namespace=NAMESPACE)


async def _pods(cluster: Up, prefix: str) -> list[dict[str, Any]]:
    listed = await cluster.client.list_json(kinds.by_struct(Pod), namespace=NAMESPACE)
    return [pod for pod in listed if pod["metadata"]["name"].startswith(f"{prefix}-")]


async def _bound(cluster: Up, prefix: str) -> int:
    return sum(bool(pod["spec"].get("nodeName")) for pod in await _pods(cluster, prefix))


async def _total_bound(cluster: Up, prefixes: tuple[str, ...]) -> int:
    return sum([await _bound(cluster, prefix) for prefix in prefixes])


async def _phase_count(cluster: Up, prefix: str, phase: str) -> int:
    return sum(pod.get("status", {}).get("phase") == phase for pod in await _pods(cluster, prefix))


async def _until(count: Callable[[], Awaitable[int]], wanted: int) -> int:
    """Ask until the number is reached; the story fails if it never is."""
    deadline = time.monotonic() + WAIT_S_MAX
    while (found := await count()) < wanted:
        if time.monotonic() > deadline:
            raise DemoFailed(f"expected {wanted} pods and saw {found} after {WAIT_S_MAX:.0f} s; please report this")
        await asyncio.sleep(0.05)
    return found


async def _until_reason(cluster: Up, name: str, text: str) -> dict[str, Any]:
    deadline = time.monotonic() + WAIT_S_MAX
    while True:
        group = (await cluster.client.get(PodGroup, name, namespace=NAMESPACE)).json()
        if text in _reason(group):
            return group
        if time.monotonic() > deadline:
            raise DemoFailed(f"group {name} never said {text!r}; please report this")
        await asyncio.sleep(0.05)


def _reason(group: dict[str, Any]) -> str:
    conditions = group.get("status", {}).get("conditions", [])
    message = next(
        (each["message"] for each in conditions if each["type"] == "Unschedulable" and each["status"] == "True"), ""
    )
    return str(message).partition("Origin reason is ")[2] or str(message)


def _say(text: str) -> None:
    """A line of the story; what was observed is set off from what is told."""
    observed = text.startswith(" ")
    first, rest = ("   > ", "     ") if observed else ("   ", "   ")
    click.echo(click.wrap_text(text.strip(), width=110, initial_indent=first, subsequent_indent=rest))

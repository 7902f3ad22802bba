"""`pumice bench plan`: how long the engine takes, alone, for gangs of equal pods on empty nodes."""

from __future__ import annotations

import time

import click
import msgspec

from pumice import instant
from pumice.api import changes
from pumice.api.core import Node, NodeStatus
from pumice.api.meta import ObjectMeta
from pumice.api.names import GROUP_NAME
from pumice.api.pods import Container, Pod, PodSpec, PodStatus, ResourceRequirements
from pumice.api.scheduling import PodGroup, PodGroupSpec, PodGroupStatus, Queue, QueueStatus
from pumice.cli import progress
from pumice.cli.suggestions import SuggestingGroup
from pumice.cluster.intake import Intake
from pumice.cluster.state import Cluster
from pumice.scheduling.core import builtin, cycle

GPUS_PER_NODE = 8
_CREATED = "2026-01-01T00:00:00Z"


@click.group(cls=SuggestingGroup)
def bench() -> None:
    """Measure the engine on this machine."""


@bench.command("plan")
@click.option(
    "--nodes", type=click.IntRange(min=0), default=1000, show_default=True, help="Empty nodes with 8 GPUs each."
)
@click.option("--gangs", type=click.IntRange(min=0), default=20, show_default=True, help="Gangs that want to start.")
@click.option(
    "--size",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    help="One-GPU pods per gang; all must start together.",
)
@click.option("-o", "--output", type=click.Choice(["json"]), default="json")
def plan(nodes: int, gangs: int, size: int, output: str) -> None:
    """Plan GANGS gangs of SIZE one-GPU pods on NODES empty nodes with the built-in policy."""
    del output
    click.echo(msgspec.json.encode(measure(nodes, gangs, size)).decode())


def measure(nodes: int, gangs: int, size: int) -> dict[str, float]:
    """One measurement: taking the snapshot, and planning on it."""
    with progress.show(f"making {nodes} nodes and {gangs} gangs of {size}"):  # nothing may move while it is measured
        cluster = cluster_with_waiting_gangs(nodes, gangs, size)
    policy = builtin.parse(builtin.TEXT, "built-in policy")
    now = instant.parse_instant(_CREATED)
    started = time.perf_counter()
    snapshot = cluster.snapshot()
    taken = time.perf_counter()
    decisions = cycle.plan(snapshot, policy, now=now)
    done = time.perf_counter()
    placed = sum(len(commit.binds) for commit in decisions.commits)
    return {
        "nodes": nodes,
        "gangs": gangs,
        "size": size,
        "snapshot_s": round(taken - started, 6),
        "plan_s": round(done - taken, 6),
        "pods_per_s": round(placed / (done - started), 1),
        "placed": placed,
    }


def cluster_with_waiting_gangs(nodes: int, gangs: int, size: int) -> Cluster:
    """A cluster with that many empty nodes and waiting gangs."""
    cluster = Cluster()
    intake = Intake(cluster)
    queue = Queue(metadata=ObjectMeta(name="default", creation_timestamp=_CREATED), status=QueueStatus(state="Open"))
    intake.apply(changes.Upserted(object=queue))
    room = {"cpu": "96", "memory": "768Gi", "pods": "110", "nvidia.com/gpu": str(GPUS_PER_NODE)}
    for number in range(nodes):
        name = f"node-{number:05}"
        meta = ObjectMeta(name=name, creation_timestamp=_CREATED, labels={"kubernetes.io/hostname": name})
        intake.apply(changes.Upserted(object=Node(metadata=meta, status=NodeStatus(allocatable=room, capacity=room))))
    for number in range(gangs):
        for thing in _gang(f"gang-{number:05}", size):
            intake.apply(changes.Upserted(object=thing))
    return cluster


def _gang(name: str, size: int) -> list[PodGroup | Pod]:
    meta = ObjectMeta(namespace="default", name=name, uid=f"uid-{name}", creation_timestamp=_CREATED)
    group = PodGroup(metadata=meta, spec=PodGroupSpec(min_member=size), status=PodGroupStatus(phase="Inqueue"))
    asks = {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "1"}
    spec = PodSpec(
        containers=(Container(name="worker", resources=ResourceRequirements(requests=asks, limits=asks)),),
        scheduler_name="volcano",
    )
    return [group, *(_pod(name, number, spec) for number in range(size))]


def _pod(gang: str, number: int, spec: PodSpec) -> Pod:
    name = f"{gang}-worker-{number}"
    meta = ObjectMeta(
        namespace="default",
        name=name,
        uid=f"uid-{name}",
        creation_timestamp=_CREATED,
        labels={"volcano.sh/task-index": str(number)},
        annotations={GROUP_NAME: gang},
    )
    return Pod(metadata=meta, spec=spec, status=PodStatus(phase="Pending"))

"""A node's own object and its heartbeat, as a kubelet keeps them: a Node with capacity and conditions, and a Lease."""

from __future__ import annotations

import asyncio
import os
import platform
import socket
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from pumice import __version__, instant
from pumice.api.coordination import Lease
from pumice.api.core import Node
from pumice.api.kinds import type_meta
from pumice.api.names import GPU_USE, HOSTNAME, NODE_AGENT, VGPU_NODE_REGISTER
from pumice.digits import whole_number
from pumice.errors import Refused
from pumice.kube import errors
from pumice.kube.requests import PatchType
from pumice.kube.workqueue import WorkQueue
from pumice.local.nodes.process.leftovers import start_time
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pumice.api.meta import Json
    from pumice.clock import Clock
    from pumice.instant import Instant
    from pumice.kube.client import Client, Reply
    from pumice.runtime import Runtime

LEASE_NAMESPACE = "kube-node-lease"
LEASE_S = 40  # a kubelet's; four renewals in that time
RENEWALS_PER_LEASE = 4
CALLS_AT_ONCE = 32  # registrations and renewals in flight
RUNTIME_PREFIX = "pumice-"  # by it a node is known as ours

_ARCHITECTURES = MappingProxyType({"x86_64": "amd64", "aarch64": "arm64"})
_OUR_NOTES = (GPU_USE, VGPU_NODE_REGISTER)  # of what the node had; a successor may have less
_GOOD_CONDITIONS = (
    ("MemoryPressure", "KubeletHasSufficientMemory", "there is enough memory"),
    ("DiskPressure", "KubeletHasNoDiskPressure", "there is enough room on the disk"),
    ("PIDPressure", "KubeletHasSufficientPID", "there are enough process ids"),
)


class NodeFacts(Value, kw_only=True):
    """What a node says of itself; `capacity` is all allocatable, because nothing of the system runs in it."""

    name: str
    runtime: str  # "pretend" or "process"
    capacity: Mapping[str, str]
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    annotations: Mapping[str, str] = msgspec.field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()
    address: str = "127.0.0.1"
    port: int = 0  # where logs can be asked for; 0: nowhere

    def manifest(self, now: Instant) -> Json:
        architecture = _ARCHITECTURES.get(platform.machine(), platform.machine())
        labels = {HOSTNAME: self.name, "kubernetes.io/os": "linux", "kubernetes.io/arch": architecture}
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": self.name,
                "labels": labels | dict(self.labels),
                "annotations": dict(self.annotations),
            },
            "spec": {"taints": [dict(taint) for taint in self.taints]},
            "status": self._status(architecture, now),
        }

    def _status(self, architecture: str, now: Instant) -> Json:
        status: Json = {
            "capacity": dict(self.capacity),
            "allocatable": dict(self.capacity),
            "conditions": [*pressures(now), readiness(now, is_ready=True)],
            # No Hostname: an API server would try that one first, and no resolver knows it.
            "addresses": [{"type": "InternalIP", "address": self.address}],
            "nodeInfo": {
                "architecture": architecture,
                "operatingSystem": "linux",
                "containerRuntimeVersion": f"{RUNTIME_PREFIX}{self.runtime}://{__version__}",
                "kubeletVersion": f"pumice-{__version__}",
                "kubeProxyVersion": "",
                "kernelVersion": platform.release(),
                "osImage": platform.system(),
                "bootID": "",
                "machineID": "",
                "systemUUID": "",
            },
        }
        if self.port:
            status["daemonEndpoints"] = {"kubeletEndpoint": {"Port": self.port}}
        return status


def readiness(now: Instant, *, is_ready: bool, message: str = "") -> Json:
    """The Ready condition, in a kubelet's words."""
    status, reason = ("True", "KubeletReady") if is_ready else ("False", "KubeletNotReady")
    return _condition("Ready", status, reason, message or "the node's agent runs", now)


def pressures(now: Instant) -> list[Json]:
    return [_condition(kind, "False", reason, message, now) for kind, reason, message in _GOOD_CONDITIONS]


def _condition(kind: str, status: str, reason: str, message: str, now: Instant) -> Json:
    at = instant.format_instant(now)
    times = {"lastHeartbeatTime": at, "lastTransitionTime": at}
    return {"type": kind, "status": status, "reason": reason, "message": message} | times


async def register(client: Client, facts: NodeFacts, *, now: Instant) -> str:
    """Makes the Node, or takes over one that an agent of ours left; returns its uid."""
    manifest = facts.manifest(now)
    try:
        made = await client.create(Node, manifest)
    except errors.AlreadyExists:
        made = await _take_over(client, facts.name, manifest, now)
    return made.into(Node).metadata.uid


async def _take_over(client: Client, name: str, manifest: Json, now: Instant) -> Reply:
    before = (await client.get(Node, name)).into(Node)
    runtime = before.status.node_info.container_runtime_version
    if runtime and not runtime.startswith(RUNTIME_PREFIX):
        raise Refused(f"node {name!r} belongs to another agent ({runtime}); join under another name, with --name")
    agent = before.metadata.annotations.get(NODE_AGENT, "")
    is_another = agent not in {"", manifest["metadata"]["annotations"].get(NODE_AGENT)}
    if is_another and not has_ended(agent) and await _beats(client, name, now):
        raise Refused(
            f"node {name!r} is kept by an agent that is alive ({agent}); stop that one, or join with another --name"
        )
    notes = manifest["metadata"]["annotations"]
    notes |= {gone: None for gone in _OUR_NOTES if gone in before.metadata.annotations and gone not in notes}
    await client.patch(Node, name, {"metadata": manifest["metadata"]})
    status = manifest["status"]
    for amounts in (status["capacity"], status["allocatable"]):
        amounts |= {gone: None for gone in before.status.capacity if gone not in amounts}
    return await client.patch(Node, name, {"status": status}, how=PatchType.STRATEGIC, subresource="status")


async def _beats(client: Client, name: str, now: Instant) -> bool:
    """Whether the node's lease was renewed in time."""
    try:
        lease = (await client.get(Lease, name, namespace=LEASE_NAMESPACE)).into(Lease)
    except errors.NotFound:
        return False
    renewed, lasts = lease.spec.renew_time, lease.spec.lease_duration_seconds or LEASE_S
    return bool(renewed) and instant.parse_instant(renewed or "") + lasts * instant.SECOND > now


async def register_all(client: Client, nodes: Iterable[NodeFacts], clock: Clock) -> dict[str, str]:
    """Registers many at a time; returns their uids by name."""
    places = asyncio.Semaphore(CALLS_AT_ONCE)
    uids: dict[str, str] = {}

    async def one(facts: NodeFacts) -> None:
        async with places:
            uids[facts.name] = await register(client, facts, now=clock.now())

    try:
        async with asyncio.TaskGroup() as crew:
            for facts in nodes:
                crew.create_task(one(facts))
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from group  # one is enough to act on
    return uids


async def report_readiness(client: Client, name: str, *, now: Instant, is_ready: bool, message: str = "") -> None:
    """A node that is Ready knows of its pressures too: the lifecycle controller may have called them unknown meanwhile."""
    ready = readiness(now, is_ready=is_ready, message=message)
    status = {"conditions": [*pressures(now), ready] if is_ready else [ready]}
    await client.patch(Node, name, {"status": status}, how=PatchType.STRATEGIC, subresource="status")


class Heartbeats:
    """Renews the leases of nodes, evenly spread over time; a node that is dropped falls silent."""

    def __init__(self, client: Client, runtime: Runtime, *, lease_s: int = LEASE_S) -> None:
        self._client = client
        self._clock = runtime.clock
        self._chance = runtime.chance
        self._lease_s = lease_s
        self._log = runtime.log
        self._uids: dict[str, str] = {}
        self._written: set[str] = set()  # nodes whose lease is known to be there
        self._renew_s = lease_s / RENEWALS_PER_LEASE
        self._queue: WorkQueue[str] = WorkQueue(runtime.chance, retry_s_max=self._renew_s)

    def add(self, name: str, uid: str) -> None:
        """Renews the node's lease from now on."""
        if self._uids.get(name) != uid:
            self._uids[name] = uid
            self._queue.add(name)

    def drop(self, name: str) -> None:
        self._uids.pop(name, None)

    async def run(self) -> None:
        await self._queue.run(self._beat, failed=self._log_failure, workers=CALLS_AT_ONCE)

    async def _beat(self, name: str) -> None:
        if name not in self._uids:
            return
        try:
            if name not in self._written:
                await self._create(name)
            else:
                renewal = {"spec": {"renewTime": instant.format_micro_instant(self._clock.now())}}
                await self._client.patch(Lease, name, renewal, namespace=LEASE_NAMESPACE)
        except errors.NotFound:
            self._written.discard(name)
            raise
        self._written.add(name)
        self._queue.add_after(name, self._renew_s * (0.9 + 0.2 * self._chance.random()))

    async def _create(self, name: str) -> None:
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": self._uids[name]}
        now = instant.format_micro_instant(self._clock.now())
        lease = {
            **type_meta(Lease),
            "metadata": {"name": name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]},
            "spec": {"holderIdentity": name, "leaseDurationSeconds": self._lease_s, "renewTime": now},
        }
        try:
            await self._client.create(Lease, lease, namespace=LEASE_NAMESPACE)
        except errors.AlreadyExists:
            await self._client.patch(Lease, name, lease, namespace=LEASE_NAMESPACE)

    def _log_failure(self, name: str, error: Exception, retry_s: float) -> None:
        self._log("heartbeat_failed", node=name, error=str(error), retry_s=round(retry_s, 3))


def own_identity() -> str:
    """Our process as the agent of a node, told apart from any other that has its number later."""
    return f"{socket.gethostname()}:process-{os.getpid()}-{start_time(os.getpid())}"


def has_ended(agent: str) -> bool:
    """True for a process of this machine that is no more; of other machines nothing is known."""
    host, _, process = agent.rpartition(":process-")
    number, _, start = process.partition("-")
    pid = whole_number(number)
    return host == socket.gethostname() and pid is not None and str(start_time(pid)) != start

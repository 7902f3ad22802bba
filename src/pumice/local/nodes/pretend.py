"""Thousands of nodes that run nothing: pods bound to them go through their phases on timers, as on a real node.

One informer of pods, one of nodes, one queue of pods whose time has come. A pod's status is written when it changes, as one
patch with the latest of it; what changed twice meanwhile is written once.

    agent = PretendAgent(client, informers, nodes, clock=clock, chance=random.Random(7))
    await agent.run()                               # until cancelled
    agent.trouble("node-3", Trouble.NOT_READY)      # or the node's annotation pumice.dev/pretend-down
"""

from __future__ import annotations

import asyncio
import enum
import ipaddress
from typing import TYPE_CHECKING

import msgspec

from pumice.api import decoding, names
from pumice.api.core import Node
from pumice.api.pods import Pod
from pumice.kube import errors
from pumice.kube.informer import objects_in
from pumice.kube.recorder import Recorder
from pumice.kube.requests import PatchType
from pumice.kube.workqueue import WorkQueue
from pumice.local.nodes import registration
from pumice.local.nodes.admission import Ledger
from pumice.local.nodes.pretend_pods import NEVER, Behaviour, Life, Stage, plan_of
from pumice.local.nodes.registration import LEASE_S, Heartbeats, NodeFacts, own_identity

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pumice.kube.client import Client
    from pumice.kube.informer import Informers, News
    from pumice.runtime import Runtime

WRITES_AT_ONCE = 32
# Pods' addresses lead nowhere; a private range that neither clusters nor machines commonly use.
POD_ADDRESSES = ipaddress.ip_network("10.128.0.0/9")

CAPACITY = {"cpu": "32", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "110"}
GPU = "nvidia.com/gpu"


class Trouble(enum.IntEnum):
    """What is wrong with a node; the worse of what trouble() was told and of what its annotations say counts."""

    NONE = 0
    NOT_READY = 1  # says so, and carries on
    GONE = 2  # says nothing any more, and neither do its pods: what a power cut looks like


def pretend_nodes(
    count: int,
    *,
    prefix: str = "node-",
    gpus: int = 0,
    capacity: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
) -> list[NodeFacts]:
    """Equal nodes, named prefix0, prefix1 and so on; `capacity` is laid over CAPACITY."""
    room = CAPACITY | ({GPU: str(gpus)} if gpus else {}) | dict(capacity or {})
    return [
        NodeFacts(name=f"{prefix}{number}", runtime="pretend", capacity=room, labels=labels or {}, taints=taints)
        for number in range(count)
    ]


class _PretendNode:
    """One of our nodes: what it has given away, which pods it has, and what is wrong with it."""

    def __init__(self, facts: NodeFacts, node: Node) -> None:
        self.facts = facts
        self.ledger = Ledger(node)
        self.uid = ""
        self.pods: dict[str, None] = {}  # in the order in which they came
        self.told = Trouble.NONE

    @property
    def trouble(self) -> Trouble:
        annotations = self.ledger.node.metadata.annotations
        if names.PRETEND_GONE in annotations:
            return Trouble.GONE
        return max(self.told, Trouble.NOT_READY if names.PRETEND_DOWN in annotations else Trouble.NONE)


class PretendAgent:
    """Plays the kubelets of all its nodes. The caller runs the informers."""

    def __init__(
        self,
        client: Client,
        informers: Informers,
        nodes: Iterable[NodeFacts],
        runtime: Runtime,
        *,
        behaviour: Behaviour | None = None,
        lease_s: int = LEASE_S,
    ) -> None:
        clock, chance, log = runtime.clock, runtime.chance, runtime.log
        self._client = client
        self._pods = informers.of(Pod)
        self._node_objects = informers.of(Node)
        self._clock = clock
        self._chance = chance
        self._behaviour = behaviour or Behaviour()
        self._recorder = Recorder(client, component="kubelet", clock=clock, log=log)
        self._log = log
        now, agent = clock.now(), {names.NODE_AGENT: own_identity()}
        kept = [msgspec.structs.replace(facts, annotations={**agent, **facts.annotations}) for facts in nodes]
        self._nodes = {
            facts.name: _PretendNode(facts, decoding.decode_value(Node, facts.manifest(now))) for facts in kept
        }
        self._lives: dict[str, Life] = {}  # by the pod's uid
        self._written: dict[str, int] = {}  # the version of a life that the API server knows
        self._addresses = 0
        self._heartbeats = Heartbeats(client, runtime, lease_s=lease_s)
        self._due: WorkQueue[str] = WorkQueue(chance)  # pods whose time has come
        self._ailing: WorkQueue[str] = WorkQueue(chance)  # nodes whose readiness may have changed
        self.ready = asyncio.Event()  # set for good once all nodes are registered

    # ------------------------------------------------------------------------------------------------------ running

    async def run(self) -> None:
        """Registers the nodes, then plays until cancelled. What it registered stays, as nodes of a dead kubelet do."""
        facts = [node.facts for node in self._nodes.values()]
        uids = await registration.register_all(self._client, facts, self._clock)
        for name, uid in uids.items():
            self._nodes[name].uid = uid
            self._heartbeats.add(name, uid)
        self._log("nodes_registered", nodes=len(uids))
        leave = [self._node_objects.subscribe(self._see_nodes), self._pods.subscribe(self._see_pods)]
        self.ready.set()
        try:
            async with asyncio.TaskGroup() as crew:
                crew.create_task(self._heartbeats.run())
                crew.create_task(self._recorder.run())
                crew.create_task(self._due.run(self._play, failed=self._log_failure, workers=WRITES_AT_ONCE))
                crew.create_task(self._ailing.run(self._report_node, failed=self._log_failure))
        finally:
            for unsubscribe in leave:
                unsubscribe()

    def trouble(self, name: str, trouble: Trouble) -> None:
        """Breaks a node, or mends it with Trouble.NONE."""
        self._nodes[name].told = trouble
        self._ailing.add(name)

    def _log_failure(self, key: str, error: Exception, retry_s: float) -> None:
        life = self._lives.get(key)
        self._log(
            "write_failed",
            subject=life.pod.metadata.key if life is not None else key,
            error=str(error),
            retry_s=round(retry_s, 3),
        )

    # ------------------------------------------------------------------------------------------------------ seeing

    def _see_nodes(self, news: Sequence[News]) -> None:
        for each, is_gone in objects_in(news, Node):
            node = self._nodes.get(each.metadata.name)
            if node is None:
                continue
            if not is_gone:
                node.ledger.node = each
            elif each.metadata.uid == node.uid:
                node.told = Trouble.GONE
            self._ailing.add(node.facts.name)

    def _see_pods(self, news: Sequence[News]) -> None:
        """Admits new pods in the order in which a kubelet would: what runs already first, then the oldest."""
        fresh: list[Pod] = []
        for pod, is_gone in objects_in(news, Pod):
            if pod.spec.node_name not in self._nodes:
                continue
            life = self._lives.get(pod.metadata.uid)
            if is_gone:
                self._forget(pod)
            elif life is None:
                fresh.append(pod)
            elif life.pod.metadata.resource_version != pod.metadata.resource_version:
                self._look_again(life, pod)
        fresh.sort(
            key=lambda pod: (pod.status.phase != "Running", pod.metadata.creation_timestamp or "", pod.metadata.name)
        )
        for pod in fresh:
            self._take(pod)

    def _look_again(self, life: Life, pod: Pod) -> None:
        before = life.pod
        is_news = (
            before.metadata.deletion_timestamp != pod.metadata.deletion_timestamp
            or before.metadata.annotations != pod.metadata.annotations
        )
        life.see(pod, self._clock.monotonic())
        if is_news:
            self._due.add(pod.metadata.uid)

    def _take(self, pod: Pod) -> None:
        node, uid = self._nodes[pod.spec.node_name], pod.metadata.uid
        life = Life(
            pod,
            plan_of(pod, self._behaviour, self._chance),
            address=self._next_address(),
            host=node.facts.address,
            at=self._clock.monotonic(),
            now=self._clock.now(),
        )
        self._lives[uid] = life
        self._written[uid] = 0
        node.pods[uid] = None
        if life.stage is Stage.RUNNING:
            node.ledger.charge(pod)
        elif life.stage is Stage.STARTING and pod.metadata.deletion_timestamp is None:
            rejection = node.ledger.admit(pod)
            if rejection is not None:
                life.reject(rejection)
                self._tell(pod, rejection.reason, rejection.message)
        if life.plan.complaint:
            self._tell(pod, "PretendAnnotation", life.plan.complaint)
        life.see(pod, self._clock.monotonic())
        if life.stage is not Stage.OVER or life.version:
            self._due.add(uid)

    def _forget(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        node = self._nodes[pod.spec.node_name]
        node.ledger.release(uid)
        node.pods.pop(uid, None)
        self._lives.pop(uid, None)
        self._written.pop(uid, None)

    def _next_address(self) -> str:
        self._addresses = self._addresses % (POD_ADDRESSES.num_addresses - 2) + 1
        return str(POD_ADDRESSES[self._addresses])

    def _tell(self, pod: Pod, reason: str, message: str) -> None:
        self._log("pod_warning", pod=pod.metadata.key, node=pod.spec.node_name, reason=reason, message=message)
        self._recorder.record(pod, "Warning", reason, message)

    # ------------------------------------------------------------------------------------------------------ playing

    async def _play(self, uid: str) -> None:
        life = self._lives.get(uid)
        if life is None:
            return
        node = self._nodes[life.pod.spec.node_name]
        if node.trouble is Trouble.GONE:
            return  # looked at again once the node is back
        life.advance(self._clock.monotonic(), self._clock.now())
        if life.stage in {Stage.OVER, Stage.GONE}:
            node.ledger.release(uid)
        metadata = life.pod.metadata
        try:
            await self._write(life)
            if life.stage is Stage.GONE:
                await self._client.delete(Pod, metadata.name, namespace=metadata.namespace, grace_s=0, uid=uid)
        except (errors.NotFound, errors.Conflict):
            return  # it is gone, or another one has its name: the watch will say so
        if life.stage is not Stage.GONE and life.due != NEVER:
            self._due.add_after(uid, max(0.0, life.due - self._clock.monotonic()))

    async def _write(self, life: Life) -> None:
        metadata, version = life.pod.metadata, life.version
        if self._written.get(metadata.uid) == version:
            return
        patch = {"metadata": {"uid": metadata.uid}, "status": life.status(self._clock.now())}
        await self._client.patch(
            Pod,
            metadata.name,
            patch,
            namespace=metadata.namespace,
            how=PatchType.STRATEGIC,
            subresource="status",
        )
        self._written[metadata.uid] = version

    async def _report_node(self, name: str) -> None:
        """Writes the node's readiness, and starts or stops its heartbeat."""
        node = self._nodes[name]
        trouble = node.trouble
        if trouble is Trouble.GONE:
            self._heartbeats.drop(name)
            return
        self._heartbeats.add(name, node.uid)
        is_ready = trouble is Trouble.NONE
        said = next((each.status for each in node.ledger.node.status.conditions if each.type == "Ready"), "")
        if said != ("True" if is_ready else "False"):
            await registration.report_readiness(
                self._client, name, now=self._clock.now(), is_ready=is_ready, message="pretending"
            )
            self._log("node_readiness", node=name, ready=is_ready)
        for uid in tuple(node.pods):
            self._due.add(uid)

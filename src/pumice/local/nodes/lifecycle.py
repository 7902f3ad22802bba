"""What becomes of nodes that fall silent, and of their pods: the part of kube-controller-manager that a cluster cannot do without.

    lease renewed ----------------> nothing to do
    silent for the grace time ----> Ready=Unknown --> taints unreachable --> pods leave once they no longer tolerate it
    Ready=False ------------------> taints not-ready --> the same
    Ready=True again -------------> taints removed, evictions called off
    node deleted -----------------> its pods are removed once the API server confirms that it is gone

Silence is measured by when news of a lease reached us, never by what its holder's clock says. That a node is Ready again is its
own agent's to say. Unlike there, many silent nodes at once are treated like one: there are no zones here.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pumice import instant
from pumice.api.coordination import Lease
from pumice.api.core import Node, Taint
from pumice.api.pods import ENDED, Pod
from pumice.api.tolerations import NO_EXECUTE, NO_SCHEDULE, tolerates
from pumice.kube import errors
from pumice.kube.informer import Key, objects_in
from pumice.kube.recorder import Recorder
from pumice.kube.requests import PatchType
from pumice.kube.workqueue import WorkQueue
from pumice.local.nodes.registration import LEASE_NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pumice.api.meta import Condition, Json
    from pumice.instant import Instant
    from pumice.kube.client import Client
    from pumice.kube.informer import Informers, News
    from pumice.runtime import Runtime

SILENCE_S_MAX = 40.0  # as kube-controller-manager's node-monitor-grace-period was for years: four heartbeats
ORPHAN_S = 40.0  # pods may be seen before their node is: so long they wait for it
WRITES_AT_ONCE = 16
UNREACHABLE = "node.kubernetes.io/unreachable"
NOT_READY = "node.kubernetes.io/not-ready"

_TAINT_OF = {"Unknown": UNREACHABLE, "False": NOT_READY}  # by the status of the Ready condition
_OURS = frozenset(_TAINT_OF.values())
_REPORTED = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")  # what is unknown of a silent node


class NodeLifecycle:
    """Watches over nodes until cancelled. The caller runs the informers."""

    def __init__(
        self,
        client: Client,
        informers: Informers,
        runtime: Runtime,
    ) -> None:
        clock, chance, log = runtime.clock, runtime.chance, runtime.log
        self._client = client
        self._nodes = informers.of(Node)
        self._pods = informers.of(Pod)
        self._leases = informers.of(Lease)
        self._clock = clock
        self._log = log
        self._recorder = Recorder(client, component="node-controller", clock=clock, log=log)
        self._heard_at: dict[str, float] = {}  # by node, on the monotonic clock
        self._renewed: dict[str, str | None] = {}  # the last renewal of a node's lease, in its holder's words
        self._said: dict[str, Condition] = {}  # what a node last said of its readiness itself
        self._tainted_at: dict[
            str, Instant
        ] = {}  # when a NoExecute taint was first seen: not all say when they were added
        self._missing_since: dict[str, float] = {}  # nodes that pods name and that do not exist
        self._pods_by_node: dict[str, dict[Key, None]] = {}  # pods by node, in the order in which they came
        self._node_queue: WorkQueue[str] = WorkQueue(chance)
        self._pod_queue: WorkQueue[Key] = WorkQueue(chance)

    async def run(self) -> None:
        for informer in (self._leases, self._nodes, self._pods):
            await informer.synced.wait()  # a pod's node is not gone because we have not heard of it yet
        leave = [
            self._leases.subscribe(self._see_leases),
            self._nodes.subscribe(self._see_nodes),
            self._pods.subscribe(self._see_pods),
        ]
        try:
            async with asyncio.TaskGroup() as crew:
                crew.create_task(self._recorder.run())
                crew.create_task(self._node_queue.run(self._look_at, failed=self._log_failure, workers=WRITES_AT_ONCE))
                crew.create_task(self._pod_queue.run(self._judge, failed=self._log_failure, workers=WRITES_AT_ONCE))
        finally:
            for unsubscribe in leave:
                unsubscribe()

    def _log_failure(self, key: str | Key, error: Exception, retry_s: float) -> None:
        subject = key if isinstance(key, str) else f"{key.namespace}/{key.name}"
        if not isinstance(error, errors.Conflict):  # another client wrote first: the retry sees what
            self._log("node_lifecycle_failed", subject=subject, error=str(error), retry_s=round(retry_s, 3))

    # ------------------------------------------------------------------------------------------------------ seeing

    def _see_leases(self, news: Sequence[News]) -> None:
        for lease, is_gone in objects_in(news, Lease):
            metadata, renewed = lease.metadata, lease.spec.renew_time
            if is_gone or metadata.namespace != LEASE_NAMESPACE:
                continue
            if self._renewed.get(metadata.name) != renewed:
                self._renewed[metadata.name] = renewed
                self._heard_at[metadata.name] = self._clock.monotonic()

    def _see_nodes(self, news: Sequence[News]) -> None:
        for node, is_gone in objects_in(news, Node):
            if is_gone:
                for known in (self._heard_at, self._renewed, self._said, self._tainted_at):
                    known.pop(node.metadata.name, None)
                self._look_at_pods_of(node.metadata.name)
            else:
                self._see_node(node)

    def _see_node(self, node: Node) -> None:
        name, ready = node.metadata.name, _ready(node)
        self._missing_since.pop(name, None)
        if ready is not None and ready.status != "Unknown" and self._said.get(name) != ready:
            self._said[name] = ready
            self._heard_at[name] = self._clock.monotonic()
        self._heard_at.setdefault(name, self._clock.monotonic())
        if any(taint.effect == NO_EXECUTE for taint in node.spec.taints):
            self._tainted_at.setdefault(name, self._clock.now())
        else:
            self._tainted_at.pop(name, None)
        self._node_queue.add(name)
        self._look_at_pods_of(name)

    def _see_pods(self, news: Sequence[News]) -> None:
        for pod, is_gone in objects_in(news, Pod):
            key, node = Key(pod.metadata.namespace, pod.metadata.name), pod.spec.node_name
            if node and is_gone:
                self._forget(node, key)
            elif node:
                self._pods_by_node.setdefault(node, {})[key] = None
                self._consider(node, key)

    def _forget(self, node: str, key: Key) -> None:
        pods = self._pods_by_node.get(node, {})
        pods.pop(key, None)
        if not pods:
            self._pods_by_node.pop(node, None)
            self._missing_since.pop(node, None)

    def _look_at_pods_of(self, name: str) -> None:
        for key in self._pods_by_node.get(name, ()):
            self._consider(name, key)

    def _consider(self, name: str, key: Key) -> None:
        """Most pods are on nodes that are well: those need no turn of their own."""
        if name in self._tainted_at or self._nodes.get("", name) is None:
            self._pod_queue.add(key)

    # ------------------------------------------------------------------------------------------------------ nodes

    async def _look_at(self, name: str) -> None:
        node = self._nodes.get("", name)
        if node is None:
            return
        silent_s = self._clock.monotonic() - self._heard_at[name]
        ready = _ready(node)
        if silent_s < SILENCE_S_MAX:
            self._node_queue.add_after(name, SILENCE_S_MAX - silent_s)
        elif ready is None or ready.status != "Unknown":
            await self._doubt(node, silent_s)
            return  # the watch brings the node back with its new condition
        wanted = with_condition_taints(node.spec.taints, ready.status if ready is not None else "", self._clock.now())
        if wanted is not None:
            body = {
                "metadata": {"resourceVersion": node.metadata.resource_version},
                "spec": {"taints": [_taint_json(taint) for taint in wanted]},
            }
            await self._client.patch(Node, name, body)
            self._log("node_tainted", node=name, taints=[f"{taint.key}:{taint.effect}" for taint in wanted])

    async def _doubt(self, node: Node, silent_s: float) -> None:
        """The conditions of a node that says nothing are unknown."""
        now = instant.format_instant(self._clock.now())
        known = {condition.type: condition for condition in node.status.conditions}
        conditions = [
            {
                "type": kind,
                "status": "Unknown",
                "reason": "NodeStatusUnknown" if kind in known else "NodeStatusNeverUpdated",
                "message": f"nothing was heard from the node's agent for {SILENCE_S_MAX:g} s",
                "lastTransitionTime": now,
            }
            for kind in _REPORTED
            if kind not in known or known[kind].status != "Unknown"
        ]
        body = {
            "metadata": {"resourceVersion": node.metadata.resource_version},
            "status": {"conditions": conditions},
        }
        await self._client.patch(Node, node.metadata.name, body, how=PatchType.STRATEGIC, subresource="status")
        self._log("node_silent", node=node.metadata.name, silent_s=round(silent_s, 1))
        self._recorder.record(node, "Normal", "NodeNotReady", f"Node {node.metadata.name} status is now: NodeNotReady")

    # ------------------------------------------------------------------------------------------------------ pods

    async def _judge(self, key: Key) -> None:
        pod = self._pods.get(*key)
        if pod is None or not pod.spec.node_name:
            return
        node = self._nodes.get("", pod.spec.node_name)
        if node is None:
            await self._judge_orphan(key, pod)
            return
        if pod.metadata.deletion_timestamp is not None or pod.status.phase in ENDED:
            return
        leaves_at = eviction_time(pod, node.spec.taints, self._tainted_at.get(node.metadata.name, self._clock.now()))
        if leaves_at is None:
            return
        rest_s = (leaves_at - self._clock.now()) / instant.SECOND
        if rest_s > 0:
            self._pod_queue.add_after(key, rest_s)
            return
        why = f"the pod does not tolerate a NoExecute taint of node {node.metadata.name}, or no longer"
        self._recorder.record(pod, "Normal", "TaintManagerEviction", f"Marking for deletion Pod {pod.metadata.key}")
        await self._remove(pod, "DeletionByTaintManager", why)

    async def _judge_orphan(self, key: Key, pod: Pod) -> None:
        name = pod.spec.node_name
        since = self._missing_since.setdefault(name, self._clock.monotonic())
        rest_s = since + ORPHAN_S - self._clock.monotonic()
        if rest_s > 0:
            self._pod_queue.add_after(key, rest_s)
        elif await self._is_gone(name):
            await self._remove(pod, "DeletionByPodGC", f"node {name} no longer exists", at_once=True)

    async def _is_gone(self, name: str) -> bool:
        """A watch may be late: only the API server's own word removes pods."""
        try:
            await self._client.get(Node, name)
        except errors.NotFound:
            return True
        return False

    async def _remove(self, pod: Pod, reason: str, why: str, *, at_once: bool = False) -> None:
        """Marks the pod as disrupted, then deletes it; `at_once` where no kubelet is left to end it, and it has failed."""
        metadata = pod.metadata
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": reason,
            "message": why,
            "lastTransitionTime": instant.format_instant(self._clock.now()),
        }
        status: Json = {"conditions": [condition]} | ({"phase": "Failed"} if at_once else {})
        body = {"metadata": {"uid": metadata.uid}, "status": status}
        grace_s = 0 if at_once else None
        try:
            if pod.status.phase not in ENDED:
                await self._client.patch(
                    Pod,
                    metadata.name,
                    body,
                    how=PatchType.STRATEGIC,
                    namespace=metadata.namespace,
                    subresource="status",
                )
            await self._client.delete(
                Pod, metadata.name, namespace=metadata.namespace, uid=metadata.uid, grace_s=grace_s
            )
        except (errors.NotFound, errors.Conflict):
            return  # it is gone, or another one has its name
        self._log("pod_removed", pod=metadata.key, node=pod.spec.node_name, reason=reason)


def with_condition_taints(taints: Iterable[Taint], ready: str, now: Instant) -> list[Taint] | None:
    """The taints that a node with this readiness should have; None where they are right as they are.

    Those that stay keep the time at which they were added: pods count from it.
    """
    key = _TAINT_OF.get(ready, "")
    before = list(taints)
    wanted = {(key, NO_SCHEDULE), (key, NO_EXECUTE)} if key else set()
    kept = [taint for taint in before if taint.key not in _OURS or (taint.key, taint.effect) in wanted]
    present = {(taint.key, taint.effect) for taint in kept}
    added = instant.format_instant(now)
    fresh = [Taint(key=key, effect=effect, time_added=added) for key, effect in sorted(wanted - present)]
    return None if len(kept) == len(before) and not fresh else kept + fresh


def eviction_time(pod: Pod, taints: Iterable[Taint], seen: Instant) -> Instant | None:
    """When the pod has to leave because of NoExecute taints, perhaps long ago; None for never.

    It may stay for the shortest time that it asked for, counted from the taint, or from when it came if that was later; a taint
    that does not say when it was added counts from when it was `seen`.
    """
    earliest: Instant | None = None
    for taint in taints:
        if taint.effect != NO_EXECUTE:
            continue
        matching = [each for each in pod.spec.tolerations if tolerates(each, taint)]
        if not matching:
            return seen
        seconds = [each.toleration_seconds for each in matching if each.toleration_seconds is not None]
        if not seconds:
            continue
        since = max(_when(taint.time_added, seen), _arrival(pod))
        leaves_at = since + max(0, min(seconds)) * instant.SECOND
        earliest = leaves_at if earliest is None else min(earliest, leaves_at)
    return earliest


def _arrival(pod: Pod) -> Instant:
    """When the pod was bound, as far as it says so."""
    bound = (each for each in pod.status.conditions if each.type == "PodScheduled" and each.status == "True")
    scheduled = next(bound, None)
    if scheduled is not None and scheduled.last_transition_time is not None:
        return instant.parse_instant(scheduled.last_transition_time)
    return pod.metadata.created_at


def _when(text: str | None, otherwise: Instant) -> Instant:
    return otherwise if text is None else instant.parse_instant(text)


def _ready(node: Node) -> Condition | None:
    return next((each for each in node.status.conditions if each.type == "Ready"), None)


def _taint_json(taint: Taint) -> Json:
    fields = {"key": taint.key, "value": taint.value, "effect": taint.effect, "timeAdded": taint.time_added}
    return {name: value for name, value in fields.items() if value}

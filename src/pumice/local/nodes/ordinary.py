"""A stand-in for kube-scheduler: places `default-scheduler` pods one by one, first fit.

The embedded cluster has no kube-scheduler, yet its users have ordinary pods, and the demo must show what placing them one
by one does to a gang. It is a plain API client: it watches, binds and says why a pod waits, and knows nothing of gangs.

    pending --fits a node--> bound
       `----fits none------> PodScheduled=False, looked at again when a node or a pod changes
"""

from __future__ import annotations

import asyncio
import collections
from typing import TYPE_CHECKING

from pumice import instant
from pumice.api.core import Node
from pumice.api.pods import ENDED, Pod
from pumice.api.tolerations import tolerates
from pumice.kube import errors
from pumice.kube.informer import objects_in
from pumice.kube.requests import PatchType
from pumice.local.nodes.admission import Ledger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.kube.client import Client
    from pumice.kube.informer import Informers, News
    from pumice.runtime import Runtime

SCHEDULER_NAME = "default-scheduler"
RETRY_S = 1.0  # after a call that failed for reasons that may pass


class OrdinaryPods:
    """Binds ordinary pods until cancelled. The caller runs the informers."""

    def __init__(
        self,
        client: Client,
        informers: Informers,
        runtime: Runtime,
    ) -> None:
        self._client = client
        self._pods = informers.of(Pod)
        self._nodes = informers.of(Node)
        self._clock = runtime.clock
        self._log = runtime.log
        self._ledgers: dict[str, Ledger] = {}  # by node
        self._homes: dict[str, str] = {}  # the node to which a pod is charged, by the pod's uid
        self._pending: dict[str, Pod] = {}  # by uid
        self._told: dict[str, str] = {}  # what a waiting pod's condition says already, by uid
        self._news = asyncio.Event()

    async def run(self) -> None:
        leave = [self._nodes.subscribe(self._see_nodes), self._pods.subscribe(self._see_pods)]
        try:
            while True:
                await self._news.wait()
                await self._nodes.synced.wait()  # a pod is not told that there are no nodes before we know
                await self._pods.synced.wait()
                self._news.clear()
                for pod in sorted(self._pending.values(), key=_rank):
                    if pod.metadata.uid in self._pending:
                        await self._place(pod)
        finally:
            for unsubscribe in leave:
                unsubscribe()

    # -------------------------------------------------------------------------------------------------- what is true

    def _see_nodes(self, news: Sequence[News]) -> None:
        for node, is_gone in objects_in(news, Node):
            name = node.metadata.name
            if is_gone:
                self._ledgers.pop(name, None)
            elif name in self._ledgers:
                self._ledgers[name].node = node
            else:
                self._open_ledger(node)
        self._news.set()

    def _open_ledger(self, node: Node) -> None:
        """A node may come after its pods: those that we know of are charged to it now."""
        ledger = self._ledgers[node.metadata.name] = Ledger(node)
        for pod in self._pods.objects.values():
            if pod.spec.node_name == node.metadata.name and pod.status.phase not in ENDED:
                ledger.charge(pod)
                self._homes[pod.metadata.uid] = node.metadata.name

    def _see_pods(self, news: Sequence[News]) -> None:
        for pod, is_gone in objects_in(news, Pod):
            if is_gone:
                self._forget(pod)
            else:
                self._see_pod(pod)
        self._news.set()

    def _see_pod(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        if pod.status.phase in ENDED:
            self._forget(pod)
        elif pod.spec.node_name:
            self._pending.pop(uid, None)
            self._charge(pod, pod.spec.node_name)
        elif self._is_ours(pod):
            if uid not in self._homes:  # else it is bound already, and this news is older than that
                self._pending[uid] = pod
        else:
            self._pending.pop(uid, None)

    def _is_ours(self, pod: Pod) -> bool:
        name = pod.spec.scheduler_name or SCHEDULER_NAME
        waits = not pod.spec.scheduling_gates and pod.metadata.deletion_timestamp is None
        return name == SCHEDULER_NAME and waits

    def _charge(self, pod: Pod, node: str) -> None:
        self._homes[pod.metadata.uid] = node
        if node in self._ledgers:
            self._ledgers[node].charge(pod)

    def _forget(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        self._pending.pop(uid, None)
        self._told.pop(uid, None)
        ledger = self._ledgers.get(self._homes.pop(uid, ""))
        if ledger is not None:
            ledger.release(uid)

    # ------------------------------------------------------------------------------------------------------ placing

    async def _place(self, pod: Pod) -> None:
        node, why = self._first_fit(pod)
        metadata = pod.metadata
        try:
            if node:
                await self._client.bind(metadata.name, namespace=metadata.namespace, uid=metadata.uid, node=node)
                self._pending.pop(metadata.uid, None)
                self._log("pod_bound", pod=metadata.key, node=node)
            else:
                await self._tell(pod, why)
        except (errors.NotFound, errors.Conflict):
            self._release(pod)
            self._pending.pop(metadata.uid, None)  # it is gone or placed by others; the watch will tell
        except errors.KubeError as error:
            self._release(pod)
            self._log("pod_not_placed", pod=metadata.key, error=str(error))
            await self._clock.sleep(RETRY_S)
            self._news.set()

    def _release(self, pod: Pod) -> None:
        ledger = self._ledgers.get(self._homes.pop(pod.metadata.uid, ""))
        if ledger is not None:
            ledger.release(pod.metadata.uid)

    def _first_fit(self, pod: Pod) -> tuple[str, str]:
        """The first node by name that takes the pod, charged to it; else why none does, as kube-scheduler counts it."""
        reasons: collections.Counter[str] = collections.Counter()
        for name in sorted(self._ledgers):
            ledger = self._ledgers[name]
            obstacle = _refusal(pod, ledger.node) or _obstacle(pod, ledger)
            if not obstacle:
                self._homes[pod.metadata.uid] = name
                return name, ""
            reasons[obstacle] += 1
        counted = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
        return "", f"0/{len(self._ledgers)} nodes are available" + (f": {counted}." if counted else ".")

    async def _tell(self, pod: Pod, why: str) -> None:
        """Writes the reason into the pod's condition, once for each reason."""
        metadata = pod.metadata
        if self._told.get(metadata.uid) == why:
            return
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": why,
            "lastTransitionTime": instant.format_instant(self._clock.now()),
        }
        patch = {"metadata": {"uid": metadata.uid}, "status": {"conditions": [condition]}}
        await self._client.patch(
            Pod, metadata.name, patch, how=PatchType.STRATEGIC, namespace=metadata.namespace, subresource="status"
        )
        self._told[metadata.uid] = why


def _rank(pod: Pod) -> tuple[int, str, str]:
    """Higher priority first, then older, then by name."""
    return -(pod.spec.priority or 0), pod.metadata.creation_timestamp or "", pod.metadata.key


def _refusal(pod: Pod, node: Node) -> str:
    """Why a node takes no new pods of this kind, whatever room it has."""
    if node.spec.unschedulable:
        return "node(s) were unschedulable"
    if any(c.type == "Ready" and c.status != "True" for c in node.status.conditions):
        return "node(s) were not ready"
    for taint in node.spec.taints:
        if taint.effect == "NoSchedule" and not any(tolerates(each, taint) for each in pod.spec.tolerations):
            return "node(s) had untolerated taint(s)"
    return ""


def _obstacle(pod: Pod, ledger: Ledger) -> str:
    """Why the pod does not fit; if it does, it is charged."""
    rejection = ledger.admit(pod)
    if rejection is None:
        return ""
    if rejection.reason.startswith("OutOf"):
        resource = rejection.reason.removeprefix("OutOf")
        return "Too many pods" if resource == "pods" else f"Insufficient {resource}"
    return "node(s) didn't match the pod's node selector, ports or tolerations"

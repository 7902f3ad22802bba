"""Keeps the hosts files of a node's pods current, as peers and headless Services come and go anywhere in the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.api.core import Service
from pumice.api.pods import ENDED, Pod
from pumice.kube.informer import objects_in
from pumice.kube.workqueue import WorkQueue
from pumice.local.nodes.process import hosts
from pumice.local.nodes.process.hosts import Peer

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from pumice.kube.informer import Informers, News
    from pumice.local.nodes.process.hosts import HostsFile
    from pumice.runtime import Log

COALESCE_S = 0.02  # a gang's members come together: one rewrite for many of them


class Resolving:
    """Who is to be found under which name, namespace by namespace."""

    def __init__(self, informers: Informers, *, chance: random.Random, log: Log) -> None:
        self._pods = informers.of(Pod)
        self._services = informers.of(Service)
        self._log = log
        self._peers: dict[str, dict[str, Peer]] = {}  # namespace -> pod's uid -> peer
        self._files: dict[str, dict[str, HostsFile]] = {}  # namespace -> pod's uid -> its file, of our own pods
        self._due: WorkQueue[str] = WorkQueue(chance)

    async def run(self) -> None:
        leave = [self._pods.subscribe(self._see_pods), self._services.subscribe(self._see_services)]
        try:
            await self._due.run(self._rewrite, failed=self._log_failure, workers=1)
        finally:
            for unsubscribe in leave:
                unsubscribe()

    def add(self, namespace: str, uid: str, file: HostsFile) -> None:
        """A pod of ours: its file is kept from now on, and is right when this returns."""
        self._files.setdefault(namespace, {})[uid] = file
        file.update(self._lines(namespace))

    def remove(self, namespace: str, uid: str) -> None:
        files = self._files.get(namespace, {})
        files.pop(uid, None)
        if not files:
            self._files.pop(namespace, None)

    def _see_pods(self, news: Sequence[News]) -> None:
        for pod, is_gone in objects_in(news, Pod):
            peers = self._peers.setdefault(pod.metadata.namespace, {})
            before = peers.pop(pod.metadata.uid, None)
            after = None if is_gone else _peer(pod)
            if after is not None:
                peers[pod.metadata.uid] = after
            if before != after:
                self._touch(pod.metadata.namespace)

    def _see_services(self, news: Sequence[News]) -> None:
        for service, _ in objects_in(news, Service):
            self._touch(service.metadata.namespace)

    def _touch(self, namespace: str) -> None:
        if namespace in self._files:
            self._due.add_after(namespace, COALESCE_S)

    async def _rewrite(self, namespace: str) -> None:
        lines = self._lines(namespace)
        for file in tuple(self._files.get(namespace, {}).values()):
            file.update(lines)

    def _lines(self, namespace: str) -> list[str]:
        services = [each for key, each in self._services.objects.items() if key.namespace == namespace]
        return hosts.peer_lines(namespace, self._peers.get(namespace, {}).values(), services)

    def _log_failure(self, namespace: str, error: Exception, retry_s: float) -> None:
        self._log("hosts_not_written", namespace=namespace, error=str(error), retry_s=round(retry_s, 3))


def _peer(pod: Pod) -> Peer | None:
    """The pod as others may find it; None while it has no address, or once it has ended."""
    if not pod.status.pod_ip or pod.status.phase in ENDED:
        return None
    is_ready = any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions)
    return Peer(pod.status.pod_ip, pod.spec.hostname, pod.spec.subdomain, pod.metadata.labels, is_ready)

"""The pods of a process node, from bound to gone, and what is told of them."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from pumice.api.pods import Pod
from pumice.errors import BadInput, NotFound
from pumice.kube import errors
from pumice.local.nodes.containers import KILLED, PodReport, Waiting, records_of
from pumice.local.nodes.process import logs
from pumice.local.nodes.process.podspec import ProcessPod
from pumice.values import Mutable

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncIterator, Iterator, Mapping

    from pumice.api.meta import Json
    from pumice.clock import Clock
    from pumice.instant import Instant
    from pumice.kube.client import Client
    from pumice.local.nodes.admission import Rejection
    from pumice.local.nodes.process.lifecycle import PodLife
    from pumice.local.nodes.process.machine import Machine
    from pumice.runtime import Log

RETRY_S = 1.0
LOST = "the node's agent was started anew, and the pod's processes ended with the one before"


class HostedPod(Mutable, eq=False):
    """One pod. It may be `over` (nothing of it runs) before its object is `gone`, or the other way round."""

    pod: Pod
    report: PodReport | None = None  # None: over before we came
    rejection: Rejection | None = None
    life: PodLife | None = None
    task: asyncio.Task[None] | None = None
    written: Json | None = None  # the status that the API server knows
    is_over: bool = False
    is_gone: bool = False

    @property
    def uid(self) -> str:
        return self.pod.metadata.uid

    @property
    def phase(self) -> str:
        return self.report.phase if self.report is not None and self.rejection is None else "Failed"

    def status(self, now: Instant) -> Json | None:
        """What the API server should say; None if there is nothing to say."""
        if self.rejection is not None:
            return self.rejection.status
        return self.report.as_json(now) if self.report is not None else None


def fresh_report(pod: Pod, node_ip: str, now: Instant) -> PodReport:
    """The report of a pod that is about to be run."""
    return PodReport(
        records=records_of(pod.spec),
        restart_policy=pod.spec.restart_policy,
        host_ip=node_ip,
        generation=pod.metadata.generation,
        started_at=now,
    )


def lost_report(pod: Pod, node_ip: str, now: Instant) -> PodReport:
    """The report of a pod that a former agent ran."""
    report = fresh_report(pod, node_ip, now)
    report.pod_ip = pod.status.pod_ip
    report.has_network = report.is_over = report.failed = True
    report.reason, report.message = "Lost", LOST
    statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    known = {each.name: each for each in statuses}
    for record in report.records:
        before = known.get(record.name)
        if before is None or (before.state.waiting is not None and before.last_state.terminated is None):
            continue
        record.start(now)
        if (ended := before.state.terminated) is not None:
            record.end(ended.exit_code, now, reason=ended.reason, message=ended.message)
        else:
            record.end(KILLED + signal.SIGKILL, now, reason="ContainerStatusUnknown", message=LOST)
        record.restarts = before.restart_count
    return report


async def whole_pod(hosted: HostedPod, client: Client, *, node: str, clock: Clock, log: Log) -> ProcessPod | None:
    """All of the pod, if it is still the one that was bound to this node; None if not."""
    metadata = hosted.pod.metadata
    while not hosted.is_gone:
        try:
            reply = await client.get(Pod, metadata.name, namespace=metadata.namespace)
        except errors.NotFound:
            return None
        except errors.KubeError as error:
            log("pod_not_read", pod=metadata.key, error=str(error))
            await clock.sleep(RETRY_S)
            continue
        pod = reply.into(ProcessPod)
        return pod if pod.metadata.uid == hosted.uid and pod.spec.node_name == node else None
    return None


class HostedPods:
    """All pods of this node, by uid."""

    def __init__(self, node: str, machine: Machine) -> None:
        self._node = node
        self._machine = machine
        self._hosted: dict[str, HostedPod] = {}

    def __iter__(self) -> Iterator[HostedPod]:
        return iter(tuple(self._hosted.values()))

    def get(self, uid: str) -> HostedPod | None:
        return self._hosted.get(uid)

    def processes(self) -> dict[str, tuple[str, list[int]]]:
        """By uid, the key of each pod that lives, and the process ids of its containers' inits."""
        return {
            each.uid: (each.pod.metadata.key, each.life.inits)
            for each in self
            if each.life is not None and not each.is_over
        }

    def add(self, pod: Pod) -> HostedPod:
        hosted = self._hosted[pod.metadata.uid] = HostedPod(pod)
        return hosted

    def forget(self, hosted: HostedPod) -> None:
        """Nothing runs, and its logs can no longer be asked for."""
        self._hosted.pop(hosted.uid, None)
        self._machine.forget(hosted.uid)

    def sweep(self, uids: frozenset[str]) -> None:
        """Removes the folders of pods that vanished while no agent was here to see it."""
        for uid in self._machine.known_pods():
            if uid not in uids and uid not in self._hosted:
                self._machine.forget(uid)

    def open_log(
        self, namespace: str, pod: str, container: str, query: Mapping[str, str], now: Instant
    ) -> AsyncIterator[bytes]:
        """A container's output; where there is none, a kubelet's words for why."""
        options = logs.read_options(query, now)
        named = [each for each in self if (each.pod.metadata.namespace, each.pod.metadata.name) == (namespace, pod)]
        if not named:
            raise NotFound(f'pod "{pod}" does not exist on node {self._node}')
        hosted = named[-1]
        spec = hosted.pod.spec
        if container not in {each.name for each in (*spec.containers, *spec.init_containers)}:
            raise NotFound(f'container "{container}" not found in pod "{pod}"')
        chunks = self._machine.logs(hosted.uid).read(container, options)
        if chunks is not None:
            return chunks
        if options.previous:
            raise BadInput(f'previous terminated container "{container}" in pod "{pod}" not found')
        records = hosted.report.records if hosted.report is not None else []
        state = next((each.state for each in records if each.name == container), None)
        how = f"waiting to start: {state.reason}" if isinstance(state, Waiting) else "terminated"
        raise BadInput(f'container "{container}" in pod "{pod}" is {how}')

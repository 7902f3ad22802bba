"""The agent of a process node: runs the pods that are bound to it as processes of this machine.

    bound --admitted--> living --> over --deleted--> gone
       `---rejected------------------^
    living --deleted--> stopping --> over

    agent = ProcessAgent(client, informers, ProcessSettings(name="me", folder=Path("...")), clock=clock, chance=chance)
    await agent.run()       # until cancelled; then its pods end, and nothing is left running

Only pods that the API server says are bound to this very node are run. The agent of a node that starts anew ends what its
predecessor may have left, and reports those pods as failed: their processes are gone.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Literal

import msgspec

from pumice.api import decoding
from pumice.api.changes import Deleted, Relisted
from pumice.api.core import Node
from pumice.api.pods import ENDED, Pod
from pumice.kube import errors
from pumice.kube.informer import objects_in
from pumice.kube.recorder import Recorder
from pumice.kube.requests import PatchType
from pumice.kube.workqueue import WorkQueue
from pumice.local.nodes import registration
from pumice.local.nodes.admission import Ledger, Rejection
from pumice.local.nodes.process import launch, orders
from pumice.local.nodes.process.devices import NoDevice
from pumice.local.nodes.process.gpu_meter import GpuReporter
from pumice.local.nodes.process.hosted_pods import LOST, HostedPods, fresh_report, lost_report, whole_pod
from pumice.local.nodes.process.machine import Machine
from pumice.local.nodes.process.resolving import Resolving
from pumice.local.nodes.process.sources import SourceWatches
from pumice.local.nodes.registration import Heartbeats
from pumice.local.nodes.serving import LogServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from pumice.kube.client import Client
    from pumice.kube.informer import Informers, News
    from pumice.local.nodes.process.hosted_pods import HostedPod
    from pumice.local.nodes.process.machine import ProcessSettings
    from pumice.local.nodes.process.podspec import ProcessPod
    from pumice.runtime import Runtime

FORCED_GRACE_S = 2.0  # for a pod whose object is gone already, as in a kubelet
LAST_WRITES_S_MAX = 3.0  # when the agent ends; the API server may have ended before it
RETRY_S = 1.0

_SHUTDOWN = "Pod was terminated in response to imminent node shutdown."


class ProcessAgent:
    """Plays the kubelet of one process node. The caller runs the informers."""

    def __init__(
        self,
        client: Client,
        informers: Informers,
        settings: ProcessSettings,
        runtime: Runtime,
    ) -> None:
        clock, chance, log = runtime.clock, runtime.chance, runtime.log
        self.name = settings.name
        self._client = client
        self._pods = informers.of(Pod)
        self._nodes = informers.of(Node)
        self._settings = settings
        self._clock = clock
        self._log = log
        self._machine = Machine(settings, clock=clock)
        self._hosted = HostedPods(settings.name, self._machine)
        self._watches = SourceWatches(client, runtime)
        self._resolving = Resolving(informers, chance=chance, log=log)
        self._heartbeats = Heartbeats(client, runtime, lease_s=settings.lease_s)
        self._recorder = Recorder(client, component="kubelet", instance=settings.name, clock=clock, log=log)
        self._due: WorkQueue[str] = WorkQueue(chance)  # pods of which a status is to be written
        self._doubted = asyncio.Event()  # the cluster says that we are not Ready, and we are
        self._ledger: Ledger
        self.ready = asyncio.Event()  # set for good once the node is registered

    # ------------------------------------------------------------------------------------------------------ running

    async def run(self) -> None:
        """Joins the cluster and runs pods until cancelled; then ends them."""
        with self._machine as machine:
            killed = machine.records.end_all()
            if killed:
                self._log("leftovers_ended", processes=len(killed))
            await launch.probe(machine.probe_folder, machine.records)
            address = machine.addresses.node
            server = LogServer(
                self,
                self._client,
                node=self.name,
                address=address,
                folder=machine.tls_folder,
                authority=self._settings.authority,
            )
            async with server:
                await self._register(address, server.port)
                try:
                    await self._serve()
                finally:
                    await self._shut_down()

    async def _register(self, address: str, port: int) -> None:
        facts = self._settings.facts(address, port)
        self._ledger = Ledger(decoding.decode_value(Node, facts.manifest(self._clock.now())))
        uid = await registration.register(self._client, facts, now=self._clock.now())
        self._heartbeats.add(self.name, uid)
        self._log("node_registered", node=self.name, address=address, port=port, **dict(facts.capacity))

    async def _serve(self) -> None:
        leave = [self._nodes.subscribe(self._see_nodes), self._pods.subscribe(self._see_pods)]
        self.ready.set()
        try:
            async with asyncio.TaskGroup() as crew:
                crew.create_task(self._heartbeats.run())
                crew.create_task(self._recorder.run())
                crew.create_task(self._resolving.run())
                crew.create_task(self._due.run(self._write, failed=self._log_failure))
                crew.create_task(self._stay_ready())
                if self._settings.nvml is not None:
                    reporter = GpuReporter(
                        self._settings.nvml, self._client, self.name, clock=self._clock, log=self._log
                    )
                    crew.create_task(reporter.run(lambda: self._machine.devices.held, self._hosted.processes))
        finally:
            for unsubscribe in leave:
                unsubscribe()

    async def _shut_down(self) -> None:
        """Ends all pods and says so, as far as the server still answers."""
        tasks = []
        for hosted in self._hosted:
            if hosted.task is not None and not hosted.is_over:
                tasks.append(hosted.task)
                if hosted.life is not None:
                    hosted.life.fail("Terminated", _SHUTDOWN, self._settings.shutdown_grace_s)
                else:
                    hosted.task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._watches.close()
        with contextlib.suppress(TimeoutError, errors.KubeError):
            async with asyncio.timeout(LAST_WRITES_S_MAX):
                for hosted in self._hosted:
                    await self._write(hosted.uid)
                await registration.report_readiness(
                    self._client, self.name, now=self._clock.now(), is_ready=False, message="the node's agent has ended"
                )
                await self._recorder.write(everything=True)
        self._log("node_left", node=self.name)

    # ------------------------------------------------------------------------------------------------------ seeing

    def _see_nodes(self, news: Sequence[News]) -> None:
        """Labels and taints are the cluster's to change; what the node has is ours to know."""
        for node, is_gone in objects_in(news, Node):
            if node.metadata.name == self.name and not is_gone:
                self._ledger.node = msgspec.structs.replace(node, status=self._ledger.node.status)
                if any(each.type == "Ready" and each.status != "True" for each in node.status.conditions):
                    self._doubted.set()

    async def _stay_ready(self) -> None:
        """Takes back that the node is dead, as others may have written after a pause of this process."""
        while True:
            await self._doubted.wait()
            self._doubted.clear()
            try:
                await registration.report_readiness(self._client, self.name, now=self._clock.now(), is_ready=True)
            except errors.KubeError as error:
                self._log("readiness_not_reported", node=self.name, error=str(error))
                self._doubted.set()
                await self._clock.sleep(RETRY_S)

    def _see_pods(self, news: Sequence[News]) -> None:
        fresh: list[Pod] = []
        for change in news:
            if isinstance(change, Relisted):
                self._hosted.sweep(change.uids)
                continue
            pod = change.object
            if not isinstance(pod, Pod) or pod.spec.node_name != self.name:
                continue
            hosted = self._hosted.get(pod.metadata.uid)
            if isinstance(change, Deleted):
                self._lose(pod.metadata.uid)
            elif hosted is None:
                fresh.append(pod)
            else:
                hosted.pod = pod
                self._look_at(hosted)
        for pod in sorted(fresh, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.metadata.name)):
            self._take(pod)

    def _lose(self, uid: str) -> None:
        """The pod's object is gone: nothing waits for its processes any more."""
        hosted = self._hosted.get(uid)
        if hosted is None:
            return
        hosted.is_gone = True
        if hosted.is_over:
            self._hosted.forget(hosted)
        elif hosted.life is not None:
            hosted.life.stop(FORCED_GRACE_S)

    def _look_at(self, hosted: HostedPod) -> None:
        metadata = hosted.pod.metadata
        if hosted.life is not None:
            hosted.life.see(metadata)
            if metadata.deletion_timestamp is not None:
                if not hosted.life.is_stopping:
                    self._tell(hosted.pod, "Normal", "Killing", "Stopping the pod's containers")
                hosted.life.stop(float(metadata.deletion_grace_period_seconds or 0))
        if metadata.deletion_timestamp is not None:
            self._due.add(hosted.uid)

    def _take(self, pod: Pod) -> None:
        """Starts, rejects or reports a pod that is new to this agent."""
        hosted = self._hosted.add(pod)
        if pod.status.phase in ENDED:
            hosted.is_over = True
        elif pod.status.start_time is not None:
            hosted.report, hosted.is_over = lost_report(pod, self._machine.addresses.node, self._clock.now()), True
            self._tell(pod, "Warning", "Lost", LOST)
        elif pod.metadata.deletion_timestamp is not None:
            hosted.is_over = True
        else:
            rejection = self._ledger.admit(pod)
            if rejection is not None:
                self._reject(hosted, rejection)
            else:
                hosted.report = fresh_report(pod, self._machine.addresses.node, self._clock.now())
                hosted.task = asyncio.create_task(self._host(hosted), name=f"pod-{pod.metadata.key}")
        self._due.add(hosted.uid)

    def _reject(self, hosted: HostedPod, rejection: Rejection) -> None:
        hosted.rejection, hosted.is_over = rejection, True
        self._tell(hosted.pod, "Warning", rejection.reason, rejection.message)

    # ------------------------------------------------------------------------------------------------------ living

    async def _host(self, hosted: HostedPod) -> None:
        """Runs one pod to its end, and then gives back its address and its GPUs."""
        uid, key, report = hosted.uid, hosted.pod.metadata.key, hosted.report
        assert report is not None
        report.is_settled = False
        self._log("pod_admitted", pod=key, uid=uid)
        try:
            full = await whole_pod(hosted, self._client, node=self.name, clock=self._clock, log=self._log)
            if full is not None:
                await self._live(hosted, full)
        except Exception as error:  # noqa: BLE001 - whatever breaks one pod's life must not take the others along
            self._log("pod_broken", pod=key, error=repr(error))
            report.failed, report.reason, report.message = True, "AgentError", repr(error)
        finally:
            self._ledger.release(uid)
            self._machine.give_back(uid)
            self._resolving.remove(hosted.pod.metadata.namespace, uid)
            hosted.is_over = report.is_settled = True
            self._log("pod_ended", pod=key, uid=uid, phase=hosted.phase)
            if hosted.is_gone:
                self._hosted.forget(hosted)
            else:
                self._due.add(uid)

    async def _live(self, hosted: HostedPod, full: ProcessPod) -> None:
        assert hosted.report is not None
        if complaint := orders.no_command(full):
            self._reject(hosted, Rejection("CommandMissing", complaint))
            return
        pod, metadata = hosted.pod, hosted.pod.metadata
        if notice := orders.ignored_fields_message(full):
            self._tell(pod, "Warning", "Ignored", notice)
        try:
            gpus = self._machine.devices.take(pod)
        except NoDevice as error:
            self._reject(hosted, Rejection("UnexpectedAdmissionError", str(error)))
            return
        addresses = self._machine.addresses
        hosted.report.pod_ip = addresses.node if pod.spec.host_network else addresses.take(hosted.uid)
        hosted.life = self._machine.new_life(
            pod,
            full,
            hosted.report,
            client=self._client,
            watches=self._watches,
            gpus=gpus,
            changed=lambda: self._due.add(hosted.uid),
            tell=lambda type_, reason, message: self._tell(pod, type_, reason, message),
        )
        self._resolving.add(metadata.namespace, hosted.uid, hosted.life.hosts)
        self._look_at(hosted)  # it may have been deleted meanwhile
        await hosted.life.run()

    # ------------------------------------------------------------------------------------------------------ telling

    def _tell(self, pod: Pod, type_: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        self._log("pod_event", pod=pod.metadata.key, type=type_, reason=reason, message=message)
        self._recorder.record(pod, type_, reason, message)

    async def _write(self, uid: str) -> None:
        """Tells the API server what is new about a pod, and removes one that has ended and is to go."""
        hosted = self._hosted.get(uid)
        if hosted is None or hosted.is_gone:
            return
        metadata = hosted.pod.metadata
        try:
            await self._write_status(hosted)
            if hosted.is_over and metadata.deletion_timestamp is not None:
                await self._client.delete(Pod, metadata.name, namespace=metadata.namespace, grace_s=0, uid=uid)
        except (errors.NotFound, errors.Conflict):
            self._lose(uid)  # it is gone, or another one has its name

    async def _write_status(self, hosted: HostedPod) -> None:
        status = hosted.status(self._clock.now())
        if status is None or status == hosted.written:
            return
        metadata = hosted.pod.metadata
        await self._client.patch(
            Pod,
            metadata.name,
            {"metadata": {"uid": metadata.uid}, "status": status},
            namespace=metadata.namespace,
            how=PatchType.STRATEGIC,
            subresource="status",
        )
        hosted.written = status

    def _log_failure(self, uid: str, error: Exception, retry_s: float) -> None:
        hosted = self._hosted.get(uid)
        key = hosted.pod.metadata.key if hosted is not None else uid
        self._log("status_not_written", pod=key, error=str(error), retry_s=round(retry_s, 3))

    # ------------------------------------------------------------------------------------------------------ logs

    def open_log(self, namespace: str, pod: str, container: str, query: Mapping[str, str]) -> AsyncIterator[bytes]:
        """A container's output; NotFound or BadInput in a kubelet's words where there is none."""
        return self._hosted.open_log(namespace, pod, container, query, self._clock.now())

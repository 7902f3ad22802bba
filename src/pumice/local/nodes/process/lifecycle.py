"""One pod's life on a process node.

    volumes --> init containers, one after the other (sidecars stay) --> all containers --> their ends --> sidecars end
       |                         |                                           |                              |
       +-------------------------+----- stop(): SIGTERM, grace, SIGKILL -----+------------------------------+

Its state is in its report, which the agent writes to the API server whenever it changed.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
from typing import TYPE_CHECKING

import msgspec

from pumice.api import names
from pumice.api.run_time import SIGNALS
from pumice.errors import BadInput
from pumice.kube import errors
from pumice.local.nodes.process import hosts
from pumice.local.nodes.process.runner import RETRY_S, ContainerRunner, Surroundings, first_of
from pumice.local.nodes.process.sources import MissingSource

if TYPE_CHECKING:
    from pumice.api.meta import ObjectMeta
    from pumice.local.nodes.containers import PodReport
    from pumice.local.nodes.process.podspec import ProcessPod

# Annotations of a pod: the news, the signal that it asks for with it, and what people are told.
WARNINGS = (
    (names.TIME_LIMIT_ENDS, names.TIME_LIMIT_SIGNAL, "the time limit ends at {}".format),
    (names.EVICTION_NOTICE, names.CHECKPOINT_SIGNAL, lambda _: "the pod is going to be evicted"),
)
_DEADLINE = "Pod was active on the node longer than the specified deadline"


class PodLife:
    """Runs one pod; run() returns when all its containers have ended for good, and nothing of them is left running."""

    def __init__(self, pod: ProcessPod, report: PodReport, at: Surroundings) -> None:
        self.pod = pod
        self.report = report
        self._at = at
        records = {record.name: record for record in report.records}
        self._inits = [ContainerRunner(each, records[each.name], at) for each in pod.spec.init_containers]
        self._mains = [ContainerRunner(each, records[each.name], at) for each in pod.spec.containers]
        self._stopping = asyncio.Event()
        self._killing: asyncio.TimerHandle | None = None
        self._news = asyncio.Event()
        self.hosts = hosts.HostsFile(at.folder / "hosts", hosts.own_lines(pod, at.facts.pod_ip))

    @property
    def is_stopping(self) -> bool:
        return self._stopping.is_set()

    @property
    def _runners(self) -> list[ContainerRunner]:
        return [*self._inits, *self._mains]

    @property
    def inits(self) -> list[int]:
        """The process ids of the inits of its containers that run."""
        return [runner.init for runner in self._runners if runner.init is not None]

    # ------------------------------------------------------------------------------------------------------ from outside

    def stop(self, grace_s: float) -> None:
        """Asks the containers to end and kills them after `grace_s`; a later call can only shorten that time."""
        self._kill_after(grace_s)
        if not self._stopping.is_set():
            self._stopping.set()
            for runner in self._runners:
                if not runner.container.is_sidecar:
                    runner.terminate()

    def fail(self, reason: str, message: str, grace_s: float) -> None:
        """Ends the pod as one that has failed, whatever its containers say."""
        self.report.failed, self.report.reason, self.report.message = True, reason, message
        self.stop(grace_s)

    def see(self, metadata: ObjectMeta) -> None:
        """Takes note of the pod's labels and annotations, which its files may show."""
        self.report.generation = metadata.generation
        if (metadata.labels, metadata.annotations) != (self.pod.metadata.labels, self.pod.metadata.annotations):
            self._warn(metadata)
            self.pod = msgspec.structs.replace(self.pod, metadata=metadata)
            self.source_changed()

    def _warn(self, metadata: ObjectMeta) -> None:
        """Sends the signals that the pod asks for, when it is told that its time will be up, or that it has to leave."""
        before, after = self.pod.metadata.annotations, metadata.annotations
        for news, asked, why in WARNINGS:
            wanted = after.get(asked)
            if news in after and after[news] != before.get(news) and wanted in SIGNALS:
                reached = [runner.container.name for runner in self._runners if runner.signal(signal.Signals[wanted])]
                self._at.tell("Normal", wanted, f"Sent to {', '.join(reached) or 'nobody'}: {why(after[news])}")

    def source_changed(self) -> None:
        """Something that the pod's files or its environment are made from may have changed."""
        self._news.set()
        for runner in self._runners:
            runner.source_changed()

    # ------------------------------------------------------------------------------------------------------ running

    async def run(self) -> None:
        loop, limit_s = asyncio.get_running_loop(), self.pod.spec.active_deadline_seconds
        grace_s = float(self.pod.spec.termination_grace_period_seconds)
        timer = loop.call_later(limit_s, self.fail, "DeadlineExceeded", _DEADLINE, grace_s) if limit_s else None
        try:
            if await self._prepare():
                async with asyncio.TaskGroup() as crew:
                    keeping = crew.create_task(self._keep_volumes())
                    await self._run_containers(crew)
                    keeping.cancel()
        finally:
            if timer is not None:
                timer.cancel()
            if self._killing is not None:
                self._killing.cancel()
            self.report.is_over = True
            self._clean_up()

    async def _prepare(self) -> bool:
        """Makes the volumes, as soon as all that they take is there; False if that can never be, or the pod is to end."""
        while not self._stopping.is_set():
            self._news.clear()
            try:
                await self._at.volumes.prepare()
            except BadInput as error:
                self._at.tell("Warning", "FailedMount", str(error))
                self.fail("FailedMount", str(error), 0.0)
            except (MissingSource, errors.KubeError, OSError) as error:
                self._at.tell("Warning", "FailedMount", f"MountVolume.SetUp failed: {error}")
                await first_of(self._news.wait(), self._at.clock.sleep(RETRY_S), self._stopping.wait())
            else:
                self.report.has_network = True
                return True
        return False

    async def _run_containers(self, crew: asyncio.TaskGroup) -> None:
        sidecars: list[tuple[ContainerRunner, asyncio.Task[None]]] = []
        if await self._initialize(crew, sidecars):
            mains = [crew.create_task(runner.keep(lambda: self.pod)) for runner in self._mains]
            await asyncio.wait(mains)
        if sidecars and not self._stopping.is_set():
            self._kill_after(float(self.pod.spec.termination_grace_period_seconds))
        for runner, task in reversed(sidecars):
            runner.terminate()
            await asyncio.wait({task})

    async def _initialize(
        self, crew: asyncio.TaskGroup, sidecars: list[tuple[ContainerRunner, asyncio.Task[None]]]
    ) -> bool:
        """Runs the init containers in order; False if one failed for good, or the pod is to end."""
        for runner in self._inits:
            task = crew.create_task(runner.keep(lambda: self.pod))
            if runner.container.is_sidecar:
                sidecars.append((runner, task))
                await first_of(runner.started.wait(), self._stopping.wait())
            else:
                await asyncio.wait({task})
                if not runner.record.is_ready:
                    return False
            if self._stopping.is_set():
                return False
        return True

    async def _keep_volumes(self) -> None:
        """Rewrites the files of volumes when their sources change, or when a token grows old."""
        while True:
            wait_s = self._at.volumes.renew_at - self._at.clock.monotonic()
            await first_of(
                self._news.wait(), *([self._at.clock.sleep(max(0.0, wait_s))] if wait_s < float("inf") else [])
            )
            self._news.clear()
            try:
                await self._at.volumes.refresh(self.pod)
            except (errors.KubeError, OSError, BadInput) as error:
                self._at.tell("Warning", "FailedMount", f"MountVolume.SetUp failed: {error}")
                await self._at.clock.sleep(RETRY_S)
                self._news.set()

    # ------------------------------------------------------------------------------------------------------ ending

    def _kill_after(self, grace_s: float) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() + grace_s
        if self._killing is not None:
            if self._killing.when() <= due:
                return
            self._killing.cancel()
        self._killing = loop.call_at(due, self._kill_all)

    def _kill_all(self) -> None:
        for runner in self._runners:
            runner.kill()

    def _clean_up(self) -> None:
        """Lets go of all but the logs, which are kept as long as the pod's object is."""
        self.hosts.close()
        self._at.sources.release()
        for name in ("volumes", "containers", "hosts"):
            path = self._at.folder / name
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

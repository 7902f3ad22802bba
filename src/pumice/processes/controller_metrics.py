"""Numbers about the controllers' work: what Jobs and gangs there are, how they end, what restarts cost, and what is written."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING

import msgspec

from pumice import instant
from pumice.api import kinds
from pumice.api.batch import Job, JobPhase
from pumice.api.flow import JobFlow, JobFlowPhase
from pumice.api.pods import Pod
from pumice.api.scheduling import PodGroup, PodGroupPhase
from pumice.controllers.job.progress import progress_of
from pumice.values import Mutable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.controllers.cache import Cache
    from pumice.controllers.driver import Driver
    from pumice.controllers.executor import Executor
    from pumice.telemetry.meters import Meters

_ENDS = {
    JobPhase.COMPLETED.value: "volcano_job_completed_phase_count",
    JobPhase.FAILED.value: "volcano_job_failed_phase_count",
}
_FLOW_ENDS = {
    JobFlowPhase.SUCCEED.value: "volcano_jobflow_succeed_phase_count",
    JobFlowPhase.FAILED.value: "volcano_jobflow_failed_phase_count",
}
_LATENCY = "volcano_controller_job_to_pod_creation_latency_milliseconds"


class _Seen(Mutable):
    """What was last seen of a Job."""

    name: str
    queue: str
    phase: str
    lost_s: int
    has_pods: bool
    ends: collections.Counter[str] = msgspec.field(default_factory=collections.Counter)


class JobObserver:
    """Sees every change of every Job; what it saw first, when the process began, is no change."""

    def __init__(self, meters: Meters, cache: Cache) -> None:
        self._meters = meters
        self._known = cache
        self._seen: dict[str, _Seen] = {}
        self._flows: dict[str, str] = {}  # the phase of each JobFlow, by uid
        self._flow_ends: collections.Counter[tuple[str, str]] = collections.Counter()  # by phase and namespace
        self._counted: collections.Counter[str] = collections.Counter()

    def start(self) -> None:
        """To be called when the cache is filled: changes count from now on."""
        self._known.of(Job).subscribe(self._see)
        self._known.of(JobFlow).subscribe(self._see_flows)

    def looked(self, controller: str, seconds: float) -> None:
        """A controller has looked at an object and done what followed."""
        self._meters.observe("pumice_controller_seconds", seconds, controller=controller)

    def _see(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            if self._known.of(Job).get(job.metadata.namespace, job.metadata.name) is None:
                self._seen.pop(job.metadata.uid, None)
                continue
            phase, lost_s = job.status.state.phase, progress_of(job.status).lost_s
            has_pods = bool(job.status.task_status_count)
            seen = self._seen.get(job.metadata.uid)
            if seen is None:
                self._seen[job.metadata.uid] = _Seen(job.metadata.key, job.spec.queue, phase, lost_s, has_pods)
                continue
            self._count_change(job, seen, phase, lost_s)
            seen.phase, seen.lost_s, seen.has_pods = phase, lost_s, seen.has_pods or has_pods

    def _see_flows(self, flows: Sequence[JobFlow]) -> None:
        for flow in flows:
            metadata, phase = flow.metadata, flow.status.state.phase
            if self._known.of(JobFlow).get(metadata.namespace, metadata.name) is None:
                self._flows.pop(metadata.uid, None)
                continue
            before = self._flows.get(metadata.uid)
            if before is not None and before != phase and phase in _FLOW_ENDS:
                self._flow_ends[phase, metadata.namespace] += 1
            self._flows[metadata.uid] = phase

    def _count_change(self, job: Job, seen: _Seen, phase: str, lost_s: int) -> None:
        if lost_s > seen.lost_s:
            self._meters.count("pumice_job_lost_seconds_total", lost_s - seen.lost_s, queue=seen.queue)
        if phase != seen.phase:
            if phase in _ENDS:
                seen.ends[phase] += 1
            elif phase == JobPhase.RESTARTING:
                reason = job.status.state.reason or "unknown"
                self._meters.count("pumice_job_restarts_total", queue=seen.queue, reason=reason)
        if not seen.has_pods and job.status.task_status_count:
            self._observe_latency(job)

    def _observe_latency(self, job: Job) -> None:
        """Timestamps of objects are whole seconds; so are these figures, at their finest."""
        born = [pod.metadata.creation_timestamp for pod in self._known.of(Pod).owned_by(job.metadata.uid)]
        made, created = min((each for each in born if each), default=None), job.metadata.creation_timestamp
        if made is not None and created is not None:
            waited = instant.parse_instant(made) - instant.parse_instant(created)
            self._meters.observe(_LATENCY, max(waited, 0) / instant.MILLISECOND)

    # ------------------------------------------------------------------------------------------------- now and then

    def tell(self, executor: Executor, drivers: Sequence[Driver]) -> None:
        """Brings all gauges up to date, and counters up to what has been done."""
        for operation, number in executor.writes.items():
            self._count("pumice_controller_writes_total", operation, number, operation=operation)
        for driver in drivers:
            name = driver.name
            self._count("pumice_controller_plans_total", name, driver.plans, controller=name)
            for reason, number in driver.retries.items():
                label = f"{name} {reason}"
                self._count("pumice_controller_retries_total", label, number, controller=name, reason=reason)
        self._meters.replace("pumice_controller_waiting", (((each.name,), float(each.waiting)) for each in drivers))
        sizes = {kinds.by_struct(struct).kind: len(store) for struct, store in self._known.stores.items()}
        self._meters.replace("pumice_controller_known", (((kind,), float(size)) for kind, size in sizes.items()))
        for phase, metric in _FLOW_ENDS.items():
            ended_flows = (((where,), float(number)) for (at, where), number in self._flow_ends.items() if at == phase)
            self._meters.replace(metric, ended_flows)
        for phase, metric in _ENDS.items():
            ended = [(each.name, each.queue, each.ends[phase]) for each in self._seen.values() if each.ends[phase]]
            self._meters.replace(metric, (((name, queue), float(number)) for name, queue, number in ended))
        jobs = collections.Counter((each.queue, each.phase) for each in self._seen.values())
        self._meters.replace("pumice_jobs", ((labels, float(number)) for labels, number in jobs.items()))
        self._tell_groups()

    def _tell_groups(self) -> None:
        groups = collections.Counter(
            (group.spec.queue, group.status.phase or PodGroupPhase.PENDING.value)
            for group in self._known.of(PodGroup).all()
        )
        for phase in PodGroupPhase:
            counts = (((queue,), float(number)) for (queue, at), number in groups.items() if at == phase)
            self._meters.replace(f"volcano_queue_pod_group_{phase.lower()}_count", counts)

    def _count(self, metric: str, label: str, total: int, **labels: str) -> None:
        cache = self._counted[f"{metric} {label}"]
        if total > cache:
            self._meters.count(metric, total - cache, **labels)
            self._counted[f"{metric} {label}"] = total

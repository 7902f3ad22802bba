"""What a Job that goes on needs to exist: claims, plugins' objects, its PodGroup and, once that is admitted, its pods."""

from __future__ import annotations

import hashlib
import itertools
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from pumice import instant
from pumice.api import names
from pumice.api.pods import Pod
from pumice.api.scheduling import PodGroupPhase
from pumice.api.validation.limits import JOB_REPLICAS_MAX
from pumice.controllers.job import volumes
from pumice.controllers.job.defaulting import excess, pod_name
from pumice.controllers.job.dependencies import may_start
from pumice.controllers.job.plugins import plugins_of
from pumice.controllers.job.plugins.plugin import PluginFault
from pumice.controllers.job.podgroup import group_operation, unmet_condition
from pumice.controllers.job.pods import PodMaker
from pumice.controllers.job.status import with_progress
from pumice.controllers.operations import Blame, Create, Emit, Patch, target_of
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pumice.api.batch import Job, JobStatus
    from pumice.api.scheduling import PodGroup
    from pumice.controllers.job.members import Roster
    from pumice.controllers.job.plugins.plugin import JobPlugin
    from pumice.controllers.job.progress import Progress
    from pumice.controllers.job.view import JobView
    from pumice.controllers.operations import Operation
    from pumice.instant import Instant

QUEUE_GRACE = 5 * instant.SECOND  # a queue that was made just before its first Job may become known after it
# How many pods one plan makes; the rest is planned when these exist and other Jobs have had their turn. Their bodies are held in
# memory, and a plan looks at all pods that exist, so the larger the Job, the more it makes at a time.
PODS_OF_ONE_PLAN = 128
PODS_OF_ONE_PLAN_MAX = 2_000
GROWTH_SHARE = 8  # one pod more for each eight that exist
_PLUGIN = "plugin-"


class Desired(Value):
    """What comes first, what comes with the status, and the pods at last; no status where the Job itself is being changed."""

    first: tuple[Operation, ...] = ()
    second: tuple[Operation, ...] = ()
    pods: tuple[Operation, ...] = ()
    status: JobStatus | None = None
    again_at: Instant | None = None


def plan_objects(view: JobView, job: Job, roster: Roster, status: JobStatus, progress: Progress) -> Desired:
    if text := excess(job):
        return Desired((Emit(job, "Warning", "InvalidJob", text),), status=with_progress(status, progress))
    claims = volumes.claims(job, view.claims)
    forwarding = _forwarding(view, job)
    if any(isinstance(each, Patch) for each in claims.operations) or forwarding:
        # The Job's version changes: the rest is planned after that.
        return Desired(first=(*claims.operations, *forwarding))
    complaints, again_at = _complaints(view, job)
    try:
        plugins = plugins_of(job)
        objects, recorded, progress = _plugin_objects(job, plugins, progress, restores=view.restores)
    except PluginFault as fault:
        return Desired(
            (*complaints, Emit(job, "Warning", "PluginError", str(fault))), status=with_progress(status, progress)
        )
    first = (*complaints, *claims.operations, *objects)
    if claims.missing:
        text = f"claim {', '.join(claims.missing)} does not exist: the job waits for it; create it, or correct spec.volumes"
        return Desired(
            (*first, Emit(job, "Warning", "PVCError", text)), status=with_progress(_with(status, recorded), progress)
        )
    status = with_progress(_with(status, {**claims.recorded, **recorded}), progress)
    if view.group is not None and view.group.metadata.uid == progress.group:
        return Desired(first, status=status, again_at=again_at)  # the gang that was killed has to be gone first
    group = group_operation(job, view.group, view.priorities, view.queue_name)
    pods = _pods(view, replace(job, status=status), roster, plugins) if is_admitted(view.group) else ()
    return Desired(first, (group,) if group is not None else (), pods, status, again_at)


def is_admitted(group: PodGroup | None) -> bool:
    """True once the scheduler has let the gang into its queue: before that, pods would only be in the way."""
    return group is not None and group.status.phase not in {"", PodGroupPhase.PENDING.value}


def _with(status: JobStatus, recorded: Mapping[str, str]) -> JobStatus:
    return replace(status, controlled_resources={**status.controlled_resources, **recorded})


def _complaints(view: JobView, job: Job) -> tuple[tuple[Operation, ...], Instant | None]:
    """What people should know of a Job that waits, and when to look again."""
    said: list[Operation] = []
    grace = job.metadata.created_at + QUEUE_GRACE
    if view.queue is None and view.now >= grace:
        text = f"queue {job.spec.queue!r} does not exist: the job waits for it; create it, or delete the job"
        said.append(Emit(job, "Warning", "QueueMissing", text))
    if view.group is not None:
        unmet = unmet_condition(view.group)
        if unmet is not None:
            where = f"{job.metadata.namespace}:{job.metadata.name}"
            text = f"PodGroup {where} {unmet.type.lower()}, reason: {unmet.message}"
            said.append(Emit(job, "Warning", "PodGroupPending", text))
    return tuple(said), grace if view.queue is None and view.now < grace else None


def _forwarding(view: JobView, job: Job) -> tuple[Operation, ...]:
    """The mark by which another cluster may take the Job over."""
    if not is_forwarded(view) or job.metadata.annotations.get(names.JOB_FORWARDING) == "true":
        return ()
    body = {"metadata": {"annotations": {names.JOB_FORWARDING: "true"}}}
    return (Patch(**target_of(job), body=body),)


def is_forwarded(view: JobView) -> bool:
    return view.queue is not None and bool(view.queue.spec.extend_clusters)


# ------------------------------------------------------------------------------------------------------------- plugins


def _plugin_objects(
    job: Job, plugins: Sequence[JobPlugin], progress: Progress, *, restores: bool
) -> tuple[list[Operation], dict[str, str], Progress]:
    """What plugins make once, and what they change when the number of pods does; with what to record of both.

    `restores`: and what was deleted since.
    """
    operations: list[Operation] = []
    recorded: dict[str, str] = {}
    digest = _hosts_digest(job) if plugins else ""
    for plugin in plugins:
        if f"{_PLUGIN}{plugin.name}" not in job.status.controlled_resources:
            operations += plugin.objects(job)
            if plugin.is_recorded:
                recorded[f"{_PLUGIN}{plugin.name}"] = plugin.name
            continue
        if restores:
            operations += [_with_warning(job, each) for each in plugin.objects(job) if isinstance(each, Create)]
        if digest != progress.hosts:
            operations += plugin.refresh(job)
    return operations, recorded, replace(progress, hosts=digest)


def _with_warning(job: Job, create: Create) -> Create:
    kind = create.body["kind"]
    text = f"{kind} {create.name} was deleted while the job runs: it is made again"
    if create.filled_by:
        text += ", with new keys: pods that run keep the old ones; restart the job if they have to talk to new pods"
    return msgspec.structs.replace(create, restored=Emit(job, "Warning", "PluginObjectMissing", text))


def _hosts_digest(job: Job) -> str:
    sizes = [(task.name, task.replicas) for task in job.spec.tasks]
    return hashlib.sha256(msgspec.json.encode(sizes)).hexdigest()[:16]


def clean_up(job: Job, status: JobStatus) -> tuple[list[Operation], JobStatus]:
    """The end of what plugins made, and the status without it."""
    recorded = {key for key in status.controlled_resources if key.startswith(_PLUGIN)}
    if not recorded:
        return [], status
    try:
        plugins = plugins_of(job)
    except PluginFault:
        plugins = []  # it made nothing
    operations = [each for plugin in plugins if f"{_PLUGIN}{plugin.name}" in recorded for each in plugin.cleanup(job)]
    left = {key: value for key, value in status.controlled_resources.items() if key not in recorded}
    return operations, replace(status, controlled_resources=left)


# ---------------------------------------------------------------------------------------------------------------- pods


def _pods(view: JobView, job: Job, roster: Roster, plugins: Sequence[JobPlugin]) -> tuple[Operation, ...]:
    """Every pod that is missing, whose task may start, and whose name is free."""
    held = {member.name for member in roster.members} | roster.taken
    starting = may_start(job, roster.members)
    group = view.group.metadata.name if view.group is not None else ""
    maker = PodMaker(job, plugins, group=group, forwarded=is_forwarded(view))
    blame = Blame(job, "FailedCreate")
    creates: list[Operation] = []
    most = min(PODS_OF_ONE_PLAN + len(roster.members) // GROWTH_SHARE, PODS_OF_ONE_PLAN_MAX)
    try:
        for task in job.spec.tasks:
            if task.name in starting:
                indexes = range(min(task.replicas, JOB_REPLICAS_MAX))
                missing = (index for index in indexes if pod_name(job, task.name, index) not in held)
                wanted = itertools.islice(missing, most - len(creates))
                creates += [Create(kind=Pod, body=body, blame=blame) for body in maker.pods_of(task, wanted)]
    except PluginFault as fault:
        return (Emit(job, "Warning", "PluginError", str(fault)),)
    return tuple(creates)

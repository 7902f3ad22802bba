"""Jobs: what is refused when they are created, and what may still change afterwards."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from pumice import quantity
from pumice.api.batch import Job, JobSpec, JobVolume, Task
from pumice.api.core import PersistentVolumeClaimSpec
from pumice.api.meta import ObjectMeta
from pumice.api.validation.field_errors import Findings
from pumice.api.validation.job_plugins import check_plugins
from pumice.api.validation.job_tasks import check_network_topology, check_task_numbers, check_tasks
from pumice.api.validation.job_warnings import warn_about_job
from pumice.api.validation.limits import JOB_REPLICAS_MAX
from pumice.api.validation.names import dns_subdomain_problem, qualified_name_problem
from pumice.api.validation.pod_shapes import PodTemplate
from pumice.api.validation.policies import check_policies
from pumice.api.validation.queue_entry import check_queue_is_leaf, check_queue_is_open
from pumice.api.validation.request import Operation, Request, Settings
from pumice.api.validation.time_limits import check_estimate, check_new_times, check_times
from pumice.api.validation.volumes import check_claim

ANNOTATIONS: Final = "metadata.annotations"
GENERATED_CHARS: Final = 5  # what an API server appends to generateName

# Fields whose values are quantities, or lists of them: "1000m" and "1" are the same wish.
_QUANTITIES: Final = frozenset({"requests", "limits", "overhead", "capacity", "sizeLimit", "divisor"})
# Fields that are maps in the API: an empty one is an absent one, which is not true for other objects (`labelSelector: {}`).
_MAPS: Final = frozenset({"labels", "annotations", "nodeSelector", "matchLabels", *_QUANTITIES})


def review_job(request: Request) -> Findings:
    """What is wrong with a Job that is created or updated."""
    findings = Findings()
    new = findings.decode("", Job, request.new)
    if new is None:
        return findings
    if request.operation == Operation.UPDATE:
        old = Findings().decode("", Job, request.old)
        if old is not None:
            _check_update(findings, new.spec, old.spec)
            check_new_times(findings, ANNOTATIONS, new.metadata.annotations, old.metadata.annotations)
        return findings
    name = name_of(new.metadata)
    if name and (cause := qualified_name_problem(name)):
        findings.refuse(
            "metadata.name", f"create job with name {name} validate failed: {cause}", "shorten or correct it"
        )
        name = ""
    check_times(findings, ANNOTATIONS, new.metadata.annotations)
    templates = check_job_spec(findings, "spec", name, new.spec, request.settings)
    if request.lookup is not None:
        check_queue_is_open(findings, "spec.queue", new.spec.queue, request.lookup)
        check_queue_is_leaf(findings, "spec.queue", new.spec.queue, request.lookup)
    if not findings.errors:
        warn_about_job(findings, "spec", name, new.spec, templates, lookup=request.lookup)
    return findings


def name_of(metadata: ObjectMeta) -> str:
    """The object's name, or one as long as the name that the server will make."""
    return metadata.name or metadata.generate_name + "x" * GENERATED_CHARS * bool(metadata.generate_name)


def check_job_spec(findings: Findings, path: str, name: str, spec: JobSpec, settings: Settings) -> list[PodTemplate]:
    """Every rule for a job's spec that needs nothing but the spec; returns its templates as far as they could be read."""
    if not spec.tasks:
        findings.refuse(f"{path}.tasks", "No task specified in job spec", "add at least one task")
        return []
    templates = check_tasks(findings, f"{path}.tasks", name, spec)
    check_network_topology(findings, f"{path}.networkTopology", spec.network_topology)
    check_total(findings, path, spec)
    check_estimate(findings, f"{path}.runningEstimate", spec.running_estimate)
    for index, template in enumerate(templates):
        where = f"{path}.tasks[{index}].template.{ANNOTATIONS}"
        check_times(findings, where, template.metadata.annotations)
    check_policies(findings, f"{path}.policies", spec.policies)
    check_plugins(findings, f"{path}.plugins", spec, settings)
    _check_volumes(findings, f"{path}.volumes", spec, templates)
    if spec.priority_class_name:
        findings.name(f"{path}.priorityClassName", spec.priority_class_name, dns_subdomain_problem)
    return templates


def check_total(findings: Findings, path: str, spec: JobSpec, *, is_new: bool = True) -> None:
    total = sum(max(task.replicas, 0) for task in spec.tasks)
    if total > JOB_REPLICAS_MAX:
        cause = f"the tasks of a job have at most {JOB_REPLICAS_MAX} replicas together (JOB_REPLICAS_MAX)"
        findings.refuse(f"{path}.tasks", cause, "make several jobs of it", total)
    if findings.within(f"{path}.minAvailable", spec.min_available, 0) and spec.min_available > total:
        words = (
            "should not be greater than total replicas in tasks"
            if is_new
            else "must not be greater than total replicas"
        )
        cause = f"job 'minAvailable' {words}: there are {total}"
        findings.refuse(f"{path}.minAvailable", cause, "lower it or raise replicas", spec.min_available)


def _check_volumes(findings: Findings, path: str, spec: JobSpec, templates: list[PodTemplate]) -> None:
    seen: set[str] = set()
    for index, volume in enumerate(spec.volumes):
        where = f"{path}[{index}]"
        if not volume.mount_path:
            findings.refuse(f"{where}.mountPath", "mountPath is required", "set it")
        elif volume.mount_path in seen:
            cause = f"duplicated mountPath: {volume.mount_path}"
            findings.refuse(f"{where}.mountPath", cause, "mount it elsewhere")
        seen.add(volume.mount_path)
        _check_claim(findings, where, volume)
    for position, template in enumerate(templates):
        for number, container in enumerate(template.spec.containers):
            for place, mount in enumerate(container.volume_mounts):
                if mount.mount_path in seen:
                    field = f"containers[{number}].volumeMounts[{place}].mountPath"
                    where = f"{path.removesuffix('volumes')}tasks[{position}].template.spec.{field}"
                    cause = "spec.volumes mounts a claim there in every container"
                    findings.refuse(where, cause, "mount it elsewhere", mount.mount_path)


def _check_claim(findings: Findings, path: str, volume: JobVolume) -> None:
    given = ["volumeClaimName"] * bool(volume.volume_claim_name) + ["volumeClaim"] * volume.makes_claim
    if not given:
        findings.refuse(path, "either VolumeClaim or VolumeClaimName must be specified", "set one of them")
        return
    if len(given) > 1:
        cause = "conflict: If you want to use an existing PVC, just specify VolumeClaimName"
        findings.refuse(path, f"{cause}: both are set", "keep one of them")
        return
    if volume.volume_claim_name:
        findings.name(f"{path}.volumeClaimName", volume.volume_claim_name, dns_subdomain_problem)
    else:
        claim = findings.decode(f"{path}.volumeClaim", PersistentVolumeClaimSpec, volume.volume_claim)
        if claim is not None:
            check_claim(findings, f"{path}.volumeClaim", claim)


# ------------------------------------------------------------------------------------------------------------ updates


def _check_update(findings: Findings, new: JobSpec, old: JobSpec) -> None:
    """Only replicas, minimums and the priority class may change; whatever else was wrong before is not looked at again."""
    if _numbers(new) != _numbers(old):
        check_total(findings, "spec", new, is_new=False)
        for index, task in enumerate(new.tasks):
            check_task_numbers(findings, f"spec.tasks[{index}]", task, is_new=False)
    if len(new.tasks) != len(old.tasks):
        cause = f"job updates may not add or remove tasks: there were {len(old.tasks)}"
        findings.refuse("spec.tasks", cause, "create another job", len(new.tasks))
        return
    advice = "keep the old value, or create another job"
    cause = "job updates may not change fields other than minAvailable, priorityClassName and replicas"
    mine, theirs = _mask(new), _mask(old)
    for field in JobSpec.__struct_fields__:
        if getattr(mine, field) != getattr(theirs, field):
            findings.refuse(f"spec.{_json_name(JobSpec, field)}", cause, advice)
    for index, (task, before) in enumerate(zip(new.tasks, old.tasks, strict=True)):
        for field in Task.__struct_fields__:
            if field not in {"replicas", "min_available"} and not _same(getattr(task, field), getattr(before, field)):
                findings.refuse(f"spec.tasks[{index}].{_json_name(Task, field)}", cause, advice)
    if len(new.volumes) != len(old.volumes) or not all(map(_same_volume, new.volumes, old.volumes)):
        findings.refuse("spec.volumes", cause, advice)


def _numbers(spec: JobSpec) -> list[object]:
    return [spec.min_available, *((task.replicas, task.min_available) for task in spec.tasks)]


def _mask(spec: JobSpec) -> JobSpec:
    """The spec without what may change, and without what is compared piece by piece."""
    return replace(spec, min_available=0, priority_class_name="", plugins=spec.plugins or {}, tasks=(), volumes=())


def _json_name(struct: type[msgspec.Struct], field: str) -> str:
    return next(info.encode_name for info in msgspec.structs.fields(struct) if info.name == field)


def _same(mine: object, theirs: object) -> bool:
    if isinstance(mine, msgspec.Raw) and isinstance(theirs, msgspec.Raw):
        return bytes(mine) == bytes(theirs) or same_json(msgspec.json.decode(mine), msgspec.json.decode(theirs))
    return mine == theirs


def _same_volume(mine: JobVolume, theirs: JobVolume) -> bool:
    """The controller writes the name of the claim that it made, and a client's older copy may lack it."""
    names_agree = mine.volume_claim_name == theirs.volume_claim_name or mine.makes_claim
    return mine.mount_path == theirs.mount_path and names_agree and _same(mine.volume_claim, theirs.volume_claim)


def same_json(mine: Any, theirs: Any, field: str = "") -> bool:
    """Both mean the same to Kubernetes: null and empty lists are absent, and quantities are compared as amounts."""
    if mine == theirs or (_is_absent(mine, field) and _is_absent(theirs, field)):
        return True
    if isinstance(mine, Mapping) and isinstance(theirs, Mapping):
        inner = field in _QUANTITIES
        return all(same_json(mine.get(key), theirs.get(key), field if inner else key) for key in mine.keys() | theirs)
    if isinstance(mine, list) and isinstance(theirs, list):
        return len(mine) == len(theirs) and all(map(same_json, mine, theirs))
    if field in _QUANTITIES and mine is not None and theirs is not None:
        try:
            return quantity.compare(mine, theirs) == 0
        except quantity.QuantityError:
            return False
    return False


def _is_absent(value: Any, field: str) -> bool:
    return value is None or value == [] or (value == {} and field in _MAPS)

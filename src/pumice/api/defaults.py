"""What admission fills in, as RFC 6902 operations: one for each missing field, none for anything else.

A patch names single fields, so nothing that a user wrote is encoded anew, and applying it a second time changes nothing.
Objects come here before any schema has looked at them: what has the wrong type is left alone, for the schema to refuse.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import jsonpatch
import msgspec

from pumice import yamltext
from pumice.api import names
from pumice.api.batch import DEFAULT_MAX_RETRY, DEFAULT_QUEUE
from pumice.api.decoding import UNREADABLE
from pumice.api.meta import NOTHING, Json, Struct
from pumice.api.scheduling import ROOT_QUEUE, VOLCANO
from pumice.errors import BadInput

Operation: TypeAlias = dict[str, Any]

DEFAULT_WEIGHT: Final = 1
DNS_ON_THE_HOST: Final = "ClusterFirstWithHostNet"
NEEDS_SVC: Final = ("tensorflow", "mpi", "pytorch", "ray")
NEEDS_SSH: Final = ("mpi",)
_NEEDED: Final = (("svc", NEEDS_SVC), ("ssh", NEEDS_SSH))


def apply_patch(subject: Json, patch: Sequence[Operation]) -> Json:
    """A copy of the object with the patch applied; the object itself where there is nothing to apply."""
    if not patch:
        return subject
    result: Json = jsonpatch.apply_patch(subject, patch)
    return result


def _add(path: str, value: Any) -> Operation:
    return {"op": "add", "path": path, "value": value}


def _escape(key: str) -> str:
    """A key as it stands in a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def _is_unset(value: Any) -> bool:
    """True for what Go reads as the zero value: absent, an empty text, 0."""
    return value is None or value == "" or (value == 0 and not isinstance(value, bool))


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _objects(value: Any) -> Iterator[tuple[int, Json]]:
    """The objects of a list with their positions; a list that is none has no objects."""
    for index, item in enumerate(value if isinstance(value, list) else ()):
        if isinstance(item, dict):
            yield index, item


def _spec(subject: Json) -> tuple[Json | None, list[Operation]]:
    """The object's spec, and what it takes to have one; None for a spec that is no object."""
    spec = subject.get("spec")
    if spec is None:
        return {}, [_add("/spec", {})]
    return spec if isinstance(spec, dict) else None, []


# ------------------------------------------------------------------------------------------------------------ jobs


def job_patch(job: Json, *, scheduler_name: str = VOLCANO) -> list[Operation]:
    """The defaults of a Job: queue, scheduler, names and minimums of its tasks, retries, the plugins that others need."""
    spec, patch = _spec(job)
    if spec is None:
        return []
    defaults = {"queue": DEFAULT_QUEUE, "schedulerName": scheduler_name, "maxRetry": DEFAULT_MAX_RETRY}
    patch += [_add(f"/spec/{key}", value) for key, value in defaults.items() if _is_unset(spec.get(key))]
    for index, task in _objects(spec.get("tasks")):
        patch += _task_patch(task, index)
    minimum = sum(task_minimum(task) for _, task in _objects(spec.get("tasks")))
    if _is_unset(spec.get("minAvailable")) and minimum:
        patch.append(_add("/spec/minAvailable", minimum))
    plugins = _object(spec.get("plugins"))
    for plugin, dependents in _NEEDED:
        if plugin not in plugins and any(name in plugins for name in dependents):
            patch.append(_add(f"/spec/plugins/{plugin}", []))
    return patch


def _task_patch(task: Json, index: int) -> list[Operation]:
    path = f"/spec/tasks/{index}"
    patch = []
    if _is_unset(task.get("name")):
        patch.append(_add(f"{path}/name", f"default{index}"))
    template = _object(_object(task.get("template")).get("spec"))
    if template.get("hostNetwork") is True and _is_unset(template.get("dnsPolicy")):
        patch.append(_add(f"{path}/template/spec/dnsPolicy", DNS_ON_THE_HOST))
    if task.get("minAvailable") is None:
        patch.append(_add(f"{path}/minAvailable", task_minimum(task)))
    if _is_unset(task.get("maxRetry")):
        patch.append(_add(f"{path}/maxRetry", DEFAULT_MAX_RETRY))
    return patch


def job_update_patch(new: Json, old: Json) -> list[Operation]:
    """What a client that applies a manifest again leaves out because admission had filled it in, and minimums that follow.

    An apply replaces lists as a whole, so a task comes without what it was given. What may not change gets
    its old value back; a minimum that was all of the replicas and would be more than there are is all of them again.
    """
    spec, before = _object(new.get("spec")), _object(old.get("spec"))
    patch = _restore_fields("/spec", spec, before, ("queue", "schedulerName", "maxRetry"))
    tasks, former = list(_objects(spec.get("tasks"))), dict(_objects(before.get("tasks")))
    minimums: list[int] = []
    for index, task in tasks:
        found, minimum = _task_update_patch(f"/spec/tasks/{index}", task, former.get(index, {}))
        patch += found
        minimums.append(minimum)
    given, total = spec.get("minAvailable"), sum(_count(task.get("replicas")) for _, task in tasks)
    was_default = given == before.get("minAvailable") == sum(task_minimum(task) for task in former.values())
    is_lost = _is_unset(given) and not _is_unset(before.get("minAvailable"))
    applies = _applies_minimum(new)
    follows = applies is False or (applies is None and was_default and _count(given) > total)
    if sum(minimums) != given and (is_lost or (follows and given == before.get("minAvailable"))):
        patch.append(_add("/spec/minAvailable", sum(minimums)))
    plugins, known = _object(spec.get("plugins")), _object(before.get("plugins"))
    needed = [name for name, needs in _NEEDED if any(each in plugins for each in needs)]
    return patch + _restore_fields("/spec/plugins", plugins, known, needed)


def _applies_minimum(job: Json) -> bool | None:
    """Whether the client that applies the Job writes its minAvailable; None where it is not applied and we cannot know."""
    metadata = _object(job.get("metadata"))
    text = _object(metadata.get("annotations")).get(names.LAST_APPLIED)
    manifest = _parse(text) if isinstance(text, str) else None
    if isinstance(manifest, dict):
        return "minAvailable" in _object(manifest.get("spec"))
    fields = [_object(each.get("fieldsV1")) for _, each in _objects(metadata.get("managedFields")) if _is_apply(each)]
    return any("f:minAvailable" in _object(each.get("f:spec")) for each in fields) if fields else None


def _is_apply(entry: Json) -> bool:
    return entry.get("operation") == "Apply" and not entry.get("subresource")


def _task_update_patch(path: str, task: Json, former: Json) -> tuple[list[Operation], int]:
    """What the task lacks, and its minimum with that."""
    patch = _restore_fields(path, task, former, ("name", "maxRetry"))
    pods, known = (_object(_object(each.get("template")).get("spec")) for each in (task, former))
    if pods.get("hostNetwork") is True:
        patch += _restore_fields(f"{path}/template/spec", pods, known, ("dnsPolicy",))
    given = task.get("minAvailable")
    every = task_minimum({**task, "minAvailable": None})
    was_default = given == former.get("minAvailable") == task_minimum({**former, "minAvailable": None})
    is_lost = given is None and former.get("minAvailable") is not None
    if is_lost or (was_default and _count(given) > _count(task.get("replicas"))):
        return [*patch, _add(f"{path}/minAvailable", every)], every
    return patch, task_minimum(task)


def _restore_fields(path: str, new: Json, old: Json, fields: Iterable[str]) -> list[Operation]:
    """The old values of fields that the new object lacks."""
    lost = [field for field in fields if _is_unset(new.get(field)) and not _is_unset(old.get(field))]
    return [_add(f"{path}/{field}", old[field]) for field in lost]


def task_minimum(task: Json) -> int:
    """A task's minAvailable: as given, or else the partitions that must run together, or else all of its replicas."""
    partitions = _object(task.get("partitionPolicy"))
    together = _count(partitions.get("minPartitions")) * _count(partitions.get("partitionSize"))
    given = task.get("minAvailable")
    return _count(given) if given is not None else together or _count(task.get("replicas"))


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def job_warnings(job: Json) -> list[tuple[str, str]]:
    """What a user wrote into a Job and `job_patch` replaces: a 0 that looks like a wish and means absence to Volcano.

    Each is a field's path and what to know about it.
    """
    spec = _object(job.get("spec"))
    tasks = list(_objects(spec.get("tasks")))
    warnings = []
    if spec.get("maxRetry") == 0:
        warnings.append(("spec.maxRetry", f"0 is replaced by {DEFAULT_MAX_RETRY}; write 1 to allow no restart"))
    minimum = sum(task_minimum(task) for _, task in tasks)
    if spec.get("minAvailable") == 0 and minimum:
        text = f"0 is replaced by {minimum}, the sum over tasks; set minAvailable of each task to 0 as well, or write 1"
        warnings.append(("spec.minAvailable", text))
    for index, task in tasks:
        if task.get("maxRetry") == 0:
            text = f"0 is replaced by {DEFAULT_MAX_RETRY}; write 1 to fail the task when a container restarts"
            warnings.append((f"spec.tasks[{index}].maxRetry", text))
    return warnings


# ------------------------------------------------------------------------------------------- pod groups and queues


def queue_within(queue: str, namespace_annotations: Mapping[str, str]) -> str:
    """The queue that was asked for; where none in particular was, the one that the namespace names."""
    home = namespace_annotations.get(names.QUEUE_NAME, "")
    return home if home and queue in {"", DEFAULT_QUEUE} else queue


def pod_group_patch(pod_group: Json, namespace_annotations: Mapping[str, str]) -> list[Operation]:
    """The queue that the namespace names, for a PodGroup that names none; nothing else of a PodGroup is ever filled in."""
    spec, patch = _spec(pod_group)
    queue = namespace_annotations.get(names.QUEUE_NAME, "")
    if spec is None or queue in {"", DEFAULT_QUEUE} or spec.get("queue") not in (None, "", DEFAULT_QUEUE):
        return []
    return [*patch, _add("/spec/queue", queue)]


def queue_patch(queue: Json) -> list[Operation]:
    """The defaults of a Queue: reclaimable, of weight 1, and with a hierarchy that starts at the root."""
    spec, patch = _spec(queue)
    if spec is None:
        return []
    annotations = _object(_object(queue.get("metadata")).get("annotations"))
    path, weights = annotations.get(names.HIERARCHY), annotations.get(names.HIERARCHY_WEIGHTS)
    if path and weights and isinstance(path, str) and path.split("/")[0] != ROOT_QUEUE:
        prefix = "/metadata/annotations/"
        patch.append(_add(prefix + _escape(names.HIERARCHY), f"{ROOT_QUEUE}/{path}"))
        patch.append(_add(prefix + _escape(names.HIERARCHY_WEIGHTS), f"{DEFAULT_WEIGHT}/{weights}"))
    if spec.get("reclaimable") is None:
        patch.append(_add("/spec/reclaimable", True))
    if _is_unset(spec.get("weight")):
        patch.append(_add("/spec/weight", DEFAULT_WEIGHT))
    return patch


# ------------------------------------------------------------------------------------------------------------ pods


class _Strict(Struct, forbid_unknown_fields=True):
    """A part of the operator's file, in which a misspelt word must not go unnoticed."""


class PodMatch(_Strict):
    """Which pods a resource group takes: those of some namespaces, or those with one of some `key: value` annotations."""

    key: str = ""
    value: tuple[str, ...] = ()


class ResourceGroup(_Strict):
    """What the operator lays down for some pods. It is a rule and no default: it wins over what the pod says."""

    resource_group: str = ""
    object: PodMatch = PodMatch()
    scheduler_name: str = ""
    tolerations: tuple[Mapping[str, Any], ...] = ()
    labels: Mapping[str, str] = NOTHING
    affinity: str = ""  # as JSON

    def takes(self, pod: Json, namespace: str) -> bool:
        """True for a pod of this group."""
        annotations = _object(_object(pod.get("metadata")).get("annotations"))
        match self.object.key:
            case "namespace":
                return namespace in self.object.value
            case "annotation":
                pairs = (entry.partition(":") for entry in self.object.value)
                return any(annotations.get(key.strip()) == value.strip() for key, _, value in pairs)
            case _:
                return annotations.get(names.RESOURCE_GROUP) == self.resource_group


class _PodRules(_Strict):
    resource_groups: tuple[ResourceGroup, ...] = ()


def resource_groups(text: str | bytes, *, source: str) -> tuple[ResourceGroup, ...]:
    """The groups of the operator's file (`resourceGroups: [...]`), or BadInput."""
    groups: list[ResourceGroup] = []
    for document in yamltext.load_all(text, source=source):
        try:
            groups += msgspec.convert(document, _PodRules).resource_groups
        except msgspec.ValidationError as error:
            raise BadInput(f"{source}: {error}; correct that field") from error
    for index, group in enumerate(groups):
        subject = f"{source}: resourceGroups[{index}]"
        if group.object.key not in {"", "namespace", "annotation"}:
            raise BadInput(
                f"{subject}.object.key: unknown {group.object.key!r}; write namespace, annotation or nothing"
            )
        if not group.object.key and not group.resource_group:
            raise BadInput(f"{subject}: takes no pod; set resourceGroup or object")
        if group.affinity and not isinstance(_parse(group.affinity), dict):
            raise BadInput(f"{subject}.affinity: not a JSON object; write a pod's affinity as JSON")
    return tuple(groups)


def _parse(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except UNREADABLE:
        return None


def pod_patch(
    pod: Json, *, namespace: str, groups: Iterable[ResourceGroup] = (), queue_gate: bool = False
) -> list[Operation]:
    """What the first group that takes the pod lays down for it, and the gate that holds it until its queue has room."""
    spec, patch = _spec(pod)
    if spec is None:
        return []
    annotations = _object(_object(pod.get("metadata")).get("annotations"))
    changes: list[Operation] = []
    if queue_gate and annotations.get(names.QUEUE_ALLOCATION_GATE) == "true":
        changes += _append_items(spec, "schedulingGates", [{"name": names.QUEUE_ALLOCATION_GATE}])
    group = next((group for group in groups if group.takes(pod, namespace)), None)
    if group is not None:
        changes += _merge_entries(spec, "nodeSelector", group.labels)
        if group.affinity and not spec.get("affinity"):
            changes.append(_add("/spec/affinity", _parse(group.affinity)))
        changes += _append_items(spec, "tolerations", group.tolerations)
        if group.scheduler_name and spec.get("schedulerName") != group.scheduler_name:
            changes.append(_add("/spec/schedulerName", group.scheduler_name))
    return patch + changes if changes else []


def _append_items(spec: Json, field: str, items: Iterable[Mapping[str, Any]]) -> list[Operation]:
    present = spec.get(field) or []
    missing = [dict(item) for item in items if item not in present]
    if not present:
        return [_add(f"/spec/{field}", missing)] if missing else []
    return [_add(f"/spec/{field}/-", item) for item in missing]


def _merge_entries(spec: Json, field: str, entries: Mapping[str, str]) -> list[Operation]:
    present = spec.get(field)
    if not present:
        return [_add(f"/spec/{field}", dict(entries))] if entries else []
    changed = {key: value for key, value in entries.items() if present.get(key) != value}
    return [_add(f"/spec/{field}/{_escape(key)}", value) for key, value in changed.items()]

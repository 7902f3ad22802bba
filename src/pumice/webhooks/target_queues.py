"""To which queues an object leads: its own, and those of the objects that controllers will make from it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from pumice.api import names
from pumice.api.batch import DEFAULT_QUEUE
from pumice.api.defaults import queue_within
from pumice.api.flow import FlowPatch, JobFlow
from pumice.api.groups import named_group
from pumice.api.scheduling import GROUP_PREFIX, PodGroup
from pumice.api.validation.jobs import same_json
from pumice.webhooks.reviews import NATIVE_GROUP

if TYPE_CHECKING:
    from pumice.api.meta import Json
    from pumice.api.validation import Lookup

PodGroups: TypeAlias = Callable[[str, str], PodGroup | None]  # by namespace and name
JobFlows: TypeAlias = Callable[[str], Iterable[JobFlow]]  # of a namespace

# Annotations that lead a pod to a queue.
LEADING: Final = (
    names.QUEUE_NAME,
    names.GROUP_NAME,
    names.VOLCANO_GROUP_NAME,
)
QUEUES_MAX: Final = 64  # of one object: each is a question to the API server


def is_submission(request: Json, *, by_controllers: bool = False) -> bool:
    """True where a request asks for room in a queue: a creation, or an update of a spec.

    What our controllers change in a group follows from a Job or a workload that a user was allowed to change; only where
    they move the group is that asked again.
    """
    if request["operation"] == "CREATE":
        return True
    if request["operation"] != "UPDATE":
        return False
    if request["kind"]["kind"] == "Command":
        return True  # it may be aimed at another queue
    before, after = (_object(request.get(side)) for side in ("oldObject", "object"))
    if request["kind"]["kind"] == "Pod" or _is_native(request):
        old, new = _annotations(before), _annotations(after)
        is_adopted = _controller(after) not in {None, _controller(before)}
        return is_adopted or any(old.get(key) != new.get(key) for key in LEADING)
    old, new = _object(before.get("spec")), _object(after.get("spec"))
    if request["kind"]["kind"] == "PodGroup" and by_controllers:
        return _queue(old) != _queue(new)
    return not same_json(old, new)


class Destinations:
    """Finds queues; what an object refers to is asked of the look-ups."""

    def __init__(
        self, lookup: Lookup, pod_groups: PodGroups, flows: JobFlows, scheduler_names: tuple[str, ...]
    ) -> None:
        self._lookup = lookup
        self._pod_groups = pod_groups
        self._flows = flows
        self._scheduler_names = scheduler_names

    def of(self, request: Json) -> list[str]:
        """The queues, each once: those that the object leads to, and after an update those that it led to before.

        Of a JobFlow they are those of its templates as they are now: its Jobs are looked at again.
        """
        found = self._of(request, _object(request.get("object")))
        if request["operation"] == "UPDATE" and request["kind"]["kind"] != "Command" and not _is_native(request):
            found += self._of(request, _object(request.get("oldObject")))
        return list(dict.fromkeys(found))

    def _of(self, request: Json, subject: Json) -> list[str]:
        namespace, spec = request.get("namespace", ""), _object(subject.get("spec"))
        match request["kind"]["kind"]:
            case "PodGroup" if _is_native(request):
                return [_annotations(subject).get(names.QUEUE_NAME) or DEFAULT_QUEUE]
            case "PodGroup":
                return [_queue(spec)]
            case "Job":
                return [self._queue_in_namespace(_queue(spec), namespace)]
            case "CronJob":
                return [
                    self._queue_in_namespace(_queue(_object(_object(spec.get("jobTemplate")).get("spec"))), namespace)
                ]
            case "JobTemplate":
                return self._of_template(subject, namespace)
            case "JobFlow":
                return self._of_flow(spec, namespace)
            case "Command":
                target = _object(subject.get("target"))
                return [str(target.get("name", ""))] if target.get("kind") == "Queue" else []
            case "Pod" if spec.get("schedulerName") in self._scheduler_names:
                return self._of_pod(subject, namespace, is_new=request["operation"] == "CREATE")
        return []

    def _of_template(self, template: Json, namespace: str) -> list[str]:
        """Its own queue, and those to which flows lead it: their Jobs run what it says, in the name of the flow's submitter."""
        found = [self._queue_in_namespace(_queue(_object(template.get("spec"))), namespace)]
        name = _object(template.get("metadata")).get("name", "")
        for flow in self._flows(namespace):
            queues = (_patched_queue(part.patch) for part in flow.spec.flows if part.name == name)
            found += [queue for queue in queues if queue != DEFAULT_QUEUE]
        return found

    def _of_flow(self, spec: Json, namespace: str) -> list[str]:
        found: list[str] = []
        for part in spec.get("flows") or ():
            template = self._lookup.job_template(namespace, str(_object(part).get("name", "")))
            if template is None:
                continue  # the client that makes it cannot know of this flow; the Job will be looked at
            patched = _queue(_object(_object(_object(part).get("patch")).get("jobSpec")))
            own = _queue(_object(msgspec.json.decode(template.spec)))
            found.append(self._queue_in_namespace(patched if patched != DEFAULT_QUEUE else own, namespace))
        return found

    def _of_pod(self, pod: Json, namespace: str, *, is_new: bool) -> list[str]:
        """The queue of the group that the pod joins, and the one that it names itself.

        A pod that names no group but an owner joins the group of that owner's pods. The queue that a pod names counts as soon as
        its group is gone or not named any more, so the right to it is asked for with every change of either.
        """
        annotations = _annotations(pod)
        named = named_group(annotations)
        joined = self._pod_groups(namespace, named or _implied_group(pod))
        found = [] if joined is None else [joined.spec.queue or DEFAULT_QUEUE]
        own = annotations.get(names.QUEUE_NAME)
        if named and (is_new or not own):
            return found
        return [*found, self._queue_in_namespace(own or DEFAULT_QUEUE, namespace)] if own or not found else found

    def _queue_in_namespace(self, queue: str, namespace: str) -> str:
        """Where the group will be: in the namespace's own queue, if it has one and no other was asked for."""
        return queue_within(queue, self._lookup.namespace_annotations(namespace))


def _is_native(request: Json) -> bool:
    """A PodGroup of Kubernetes' own, whose queue is an annotation."""
    return bool(request["kind"].get("group") == NATIVE_GROUP)


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _annotations(subject: Json) -> Json:
    return _object(_object(subject.get("metadata")).get("annotations"))


def _implied_group(pod: Json) -> str:
    """As api.scheduling.implied_group, of a pod that is not decoded."""
    return f"{GROUP_PREFIX}{_controller(pod) or _object(pod.get('metadata')).get('uid')}"


def _controller(pod: Json) -> str | None:
    """The uid of the owner whose pods share a group."""
    owners = (_object(owner) for owner in _object(pod.get("metadata")).get("ownerReferences") or ())
    return next((owner.get("uid") for owner in owners if owner.get("controller")), None)


def _patched_queue(patch: FlowPatch | None) -> str:
    """The queue that a flow lays over that of a template."""
    return DEFAULT_QUEUE if patch is None else _queue(_object(msgspec.json.decode(patch.job_spec)))


def _queue(spec: Json) -> str:
    queue = spec.get("queue")
    return queue if isinstance(queue, str) and queue else DEFAULT_QUEUE

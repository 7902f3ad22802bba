"""To which queues an object leads: its own, and those of the objects that controllers will make from it. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from pumice.api import names
from pumice.api.batch import DEFAULT_QUEUE
from pumice.api.defaults import queue_within
from pumice.api.scheduling import GROUP_PREFIX, PodGroup
from pumice.api.validation.jobs import same_json
from pumice.webhooks.reviews import NATIVE_GROUP

if TYPE_CHECKING:
    from pumice.api.validation import Lookup

Json: TypeAlias = dict[str, Any]
PodGroups: TypeAlias = Callable[[str, str], PodGroup | None]  # by namespace and name

LEADING: Final = (
    names.QUEUE_NAME,
    names.GROUP_NAME,
    names.VOLCANO_GROUP_NAME,
)  # annotations that lead a pod to a queue
QUEUES_MAX: Final = 64  # of one JobFlow: each is a question to the API server


def is_submission(request: Json) -> bool:
    """True where a request asks for room in a queue: a creation, or an update of what somebody wants."""
    if request["operation"] == "CREATE":
        return True
    if request["operation"] != "UPDATE":
        return False
    if request["kind"]["kind"] == "Command":
        return True  # it may be aimed at another queue
    if request["kind"]["kind"] == "Pod" or _is_native(request):
        old, new = (_annotations(request.get(side) or {}) for side in ("oldObject", "object"))
        return any(old.get(key) != new.get(key) for key in LEADING)
    old, new = (_object((request.get(side) or {}).get("spec")) for side in ("oldObject", "object"))
    if request["kind"]["kind"] == "PodGroup":
        return old.get("queue") != new.get("queue")
    return not same_json(old, new)


class Destinations:
    """Finds queues; what an object refers to is asked of the look-ups."""

    def __init__(self, lookup: Lookup, pod_groups: PodGroups, scheduler_names: tuple[str, ...]) -> None:
        self._lookup = lookup
        self._pod_groups = pod_groups
        self._scheduler_names = scheduler_names

    def of(self, request: Json) -> list[str]:
        """The queues, each once; of a JobFlow those of its templates as they are now: its Jobs are looked at again."""
        subject, namespace = request.get("object") or {}, request.get("namespace", "")
        spec = _object(subject.get("spec"))
        match request["kind"]["kind"]:
            case "PodGroup" if _is_native(request):
                return [_annotations(subject).get(names.QUEUE_NAME) or DEFAULT_QUEUE]
            case "PodGroup":
                return [_queue(spec)]
            case "Job":
                return [self._led_on(_queue(spec), namespace)]
            case "CronJob":
                return [self._led_on(_queue(_object(_object(spec.get("jobTemplate")).get("spec"))), namespace)]
            case "JobFlow":
                return self._of_flow(spec, namespace)
            case "Command":
                target = _object(subject.get("target"))
                return [str(target.get("name", ""))] if target.get("kind") == "Queue" else []
            case "Pod" if spec.get("schedulerName") in self._scheduler_names:
                return self._of_pod(subject, namespace)
        return []

    def _of_flow(self, spec: Json, namespace: str) -> list[str]:
        found: dict[str, None] = {}
        for part in spec.get("flows") or ():
            template = self._lookup.job_template(namespace, str(_object(part).get("name", "")))
            if template is None:
                continue  # whoever makes it cannot know of this flow; the Job will be looked at
            patched = _queue(_object(_object(_object(part).get("patch")).get("jobSpec")))
            own = _queue(_object(msgspec.json.decode(template.spec)))
            found[self._led_on(patched if patched != DEFAULT_QUEUE else own, namespace)] = None
        return list(found)[:QUEUES_MAX]

    def _of_pod(self, pod: Json, namespace: str) -> list[str]:
        """The queue of the group that the pod joins, or of the one that will be made for it.

        Whoever names no group but an owner joins the group of that owner's pods.
        """
        annotations = _annotations(pod)
        named = annotations.get(names.GROUP_NAME) or annotations.get(names.VOLCANO_GROUP_NAME)
        joined = self._pod_groups(namespace, named or _implied_group(pod))
        if joined is not None:
            return [joined.spec.queue or DEFAULT_QUEUE]
        return [] if named else [self._led_on(annotations.get(names.QUEUE_NAME) or DEFAULT_QUEUE, namespace)]

    def _led_on(self, queue: str, namespace: str) -> str:
        """Where the group will be: in the namespace's own queue, if it has one and nobody asked for another."""
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
    metadata = _object(pod.get("metadata"))
    owners = [_object(owner) for owner in metadata.get("ownerReferences") or ()]
    uid = next((owner.get("uid") for owner in owners if owner.get("controller")), metadata.get("uid"))
    return f"{GROUP_PREFIX}{uid}"


def _queue(spec: Json) -> str:
    queue = spec.get("queue")
    return queue if isinstance(queue, str) and queue else DEFAULT_QUEUE

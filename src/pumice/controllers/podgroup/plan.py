"""The PodGroup of pods that name none: what it says, which pods get its name, and when it goes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from pumice import instant
from pumice.api import names
from pumice.api.apps import DaemonSet, KubeJob, ReplicaSet, StatefulSet
from pumice.api.batch import TopologyMode
from pumice.api.defaults import queue_within
from pumice.api.groups import group_of
from pumice.api.kinds import type_meta
from pumice.api.pods import Pod, is_living
from pumice.api.run_time import TIMES
from pumice.api.scheduling import PodGroup, PodGroupPhase, is_workload
from pumice.controllers import minimums
from pumice.controllers.operations import NOTHING_TO_DO, Blame, Create, Delete, Patch, Plan, target_of
from pumice.controllers.ownership import SUBMISSION, controller_reference
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pumice.api.meta import Json
    from pumice.controllers.operations import Operation
    from pumice.instant import Instant

Workload: TypeAlias = ReplicaSet | StatefulSet | DaemonSet | KubeJob

OWNER_S_MAX = 10  # a pod whose workload no watch has shown by then is an orphan: its group is one of one
_NUMBER = re.compile(r"[+-]?[0-9]{1,9}")
_INHERITED = (names.PREEMPTABLE, names.COOLDOWN_TIME, names.REVOCABLE_ZONE, *TIMES, *SUBMISSION)
_BUDGETS = (names.JDB_MIN_AVAILABLE, names.JDB_MAX_UNAVAILABLE)  # the first one wins
_LABELS = (names.PREEMPTABLE, names.COOLDOWN_TIME, names.USER)


class View(Value):
    """A group that is there or should be, and all pods that belong to it, whether they say so already or not."""

    name: str
    group: PodGroup | None
    members: Sequence[Pod] = ()
    owners: Sequence[Workload] = ()  # of the newest member, in the order of its references
    inherits: bool = True
    home: str = ""  # the queue that the namespace names

    @property
    def examples(self) -> Sequence[Workload]:
        """The owners whose annotations count."""
        return self.owners if self.inherits else ()


def plan(view: View, now: Instant) -> Plan:
    """Living members have a group and its name; a workload that wants no pods has none."""
    group = view.group
    if group is not None and group.metadata.deletion_timestamp is not None:
        return NOTHING_TO_DO
    living = [pod for pod in view.members if is_living(pod)]
    if not living:
        return _plan_empty(view)
    model = newest(living)
    owner = model.metadata.controller
    known = {each.metadata.uid for each in view.owners}
    if owner is not None and is_workload(owner) and owner.uid not in known:
        # Its watch is behind, or it is gone and its pods follow.
        due = model.metadata.created_at + OWNER_S_MAX * instant.SECOND
        if now < due:
            return Plan(again_at=due)
    first = _create(view, model) if group is None else _update(view, group, model)
    rest = tuple(_join(view.name, pod) for pod in living if group_of(pod).is_implied)
    return Plan(tuple(stage for stage in (first, rest) if stage))


def newest(pods: Sequence[Pod]) -> Pod:
    """The pod after which the group is made: during a roll-out, one of the new ones."""
    return max(pods, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.metadata.name))


def _plan_empty(view: View) -> Plan:
    """Old ReplicaSets of a Deployment keep no groups."""
    group = view.group
    if group is None or group.metadata.controller is None:
        return NOTHING_TO_DO
    for owner in view.owners:
        wants_none = isinstance(owner, ReplicaSet | StatefulSet) and owner.spec.replicas == 0
        if wants_none and owner.metadata.uid == group.metadata.controller.uid:
            delete = Delete(**target_of(group))
            return Plan(((delete,),))
    return NOTHING_TO_DO


# ------------------------------------------------------------------------------------------------------------ writes


def _join(name: str, pod: Pod) -> Patch:
    body = {"metadata": {"annotations": {names.GROUP_NAME: name}}}
    return Patch(**target_of(pod), body=body)


def _create(view: View, model: Pod) -> tuple[Operation, ...]:
    metadata: Json = {
        "name": view.name,
        "namespace": model.metadata.namespace,
        "ownerReferences": _references(model),
        "labels": {key: model.metadata.labels[key] for key in _LABELS if key in model.metadata.labels},
        "annotations": _annotations(view.examples, model),
    }
    body: Json = {
        **type_meta(PodGroup),
        "metadata": metadata,
        "spec": _spec(view.examples, model, view.home),
        "status": {"phase": PodGroupPhase.PENDING.value},
    }
    return (Create(kind=PodGroup, body=body, blame=Blame(model, "PodGroupError")),)


def _references(model: Pod) -> list[Json]:
    """The pod's owners, its controller first; a bare pod owns its group itself."""
    metadata = model.metadata
    if metadata.controller is None:
        return [controller_reference(model)]
    ordered = sorted(metadata.owner_references, key=lambda owner: not owner.controller)
    return [msgspec.to_builtins(owner) for owner in ordered]


def _annotations(owners: Sequence[Workload], model: Pod) -> dict[str, str]:
    found: dict[str, str] = {}
    for owner in owners:
        for key, value in owner.metadata.annotations.items():
            if key.startswith(names.INHERITED_PREFIX) or key in TIMES:
                found.setdefault(key, value)
    own = model.metadata.annotations
    budget = next((key for key in _BUDGETS if key in own), None)
    found.update({key: own[key] for key in (*_INHERITED, budget) if key is not None and key in own})
    return found


def _spec(owners: Sequence[Workload], model: Pod, home: str) -> Json:
    annotations = model.metadata.annotations
    minimum = _min_member(owners)
    spec: Json = {
        "minMember": 1 if minimum is None else minimum,
        "minResources": _min_resources(model, 1 if minimum is None else minimum),
    }
    if queue := queue_within(annotations.get(names.QUEUE_NAME, ""), {names.QUEUE_NAME: home}):
        spec["queue"] = queue
    if model.spec.priority_class_name:
        spec["priorityClassName"] = model.spec.priority_class_name
    if topology := _topology(annotations):
        spec["networkTopology"] = topology
    return spec


def _min_member(owners: Sequence[Workload]) -> int | None:
    """What the workload asks for; None where it asks for nothing. What is no number, or a negative one, is one."""
    for owner in owners:
        text = owner.metadata.annotations.get(names.GROUP_MIN_MEMBER)
        if text is not None:
            number = int(text) if _NUMBER.fullmatch(text) else -1
            return number if number >= 0 else 1
    return None


def _min_resources(model: Pod, pods: int) -> dict[str, str]:
    return minimums.resource_list({name: value * pods for name, value in minimums.usage(model.spec).items()})


def _topology(annotations: Mapping[str, str]) -> Json:
    mode, tier = (
        annotations.get(names.NETWORK_TOPOLOGY_MODE),
        annotations.get(names.NETWORK_TOPOLOGY_HIGHEST_TIER),
    )
    if mode is None and tier is None:
        return {}
    is_soft = mode is not None and mode.lower() == TopologyMode.SOFT.value
    topology: Json = {"mode": (TopologyMode.SOFT if is_soft else TopologyMode.HARD).value}
    if tier is not None and _NUMBER.fullmatch(tier):
        topology["highestTierAllowed"] = int(tier)
    return topology


def _update(view: View, group: PodGroup, model: Pod) -> tuple[Operation, ...]:
    """A workload that asks for a gang may ask for another, of other pods, and any may ask for another time limit; what asks for
    nothing changes nothing.
    """
    said = _annotations(view.examples, model)
    times = {key: said[key] for key in TIMES if key in said and group.metadata.annotations.get(key) != said[key]}
    body: Json = {"metadata": {"annotations": times}} if times else {}
    minimum = _min_member(view.examples)
    if minimum is not None:
        resources = _min_resources(model, minimum)
        present = group.spec.min_resources or {}
        if group.spec.min_member != minimum or not minimums.same(present, resources):
            gone = dict.fromkeys(present.keys() - resources.keys())
            body["spec"] = {"minMember": minimum, "minResources": {**gone, **resources}}
    if not body:
        return ()
    # For the version that was looked at: one that arrives late would let the gang start with a former minimum.
    version = group.metadata.resource_version
    patch = Patch(**target_of(group), body=body, version=version, blame=Blame(model, "PodGroupError"))
    return (patch,)

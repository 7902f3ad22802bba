"""A gang: the pods that start together or not at all, read from a PodGroup, a native group or a lone pod."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from pumice import instant
from pumice.api import names, run_time
from pumice.api.batch import TopologyMode
from pumice.api.meta import NO_RESOURCES
from pumice.api.scheduling import PodGroup, PodGroupPhase, SubGroupPolicy
from pumice.cluster import amounts
from pumice.cluster.fingerprints import fingerprint
from pumice.cluster.matching import compile_selector
from pumice.cluster.tasks import FINISHED, OCCUPYING, Status, Task, go_bool, preemptable
from pumice.values import Value, once

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from pumice.api.batch import NetworkTopology
    from pumice.api.meta import ObjectMeta, ResourceList
    from pumice.api.native import NativePodGroup
    from pumice.api.scheduling import PodGroupCondition
    from pumice.cluster.amounts import Amounts
    from pumice.cluster.requests import Request
    from pumice.instant import Duration, Instant

    Holding: TypeAlias = tuple[Instant | None, Instant | None, Amounts]  # since when, until when, how much

# Annotations that we write onto groups.
OUR_NOTES = frozenset({names.VERDICT, names.ATTEMPT, names.LEADER, names.RUN, names.RESERVATION})
_UNSAID = frozenset({None})
TOGETHER_MAX = 4096  # sums of equal requests that are kept
_INQUEUE, _RUNNING = PodGroupPhase.INQUEUE.value, PodGroupPhase.RUNNING.value
NO_POLICY = -1  # of a sub gang that no subGroupPolicy made
USER_CHARS_MAX = 253  # of a user's name as it is remembered and shown; longer ones are cut, and end in a fingerprint


class Closeness(Value):
    """How far apart members may be: at most the tier given by number, or by name, or (both absent) anywhere."""

    hard: bool
    tier: int | None
    tier_name: str


class SubGang(Value, eq=False):
    """Members that a subGroupPolicy keeps together; a gang without policies is its own and only sub gang."""

    key: str
    policy: int
    minimum: int
    match_index: int
    closeness: Closeness | None
    tasks: tuple[Task, ...]

    @property
    def priority(self) -> int:
        """That of its highest task, and never below zero (Volcano parity)."""
        return max([0, *(task.priority for task in self.tasks)])


class GangSpec(Value):
    """What the group object says, without its members."""

    key: str
    namespace: str
    name: str
    uid: str
    created: str
    queue: str
    priority: int
    min_member: int
    role_minimums: Mapping[str, int]
    minimum: Amounts | None  # minResources
    written_minimum: ResourceList  # the same as it was written, names included that only a ResourceQuota knows
    phase: str
    conditions: tuple[PodGroupCondition, ...]
    annotations: Mapping[str, str]
    labels: Mapping[str, str]
    closeness: Closeness | None
    policies: tuple[SubGroupPolicy, ...]
    native: bool  # True for Kubernetes' own groups
    time_limit: Duration | None = None  # of the group, else the longest of its members
    running_estimate: Duration | None = None  # the same
    job: str = ""  # the Job that the group was made for

    @property
    def user(self) -> str:
        """To whom the gang is charged, where no label is trusted."""
        return self.user_by(trusts_label=False)

    def user_by(self, *, trusts_label: bool) -> str:
        return user_of(self, trusts_label=trusts_label)

    @property
    def preemptable(self) -> bool:
        return preemptable(self.annotations, self.labels, default=False)

    @property
    def forbids_eviction(self) -> bool:
        """True only where the group says so itself: saying nothing allows whole-gang eviction."""
        written = self.annotations.get(names.PREEMPTABLE, self.labels.get(names.PREEMPTABLE))
        return written is not None and go_bool(written) is not True


class Gang(Value, eq=False, dict=True):  # no slots: what is found out once is kept
    """A gang and its members at one moment; `counts` is indexed by Status."""

    spec: GangSpec
    tasks: tuple[Task, ...]
    sub_gangs: tuple[SubGang, ...]
    counts: tuple[int, ...]
    occupied: Amounts

    @property
    def key(self) -> str:
        return self.spec.key

    @once
    def started(self) -> Instant | None:
        """When the gang's minimum was started (run_time.py); None while too few members have been."""
        notes = self.spec.annotations
        recorded = run_time.run_of(notes).started if names.RUN in notes else None
        starts = [_start_text(task) for task in self.tasks if task.status in OCCUPYING or task.status in FINISHED]
        try:
            return run_time.started_at(starts, self.spec.min_member, recorded)
        except instant.InstantError:
            return None  # no API server writes such a time

    @once
    def held(self) -> tuple[tuple[Request, tuple[str, ...]], ...]:
        """What its members hold that are on nodes and not leaving: equal requests together, with the node of each."""
        found: dict[Request, list[str]] = {}
        for task in self.tasks:
            if task.status in OCCUPYING and task.node:
                found.setdefault(task.request, []).append(task.node)
        return tuple((request, tuple(nodes)) for request, nodes in found.items())

    @once
    def held_between(self) -> tuple[Holding, ...]:
        return held_between(self.tasks)

    @once
    def waiting_best_effort(self) -> int:
        """Members that wait, and ask for nothing."""
        return sum(task.status is Status.PENDING and task.is_best_effort for task in self.tasks)

    @once
    def has_placeable(self) -> bool:
        """Whether a member waits that asks for something, and no gate holds it."""
        return any(
            task.status is Status.PENDING and not task.gates and not task.request.is_best_effort for task in self.tasks
        )

    @once
    def asked(self) -> Amounts:
        """What its waiting members ask for together."""
        return amounts.sum_of(task.request.amounts for task in self.tasks if task.status is Status.PENDING)

    @once
    def least(self) -> Amounts:
        """What its first members ask for, as many as it needs: its minimum where none is written."""
        return amounts.sum_of(task.request.amounts for task in self.tasks[: max(self.spec.min_member, 1)])

    @once
    def is_uniform(self) -> bool:
        """Whether all members ask for the same."""
        return all(task.request.amounts == self.tasks[0].request.amounts for task in self.tasks)

    @once
    def waits_as_one(self) -> bool:
        """Whether all members wait, behind no gate, ask for something and rank the same: who refuses one of them refuses all that are alike."""
        return len(self.tasks) > 0 and all(
            task.status is Status.PENDING
            and not task.gates
            and not task.is_best_effort
            and task.priority == self.tasks[0].priority
            and task.pod.spec.preemption_policy == self.tasks[0].pod.spec.preemption_policy
            for task in self.tasks
        )

    @once
    def is_steady(self) -> bool:
        """Whether it runs and is whole: nothing is to be admitted, placed, mended or said of any member."""
        spec, roles = self.spec, self.spec.role_minimums
        was_admitted = spec.phase == _INQUEUE and spec.minimum is None
        return (
            max(spec.min_member, 1) <= self.counts[Status.RUNNING] == len(self.tasks)
            and (spec.phase == _RUNNING or was_admitted)
            and not spec.policies
            and (
                not roles
                or all(sum(task.role == role for task in self.tasks) >= least for role, least in roles.items())
            )
        )

    @once
    def wants_closeness(self) -> bool:
        """Whether its members, or those of a sub gang, are to be near one another."""
        return self.spec.closeness is not None or any(sub.closeness is not None for sub in self.sub_gangs)

    @once
    def created(self) -> Instant | None:
        """When its group was made; None where that is not a time."""
        try:
            return instant.parse_instant(self.spec.created)
        except instant.InstantError:
            return None

    @once
    def known(self) -> dict[Hashable, Any]:
        """What was found out that depends on the gang as it is and on the key alone; a gang that has not changed is not asked again."""
        return {}

    @once
    def asks_for_queue_gate(self) -> bool:
        """Whether a member wants to be held until its queue has a share for it."""
        return any(task.pod.metadata.annotations.get(names.QUEUE_ALLOCATION_GATE) == "true" for task in self.tasks)

    @once
    def fingerprint(self) -> str:
        """Of what the gang asks for and how far its members got; what we write onto its group ourselves does not count."""
        spec = self.spec
        theirs = {key: value for key, value in spec.annotations.items() if key not in OUR_NOTES}
        members = [
            (
                task.uid,
                task.status,
                task.node,
                task.priority,
                task.gates,
                task.pod.metadata.labels,
                task.request.amounts,
            )
            for task in self.tasks
        ]
        wants = spec.min_member, spec.role_minimums, spec.minimum, spec.closeness, spec.policies
        return fingerprint(spec.uid, spec.queue, spec.priority, theirs, spec.labels, wants, members)


class Orphans(Value, eq=False, dict=True):  # where what is found out once is kept
    """Pods whose group does not exist: it has not been made yet, or it is gone with the Job's end, and they stay.

    The first of them speaks for all, so they stand in an order that arrival does not decide (`orphans_of`).
    """

    tasks: tuple[Task, ...]

    @once
    def held_between(self) -> tuple[Holding, ...]:
        return held_between(self.tasks)

    @once
    def queue(self) -> str:
        """The queue that a Job writes onto its pods; empty where none is written."""
        return self.tasks[0].pod.metadata.annotations.get(names.JOB_QUEUE, "")

    def user_by(self, *, trusts_label: bool) -> str:
        return user_of(self.tasks[0].pod.metadata, trusts_label=trusts_label)


def held_between(tasks: Iterable[Task]) -> tuple[Holding, ...]:
    """What members hold or have held, and from when to when: those with the same times are one.

    No start: nobody has said when. No end: it is held. A member of which nobody says when it ended is left out.
    """
    found: dict[tuple[Instant | None, Instant | None], list[Request]] = {}
    for task in tasks:
        until = run_time.ended_at(task.pod)
        if task.status in OCCUPYING or until is not None:
            found.setdefault((run_time.bound_at(task.pod), until), []).append(task.request)
    return tuple([(*times, _together(own)) for times, own in found.items()])


def _together(requests: Sequence[Request]) -> Amounts:
    """What all of them ask for: where they are alike, as in most gangs, one object for all gangs of that size."""
    if requests and requests.count(requests[0]) == len(requests):
        return _times(requests[0], len(requests))
    return amounts.sum_of([request.amounts for request in requests])


@functools.lru_cache(TOGETHER_MAX)
def _times(request: Request, times: int) -> Amounts:
    return {name: value * times for name, value in request.amounts.items()}


def user_of(owned: ObjectMeta | GangSpec, *, trusts_label: bool) -> str:
    """To whom work is charged: who submitted it as admission has recorded it, else (where a policy trusts it) the label by which the
    owner names a user, else its namespace.
    """
    labelled = owned.labels.get(names.USER) if trusts_label else None
    user = owned.annotations.get(names.SUBMITTED_BY) or labelled or owned.namespace
    return user if len(user) <= USER_CHARS_MAX else f"{user[:USER_CHARS_MAX]}-{fingerprint(user)}"


def orphans_of(tasks: Iterable[Task]) -> Orphans:
    return Orphans(_in_order(tasks))


def _in_order(tasks: Iterable[Task]) -> tuple[Task, ...]:
    return tuple(sorted(tasks, key=lambda task: (task.created, task.name, task.uid)))


def gang_of(spec: GangSpec, tasks: Iterable[Task]) -> Gang:
    members = _in_order(tasks)
    counts = [0] * len(Status)
    for task in members:
        counts[task.status] += 1
    occupied = _together([task.request for task in members if task.status in OCCUPYING])
    spec = _with_members_times(spec, members)
    return Gang(spec, members, _sub_gangs(spec, members), tuple(counts), occupied)


def _start_text(task: Task) -> str | None:
    """When the kubelet began with the pod; until it says so, when the pod was bound."""
    status = task.pod.status
    if status.start_time:
        return status.start_time
    bound = (each for each in status.conditions if each.type == "PodScheduled" and each.status == "True")
    return next((each.last_transition_time for each in bound), None)


def _with_members_times(spec: GangSpec, members: Sequence[Task]) -> GangSpec:
    """The group's own words about its run time, else the longest that a member says."""
    found: dict[str, Duration] = {}
    for field, key in (("time_limit", names.TIME_LIMIT), ("running_estimate", names.RUNNING_ESTIMATE)):
        own = _duration(spec.annotations.get(key))
        if own is None and (texts := {task.pod.metadata.annotations.get(key) for task in members} - _UNSAID):
            own = max((each for each in map(_duration, texts) if each is not None), default=None)
        if own is not None:
            found[field] = own
    if spec.native and "time_limit" in found and _duration(spec.annotations.get(names.TIME_LIMIT)) is None:
        limit = found.pop("time_limit")  # on a pod alone nobody holds it to that: it is what its owner expects
        found.setdefault("running_estimate", limit)
    if all(getattr(spec, field) == length for field, length in found.items()):
        return spec
    return msgspec.structs.replace(spec, **found)


@functools.lru_cache(1024)
def _duration(text: str | None) -> Duration | None:
    """A duration longer than zero; what a tenant wrote that is none counts as unsaid."""
    try:
        length = instant.parse_duration(text) if text else 0
    except instant.DurationError:
        return None
    return length if length > 0 else None


def spec_of_pod_group(group: PodGroup, *, priority: int, default_queue: str) -> GangSpec:
    meta, spec = group.metadata, group.spec
    return GangSpec(
        key=meta.key,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        created=meta.creation_timestamp or "",
        queue=spec.queue or default_queue,
        priority=priority,
        min_member=spec.min_member,
        role_minimums=spec.min_task_member,
        minimum=None if spec.min_resources is None else amounts.read_minimum(spec.min_resources),
        written_minimum=spec.min_resources or NO_RESOURCES,
        phase=group.status.phase or PodGroupPhase.PENDING.value,
        conditions=group.status.conditions,
        annotations=meta.annotations,
        labels=meta.labels,
        closeness=closeness_of(spec.network_topology),
        policies=spec.sub_group_policy,
        native=False,
        time_limit=_duration(meta.annotations.get(names.TIME_LIMIT)),
        running_estimate=_duration(meta.annotations.get(names.RUNNING_ESTIMATE)),
        job=next((owner.name for owner in meta.owner_references if owner.kind == "Job"), ""),
    )


def spec_of_native(group: NativePodGroup, *, key: str, priority: int, default_queue: str) -> GangSpec:
    """A group of scheduling.k8s.io: it names no queue, so an annotation may, and it needs no admission."""
    meta, spec = group.metadata, group.spec
    policy = spec.scheduling_policy
    return GangSpec(
        key=key,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        created=meta.creation_timestamp or "",
        queue=meta.annotations.get(names.QUEUE_NAME, default_queue),
        priority=spec.priority if spec.priority is not None else priority,
        min_member=policy.gang.min_count if policy.gang is not None else 1,
        role_minimums={},
        minimum=None,
        written_minimum=NO_RESOURCES,
        phase=PodGroupPhase.INQUEUE.value,
        conditions=(),
        annotations=meta.annotations,
        labels=meta.labels,
        closeness=None,
        policies=(),
        native=True,
    )


def spec_of_lone_pod(task: Task, *, key: str, priority: int, default_queue: str) -> GangSpec:
    """A pod that names our scheduler but no group is a gang of one, already admitted."""
    annotations = task.pod.metadata.annotations
    return GangSpec(
        key=key,
        namespace=task.namespace,
        name=task.name,
        uid=task.uid,
        created=task.created,
        queue=annotations.get(names.QUEUE_NAME, default_queue),
        priority=priority,
        min_member=1,
        role_minimums={},
        minimum=None,
        written_minimum=NO_RESOURCES,
        phase=PodGroupPhase.INQUEUE.value,
        conditions=(),
        annotations=annotations,
        labels=task.pod.metadata.labels,
        closeness=None,
        policies=(),
        native=False,
    )


def closeness_of(topology: NetworkTopology | None) -> Closeness | None:
    if topology is None:
        return None
    hard = topology.mode != TopologyMode.SOFT.value
    return Closeness(hard, topology.highest_tier_allowed, topology.highest_tier_name)


def _sub_gangs(spec: GangSpec, tasks: Sequence[Task]) -> tuple[SubGang, ...]:
    if not spec.policies:
        return (SubGang(spec.key, NO_POLICY, spec.min_member, 0, spec.closeness, tuple(tasks)),)
    pickers = [_Picker(index, policy) for index, policy in enumerate(spec.policies)]
    found: dict[tuple[int, tuple[str, ...]], list[Task]] = {}
    for task in tasks:
        place = next((place for picker in pickers if (place := picker.pick(task)) is not None), (NO_POLICY, ()))
        found.setdefault(place, []).append(task)
    return tuple(_sub_gang(spec, policy, values, members) for (policy, values), members in sorted(found.items()))


def _sub_gang(spec: GangSpec, policy: int, values: tuple[str, ...], members: list[Task]) -> SubGang:
    if policy == NO_POLICY:  # what no policy wants: each such pod counts alone
        return SubGang(spec.key, NO_POLICY, 1, 0, spec.closeness, tuple(members))
    wanted = spec.policies[policy]
    return SubGang(
        key=f"{spec.key}/{wanted.name}-{'-'.join(values)}",
        policy=policy,
        minimum=wanted.sub_group_size or 1,
        match_index=int(values[0]) if values[0].isascii() and values[0].isdigit() else 0,
        closeness=closeness_of(wanted.network_topology),
        tasks=tuple(members),
    )


class _Picker:
    """Says which sub gang of one policy a pod belongs to: that of its values under the policy's label keys."""

    def __init__(self, index: int, policy: SubGroupPolicy) -> None:
        self.index = index
        self.keys = policy.match_label_keys
        wanted = policy.label_selector
        self.selector = None if wanted is None else compile_selector(wanted)

    def pick(self, task: Task) -> tuple[int, tuple[str, ...]] | None:
        labels = task.pod.metadata.labels
        values = tuple(labels.get(key, "") for key in self.keys)
        # A policy without keys never captures a pod (Volcano parity).
        if not values or not all(values) or (self.selector is not None and not self.selector.matches(labels)):
            return None
        return self.index, values

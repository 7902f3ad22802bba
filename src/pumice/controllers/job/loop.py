"""Gathers what the Job's plan needs, and says what wakes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pumice import instant
from pumice.api import names
from pumice.api.batch import DEFAULT_QUEUE, Job
from pumice.api.bus import Command
from pumice.api.core import Namespace, Node, PersistentVolumeClaim
from pumice.api.defaults import queue_within
from pumice.api.pods import Pod
from pumice.api.priority import PriorityClass
from pumice.api.scheduling import PodGroup, Queue
from pumice.controllers.cache import annotations_of_namespace
from pumice.controllers.driver import Controller, Wake, itself
from pumice.controllers.job import podgroup, volumes
from pumice.controllers.job.dead_nodes import SILENCE, Nodes, plan_removals
from pumice.controllers.job.members import concerns, has_started
from pumice.controllers.job.pace import Pace
from pumice.controllers.job.plan import plan
from pumice.controllers.job.policies import recorded_pods
from pumice.controllers.job.repair_rounds import RESTORE_S_MIN, Rounds
from pumice.controllers.job.view import JobView
from pumice.controllers.operations import NOTHING_TO_DO, Create, Emit, Plan, consume
from pumice.controllers.ownership import is_job
from pumice.errors import BadInput
from pumice.kube.informer import Key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pumice.controllers.cache import Cache
    from pumice.controllers.job.dead_nodes import Removals
    from pumice.controllers.operations import Operation
    from pumice.instant import Duration, Instant

WORKERS = 32  # a Job's stages wait for the server one after the other; writes have a window of their own
PODS_GATHER_S = 0.05  # a gang's pods change together; no pod waits for this
STARTS_GATHER_S = 0.25  # and start one after the other: a Job counts them, and has nothing to do until most of them run
ORPHAN_S = 60  # a Command whose Job is not known after so long has none
_BY_JOB, _BY_CLAIM, _BY_QUEUE, _LEAVING = "job", "claim", "queue", "leaving a node"


def controller(cache: Cache, *, silence: Duration = SILENCE, restore_s: float = RESTORE_S_MIN) -> Controller:
    """The Job controller over the cache.

    Pods that cannot end because their node says nothing are given up after `silence`; whether plugins' objects are still there is
    looked at every `restore_s` at most.
    """
    _prepare(cache)

    def wants_claim(claim: PersistentVolumeClaim) -> Iterable[Key]:
        return [_key(job) for job in cache.of(Job).find(_BY_CLAIM, claim.metadata.key)]

    def waits_for_queue(queue: Queue) -> Iterable[Key]:
        return [_key(job) for job in cache.of(Job).find(_BY_QUEUE, queue.metadata.name) if _waits(job)]

    def has_leavers(node: Node) -> Iterable[Key]:
        pods = cache.of(Pod).find(_LEAVING, node.metadata.name)
        return [Key.parse(job) for pod in pods for job in _job_of_pod(pod)]

    def job_of(pod: Pod) -> Iterable[Key]:
        return map(Key.parse, _job_of_pod(pod))

    rounds, pace = Rounds(restore_s), Pace()

    def look(_: Cache, key: Key, now: Instant) -> Plan:
        return _plan(cache, key, now, silence, rounds, pace)

    async def keep_pace(wake: Callable[[Key], None]) -> None:
        cache.of(Pod).subscribe(lambda pods: _tell_pace(cache, pace, pods), _is_placed_anew)
        await pace.run(wake, cache.clock.sleep)

    wakes = (
        Wake(Job, itself),
        Wake(Pod, job_of, PODS_GATHER_S, concerns),
        Wake(Pod, job_of, STARTS_GATHER_S, has_started),
        Wake(PodGroup, _job_of_group, concerns=podgroup.concerns),
        Wake(Command, lambda command: map(Key.parse, _job_of_command(command))),
        Wake(PersistentVolumeClaim, wants_claim),
        Wake(Queue, waits_for_queue, concerns=_concerns_no_job),
        Wake(Node, has_leavers),
    )
    return Controller("job", look, wakes, workers=WORKERS, beside=keep_pace)


def _prepare(cache: Cache) -> None:
    """What plans look up, and by what."""
    cache.of(Pod).index(_BY_JOB, _job_of_pod)
    cache.of(Command).index(_BY_JOB, _job_of_command)
    cache.of(Job).index(_BY_CLAIM, _claims_of)
    cache.of(Job).index(_BY_QUEUE, lambda job: (job.spec.queue or DEFAULT_QUEUE,))
    cache.of(Pod).index(_LEAVING, _node_that_it_leaves)
    for struct in (PersistentVolumeClaim, PriorityClass, Queue, Node, Namespace):
        cache.of(struct)


def _concerns_no_job(known: Queue, fresh: Queue) -> bool:
    """A queue's status changes all the time and concerns no Job; its appearance does."""
    del known, fresh
    return False


def _plan(cache: Cache, key: Key, now: Instant, silence: Duration, rounds: Rounds, pace: Pace) -> Plan:
    job = cache.of(Job).get(key.namespace, key.name)
    commands = tuple(cache.of(Command).find(_BY_JOB, f"{key.namespace}/{key.name}"))
    pods = tuple(cache.of(Pod).find(_BY_JOB, f"{key.namespace}/{key.name}"))
    nodes = _nodes(cache, pods, silence)
    if job is None:
        rounds.leave(key)
        pace.forget(key)
        return _orphans(commands, plan_removals(pods, nodes, now, None), now)
    view = msgspec.structs.replace(
        _view(cache, job, pods, commands, now), nodes=nodes, restores=rounds.is_due(job, now)
    )
    try:
        return rounds.schedule_repair(_paced(plan(view), key, view, pace), job)
    except BadInput as error:
        # Admission refuses such Jobs; where there is none, their owner must hear of it.
        return Plan(((Emit(job, "Warning", "InvalidJob", str(error)),),))


def _paced(made: Plan, key: Key, view: JobView, pace: Pace) -> Plan:
    """The plan, without its pods as long as the pace holds them up."""
    pods = [each.name for each in made if isinstance(each, Create) and each.kind is Pod]
    if not pods:
        pace.wants_none(key)
        return made
    spec = view.job.spec
    priority = view.priorities.get(spec.priority_class_name, 0)
    if pace.may_make(key, spec.queue or DEFAULT_QUEUE, priority, pods, has_some=bool(view.pods)):
        return made
    return Plan(made.stages[:-1], made.again_at)  # pods come last


def _tell_pace(cache: Cache, pace: Pace, pods: Iterable[Pod]) -> None:
    for pod in pods:
        metadata = pod.metadata
        waits = not pod.spec.node_name and cache.of(Pod).get(metadata.namespace, metadata.name) is not None
        for job in _job_of_pod(pod):
            pace.saw(Key.parse(job), metadata.name, waits=waits)


def _is_placed_anew(known: Pod, fresh: Pod) -> bool:
    return known.spec.node_name != fresh.spec.node_name


def _nodes(cache: Cache, pods: Iterable[Pod], silence: Duration) -> Nodes:
    """Those that pods have to leave."""
    nodes = cache.of(Node)
    left = {name for pod in pods for name in _node_that_it_leaves(pod)}
    found = {name: node for name in left if (node := nodes.get("", name)) is not None}
    return Nodes(found, frozenset(name for name in left - found.keys() if nodes.is_absent("", name)), silence)


def _view(cache: Cache, job: Job, pods: tuple[Pod, ...], commands: tuple[Command, ...], now: Instant) -> JobView:
    namespace, name = job.metadata.namespace, job.metadata.name
    groups = cache.of(PodGroup)
    legacy = groups.get(namespace, name)  # as Volcano named it long ago
    claims = cache.of(PersistentVolumeClaim)
    wanted = [volumes.claim_name(job, volume, number) for number, volume in enumerate(job.spec.volumes)]
    present = {pod.metadata.name for pod in pods}
    missing = [pod for pod in recorded_pods(job) if pod not in present]
    deleted = {pod.metadata.name: pod for pod in cache.of(Pod).recently_deleted(_BY_JOB, f"{namespace}/{name}")}
    return JobView(
        job=job,
        now=now,
        group=groups.get(namespace, podgroup.group_name(job)) or (legacy if _owns(job, legacy) else None),
        deleted_pods={name: pod for name, pod in deleted.items() if name not in present},
        doubted=frozenset(pod for pod in missing if not cache.of(Pod).is_absent(namespace, pod)),
        pods=pods,
        commands=commands,
        queue=cache.of(Queue).get("", job.spec.queue or DEFAULT_QUEUE),
        queue_name=queue_within(job.spec.queue, annotations_of_namespace(cache, namespace)),
        claims=frozenset(each for each in wanted if claims.get(namespace, each) is not None),
        priorities={each.metadata.name: each.value for each in cache.of(PriorityClass).all()},
    )


def _owns(job: Job, group: PodGroup | None) -> bool:
    controller = group.metadata.controller if group is not None else None
    return controller is not None and controller.uid == job.metadata.uid


def _orphans(commands: Iterable[Command], left: Removals, now: Instant) -> Plan:
    """Commands whose Job is gone are of no use; one that is merely early is given some time.

    Pods that a Job left on dead nodes go: a Job of its name would wait for theirs.
    """
    old: list[Operation] = list(left.operations)
    again_at = left.again_at
    for command in commands:
        metadata = command.metadata
        due = metadata.created_at + ORPHAN_S * instant.SECOND
        if due <= now:
            old.append(consume(command))
        else:
            again_at = min(due, again_at or due)
    return Plan((tuple(old),) if old else (), again_at) if old or again_at else NOTHING_TO_DO


# ---------------------------------------------------------------------------------------------------------------- keys


def _key(job: Job) -> Key:
    return Key(job.metadata.namespace, job.metadata.name)


def _waits(job: Job) -> bool:
    return job.status.state.phase in {"", "Pending"}


def _node_that_it_leaves(pod: Pod) -> tuple[str, ...]:
    is_leaving = pod.metadata.deletion_timestamp is not None and pod.spec.node_name
    return (pod.spec.node_name,) if is_leaving else ()


def _job_of_pod(pod: Pod) -> tuple[str, ...]:
    """The Job whose name the pod carries; only pods that a Job of ours controls."""
    owner = pod.metadata.controller
    name = pod.metadata.annotations.get(names.JOB_NAME)
    return (f"{pod.metadata.namespace}/{name}",) if name and owner is not None and is_job(owner) else ()


def _job_of_group(group: PodGroup) -> tuple[Key, ...]:
    owners = [owner.name for owner in group.metadata.owner_references if is_job(owner)]
    return (Key(group.metadata.namespace, owners[-1]),) if owners else ()


def _job_of_command(command: Command) -> tuple[str, ...]:
    target = command.target
    return (f"{command.metadata.namespace}/{target.name}",) if target is not None and is_job(target) else ()


def _claims_of(job: Job) -> tuple[str, ...]:
    namespace = job.metadata.namespace
    return tuple(f"{namespace}/{each.volume_claim_name}" for each in job.spec.volumes if each.volume_claim_name)

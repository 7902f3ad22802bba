"""Pods that controllers would make of a Job, and have not made: because the Job waits for its admission, or is only asked about."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pumice import instant
from pumice.api import changes, decoding
from pumice.api.batch import JobPhase
from pumice.api.pods import Pod
from pumice.api.priority import PriorityClass
from pumice.api.scheduling import PodGroup
from pumice.controllers.job.podgroup import group_name, group_operation
from pumice.controllers.job.pods import PodMaker
from pumice.controllers.operations import Create

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pumice.api.batch import Job
    from pumice.api.meta import Json
    from pumice.scheduling.time.forecast import World

_WAITS = frozenset({"", JobPhase.PENDING.value, JobPhase.RESTARTING.value})


def with_pods(world: World, jobs: Iterable[Job]) -> World:
    """The world, in which every Job has pods whose group has none yet."""
    for job in jobs:
        slot = world.intake.cluster.gangs.get(f"{job.metadata.namespace}/{group_name(job)}")
        if slot is not None and slot.group is not None and not slot.tasks and job.status.state.phase in _WAITS:
            for pod in gang_of(job, world)[1][1:]:
                world.intake.apply(changes.Upserted(object=pod))
    return world


def gang_of(job: Job, world: World) -> tuple[str, list[Any]]:
    """What controllers would make of the Job: the key of the gang, its group and then its pods."""
    classes: Mapping[str, PriorityClass] = world.intake.cluster.others.get(PriorityClass, {})
    made = group_operation(job, None, {name: each.value for name, each in classes.items()})
    assert isinstance(made, Create), "there is no group yet"
    created = job.metadata.creation_timestamp or instant.format_instant(world.now)

    def born(body: Json) -> Json:
        name, place = body["metadata"]["name"], {"namespace": job.metadata.namespace, "creationTimestamp": created}
        return {**body, "metadata": {**body["metadata"], **place, "uid": f"new-{job.metadata.uid}-{name}"}}

    objects: list[Any] = [decoding.decode_value(PodGroup, born(dict(made.body)))]
    maker = PodMaker(job, (), group="", forwarded=False)
    for task in job.spec.tasks:
        for body in maker.pods_of(task, range(task.replicas)):
            known = classes.get(body["spec"].get("priorityClassName") or "")
            if known is not None:
                body["spec"]["priority"] = known.value  # as an API server would fill it in
            objects.append(decoding.decode_value(Pod, {**born(body), "status": {"phase": "Pending"}}))
    return f"{job.metadata.namespace}/{group_name(job)}", objects

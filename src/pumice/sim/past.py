"""Workloads and clusters that exist: what the record says of gangs that have ended, and what a dump says of nodes, queues and gangs.

Where gangs and nodes come from dumps, both are taken as they are: requests, selectors, taints, and who runs where since when. Where one of them is
something else, they have nothing in common but GPUs: a slot is a GPU then, and what asks for none is left out.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from pumice import instant
from pumice.api.batch import Job
from pumice.api.core import Node, PersistentVolumeClaim
from pumice.api.pods import ENDED, Pod
from pumice.api.priority import PriorityClass
from pumice.api.scheduling import ROOT_QUEUE, PodGroup, PodGroupPhase, Queue
from pumice.api.topology import HyperNode
from pumice.cluster import amounts
from pumice.cluster.requests import request_of
from pumice.cluster.tasks import FINISHED, OCCUPYING, Status
from pumice.errors import BadInput
from pumice.scheduling.time.estimates import OVERDUE_LEAST, OVERDUE_PART
from pumice.sim.simulation import gpus_of, node_of
from pumice.sim.workload import NEVER_RAN, NO_GPU, SIZE_MAX, Submission

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pumice.api.meta import Struct
    from pumice.cluster.gangs import Gang
    from pumice.cluster.state import Cluster
    from pumice.cluster.tasks import Task
    from pumice.instant import Instant
    from pumice.record.model import GangRow

RUN_S = 3600  # of gangs in a dump whose owners say nothing


def work_of_record(rows: Sequence[GangRow], left_out: Counter[str] | None = None) -> list[Submission]:
    """Gangs that held GPUs for a while, in order of submission; second 0 is the first of them, and estimates are true.

    `left_out` counts the others, by the reason.
    """
    left_out = Counter() if left_out is None else left_out
    kept = sorted((row for row in rows if row.run_s > 0), key=lambda row: (row.submitted, row.uid))
    left_out.update([NEVER_RAN] * (len(rows) - len(kept)))
    found, first = list[Submission](), kept[0].submitted if kept else 0
    for row in kept:
        each = [(int(shape.get("pods", 0)), _gpus(shape.get("resources", {}))) for shape in row.shapes]
        size, slots = _shape(each)
        if not size:
            left_out[NO_GPU] += 1
        else:
            found.append(
                Submission(
                    at_s=float(row.submitted - first), run_s=float(row.run_s), size=size, slots=slots,
                    queue=row.queue or "default", user=row.user, estimate_s=float(row.run_s),
                )
            )  # fmt: skip
    return found


def work_of_dump(cluster: Cluster, now: Instant, run_s: float = RUN_S) -> list[Submission]:
    """Gangs of a dump as they are: those that run go on where they are, the others are submitted at second 0, the oldest first.

    They run for as long as their owners say, else `run_s`; who runs for longer than that already goes on as a forecast expects it.
    """
    gangs = [gang for gang in cluster.snapshot().gangs.values() if _is_alive(gang)]
    gangs.sort(key=lambda gang: (not _runs(gang), gang.spec.created, gang.spec.key))
    mounts = bool(cluster.others.get(PersistentVolumeClaim))
    found = []
    for gang in gangs:
        said = gang.spec.running_estimate or gang.spec.time_limit
        length, ran_s = said / instant.SECOND if said else run_s, None
        if _runs(gang):
            ran_s = max(now - min(gang.started or now, now), 0) / instant.SECOND
            if ran_s >= length:
                length = ran_s + max(ran_s / OVERDUE_PART, OVERDUE_LEAST / instant.SECOND)
        group, tasks = cluster.gangs[gang.spec.key].group, _staying(gang)
        pods = [_as_it_starts(task.pod, mounts=mounts) for task in tasks]
        found.append(
            Submission(
                at_s=0.0, run_s=length, size=len(pods), queue=gang.spec.queue, user=gang.spec.user, estimate_s=said / instant.SECOND if said else None,
                minimum=min(gang.spec.min_member, len(pods)) or None, key=gang.spec.key, ran_s=ran_s,
                objects=(*([group] if group is not None else []), *pods), gpus=sum(map(_gpus_of_task, tasks)),
            )
        )  # fmt: skip
    return found


def in_slots(work: Iterable[Submission], left_out: Counter[str] | None = None) -> list[Submission]:
    """The same gangs for a cluster of equal nodes, which has nothing but slots: one pod each, or one for each GPU; who asks for none is left out."""
    left_out = Counter() if left_out is None else left_out
    found = []
    for job in work:
        pods = [thing for thing in job.objects if isinstance(thing, Pod)]
        size, slots = _shape([(1, _gpus_asked(request_of(pod).amounts)) for pod in pods])
        if not size:
            left_out[NO_GPU] += 1
        else:
            minimum = job.minimum if size <= len(pods) else None
            found.append(
                Submission(
                    at_s=0.0, run_s=job.run_s - (job.ran_s or 0.0), size=size, slots=slots, queue=job.queue, user=job.user,
                    estimate_s=job.run_s - (job.ran_s or 0.0), minimum=min(minimum, size) if minimum else None,
                )
            )  # fmt: skip
    return found


def others_of_dump(objects: Iterable[Struct], work: Iterable[Submission]) -> list[Struct]:
    """What is neither a node, a queue nor part of a gang, and decides with them: pods of others, priority classes, hyper nodes, volumes, budgets."""
    own = {thing.metadata.key for job in work for thing in job.objects if isinstance(thing, Pod)}
    found: list[Struct] = []
    for thing in objects:
        match thing:
            case Node() | Queue() | PodGroup() | Job():
                continue
            case Pod() if thing.metadata.key in own or not thing.spec.node_name or is_gone(thing):
                continue
        found.append(thing)
    return found


def cluster_of_dump(
    objects: Iterable[Struct], source: str, *, as_it_is: bool
) -> tuple[list[Node], list[Queue], list[Struct]]:
    """Nodes, queues, and what else decides: priority classes and hyper nodes.

    Nodes are taken as they are, or as so many slots as they have GPUs: then those are left out that have none, or take no pods.
    """
    nodes, queues, others = list[Node](), list[Queue](), list["Struct"]()
    for thing in objects:
        match thing:
            case Node() if as_it_is:
                nodes.append(thing)
            case Node() if not thing.spec.unschedulable and gpus_of(thing):
                nodes.append(node_of(thing.metadata.name, gpus_of(thing), thing.metadata.labels))
            case Queue() if thing.metadata.name != ROOT_QUEUE:
                queues.append(thing)
            case PriorityClass() | HyperNode():
                others.append(thing)
    if not any(map(gpus_of, nodes)):
        raise BadInput(f"{source}: no node in it has GPUs and takes pods; give what `kubectl get nodes -o yaml` prints")
    return nodes, queues, others


def _is_alive(gang: Gang) -> bool:
    return gang.spec.phase != PodGroupPhase.COMPLETED.value and bool(_staying(gang))


def _staying(gang: Gang) -> list[Task]:
    return [task for task in gang.tasks if task.status not in FINISHED and task.status is not Status.RELEASING]


def is_gone(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None or pod.status.phase in ENDED


def _runs(gang: Gang) -> bool:
    held = sum(task.status in OCCUPYING for task in _staying(gang))
    return held >= max(gang.spec.min_member, 1)


def _as_it_starts(pod: Pod, *, mounts: bool) -> Pod:
    """Without volumes where the dump has no claims: nobody could tell where they are."""
    if mounts or not pod.spec.volumes:
        return pod
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, volumes=()))


def _gpus_of_task(task: Task) -> int:
    return _gpus_asked(task.request.amounts)


def _gpus_asked(asked: Mapping[str, float]) -> int:
    return math.ceil(sum(_gpu_amounts(asked)) / amounts.MILLI)


def _gpu_amounts(resources: Mapping[str, float]) -> list[float]:
    return [value for name, value in resources.items() if amounts.is_gpu(name)]


def _gpus(resources: Mapping[str, Any]) -> int:
    return math.ceil(sum(float(value) for value in _gpu_amounts(resources)))


def _shape(pods: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """How many equal pods of how many GPUs stand for these (count, GPUs each): as they are where they are alike, else one for each GPU."""
    own = [(count, gpus) for count, gpus in pods if gpus > 0 and count > 0]
    if not own:
        return 0, 0
    alike = len({gpus for _, gpus in own}) == 1
    size = sum(count if alike else count * gpus for count, gpus in own)
    if size > SIZE_MAX:
        raise BadInput(f"a gang of {size} pods: the simulator takes up to {SIZE_MAX}")
    return size, own[0][1] if alike else 1

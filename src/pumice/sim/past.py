"""Workloads and clusters that exist: what the record says of gangs that have ended, and what a dump says of nodes, queues and gangs.

A slot is a GPU, as everywhere in the simulator. So nodes are as large as the GPUs that they have, and what asks for none is left out.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pumice import instant
from pumice.api import changes
from pumice.api.core import Node
from pumice.api.priority import PriorityClass
from pumice.api.scheduling import ROOT_QUEUE, Queue
from pumice.api.topology import HyperNode
from pumice.cluster import amounts
from pumice.cluster.intake import Intake, allocatable_of
from pumice.cluster.state import Cluster
from pumice.cluster.tasks import FINISHED, OCCUPYING
from pumice.errors import BadInput
from pumice.sim.simulation import node_of
from pumice.sim.workload import SIZE_MAX, Submission

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pumice.api.meta import Struct
    from pumice.cluster.gangs import Gang
    from pumice.record.model import GangRow

RUN_S = 3600  # of gangs in a dump whose owners say nothing


def work_of_record(rows: Iterable[GangRow]) -> list[Submission]:
    """Gangs that held GPUs for a while, in order of submission; second 0 is the first of them, and estimates are true."""
    kept = sorted((row for row in rows if row.run_s > 0), key=lambda row: (row.submitted, row.uid))
    found, first = list[Submission](), kept[0].submitted if kept else 0
    for row in kept:
        each = [(int(shape.get("pods", 0)), _gpus(shape.get("resources", {}))) for shape in row.shapes]
        size, slots = _shape(each)
        if size:
            found.append(
                Submission(
                    at_s=float(row.submitted - first), run_s=float(row.run_s), size=size, slots=slots,
                    queue=row.queue or "default", user=row.user, estimate_s=float(row.run_s),
                )
            )  # fmt: skip
    return found


def work_of_dump(objects: Sequence[Struct], run_s: float = RUN_S) -> list[Submission]:
    """Gangs of a dump, all submitted at second 0: those that run first, then by age. They run for as long as their owners say, else `run_s`."""
    intake = Intake(Cluster())
    for thing in objects:
        intake.apply(changes.Upserted(object=thing))
    gangs = [gang for gang in intake.cluster.snapshot().gangs.values() if any(_is_alive(gang))]
    gangs.sort(
        key=lambda gang: (not any(gang.counts[status] for status in OCCUPYING), gang.spec.created, gang.spec.key)
    )
    found = []
    for gang in gangs:
        said = gang.spec.running_estimate or gang.spec.time_limit
        length = said / instant.SECOND if said else run_s
        asked = [
            (1, sum(map(int, _gpu_amounts(task.request.amounts)))) for task in gang.tasks if task.status not in FINISHED
        ]
        size, slots = _shape([(pods, math.ceil(milli / amounts.MILLI)) for pods, milli in asked])
        if size:
            minimum = min(gang.spec.min_member, size) if size <= len(gang.tasks) else None
            found.append(
                Submission(
                    at_s=0.0, run_s=length, size=size, slots=slots, queue=gang.spec.queue, user=gang.spec.user,
                    estimate_s=length, minimum=minimum or None,
                )
            )  # fmt: skip
    return found


def cluster_of_dump(objects: Iterable[Struct], source: str) -> tuple[list[Node], list[Queue], list[Struct]]:
    """Nodes with GPUs that pods may go to, queues, and what else decides: priority classes and hyper nodes."""
    nodes, queues, others = list[Node](), list[Queue](), list["Struct"]()
    for thing in objects:
        match thing:
            case Node() if not thing.spec.unschedulable:
                slots = int(sum(_gpu_amounts(allocatable_of(thing)))) // amounts.MILLI
                if slots:
                    nodes.append(node_of(thing.metadata.name, slots, thing.metadata.labels))
            case Queue() if thing.metadata.name != ROOT_QUEUE:
                queues.append(thing)
            case PriorityClass() | HyperNode():
                others.append(thing)
    if not nodes:
        raise BadInput(f"{source}: no node in it has GPUs and takes pods; give what `kubectl get nodes -o yaml` prints")
    return nodes, queues, others


def _is_alive(gang: Gang) -> list[bool]:
    return [task.status not in FINISHED for task in gang.tasks]


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

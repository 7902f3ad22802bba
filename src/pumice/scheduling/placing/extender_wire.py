"""What an HTTP extender is told about tasks, nodes, gangs and queues: field names and units as Volcano writes them.

Pods and nodes go out with the fields that we read; the rest of their objects is not kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from pumice.cluster import amounts
from pumice.cluster.columns import FIRST_ROWS

if TYPE_CHECKING:
    from pumice.cluster.amounts import Amounts
    from pumice.cluster.columns import Column
    from pumice.cluster.queues import QueueInfo
    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.session import Session

_SCORED = set(FIRST_ROWS[3:])  # rows that are no resources


def task(session: Session, one: Task, *, with_pod: bool = True) -> dict[str, Any]:
    gang = session.gangs.get(one.gang)
    place = gang.places.get(one) if gang is not None else None
    status = gang.status(one) if gang is not None else one.status
    node = session.room.table.names[place[1]] if place is not None and place[1] >= 0 else one.node
    told = {
        "UID": one.uid,
        "Job": one.gang,
        "Name": one.name,
        "Namespace": one.namespace,
        "TaskRole": one.role,
        "Resreq": resource(one.request.amounts),
        "InitResreq": resource(one.request.amounts),
        "NodeName": node,
        "Status": 1 << status,
        "Priority": one.priority,
        "Preemptable": one.preemptable,
        "BestEffort": one.is_best_effort,
        "RevocableZone": one.revocable_zone,
    }
    return {**told, "Pod": msgspec.to_builtins(one.pod)} if with_pod else told


def node(session: Session, index: int) -> dict[str, Any]:
    room = session.room
    table = room.table
    return {
        "Name": table.names[index],
        "Node": msgspec.to_builtins(table.objects[index]),
        "Allocatable": _column(session, table.allocatable[:, index]),
        "Capacity": _column(session, table.allocatable[:, index]),
        "Idle": _column(session, room.idle[:, index]),
        "Used": _column(session, room.used[:, index]),
        "Releasing": _column(session, room.releasing[:, index]),
        "Pipelined": _column(session, room.pipelined[:, index]),
    }


def gang(session: Session, one: GangState) -> dict[str, Any]:
    spec = one.spec
    return {
        "UID": one.key,
        "Name": spec.name,
        "Namespace": spec.namespace,
        "Queue": one.queue,
        "Priority": one.priority,
        "MinAvailable": spec.min_member,
        "TaskMinAvailable": dict(spec.role_minimums),
        "MinResources": None if spec.minimum is None else resource(spec.minimum),
        "Allocated": resource(one.occupied),
        "CreationTimestamp": spec.created or None,
        "Preemptable": spec.preemptable,
        "PodGroupPhase": one.phase,
        "Tasks": {each.uid: task(session, each, with_pod=False) for each in one.tasks},
    }


def queue(one: QueueInfo) -> dict[str, Any]:
    return {
        "UID": one.name,
        "Name": one.name,
        "Weight": one.weight,
        "Parent": one.parent,
        "State": one.state,
        "Reclaimable": one.reclaimable,
        "Capability": resource(one.capability),
        "Deserved": resource(one.deserved),
        "Guarantee": resource(one.guarantee),
    }


def resource(amount: Amounts) -> dict[str, Any]:
    """Cpu in thousandths, memory in bytes, pods by number, everything else in thousandths, bytes too."""
    scalars = {
        name: _scalar(name, value) for name, value in amount.items() if name not in {amounts.CPU, amounts.MEMORY}
    }
    return {
        "MilliCPU": float(amount.get(amounts.CPU, 0)),
        "Memory": float(amount.get(amounts.MEMORY, 0)),
        "ScalarResources": scalars,
    }


def _scalar(name: str, value: float) -> float:
    if name == amounts.PODS:
        return value / amounts.MILLI
    return float(value * amounts.MILLI if amounts.in_bytes(name) else value)


def _column(session: Session, column: Column) -> dict[str, Any]:
    rows = enumerate(session.room.table.axis.names)
    return resource({name: int(column[row]) for row, name in rows if name not in _SCORED and column[row]})

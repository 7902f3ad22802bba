"""A snapshot with one thing changed, for a plan that is only a question. Whatever the change does not concern is shared."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from pumice import instant
from pumice.api import names
from pumice.cluster.columns import NodeTable
from pumice.cluster.fingerprints import fingerprint
from pumice.cluster.gangs import gang_of
from pumice.cluster.intake import allocatable_of
from pumice.cluster.residents import Residents
from pumice.cluster.tasks import ON_A_NODE, Status, task_of
from pumice.cluster.topology import hyper_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from pumice.api.core import Node
    from pumice.api.pods import Pod
    from pumice.cluster.gangs import Gang, GangSpec
    from pumice.cluster.state import Snapshot
    from pumice.cluster.tasks import Task
    from pumice.instant import Instant

_OF_AN_ATTEMPT = frozenset({names.ATTEMPT, names.LEADER, names.VOLUMES, names.DEVICES, names.CPUSETS})


def with_gang(snapshot: Snapshot, spec: GangSpec, change: Callable[[Pod], Pod] | None = None) -> Snapshot:
    """A gang with another spec; `change` makes other pods of the members that wait. Members on nodes stay as they are."""
    former = snapshot.gangs[spec.key]
    tasks = [
        task if change is None or task.status is not Status.PENDING else task_of(change(task.pod), gang=task.gang)
        for task in former.tasks
    ]
    return _with_gangs(snapshot, {spec.key: gang_of(spec, tasks)})


def without_gangs(snapshot: Snapshot, keys: Collection[str]) -> Snapshot:
    """The gangs are over: they wait for nothing, and their pods have left their nodes."""
    gone = {task.uid: task for key in keys for task in snapshot.gangs[key].tasks}
    return _changed(
        snapshot,
        sorted(keys),
        nodes=_without_tasks(snapshot.nodes, gone.values()),
        gangs=MappingProxyType({key: gang for key, gang in snapshot.gangs.items() if key not in keys}),
        claims=MappingProxyType({key: claim for key, claim in snapshot.claims.items() if key not in keys}),
        with_terms=tuple(task for task in snapshot.with_terms if task.uid not in gone),
        with_mounts=tuple(task for task in snapshot.with_mounts if task.uid not in gone),
    )


def with_nodes(snapshot: Snapshot, like: str, count: int) -> Snapshot:
    """So many more nodes like one that is there, empty and open to all that it is open to."""
    table = snapshot.nodes
    model = table.objects[table.index[like]]
    new = [another_node(model, number) for number in range(count)]
    room = table.axis.vector(allocatable_of(model))
    nothing = np.zeros((len(table.axis), count), dtype=np.int64)
    all_names = [*table.names, *(node.metadata.name for node in new)]
    nodes = NodeTable(
        axis=table.axis,
        names=all_names,
        index={name: index for index, name in enumerate(all_names)},
        objects=[*table.objects, *new],
        tasks=[*table.tasks, *(Residents() for _ in new)],
        allocatable=np.hstack([table.allocatable, np.tile(room[:, np.newaxis], count)]),
        used=np.hstack([table.used, nothing]),
        releasing=np.hstack([table.releasing, nothing]),
    )
    return _with_table(snapshot, nodes, (like, count))


# ----------------------------------------------------------------------------------------------------- parts


def _changed(snapshot: Snapshot, what: object, **parts: object) -> Snapshot:
    """Another snapshot, by other rules: what was learnt under the old ones (evictions in vain) does not hold in it."""
    return msgspec.structs.replace(snapshot, rules=fingerprint(snapshot.rules, what), **parts)


def _with_gangs(snapshot: Snapshot, gangs: Mapping[str, Gang]) -> Snapshot:
    former = {task.uid for key in gangs for task in snapshot.gangs[key].tasks}
    new = [task for gang in gangs.values() for task in gang.tasks]
    return _changed(
        snapshot,
        [gang.fingerprint for gang in gangs.values()],
        gangs=MappingProxyType({**snapshot.gangs, **gangs}),
        with_terms=(
            *(task for task in snapshot.with_terms if task.uid not in former),
            *(task for task in new if task.terms is not None),
        ),
        with_mounts=(
            *(task for task in snapshot.with_mounts if task.uid not in former),
            *(task for task in new if task.mounts is not None),
        ),
    )


def _with_table(snapshot: Snapshot, nodes: NodeTable, what: object) -> Snapshot:
    return _changed(snapshot, what, nodes=nodes, tree=hyper_tree(snapshot.others, nodes))


def _without_tasks(table: NodeTable, gone: Iterable[Task]) -> NodeTable:
    used, releasing, tasks = table.used.copy(), table.releasing.copy(), list(table.tasks)
    leaving: dict[int, list[Task]] = {}
    for task in gone:
        if task.status in ON_A_NODE and task.node in table.index:
            leaving.setdefault(table.index[task.node], []).append(task)
    for place, those in leaving.items():
        for task in those:
            demand = table.axis.demand(task.request)
            used[:, place] -= demand
            releasing[:, place] -= demand * (task.status is Status.RELEASING)
        uids = {task.uid for task in those}
        tasks[place] = Residents(task for task in tasks[place] if task.uid not in uids)
    return msgspec.structs.replace(table, used=used, releasing=releasing, tasks=tasks)


def made_anew(pod: Pod, uid: str = "") -> Pod:
    """What its controller makes in place of a pod that is gone, with its former uid or another; nothing of its last attempt is on it."""
    notes = {key: value for key, value in pod.metadata.annotations.items() if key not in _OF_AN_ATTEMPT}
    return msgspec.structs.replace(
        pod,
        metadata=msgspec.structs.replace(
            pod.metadata, uid=uid or pod.metadata.uid, annotations=notes, deletion_timestamp=None
        ),
        spec=msgspec.structs.replace(pod.spec, node_name=""),
        status=type(pod.status)(phase="Pending"),
    )


def leaving(pod: Pod, until: Instant) -> Pod:
    """As it is once its eviction was accepted."""
    metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp=instant.format_instant(until))
    return msgspec.structs.replace(pod, metadata=metadata)


def another_node(model: Node, number: int) -> Node:
    """The next but `number` of those that would be like it."""
    name = f"{model.metadata.name}+{number + 1}"  # no node that exists can have such a name
    labels = {**model.metadata.labels, names.HOSTNAME: name}
    metadata = msgspec.structs.replace(model.metadata, name=name, uid=name, labels=labels)
    spec = msgspec.structs.replace(model.spec, unschedulable=False)
    return msgspec.structs.replace(model, metadata=metadata, spec=spec)

"""What is true now. Only intake.py writes here; all other code takes snapshots, which never change.

A snapshot shares whatever has not changed since the last one: nodes' tasks, gangs and the other objects are frozen once and
reused until intake touches them again.
"""

from __future__ import annotations

import copy
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec
import numpy as np

from pumice.api.policy import PodDisruptionBudget
from pumice.api.priority import PriorityClass
from pumice.api.scheduling import SCHEDULER_NAMES, PodGroup, PodGroupPhase
from pumice.cluster import gangs
from pumice.cluster.columns import Axis, NodeTable
from pumice.cluster.fingerprints import fingerprint
from pumice.cluster.residents import Residents
from pumice.cluster.tasks import ON_A_NODE, Status, Task
from pumice.cluster.topology import HyperTree, hyper_tree
from pumice.values import Mutable, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from numpy.typing import NDArray

    from pumice.api.changes import Claim
    from pumice.api.core import Node
    from pumice.api.native import NativePodGroup
    from pumice.cluster.columns import Column
    from pumice.cluster.gangs import Gang, Orphans
    from pumice.cluster.queues import QueueInfo
    from pumice.instant import Instant

T = TypeVar("T")

COLUMNS_AT_FIRST = 64  # room for nodes before the arrays grow; they double
_NOTHING_HELD: Mapping[str, str | float] = {}
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class NodeSlot(Mutable, eq=False):
    """One node's column, or (column None) pods on a node that we have not met yet."""

    node: Node | None = None
    column: int | None = None
    offers: str = ""  # a fingerprint of what decides who may be placed there
    tasks: dict[str, Task] = msgspec.field(default_factory=dict)
    frozen: Residents | None = None


class GangSlot(Mutable, eq=False):
    """A gang in the making: its group object may arrive after its pods, or leave before them."""

    group: PodGroup | NativePodGroup | None = None
    tasks: dict[str, Task] = msgspec.field(default_factory=dict)
    is_admitted: bool = False  # we have decided so, and the group does not show it yet
    read: tuple[PodGroup, gangs.GangSpec] | None = None  # the group that was last read, and what it says

    def spec_of(self, group: PodGroup, priority: int, default_queue: str) -> gangs.GangSpec:
        """What the group says; of one that has only got on since it was last read, no more than its status is read again."""
        known, spec = self.read or (None, None)
        is_same = known is not None and known.metadata is group.metadata and known.spec is group.spec
        if spec is None or not is_same or spec.priority != priority:
            spec = gangs.spec_of_pod_group(group, priority=priority, default_queue=default_queue)
        elif known is not group:
            phase, conditions = group.status.phase or PodGroupPhase.PENDING.value, group.status.conditions
            spec = msgspec.structs.replace(spec, phase=phase, conditions=conditions)
        self.read = group, spec
        return spec


class Lineage(NamedTuple):
    """How the gangs of a snapshot came about: from those of the one before it, by what became of these keys."""

    gangs: Mapping[str, Gang]
    former: Mapping[str, Gang]
    changed: frozenset[str]


class Snapshot(Value, eq=False):
    """Everything a scheduling cycle may read, at one moment."""

    revision: int
    nodes: NodeTable
    gangs: Mapping[str, Gang]
    queues: Mapping[str, QueueInfo]
    claims: Mapping[str, Claim]
    tree: HyperTree
    others: Mapping[type, Mapping[str, Any]]
    with_terms: tuple[Task, ...]  # on nodes or waiting, that ask something of other pods
    with_mounts: tuple[Task, ...]  # on nodes or waiting, whose volumes tie them to a place
    orphans: Mapping[str, Orphans]  # by the key of the group that they name and that does not exist
    rules: str  # a fingerprint of what decides which pods may be evicted for which, or where: nodes, queues, classes, budgets
    shifts: int  # rises with each change of such a rule that is in no fingerprint; begins anew with each process
    # Attempts stamped in the future: when they were first seen.
    seen_at: Mapping[str, Instant] = msgspec.field(default_factory=dict)
    # What was worked out of earlier snapshots, to be brought up to date; nothing may depend on whether it is there.
    carried: dict[Hashable, Any] = msgspec.field(default_factory=dict)
    lineage: Lineage | None = None  # says nothing of other gangs than its own: a copy of a snapshot may have some

    def kept(self, kind: Hashable, basis: object, make: Callable[[], T]) -> T:
        """What follows from this very basis alone, made for this snapshot or for an earlier one that had it, too."""
        known = self.carried.get(kind)
        if known is None or known[0] is not basis:
            known = self.carried[kind] = (basis, make())
        made: T = known[1]
        return made

    def objects(self, kind: type[T]) -> Mapping[str, T]:
        """All objects of a kind that has no table of its own, by `namespace/name`."""
        return self.others.get(kind, _NOTHING)


class Cluster:
    """The state, and the invariants that hold in it."""

    def __init__(
        self, *, scheduler_names: frozenset[str] = frozenset(SCHEDULER_NAMES), default_queue: str = "default"
    ) -> None:
        self.scheduler_names = scheduler_names
        self.default_queue = default_queue
        self.revision = 0
        self.rules: str | None = None  # None: they changed since the last snapshot
        self.shifts = 0
        self.axis = Axis()
        self.nodes: dict[str, NodeSlot] = {}
        self.tasks: dict[str, Task] = {}
        self.with_terms: dict[str, Task] = {}
        self.with_mounts: dict[str, Task] = {}
        self.gangs: dict[str, GangSlot] = {}
        self.queues: dict[str, QueueInfo] = {}
        self.claims: dict[str, Claim] = {}
        self.others: dict[type, dict[str, Any]] = {}
        self.seen_at: dict[str, Instant] = {}
        self.carried: dict[Hashable, Any] = {}
        self.allocatable: Column = np.zeros((len(self.axis), COLUMNS_AT_FIRST), dtype=np.int64)
        self.used: Column = np.zeros_like(self.allocatable)
        self.releasing: Column = np.zeros_like(self.allocatable)
        self.free_columns: list[int] = list(range(COLUMNS_AT_FIRST - 1, -1, -1))
        self.node_order: list[str] | None = None  # None: nodes came or went since the last snapshot
        self.nodes_changed = True  # since the last snapshot; of the following only the pods on them did
        self.changed_residents: set[str] = set()
        self.changed_gangs: set[str] = set()
        self.changed_others: set[type] = set()
        self.tree: HyperTree | None = None
        self._frozen_nodes: NodeTable | None = None
        self._columns_of_nodes: NDArray[np.intp] = np.zeros(0, dtype=np.intp)
        self._frozen_gangs: dict[str, Gang] = {}
        self._last_gangs: Mapping[str, Gang] = MappingProxyType({})
        self._orphans: dict[str, Orphans] = {}
        self._frozen_others: dict[type, Mapping[str, Any]] = {}

    # ------------------------------------------------------------------------------------------------- reading

    def snapshot(self) -> Snapshot:
        lineage = self._freeze_gangs()
        for kind in self.changed_others:
            self._frozen_others[kind] = MappingProxyType(dict(sorted(self.others[kind].items())))
        self.changed_others.clear()
        table = self._node_table()
        if self.tree is None:
            self.tree = hyper_tree(self.others, table)
        return Snapshot(
            self.revision,
            table,
            lineage.gangs,
            MappingProxyType(dict(sorted(self.queues.items()))),
            MappingProxyType(dict(sorted(self.claims.items()))),
            self.tree,
            MappingProxyType(dict(self._frozen_others)),
            tuple(self.with_terms.values()),
            tuple(self.with_mounts.values()),
            MappingProxyType(dict(sorted(self._orphans.items()))),
            self._rules(),
            self.shifts,
            MappingProxyType(dict(self.seen_at)),
            self.carried,
            lineage,
        )

    def group_of(self, gang: str) -> PodGroup | None:
        """The gang's PodGroup; None where it has none, or one of scheduling.k8s.io."""
        slot = self.gangs.get(gang)
        return slot.group if slot is not None and isinstance(slot.group, PodGroup) else None

    def copy(self) -> Cluster:
        """A cluster that begins as this one is, and goes its own way; what is frozen is shared."""
        twin = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, dict | set | list | np.ndarray):
                setattr(twin, name, value.copy())
        twin.axis = Axis(self.axis.names)
        twin.nodes = {name: msgspec.structs.replace(slot, tasks=slot.tasks.copy()) for name, slot in self.nodes.items()}
        twin.gangs = {key: msgspec.structs.replace(slot, tasks=slot.tasks.copy()) for key, slot in self.gangs.items()}
        twin.carried = {}  # two that go apart would bring it back and forth
        twin.others = {kind: table.copy() for kind, table in self.others.items()}
        return twin

    def _rules(self) -> str:
        if self.rules is None:
            budgets = self.others.get(PodDisruptionBudget, {})
            self.rules = fingerprint(
                sorted((name, slot.offers) for name, slot in self.nodes.items() if slot.node is not None),
                [
                    msgspec.structs.replace(queue, written_allocated=_NOTHING_HELD)
                    for _, queue in sorted(self.queues.items())
                ],
                sorted(self.others.get(PriorityClass, {}).items()),
                sorted((key, budget.spec) for key, budget in budgets.items()),
            )
        return self.rules

    def _node_table(self) -> NodeTable:
        table = self._frozen_nodes
        if table is None or self.nodes_changed or len(table.axis) != len(self.axis):
            table = self._new_node_table()
        else:
            tasks = list(table.tasks)
            for name in self.changed_residents & table.index.keys():
                tasks[table.index[name]] = _freeze_tasks(self.nodes[name])
            used, releasing = self._columns(self.used), self._columns(self.releasing)
            table = msgspec.structs.replace(table, tasks=tasks, used=used, releasing=releasing)
        self.changed_residents.clear()
        self.nodes_changed = False
        self._frozen_nodes = table
        return table

    def _new_node_table(self) -> NodeTable:
        if self.node_order is None:
            known = [(slot.node, name) for name, slot in self.nodes.items() if slot.node is not None]
            known.sort(key=lambda pair: (pair[0].metadata.creation_timestamp or "", pair[1]))
            self.node_order = [name for _, name in known]
        slots = [self.nodes[name] for name in self.node_order]
        self._columns_of_nodes = np.array([slot.column for slot in slots], dtype=np.intp)
        return NodeTable(
            axis=Axis(self.axis.names),
            names=self.node_order,
            index={name: index for index, name in enumerate(self.node_order)},
            objects=[slot.node for slot in slots if slot.node is not None],
            tasks=[_freeze_tasks(slot) for slot in slots],
            allocatable=self._columns(self.allocatable),
            used=self._columns(self.used),
            releasing=self._columns(self.releasing),
        )

    def _columns(self, rows: Column) -> Column:
        # take, because an index would give columns that lie apart in memory, and rows are what is read.
        return rows.take(self._columns_of_nodes, axis=1)

    def _freeze_gangs(self) -> Lineage:
        """Bring the frozen gangs up to date; they stand in the order of their keys, so that arrival decides nothing."""
        last = next(reversed(self._frozen_gangs), "")
        new = [
            key for key in self.changed_gangs if key not in self._frozen_gangs
        ]  # a set less all keys would look at all
        for key in sorted(self.changed_gangs) if new else self.changed_gangs:
            slot = self.gangs.get(key)
            spec = None if slot is None else self._gang_spec(key, slot)
            self._orphans.pop(key, None)
            if slot is None or spec is None:
                self._frozen_gangs.pop(key, None)
                if slot is not None and slot.tasks:
                    self._orphans[key] = gangs.orphans_of(slot.tasks.values())
            else:
                self._frozen_gangs[key] = gangs.gang_of(spec, slot.tasks.values())
        if any(key < last for key in new):
            self._frozen_gangs = dict(sorted(self._frozen_gangs.items()))
        former, changed = self._last_gangs, frozenset(self.changed_gangs)
        if changed:
            self._last_gangs = MappingProxyType(dict(self._frozen_gangs))
        self.changed_gangs.clear()
        return Lineage(self._last_gangs, former, changed)

    def _gang_spec(self, key: str, slot: GangSlot) -> gangs.GangSpec | None:
        group = slot.group
        if group is None:
            if not is_lone(key) or not slot.tasks:
                return None
            task = next(iter(slot.tasks.values()))
            priority = self._class_priority(task.pod.spec.priority_class_name, task.pod.spec.priority)
            return gangs.spec_of_lone_pod(task, key=key, priority=priority, default_queue=self.default_queue)
        priority = self._class_priority(group.spec.priority_class_name, None)
        if is_native(key):
            return gangs.spec_of_native(group, key=key, priority=priority, default_queue=self.default_queue)  # type: ignore[arg-type]
        spec = slot.spec_of(group, priority, self.default_queue)  # type: ignore[arg-type]
        return msgspec.structs.replace(spec, phase=PodGroupPhase.INQUEUE.value) if slot.is_admitted else spec

    def _class_priority(self, name: str, written: int | None) -> int:
        """The named class's value, else what the pod carries, else the global default's, else zero."""
        classes: Mapping[str, PriorityClass] = self.others.get(PriorityClass, _NOTHING)
        named = classes.get(name)
        if named is not None:
            return named.value
        if written is not None:
            return written
        return max((each.value for each in classes.values() if each.global_default), default=0)

    # ------------------------------------------------------------------------------------------------- intake's lists

    def enlist(self, task: Task) -> None:
        """Know the task, also among those that ask something of others or of places."""
        self.tasks[task.uid] = task
        if task.terms is not None:
            self.with_terms[task.uid] = task
        if task.mounts is not None:
            self.with_mounts[task.uid] = task

    def unlist(self, uid: str) -> Task | None:
        self.with_terms.pop(uid, None)
        self.with_mounts.pop(uid, None)
        return self.tasks.pop(uid, None)

    # ------------------------------------------------------------------------------------------------- invariants

    def check(self) -> None:
        """Raises where the columns and the tasks differ. For tests only: it walks every task of the cluster, and intake is
        held to it by the property tests in any order of news.
        """
        for name, slot in self.nodes.items():
            used = np.zeros(len(self.axis), dtype=np.int64)
            releasing = np.zeros_like(used)
            for uid, task in slot.tasks.items():
                assert self.tasks.get(uid) is task, f"{task.key} on {name} is not the task that we know"
                assert (task.node, task.status in ON_A_NODE) == (name, True), (
                    f"{task.key} is {task.status.text} on {task.node}, not on {name}"
                )
                demand = self.axis.demand(task.request)
                used += demand
                releasing += demand * (task.status is Status.RELEASING)
            if slot.column is not None:
                rows = len(self.axis)
                assert (self.used[:rows, slot.column] == used).all(), f"{name}: used is wrong"
                assert (self.releasing[:rows, slot.column] == releasing).all(), f"{name}: releasing is wrong"
        for uid, task in self.tasks.items():
            assert uid == task.uid
            assert (uid in self.with_terms) is (task.terms is not None), f"{task.key} has terms that are not listed"
            assert (uid in self.with_mounts) is (task.mounts is not None), f"{task.key} has mounts that are not listed"
            if task.status in ON_A_NODE and task.node:
                assert self.nodes[task.node].tasks.get(uid) is task, f"{task.key} is missing on {task.node}"
            if task.gang:
                assert self.gangs[task.gang].tasks.get(uid) is task, f"{task.key} is missing in {task.gang}"
        for key, slot_ in self.gangs.items():
            for task in slot_.tasks.values():
                assert task.gang == key
                assert self.tasks.get(task.uid) is task
                assert task.namespace == namespace_of(key), f"{task.key} is in gang {key} of another namespace"


# A gang's key is `namespace/name` of its PodGroup. Kubernetes' own groups and lone pods live beside them under keys that no
# PodGroup can have, because a colon is not allowed in names.
NATIVE_PREFIX = "native:"
LONE_PREFIX = "pod:"


def native_key(namespace: str, name: str) -> str:
    return f"{namespace}/{NATIVE_PREFIX}{name}"


def lone_key(namespace: str, name: str) -> str:
    return f"{namespace}/{LONE_PREFIX}{name}"


def is_native(key: str) -> bool:
    return key.partition("/")[2].startswith(NATIVE_PREFIX)


def is_lone(key: str) -> bool:
    return key.partition("/")[2].startswith(LONE_PREFIX)


def namespace_of(key: str) -> str:
    return key.partition("/")[0]


def _freeze_tasks(slot: NodeSlot) -> Residents:
    if slot.frozen is None:
        slot.frozen = Residents(sorted(slot.tasks.values(), key=lambda task: task.uid))
    return slot.frozen

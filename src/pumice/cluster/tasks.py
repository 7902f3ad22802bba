"""A task: one pod as the scheduler sees it, in one of ten states.

    Pending -> Allocated -> Binding -> Bound -> Running -> Succeeded | Failed
       `-----> Pipelined (waits for room that is being released)
    Bound | Running -> Releasing (being deleted, still on its node)

Allocated and Pipelined exist only inside a session; Binding lasts from our decision to the API server's word.
"""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from pumice.api import names
from pumice.cluster.mounts import Mounts, mounts_of
from pumice.cluster.requests import Request, asks_the_same, request_of
from pumice.cluster.terms import Terms, terms_of
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.api.pods import Pod

TASK_PRIORITY_DEFAULT = 1  # Volcano parity: a pod without a priority ranks just above zero
_NUMBER = re.compile(r"[+-]?[0-9]{1,64}")  # a tenant wrote it: anything may stand there


class Status(enum.IntEnum):
    """Volcano's names and order; the integer indexes counters."""

    PENDING = 0
    ALLOCATED = 1
    PIPELINED = 2
    BINDING = 3
    BOUND = 4
    RUNNING = 5
    RELEASING = 6
    SUCCEEDED = 7
    FAILED = 8
    UNKNOWN = 9

    __hash__ = int.__hash__  # that of an enumeration is ten times slower, and asked for with every look into a set

    @property
    def text(self) -> str:
        """The name as Volcano prints it."""
        return self.name.capitalize()


OCCUPYING = frozenset({Status.ALLOCATED, Status.BINDING, Status.BOUND, Status.RUNNING})  # counts against a quota
FINISHED = frozenset({Status.SUCCEEDED, Status.FAILED})
EVICTABLE = frozenset({Status.BOUND, Status.RUNNING})
ON_A_NODE = frozenset(
    {Status.ALLOCATED, Status.BINDING, Status.BOUND, Status.RUNNING, Status.RELEASING, Status.UNKNOWN}
)


class Task(Value, eq=False):
    """What scheduling reads of one pod. A new version of the pod is a new Task with the same uid."""

    uid: str
    namespace: str
    name: str
    gang: str  # key of the gang; empty for a pod that is not ours and only takes room
    role: str
    status: Status
    node: str
    request: Request
    priority: int
    created: str
    preemptable: bool
    gates: tuple[str, ...]
    revocable_zone: str
    index: int | None
    terms: Terms | None  # what it asks of other pods
    mounts: Mounts | None  # volumes that tie it to a place
    pod: Pod

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def is_best_effort(self) -> bool:
        return self.request.is_best_effort

    @property
    def nominated_node(self) -> str:
        return self.pod.status.nominated_node_name


def task_of(pod: Pod, *, gang: str) -> Task:
    meta, spec = pod.metadata, pod.spec
    annotations, labels = meta.annotations, meta.labels
    return Task(
        uid=meta.uid or meta.key,
        namespace=meta.namespace,
        name=meta.name,
        gang=gang,
        role=annotations.get(names.TASK_SPEC) or labels.get(names.TASK_SPEC, ""),
        status=status_of(pod),
        node=spec.node_name,
        request=request_of(pod),
        priority=_priority(pod),
        created=meta.creation_timestamp or "",
        preemptable=preemptable(annotations, labels, default=True),
        gates=tuple(gate.name for gate in spec.scheduling_gates),
        revocable_zone=_revocable_zone(annotations),
        index=index_of(meta.name),
        terms=terms_of(pod),
        mounts=mounts_of(pod),
        pod=pod,
    )


def moved_on(task: Task, pod: Pod) -> Task | None:
    """The task of its pod that has only got on, found from what is known of it; None where anything but node and progress may differ."""
    known = task.pod
    if pod.metadata is not known.metadata or not asks_the_same(known.status, pod.status):
        return None
    node = pod.spec.node_name
    if pod.spec is not known.spec and replace(known.spec, node_name=node) != pod.spec:
        return None
    return Task(
        task.uid, task.namespace, task.name, task.gang, task.role, status_of(pod), node, task.request, task.priority,
        task.created, task.preemptable, task.gates, task.revocable_zone, task.index, task.terms, task.mounts, pod,
    )  # fmt: skip


def as_mate(task: Task, pod: Pod) -> Task | None:
    """The task of a pod that was made as another one was, but for its name; None where anything else may differ."""
    meta, known = pod.metadata, task.pod.metadata
    if (
        pod.spec is not task.pod.spec
        or pod.status is not task.pod.status
        or meta.deletion_timestamp != known.deletion_timestamp
    ):
        return None
    if meta.annotations is not known.annotations or meta.labels is not known.labels or meta.namespace != task.namespace:
        return None
    if pod.spec.node_name or task.mounts is not None:  # which may be named after the pod
        return None
    return Task(
        meta.uid or meta.key, task.namespace, meta.name, task.gang, task.role, status_of(pod), "", task.request, task.priority,
        meta.creation_timestamp or "", task.preemptable, task.gates, task.revocable_zone, index_of(meta.name), task.terms, None, pod,
    )  # fmt: skip


def status_of(pod: Pod) -> Status:
    phase = pod.status.phase or "Pending"
    if phase == "Succeeded":
        return Status.SUCCEEDED
    if phase == "Failed":
        return Status.FAILED
    if phase in {"Pending", "Running"} and pod.metadata.deletion_timestamp is not None:
        return Status.RELEASING
    if phase == "Running":
        return Status.RUNNING
    if phase == "Pending":
        return Status.BOUND if pod.spec.node_name else Status.PENDING
    return Status.UNKNOWN


def index_of(pod_name: str) -> int | None:
    """The number at the end of a name like `job-task-7`; names of fewer than three parts have none."""
    parts = pod_name.split("-")
    return int(parts[-1]) if len(parts) >= 3 and parts[-1].isascii() and parts[-1].isdigit() else None


def preemptable(annotations: Mapping[str, str], labels: Mapping[str, str], *, default: bool) -> bool:
    """The annotation, else the label; a value that is no boolean means no."""
    written = annotations.get(names.PREEMPTABLE, labels.get(names.PREEMPTABLE))
    return default if written is None else go_bool(written) is True


_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})


def go_bool(text: str) -> bool | None:
    """A boolean as Go reads it from text; None for anything else."""
    return True if text in _TRUE else False if text in _FALSE else None


def _priority(pod: Pod) -> int:
    written = pod.metadata.annotations.get(names.TASK_PRIORITY, "")
    if _NUMBER.fullmatch(written) and -(2**31) <= int(written) < 2**31:
        return int(written)
    return TASK_PRIORITY_DEFAULT if pod.spec.priority is None else pod.spec.priority


def _revocable_zone(annotations: Mapping[str, str]) -> str:
    if names.REVOCABLE_ZONE in annotations:
        return "*" if annotations[names.REVOCABLE_ZONE] == "*" else ""
    return "*" if go_bool(annotations.get(names.PREEMPTABLE, "")) else ""

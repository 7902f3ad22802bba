"""What a rule is asked about: the new object, the old one, and the world that they refer to."""

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

import msgspec

from pumice.api.flow import JobTemplate
from pumice.api.meta import Json, ResourceList, Struct
from pumice.api.priority import PriorityClass
from pumice.api.scheduling import SCHEDULER_NAMES, Queue
from pumice.values import Value

JOB_PLUGINS: Final = ("env", "svc", "ssh", "tensorflow", "pytorch", "mpi", "ray", "hcclrank")


class Operation(enum.StrEnum):
    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


class ClusterSize(Struct):
    """What all nodes can hand out together, and the most that any single one can, resource by resource."""

    total: ResourceList
    largest_node: ResourceList


class Lookup(Protocol):
    """What an object may refer to. Answers come from a cache and may be a moment old."""

    def queue(self, name: str) -> Queue | None: ...

    def queues(self) -> Iterable[Queue]: ...

    def children(self, queue: str) -> Sequence[Queue]:
        """The queues whose parent this one is."""

    def job_template(self, namespace: str, name: str) -> JobTemplate | None: ...

    def namespace_annotations(self, namespace: str) -> Mapping[str, str]: ...

    def priority_class(self, name: str) -> PriorityClass | None: ...

    def cluster_size(self) -> ClusterSize | None:
        """None where nodes are not counted."""


class Settings(Struct):
    """What an operator may choose; the defaults are Volcano's."""

    scheduler_names: tuple[str, ...] = SCHEDULER_NAMES
    job_plugins: tuple[str, ...] = JOB_PLUGINS
    queue_depth_max: int = 5
    protect_root_queue: bool = True
    check_allocated_pods: bool = False  # refuse to delete a queue in which pods run


class Request(Value):
    """One change to one object. Without a look-up, nothing that the object refers to is checked."""

    operation: Operation
    new: Json | None = None
    old: Json | None = None
    lookup: Lookup | None = None
    settings: Settings = msgspec.field(default_factory=Settings)

"""A queue: a share of the cluster, its limits and its place in the tree of queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.api import names
from pumice.api.scheduling import ROOT_QUEUE, Queue, QueueState
from pumice.cluster import amounts
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.api.scheduling import QueueAffinity
    from pumice.cluster.amounts import Amounts

_OPEN = frozenset({"", QueueState.OPEN.value})


class QueueInfo(Value):
    """What scheduling reads of one Queue; names that a limit does not mention are absent from it."""

    name: str
    uid: str
    created: str
    weight: int
    priority: int
    parent: str
    state: str
    reclaimable: bool
    capability: Amounts
    deserved: Amounts
    guarantee: Amounts
    affinity: QueueAffinity | None
    annotations: Mapping[str, str]
    written_allocated: Mapping[str, str | float]  # status.allocated as it stands in the API server

    @property
    def is_open(self) -> bool:
        """A queue that has no state yet is as open as its creator meant it."""
        return self.state in _OPEN

    @property
    def is_strict(self) -> bool:
        """Whether a gang that does not fit holds up those behind it; `spec.dequeueStrategy` decides nothing (Volcano parity)."""
        return self.annotations.get(names.STRICT_ORDER) == "true"

    @property
    def hierarchy(self) -> str:
        return self.annotations.get(names.HIERARCHY, "")

    @property
    def hierarchy_weights(self) -> str:
        return self.annotations.get(names.HIERARCHY_WEIGHTS, "")


def queue_of(queue: Queue) -> QueueInfo:
    spec = queue.spec
    name = queue.metadata.name
    return QueueInfo(
        name=name,
        uid=queue.metadata.uid,
        created=queue.metadata.creation_timestamp or "",
        weight=spec.weight,
        priority=spec.priority,
        parent="" if name == ROOT_QUEUE else spec.parent or ROOT_QUEUE,
        state=queue.status.state,
        reclaimable=spec.reclaimable is not False,
        # A limit that cannot be read lets nothing pass (zero means no limit to Volcano), and a share that cannot be read is none.
        capability=amounts.read(spec.capability, unreadable=1),
        deserved=amounts.read(spec.deserved, unreadable=0),
        guarantee=amounts.read(spec.guarantee.resource, unreadable=0),
        affinity=spec.affinity,
        annotations=queue.metadata.annotations,
        written_allocated=queue.status.allocated,
    )

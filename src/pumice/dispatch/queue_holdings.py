"""What each queue holds, in its status: written when it has changed, and not more than once a second."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.api.scheduling import Queue
from pumice.cluster import amounts
from pumice.kube import errors
from pumice.kube.requests import PatchType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.cluster.state import Cluster
    from pumice.kube.client import Client
    from pumice.runtime import Runtime

QUEUE_S = 1.0  # the shortest time between two writes of what a queue holds


class QueueHoldings:
    """Writes what differs; belongs to one event loop."""

    def __init__(self, client: Client, cluster: Cluster, runtime: Runtime) -> None:
        self._client = client
        self._cluster = cluster
        self._clock = runtime.clock
        self._log = runtime.log
        self._written_at: dict[str, float] = {}  # by queue
        self.postponed = False  # something differs that was written a moment ago: ask once more

    def due(self, name: str, allocated: Mapping[str, float]) -> dict[str, str] | None:
        """What is to be written about a queue; None where its status says so already, or said something a moment ago."""
        queue = self._cluster.queues.get(name)
        if queue is None:
            return None
        present = {"cpu": 0, "memory": 0, **allocated}
        wanted = {key: amounts.quantity_text(key, value) for key, value in present.items()}
        have = {
            key: amounts.quantity_text(key, amounts.amount(key, value, unreadable=-1))  # which is written anew
            for key, value in queue.written_allocated.items()
        }
        recent = self._clock.monotonic() - self._written_at.get(name, float("-inf")) < QUEUE_S
        zeros = {key for key, value in have.items() if key not in wanted and value != "0"}
        same = not zeros and all(have.get(key) == value for key, value in wanted.items())
        self.postponed |= recent and not same
        return None if same or recent else {**wanted, **dict.fromkeys(zeros, "0")}

    async def write(self, name: str, allocated: dict[str, str]) -> bool:
        """Whether it could be written."""
        try:
            self._written_at[name] = self._clock.monotonic()
            body = {"status": {"allocated": allocated}}
            await self._client.patch(Queue, name, body, how=PatchType.MERGE, subresource="status")
        except errors.KubeError as error:
            self._log("queue_status_failed", queue=name, reason=str(error))
            return False
        return True

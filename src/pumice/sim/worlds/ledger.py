"""What queues have used, as the store tells it: what the scheduler remembers of it is held against this."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Ledger:
    """The part of the cluster's GPUs that each queue holds, times seconds."""

    def __init__(self) -> None:
        self.used: collections.Counter[str] = collections.Counter()
        self._at = 0.0
        self._shares: dict[str, float] = {}

    def put(self, now: float, held: Mapping[str, int], total: int) -> None:
        """From now on the queues hold so much of that total."""
        for queue, share in self._shares.items():
            self.used[queue] += share * (now - self._at)  # type: ignore[assignment]  # seconds, not numbers
        self._at = now
        self._shares = {queue: gpus / total for queue, gpus in held.items()} if total else {}

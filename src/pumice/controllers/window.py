"""How many writes may be under way at once, and who of those that wait goes next."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import heapq
import itertools
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

Rank: TypeAlias = tuple[int, int]


class Lane:
    """Writes of one plan: so many of them at once at most."""

    def __init__(self, slots: int) -> None:
        self.free = slots
        # They have had their turn, and no room in the lane.
        self.parked: collections.deque[_Entry] = collections.deque()


_Entry: TypeAlias = "tuple[Rank, int, asyncio.Future[None], Lane]"


class Window:
    """A semaphore whose waiters have ranks: the lowest goes first, of equal ones who came first."""

    def __init__(self, slots: int) -> None:
        self._free = slots
        self._waiting: list[_Entry] = []
        self._numbers = itertools.count()

    @contextlib.asynccontextmanager
    async def turn(self, rank: Rank, lane: Lane) -> AsyncIterator[None]:
        """Inside is a slot of the window and one of the lane."""
        slot = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (rank, next(self._numbers), slot, lane))
        self._hand_out()
        try:
            await slot
        except asyncio.CancelledError:
            if not slot.cancelled():
                self._give_back(lane)  # it was given its slots in the very moment in which it was called off
            raise
        try:
            yield
        finally:
            self._give_back(lane)

    def _give_back(self, lane: Lane) -> None:
        self._free += 1
        lane.free += 1
        while lane.parked:
            entry = lane.parked.popleft()
            if not entry[2].done():
                heapq.heappush(self._waiting, entry)
                break
        self._hand_out()

    def _hand_out(self) -> None:
        while self._free and self._waiting:
            entry = heapq.heappop(self._waiting)
            _, _, slot, lane = entry
            if slot.done():
                continue
            if not lane.free:
                lane.parked.append(entry)
                continue
            self._free -= 1
            lane.free -= 1
            slot.set_result(None)

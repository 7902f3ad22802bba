"""News is folded into rows in rounds, and whoever needs the record up to date waits for a round to be written."""

from __future__ import annotations

import asyncio


class Rounds:
    """Rounds are numbered from 1; belongs to one event loop."""

    def __init__(self) -> None:
        self.begun = 0
        self.folded = 0  # the last that has ended
        self.waiting = 0  # how many wait for one to be written
        self.asked = asyncio.Event()  # set when somebody begins to wait
        self._written = 0  # the last of which all rows are in the record
        self._changed = asyncio.Condition()

    async def next_written(self) -> None:
        """Returns once everything that has been heard by now is in the record."""
        wanted = self.begun + 1
        self.waiting += 1
        self.asked.set()
        try:
            async with self._changed:
                await self._changed.wait_for(lambda: self._written >= wanted)
        finally:
            self.waiting -= 1

    async def note_written(self, number: int) -> None:
        async with self._changed:
            self._written = number
            self._changed.notify_all()

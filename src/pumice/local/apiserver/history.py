"""What happened lately in one collection, and how watches read it without a gap and in order.

There are no queues: a watch is a position in the one list of changes. A reader that is too slow finds that its
position has left the window, and is told to list again (410), exactly as one that comes back after a long time.
"""

from __future__ import annotations

import asyncio

import msgspec

HISTORY_CHANGES_MAX = 16_384  # per collection: a quarter of a minute of the fastest writer that this server can serve
HISTORY_BYTES_MAX = 32 * 2**20  # per collection, counting each change's body


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One object as it stands: the bytes to send, and what is asked of it without decoding them."""

    namespace: str
    name: str
    uid: str
    version: int
    body: bytes
    labels: dict[str, str]
    fields: tuple[str, ...]  # values of the collection's selectable fields
    owners: tuple[str, ...]  # uids of metadata.ownerReferences
    deleting: bool


class Change(msgspec.Struct, frozen=True, gc=False):
    """One step from `before` to `after`; None stands for absence. `last` is the body that a deletion announces."""

    version: int
    collection: str
    before: Entry | None
    after: Entry | None
    last: bytes = b""


class History:
    """The window of changes of one collection; `first` counts the changes that have left it."""

    def __init__(self, floor: int) -> None:
        self.changes: list[Change] = []
        self.first = 0
        self.floor = floor  # every change after this version is in the window
        self._bytes = 0
        self._waiting: list[asyncio.Future[None]] = []

    def append(self, change: Change) -> None:
        self.changes.append(change)
        self._bytes += _size(change)
        if len(self.changes) > HISTORY_CHANGES_MAX or self._bytes > HISTORY_BYTES_MAX:
            self._forget(max(len(self.changes) // 8, 1))

    def _forget(self, count: int) -> None:
        self.floor = self.changes[count - 1].version
        self._bytes -= sum(_size(change) for change in self.changes[:count])
        del self.changes[:count]
        self.first += count

    def position_after(self, version: int) -> int | None:
        """The position of the first change after `version`, or None where the window no longer reaches back so far."""
        if version < self.floor:
            return None
        low, high = 0, len(self.changes)
        while low < high:
            middle = (low + high) // 2
            if self.changes[middle].version <= version:
                low = middle + 1
            else:
                high = middle
        return self.first + low

    def read(self, position: int, *, up_to: int) -> list[Change] | None:
        """The changes from `position` that are not newer than version `up_to`; None if some of them are forgotten."""
        start = position - self.first
        if start < 0:
            return None
        found = self.changes[start:]
        while found and found[-1].version > up_to:
            found.pop()
        return found

    def wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def news(self) -> asyncio.Future[None]:
        """Done at the next change; ask for it before reading, or a change between the two is slept through."""
        future = asyncio.get_running_loop().create_future()
        self._waiting = [waiter for waiter in self._waiting if not waiter.done()]
        self._waiting.append(future)
        return future


def _size(change: Change) -> int:
    return len(change.after.body) if change.after else len(change.last)

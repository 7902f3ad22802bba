"""One watch: the lines of one connection, decoded into only the fields that we read.

The quick way decodes a line straight into its Struct, 5 us a pod. Only what does not fit is looked at a second time: an
ERROR carries a Status, and an object that does not read as its Struct is reported and skipped.
"""

from __future__ import annotations

import asyncio
import operator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from pumice.api import decoding
from pumice.api.meta import ObjectMeta, Struct
from pumice.kube import errors, paging

if TYPE_CHECKING:
    from collections.abc import Callable

    from pumice.kube.client import Client
    from pumice.kube.transport import Request

LINE_BYTES_MAX = 8 * 2**20  # the largest object is 3 MiB, and JSON may escape its text
SILENCE_STEP_S = 1.0  # events come by the thousand: silence is measured from the first of a second on
SILENCE_S_MAX = 120.0  # a server sends a bookmark a minute; twice that without a word is a dead connection

T = TypeVar("T", bound=Struct)

metadata_of: Callable[[Struct], ObjectMeta] = operator.attrgetter("metadata")


class Event(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """One line: what happened, and the object after it (before it, if it was deleted)."""

    type: str  # ADDED, MODIFIED, DELETED or BOOKMARK
    object: T


class _RawEvent(msgspec.Struct, frozen=True):
    type: str = ""
    object: msgspec.Raw = msgspec.Raw(b"{}")


_RAW_EVENT = msgspec.json.Decoder(_RawEvent)
_STATUS = msgspec.json.Decoder(errors.Status)


class Lines:
    """Cuts chunks, which end anywhere, into lines; refuses one that never ends."""

    def __init__(self, *, bytes_max: int = LINE_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._begun: list[bytes] = []  # pieces of a line whose end has not come
        self._begun_bytes = 0

    @property
    def begun_bytes(self) -> int:
        """How much of a line has come whose end has not."""
        return self._begun_bytes

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that end in this chunk, without their ends."""
        *lines, rest = chunk.split(b"\n")
        if lines and self._begun:
            lines[0] = b"".join((*self._begun, lines[0]))
            self._begun.clear()
            self._begun_bytes = 0
        if rest:
            self._begun.append(rest)
            self._begun_bytes += len(rest)
        longest = max((self._begun_bytes, *map(len, lines)))
        if longest > self._bytes_max:
            raise errors.Malformed(f"a watch sent a line of more than {self._bytes_max} bytes; is it an API server?")
        return [line for line in lines if line]


class Decoder(Generic[T]):
    """Lines to Events."""

    def __init__(self, struct: type[T], asked: str, bad: paging.BadObjects) -> None:
        self._struct = struct
        self._asked = asked
        self._bad = bad
        self._quick: msgspec.json.Decoder[Event[T]] = msgspec.json.Decoder(Event[struct])  # type: ignore[valid-type]

    def decode(self, line: bytes) -> Event[T] | None:
        """The line's event; None if its object cannot be read. Raises what an ERROR stands for."""
        try:
            event = self._quick.decode(line)
        except decoding.UNREADABLE:
            return self._look_closer(line)
        return self._look_closer(line) if event.type == "ERROR" else event

    def _look_closer(self, line: bytes) -> Event[T] | None:
        try:
            event = _RAW_EVENT.decode(line)
            if event.type == "ERROR":
                raise errors.from_status(_STATUS.decode(event.object), asked=self._asked)
        except decoding.UNREADABLE as error:
            raise errors.Malformed(
                f"{self._asked} sent a line that is no watch event: {error}; is it an API server?"
            ) from error
        read = paging.read_object(self._struct, event.object, self._bad)
        return None if read is None else Event(event.type, read)


async def watch(
    client: Client,
    request: Request,
    struct: type[T],
    receive: Callable[[list[Event[T]]], Any],
    *,
    bad: paging.BadObjects,
) -> None:
    """Passes on the events of one connection, as many at a time as came together, until the server ends it.

    Raises Expired where the version is too old, and Unreachable where the connection broke or fell silent.
    """
    lines = Lines()
    decoder = Decoder(struct, f"WATCH {request.path}", bad)
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(SILENCE_S_MAX) as patience, client.stream(request) as chunks:
            heard = loop.time()
            async for chunk in chunks:
                if loop.time() - heard > SILENCE_STEP_S:
                    heard = loop.time()
                    patience.reschedule(heard + SILENCE_S_MAX)
                decoded = [decoder.decode(line) for line in lines.feed(chunk)]
                if events := [event for event in decoded if event is not None]:
                    receive(events)
    except TimeoutError as error:
        raise errors.Stalled(
            f"WATCH {request.path}: no word from the server for {SILENCE_S_MAX:g} s; watch again"
        ) from error
    if lines.begun_bytes:
        raise errors.Unreachable(f"WATCH {request.path}: the stream ended in the middle of a line; watch again")

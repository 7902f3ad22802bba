"""Watches: a position in a collection's history, turned into a stream of lines.

initial state -> bookmark (if asked for) -> changes as they settle -> end of time, or 410 when too slow
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pumice.local.apiserver import failures
from pumice.local.apiserver.store import encode
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from pumice.local.apiserver.history import Change, Entry
    from pumice.local.apiserver.store import Collection, Store

BOOKMARK_INTERVAL_S = 60.0  # a real server's interval
WATCH_SECONDS_DEFAULT = 1800.0
# Lines are joined up to this size, so that one slow reader does not hold a copy of everything.
CHUNK_BYTES_MAX = 256 * 2**10


class Watch(Value):
    """What one watcher asked for. `matches` is its namespace and selectors, `render` the form it wants objects in."""

    collection: Collection
    matches: Callable[[Entry], bool]
    render: Callable[[bytes], bytes]
    bookmark: Callable[[int, bool], bytes]
    bookmarks: bool
    seconds: float


async def stream(
    store: Store, watch: Watch, initial: list[Entry], version: int, *, announce: bool
) -> AsyncIterator[bytes]:
    """The initial entries, then every change after `version`, once and in order."""
    history = watch.collection.history
    position = history.position_after(version)
    if position is None:
        yield line("ERROR", too_old(version, history.floor))
        return
    pending = [line("ADDED", watch.render(entry.body)) for entry in initial]
    if announce:
        pending.append(line("BOOKMARK", watch.bookmark(version, True)))
    for chunk in chunks(pending):
        yield chunk
    loop = asyncio.get_running_loop()
    end, next_bookmark = loop.time() + watch.seconds, loop.time() + BOOKMARK_INTERVAL_S
    wakeup = _Wakeup()
    while True:
        news = history.news()
        changes = history.read(position, up_to=store.settled)
        if changes is None:
            yield line("ERROR", too_old(version, history.floor))
            return
        if changes:
            position += len(changes)
            version = changes[-1].version
            for chunk in chunks([text for change in changes if (text := describe(change, watch))]):
                yield chunk
            continue
        now = loop.time()
        if now >= end:
            return
        if watch.bookmarks and now >= next_bookmark:
            next_bookmark = now + BOOKMARK_INTERVAL_S
            yield line("BOOKMARK", watch.bookmark(max(version, store.settled), False))
            continue
        await wakeup.wait(news, min(end, next_bookmark if watch.bookmarks else end))


class _Wakeup:
    """Lets a watch wait for news, or until a time: one timer serves for all the news that come before it."""

    def __init__(self) -> None:
        self._news: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def wait(self, news: asyncio.Future[None], until: float) -> None:
        if self._timer is None or self._timer.when() != until:
            self._timer = asyncio.get_running_loop().call_at(until, self._ring)
        self._news = news
        await news

    def _ring(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)


def chunks(lines: list[bytes]) -> list[bytes]:
    joined, current, size = [], [], 0
    for text in lines:
        current.append(text)
        size += len(text)
        if size > CHUNK_BYTES_MAX:
            joined.append(b"".join(current))
            current, size = [], 0
    if current:
        joined.append(b"".join(current))
    return joined


def describe(change: Change, watch: Watch) -> bytes:
    """One change as this watcher sees it: an object that begins or ceases to match its selectors is added or deleted."""
    was = change.before is not None and watch.matches(change.before)
    after = change.after
    if after is not None and watch.matches(after):
        return line("MODIFIED" if was else "ADDED", watch.render(after.body))
    if not was:
        return b""
    return line("DELETED", watch.render(after.body if after is not None else change.last))


def line(kind: str, body: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), body)


def too_old(version: int, floor: int) -> bytes:
    return encode(failures.expired(f"too old resource version: {version} ({floor})").as_status())

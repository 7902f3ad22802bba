"""Containers' output, kept as a kubelet's runtime keeps it and read as `kubectl logs` asks for it.

    logs/<container>/<attempt>/<segment>.log        2026-01-31T12:00:00.000000000Z stdout F the text of one line

A line that is too long is kept in pieces (P for a piece, F for the last one). An attempt is one run of the container;
the last two are kept. A segment that is full is closed, and the oldest one removed: a chatty program cannot fill the disk.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from typing import TYPE_CHECKING

from pumice import instant
from pumice.digits import INT64_MAX, whole_number
from pumice.errors import BadInput
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping
    from pathlib import Path

    from pumice.instant import Instant

LINE_BYTES_MAX = 16 * 2**10  # longer lines are kept in pieces, as by containerd
SEGMENT_BYTES_MAX = 10 * 2**20  # a kubelet's own limits
SEGMENTS_MAX = 5
ATTEMPTS_KEPT = 2
READ_BYTES = 64 * 2**10

_SUFFIX = ".log"


class LogWriter:
    """One attempt's output; readers wait on `changed`, which is another event after each change."""

    def __init__(self, folder: Path, now: Callable[[], Instant]) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._now = now
        self._begun = {"stdout": b"", "stderr": b""}  # lines whose end has not come
        self._segment = 0
        self._file = (folder / f"0{_SUFFIX}").open("wb", buffering=0)
        self._size = 0
        self.is_open = True
        self.changed = asyncio.Event()

    def feed(self, stream: str, data: bytes) -> None:
        """Takes output as it comes, whole lines or not."""
        *lines, rest = (self._begun[stream] + data).split(b"\n")
        stamp = _stamp(self._now())
        out = [entry for line in lines for entry in _entries(stamp, stream, line, is_whole=True)]
        while len(rest) > LINE_BYTES_MAX:
            out += _entries(stamp, stream, rest[:LINE_BYTES_MAX], is_whole=False)
            rest = rest[LINE_BYTES_MAX:]
        self._begun[stream] = rest
        self._write(out)

    def close(self) -> None:
        """The container has ended; what it left unended is kept as it is."""
        if not self.is_open:
            return
        stamp = _stamp(self._now())
        for stream, rest in self._begun.items():
            if rest:
                self._write(list(_entries(stamp, stream, rest, is_whole=False)))
        self.is_open = False
        self._file.close()
        self._tell()

    def _write(self, entries: list[bytes]) -> None:
        if not entries:
            return
        data = b"".join(entries)
        if self._size and self._size + len(data) > SEGMENT_BYTES_MAX:
            self._file.close()
            self._segment += 1
            self._file = (self.folder / f"{self._segment}{_SUFFIX}").open("wb", buffering=0)
            self._size = 0
            (self.folder / f"{self._segment - SEGMENTS_MAX}{_SUFFIX}").unlink(missing_ok=True)
        self._file.write(data)
        self._size += len(data)
        self._tell()

    def _tell(self) -> None:
        told, self.changed = self.changed, asyncio.Event()
        told.set()


def _stamp(now: Instant) -> bytes:
    return f"{instant.format_instant(now)[:-1]}.{now % instant.SECOND:09}Z".encode()


def _entries(stamp: bytes, stream: str, line: bytes, *, is_whole: bool) -> Iterator[bytes]:
    """A line in pieces of bounded length, the last one marked as such if the line is whole."""
    start, kind = 0, stream.encode()
    while len(line) - start > LINE_BYTES_MAX:
        yield b"%s %s P %s\n" % (stamp, kind, line[start : start + LINE_BYTES_MAX])
        start += LINE_BYTES_MAX
    yield b"%s %s %s %s\n" % (stamp, kind, b"F" if is_whole else b"P", line[start:])


# ------------------------------------------------------------------------------------------------------------ reading


class LogOptions(Value, kw_only=True):
    """What `kubectl logs` may ask for."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    limit_bytes: int | None = None
    since: bytes = b""  # a stamp; older lines are left out
    stream: str = ""  # stdout or stderr; empty: both


def read_options(query: Mapping[str, str], now: Instant) -> LogOptions:
    """The options of a request, by the names that API servers and kubelets give them."""
    since = b""
    if query.get("sinceTime"):
        since = _stamp(instant.parse_instant(query["sinceTime"]))
    elif (seconds := _count(query, "sinceSeconds")) is not None:
        since = _stamp(now - seconds * instant.SECOND)
    stream = query.get("stream", "All").lower()
    if stream not in {"all", "stdout", "stderr"}:
        raise BadInput(f"stream {query['stream']!r} is not known; choose All, Stdout or Stderr")
    return LogOptions(
        follow=_is_set(query, "follow"),
        previous=_is_set(query, "previous"),
        timestamps=_is_set(query, "timestamps"),
        tail_lines=_count(query, "tailLines"),
        limit_bytes=_count(query, "limitBytes"),
        since=since,
        stream="" if stream == "all" else stream,
    )


def _is_set(query: Mapping[str, str], name: str) -> bool:
    return query.get(name, "").lower() in {"1", "true"}


def _count(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    count = whole_number(text, most=INT64_MAX)
    if count is None:
        raise BadInput(f"{name} {text[:32]!r} is no number from 0 to {INT64_MAX}; correct it")
    return count


async def read(folder: Path, options: LogOptions, writer: LogWriter | None = None) -> AsyncIterator[bytes]:
    """An attempt's output in chunks; with `follow`, until its writer is closed."""
    cursor = _Cursor(folder, options.tail_lines)
    wording = _Wording(options)
    rest = b""
    while True:
        changed = writer.changed if writer is not None and writer.is_open else None
        for chunk in cursor.chunks():
            *lines, rest = (rest + chunk).split(b"\n")
            if text := wording.of(lines):
                yield text
            if wording.is_full:
                return
            await asyncio.sleep(0)  # a long log must not hold up all other tasks
        if not options.follow or changed is None:
            return
        await changed.wait()


class _Cursor:
    """A place in an attempt's output, from the beginning or from some lines before the end."""

    def __init__(self, folder: Path, tail_lines: int | None) -> None:
        self._folder = folder
        self._segment, self._offset = (0, 0) if tail_lines is None else _begin(folder, tail_lines)

    def chunks(self) -> Iterator[bytes]:
        """What was written since; the cursor goes on."""
        for number in _segments(self._folder):
            if number < self._segment:
                continue
            if number > self._segment:
                self._segment, self._offset = number, 0
            with (self._folder / f"{number}{_SUFFIX}").open("rb") as file:
                file.seek(self._offset)
                while chunk := file.read(READ_BYTES):
                    self._offset += len(chunk)
                    yield chunk


def _segments(folder: Path) -> list[int]:
    return sorted(int(path.stem) for path in folder.glob(f"*{_SUFFIX}"))


def _begin(folder: Path, tail_lines: int) -> tuple[int, int]:
    """The place of the first of the last lines, found from the end."""
    missing = tail_lines + 1  # the end of the line before the first one that is wanted
    for number in reversed(_segments(folder)):
        with (folder / f"{number}{_SUFFIX}").open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            while end > 0:
                begin = max(0, end - READ_BYTES)
                file.seek(begin)
                block = file.read(end - begin)
                found = block.count(b"\n")
                if found >= missing:
                    place = len(block)
                    for _ in range(missing):
                        place = block.rindex(b"\n", 0, place)
                    return number, begin + place + 1
                missing -= found
                end = begin
    return 0, 0


class _Wording:
    """Turns what was kept into what was asked for."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self._left = options.limit_bytes
        self._is_within = False  # a line, some pieces of which have been passed on

    @property
    def is_full(self) -> bool:
        return self._left == 0

    def of(self, entries: list[bytes]) -> bytes:
        out = bytearray()
        for entry in entries:
            stamp, stream, tag, text = entry.split(b" ", 3)
            if stamp < self._options.since or (self._options.stream and stream != self._options.stream.encode()):
                continue
            if self._options.timestamps and not self._is_within:
                out += stamp + b" "
            out += text
            self._is_within = tag == b"P"
            if not self._is_within:
                out += b"\n"
        if self._left is not None:
            del out[self._left :]
            self._left -= len(out)
        return bytes(out)


class PodLogs:
    """All logs of one pod."""

    def __init__(self, folder: Path, now: Callable[[], Instant]) -> None:
        self._folder = folder
        self._now = now
        self._writers: dict[str, LogWriter] = {}  # of the latest attempt, by container

    def open(self, container: str, attempt: int) -> LogWriter:
        """Begins an attempt's log, and forgets those that are too old."""
        for old in self.attempts(container)[: -(ATTEMPTS_KEPT - 1)]:
            shutil.rmtree(self._folder / container / str(old))
        writer = self._writers[container] = LogWriter(self._folder / container / str(attempt), self._now)
        return writer

    def attempts(self, container: str) -> list[int]:
        folder = self._folder / container
        return sorted(int(path.name) for path in folder.iterdir()) if folder.exists() else []

    def read(self, container: str, options: LogOptions) -> AsyncIterator[bytes] | None:
        """The latest attempt's output, or the one before it; None if there is none."""
        attempts = self.attempts(container)
        if len(attempts) <= int(options.previous):
            return None
        attempt = attempts[-1 - int(options.previous)]
        writer = self._writers.get(container) if not options.previous else None
        return read(self._folder / container / str(attempt), options, writer)

    def tail(self, container: str, *, bytes_max: int, lines_max: int) -> str:
        """The end of the latest attempt's output, for a status message."""
        attempts = self.attempts(container)
        if not attempts:
            return ""
        kept = b"".join(_Cursor(self._folder / container / str(attempts[-1]), lines_max).chunks())
        text = _Wording(LogOptions()).of(kept.split(b"\n")[:-1])
        return text[-bytes_max:].decode(errors="replace")

"""Durability: a SQLite log behind the store, written by one thread in groups.

A change is queued under the store's lock-free single thread, written with everything else that is queued by then in one
transaction, and only then reported as settled. So a kill -9 loses nothing that a client was told about.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import threading
from typing import TYPE_CHECKING, Any

from pumice.errors import PumiceError
from pumice.local.apiserver.store import Broken, Store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pumice.local.apiserver.history import Change

GROUP_CHANGES_MAX = 1_000
BACKLOG_CHANGES_MAX = 100_000
LOCK_S_MAX = 1.0  # a process that was killed leaves no lock; one that lives keeps it
FORMAT = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS objects (
    collection TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, version INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (collection, namespace, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
"""
_PUT = "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?)"
_DELETE = "DELETE FROM objects WHERE collection = ? AND namespace = ? AND name = ?"
_FACT = "INSERT OR REPLACE INTO facts VALUES (?, ?)"


class JournalError(PumiceError):
    """The log cannot be read or written."""


class SqliteJournal:
    """Takes changes from the event loop, writes them in its own thread, and reports back to the loop."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._queue: queue.SimpleQueue[Change | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._store: Store
        self._loop: asyncio.AbstractEventLoop | None = None
        self.failure: Broken | None = None
        try:
            self._connection = sqlite3.connect(path, timeout=LOCK_S_MAX, check_same_thread=False, isolation_level=None)
        except sqlite3.Error as error:
            raise JournalError(f"journal {path}: {error}; check that its folder exists and is yours") from error
        try:
            self._prepare()
            self._identity = _identity(path)
        except BaseException:
            self._connection.close()
            raise

    def _prepare(self) -> None:
        """Takes the file for this process alone: a second server's writes would never reach the first one's memory."""
        try:
            self._connection.execute("PRAGMA locking_mode=EXCLUSIVE")
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=FULL")
            self._connection.executescript(_SCHEMA)
            self._check_format()
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise JournalError(f"journal {self._path}: {error}; check that its folder is writable") from error
            text = f"journal {self._path}: another process uses it; stop that one, or choose another folder"
            raise JournalError(text) from error
        except sqlite3.Error as error:
            text = f"journal {self._path}: {error}; move the file away to start afresh, or restore it"
            raise JournalError(text) from error

    def _check_format(self) -> None:
        written = self.fact("format")
        if written is None:
            self._connection.execute(_FACT, ("format", FORMAT))
        elif written != FORMAT:
            raise JournalError(
                f"journal {self._path}: written in format {written!r}, this version reads {FORMAT}; use the version that wrote it"
            )

    def fact(self, name: str) -> object:
        row = self._connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return row[0] if row else None

    def note(self, name: str, value: bytes | int | str) -> None:
        """Keeps one fact beside the objects, such as the key that signs tokens; before `start` only."""
        self._connection.execute(_FACT, (name, value))

    def open_store(self) -> Store:
        """A store with everything that the log holds, whose changes go into the log.

        Versions continue after a gap, so that one that was given out but never became safe is not given out again.
        """
        newest = self.fact("version")
        version = int(str(newest)) + BACKLOG_CHANGES_MAX if newest is not None else 1
        self.note("version", version)  # or a start that writes nothing would begin at the same version again
        store = Store(version=version, journal=self)
        rows = self._connection.execute("SELECT collection, body FROM objects")
        for collection, body in rows:
            store.load(collection, body)
        self._store = store
        return store

    def require_room(self) -> None:
        if self.failure is not None:
            raise self.failure
        if self._queue.qsize() >= BACKLOG_CHANGES_MAX:
            waiting = f"{BACKLOG_CHANGES_MAX} changes are waiting to be written"
            raise Broken(f"journal {self._path}: {waiting}; the disk is too slow, ask again later")

    def append(self, change: Change) -> None:
        self._queue.put(change)

    def start(self) -> None:
        """Begins to write; from within the event loop that owns the store."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Writes what is queued and closes the file."""
        self._queue.put(None)
        if self._thread is not None:
            self._thread.join()
        else:
            self._drain()
        self._connection.close()

    def _drain(self) -> None:
        while group := self._next_group(block=False):
            self._write(group)

    def _run(self) -> None:
        while group := self._next_group(block=True):
            try:
                self._write(group)
            except sqlite3.Error as error:
                self._break(str(error), "make room on its disk")
                return
            if _identity(self._path) != self._identity:
                # Writes into a file without a name succeed, and are gone with this process.
                self._break("the file was removed or replaced", "put it back, or name another --data-dir")
                return
            self._report(self._store.settle, group[-1].version)

    def _break(self, cause: str, step: str) -> None:
        self.failure = Broken(
            f"journal {self._path}: {cause}; nothing more can be written, and what was asked last may be lost: "
            f"{step}, and start the cluster again"
        )
        self._report(self._store.fail, self.failure)

    def _report(self, what: Callable[[Any], None], argument: Any) -> None:
        """Calls the store in its own thread; once the loop is closed no caller waits any longer."""
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(what, argument)

    def _next_group(self, *, block: bool) -> list[Change]:
        """Everything that is waiting, up to a limit; empty at the end."""
        group: list[Change] = []
        while len(group) < GROUP_CHANGES_MAX:
            try:
                change = self._queue.get(block=block and not group)
            except queue.Empty:
                break
            if change is None:
                if group:
                    self._queue.put(None)
                break
            group.append(change)
        return group

    def _write(self, group: list[Change]) -> None:
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        for change in group:
            entry = change.after
            if entry is not None:
                connection.execute(_PUT, (change.collection, entry.namespace, entry.name, entry.version, entry.body))
            else:
                assert change.before is not None
                connection.execute(_DELETE, (change.collection, change.before.namespace, change.before.name))
        connection.execute(_FACT, ("version", group[-1].version))
        connection.execute("COMMIT")


def _identity(path: Path) -> tuple[int, int] | None:
    """Tells one file from another of the same name; None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino

"""The record of a world: a database of its own, which outlives the controllers, and has to be complete in the end."""

from __future__ import annotations

import collections
import contextlib
import functools
import sqlite3
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pumice.api import kinds
from pumice.api.batch import Job
from pumice.sim.worlds import crons

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pumice.sim.worlds.witness import Witness


@contextlib.contextmanager
def kept() -> Iterator[Path]:
    """A database for one world, gone with it."""
    with tempfile.TemporaryDirectory(prefix="pumice-world-") as folder:
        file = Path(folder) / "record.db"
        file.write_bytes(_empty())
        yield file


def url(file: Path) -> str:
    return f"sqlite:///{file}"


@functools.cache
def _empty() -> bytes:
    """A database with all tables and nothing in them: made once, because migrations take as long as a world."""
    from pumice.record.store import Store

    with tempfile.TemporaryDirectory(prefix="pumice-world-") as folder:
        file = Path(folder) / "record.db"
        store = Store(url(file))
        store.open()
        store.close()
        return file.read_bytes()


def gaps(file: Path, seen: Witness) -> Iterator[str]:
    """Every Job that has ended is in the record, once, and as it ended; and only pods that run are said to."""
    kind, jobs = kinds.by_struct(Job).kind, seen.jobs
    running = {pod.uid for pod in seen.pods.values() if pod.node and not pod.is_over}
    with contextlib.closing(sqlite3.connect(file)) as database:
        rows = database.execute("SELECT namespace, name, uid, state, kind FROM gangs").fetchall()
        for uid, name, state in database.execute("SELECT uid, pod, state FROM runs WHERE ended IS NULL"):
            if uid not in running:
                yield f"pod {name} runs no more, and the record has it as {state}, without an end"
    found = collections.Counter(uid for _, _, uid, _, _ in rows)
    states = {uid: state for _, _, uid, state, _ in rows}
    for key, job in jobs.items():
        uid, phase = job.metadata.uid, job.status.state.phase
        if phase in crons.OVER and (found[uid] != 1 or states[uid] != phase):
            yield f"job {key} is {phase}, and the record has it {found[uid]} times, as {states.get(uid)}"
    for namespace, name, _, _, own in rows:
        if own != kind and any(f"{namespace}/{name}".startswith(f"{key}-") for key in jobs):
            yield f"{own} {namespace}/{name} belongs to a Job, and is in the record beside it"

"""Writes the file while the scheduler runs. The scheduler's own thread only keeps references; encoding and writing happen in another one.

    recorder.saw(change)                    for every Change, as it is applied
    recorder.begins(intake, inputs)         with every snapshot
    recorder.ends(decisions, seconds=...)   when it is planned

The file never has more than half of the limit; when it is full it becomes FILE.1, and a new one begins with a whole state. What cannot be kept
up with is left out, and a whole state follows: a recording has gaps rather than a scheduler that waits for a disk.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from pumice import __version__
from pumice.errors import BadInput
from pumice.flight import frames
from pumice.flight.digests import digests, parts
from pumice.flight.unrecorded import Unrecorded
from pumice.scheduling import plugins
from pumice.scheduling.core import memory
from pumice.scheduling.core.build_decisions import OWN_MEMORY
from pumice.scheduling.core.ports import ExtenderFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pumice.api.changes import Change
    from pumice.cluster.intake import Intake
    from pumice.flight.unrecorded import Planned
    from pumice.runtime import Log
    from pumice.scheduling.core.decisions import Decisions
    from pumice.scheduling.core.memory import Memory, Slot
    from pumice.scheduling.core.plugin import Plugin
    from pumice.scheduling.core.ports import Extender

LIMIT_MIB = 256  # of both files together
CHANGES_MAX = 200_000  # between two cycles; what comes beyond them begins anew with a whole state
BACKLOG_MAX = 32  # frames that wait for the disk
STATE_EVERY = 1_000  # cycles: a single cycle is replayed from the whole state before it
_FULL = 0.9  # of half of the limit: then the next cycle begins a new file


def slots_of(extra: Mapping[str, type[Plugin]]) -> list[Slot[Any]]:
    """Of the engine and of every plugin that there is: memory outlives the policy that it was learned under."""
    own = [plugin.memory for plugin in (*plugins.NAMES.values(), *extra.values())]
    return [*(slot for slot, _ in OWN_MEMORY), *(slot for slot in own if slot is not None)]


class FlightRecorder(Unrecorded):
    """One file of one scheduler; what stood in it before is moved to FILE.1."""

    def __init__(
        self, path: str, *, limit_mib: int = LIMIT_MIB, extra_plugins: Mapping[str, type[Plugin]], log: Log
    ) -> None:
        self._path = Path(path)
        self._half = limit_mib * 2**20 // 2
        self._slots = slots_of(extra_plugins)
        self._log = log
        self._head: frames.Head | None = None
        self._changes: list[Change] = []
        self._needs_state = self._is_full = True
        self._since_state = 0
        self._stopped = ""  # why nothing is recorded any more
        self._backlog = 0
        self._last: Planned | None = None  # as far as it was recorded
        self._left: Memory | None = None  # by the last cycle
        self._answers: list[Mapping[str, Any] | str] = []
        self._file: int | None = None  # no buffer: a process that is forked off must not write anything twice
        self._size = 0
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="flight")
        self._begin_file()

    # ------------------------------------------------------------------------------------------------- the scheduler's side

    def of(self, scheduler_names: frozenset[str], default_queue: str, grace_s: int) -> None:
        self._head = frames.Head(__version__, tuple(sorted(scheduler_names)), default_queue, grace_s)

    def saw(self, change: Change) -> None:
        if len(self._changes) < CHANGES_MAX:
            self._changes.append(change)
        else:
            self._needs_state = True

    def begins(self, intake: Intake, planned: Planned) -> None:
        seen, self._changes = self._changes, []
        self._answers = []
        if self._stopped or self._backlog >= BACKLOG_MAX:
            self._needs_state, self._last = True, None
            return
        former = self._last
        if self._is_full or self._needs_state or self._since_state >= STATE_EVERY:
            self._write(_state_writer(intake), is_first=self._is_full)
            self._needs_state = self._is_full = False
            self._since_state, seen, former = 0, [], None
        left, self._since_state, self._last = self._left, self._since_state + 1, planned
        self._write(lambda: _inputs(planned, former, left, seen, self._slots))

    def ends(self, decisions: Decisions, *, seconds: float) -> None:
        self._left = decisions.memory
        planned, answers = self._last, tuple(self._answers)
        if planned is not None:
            number = planned.number
            self._write(lambda: _outcome(number, decisions, seconds, answers, self._slots))

    def listening(self, extender: Extender | None) -> Extender | None:
        if extender is None:
            return None

        def asked(verb: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
            try:
                answer = extender(verb, body)
            except ExtenderFailed as error:
                self._answers.append(str(error))
                raise
            self._answers.append(answer)
            return answer

        return asked

    def settle(self) -> None:
        """Returns when all that was told so far is in the file."""
        self._thread.submit(lambda: None).result()

    def close(self) -> None:
        self._thread.shutdown(wait=True)
        if self._file is not None:
            os.close(self._file)
            self._file = None

    # ------------------------------------------------------------------------------------------------- the other thread's

    def _write(self, make: Callable[[], Any], *, is_first: bool = False) -> None:
        self._backlog += 1
        self._thread.submit(self._put, make, is_first=is_first)

    def _put(self, make: Callable[[], Any], *, is_first: bool) -> None:
        try:
            if self._stopped:
                return
            if is_first:
                self._begin_file()
                assert self._head is not None
                self._append(frames.first_line() + frames.pack(self._head))
            data = frames.pack(make())
            if self._size + len(data) > self._half:
                self._is_full = True
                if is_first:
                    self._stop(f"one state has {len(data)} bytes; give it a limit of {4 * len(data) // 2**20 + 1} MiB")
                return
            self._append(data)
            self._is_full = self._is_full or self._size > self._half * _FULL
        except Exception as error:  # noqa: BLE001  whatever it is, scheduling goes on without a recording
            self._stop(f"{type(error).__name__}: {error}")
        finally:
            self._backlog -= 1

    def _append(self, data: bytes) -> None:
        assert self._file is not None
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._file, rest) :]
        self._size += len(data)

    def _begin_file(self) -> None:
        """What was written so far, by this process or the one before it, becomes FILE.1."""
        try:
            if self._file is not None:
                os.close(self._file)
                self._file = None
            if self._path.exists() and self._path.stat().st_size:
                self._check_is_ours()
                self._path.replace(f"{self._path}.1")
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
            self._size = 0
        except OSError as error:
            raise BadInput(
                f"flight recorder {self._path}: {error.strerror or error}; choose a file in a folder that can be written"
            ) from error

    def _check_is_ours(self) -> None:
        with self._path.open("rb") as file:
            if file.read(len(frames.MAGIC)) != frames.MAGIC:
                raise BadInput(
                    f"flight recorder {self._path}: holds something else than a recording; name another file"
                )

    def _stop(self, why: str) -> None:
        self._stopped = why
        self._log("flight_recorder_stopped", file=str(self._path), reason=why)


def _state_writer(intake: Intake) -> Callable[[], Any]:
    """Takes references now, in the scheduler's thread; objects never change."""
    cluster = intake.cluster
    seen, gone = frames.changes_of(intake), tuple(intake.held.gone)
    revision, shifts, resources = cluster.revision, cluster.shifts, tuple(cluster.axis.names)

    def make() -> Any:
        rows = [frames.row_of(change) for change in seen]
        return {
            "type": "State",
            "revision": revision,
            "shifts": shifts,
            "resources": resources,
            "gone": gone,
            "rows": rows,
        }

    return make


def _inputs(
    planned: Planned, former: Planned | None, left: Memory | None, seen: list[Change], slots: list[Slot[Any]]
) -> Any:
    ports = planned.ports
    found = {
        "type": "Inputs",
        "number": planned.number,
        "at": planned.now,
        "budget": planned.budget,
        "rows": [frames.row_of(change) for change in seen],
        "resting": ports.resting,
        "forecasts": ports.forecasts,
    }
    if former is None or planned.memory is not left:
        found["memory"] = Raw(memory.encode(planned.memory, slots))
    if former is None or planned.policy is not former.policy:
        found["policy"] = planned.policy
    if former is None or ports.loads is not former.ports.loads:
        found["loads"] = ports.loads
    if former is None or ports.run_times is not former.ports.run_times:
        found["run_times"] = ports.run_times
    return found


def _outcome(
    number: int,
    decisions: Decisions,
    seconds: float,
    answers: tuple[Mapping[str, Any] | str, ...],
    slots: list[Slot[Any]],
) -> Any:
    return {
        "type": "Outcome",
        "number": number,
        "seconds": seconds,
        "digests": digests(parts(decisions, slots)),
        "binds": {bind.task.key: bind.node for commit in decisions.commits for bind in commit.binds},
        "evictions": [each.task.key for each in decisions.evictions],
        "answers": answers,
    }

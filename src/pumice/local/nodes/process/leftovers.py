"""What an agent that was killed may have left behind, so that its successor can end it.

The kernel ends a container with its agent, as a rule. For what slips through, each container's init is on record by its
process id and the moment of its start: a process that merely inherited the number is left alone.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

_STATE_FIELD, _START_TIME_FIELD = 0, 19  # of /proc/PID/stat, counted behind the program's name


def start_time(pid: int) -> int | None:
    """When a process was started, in ticks since the machine was; None if none of that number lives."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The program's name stands in parentheses and may itself contain some.
    fields = text[text.rindex(")") + 2 :].split()
    return None if fields[_STATE_FIELD] == "Z" else int(fields[_START_TIME_FIELD])  # a zombie has ended


class Leftovers:
    """Records of processes that run, as files in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, pid: int) -> None:
        started = start_time(pid)
        if started is not None:
            (self._folder / str(pid)).write_text(json.dumps({"pid": pid, "started": started, "boot": self._boot}))

    def remove(self, pid: int) -> None:
        (self._folder / str(pid)).unlink(missing_ok=True)

    def end_all(self) -> list[int]:
        """Kills what is still there, and clears the records; returns the process ids of those that it killed."""
        killed = []
        for path in sorted(self._folder.iterdir()):
            try:
                record = json.loads(path.read_text())
                if record["boot"] == self._boot and _kill(record["pid"], record["started"]):
                    killed.append(record["pid"])
            except (ValueError, KeyError, TypeError):
                pass  # half a record: its writer died while it wrote, and its process with it
            path.unlink()
        return killed


def _kill(pid: int, started: int) -> bool:
    """Kills a process if it is still the one that was started then."""
    try:
        held = os.pidfd_open(pid)
    except (ProcessLookupError, OverflowError, ValueError):
        return False
    try:
        # What we hold is the process that has the number now; if its start is the recorded one, it always had it.
        if start_time(pid) != started:
            return False
        signal.pidfd_send_signal(held, signal.SIGKILL)
    except ProcessLookupError:
        return False
    finally:
        os.close(held)
    return True

"""Programs that never outlive the process that started them, each with a log file of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LEASH = Path(__file__).resolve().parent / "leash.py"
LOG_LINES_SHOWN = 30
LOG_BYTES_READ = 64 * 2**10
POLL_S = 0.05


class StartError(Exception):
    """A program ended or did not become ready; the text holds the end of its log."""


class Children:
    """Starts, watches and stops programs by name."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        # The leash is tied to the thread that starts a program: this one lives until close().
        self._starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="children")

    def start(self, name: str, command: Sequence[str]) -> None:
        if name in self._running:
            raise StartError(f"{name} is running already: stop or kill it first")
        self._running[name] = self._starter.submit(self._start, name, command).result()

    def _start(self, name: str, command: Sequence[str]) -> subprocess.Popen[bytes]:
        leashed = [sys.executable, "-I", "-S", str(LEASH), str(os.getpid()), *command]
        with self.log(name).open("ab") as log:
            # An own process group: Ctrl-C in a terminal reaches us alone, and we end them in order.
            return subprocess.Popen(leashed, stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0)

    def wait_ready(self, name: str, ready: Callable[[], bool], *, timeout_s: float) -> None:
        """Returns once `ready` says so; an error with the log's end if the program ends first or takes too long."""
        deadline = time.monotonic() + timeout_s
        while not ready():
            self.require_running(name)
            if time.monotonic() > deadline:
                raise StartError(f"{name} was not ready after {timeout_s:.0f} s; {self.story(name)}")
            time.sleep(POLL_S)

    def require_running(self, name: str) -> None:
        code = self._running[name].poll()
        if code is not None:
            raise StartError(f"{name} ended with exit code {code}; {self.story(name)}")

    def stop(self, name: str, *, grace_s: float) -> None:
        """Asks first (SIGTERM), kills after the grace time."""
        process = self._running.pop(name)
        process.terminate()
        try:
            process.wait(grace_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def kill(self, name: str) -> None:
        process = self._running.pop(name)
        process.kill()
        process.wait()

    def names(self) -> list[str]:
        return list(self._running)

    def pid(self, name: str) -> int:
        return self._running[name].pid

    def close(self) -> None:
        """Kills all, the newest first; what they wrote is not needed any more."""
        for name in reversed(self.names()):
            self.kill(name)
        self._starter.shutdown()

    def log(self, name: str) -> Path:
        return self._logs / f"{name}.log"

    def story(self, name: str) -> str:
        """Where the log is, and how it ends."""
        path = self.log(name)
        with path.open("rb") as log:
            log.seek(max(0, path.stat().st_size - LOG_BYTES_READ))
            lines = log.read().decode(errors="replace").splitlines()
        return "\n".join([f"{path} ends with:", *lines[-LOG_LINES_SHOWN:]])


class LoopbackPort:
    """A free port of 127.0.0.1 that stays ours, also while the program that listens on it restarts.

    The socket is bound but never listens, and SO_REUSEADDR is set only after the bind: the kernel picks a port that
    nobody has, gives it to nobody else, and still lets our program (which sets SO_REUSEADDR as Go does) listen on it.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.bind(("127.0.0.1", 0))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.number: int = self._socket.getsockname()[1]

    def close(self) -> None:
        self._socket.close()

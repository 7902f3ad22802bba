"""Commands of ours as processes beside a benchmark: started, waited for by a word of their log, weighed by the CPU they used."""

from __future__ import annotations

import collections
import os
import re
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tools.kube.control_plane import ControlPlane

    from pumice.local.apiserver.serving import EmbeddedServer

READY_S_MAX = 900.0
LOG_LINES_SHOWN = 10  # of a process that ended, or never said what was waited for
_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """What a process has used so far, all its threads together."""
    return _cpu_s(Path(f"/proc/{pid}/stat"))


def threads_cpu_s(pid: int) -> float:
    """What its threads have used that live, but for the first one."""
    return sum(_cpu_s(each / "stat") for each in Path(f"/proc/{pid}/task").iterdir() if each.name != str(pid))


def _cpu_s(stat: Path) -> float:
    fields = stat.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def peak_mb(pid: int) -> int:
    """The most memory that a process has held."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) // 1024 if found else 0


class Failed(Exception):
    """A process ended early, or did not say in time what was waited for; the text holds the end of its log."""


class Process:
    """A command of ours; `wait` returns when a line of its log has the word."""

    def __init__(self, plane: ControlPlane | EmbeddedServer, *words: str, ready: str = "") -> None:
        command = [sys.executable, "-m", "pumice.cli", *words, "--kubeconfig", str(plane.kubeconfig)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
        self.port = 0
        self._name = f"pumice {words[0]}"
        self._ready, self._is_ready = ready, False
        self._heard = threading.Event()  # the word, or the end of the log
        self._log: collections.deque[str] = collections.deque(maxlen=LOG_LINES_SHOWN)
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def pid(self) -> int:
        return self.process.pid

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as log:
            for line in log:
                self._log.append(line)
                if found := re.search(r'"port": (\d+)', line):
                    self.port = int(found[1])
                if self._ready and self._ready in line:
                    self._is_ready = True
                    self._heard.set()
        self._heard.set()

    def wait(self) -> None:
        """Returns once the word was heard; raises Failed where the process ends before, or takes too long."""
        self._heard.wait(READY_S_MAX)
        if self._is_ready:
            return
        ended = self._heard.is_set()
        what = f"ended with exit code {self.process.wait()}" if ended else f"runs since {READY_S_MAX:.0f} s"
        raise Failed(f"{self._name} {what} and has not said {self._ready}; its log ends with:\n{''.join(self._log)}")

    def metric(self, name: str) -> float:
        text = urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=30).read().decode()
        found = re.search(rf"^{name} (\S+)$", text, re.MULTILINE)
        return float(found[1]) if found else 0.0

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(timeout=60)

"""Starts a container's command in its sandbox, takes its output, and ends it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pumice.errors import PumiceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.local.nodes.process.leftovers import Leftovers
    from pumice.local.nodes.process.logs import LogWriter

SANDBOX = Path(__file__).with_name("sandbox.py")
REPORT_BYTES_MAX = 64 * 2**10
OUTPUT_BYTES = 64 * 2**10
_PYTHON_NEEDS = ("LD_LIBRARY_PATH",)  # to start at all, on some machines

HELP = (
    "process nodes need namespaces of their own: run as root, or allow user namespaces to users "
    "(sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns)"
)


class StartFailed(PumiceError):
    """The command did not start; the text says why, in words for the pod's owner."""


class Process:
    """A container's command while it runs."""

    def __init__(
        self, supervisor: asyncio.subprocess.Process, init: int, log: LogWriter | None, records: Leftovers
    ) -> None:
        self._supervisor = supervisor
        self._log = log
        self._records = records
        self.init = init
        # By this descriptor a signal reaches our process and no other one that has its number later.
        self._held: int | None = None
        with contextlib.suppress(ProcessLookupError):
            self._held = os.pidfd_open(init)
        records.add(init)

    async def wait(self) -> int:
        """The exit code, once the command and all that it started are gone and their output has been kept."""
        try:
            async with asyncio.TaskGroup() as readers:
                readers.create_task(self._keep("stdout", self._supervisor.stdout))
                readers.create_task(self._keep("stderr", self._supervisor.stderr))
            code = await self._supervisor.wait()
        finally:
            self._close()
        return code if code >= 0 else 128 - code

    def terminate(self) -> None:
        """Asks the command's process group to end (SIGTERM)."""
        self.signal(signal.SIGTERM)

    def signal(self, number: signal.Signals) -> None:
        """Sends one of the signals that the sandbox passes on."""
        with contextlib.suppress(ProcessLookupError):
            self._supervisor.send_signal(number)

    def kill(self) -> None:
        """Ends the command and all that it started (SIGKILL)."""
        if self._held is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._held, signal.SIGKILL)

    async def _keep(self, stream: str, pipe: asyncio.StreamReader | None) -> None:
        assert pipe is not None
        while data := await pipe.read(OUTPUT_BYTES):
            if self._log is not None:
                with contextlib.suppress(OSError):  # a full disk costs output, not the command
                    self._log.feed(stream, data)

    def _close(self) -> None:
        self.kill()  # of no effect unless we were interrupted
        if self._held is not None:
            os.close(self._held)
            self._held = None
        if self._log is not None:
            self._log.close()
        self._records.remove(self.init)


async def start(order: Mapping[str, Any], log: LogWriter | None, records: Leftovers) -> Process:
    """Starts the command that the order describes (see sandbox.py); StartFailed if it cannot be."""
    reading, writing = os.pipe()
    try:
        supervisor = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-S",
            str(SANDBOX),
            str(os.getpid()),
            str(writing),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            pass_fds=(writing,),
            env={name: os.environ[name] for name in _PYTHON_NEEDS if name in os.environ},
            start_new_session=True,
        )
    except OSError:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    assert supervisor.stdin is not None
    try:
        # Not msgspec: an environment may hold bytes that are no text, which only Python's own JSON carries.
        supervisor.stdin.write(json.dumps(order).encode())
        supervisor.stdin.close()
        report = await _read_report(reading)
    except BaseException:
        supervisor.kill()
        raise
    process = Process(supervisor, report.get("init", supervisor.pid), log, records)
    if "error" in report:
        await process.wait()
        raise StartFailed(report["error"])
    return process


async def _read_report(reading: int) -> dict[str, Any]:
    """All that the sandbox says until its descriptor is closed: by the command that took its place, or by its own end."""
    loop = asyncio.get_running_loop()
    stream = asyncio.StreamReader(limit=REPORT_BYTES_MAX)
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(reading, "rb", buffering=0)
    )
    try:
        told = await stream.read(REPORT_BYTES_MAX)
        while more := await stream.read(REPORT_BYTES_MAX):
            told += more
    finally:
        transport.close()
    report: dict[str, Any] = {}
    for line in told.splitlines():
        report |= json.loads(line)
    return report


async def probe(folder: Path, records: Leftovers) -> None:
    """Tries whether sandboxes work on this machine; raises StartFailed with advice where they do not."""
    order = {"probe": True, "hostname": "probe", "root": str(folder), "cwd": "/", "mounts": []}
    try:
        code = await (await start(order, None, records)).wait()
    except StartFailed as error:
        raise StartFailed(f"{HELP}; this machine says: {error}") from error
    if code != 0:
        raise StartFailed(f"{HELP}; the probe ended with exit code {code}")

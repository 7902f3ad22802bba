"""A PostgreSQL server of Debian's, in a folder of its own, on a socket and on loopback."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

START_S_MAX = 120


def programs() -> Path:
    """The folder of the newest server's programs. Without it a test is skipped, and fails where CI is set."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda each: int(each.parts[4]))
    if not found:
        reason = "there is no PostgreSQL server; `tools/kube/packages` installs it, as root on Debian"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    return found[-1].parent


class Postgres:
    """Not as root: the server refuses that, and so nobody runs it."""

    def __init__(self) -> None:
        self._programs = programs()
        self.folder = Path(tempfile.mkdtemp(prefix="pumice-postgres-"))
        self._user = "nobody" if os.getuid() == 0 else None
        if self._user:
            os.chown(self.folder, pwd.getpwnam(self._user).pw_uid, -1)
        self._run(
            "initdb",
            "--no-sync",
            "--auth=trust",
            "--username=pumice",
            "--encoding=UTF8",
            "--locale=C",
            "-D",
            str(self._data),
        )

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), *arguments]
        done = subprocess.run(
            command,
            user=self._user,
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=START_S_MAX,
            check=False,
        )
        assert done.returncode == 0, (command, done.stderr)

    def start(self) -> None:
        options = f"-c listen_addresses= -c unix_socket_directories={self.folder} -c fsync=off -c max_connections=40"
        self._run(
            "pg_ctl",
            "-D",
            str(self._data),
            "-l",
            str(self.folder / "log"),
            "-w",
            "-t",
            str(START_S_MAX),
            "-o",
            options,
            "start",
        )

    def stop(self) -> None:
        """At once: whoever is connected is cut off."""
        self._run("pg_ctl", "-D", str(self._data), "-m", "immediate", "-w", "stop")

    def database(self, name: str) -> str:
        """The address of a new, empty database."""
        self._run("createdb", "-h", str(self.folder), "-U", "pumice", name)
        return f"postgresql://pumice@/{name}?host={self.folder}"

    def close(self) -> None:
        with contextlib.suppress(AssertionError):
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def running():
    server = Postgres()
    try:
        server.start()
        yield server
    finally:
        server.close()

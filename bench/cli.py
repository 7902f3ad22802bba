"""How long a person waits for the command line: whole processes, from the return key to the last line, or to a cluster that is ready.

The goals are 50 ms for `pumice --help`, 150 ms for `pumice job list` on the embedded cluster and half a second for `pumice up`, on two quiet
cores. What was measured is in docs/performance.md. Where bytecode is not kept (PYTHONDONTWRITEBYTECODE), all of it takes twice as long.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.engine import best, calibration
from bench.processes import cpu_s

if TYPE_CHECKING:
    from collections.abc import Iterator

ROUNDS = 15
STARTS = 5
GOALS_S = {("--help",): 0.050, ("job", "list"): 0.150, ("queue", "list"): 0.150, ("explain", "job/train"): None}
UP_GOAL_S = 0.5
PUMICE = (sys.executable, "-m", "pumice.cli")


def measure(words: tuple[str, ...], env: dict[str, str], base: float) -> dict[str, float | str | None]:
    """The fastest, the middle one and the slowest of some rounds, and the least CPU time of any, which others disturb less."""
    walls, cpus = [], []
    for _ in range(ROUNDS):
        before = _children_s()
        began = time.perf_counter()
        subprocess.run([*PUMICE, *words], env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        walls.append(time.perf_counter() - began)
        cpus.append(_children_s() - before)
    walls.sort()
    return {
        "bench": f"pumice {' '.join(words)}",
        "fastest_s": round(walls[0], 3),
        "median_s": round(walls[len(walls) // 2], 3),
        "slowest_s": round(walls[-1], 3),
        "cpu_s": round(min(cpus), 3),
        "calibrated": round(min(cpus) / base, 2),
        "goal_s": GOALS_S[words],
    }


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@contextlib.contextmanager
def running_cluster(env: dict[str, str]) -> Iterator[dict[str, float]]:
    """How long it took until it was ready, until its dashboard was there as well, and the CPU time of both."""
    command = [*PUMICE, "up", "--nodes", "4", "--no-browser", "--kubeconfig-out", env["KUBECONFIG"]]
    took: dict[str, float] = {}
    began = time.perf_counter()
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as cluster:
        assert cluster.stdout is not None
        try:
            for line in cluster.stdout:
                if line.startswith("cluster ready"):
                    took["ready_s"] = time.perf_counter() - began
                if line.startswith("end it"):
                    took |= {"dashboard_s": time.perf_counter() - began, "cpu_s": cpu_s(cluster.pid)}
                    break
            yield took
        finally:
            cluster.terminate()


def starts(env: dict[str, str], base: float) -> dict[str, float | str]:
    """The fastest of some starts, each figure for itself."""
    found = []
    for _ in range(STARTS):
        with running_cluster(env) as took:
            found.append(took)
    fastest = {name: round(min(took[name] for took in found), 3) for name in found[0]}
    return {"bench": "pumice up", **fastest, "calibrated": round(fastest["cpu_s"] / base, 2), "goal_s": UP_GOAL_S}


def main() -> int:
    base = best(calibration).cpu_s
    with tempfile.TemporaryDirectory(prefix="pumice-bench-") as folder:
        env = {**os.environ, "XDG_CACHE_HOME": folder, "KUBECONFIG": str(Path(folder) / "kubeconfig")}
        sys.stdout.write(json.dumps(starts(env, base)) + "\n")
        with running_cluster(env):
            subprocess.run([*PUMICE, "job", "run", "train"], env=env, check=True, stdout=subprocess.DEVNULL)
            for words in GOALS_S:
                sys.stdout.write(json.dumps(measure(words, env, base)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())

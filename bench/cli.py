"""How long a person waits for the command line: whole processes, from the return key to the last line, or to a cluster that is ready.

The goals are 50 ms for `pumice --help`, 150 ms for `pumice job list` on the embedded cluster and half a second for `pumice up`, on two quiet
cores. What was measured is in docs/performance.md. Where bytecode is not kept (PYTHONDONTWRITEBYTECODE), all of it takes twice as long.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.processes import cpu_s

ROUNDS = 15
GOALS_S = {("--help",): 0.050, ("job", "list"): 0.150, ("queue", "list"): 0.150, ("explain", "job/train"): None}
UP_GOAL_S = 0.5
PUMICE = (sys.executable, "-m", "pumice.cli")


def measure(words: tuple[str, ...], env: dict[str, str]) -> dict[str, float | str | None]:
    """The fastest, the middle one and the slowest of some rounds, and the CPU time of the fastest, which others do not disturb."""
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
        "goal_s": GOALS_S[words],
    }


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="pumice-bench-") as folder:
        config = Path(folder) / "kubeconfig"
        env = {**os.environ, "XDG_CACHE_HOME": folder, "KUBECONFIG": str(config)}
        command = [*PUMICE, "up", "--nodes", "4", "--kubeconfig-out", str(config)]
        began = time.perf_counter()
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as cluster:
            assert cluster.stdout is not None
            try:
                for line in cluster.stdout:
                    if line.startswith("end it"):
                        break
                ready = {"fastest_s": round(time.perf_counter() - began, 3), "cpu_s": cpu_s(cluster.pid)}
                sys.stdout.write(json.dumps({"bench": "pumice up", **ready, "goal_s": UP_GOAL_S}) + "\n")
                subprocess.run([*PUMICE, "job", "run", "train"], env=env, check=True, stdout=subprocess.DEVNULL)
                for words in GOALS_S:
                    sys.stdout.write(json.dumps(measure(words, env)) + "\n")
            finally:
                cluster.terminate()
    return 0


if __name__ == "__main__":
    sys.exit(main())

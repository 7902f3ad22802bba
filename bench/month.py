"""A month of generated jobs that ask for nine tenths of 2,504 GPUs on 313 nodes: what it costs to simulate, policy by policy.

    python -m bench.month [--jobs 2000] [--policy fifo ...] [--rhythm 60]

The engine alone: events and plans, no API server. The whole month is `--jobs 100000`; the figure that is compared is that of its first 2,000 jobs.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from bench import engine
from bench.simulation import run
from pumice import instant
from pumice.sim.generator import generate
from pumice.sim.policies import NAMED

JOBS, MONTH = 2_000, 100_000
NODES, GPUS_EACH, LOAD, SEED = 313, 8, 0.9, 1
POLICIES = ("fifo", "easy", "builtin")


def main() -> None:
    given = argparse.ArgumentParser()
    given.add_argument("--jobs", type=int, default=JOBS)
    given.add_argument("--policy", action="append", choices=list(NAMED))
    given.add_argument("--rhythm", type=int, default=0, help="seconds between cycles while gangs wait")
    options = given.parse_args()
    work = generate(MONTH, NODES * GPUS_EACH, load=LOAD, seed=SEED)[: options.jobs]
    base = engine.best(engine.calibration).cpu_s
    for policy in options.policy or POLICIES:
        started = time.process_time()
        outcome = run(policy, work, f"{NODES}x{GPUS_EACH}", rhythm=options.rhythm * instant.SECOND)
        took = time.process_time() - started
        line = {
            "bench": f"month-{policy}",
            "nodes": NODES,
            "gangs": len(work),
            "days": round((outcome.figures["makespan_s"] or 0.0) / 86_400, 1),
            "rhythm_s": options.rhythm,
            "cycles": outcome.cycles,
            "mean_wait_s": round(outcome.figures["mean_wait_s"] or 0.0, 1),
            "cpu_s": round(took, 1),
            "ms_per_job": round(1000 * took / len(work), 3),
            "calibrated": round(took / base, 2),
        }
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

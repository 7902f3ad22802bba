"""Forecasts: whether nine of ten hold in simulated weeks with wrong estimates, and what one costs on a large cluster.

python -m bench.forecast [SEED ...] [--policy builtin|easy|...]
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import random
import sys
import time
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from pumice import instant
from pumice.api import changes, names
from pumice.api.meta import ObjectMeta
from pumice.api.pods import Container, Pod, PodSpec, PodStatus, ResourceRequirements
from pumice.api.scheduling import PodGroup, PodGroupSpec, PodGroupStatus
from pumice.cli import bench as plan_bench
from pumice.cluster.intake import Intake
from pumice.scheduling.core import builtin, cycle
from pumice.scheduling.time import accuracy
from pumice.scheduling.time.forecast import Effort, World, first_in_line, forecast
from pumice.sim.generator import generate
from pumice.sim.policies import NAMED

if TYPE_CHECKING:
    from pumice.sim.workload import Submission

lublin, played = (importlib.import_module(f"tests.properties.{name}") for name in ("lublin", "weeks"))
POLICY = builtin.parse(builtin.TEXT, "built-in policy")
LOAD, ERROR = 0.85, 0.6
WEEKS = (("generated", "2x4", 250), ("lublin", "2x8", 250))  # a week and a day of work, under a minute of one core each
WEEKS_EFFORT = Effort(runs=2, cycles=80, blur=0.25)
LARGE_EFFORT = Effort(runs=10, cycles=60, blur=0.25)
LIMIT_S = 4.0  # of CPU time for a forecast: what the scheduler's child is given


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seeds", nargs="*", type=int, default=(1, 2, 3))
    parser.add_argument("--policy", choices=NAMED, default="builtin")
    asked = parser.parse_args()
    for seed in asked.seeds:
        for kind, cluster, jobs in WEEKS:
            figures = weeks(seed, kind, cluster, jobs, NAMED[asked.policy].text)
            _say(bench="forecast_weeks", seed=seed, policy=asked.policy, workload=kind, cluster=cluster, **figures)
    _say(bench="forecast_large", **large())


def weeks(seed: int, kind: str, cluster: str, jobs: int, policy: str) -> dict[str, Any]:
    """How often the p90 held."""
    started = time.process_time()
    work = _work(seed, kind, cluster, jobs)
    pairs, simulation = played.told_and_true(work, cluster, effort=WEEKS_EFFORT, seed=seed, policy=policy)
    held = [played.holds(*each) for each in pairs]
    return {
        "days": round(max(run.end_s or 0 for run in simulation.outcome.runs) / 86_400, 1),
        "forecasts": len(held),
        "held": round(sum(held) / max(len(held), 1), 3),
        "stretch": round(simulation.ahead.memory.of(accuracy.SCORE).stretch, 2),
        "cpu_s": round(time.process_time() - started, 1),
    }


def _work(seed: int, kind: str, cluster: str, jobs: int) -> list[Submission]:
    count, _, each = cluster.partition("x")
    slots = int(count) * int(each)
    if kind == "generated":
        return generate(jobs, slots, load=LOAD, seed=seed)
    chance = random.Random(seed)  # noqa: S311
    return [
        msgspec.structs.replace(job, estimate_s=job.run_s * chance.lognormvariate(0, ERROR))
        for job in lublin.workload(seed, jobs, slots, load=LOAD)
    ]


def large(nodes_: int = 5000, running: int = 1000, waiting: int = 200, size: int = 40) -> dict[str, Any]:
    """Most of a large cluster is in use; every gang says how long it runs."""
    cluster = plan_bench.cluster_with_waiting_gangs(nodes_, 0, 1)
    intake, now = Intake(cluster), instant.parse_instant("2026-01-02T00:00:00Z")
    for number in range(running):
        add_gang(
            intake,
            f"r{number:04}",
            size,
            now,
            run_s=600 + 97 * number % 50_000,
            places=[(number * size + k) % nodes_ for k in range(size)],
        )
    for number in range(waiting):
        add_gang(intake, f"w{number:04}", size, now, run_s=3600)
    memory = cycle.plan(cluster.snapshot(), POLICY, now=now).memory  # what a scheduler knows that has run for a cycle
    world = World(intake, POLICY, now, memory)
    wanted = first_in_line(world, 20)
    cluster.snapshot()
    gc.disable()  # as in the child that makes forecasts
    started = time.process_time()
    found = forecast(
        world, wanted, chance=np.random.default_rng(1), effort=LARGE_EFFORT,
        go_on=lambda: time.process_time() - started < LIMIT_S,
    )  # fmt: skip
    took = time.process_time() - started
    return {
        "nodes": nodes_,
        "gangs": running + waiting,
        "size": size,
        "cpu_s": round(took, 2),
        "runs": found[wanted[0]].runs,
        "with_time": sum(each.p50 is not None for each in found.values()),
        "wanted": len(wanted),
    }


def add_gang(intake: Intake, name: str, size: int, now: int, *, run_s: int, places: list[int] | None = None) -> None:
    """A gang of one-GPU pods that waits, or runs on these nodes."""
    created = instant.format_instant(now - 600 * instant.SECOND)
    asks = {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "1"}
    containers = (Container(name="worker", resources=ResourceRequirements(requests=asks, limits=asks)),)
    meta = ObjectMeta(
        namespace="default", name=name, uid=f"u-{name}", creation_timestamp=created, annotations={names.RUNNING_ESTIMATE: f"{run_s}s"}
    )  # fmt: skip
    phase = "Running" if places else "Inqueue"
    group = PodGroup(metadata=meta, spec=PodGroupSpec(min_member=size), status=PodGroupStatus(phase=phase))
    intake.apply(changes.Upserted(object=group))
    for number in range(size):
        own = ObjectMeta(
            namespace="default", name=f"{name}-w-{number}", uid=f"u-{name}-{number}", creation_timestamp=created,
            annotations={names.GROUP_NAME: name},
        )  # fmt: skip
        node = f"node-{places[number]:05}" if places else ""
        status = PodStatus(phase="Running" if places else "Pending", start_time=created if places else None)
        spec = PodSpec(containers=containers, scheduler_name="volcano", node_name=node)
        intake.apply(changes.Upserted(object=Pod(metadata=own, spec=spec, status=status)))


def _say(**figures: Any) -> None:
    sys.stdout.write(json.dumps(figures) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

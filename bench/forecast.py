"""Forecasts: whether nine of ten hold in simulated weeks with wrong estimates, and what one costs on a large cluster.

python -m bench.forecast [SEED ...]
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import random
import sys
import time
from typing import TYPE_CHECKING, Any

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
from pumice.sim.simulation import Simulation, nodes

if TYPE_CHECKING:
    from pumice.sim.workload import Submission

lublin = importlib.import_module("tests.properties.lublin")
POLICY = builtin.parse(builtin.TEXT, "built-in policy")
SLOTS, ERROR = 32, 0.6
WEEKS_EFFORT = Effort(runs=10, cycles=250, blur=0.25)
LARGE_EFFORT = Effort(runs=10, cycles=60, blur=0.25)
LIMIT_S = 4.0  # of CPU time for a forecast: what the scheduler's child is given


def main() -> None:
    for seed in [int(each) for each in sys.argv[1:]] or (1, 2, 3):
        _say(bench="forecast_weeks", seed=seed, **weeks(seed))
    _say(bench="forecast_large", **large())


def weeks(seed: int, jobs: int = 300) -> dict[str, Any]:
    """Every gang that has to wait gets one forecast, when it comes."""
    chance = random.Random(seed)  # noqa: S311
    work: list[Submission] = [
        dataclasses.replace(each, estimate_s=each.run_s * chance.lognormvariate(0, ERROR))
        for each in lublin.workload(seed, jobs, SLOTS, load=0.85)
    ]
    simulation = Simulation(work, nodes(f"{SLOTS // 8}x8"))
    luck, told = np.random.default_rng(seed), set[str]()
    for _ in simulation.steps():
        ahead = simulation.ahead
        waiting = [key for key in simulation.waiting() if key not in told]
        if waiting:
            world = World(ahead.intake, ahead.policy, ahead.now, ahead.memory)
            found = forecast(world, waiting, chance=luck, effort=WEEKS_EFFORT)
            score = ahead.memory.of(accuracy.SCORE).opened(found.values())
            ahead.memory = ahead.memory.after([(accuracy.SCORE, score)])[0]
            told.update(waiting)
    score = ahead.memory.of(accuracy.SCORE)
    return {
        "days": round(max(run.end_s or 0 for run in simulation.outcome.runs) / 86_400, 1),
        "forecasts": score.total,
        "held": round(score.held or 0, 3),
        "stretch": round(score.stretch, 2),
    }


def large(nodes_: int = 5000, running: int = 1000, waiting: int = 200, size: int = 40) -> dict[str, Any]:
    """Most of a large cluster is in use; every gang says how long it runs."""
    cluster = plan_bench.full_of_work(nodes_, 0, 1)
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

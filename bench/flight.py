"""What the flight recorder costs: CPU time of the scheduler's thread and of the recorder's own, and bytes, for each cycle and each whole state.

    python -m bench.flight [--nodes 1000]

Eight pods run on every node, two gangs of eight arrive before every cycle, and 200 wait.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pumice import instant
from pumice.api import changes
from pumice.flight.recorder import FlightRecorder
from pumice.flight.unrecorded import Planned
from pumice.runtime import silent
from pumice.scheduling.core import builtin, cycle
from pumice.scheduling.core.memory import EMPTY
from pumice.scheduling.core.ports import Ports
from pumice.sim.simulation import START, Simulation, gang_objects, nodes
from pumice.sim.workload import Submission

if TYPE_CHECKING:
    from pumice.api.meta import Struct
    from pumice.cluster.intake import Intake

CYCLES = 30
WAITING = 200


def main() -> None:
    given = argparse.ArgumentParser()
    given.add_argument("--nodes", type=int, default=1000)
    count = given.parse_args().nodes
    intake, arriving = _busy(count)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "flight"
        recorder = FlightRecorder(str(file), limit_mib=1024, extra_plugins={}, log=silent)
        recorder.of(frozenset({"volcano"}), "default", 30)
        sys.stdout.write(
            json.dumps({"bench": "flight", "nodes": count, **_fly(recorder, intake, arriving, file)}) + "\n"
        )


def _busy(count: int) -> tuple[Intake, list[list[Struct]]]:
    """A cluster that is full, with gangs that wait, and what will arrive."""
    work = [Submission(at_s=0, run_s=10**7, size=8) for _ in range(count + WAITING)]
    simulation = Simulation(work, nodes(f"{count}x8"), policy=builtin.TEXT)
    steps = simulation.steps()
    while not simulation.outcome.held:
        next(steps)
    late = [gang_objects(f"late-{number}", Submission(at_s=5, run_s=10, size=8), None) for number in range(2 * CYCLES)]
    return simulation.ahead.intake, late


def _fly(recorder: FlightRecorder, intake: Intake, arriving: list[list[Struct]], file: Path) -> dict[str, float]:
    policy, memory = builtin.parse(builtin.TEXT, "built-in policy"), EMPTY
    here_s = planning_s = state_bytes = state_s = 0.0
    began = time.process_time()
    for number in range(CYCLES):
        for thing in (*arriving[2 * number], *arriving[2 * number + 1]):
            intake.apply(changes.Upserted(object=thing))
            recorder.saw(changes.Upserted(object=thing))
        snapshot, now = intake.cluster.snapshot(), START + number * instant.SECOND
        at = time.thread_time()
        recorder.begins(intake, Planned(number, now, policy, memory, Ports(), 30_000))
        spent = time.thread_time() - at
        at = time.thread_time()
        decisions = cycle.plan(snapshot, policy, memory, now=now, budget=30_000)
        planning_s += time.thread_time() - at
        memory = decisions.memory
        at = time.thread_time()
        recorder.ends(decisions, seconds=0.0)
        if number:
            here_s += spent + time.thread_time() - at
        else:
            state_s = spent
            recorder.settle()
            state_bytes = file.stat().st_size
    recorder.close()
    cycles = CYCLES - 1
    return {
        "state_ms_of_scheduler": round(1000 * state_s, 2),
        "state_bytes": state_bytes,
        "cycle_ms_of_scheduler": round(1000 * here_s / cycles, 3),
        "cycle_bytes": round((file.stat().st_size - state_bytes) / cycles),
        "planning_ms": round(1000 * planning_s / CYCLES, 1),
        "all_ms_per_cycle": round(1000 * (time.process_time() - began) / CYCLES, 1),
    }


if __name__ == "__main__":
    main()

"""A published workload under each policy, and the wedge that users complain of; the figures beside those of a textbook.

    python -m bench.simulation [TRACE.swf]

Without a trace the workload is drawn as the tests draw theirs. Some minutes of one core.
"""

from __future__ import annotations

import io
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.properties import lublin, textbook

from pumice.sim import Outcome, Submission, nodes, read_swf, simulate
from pumice.sim.policies import NAMED

if TYPE_CHECKING:
    from collections.abc import Sequence

JOBS, SLOTS = 2000, 256
TRACES = Path(__file__).parents[1].parent / "shared" / "traces"
_RULES = {"fifo": textbook.first_come, "easy": textbook.easy, "conservative": textbook.conservative}
LARGE = SLOTS // 2  # gangs of more than that are the largest


def main() -> None:
    given = [Path(each) for each in sys.argv[1:]] or [each for each in [TRACES / "lublin_256.swf"] if each.exists()]
    for path in given:
        workload(read_swf(io.StringIO(path.read_text()), path.name, most=JOBS), path.name)
    if not given:
        workload(lublin.workload(1, JOBS, SLOTS), "drawn")
    wedge()


def workload(work: Sequence[Submission], name: str) -> None:
    for policy, rule in _RULES.items():
        _say(bench="textbook", workload=name, policy=policy, **by_the_book(rule, work))
    for cluster in (f"{SLOTS}x1", f"{SLOTS // 8}x8"):
        for policy in NAMED:
            started = time.process_time()
            outcome = run(policy, work, cluster)
            took = time.process_time() - started
            _say(
                bench="simulation", workload=name, cluster=cluster, policy=policy, cpu_s=round(took, 1), **told(outcome)
            )


def run(policy: str, work: Sequence[Submission], cluster: str, **settings: Any) -> Outcome:
    named = NAMED[policy]
    return simulate(work, nodes(cluster), policy=named.text, source=policy, strict=named.strict, **settings)


def told(outcome: Outcome) -> dict[str, Any]:
    large = [each.wait_s for each in outcome.runs if each.job.size > LARGE and each.wait_s is not None]
    figures = {name: value for name, value in outcome.figures.items() if value is not None}
    return {**figures, "mean_wait_of_largest_s": sum(large) / len(large) if large else None}


def by_the_book(rule: Any, work: Sequence[Submission]) -> dict[str, float]:
    jobs = [(each.at_s, each.size, each.run_s) for each in work]
    starts = rule(jobs, SLOTS)
    waits = [start - job[0] for start, job in zip(starts, jobs, strict=True)]
    slowdowns = [max(1, (wait + job[2]) / max(job[2], 10)) for wait, job in zip(waits, jobs, strict=True)]
    makespan = max(start + job[2] for start, job in zip(starts, jobs, strict=True)) - jobs[0][0]
    busy = sum(size * length for _, size, length in jobs)
    return {
        "mean_wait_s": sum(waits) / len(jobs),
        "bounded_slowdown": sum(slowdowns) / len(jobs),
        "utilisation": busy / (SLOTS * makespan),
        "makespan_s": makespan,
    }


def wedge() -> None:
    """A gang of 64 on 100 GPUs, while one-GPU jobs of ten minutes keep coming, one every six seconds: all GPUs are always asked for."""
    hours = 1.5
    small = [Submission(at_s=6 * n, run_s=600, estimate_s=600) for n in range(int(hours * 600))]
    work = [*small, Submission(at_s=1200, run_s=1800, size=64, estimate_s=1800)]
    for policy in ("greedy", "builtin"):
        outcome = run(policy, work, "25x4", until_s=hours * 3600)
        held = sum(outcome.usage("queue", step_s=600, until_s=hours * 3600)["default"][2:]) / (int(hours * 6) - 2)
        gang = outcome.runs[-1]
        _say(bench="wedge", policy=policy, gang_waited_s=gang.wait_s, utilisation=round(held / 100, 4))


def _say(**figures: Any) -> None:
    sys.stdout.write(json.dumps({k: round(v, 4) if isinstance(v, float) else v for k, v in figures.items()}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

"""A published workload under each policy, and the wedge that users complain of; the figures beside those of a textbook.

    python -m bench.simulation [policies] [rare] [wedge] [--trace FILE.swf] [--jobs 2000] [--policy NAME ...] [--cluster 256x1 ...]
                               [--slots 64 --small 300]

Without a trace the workload is drawn as the tests draw theirs. Some minutes of one core each; `conservative` takes the longest.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from tests.properties import lublin, textbook

from pumice.sim import Outcome, Submission, nodes, read_swf, simulate
from pumice.sim.policies import NAMED

if TYPE_CHECKING:
    from collections.abc import Sequence

JOBS, SLOTS = 2000, 256
TRACES = Path(__file__).parents[1].parent / "shared" / "traces"
_RULES = {"fifo": textbook.first_come, "easy": textbook.easy, "conservative": textbook.conservative}
SMALL = 1000  # jobs among which large gangs are rare


def main() -> None:
    given = argparse.ArgumentParser()
    given.add_argument("parts", nargs="*", choices=[[], "policies", "rare", "wedge"])
    given.add_argument("--trace", type=Path, default=TRACES / "lublin_256.swf")
    given.add_argument("--jobs", type=int, default=JOBS)
    given.add_argument(
        "--slots", type=int, default=SLOTS, help="of `rare`; another number than the trace's draws the jobs"
    )
    given.add_argument("--small", type=int, default=SMALL)
    given.add_argument("--policy", action="append", choices=list(NAMED))
    given.add_argument("--cluster", action="append")
    options = given.parse_args()
    parts = options.parts or ["policies", "rare", "wedge"]
    name = options.trace.name if options.trace.exists() else "drawn"
    work: Sequence[Submission] = lublin.workload(1, options.jobs, SLOTS)
    if options.trace.exists():
        work = read_swf(io.StringIO(options.trace.read_text()), name, most=options.jobs)
    if "policies" in parts:
        workload(work, name, options.policy or list(NAMED), options.cluster or [f"{SLOTS}x1", f"{SLOTS // 8}x8"])
    if "rare" in parts:
        if options.slots != SLOTS:
            work, name = lublin.workload(1, options.jobs, options.slots), "drawn"
        rare(work, name, slots=options.slots, most=options.small)
    if "wedge" in parts:
        wedge()


def workload(work: Sequence[Submission], name: str, policies: Sequence[str], clusters: Sequence[str]) -> None:
    for policy in policies:
        if policy in _RULES:
            _say(bench="textbook", workload=name, policy=policy, **by_the_book(_RULES[policy], work))
        for cluster in clusters:
            started = time.process_time()
            outcome = run(policy, work, cluster)
            took = time.process_time() - started
            _say(
                bench="simulation", workload=name, cluster=cluster, policy=policy, cpu_s=round(took, 1), **told(outcome)
            )


def rare(work: Sequence[Submission], name: str, *, slots: int, most: int, load: float = 1.0) -> None:
    """The smaller jobs of a workload, so dense that they ask for all slots, and ten gangs of half of them at even distances."""
    small = [each for each in work if each.size <= slots // 8][:most]
    first, last = small[0].at_s, small[-1].at_s
    dense = sum(each.size * each.run_s for each in small) / (load * slots * (last - first))
    mixed = [msgspec.structs.replace(each, at_s=round((each.at_s - first) * dense)) for each in small]
    span = mixed[-1].at_s
    mixed += [
        Submission(at_s=round(span * (number + 1) / 12), run_s=600, size=slots // 2, estimate_s=600)
        for number in range(10)
    ]
    for policy in ("greedy", "easy", "builtin"):
        outcome = run(policy, mixed, f"{slots}x1")
        waits = [each.wait_s for each in outcome.runs[-10:] if each.wait_s is not None]
        _say(
            bench="rare", workload=name, policy=policy, load=load, mean_wait_of_gangs_s=sum(waits) / len(waits),
            mean_wait_s=outcome.figures["mean_wait_s"], utilisation=outcome.figures["utilisation"],
        )  # fmt: skip


def run(policy: str, work: Sequence[Submission], cluster: str, **settings: Any) -> Outcome:
    named = NAMED[policy]
    return simulate(work, nodes(cluster), policy=named.text, source=policy, strict=named.strict, **settings)


def told(outcome: Outcome) -> dict[str, Any]:
    """The largest gangs are the hundredth part with the most members."""
    ranked = sorted(outcome.runs, key=lambda each: each.job.size, reverse=True)[: max(len(outcome.runs) // 100, 1)]
    large = [each.wait_s for each in ranked if each.wait_s is not None]
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
    for policy in ("greedy", "easy", "builtin"):
        outcome = run(policy, work, "25x4", until_s=hours * 3600)
        held = sum(outcome.usage("queue", step_s=600, until_s=hours * 3600)["default"][2:]) / (int(hours * 6) - 2)
        gang = outcome.runs[-1]
        _say(bench="wedge", policy=policy, gang_waited_s=gang.wait_s, utilisation=round(held / 100, 4))


def _say(**figures: Any) -> None:
    sys.stdout.write(json.dumps({k: round(v, 4) if isinstance(v, float) else v for k, v in figures.items()}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()

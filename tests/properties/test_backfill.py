"""The engine under the policies of batch systems, held against their textbook form, which shares nothing with it."""

import pytest
from tests.properties import textbook
from tests.properties.lublin import workload

from pumice.sim import nodes, simulate
from pumice.sim.policies import NAMED


def engine(name, work, cluster):
    policy = NAMED[name]
    outcome = simulate(work, nodes(cluster), policy=policy.text, source=name, strict=policy.strict)
    assert outcome.figures["never_ended"] == 0
    return outcome


def by_the_book(rule, work, slots):
    """Mean wait, bounded slowdown and makespan."""
    jobs = [(each.at_s, each.size, each.run_s) for each in work]
    starts = rule(jobs, slots)
    waits = [start - job[0] for start, job in zip(starts, jobs, strict=True)]
    slowdowns = [max(1, (wait + job[2]) / max(job[2], 10)) for wait, job in zip(waits, jobs, strict=True)]
    end = max(start + job[2] for start, job in zip(starts, jobs, strict=True))
    return starts, sum(waits) / len(jobs), sum(slowdowns) / len(jobs), end - jobs[0][0]


@pytest.mark.parametrize("cluster", ["32x1", "4x8"])
@pytest.mark.parametrize(
    ("name", "rule"),
    [("fifo", textbook.first_come), ("easy", textbook.easy), ("conservative", textbook.conservative)],
)
def test_every_start_is_the_textbooks(name, rule, cluster):
    """One queue, true run times, slots that are all alike: there is nothing in which the engine could differ."""
    for seed in range(2):
        work = workload(seed, 60, 32)
        starts, *_ = by_the_book(rule, work, 32)
        assert [run.start_s for run in engine(name, work, cluster).runs] == starts, f"seed {seed}"

"""Small workloads as literals, and what becomes of them."""

import pytest
from tests.unit.scheduling.clusters import a_priority_class

from pumice import instant
from pumice.scheduling.core import builtin
from pumice.sim import Submission, nodes, simulate
from pumice.sim.policies import NAMED


def under(name, work, cluster="4x1", **settings):
    policy = NAMED[name]
    return simulate(work, nodes(cluster), policy=policy.text, source=name, strict=policy.strict, **settings)


def starts(outcome):
    return [run.start_s for run in outcome.runs]


# The first takes three of four slots for 100 s; the second wants all; the third and the fourth want one, for 50 s and for 500 s.
BACKFILL = [
    Submission(at_s=0, run_s=100, size=3, estimate_s=100),
    Submission(at_s=1, run_s=100, size=4, estimate_s=100),
    Submission(at_s=2, run_s=50, size=1, estimate_s=50),
    Submission(at_s=3, run_s=500, size=1, estimate_s=500),
]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("fifo", [0, 100, 200, 200]),
        ("greedy", [0, 552, 2, 52]),
        ("easy", [0, 100, 2, 200]),
        ("conservative", [0, 100, 2, 200]),
        ("builtin", [0, 552, 2, 52]),  # nobody has waited for five minutes when the fourth passes
    ],
)
def test_who_passes_a_gang_that_waits_is_what_policies_differ_in(policy, expected):
    assert starts(under(policy, BACKFILL)) == expected


def test_with_a_rhythm_who_waits_is_looked_at_once_in_so_long_and_who_comes_while_nobody_waits_at_once():
    found = under("greedy", BACKFILL, rhythm=60 * instant.SECOND)
    # The second is looked at when it comes, at 1, and those that wait at 61, at 121 (the first has ended at 100, the third at 111), and at 221,
    # when the second ends: the last time is long ago then.
    assert starts(found) == [0, 121, 61, 221]
    assert [run.end_s for run in found.runs] == [100, 221, 111, 721]
    assert starts(under("greedy", BACKFILL)) == [0, 552, 2, 52]


def test_with_a_rhythm_gangs_that_need_cycles_are_looked_at_once_in_so_long_too():
    found = under("conservative", BACKFILL, rhythm=60 * instant.SECOND)
    assert starts(found) == [0, 120, 220, 220]  # at 60 it is too late for the third to be gone at 100


@pytest.mark.parametrize("policy", [name for name, policy in NAMED.items() if not policy.pod_by_pod])
def test_runs_of_a_century_end_the_simulation_and_no_number_overflows(policy):
    """Jobs that say three centuries come out as long, too: nobody passes the second, which waits with a reservation."""
    century = 100 * 365 * 86_400
    work = [Submission(at_s=number, run_s=century, size=4, estimate_s=2.9 * century) for number in range(4)]
    found = simulate(work, nodes("4x1"), policy=NAMED[policy].text, source=policy, strict=NAMED[policy].strict)
    assert [run.start_s for run in found.runs] == [0, century, None, None]


def test_where_gangs_stand_in_line_there_is_no_rhythm():
    assert starts(under("fifo", BACKFILL, rhythm=60 * instant.SECOND)) == starts(under("fifo", BACKFILL))


@pytest.mark.parametrize("plugin", ["overcommit", "proportion", "capacity"])
def test_a_gang_that_has_a_reservation_does_not_keep_others_from_being_admitted(plugin):
    """It is admitted although everything is full, and was counted with what may be admitted: nobody came in beside it until its time."""
    policy = f"""
actions: "enqueue, allocate"
tiers:
- plugins: [{{name: gang}}, {{name: reservation, arguments: {{patience: 5m}}}}]
- plugins: [{{name: predicates}}, {{name: {plugin}}}]
"""
    work = [
        Submission(at_s=0, run_s=3600, size=3, estimate_s=3600),
        Submission(at_s=1, run_s=100, size=4, estimate_s=100),
        Submission(at_s=600, run_s=300, size=1, estimate_s=300),  # would end long before the second may start
    ]
    assert starts(simulate(work, nodes("4x1"), policy=policy)) == [0, 3600, 600]


def test_figures():
    outcome = under("fifo", BACKFILL)
    figures = outcome.figures
    assert figures["mean_wait_s"] == (0 + 99 + 198 + 197) / 4
    assert figures["bounded_slowdown"] == (1 + 199 / 100 + 248 / 50 + 697 / 500) / 4
    assert figures["makespan_s"] == 700
    assert figures["utilisation"] == (300 + 400 + 50 + 500) / (4 * 700)
    assert (figures["never_started"], figures["never_ended"], figures["evictions"]) == (0, 0, 0)
    assert outcome.wait_by_size() == {
        "1": {"jobs": 2, "mean_wait_s": 197.5, "median_wait_s": 197.5, "p95_wait_s": 197.95, "max_wait_s": 198},
        "2-8": {"jobs": 2, "mean_wait_s": 49.5, "median_wait_s": 49.5, "p95_wait_s": 94.05, "max_wait_s": 99},
    }


def test_a_job_of_a_second_is_no_catastrophe():
    outcome = under("fifo", [Submission(at_s=0, run_s=50, size=4), Submission(at_s=0, run_s=1)])
    assert outcome.runs[1].slowdown == 51 / 10


def test_what_has_not_ended_by_the_given_time_stays_without_an_end():
    outcome = under("fifo", BACKFILL, until_s=150)
    assert [(run.start_s, run.end_s) for run in outcome.runs] == [(0, 100), (100, None), (None, None), (None, None)]
    assert (outcome.figures["never_started"], outcome.figures["never_ended"]) == (2, 3)
    assert under("fifo", []).figures["mean_wait_s"] is None


def test_a_gang_that_never_fits_does_not_keep_the_simulation_from_ending():
    outcome = under("greedy", [Submission(at_s=0, run_s=10, size=5), Submission(at_s=0, run_s=10)])
    assert [run.end_s for run in outcome.runs] == [None, 10]


def test_usage_by_queue_and_by_user_over_time():
    work = [
        Submission(at_s=0, run_s=100, size=2, queue="research", user="ann"),
        Submission(at_s=50, run_s=100, size=1, queue="product", user="bob"),
        Submission(at_s=50, run_s=25, size=1, queue="product", user="ann"),
    ]
    outcome = under("fifo", work, queues={"research": 3, "product": 1})
    assert outcome.usage("queue", step_s=50)["research"].tolist() == [2, 2, 0]
    assert outcome.usage("queue", step_s=50)["product"].tolist() == [0, 1.5, 1]
    assert outcome.usage("user", step_s=50, until_s=100)["ann"].tolist() == [2, 2.5]


def test_what_an_eviction_costs_is_counted():
    classes = [a_priority_class("low", 1), a_priority_class("high", 100)]
    work = [
        Submission(at_s=0, run_s=1000, size=10, priority_class="low"),
        Submission(at_s=600, run_s=100, size=1, priority_class="high"),
    ]
    policy = builtin.TEXT.replace("enqueue, ", "")  # or the second would not be admitted to a full cluster
    outcome = simulate(work, nodes("10x1"), policy=policy, others=classes)
    assert outcome.runs[1].start_s == 630  # 30 s to leave
    assert outcome.runs[0].restarts == 1
    assert outcome.runs[0].start_s == 0
    assert outcome.runs[0].end_s == 1730
    assert outcome.figures["lost_gpu_h"] == 10 * 630 / 3600
    assert outcome.figures["evictions"] >= 1


def test_the_same_workload_has_the_same_outcome():
    work = [Submission(at_s=7 * n % 100, run_s=20 + n % 13, size=1 + n % 2, queue=f"q{n % 3}") for n in range(30)]
    first, second = (simulate(work, nodes("2x4")) for _ in range(2))
    assert [(run.start_s, run.end_s) for run in first.runs] == [(run.start_s, run.end_s) for run in second.runs]
    assert first.figures == second.figures
    assert first.figures["never_ended"] == 0


def test_gangs_of_more_than_one_slot_a_pod_and_elastic_ones():
    work = [Submission(at_s=0, run_s=10, size=2, slots=4), Submission(at_s=0, run_s=30, size=3, minimum=1)]
    assert starts(under("greedy", work, "2x4")) == [0, 10]


def test_the_built_in_policy_is_the_one_that_holds_without_a_file():
    assert NAMED["builtin"].text == builtin.TEXT
    assert "reservation" not in NAMED["greedy"].text


WITHOUT_GANGS = """
actions: "enqueue, allocate"
tiers:
- plugins: [{name: priority}, {name: predicates}, {name: nodeorder}]
"""


def test_a_policy_without_gangs_lets_first_pods_hold_their_places_and_counts_what_they_block():
    """The second gang takes the slot that is left, and a job that fits there waits with it."""
    work = [Submission(at_s=0, run_s=100, size=3), Submission(at_s=0, run_s=100, size=3), Submission(at_s=1, run_s=50)]
    outcome = simulate(work, nodes("4x1"), policy=WITHOUT_GANGS)
    assert starts(outcome) == [0, 100, 100]
    assert outcome.figures["blocked_gpu_h"] == 100 / 3600
    assert outcome.figures["deadlocked_s"] == 0  # the first ends, and then there is room
    fair = simulate(work, nodes("4x1"), policy=NAMED["fair-share"].text)
    assert (starts(fair), fair.figures["blocked_gpu_h"]) == ([0, 100, 1], 0)


def test_under_fair_share_who_has_used_least_goes_first():
    work = [
        *(Submission(at_s=number, run_s=100, user="ann") for number in range(3)),
        Submission(at_s=3, run_s=100, user="bob"),
    ]
    outcome = simulate(work, nodes("1x1"), policy=NAMED["fair-share"].text)
    assert outcome.runs[3].start_s == 100


def test_idle_and_stranded_slots_and_fairness_are_counted():
    """Four slots: three run for 100 s, four wait for all of them, and one that would fit waits behind them under FIFO."""
    work = [
        Submission(at_s=0, run_s=100, size=3, user="ann"),
        Submission(at_s=0, run_s=100, size=4, user="bob"),
        Submission(at_s=10, run_s=100, user="bob"),
    ]
    outcome = simulate(work, nodes("4x1"), policy=NAMED["fifo"].text, strict=True)
    assert [run.start_s for run in outcome.runs] == [0, 100, 200]
    assert outcome.stranded() == [(0, 0), (10, 1), (100, 0)]
    assert outcome.figures["stranded_gpu_h"] == 90 / 3600
    assert outcome.figures["idle_gpu_h"] == (4 * 300 - 300 - 400 - 100) / 3600
    slowdowns = (1.0, (2.0 + 2.9) / 2)
    assert outcome.slowdown_by("user") == {"ann": slowdowns[0], "bob": slowdowns[1]}
    assert outcome.figures["fairness"] == sum(slowdowns) ** 2 / (2 * sum(each**2 for each in slowdowns))

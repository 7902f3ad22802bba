"""kube-scheduler's way: pods for themselves, and what that costs gangs."""

import pytest
from tests.unit.scheduling.clusters import a_gang, a_node, a_pod, a_priority_class, flat

from pumice.sim import Submission, nodes
from pumice.sim.one_by_one import OneByOne


def played(work, cluster, **settings):
    simulation = OneByOne(work, nodes(cluster) if isinstance(cluster, str) else cluster, **settings)
    for _ in simulation.steps():
        pass
    return simulation.outcome


def starts(outcome):
    return [run.start_s for run in outcome.runs]


def test_without_competition_gangs_start_when_their_last_pod_has_come():
    """A controller makes 20 pods a second."""
    outcome = played([Submission(at_s=0, run_s=100, size=50)], "50x1")
    assert starts(outcome) == [2]
    assert outcome.figures["blocked_gpu_h"] == (2 * 20 + 1 * 20) / 3600


def test_two_gangs_that_each_hold_what_the_other_needs_are_a_deadlock_until_one_gives_back():
    work = [Submission(at_s=0, run_s=100, size=30), Submission(at_s=0, run_s=100, size=30)]
    stuck = played(work, "40x1", give_back_s=None)
    assert starts(stuck) == [None, None]
    outcome = played(work, "40x1", give_back_s=600, seed=7)
    figures, (first, second) = outcome.figures, sorted(starts(outcome))
    assert 540 <= first <= 660
    assert second == first + 100
    assert figures["give_backs"] == 1
    assert figures["deadlocked_s"] == first
    # Who gave back comes again after 10 s, and holds the 10 slots that the other does not need.
    assert figures["blocked_gpu_h"] == pytest.approx((40 * first + 10 * 90) / 3600)


def test_a_deadlock_that_nobody_ends_is_counted_until_the_last_gang_has_come():
    two = [Submission(at_s=0, run_s=100, size=30), Submission(at_s=0, run_s=100, size=30)]
    outcome = played([*two, Submission(at_s=7200, run_s=100)], "40x1", give_back_s=None)
    assert outcome.figures["never_started"] == 3
    assert outcome.figures["deadlocked_s"] == pytest.approx(7200, abs=5)  # pods come at 20 a second
    assert outcome.figures["blocked_gpu_h"] == pytest.approx(80, abs=0.1)
    outcome.cut_short_s = 3600.0
    assert outcome.figures["deadlocked_s"] == 3600  # who would have come later does not count


def test_what_a_gang_blocks_that_can_never_start_counts_while_others_come_and_run():
    """It tries a thousand times more after all others have ended: that says nothing of the policy."""
    work = [Submission(at_s=0, run_s=3600, size=10), Submission(at_s=0, run_s=100, size=30)]
    outcome = played(work, "20x1", give_back_s=600)
    assert starts(outcome) == [0, None]
    assert outcome.give_backs == 1000
    assert outcome.until_s == 3600
    assert 5 < outcome.figures["blocked_gpu_h"] <= 10


def test_the_same_seed_has_the_same_outcome():
    work = [Submission(at_s=n % 7, run_s=50 + n, size=1 + n * 5 % 17, user=f"u{n % 3}") for n in range(60)]
    assert played(work, "5x8").figures == played(work, "5x8").figures


def test_a_newcomer_passes_pods_whose_back_off_is_not_over():
    """At 20 s the first gang's pods have been tried five times, the last time at 18 s; room that is free at 19 s goes to who comes then."""
    work = [
        *(Submission(at_s=0, run_s=run_s) for run_s in (2, 4, 8, 18, 19)),
        *(Submission(at_s=0, run_s=1000) for _ in range(3)),
        Submission(at_s=1, run_s=10, size=8),
        Submission(at_s=19, run_s=100),
    ]
    outcome = played(work, "8x1", give_back_s=None)
    assert starts(outcome)[-1] == 19


def test_pods_of_higher_priority_are_tried_first():
    work = [
        Submission(at_s=0, run_s=100),
        Submission(at_s=1, run_s=100),
        Submission(at_s=2, run_s=100, priority_class="high"),
    ]
    assert starts(played(work, "1x1", others=[a_priority_class("high", 9)])) == [0, 200, 100]


def test_an_elastic_gang_starts_with_its_minimum():
    assert starts(played([Submission(at_s=0, run_s=10, size=6, minimum=2)], "4x1")) == [0]


def of_dump(gang, **settings):
    group, *pods = flat([gang])
    return Submission(at_s=0, run_s=100, size=len(pods), key="ns/g", objects=(group, *pods), gpus=len(pods), **settings)


def test_selectors_taints_cordons_requests_and_pods_of_others_count():
    machines = [
        a_node("full", gpu=8, cpu="8", labels={"zone": "a"}),
        a_node("other", gpu=8, cpu="8", labels={"zone": "b"}),
        a_node("cordoned", gpu=8, cpu="8", labels={"zone": "a"}, spec={"unschedulable": True}),
        a_node("tainted", gpu=8, cpu="8", labels={"zone": "a"}, taints=["k=v:NoSchedule"]),
    ]
    work = [of_dump(a_gang("g", 2, gpu=1, cpu="1", spec={"nodeSelector": {"zone": "a"}}))]
    assert starts(played(work, machines)) == [0]
    daemon = a_pod("daemon", cpu="7500m", node="full", spec={"schedulerName": "default-scheduler"})
    assert starts(played(work, machines, others=[daemon])) == [None]


def test_a_gang_that_runs_goes_on_where_it_is():
    runs = of_dump(a_gang("g", 2, gpu=4, running=["n1", "n1"]), ran_s=60)
    outcome = played([runs, Submission(at_s=0, run_s=10, slots=8)], [a_node("n1", gpu=8, cpu="64", memory="256Gi")])
    assert [(run.start_s, run.end_s) for run in outcome.runs] == [(0, 40), (40, 50)]

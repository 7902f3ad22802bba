"""Gangs that start without a cycle, while nothing but room decides."""

import pytest

from pumice.instant import SECOND
from pumice.sim import Submission, nodes, simulation
from pumice.sim.policies import NAMED


def a_run(policy, work, cluster="2x4", **settings):
    named = NAMED[policy]
    return simulation.Simulation(
        work, nodes(cluster), policy=named.text, source=policy, strict=named.strict, **settings
    )


def a_job(at_s, size=1, run_s=100, **more):
    return Submission(at_s=at_s, size=size, run_s=run_s, estimate_s=run_s, **more)


def starts(run):
    return [each.start_s for each in run.outcome.runs]


def went(run, until_s=None):
    """How the gangs were started that needed no cycle."""
    return [each for step in run.steps(until_s) for each in step.direct]


@pytest.mark.parametrize("policy", ["fifo", "easy", "conservative"])
def test_while_there_is_room_gangs_start_without_a_cycle_on_the_first_nodes_that_have_some(policy):
    run = a_run(policy, [a_job(0, 3), a_job(1, 3), a_job(2), a_job(200, 8)])
    direct = went(run, until_s=150)
    assert run.ahead.cycles == 1  # the first
    assert [list(each.nodes) for each in direct] == [["node-00000", "node-00001", "node-00001"], ["node-00001"]]
    assert "sim/job-0000001" not in run.ahead.cluster.gangs
    for _ in run.steps():
        pass
    assert starts(run) == [0, 1, 2, 200]  # what ended gave its room back


def test_in_a_strict_queue_nobody_passes_the_first_that_waits_and_no_cycle_is_needed_for_that():
    run = a_run("fifo", [a_job(0), a_job(1, 6), a_job(2, 4), a_job(3), a_job(500)])
    for _ in run.steps():
        pass
    assert starts(run) == [0, 1, 101, 101, 500]
    assert run.ahead.cycles == 3  # for the first and the last gang, and after the last end


def test_the_first_that_does_not_fit_is_decided_by_a_cycle_that_sees_all_that_run():
    run = a_run("easy", [a_job(0), a_job(1, 6), a_job(2, 4), a_job(3, run_s=50), a_job(4, run_s=500), a_job(600)])
    direct = went(run, until_s=2)
    assert [each.ask.gang for each in direct] == ["sim/job-0000001"]
    assert {key for key in run.ahead.cluster.gangs if key != "sim/job-0000002"} == {
        "sim/job-0000000",
        "sim/job-0000001",
    }
    assert [each.ask.gang for each in went(run)] == []  # the last event has a cycle of its own
    assert starts(run) == [0, 1, 101, 3, 53, 600]


@pytest.mark.parametrize("policy", ["builtin", "greedy", "fair-share", "volcano"])
def test_scores_and_what_is_learned_from_starts_and_ends_need_no_cycle(policy):
    run = a_run(policy, [a_job(0, 3), a_job(1, 2, user="ann"), a_job(1, 2, user="bob"), a_job(300, 8), a_job(999)])
    assert len(went(run)) == 3
    assert run.ahead.cycles == 3  # for the first and the last gang, and after the last end
    assert starts(run) == [0, 1, 1, 300, 999]


def test_at_one_instant_who_has_used_least_is_placed_first():
    """The first node has room for one of the two: it is the one of whom has used nothing, although the other came first."""
    past = [a_job(0, 3, 10, user="ann"), a_job(100, 3, 900)]
    rivals = [a_job(200, user="ann"), a_job(200, user="bob")]
    run = a_run("fair-share", [*past, *rivals, a_job(999)])
    where = {each.ask.gang: list(each.nodes) for each in went(run)}
    assert where["sim/job-0000003"] == ["node-00000"]
    assert where["sim/job-0000002"] == ["node-00001"]


def test_who_comes_first_of_several_queues_is_decided_by_a_cycle():
    rivals = [a_job(1, queue="a"), a_job(1, queue="b")]
    run = a_run("fair-share", [a_job(0), *rivals, a_job(2), a_job(999)])
    assert [each.ask.gang for each in went(run)] == ["sim/job-0000003"]
    assert starts(run) == [0, 1, 1, 2, 999]


LIMITED = """
actions: "enqueue, allocate"
tiers:
- plugins: [{name: gang}, {name: user-limits, arguments: {running: 1}}, {name: predicates}]
"""
SHUFFLED = """
actions: "enqueue, allocate, shuffle"
tiers:
- plugins: [{name: gang}, {name: predicates}]
"""
WITH_SLA = """
actions: "enqueue, allocate"
tiers:
- plugins: [{name: gang}, {name: sla}, {name: predicates}]
"""


@pytest.mark.parametrize("text", [LIMITED, SHUFFLED, WITH_SLA])
def test_it_is_not_for_policies_with_more_to_say_of_gangs_that_come_or_run(text):
    work = [a_job(number) for number in range(5)]
    run = simulation.Simulation(work, nodes("2x4"), policy=text, source="mine")
    assert not went(run)
    assert None not in starts(run)


def test_it_is_not_for_run_times_that_are_learned():
    work = [a_job(number) for number in range(5)]
    unknown = [Submission(at_s=number, run_s=10) for number in range(5)]
    assert not went(a_run("easy", unknown))
    assert not went(a_run("builtin", unknown))
    assert went(a_run("fifo", unknown))
    assert not went(a_run("fifo", work, shows_all=True))


def test_while_the_clock_alone_may_change_a_decision_cycles_decide():
    run = a_run("builtin", [a_job(0), a_job(1), a_job(2), a_job(999)])
    for _ in run.steps(until_s=0.5):
        run.ahead._wake = run.ahead.now + 900 * SECOND  # as if the cycle had said so; the next one does not
    assert [each.ask.gang for each in went(run)] == ["sim/job-0000002"]


def test_gangs_with_a_smaller_minimum_are_left_to_cycles():
    run = a_run("fifo", [a_job(0), a_job(1, 4, minimum=2), a_job(2)])
    assert not went(run, until_s=1)
    assert run.ahead.cycles == 2

"""Gangs that start without a cycle, while nothing but room decides."""

import random

import pytest
from tests.unit.scheduling.clusters import a_priority_class

from pumice.instant import SECOND
from pumice.scheduling.time import reservations
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
    run = a_run(
        "conservative", [a_job(0), a_job(1, 6), a_job(2, 4), a_job(3, run_s=50), a_job(4, run_s=500), a_job(600)]
    )
    direct = went(run, until_s=2)
    assert [each.ask.gang for each in direct] == ["sim/job-0000001"]
    assert {key for key in run.ahead.cluster.gangs if key != "sim/job-0000002"} == {
        "sim/job-0000000",
        "sim/job-0000001",
    }
    assert [each.ask.gang for each in went(run)] == []  # the last event has a cycle of its own
    assert starts(run) == [0, 1, 101, 3, 53, 600]


def test_beside_one_reservation_gangs_wait_and_pass_without_a_cycle():
    """The third waits until 101 s; the fourth is gone by then, and the fifth leaves room enough."""
    run = a_run("easy", [a_job(0), a_job(1, 6), a_job(2, 4), a_job(3, run_s=50), a_job(4, run_s=500), a_job(600)])
    assert len(went(run)) == 4
    assert run.ahead.cycles == 3  # for the first and the last gang, and after the last end
    assert starts(run) == [0, 1, 101, 3, 53, 600]


def test_a_reservation_that_gets_earlier_or_later_than_was_thought_needs_no_cycle():
    """The second ends early, and the fourth starts at 100 s and not at 101 s. The third ends late, and who is gone by then passes the fifth."""
    early = Submission(at_s=1, size=4, run_s=50, estimate_s=100)
    late = Submission(at_s=2, size=2, run_s=300, estimate_s=100)
    waiting = [a_job(3, 6), a_job(110, 8), a_job(203, 2, run_s=50), a_job(204, run_s=500)]
    run = a_run("easy", [a_job(0), early, late, *waiting, a_job(999)])
    assert len(went(run)) == 6
    assert starts(run) == [0, 1, 2, 100, 302, 203, 402, 999]


def test_what_is_kept_up_of_the_reserved_time_is_what_would_be_added_up_anew():
    chance, at_s, work = random.Random(7), 0.0, [a_job(0)]
    for _ in range(80):
        at_s += chance.random() * 60
        run_s = chance.randint(20, 300)
        off = chance.choice((0.3, 0.8, 1, 2))
        work.append(Submission(at_s=at_s, size=chance.choice((1, 2, 3, 6)), run_s=run_s, estimate_s=run_s * off))
    run, looked_at = a_run("easy", work), set()
    for _ in run.steps():
        turns = run.ahead._passage.direct._turns
        profile = turns.reservation._profile if turns is not None else None
        for mark in profile._marks if profile is not None else ():
            assert (mark.freed == profile.freed(mark.at)).all()
            looked_at.add(mark.at)
    assert len(looked_at) > 40


def test_who_comes_later_and_has_the_first_turn_takes_the_reservation_over():
    """In one second names decide: who comes at 1.6 s has its turn before who came at 1.2 s, and needs all nodes. The last would not be gone by then."""
    first, other = a_job(1.6, 8, run_s=20), a_job(1.2, 2, run_s=50)
    run = a_run("easy", [a_job(0, 7, run_s=30), first, other, a_job(1.7, run_s=50), a_job(999)])
    assert len(went(run)) == 3
    assert starts(run) == [0, 30, 50, 50, 999]


EASY, FAIR = NAMED["easy"].text, NAMED["fair-share"].text


@pytest.mark.parametrize(
    ("text", "strict", "waits_here"),
    [
        (EASY, False, True),
        (FAIR, False, True),
        (EASY, True, False),
        (EASY.replace("depth: 1", "depth: 2"), False, False),
        (EASY.replace("depth: 1", "depth: 1, queue-depth: 0"), False, False),
        (EASY.replace("patience: 0s", "patience: 1m"), False, True),
        (EASY.replace("depth: 1", "depth: 1, queues: other"), False, False),
        (EASY.replace("  - name: predicates", "  - name: predicates\n  - name: proportion"), False, True),
        (EASY.replace("  - name: predicates", "  - name: predicates\n  - name: sla"), False, False),
        (EASY.replace("allocate", "allocate, preempt"), False, True),
        (EASY.replace("allocate", "allocate, backfill, preempt"), False, False),
        (EASY + "breakDeadlocks: true\n", False, True),
        (FAIR.replace("name: fairshare", "name: fairshare\n    arguments: {factors: {age: 1}}"), False, False),
    ],
)
def test_gangs_wait_beside_the_open_session_only_where_plugins_know_all_that_decides_of_them(text, strict, waits_here):
    work = [a_job(0), a_job(1, 6), a_job(2, 4), a_job(999)]
    run = simulation.Simulation(work, nodes("2x4"), policy=text, source="mine", strict=strict)
    for _ in run.steps(until_s=3):
        pass
    assert ("sim/job-0000002" in run.ahead.cluster.gangs) is not waits_here


def test_a_session_that_is_closed_hands_its_reservation_to_the_next_cycle():
    work = [a_job(0, 7), a_job(1, 8), a_job(2, priority_class="high"), a_job(3, run_s=300), a_job(999)]
    run = a_run("easy", work, others=[a_priority_class("high", 9)])
    for _ in run.steps(until_s=2):
        pass
    (kept,) = run.ahead.memory.of(reservations.SLOT).kept
    assert (kept.gang, kept.since - run.begin) == ("sim/job-0000001", 1 * SECOND)
    for _ in run.steps():
        pass
    assert starts(run) == [0, 102, 2, 202, 999]


@pytest.mark.parametrize("policy", ["builtin", "greedy", "fair-share", "volcano"])
def test_scores_and_what_is_learned_from_starts_and_ends_need_no_cycle(policy):
    run = a_run(policy, [a_job(0, 3), a_job(1, 2, user="ann"), a_job(1, 2, user="bob"), a_job(300, 8), a_job(999)])
    assert len(went(run)) == 3
    assert run.ahead.cycles == 3  # for the first and the last gang, and after the last end
    assert starts(run) == [0, 1, 1, 300, 999]


@pytest.mark.parametrize("policy", ["builtin", "greedy", "volcano", "fair-share"])
def test_gangs_of_one_queue_wait_and_pass_without_a_cycle(policy):
    """The third waits until 101 s; the fourth finds room, and so does the fifth when that is gone."""
    run = a_run(policy, [a_job(0), a_job(1, 6), a_job(2, 4), a_job(3, run_s=50), a_job(4, run_s=500), a_job(600)])
    assert len(went(run)) == 4
    assert run.ahead.cycles == 3  # for the first and the last gang, and after the last end
    assert starts(run) == [0, 1, 101, 3, 53, 600]


@pytest.mark.parametrize(("policy", "starts_at"), [("builtin", 1000), ("greedy", 1400)])
def test_who_has_been_patient_gets_a_reservation_that_others_leave_alone_without_a_cycle(policy, starts_at):
    """Two at a time of those that are smaller find room beside the first gang, over and over."""
    small = [a_job(2 + 20 * number, 2, run_s=400) for number in range(6)]
    run = a_run(policy, [a_job(0, 6, run_s=1000), a_job(1, 8), *small, a_job(9999)])
    assert len(went(run)) == 7
    assert starts(run)[1] == starts_at


@pytest.mark.parametrize(("policy", "starts_at"), [("volcano", 2000), ("greedy", 303), ("builtin", 302)])
def test_who_is_admitted_without_a_cycle_depends_on_who_was_admitted_before(policy, starts_at):
    """Two nodes with room for one pod of one slot each: to the pod of two slots that is admitted it is of no use, and it keeps the last gang out.

    Under `volcano` for ever; under `greedy` until it gives its admission back after five minutes; under `builtin` until the last gang has been patient.
    """
    run = a_run(policy, [a_job(0, 2, run_s=2000, slots=3), a_job(1, slots=2), a_job(2), a_job(9999)])
    assert len(went(run)) == 2
    assert starts(run) == [0, 2000, starts_at, 9999]


def test_after_some_cycles_gangs_wait_without_them_again():
    """What is of two queues needs cycles; later, all that wait are of one."""
    rivals = [a_job(1, 8, queue="other"), a_job(2, 8)]
    work = [a_job(0, 8), *rivals, *[a_job(150 + 5 * number, 4) for number in range(80)]]
    run = a_run("builtin", work)
    direct = {each.ask.gang for each in went(run)}
    assert not direct & {"sim/job-0000001", "sim/job-0000002"}
    assert len(direct) > 40
    assert run.ahead.cycles < 60


def test_who_has_been_gathered_is_there_when_a_cycle_has_to_decide():
    """With a rhythm, the third is to be looked at a minute after the second; before that, one comes that only a cycle can decide."""
    work = [a_job(0, 8), a_job(1, 8), a_job(30, 8), a_job(40, priority_class="high")]
    run = a_run("builtin", work, rhythm=60 * SECOND, others=[a_priority_class("high", 9)])
    assert not went(run, until_s=35)
    assert run.ahead.cycles == 1
    for _ in run.steps():
        pass
    assert None not in starts(run)
    assert starts(run)[1] < starts(run)[2]


def test_who_has_been_gathered_and_may_start_with_fewer_members_is_left_to_a_cycle():
    """They are looked at at 121: of the third gang half starts beside the second one."""
    work = [a_job(0, 8), a_job(1, 6), a_job(30, 4, minimum=2), a_job(9999)]
    run = a_run("builtin", work, rhythm=60 * SECOND)
    direct = {each.ask.gang for each in went(run)}
    assert "sim/job-0000002" not in direct
    assert starts(run)[1:3] == [121, 121]


def test_at_one_instant_who_has_used_least_is_placed_first():
    """The first node has room for one of the two: it is the one of whom has used nothing, although the other came first."""
    past = [a_job(0, 3, 10, user="ann"), a_job(100, 3, 900)]
    rivals = [a_job(200, user="ann"), a_job(200, user="bob")]
    run = a_run("fair-share", [*past, *rivals, a_job(999)])
    where = {each.ask.gang: list(each.nodes) for each in went(run)}
    assert where["sim/job-0000003"] == ["node-00000"]
    assert where["sim/job-0000002"] == ["node-00001"]


def test_of_gangs_that_wait_that_of_the_user_who_has_used_least_starts_first_without_a_cycle():
    run = a_run("fair-share", [a_job(0, 8, user="ann"), a_job(10, 8, user="ann"), a_job(20, 8, user="bob"), a_job(999)])
    assert len(went(run)) == 2
    assert run.ahead.cycles == 3  # for the first and the last gang, and after the last end
    assert starts(run) == [0, 200, 100, 999]


def test_gangs_of_several_queues_that_wait_under_fair_shares_are_left_to_cycles():
    run = a_run("fair-share", [a_job(0, 8), a_job(10, 8, queue="a"), a_job(20, 8, queue="b"), a_job(999)])
    assert not went(run, until_s=50)
    assert {"sim/job-0000001", "sim/job-0000002"} <= run.ahead.cluster.gangs.keys()
    for _ in run.steps():
        pass
    assert sorted(starts(run)) == [0, 100, 200, 999]


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

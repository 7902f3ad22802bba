"""consolidate: gangs start again elsewhere, so that one that waits has its room in one piece."""

import pytest
from tests.unit.scheduling.clusters import (
    NOW,
    a_gang,
    a_node,
    a_priority_class,
    binds,
    evicted,
    plan_for,
    policy,
    promised,
    report,
    when,
)

from pumice import instant
from pumice.scheduling.core.memory import EMPTY
from pumice.scheduling.evicting import backoff
from pumice.scheduling.evicting.moving import SLOT, Spent

MOVABLE = {"annotations": {"pumice.dev/movable": "true"}}
GPUS = 8


def consolidating(**arguments):
    item = {"name": "consolidate", "arguments": {"minRuntimeSeconds": 0, "maxLostGpuHours": 1000, **arguments}}
    return policy("allocate, consolidate", "priority gang conformance", "predicates binpack", configurations=[item])


PLAIN = consolidating()


def nodes(count, gpu=GPUS):
    return [a_node(f"n{number}", cpu="99", gpu=gpu) for number in range(count)]


def runs(name, *where, gpu=2, group=MOVABLE, **more):
    own = {"phase": "Running", **group}
    more = {"status": {"startTime": when(0)}, **more}
    return a_gang(name, len(where), gpu=gpu, cpu="1", running=list(where), group=own, **more)


def wants(name="big", size=1, gpu=GPUS, **more):
    return a_gang(name, size, gpu=gpu, cpu="1", **more)


def test_a_movable_gang_makes_room_in_one_piece_and_has_room_elsewhere():
    decisions = plan_for(nodes(2), runs("a", "n0"), runs("b", "n1"), wants(), policy=PLAIN)
    assert len(evicted(decisions)) == 1
    assert promised(decisions).keys() == {"big-w-0"}
    assert {(each.rule, each.claimant) for each in decisions.evictions} == {("consolidate", "default/big")}
    (claim,) = decisions.claims
    assert claim.gang == "default/big"


@pytest.mark.parametrize("group", [{}, {"annotations": {"pumice.dev/movable": "false"}}])
def test_a_gang_that_does_not_say_so_is_left_alone(group):
    decisions = plan_for(nodes(2), runs("a", "n0", group=group), runs("b", "n1", group=group), wants(), policy=PLAIN)
    assert not decisions.evictions


def test_a_gang_whose_work_is_safe_may_be_moved():
    safe = {"annotations": {"pumice.dev/checkpointed-at": when(3000)}}
    decisions = plan_for(nodes(2), runs("a", "n0", group={}, **safe), runs("b", "n1", group={}), wants(), policy=PLAIN)
    assert evicted(decisions) == ["a-w-0"]


def test_members_beyond_the_minimum_may_be_moved_and_the_gang_runs_on():
    elastic = runs("a", "n0", "n1", group={}, min_member=1)
    decisions = plan_for(nodes(2), elastic, wants(), policy=PLAIN)
    assert evicted(decisions) == ["a-w-1"]


def test_a_gang_goes_whole_or_not_at_all():
    """Both members go: the gang starts again as one, on what is left."""
    pair = runs("pair", "n0", "n1")
    decisions = plan_for(nodes(3), pair, runs("c", "n2", gpu=2), wants(size=2), policy=PLAIN)
    gone = set(evicted(decisions))
    assert not gone & {"pair-w-0", "pair-w-1"} or {"pair-w-0", "pair-w-1"} <= gone


def test_nobody_is_moved_who_would_have_no_room_elsewhere():
    decisions = plan_for(nodes(2), runs("a", "n0", gpu=5), runs("b", "n1", gpu=5), wants(), policy=PLAIN)
    assert not decisions.evictions


def test_the_cheapest_gang_is_moved_and_no_more_than_needed():
    cheap = runs("cheap", "n1", annotations={"pumice.dev/checkpointed-at": when(3500)})
    decisions = plan_for(nodes(3), runs("a", "n0"), cheap, runs("c", "n2"), wants(), policy=PLAIN)
    assert evicted(decisions) == ["cheap-w-0"]


def test_a_gang_of_higher_priority_is_not_moved():
    high = {**MOVABLE, "priority_class": "high"}
    world = [a_priority_class("high", 9), nodes(2), runs("a", "n0", group=high), runs("b", "n1", group=high), wants()]
    assert not plan_for(*world, policy=PLAIN).evictions


# ------------------------------------------------------------------------------------------------- what it may cost


def test_work_that_is_lost_is_weighed_against_what_is_gained():
    """Each has run for an hour on 2 GPUs: 2 GPU-hours. A gang of 8 GPUs that would wait for a tenth of an hour gains 0.8."""
    world = [nodes(2), runs("a", "n0"), runs("b", "n1"), wants()]
    assert not plan_for(*world, policy=consolidating(gainHours=0.1)).evictions
    assert plan_for(*world, policy=consolidating(gainHours=0.5)).evictions


def test_there_is_a_budget_by_the_hour():
    world = [nodes(2), runs("a", "n0"), runs("b", "n1"), wants()]
    assert not plan_for(*world, policy=consolidating(maxLostGpuHours=1)).evictions
    decisions = plan_for(*world, policy=consolidating(maxLostGpuHours=3))
    assert decisions.memory.of(SLOT) == Spent(NOW, 2 * 3600)
    again = {"policy": consolidating(maxLostGpuHours=3), "memory": decisions.memory}
    too_soon = plan_for(*world, **again, now=NOW + 30 * instant.SECOND)
    assert (too_soon.evictions, too_soon.next_change) == ((), NOW + instant.HOUR)
    later = EMPTY.after([(SLOT, Spent(NOW - 2 * instant.HOUR, 2 * 3600))])[0]
    assert plan_for(*world, policy=consolidating(maxLostGpuHours=3), memory=later).evictions


def test_a_gang_that_started_lately_is_left_alone():
    """For the first hour after NOW: then there is a cycle, though nothing happens."""
    world = [nodes(2), runs("a", "n0"), runs("b", "n1"), wants()]
    decisions = plan_for(*world, policy=consolidating(minRuntimeSeconds=7200))
    assert (decisions.evictions, decisions.next_change) == ((), NOW + instant.HOUR)


def test_where_moving_came_to_nothing_there_is_a_cycle_when_it_is_tried_again():
    world = [nodes(2), runs("a", "n0"), runs("b", "n1"), wants()]
    first = plan_for(*world, policy=consolidating(gainHours=0.1))
    again = plan_for(*world, policy=consolidating(gainHours=0.1), memory=first.memory, now=NOW + instant.SECOND)
    assert again.next_change == NOW + backoff.PAUSE_FIRST


def test_a_gang_of_which_no_node_says_since_when_it_runs_counts_as_just_started_however_old_its_pods_are():
    unsaid = {"startTime": None}
    world = [nodes(2), *(runs(name, where, status=unsaid) for name, where in (("a", "n0"), ("b", "n1"))), wants()]
    assert plan_for(*world, policy=PLAIN).evictions
    assert not plan_for(*world, policy=consolidating(minRuntimeSeconds=600)).evictions


def test_so_many_gangs_are_served_in_one_cycle():
    world = [nodes(4), [runs(f"r{each}", f"n{each}") for each in range(4)], wants("x"), wants("y")]
    assert {each.claimant for each in plan_for(*world, policy=PLAIN).evictions} == {"default/x"}
    two = plan_for(*world, policy=consolidating(maxGangs=2))
    assert {each.claimant for each in two.evictions} == {"default/x", "default/y"}


def test_a_gang_is_told_that_moving_would_not_help():
    decisions = plan_for(nodes(2), runs("a", "n0"), runs("b", "n1", group={}), wants(size=2), policy=PLAIN)
    assert not decisions.evictions
    said = [reason.text for reason in report(decisions, "big").reasons]
    assert any("moving everything that may be moved would make room for 1 of 2" in text for text in said)


def test_a_gang_that_must_be_close_is_not_moved():
    close = {**MOVABLE, "spec": {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}}
    decisions = plan_for(nodes(2), runs("a", "n0", group=close), runs("b", "n1", group=close), wants(), policy=PLAIN)
    assert not decisions.evictions
    assert binds(decisions) == {}

"""Queues' limits beside pods that were asked to go, of which nobody knows yet that they do."""

import pytest
from tests.unit.scheduling.clusters import (
    NOW,
    a_gang,
    a_node,
    a_priority_class,
    a_queue,
    evicted,
    plan_for,
    policy,
    promised,
    report,
    started,
)

from pumice import instant
from pumice.api import changes
from pumice.api.changes import PodRef
from pumice.cluster import edits
from pumice.scheduling.core import builtin

GPU = "nvidia.com/gpu"
BUILT_IN = builtin.parse(builtin.TEXT, "built-in policy")
CAPACITY = policy("enqueue, allocate, preempt, reclaim", "priority gang conformance", "predicates capacity")
TREE = policy(
    "enqueue, allocate, preempt, reclaim",
    "priority gang conformance",
    ["predicates", {"name": "capacity", "enableHierarchy": True}],
)
MACHINE = a_node("n1", cpu="64", gpu="8")


def having(name, queue, pods, *, gpus=1, **more):
    return a_gang(name, pods, gpu=gpus, running=["n1"] * pods, group={"queue": queue, "phase": "Running"}, **more)


def wanting(name, queue, pods, *, gpus=1, **more):
    return a_gang(name, pods, gpu=gpus, group={"queue": queue, **more.pop("group", {})}, **more)


def asked_to_go(*pods):
    """As the scheduler notes it when it decides that they leave."""
    return [changes.Evicting(pod=PodRef.of(each.metadata), node="n1", at=NOW) for each in pods]


def deleted(*pods):
    """As the watch shows them once the API server has accepted that."""
    return [changes.Upserted(edits.leaving(each, NOW)) for each in pods]


@pytest.mark.parametrize("chosen", [BUILT_IN, CAPACITY, TREE])
def test_nobody_starts_in_what_is_left_of_a_limit_by_pods_of_which_nobody_knows_that_they_go(chosen):
    """Their eviction may be refused, or they were given notice, and it is withdrawn: then the queue would hold six of its four GPUs."""
    running = having("r", "a", 4)
    world = [MACHINE, a_queue("a", capability={GPU: "4"}), a_queue("b"), wanting("next", "a", 2, created=5), running]
    leaving = running[1:3]
    decisions = plan_for(*world, asked_to_go(*leaving), policy=chosen)
    assert started(decisions) == {}
    assert evicted(decisions) == []
    assert report(decisions, "next").reasons[0].text == "2 of its 2 pods have got a place that others must leave first"
    assert started(plan_for(*world, asked_to_go(*leaving), deleted(*leaving), policy=chosen)) == {"next": 2}


def test_a_limit_above_the_queue_counts_them_too():
    """Those that go are of another queue of the same branch."""
    queues = [a_queue("root"), a_queue("team", capability={GPU: "4"}), a_queue("a", parent="team"), a_queue("b", parent="team")]  # fmt: skip
    running = having("r", "a", 4)
    world = [MACHINE, queues, running, wanting("next", "b", 2)]
    assert started(plan_for(*world, asked_to_go(*running[1:3]), policy=TREE)) == {}
    assert started(plan_for(*world, deleted(*running[1:3]), policy=TREE)) == {"next": 2}


def test_where_the_limit_has_room_for_both_nobody_waits_for_them():
    running = having("r", "a", 4)
    world = [MACHINE, a_queue("a", capability={GPU: "6"}), wanting("next", "a", 2)]
    assert started(plan_for(*world, running, asked_to_go(*running[1:3]), policy=BUILT_IN)) == {"next": 2}


def test_who_asks_for_nothing_of_what_they_hold_waits_for_none_of_them():
    running = having("r", "a", 4)
    world = [MACHINE, a_queue("a", capability={GPU: "4"}), a_gang("next", 1, cpu="1", group={"queue": "a"})]
    assert started(plan_for(*world, running, asked_to_go(*running[1:3]), policy=BUILT_IN)) == {"next": 1}


def test_what_is_promised_to_a_gang_does_not_come_on_top_of_those_that_leave_for_it():
    """`urgent` starts when `low` has left: the queue never holds more than two GPUs of theirs, and `small` is the third."""
    urgent = wanting("urgent", "a", 2, group={"priority_class": "high"})
    queue = a_queue("a", capability={GPU: "4"})
    world = [a_priority_class("high", 9), a_node("n1", gpu="2"), queue, having("low", "a", 2), urgent]
    decisions = plan_for(*world, policy=BUILT_IN)
    leaving, claims = asked_to_go(*(each.task.pod for each in decisions.evictions)), decisions.claims
    assert len(leaving) == 2
    more = [a_node("n2", gpu="1"), wanting("small", "a", 1, created=9)]
    decisions = plan_for(*world, more, leaving, map(changes.Claimed, claims), policy=BUILT_IN)
    assert started(decisions) == {"small": 1}
    assert promised(decisions) == {"urgent-w-0": "n1", "urgent-w-1": "n1"}


def test_nothing_is_lent_to_a_queue_from_which_others_take_back_until_its_pods_go():
    """`s` found room beside `r` when `t` had taken back three GPUs from it: for as long as `r` stayed, one that is kept for `b` was gone."""
    queues = [a_queue("a"), a_queue("b", guarantee={GPU: "1"})]
    wants = [wanting("s", "a", 2, created=5), wanting("t", "b", 1, gpus=3, created=6), wanting("large", "a", 8, created=9)]  # fmt: skip
    running = having("r", "a", 2, gpus=3)
    decisions = plan_for(MACHINE, queues, running, wants, policy=BUILT_IN)
    assert (started(decisions), evicted(decisions)) == ({}, ["r-w-1"])
    assert decisions.next_change == NOW + instant.SECOND

"""lend: a queue below its share exceeds it by less than one gang, in room that nobody could use within a share."""

import pytest
from tests.unit.scheduling.clusters import (
    a_gang,
    a_node,
    a_priority_class,
    a_queue,
    evicted,
    plan_for,
    policy,
    report,
    started,
)

from pumice.api import changes
from pumice.scheduling.core import builtin

BUILT_IN = builtin.parse(builtin.TEXT, "built-in policy")
AS_VOLCANO = policy(
    "enqueue, allocate, preempt, reclaim, backfill", "priority gang conformance", "drf predicates proportion nodeorder"
)
GPU = "nvidia.com/gpu"
MACHINE = a_node("n1", cpu="64", memory="256Gi", gpu="8")
QUEUES = [a_queue(name) for name in "abc"]


def wanting(name, queue, gpus, **more):
    return a_gang(name, gpus, gpu="1", group={"queue": queue}, **more)


def having(name, queue, gpus, **more):
    return a_gang(name, gpus, gpu="1", running=["n1"] * gpus, group={"queue": queue, "phase": "Running"}, **more)


def of_each(gpus):
    return [wanting(f"of-{queue}", queue, gpus) for queue in "abc"]


def test_gangs_that_no_share_is_large_enough_for_start_on_an_idle_cluster():
    """Eight cards, three queues with 2.67 each, gangs of four: two start, and the third queue is next."""
    decisions = plan_for(MACHINE, QUEUES, of_each(4), policy=BUILT_IN)
    assert started(decisions) == {"of-a": 4, "of-b": 4}
    text = report(decisions, "of-c").reasons[0].text
    assert text.startswith("queue c deserves 2.667 nvidia.com/gpu, the gang's minimum is 4")


def test_a_policy_file_that_does_not_list_it_leaves_them_waiting_as_volcano_does():
    assert started(plan_for(MACHINE, QUEUES, of_each(4), policy=AS_VOLCANO)) == {}


def test_a_queue_that_has_its_share_gets_no_more():
    running = having("r", "a", 3)  # of 2.67
    assert started(plan_for(MACHINE, QUEUES, running, of_each(4), policy=BUILT_IN)) == {"of-b": 4}


def test_each_queue_exceeds_its_share_by_one_gang_at_most():
    more = [wanting(f"more-{queue}", queue, 3, created=5) for queue in "ab"]
    decisions = plan_for(a_node("n1", cpu="64", gpu="11"), QUEUES[:2], [wanting("a1", "a", 4), wanting("b1", "b", 3)], more, policy=BUILT_IN)  # fmt: skip
    assert started(decisions) == {"a1": 4, "b1": 3, "more-b": 3}  # 5.5 each: b lacks 2.5, and then a finds one card


def test_who_fits_within_its_share_comes_first_whatever_the_order_of_queues():
    """a and b may not exceed theirs where c, which comes last, can use the room within its own."""
    gangs = [wanting("of-a", "a", 4), wanting("of-b", "b", 4), wanting("c1", "c", 2, created=9)]
    assert started(plan_for(MACHINE, QUEUES, gangs, policy=BUILT_IN)) == {"c1": 2, "of-a": 4}


def test_a_queue_in_which_others_leave_for_a_gang_is_lent_nothing_meanwhile():
    """Else `urgent` finds its queue's share lent to `other` when `low` has left, `other` has to leave for it, `low` is lent that share, and so on."""
    high = a_priority_class("high", 9)
    low = a_gang("low", 2, gpu="1", running=["n1"] * 2, group={"queue": "a", "phase": "Running"})
    urgent = a_gang("urgent", 2, gpu="1", group={"queue": "a", "priority_class": "high"})
    rivals = [wanting("of-b", "b", 8), wanting("of-c", "c", 8)]
    world = [high, MACHINE, QUEUES, urgent, wanting("other", "a", 2, created=9), rivals]
    decisions = plan_for(*world, low, policy=BUILT_IN)
    assert sorted(evicted(decisions)) == ["low-w-0", "low-w-1"]
    assert started(decisions) == {}
    assert started(plan_for(*world, changes.Claimed(decisions.claims[0]), policy=BUILT_IN)) == {"urgent": 2, "other": 2}


def test_what_is_guaranteed_to_others_is_not_lent():
    queues = [a_queue("a"), a_queue("b"), a_queue("idle", guarantee={GPU: "5"})]
    gangs = [wanting("of-a", "a", 4), wanting("of-b", "b", 4)]
    assert started(plan_for(MACHINE, queues, gangs, policy=BUILT_IN)) == {}


def test_a_capability_stands():
    queues = [a_queue(name, capability={GPU: "3"}) for name in "abc"]
    assert started(plan_for(MACHINE, queues, of_each(4), policy=BUILT_IN)) == {}


def test_a_closed_queue_is_lent_nothing():
    queues = [a_queue("a", state="Closed"), *QUEUES[1:]]
    assert "of-a" not in started(plan_for(MACHINE, queues, of_each(4), policy=BUILT_IN))


@pytest.mark.parametrize("gpus", [5, 8])
def test_nobody_is_evicted_for_a_gang_beyond_its_share(gpus):
    running = [having("r", "b", 4), having("s", "c", 4)]
    decisions = plan_for(MACHINE, QUEUES, running, wanting("w", "a", gpus), policy=BUILT_IN)
    assert started(decisions) == {}
    assert evicted(decisions) == []

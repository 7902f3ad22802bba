"""What would start a waiting gang: single changes, each planned by the engine."""

import pytest
from tests.unit.scheduling.clusters import (
    NOW,
    a_cluster,
    a_gang,
    a_hyper_node,
    a_node,
    a_priority_class,
    a_queue,
    when,
)

from pumice.api import names
from pumice.scheduling.core import builtin
from pumice.scheduling.whatif import single_changes
from pumice.scheduling.whatif.suggestion import Kind
from pumice.scheduling.whatif.trial import Question

POLICY = builtin.parse(builtin.TEXT, "built-in policy")


def suggestions(*things, gang="big", **options):
    question = Question(a_cluster(*things).snapshot(), POLICY, NOW)
    return single_changes.suggestions(question, question.plan(question.snapshot), f"default/{gang}", **options)


def texts(*things, gang="big"):
    return [each.text for each in suggestions(*things, gang=gang).found]


def nodes(count, gpu=8, **more):
    return [a_node(f"n{number}", cpu="64", gpu=gpu, **more) for number in range(count)]


def test_fewer_members_fewer_gpus_the_end_of_another_gang_or_more_nodes_are_named_with_their_numbers():
    world = [*nodes(2), a_gang("other", 1, gpu=4, running=["n0"]), a_gang("big", 4, gpu=4)]
    assert texts(*world) == [
        "with 3 members that must start together instead of 4",
        "with 2 nvidia.com/gpu a pod instead of 4",
        "when default/other has ended",
        "with a priority above 1 (evicts 1 pod of default/other)",
        "with 1 more node like n0",
    ]


def test_fewer_gpus_are_named_where_a_gang_behind_has_taken_the_cpus_of_the_one_that_asks_too_much():
    world = [a_node("n0", cpu="4", gpu=2), a_gang("big", 1, cpu="2", gpu=4), a_gang("later", 1, cpu="4", created=9)]
    assert "with 2 nvidia.com/gpu a pod instead of 4" in texts(*world)


def test_a_gang_that_starts_anyway_or_that_nothing_helps_gets_no_suggestion():
    assert texts(*nodes(1), a_gang("big", 1, gpu=64, spec={"nodeSelector": {"zone": "mars"}})) == []


@pytest.mark.parametrize("size", [1, 3])
def test_a_taint_is_named_with_the_toleration_that_it_takes(size):
    world = [*nodes(1, taints=["team=vision:NoSchedule"]), a_gang("big", size, gpu=1)]
    assert texts(*world)[0] == "with a toleration of the taint team=vision:NoSchedule"


def test_a_node_selector_that_no_node_with_room_has_is_named():
    world = [*nodes(1, labels={"zone": "a"}), a_gang("big", 2, gpu=1, spec={"nodeSelector": {"zone": "b"}})]
    assert texts(*world)[0] == "without the node selector zone=b"


def test_a_priority_is_named_with_whom_it_evicts():
    low = a_gang("low", 2, min_member=2, gpu=8, running=["n0", "n1"], priority=100, group={"priority_class": "normal"})
    world = [a_priority_class("normal", 100), a_priority_class("urgent", 900), *nodes(2), low, a_gang("big", 1, gpu=8)]
    found = {each.kind: each for each in suggestions(*world).found}
    assert found[Kind.PRIORITY].text == (
        "with a priority above 100, such as that of PriorityClass urgent (evicts 1 pod of default/low)"
    )
    assert found[Kind.PRIORITY].victims == {"default/low": 1}


def test_another_queue_is_named_where_the_queue_is_the_obstacle():
    queues = [a_queue("small", capability={"nvidia.com/gpu": "1"}), a_queue("wide")]
    world = [*queues, *nodes(1), a_gang("big", 2, gpu=1, group={"queue": "small", "minimum": {"nvidia.com/gpu": "2"}})]
    assert texts(*world)[0] == "in queue wide"


def test_a_wider_tier_is_named_where_no_hyper_node_is_large_enough():
    racks = [a_hyper_node(f"r{number}", 1, nodes=[f"n{number}"]) for number in range(2)]
    close = {"spec": {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}}
    world = [*nodes(2), *racks, a_hyper_node("hall", 2, children=["r0", "r1"]), a_gang("big", 2, gpu=8, group=close)]
    assert "with highestTierAllowed 2 instead of 1" in texts(*world)


def test_what_a_gang_ahead_would_take_is_not_promised_to_this_one():
    ahead = a_gang("ahead", 1, gpu=8, created=0)
    world = [*nodes(1), a_gang("other", 1, gpu=8, running=["n0"]), ahead, a_gang("big", 1, gpu=8, created=9)]
    assert texts(*world) == [
        "with a priority above 1 (evicts 1 pod of default/other)",
        "with 2 more nodes like n0",
    ]


def test_no_more_plans_are_made_than_allowed_and_their_number_is_told():
    world = [*nodes(2), a_gang("other", 1, gpu=4, running=["n0"]), a_gang("big", 4, gpu=4)]
    found = suggestions(*world, plans=2)
    assert (len(found.found), found.tried, found.limit) == (1, 2, 2)


def test_a_gang_that_has_started_gets_no_suggestion_for_its_other_members():
    assert texts(*nodes(1), a_gang("big", 2, min_member=1, gpu=8, running=["n0"])) == []


def test_a_time_limit_is_named_where_the_gang_would_end_before_others_need_the_room():
    ends = {"annotations": {names.TIME_LIMIT: "90m"}}
    runs = a_gang("runs", 1, gpu=4, running=["n0"], group=ends, status={"startTime": when(0)})
    large = a_gang("large", 1, gpu=8, created=0)
    world = [*nodes(1), runs, large, a_gang("big", 1, gpu=4, created=9)]
    assert texts(*world)[0] == (
        "with a time limit of 30m0s (annotation pumice.dev/time-limit): it would end before others need the room"
    )

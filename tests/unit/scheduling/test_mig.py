"""Partitions of cards that were cut beforehand (MIG), as NVIDIA's device plugin names them: resources of their own, by profile."""

import collections

import pytest
from tests.unit.scheduling.clusters import a_gang, a_node, a_pod, a_queue, binds, plan_for, policy

from pumice.scheduling.core import builtin
from pumice.scheduling.core.decisions import Stranded

POLICY = builtin.parse(builtin.TEXT, "built-in policy")
SMALL, LARGE = "nvidia.com/mig-1g.5gb", "nvidia.com/mig-3g.20gb"
MIXED = {"nvidia.com/mig.strategy": "mixed", "nvidia.com/mig-1g.5gb.count": "7"}


def cut(name, **more):
    """A node with a card cut into seven, unless said otherwise."""
    return a_node(name, cpu="96", memory="768Gi", labels=MIXED, more={SMALL: 7, **more})


def per_node(decisions):
    return sorted(collections.Counter(binds(decisions).values()).values(), reverse=True)


def reasons(decisions, gang):
    return [reason.text for reason in decisions.gangs[f"default/{gang}"].reasons]


def test_a_pod_gets_a_partition_of_the_profile_that_it_names():
    world = [cut("small"), cut("large", **{SMALL: 0, LARGE: 2}), a_node("whole", gpu=8)]
    assert binds(plan_for(*world, a_gang("g", 1, more={LARGE: 1}), policy=POLICY)) == {"g-w-0": "large"}
    assert len(binds(plan_for(*world, a_gang("g", 7, more={SMALL: 1}), policy=POLICY))) == 7


def test_what_is_lacking_is_named_by_its_profile():
    decisions = plan_for(cut("n1"), a_node("whole", gpu=8), a_gang("g", 8, more={SMALL: 1}), policy=POLICY)
    assert binds(decisions) == {}
    assert "8 such pods must start together (cpu 1, nvidia.com/mig-1g.5gb 1 each)" in reasons(decisions, "g")[0]
    busy = a_pod("busy", more={SMALL: 5}, node="n1")
    decisions = plan_for(cut("n1"), busy, a_gang("h", 3, more={SMALL: 1}), policy=POLICY)
    assert "nvidia.com/mig-1g.5gb: 2 left of 7, the gang asks for 3" in reasons(decisions, "h")[0]


@pytest.mark.parametrize("asks", [{"cpu": "8", "memory": "64Gi"}, {"cpu": "1"}])
def test_partitions_are_packed_and_leave_whole_cards_for_others(asks):
    nodes = [cut(f"n{number}") for number in range(3)]
    lone = [a_gang(f"lone-{number}", 1, more={SMALL: 1}, **asks) for number in range(7)]
    assert per_node(plan_for(*nodes, *lone, policy=POLICY)) == [7]


def test_pods_without_gpus_stay_off_nodes_with_partitions_while_others_have_room():
    busy = a_pod("busy", cpu="1", memory="90Gi", node="plain", spec={"schedulerName": "other"})
    world = [cut("cut"), a_node("plain", cpu="10", memory="100Gi"), busy]
    assert set(binds(plan_for(*world, a_gang("web", 2, cpu="4"), policy=POLICY)).values()) == {"plain"}


@pytest.mark.parametrize("sharing", ["proportion", "capacity"])
def test_a_quota_of_partitions_is_one_of_its_profile_and_a_quota_of_gpus_says_nothing_of_them(sharing):
    chosen = policy("enqueue, allocate", "gang predicates", sharing)
    queue = a_queue("team", capability={SMALL: "2", "nvidia.com/gpu": "1"})
    world = [cut("n1", **{LARGE: 2}), a_node("whole", gpu=8), queue]

    def started(number, **asks):
        gang = a_gang("g", number, group={"queue": "team", "minimum": None}, **asks)
        return len(binds(plan_for(*world, gang, policy=chosen)))

    assert (started(2, more={SMALL: 1}), started(3, more={SMALL: 1})) == (2, 0)
    assert (started(1, gpu=1), started(2, gpu=1)) == (1, 0)
    assert started(2, more={LARGE: 1}) == 2  # of this profile nothing was said


def test_partitions_that_are_free_and_of_no_use_are_counted_by_profile():
    held = [a_pod(f"p{number}", more={SMALL: 5}, node=f"n{number}") for number in range(2)]
    decisions = plan_for(cut("n0"), cut("n1"), held, a_gang("g", 1, more={SMALL: 3}), policy=POLICY)
    assert Stranded(SMALL, 3, 4, 0, 1) in decisions.stranded


def test_cards_of_the_single_strategy_are_counted_as_gpus_and_told_apart_by_their_labels():
    labels = {"nvidia.com/mig.strategy": "single", "nvidia.com/gpu.product": "A100-MIG-1g.5gb"}
    world = [a_node("cut", gpu=7, labels=labels), a_node("whole", gpu=8, labels={"nvidia.com/gpu.product": "A100"})]
    selector = {"spec": {"nodeSelector": {"nvidia.com/gpu.product": "A100-MIG-1g.5gb"}}}
    assert binds(plan_for(*world, a_gang("g", 1, gpu=1, **selector), policy=POLICY)) == {"g-w-0": "cut"}

"""What can never run here is said at once, in numbers; what only waits is not called hopeless."""

import pytest
from tests.unit.scheduling.clusters import a_gang, a_group, a_node, a_pod, plan_for, policy, report

POLICY = policy("allocate, backfill", "priority gang", "predicates")
GPU = "nvidia.com/gpu"


def reasons(*things, gang="g", policy=POLICY):
    return [reason.text for reason in report(plan_for(*things, policy=policy), gang).reasons]


def hopeless(*things, **more):
    return [text for text in reasons(*things, **more) if text.startswith("can never run here")]


def test_a_gang_larger_than_the_empty_cluster_is_told_so_in_numbers():
    assert hopeless(a_node("n1", cpu="2"), a_node("n2", cpu="3"), a_gang("g", 6)) == [
        (
            "can never run here: 6 such pods must start together (cpu 1 each), "
            "and the nodes that may take them hold 5 even when empty"
        )
    ]


def test_fragments_of_nodes_do_not_add_up():
    assert hopeless(a_node("n1", cpu="3"), a_node("n2", cpu="3"), a_gang("g", 3, cpu="2")) == [
        (
            "can never run here: 3 such pods must start together (cpu 2 each), "
            "and the nodes that may take them hold 2 even when empty"
        )
    ]


def test_only_nodes_that_may_take_the_pods_count():
    nodes = [a_node("n1", cpu="8"), a_node("n2", cpu="1", labels={"zone": "east"})]
    east = {"nodeSelector": {"zone": "east"}}
    assert hopeless(nodes, a_gang("g", 2, spec=east))
    assert not hopeless(nodes, a_gang("g", 1, spec=east))


def test_a_minimum_beyond_the_cluster_names_every_resource_that_is_short():
    group = {"minimum": {"cpu": "9", "memory": "64Gi", GPU: "2"}, "phase": "Pending"}
    admitting = policy("enqueue, allocate", "priority gang", "overcommit")
    assert hopeless(a_node("n1", cpu="4", memory="16Gi"), a_gang("g", 1, group=group), policy=admitting) == [
        (
            "can never run here: its minimum asks for more than the whole cluster has "
            "(cpu 9 of 4; memory 64Gi of 16Gi; nvidia.com/gpu 2 of 0)"
        )
    ]


def test_gpus_given_as_limits_count():
    limits = {"containers": [{"name": "main", "resources": {"limits": {GPU: "4"}}}]}
    assert hopeless(a_node("n1", gpu=4), a_gang("g", 2, spec=limits)) == [
        (
            "can never run here: 2 such pods must start together (nvidia.com/gpu 4 each), "
            "and the nodes that may take them hold 1 even when empty"
        )
    ]


def test_a_full_cluster_is_no_reason_to_lose_hope():
    assert not hopeless(a_node("n1", cpu="2"), a_gang("busy", 2, running=["n1", "n1"]), a_gang("g", 2))


def test_members_beyond_the_minimum_are_not_needed():
    assert not hopeless(a_node("n1", cpu="2"), a_gang("g", 6, min_member=2))
    assert hopeless(a_node("n1", cpu="2"), a_gang("g", 6, min_member=3))


def test_members_of_another_shape_may_stand_in():
    small, large = a_pod("g-w-0", gang="g", cpu="1"), [a_pod(f"g-l-{number}", gang="g", cpu="9") for number in range(2)]
    assert not hopeless(a_node("n1", cpu="4"), a_group("g", 1), small, large)
    assert hopeless(a_node("n1", cpu="4"), a_group("g", 2), small, large)


def test_members_that_ask_for_nothing_stand_in_too():
    idle = [a_pod(f"g-i-{number}", gang="g", cpu=None) for number in range(2)]
    demanding = [a_pod(f"g-w-{number}", gang="g", cpu="2") for number in range(3)]
    assert not hopeless(a_node("n1", cpu="2"), a_group("g", 3), idle, demanding)
    assert hopeless(a_node("n1", cpu="2"), a_group("g", 4), idle, demanding)


def test_members_that_run_already_are_not_needed_again():
    assert not hopeless(a_node("n1", cpu="4"), a_gang("g", 3, min_member=3, running=["n1"], cpu="1"))


@pytest.mark.parametrize("nodes", [[], [a_node("n1", cpu="0")]])
def test_a_cluster_without_room_holds_nothing(nodes):
    assert hopeless(nodes, a_gang("g", 2))[0].endswith("hold 0 even when empty")
    assert hopeless(nodes, a_gang("g", 1)) == [
        "can never run here: no node could take such a pod (cpu 1), even when empty"
    ]


def test_the_hopeless_reason_comes_first():
    texts = reasons(a_node("n1", cpu="1"), a_gang("g", 2))
    assert texts[0].startswith("can never run here")
    assert texts[1:] == ["Insufficient cpu"]

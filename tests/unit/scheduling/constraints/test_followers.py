"""Members that share a volume or devices which are still to be chosen: the first goes where the others find room, too."""

import pytest
from tests.unit.scheduling.clusters import (
    a_gang,
    a_group,
    a_hyper_node,
    a_node,
    a_pod,
    a_queue,
    binds,
    evicted,
    plan_for,
    policy,
    promised,
    report,
)
from tests.unit.scheduling.constraints import test_claims, test_volumes
from tests.unit.scheduling.constraints.test_volumes import a_claim, a_volume, with_claim

POLICY = policy("allocate, backfill", "gang predicates")
NEW = test_volumes.a_class(provisioner="disk.example.com")  # makes volumes on any node
OLD = test_volumes.a_class()  # has those that are there
DATA = with_claim("data")


def reached_from(*names):
    near = {"key": "kubernetes.io/hostname", "operator": "In", "values": list(names)}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [near]}]}}


def plan(*things):
    return plan_for(*things, policy=POLICY)


def test_a_gang_goes_to_a_node_that_takes_all_of_it():
    nodes = [a_node("n1", cpu="2"), a_node("n2", cpu="3"), a_node("n3", cpu="2")]
    decisions = plan(nodes, NEW, a_claim(), a_gang("train", 3, spec=DATA))
    assert set(binds(decisions).values()) == {"n2"}
    assert len(binds(decisions)) == 3


def test_members_that_ask_for_different_things_need_room_side_by_side():
    nodes = [a_node("n1", cpu="4"), a_node("n2", cpu="2", gpu="4"), a_node("n3", cpu="4", gpu="4")]
    members = [a_pod("lead", gang="train", cpu="2", spec=DATA), *[
        a_pod(f"work-{number}", gang="train", cpu="1", gpu="2", spec=DATA) for number in range(2)
    ]]  # fmt: skip
    decisions = plan(nodes, NEW, a_claim(), a_group("train", 3), members)
    assert binds(decisions) == dict.fromkeys(["lead", "work-0", "work-1"], "n3")


def test_a_member_that_does_not_share_goes_where_it_likes():
    members = [a_pod("lead", gang="train"), *[
        a_pod(f"work-{number}", gang="train", spec=DATA) for number in range(2)
    ]]  # fmt: skip
    decisions = plan(a_node("n1", cpu="1"), a_node("n2", cpu="2"), NEW, a_claim(), a_group("train", 3), members)
    assert binds(decisions) == {"lead": "n1", "work-0": "n2", "work-1": "n2"}


def test_where_no_node_takes_all_as_many_as_must_start_together_are_enough():
    nodes = [a_node("n1", cpu="1"), a_node("n2", cpu="2"), a_node("n3", cpu="1")]
    decisions = plan(nodes, NEW, a_claim(), a_gang("train", 4, min_member=2, spec=DATA))
    assert binds(decisions) == dict.fromkeys(["train-w-0", "train-w-1"], "n2")


def test_a_node_that_takes_all_is_better_than_one_that_takes_the_minimum():
    nodes = [a_node("n1", cpu="2"), a_node("n2", cpu="4")]
    decisions = plan(nodes, NEW, a_claim(), a_gang("train", 4, min_member=2, spec=DATA))
    assert set(binds(decisions).values()) == {"n2"}
    assert len(binds(decisions)) == 4


def test_as_many_as_must_start_together_are_those_that_come_before_the_last_of_a_role_that_is_lacking():
    nodes = [a_node("n1", cpu="2"), a_node("n2", cpu="4")]
    work = [a_pod(f"work-{number}", gang="train", role="work", created=number, spec=DATA) for number in range(2)]
    lead = a_pod("lead", gang="train", role="lead", cpu="2", created=5, spec=DATA)
    more = a_pod("more", gang="train", role="work", created=9, spec=DATA)
    group = a_group("train", 2, roles={"lead": 1, "work": 1})
    decisions = plan(nodes, NEW, a_claim(), group, work, lead, more)
    assert binds(decisions) == dict.fromkeys(["work-0", "work-1", "lead"], "n2")


def test_a_volume_that_several_nodes_reach_takes_the_gang_to_all_of_them():
    nodes = [a_node(f"n{number}", cpu="2") for number in (1, 2, 3)]
    volumes = [a_volume("near", node="n1"), a_volume("wide", nodeAffinity=reached_from("n2", "n3"))]
    decisions = plan(nodes, OLD, volumes, a_claim(), a_gang("train", 4, spec=DATA))
    assert sorted(binds(decisions).values()) == ["n2", "n2", "n3", "n3"]


def test_of_volumes_that_a_node_reaches_it_would_be_the_first_that_counts():
    """At n1 the gang would get a volume that no other node reaches, although another one reaches both."""
    nodes = [a_node("n1", cpu="1"), a_node("n2", cpu="1")]
    volumes = [a_volume("1", node="n1"), a_volume("2", nodeAffinity=reached_from("n1", "n2"))]
    decisions = plan(nodes, OLD, volumes, a_claim(), a_gang("train", 2, spec=DATA))
    assert sorted(binds(decisions).values()) == ["n1", "n2"]


def test_members_that_ask_for_different_things_need_room_beside_one_another_on_the_nodes_that_reach_a_volume():
    nodes = [a_node("n1", cpu="2"), a_node("n2", cpu="2"), a_node("n3", cpu="2")]
    volumes = [a_volume("near", node="n1"), a_volume("wide", nodeAffinity=reached_from("n2", "n3"))]
    members = [a_pod("lead", gang="train", cpu="2", spec=DATA), *[
        a_pod(f"work-{number}", gang="train", cpu="1", spec=DATA) for number in range(2)
    ]]  # fmt: skip
    decisions = plan(nodes, OLD, volumes, a_claim(), a_group("train", 3), members)
    assert sorted(binds(decisions).values()) in (["n2", "n2", "n3"], ["n2", "n3", "n3"])


def test_those_that_fit_least_often_are_seen_to_first():
    """Side by side at n2 and n3 they fit only if the small one leaves n2 to the large one."""
    nodes = [a_node("n1", cpu="1"), a_node("n2", cpu="2"), a_node("n3", cpu="1")]
    volumes = [a_volume("near", node="n1"), a_volume("wide", nodeAffinity=reached_from("n2", "n3"))]
    members = [
        a_pod("small", gang="train", cpu="1", spec=DATA, created=0),
        a_pod("large", gang="train", cpu="2", spec=DATA, created=1),
    ]
    fuller_first = policy("allocate", "gang predicates binpack")
    decisions = plan_for(nodes, OLD, volumes, a_claim(), a_group("train", 2), members, policy=fuller_first)
    assert binds(decisions) == {"small": "n3", "large": "n2"}


def test_a_volume_that_was_reserved_for_the_claim_is_counted_with():
    nodes = [a_node("n1", cpu="1"), a_node("n2", cpu="2")]
    held = a_volume("held", node="n2", claim={"namespace": "default", "name": "data", "uid": "data"})
    decisions = plan(nodes, OLD, a_volume("near", node="n1"), held, a_claim(), a_gang("train", 2, spec=DATA))
    assert binds(decisions) == dict.fromkeys(["train-w-0", "train-w-1"], "n2")


def test_room_that_is_there_comes_before_room_that_others_still_leave():
    leaving = a_pod("old", node="n1", cpu="2", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    nodes = [a_node("n1", cpu="3"), a_node("n2", cpu="2")]
    gang = a_gang("train", 3, min_member=2, spec=DATA)
    decisions = plan(nodes, leaving, NEW, a_claim(), gang)
    assert binds(decisions) == dict.fromkeys(["train-w-0", "train-w-1"], "n2")


def test_a_gang_that_fits_nowhere_waits_and_says_what_the_others_run_into():
    decisions = plan(a_node("n1", cpu="1"), a_node("n2", cpu="1"), NEW, a_claim(), a_gang("train", 2, spec=DATA))
    assert binds(decisions) == {}
    codes = [each.code.value for each in report(decisions, "train").reasons]
    assert "Insufficient" in codes
    assert "VolumeNotFound" in codes


def test_a_gang_that_has_to_be_close_stays_so():
    nodes = [a_node("n0"), a_node("a1", cpu="1"), a_node("a2", cpu="2")]
    close = {"spec": {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}}
    gang = a_gang("train", 2, group=close, spec=DATA)
    near = policy("allocate", "gang", "predicates network-topology-aware")
    decisions = plan_for(nodes, a_hyper_node("rack", 1, nodes=["a1", "a2"]), NEW, a_claim(), gang, policy=near)
    assert binds(decisions) == dict.fromkeys(["train-w-0", "train-w-1"], "a2")


def test_room_beyond_the_nodes_that_a_gang_has_to_stay_in_is_of_no_use_to_the_others():
    """The volume at a1 has room for both, but one of them in another rack."""
    nodes = [a_node("a1", cpu="1"), a_node("b1", cpu="1"), a_node("b2", cpu="1"), a_node("far", cpu="4")]
    volumes = [a_volume("one", nodeAffinity=reached_from("a1", "far")), a_volume("two", nodeAffinity=reached_from("b1", "b2"))]  # fmt: skip
    rack = a_hyper_node("rack", 1, nodes=["a1", "b1", "b2"])
    close = {"spec": {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}}
    gang = a_gang("train", 2, group=close, spec=DATA)
    near = policy("allocate", "gang", "predicates network-topology-aware")
    decisions = plan_for(nodes, rack, OLD, volumes, a_claim(), gang, policy=near)
    assert sorted(binds(decisions).values()) == ["b1", "b2"]


def test_parts_that_have_to_be_close_find_room_each_in_its_own_rack():
    rule = {"name": "part", "subGroupSize": 2, "matchLabelKeys": ["part"]}
    rule["networkTopology"] = {"mode": "hard", "highestTierAllowed": 1}
    pods = [a_pod(f"p-{part}-{number}", gang="train", labels={"part": part}, spec=DATA) for part in "01" for number in (0, 1)]  # fmt: skip
    racks = {rack: [f"{rack}{number}" for number in range(1, 5)] for rack in "ab"}
    nodes = [(a_hyper_node(rack, 1, nodes=names), [a_node(name, cpu="1") for name in names]) for rack, names in racks.items()]  # fmt: skip
    volumes = [a_volume("1", nodeAffinity=reached_from("a1", "a2")), a_volume("2", nodeAffinity=reached_from("b1", "b2")),
               a_volume("3", nodeAffinity=reached_from("a3", "a4", "b3", "b4"))]  # fmt: skip
    gang = a_group("train", 4, spec={"subGroupPolicy": [rule]})
    near = policy("allocate", "gang", "predicates network-topology-aware")
    decisions = plan_for(nodes, OLD, volumes, a_claim(), gang, pods, policy=near)
    assert sorted(binds(decisions).values()) == ["a3", "a4", "b3", "b4"]


def test_devices_that_members_share_take_them_to_a_node_with_room_for_all():
    pytest.importorskip("cel_expr_python.cel", reason="no CEL engine for this machine")
    spec = {"resourceClaims": [{"name": "gpu", "resourceClaimName": "claim"}]}
    offers = [test_claims.a_slice("n1", "a"), test_claims.a_slice("n2", "a"), test_claims.a_slice("n3", "a")]
    nodes = [a_node("n1", cpu="1"), a_node("n2", cpu="3"), a_node("n3", cpu="2")]
    decisions = plan(nodes, offers, test_claims.a_class(), test_claims.a_claim(), a_gang("train", 3, spec=spec))
    assert set(binds(decisions).values()) == {"n2"}
    assert len(binds(decisions)) == 3


def test_others_leave_where_all_find_room():
    """gangreclaim: of what victims leave and what is free, a place is taken that is good for all."""
    queues = [a_queue("mine"), a_queue("theirs")]
    old = a_gang("old", 1, cpu="2", running=["n2"], group={"queue": "theirs", "phase": "Running"})
    nodes = [a_node("n1", cpu="1"), a_node("n2", cpu="2")]
    new = a_gang("new", 2, group={"queue": "mine"}, spec=DATA)
    reclaiming = policy("gangreclaim", "gang conformance", "predicates")
    decisions = plan_for(queues, nodes, NEW, a_claim(), old, new, policy=reclaiming)
    assert evicted(decisions) == ["old-w-0"]
    assert promised(decisions) == dict.fromkeys(["new-w-0", "new-w-1"], "n2")

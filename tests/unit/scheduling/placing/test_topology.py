"""Gangs that want to be close together: two racks of two nodes under one hall, and a node outside of both."""

import pytest
from tests.unit.scheduling.clusters import (
    a_gang,
    a_group,
    a_hyper_node,
    a_node,
    a_pod,
    binds,
    plan_for,
    policy,
    promised,
    report,
    session_for,
    started,
)

from pumice.scheduling.actions import allocate
from pumice.scheduling.core.verdict import Cure

CLOSE = policy("allocate", "gang network-topology-aware predicates")


def halls(cpu="2", *, racks=("a", "b"), nodes=2):
    """Racks of equal nodes `a1`, `a2`, `b1`..., all in one hall, and `lone`, a node in no rack."""
    return [
        [a_node(f"{rack}{number}", cpu=cpu) for rack in racks for number in range(1, nodes + 1)],
        a_node("lone", cpu=cpu),
        [
            a_hyper_node(rack, 1, nodes=[f"{rack}{number}" for number in range(1, nodes + 1)], tier_name="rack")
            for rack in racks
        ],
        a_hyper_node("hall", 2, children=list(racks), tier_name="hall"),
    ]


def hard(tier=None, *, name=None):
    limit = {"highestTierName": name} if name else {"highestTierAllowed": tier} if tier is not None else {}
    return {"spec": {"networkTopology": {"mode": "hard", **limit}}}


SOFT = {"spec": {"networkTopology": {"mode": "soft"}}}


def racks_of(decisions):
    return {node[:-1] for node in binds(decisions).values()}


def reasons(decisions, gang):
    return [reason.text for reason in report(decisions, gang).reasons]


# ------------------------------------------------------------------------------------------------- hard limits


def test_a_gang_that_fits_into_one_rack_starts_in_one_rack():
    decisions = plan_for(halls(), a_gang("train", 2, cpu="2", group=hard(1)), policy=CLOSE)
    assert started(decisions) == {"train": 2}
    assert len(racks_of(decisions)) == 1


def test_a_gang_too_large_for_any_rack_waits_and_hears_how_much_room_there_is():
    decisions = plan_for(halls(), a_gang("train", 3, cpu="2", group=hard(1)), policy=CLOSE)
    assert started(decisions) == {}
    text = "hyper node a has room for 2 of the 3 members that must be close together, and no other within the allowed tiers has more"
    assert text in reasons(decisions, "train")
    assert "In hyperNode a: 0/2 nodes are unavailable: 2 Insufficient cpu." in report(decisions, "train").message


def test_a_gang_too_large_for_any_rack_starts_in_the_hall_where_it_may():
    decisions = plan_for(halls(), a_gang("train", 3, cpu="2", group=hard(2)), policy=CLOSE)
    assert started(decisions) == {"train": 3}
    assert "lone" not in binds(decisions).values()


def test_a_gang_as_large_as_everything_waits_for_the_hall():
    assert started(plan_for(halls(), a_gang("train", 5, cpu="2", group=hard(2)), policy=CLOSE)) == {}


def test_a_lower_tier_beats_any_score_of_a_higher_one():
    busy = a_pod("busy", node="lone", cpu="1")
    decisions = plan_for(
        halls(),
        busy,
        a_gang("train", 2, cpu="1", group=hard(3)),
        policy=policy("allocate", "gang binpack network-topology-aware"),
    )
    assert len(racks_of(decisions)) == 1
    assert "lone" not in binds(decisions).values()


def test_the_fuller_of_two_racks_that_fit_is_taken():
    busy = a_pod("busy", node="b1", cpu="1")
    decisions = plan_for(halls("4"), busy, a_gang("train", 2, cpu="2", group=hard(1)), policy=CLOSE)
    assert racks_of(decisions) == {"b"}


def test_a_rack_with_enough_room_in_sum_but_not_on_any_node_is_passed_over():
    busy = [a_pod(f"busy-{number}", node=f"a{number}", cpu="1") for number in (1, 2)]
    decisions = plan_for(halls(), busy, a_gang("train", 1, cpu="2", group=hard(1)), policy=CLOSE)
    assert racks_of(decisions) == {"b"}


def test_a_tier_may_be_given_by_name():
    assert started(plan_for(halls(), a_gang("train", 3, cpu="2", group=hard(name="hall")), policy=CLOSE)) == {
        "train": 3
    }
    assert started(plan_for(halls(), a_gang("train", 3, cpu="2", group=hard(name="rack")), policy=CLOSE)) == {}


def test_a_tier_name_that_no_hyper_node_has_keeps_the_gang_waiting_and_says_so():
    decisions = plan_for(halls(), a_gang("train", 1, cpu="1", group=hard(name="hal")), policy=CLOSE)
    assert started(decisions) == {}
    (reason,) = [each for each in report(decisions, "train").reasons if "tier name" in each.text]
    assert reason.cure is Cure.CHANGE
    assert reason.text == (
        "no hyper node has the tier name 'hal' of highestTierName; known are hall, rack: correct the one or the other"
    )


def test_a_hard_wish_without_a_limit_allows_every_node():
    assert started(plan_for(halls(), a_gang("train", 5, cpu="2", group=hard()), policy=CLOSE)) == {"train": 5}


def test_a_broken_tree_stops_only_gangs_that_want_closeness():
    broken = a_hyper_node("other", 2, children=["a"])
    decisions = plan_for(
        halls(),
        broken,
        a_gang("close", 1, group=hard(1)),
        a_gang("plain", 1),
        policy=policy("allocate", "gang network-topology-aware"),
    )
    assert started(decisions) == {"plain": 1}
    assert any("two parents" in text for text in reasons(decisions, "close"))


def test_without_the_plugin_a_wish_for_closeness_is_not_known():
    decisions = plan_for(halls(), a_gang("train", 5, cpu="2", group=hard(1)), policy=policy("allocate", "gang"))
    assert started(decisions) == {"train": 5}


# ------------------------------------------------------------------------------------------------- soft wishes


def test_a_soft_wish_is_met_where_it_can_be():
    decisions = plan_for(halls(), a_gang("train", 2, cpu="2", group=SOFT), policy=CLOSE)
    assert len(racks_of(decisions)) == 1


def test_a_soft_wish_does_not_keep_a_gang_from_starting():
    assert started(plan_for(halls(), a_gang("train", 5, cpu="2", group=SOFT), policy=CLOSE)) == {"train": 5}


# ------------------------------------------------------------------------------------------------- growing and waiting


def test_a_member_that_comes_later_joins_the_rack_of_the_others():
    gang = a_gang("train", 2, min_member=1, cpu="1", running=["b1"], group=hard(1))
    crowd = a_pod("crowd", node="a1", cpu="1")  # the other rack is as full, and first by name
    decisions = plan_for(halls(), crowd, gang, policy=CLOSE)
    assert racks_of(decisions) == {"b"}


def test_a_member_that_finds_no_room_near_the_others_waits():
    gang = a_gang("train", 3, min_member=1, cpu="2", running=["b1", "b2"], group=hard(1))
    assert started(plan_for(halls(), gang, policy=CLOSE)) == {}


def test_a_soft_gang_grows_into_the_next_rack():
    gang = a_gang("train", 3, min_member=1, cpu="2", running=["b1", "b2"], group=SOFT)
    assert racks_of(plan_for(halls(), gang, policy=CLOSE)) == {"a"}


def test_members_further_apart_than_allowed_get_no_company():
    gang = a_gang("train", 3, min_member=1, cpu="1", running=["a1", "b2"], group=hard(1))
    decisions = plan_for(halls(), gang, policy=CLOSE)
    assert started(decisions) == {}
    assert any("members run in hyper node hall of tier 2" in text for text in reasons(decisions, "train"))


def test_an_elastic_gang_starts_with_its_minimum_and_grows_within_its_rack():
    gang = a_gang("train", 4, min_member=2, cpu="1", group=hard(1))
    decisions = plan_for(halls(), gang, policy=CLOSE)
    assert started(decisions) == {"train": 4}
    assert len(racks_of(decisions)) == 1


def test_a_gang_is_promised_a_rack_whose_pods_are_leaving():
    leaving = [
        a_pod(f"old-{node}", node=node, cpu="2", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
        for node in ("a1", "b1", "b2")
    ]
    stays = a_pod("stays", node="a2", cpu="1")
    decisions = plan_for(halls(), leaving, stays, a_gang("train", 2, cpu="2", group=hard(1)), policy=CLOSE)
    assert started(decisions) == {}
    assert set(promised(decisions).values()) == {"b1", "b2"}


# ------------------------------------------------------------------------------------------------- minimums


def test_a_rack_is_not_tried_where_the_gangs_minimum_does_not_fit():
    gang = a_gang("train", 1, cpu="1", group={**hard(1), "minimum": {"cpu": "5"}})
    decisions = plan_for(halls(), gang, policy=CLOSE)
    assert started(decisions) == {}
    assert "no hyper node within tier 1 has room for its minimum (cpu 5)" in reasons(decisions, "train")


def test_a_minimum_of_something_that_no_node_has_fits_nowhere():
    gang = a_gang("train", 1, cpu="1", group={**hard(1), "minimum": {"example.com/card": "1"}})
    assert started(plan_for(halls(), gang, policy=CLOSE)) == {}


# ------------------------------------------------------------------------------------------------- sub gangs


def parts(name, sizes, *, size, minimum=0, tier=None, gang_tier=None, cpu="2", **group):
    """A gang whose pods are labelled by part, and a policy that keeps each part together."""
    rule = {"name": "part", "subGroupSize": size, "matchLabelKeys": ["part"], "minSubGroups": minimum}
    if tier is not None:
        rule["networkTopology"] = {"mode": "hard", "highestTierAllowed": tier}
    spec = {"subGroupPolicy": [rule]}
    if gang_tier is not None:
        spec["networkTopology"] = {"mode": "hard", "highestTierAllowed": gang_tier}
    pods = [
        a_pod(f"{name}-{part}-{number}", gang=name, cpu=cpu, labels={"part": str(part)})
        for part, count in enumerate(sizes)
        for number in range(count)
    ]
    return [a_group(name, group.pop("min_member", sum(sizes)), spec=spec, **group), pods]


def rack_of_parts(decisions, name):
    found = {}
    for pod, node in binds(decisions).items():
        found.setdefault(pod.removeprefix(f"{name}-")[0], set()).add(node[:-1])
    return found


def test_each_part_stays_in_a_rack_and_the_whole_in_the_hall():
    decisions = plan_for(halls(), parts("train", [2, 2], size=2, tier=1, gang_tier=2), policy=CLOSE)
    assert started(decisions) == {"train": 4}
    found = rack_of_parts(decisions, "train")
    assert {len(racks) for racks in found.values()} == {1}
    assert found["0"] != found["1"]


def test_parts_that_fit_into_no_rack_keep_the_gang_waiting():
    assert started(plan_for(halls(), parts("train", [3, 1], size=3, tier=1), policy=CLOSE)) == {}


def test_parts_may_be_far_apart_where_only_each_part_must_be_close():
    decisions = plan_for(halls(racks=("a", "b", "c")), parts("train", [2, 2, 2], size=2, tier=1), policy=CLOSE)
    assert started(decisions) == {"train": 6}


def test_as_many_parts_start_as_the_policy_needs():
    gang = parts("train", [2, 2, 2], size=2, minimum=2, tier=1, min_member=4)
    assert started(plan_for(halls(), gang, policy=CLOSE)) == {"train": 4}
    gang = parts("train", [2, 2, 2], size=2, minimum=3, tier=1, min_member=4)
    assert started(plan_for(halls(), gang, policy=CLOSE)) == {}


def test_parts_that_the_policy_needs_come_first():
    """Of two policies only the second asks for a number of parts, and there is room for one part."""
    rules = [
        {"name": "x", "subGroupSize": 2, "matchLabelKeys": ["x"]},
        {"name": "y", "subGroupSize": 2, "matchLabelKeys": ["y"], "minSubGroups": 1},
    ]
    pods = [a_pod(f"p-{label}-{number}", gang="g", cpu="2", labels={label: "0"}) for label in "xy" for number in (0, 1)]
    nodes = [a_node("n1", cpu="2"), a_node("n2", cpu="2")]
    decisions = plan_for(nodes, a_group("g", 2, spec={"subGroupPolicy": rules}), pods, policy=CLOSE)
    assert set(binds(decisions)) == {"p-y-0", "p-y-1"}


def test_a_soft_part_keeps_within_the_limit_of_its_gang():
    spec = {
        "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
        "subGroupPolicy": [
            {"name": "part", "subGroupSize": 2, "matchLabelKeys": ["part"], "networkTopology": {"mode": "soft"}}
        ],
    }
    pods = [a_pod(f"p-{number}", gang="g", cpu="2", labels={"part": "0"}) for number in range(2)]
    decisions = plan_for(halls(), a_group("g", 2, spec=spec), pods, policy=CLOSE)
    assert len(racks_of(decisions)) == 1


def test_pods_of_no_part_count_alone():
    gang = [*parts("train", [2], size=2, tier=1, min_member=3), a_pod("extra", gang="train", cpu="2")]
    assert started(plan_for(halls(), gang, policy=CLOSE)) == {"train": 3}


# ------------------------------------------------------------------------------------------------- no trace


@pytest.mark.parametrize("size", [3, 5])
def test_a_search_that_fails_leaves_no_trace(size):
    session = session_for(halls(), a_gang("train", size, cpu="2", group=hard(1)), policy=CLOSE)
    before = {name: getattr(session.room, name).copy() for name in ("idle", "used", "future", "viewed", "pipelined")}
    allocate.run(session)
    for name, column in before.items():
        assert (getattr(session.room, name) == column).all()
    gang = session.gangs["default/train"]
    assert gang.hyper_node == ""
    assert not gang.places


def test_a_gang_that_starts_records_where_it_is():
    session = session_for(halls(), parts("train", [2, 2], size=2, tier=1, gang_tier=2), policy=CLOSE)
    allocate.run(session)
    gang = session.gangs["default/train"]
    assert gang.hyper_node == "hall"
    assert {sub.hyper_node for sub in gang.subs} == {"a", "b"}

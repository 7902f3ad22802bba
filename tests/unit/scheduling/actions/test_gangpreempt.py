"""gangpreempt: gangs of one queue, the higher-ranked at the cost of the lower-ranked."""

import pytest
from tests.unit.scheduling.clusters import (
    a_gang,
    a_hyper_node,
    a_node,
    a_pod,
    a_priority_class,
    a_queue,
    binds,
    evicted,
    plan_for,
    policy,
    promised,
    report,
)

from pumice.scheduling.core.policy import PolicyError

CLASSES = [a_priority_class("low", 1), a_priority_class("middle", 5), a_priority_class("high", 9)]
PLAIN = policy("gangpreempt", "priority gang conformance", "predicates network-topology-aware")


def ranked(name, size, rank, *, group=None, **more):
    return a_gang(name, size, group={"priority_class": rank, "phase": "Running", **(group or {})}, **more)


def waiting(name, size, rank="high", *, group=None, **more):
    return ranked(name, size, rank, group={"phase": "Inqueue", **(group or {})}, **more)


def decide(*things, policy=PLAIN):
    return plan_for(CLASSES, *things, policy=policy)


def nodes(*names, cpu="2"):
    return [a_node(name, cpu=cpu) for name in names]


def allow_whole(allowed):
    item = {"name": "gangpreempt", "arguments": {"allowWholeBundle": allowed}}
    return policy("gangpreempt", "priority gang", "predicates network-topology-aware", configurations=[item])


def test_a_lower_ranked_gang_makes_room_for_a_higher_ranked_one():
    decisions = decide(
        nodes("n1", "n2"), ranked("old", 2, "low", cpu="2", running=["n1", "n2"]), waiting("new", 2, cpu="2")
    )
    assert sorted(evicted(decisions)) == ["old-w-0", "old-w-1"]
    assert promised(decisions) == {"new-w-0": "n1", "new-w-1": "n2"}
    assert binds(decisions) == {}
    assert {(each.rule, each.claimant) for each in decisions.evictions} == {("gangpreempt", "default/new")}
    assert "falls below its minimum" in decisions.evictions[0].cause.text


def test_the_room_that_is_made_is_claimed_for_the_gang():
    decisions = decide(nodes("n1"), ranked("old", 1, "low", cpu="2", running=["n1"]), waiting("new", 1, cpu="2"))
    (claim,) = decisions.claims
    assert claim.gang == "default/new"
    assert claim.victims == ("default/old-w-0",)
    assert {pod.nominated_node for pod in report(decisions, "new").pods} == {"n1"}


@pytest.mark.parametrize("rank", ["high", "middle"])
def test_gangs_of_the_same_or_a_higher_rank_are_left_alone(rank):
    decisions = decide(
        nodes("n1"), ranked("old", 1, rank, cpu="2", running=["n1"]), waiting("new", 1, "middle", cpu="2")
    )
    assert evicted(decisions) == []


def test_gangs_of_other_queues_are_left_alone():
    things = [a_queue(), a_queue("theirs"), nodes("n1")]
    old = ranked("old", 1, "low", cpu="2", running=["n1"], group={"queue": "theirs"})
    assert evicted(decide(things, old, waiting("new", 1, cpu="2"))) == []


def test_a_group_that_forbids_it_is_left_alone():
    notes = {"annotations": {"volcano.sh/preemptable": "false"}}
    old = ranked("old", 1, "low", cpu="2", running=["n1"], group=notes)
    assert evicted(decide(nodes("n1"), old, waiting("new", 1, cpu="2"))) == []


def test_a_pod_that_forbids_it_is_left_alone():
    old = ranked("old", 1, "low", cpu="2", running=["n1"], annotations={"volcano.sh/preemptable": "false"})
    assert evicted(decide(nodes("n1"), old, waiting("new", 1, cpu="2"))) == []


def test_system_pods_are_left_alone():
    old = ranked("old", 1, "low", cpu="2", running=["n1"], spec={"priorityClassName": "system-node-critical"})
    assert evicted(decide(nodes("n1"), old, waiting("new", 1, cpu="2"))) == []


def test_a_gang_whose_pods_never_preempt_evicts_nobody():
    new = waiting("new", 1, cpu="2", spec={"preemptionPolicy": "Never"})
    assert evicted(decide(nodes("n1"), ranked("old", 1, "low", cpu="2", running=["n1"]), new)) == []


def test_nobody_goes_for_a_gang_that_could_not_start_anyway():
    """Evicting makes room for two of three members: that helps nobody."""
    stays = ranked("stays", 1, "high", cpu="2", running=["n3"])
    old = ranked("old", 2, "low", cpu="2", running=["n1", "n2"])
    decisions = decide(nodes("n1", "n2", "n3"), stays, old, waiting("new", 3, cpu="2"))
    assert evicted(decisions) == []
    assert promised(decisions) == {}
    texts = [reason.text for reason in report(decisions, "new").reasons]
    assert (
        "evicting every gang of lower priority in queue default would make room for 2 of 3 members that must start together"
        in texts
    )


def test_nobody_goes_for_a_gang_that_runs():
    new = ranked("new", 2, "high", min_member=1, cpu="2", running=["n2"])
    assert evicted(decide(nodes("n1", "n2"), ranked("old", 1, "low", cpu="2", running=["n1"]), new)) == []


def test_a_gang_that_runs_grows_at_the_cost_of_others_where_growing_counts_as_starving():
    growing = policy("gangpreempt", ["priority", {"name": "gang", "enableJobStarving": False}], "predicates")
    new = ranked("new", 2, "high", min_member=1, cpu="2", running=["n2"])
    decisions = decide(nodes("n1", "n2"), ranked("old", 1, "low", cpu="2", running=["n1"]), new, policy=growing)
    assert evicted(decisions) == ["old-w-0"]
    assert promised(decisions) == {"new-w-1": "n1"}


# ------------------------------------------------------------------------------------------------- who goes first


def test_members_that_a_gang_can_spare_go_before_a_gang_is_broken():
    elastic = ranked("elastic", 2, "middle", min_member=1, cpu="2", running=["n1", "n2"])
    rigid = ranked("rigid", 1, "low", cpu="2", running=["n3"])
    decisions = decide(nodes("n1", "n2", "n3"), elastic, rigid, waiting("new", 1, cpu="2"))
    assert evicted(decisions) == ["elastic-w-1"]
    assert "keeps its minimum of 1: 1 stay" in decisions.evictions[0].cause.text


def test_without_whole_bundles_no_gang_is_broken():
    rigid = ranked("rigid", 1, "low", cpu="2", running=["n1"])
    assert evicted(decide(nodes("n1"), rigid, waiting("new", 1, cpu="2"), policy=allow_whole(False))) == []
    assert evicted(decide(nodes("n1"), rigid, waiting("new", 1, cpu="2"), policy=allow_whole(True))) == ["rigid-w-0"]


def test_of_whole_gangs_the_one_served_last_goes():
    first = ranked("first", 1, "middle", cpu="2", running=["n1"])
    last = ranked("last", 1, "low", cpu="2", running=["n2"])
    decisions = decide(nodes("n1", "n2"), first, last, waiting("new", 1, cpu="2"))
    assert evicted(decisions) == ["last-w-0"]


def test_what_is_left_of_a_broken_gang_costs_nothing():
    broken = ranked("broken", 2, "middle", min_member=2, cpu="2", running=["n1"])
    rigid = ranked("rigid", 1, "low", cpu="2", running=["n2"])
    decisions = decide(nodes("n1", "n2"), broken, rigid, waiting("new", 1, cpu="2"))
    assert evicted(decisions) == ["broken-w-0"]


# ------------------------------------------------------------------------------------------------- nobody in vain


def test_gangs_whose_room_does_not_help_are_spared():
    """The cheapest victims sit on small nodes: they are considered first, and stay."""
    small = [a_node(f"s{number}", cpu="1") for number in range(3)]
    crumbs = ranked("crumbs", 4, "low", min_member=1, cpu="1", running=["s0", "s1", "s2"])
    large = ranked("large", 1, "middle", cpu="4", running=["big"])
    decisions = decide(small, a_node("big", cpu="4"), crumbs, large, waiting("new", 1, cpu="4"))
    assert evicted(decisions) == ["large-w-0"]


def test_members_that_a_gang_can_spare_stay_where_their_room_is_not_needed():
    old = ranked("old", 4, "low", min_member=1, cpu="1", running=["n1", "n1", "n2", "n2"])
    decisions = decide(nodes("n1", "n2"), old, waiting("new", 1, cpu="2"))
    assert len(evicted(decisions)) == 2
    assert len({pod.task.node for pod in decisions.evictions}) == 1


def test_no_part_of_a_broken_gang_goes_on_running():
    """Two members in each rack and a minimum of four: room for one pod in the first rack costs the whole gang."""
    old = ranked("old", 4, "low", cpu="1", running=["n1", "n1", "n2", "n2"])
    racks = [a_hyper_node("r1", 1, nodes=["n1"]), a_hyper_node("r2", 1, nodes=["n2"])]
    close = {"spec": {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}}
    decisions = decide(nodes("n1", "n2"), racks, old, waiting("new", 1, cpu="2", group=close))
    assert sorted(evicted(decisions)) == ["old-w-0", "old-w-1", "old-w-2", "old-w-3"]


def test_a_whole_gang_is_spared_before_members_that_others_can_spare():
    elastic = ranked("elastic", 3, "middle", min_member=1, cpu="1", running=["n1", "n1", "n2"])
    rigid = ranked("rigid", 2, "low", cpu="2", running=["n3", "n4"])
    decisions = decide(nodes("n1", "n2", "n3", "n4"), elastic, rigid, waiting("new", 1, cpu="2"))
    assert sorted(evicted(decisions)) == ["elastic-w-2"]  # n2 has one cpu free already


def test_a_gang_of_which_one_member_may_not_go_is_not_broken():
    old = ranked("old", 2, "low", min_member=2, cpu="2", running=["n1"])
    stays = a_pod("old-stays", gang="old", cpu="2", node="n2", annotations={"volcano.sh/preemptable": "false"})
    decisions = decide(nodes("n1", "n2"), old[:-1], stays, waiting("new", 1, cpu="2"))
    assert evicted(decisions) == []


def test_an_elastic_gang_takes_only_what_it_needs_to_start():
    old = [ranked(f"old{number}", 1, "low", cpu="2", running=[f"n{number}"], created=number) for number in (1, 2, 3)]
    new = waiting("new", 3, min_member=1, cpu="2")
    assert evicted(decide(nodes("n1", "n2", "n3"), old, new)) == ["old3-w-0"]


def test_free_room_is_used_before_anybody_goes():
    old = [ranked(f"old{number}", 1, "low", cpu="2", running=[f"n{number}"]) for number in (1, 2)]
    decisions = decide(nodes("n1", "n2", "n3"), old, waiting("new", 2, cpu="2"))
    assert len(evicted(decisions)) == 1
    assert "n3" in promised(decisions).values()


def test_two_gangs_do_not_get_the_same_room():
    old = [ranked(f"old{number}", 1, "low", cpu="2", running=[f"n{number}"]) for number in (1, 2)]
    decisions = decide(nodes("n1", "n2"), old, waiting("new1", 1, cpu="2"), waiting("new2", 1, cpu="2"))
    assert sorted(evicted(decisions)) == ["old1-w-0", "old2-w-0"]
    assert sorted(promised(decisions).values()) == ["n1", "n2"]


# ------------------------------------------------------------------------------------------------- filters and closeness


def test_places_are_promised_only_where_filters_allow_after_the_evictions():
    """The victim on n1 is what the anti-affinity is against; on n2 the pod in the way stays."""
    term = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
    alone = {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}
    old = ranked("old", 1, "low", cpu="2", running=["n1"], labels={"app": "x"})
    guard = ranked("guard", 1, "high", cpu="1", running=["n2"], labels={"app": "x"})
    other = ranked("other", 1, "low", cpu="1", running=["n2"])
    new = waiting("new", 1, cpu="1", spec=alone)
    decisions = decide(nodes("n1", "n2"), old, guard, other, new)
    assert evicted(decisions) == ["old-w-0"]
    assert promised(decisions) == {"new-w-0": "n1"}


def racks():
    return [
        nodes("a1", "a2", "b1", "b2"),
        [a_hyper_node(rack, 1, nodes=[f"{rack}1", f"{rack}2"]) for rack in "ab"],
        a_hyper_node("hall", 2, children=["a", "b"]),
    ]


CLOSE = {"spec": {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}}


def test_a_gang_that_wants_closeness_evicts_within_one_hyper_node():
    """One victim in each rack would be cheaper, but would not be close."""
    spread = ranked("spread", 3, "low", min_member=1, cpu="2", running=["a1", "b1"])
    stays = ranked("stays", 1, "high", cpu="2", running=["a2"])
    rigid = ranked("rigid", 1, "middle", cpu="2", running=["b2"])
    decisions = decide(racks(), spread, stays, rigid, waiting("new", 2, cpu="2", group=CLOSE))
    assert sorted(evicted(decisions)) == ["rigid-w-0", "spread-w-1"]
    assert set(promised(decisions).values()) == {"b1", "b2"}


def test_a_gang_that_wants_more_closeness_than_any_hyper_node_gives_evicts_nobody():
    old = ranked("old", 4, "low", cpu="2", running=["a1", "a2", "b1", "b2"])
    assert evicted(decide(racks(), old, waiting("new", 3, cpu="2", group=CLOSE))) == []


def test_domains_are_limited_in_number():
    item = {"name": "gangpreempt", "arguments": {"maxDomains": 1}}
    one = policy("gangpreempt", "priority gang", "predicates network-topology-aware", configurations=[item])
    stays = ranked("stays", 1, "high", cpu="2", running=["a1"])
    old = ranked("old", 2, "low", cpu="2", running=["b1", "b2"])
    assert evicted(decide(racks(), stays, old, waiting("new", 2, cpu="2", group=CLOSE), policy=one)) == []
    assert len(evicted(decide(racks(), stays, old, waiting("new", 2, cpu="2", group=CLOSE)))) == 2


def test_parts_of_a_gang_are_promised_a_rack_each():
    rule = {
        "name": "part", "subGroupSize": 2, "matchLabelKeys": ["part"], "minSubGroups": 2,
        "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
    }  # fmt: skip
    old = ranked("old", 4, "low", cpu="2", running=["a1", "a2", "b1", "b2"])
    group, *_ = waiting("new", 0, min_member=4, group={"spec": {"subGroupPolicy": [rule]}})
    pods = [
        a_pod(f"new-{part}-{n}", gang="new", cpu="2", labels={"part": str(part)}) for part in (0, 1) for n in (0, 1)
    ]
    decisions = decide(racks(), old, group, pods)
    assert len(evicted(decisions)) == 4
    racks_by_part = [{promised(decisions)[f"new-{part}-{n}"][0] for n in (0, 1)} for part in (0, 1)]
    assert sorted(map(sorted, racks_by_part)) == [["a"], ["b"]]


# ------------------------------------------------------------------------------------------------- quotas and arguments


def test_a_queue_at_its_limit_makes_room_within_itself():
    """There is a free node, but the queue may use only one: somebody of its own has to go."""
    queue = a_queue("default", capability={"cpu": "2"})
    limited = policy("gangpreempt", "priority gang", "predicates capacity")
    old = ranked("old", 1, "low", cpu="2", running=["n1"])
    decisions = decide(queue, nodes("n1", "n2"), old, waiting("new", 1, cpu="2"), policy=limited)
    assert evicted(decisions) == ["old-w-0"]


def test_an_argument_that_does_not_exist_is_refused():
    item = {"name": "gangpreempt", "arguments": {"maxDomain": 1}}
    with pytest.raises(PolicyError, match=r"configurations: gangpreempt: .*maxDomain.*; correct that argument"):
        policy("gangpreempt", "gang", configurations=[item])

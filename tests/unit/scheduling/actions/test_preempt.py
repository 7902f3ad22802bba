"""preempt: within a queue, for a gang that can start by it, at the smallest price."""

import pytest
from tests.unit.scheduling.clusters import (
    NOW,
    a_gang,
    a_group,
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

from pumice import instant
from pumice.api.changes import Claimed

GANG = {"name": "gang", "enablePreemptable": False}
POLICY = policy("allocate, preempt", ["priority", GANG, "conformance"], "predicates")
AWARE = policy(
    "allocate, preempt", ["priority", GANG, "conformance"], "predicates",
    configurations=[{"name": "preempt", "arguments": {
        "enableTopologyAwarePreemption": True, "minCandidateNodesAbsolute": 10}}],
)  # fmt: skip
LEAVING = {"deletionTimestamp": "2026-01-01T00:59:00Z"}
CLASSES = [a_priority_class("low", 1), a_priority_class("high", 100)]


def running(name, *nodes, priority_class="low", **more):
    group = {"priority_class": priority_class, "phase": "Running", **more.pop("group", {})}
    return a_gang(name, len(nodes), running=nodes, group=group, **more)


def waiting(name, size=1, *, priority_class="high", **more):
    return a_gang(name, size, group={"priority_class": priority_class, **more.pop("group", {})}, **more)


def plan(*things, policy=POLICY, **more):
    return plan_for(CLASSES, *things, policy=policy, **more)


# ------------------------------------------------------------------------------------------------------ whether


def test_a_higher_gang_takes_the_room_of_a_lower_one_and_waits_for_it():
    decisions = plan(a_node("n1", cpu="1"), running("old", "n1"), waiting("g"))
    assert evicted(decisions) == ["old-w-0"]
    assert promised(decisions) == {"g-w-0": "n1"}
    assert binds(decisions) == {}
    (eviction,) = decisions.evictions
    assert (eviction.rule, eviction.claimant) == ("preempt", "default/g")
    assert eviction.cause.text == "gang default/old falls below its minimum: 0 of 1 members stay"


@pytest.mark.parametrize("rank", ["high", "low"])
def test_equals_and_betters_are_not_preempted(rank):
    world = [a_node("n1", cpu="1"), running("old", "n1", priority_class="high"), waiting("g", priority_class=rank)]
    assert evicted(plan(*world)) == []


def test_nobody_goes_for_a_gang_that_would_not_start_by_it():
    world = [a_node("n1", cpu="2"), running("old", "n1", "n1"), waiting("g", 3)]
    assert evicted(plan(*world)) == []


@pytest.mark.parametrize(("size", "victims"), [(1, 1), (2, 0)])
def test_nobody_goes_for_half_a_sub_group(size, victims):
    """The gang is content with one member, but members of a sub group start together or not at all."""
    part = {"name": "part", "matchLabelKeys": ["part"], "subGroupSize": size}
    pair = waiting("g", 2, min_member=1, labels={"part": "0"}, group={"spec": {"subGroupPolicy": [part]}})
    assert len(evicted(plan(a_node("n1", cpu="1"), running("old", "n1"), pair))) == victims


def test_nobody_goes_where_there_is_room():
    assert evicted(plan(a_node("n1", cpu="1"), a_node("n2", cpu="1"), running("old", "n1"), waiting("g"))) == []


def test_nobody_goes_where_room_is_being_released_already():
    leaving = a_pod("leaving", node="n2", metadata=LEAVING)
    world = [a_node("n1", cpu="1"), a_node("n2", cpu="1"), leaving, running("old", "n1"), waiting("g")]
    assert evicted(plan(*world)) == []


def test_other_queues_are_not_touched():
    world = [a_node("n1", cpu="1"), a_queue("a"), a_queue("b"), running("old", "n1", group={"queue": "a"}),
             waiting("g", group={"queue": "b"})]  # fmt: skip
    assert evicted(plan(*world)) == []


def test_pods_that_never_preempt_and_pods_that_may_not_be_preempted_stay_as_they_are():
    assert (
        evicted(plan(a_node("n1", cpu="1"), running("old", "n1"), waiting("g", spec={"preemptionPolicy": "Never"})))
        == []
    )
    keep = {"volcano.sh/preemptable": "false"}
    assert evicted(plan(a_node("n1", cpu="1"), running("old", "n1", annotations=keep), waiting("g"))) == []


def test_system_pods_stay_even_where_no_other_tier_objects():
    world = [a_node("n1", cpu="1"), running("old", "n1", namespace="kube-system"), waiting("g")]
    fallback = policy("allocate, preempt", "priority conformance", "drf gang")
    assert evicted(plan(*world, policy=fallback)) == []


def test_only_a_pod_that_asks_for_nothing_goes_for_one_that_asks_for_nothing():
    def victims(cpu):
        return evicted(plan(a_node("n1", pods="1"), running("old", "n1", cpu=cpu), waiting("g", cpu=None)))

    assert victims("1") == []
    assert victims(None) == ["old-w-0"]


def test_nobody_goes_for_a_pod_that_asks_for_nothing_while_there_is_a_free_slot():
    world = [a_node("n1", pods="1"), a_node("n2", pods="1"), running("old", "n1", cpu=None), waiting("g", cpu=None)]
    decisions = plan(*world)
    assert (evicted(decisions), promised(decisions)) == ([], {})


def test_a_gang_that_wants_to_be_close_together_does_not_preempt():
    close = waiting("g", group={"spec": {"networkTopology": {"mode": "soft"}}})
    assert evicted(plan(a_node("n1", cpu="1"), running("old", "n1"), close)) == []


def test_bound_pods_that_do_not_run_yet_may_go_too():
    bound = [a_group("old", 1, priority_class="low"), a_pod("old-w-0", gang="old", node="n1", phase="Pending")]
    assert evicted(plan(a_node("n1", cpu="1"), bound, waiting("g"))) == ["old-w-0"]


def test_a_gang_that_runs_and_only_wants_more_members_does_not_preempt():
    """gang and priority are in one tier, and gang says that it does not starve."""
    elastic = a_gang("g", 2, min_member=1, running=["n2"], group={"priority_class": "high", "phase": "Running"})
    world = [a_node("n1", cpu="1"), a_node("n2", cpu="1"), running("old", "n1"), elastic]
    assert evicted(plan(*world)) == []


def test_a_gang_that_waits_for_admission_does_not_preempt():
    admitting = policy("enqueue, allocate, preempt", ["priority", GANG, "conformance"], "overcommit")
    world = [
        a_node("n1", cpu="1"),
        running("old", "n1"),
        waiting("g", group={"phase": "Pending", "minimum": {"cpu": "9"}}),
    ]
    assert evicted(plan(*world, policy=admitting)) == []


def test_filters_that_eviction_cannot_cure_are_respected():
    west, east = a_node("n1", cpu="1", labels={"zone": "west"}), a_node("n2", cpu="1", labels={"zone": "east"})
    world = [west, east, running("a", "n1"), running("b", "n2"), waiting("g", spec={"nodeSelector": {"zone": "east"}})]
    assert evicted(plan(*world)) == ["b-w-0"]


# ------------------------------------------------------------------------------------------------------ who


def test_no_more_go_than_must():
    world = [a_node("n1", cpu="4"), running("old", "n1", "n1", "n1", "n1"), waiting("g", cpu="2")]
    assert len(evicted(plan(*world))) == 2


def test_who_turns_out_to_be_superfluous_is_spared():
    """Small ones go first; once the large one has to go as well, they may stay."""
    small = [running(f"small{number}", "n1", cpu="1") for number in range(2)]
    large = running("large", "n1", cpu="4", created=0, annotations={"volcano.sh/task-priority": "5"})
    world = [a_node("n1", cpu="6"), small, large, waiting("g", cpu="4")]
    assert evicted(plan(*world)) == ["large-w-0"]


def test_who_turns_out_to_be_superfluous_because_of_a_later_members_victim_is_spared_too():
    small = running("small", "n1", cpu="1", annotations={"volcano.sh/task-priority": "1"})
    large = running("large", "n1", cpu="4", annotations={"volcano.sh/task-priority": "5"})
    members = [a_pod("g-a-0", gang="g", cpu="1", priority=9), a_pod("g-b-0", gang="g", cpu="3", priority=1)]
    world = [a_node("n1", cpu="5"), small, large, a_group("g", 2, priority_class="high"), members]
    assert evicted(plan(*world)) == ["large-w-0"]


def test_of_one_gang_the_last_placed_goes_first():
    world = [a_node("n1", cpu="3"), running("old", "n1", "n1", "n1"), waiting("g")]
    assert evicted(plan(*world)) == ["old-w-2"]


def test_the_gang_that_would_be_served_last_loses_first():
    middle = a_priority_class("middle", 50)
    world = [
        a_node("n1", cpu="2"),
        middle,
        running("m", "n1", priority_class="middle"),
        running("l", "n1"),
        waiting("g"),
    ]
    assert evicted(plan(*world)) == ["l-w-0"]


def test_between_equal_gangs_the_order_of_their_pods_decides_not_the_age_of_the_groups():
    older = running("older", "n1", annotations={"volcano.sh/task-priority": "1"})
    younger = running("younger", "n1", created=9, annotations={"volcano.sh/task-priority": "5"})
    assert evicted(plan(a_node("n1", cpu="2"), older, younger, waiting("g"))) == ["older-w-0"]


def test_a_gang_may_be_left_with_its_surplus_gone():
    keeping = policy("allocate, preempt", "priority gang conformance", "predicates")
    surplus = running("old", "n1", "n1", "n1", min_member=2)
    world = [a_node("n1", cpu="3"), surplus]
    decisions = plan(*world, waiting("g", 1), policy=keeping)
    assert evicted(decisions) == ["old-w-2"]
    assert decisions.evictions[0].cause.text == "gang default/old keeps its minimum of 2: 2 stay"
    assert evicted(plan(*world, waiting("g", 2), policy=keeping)) == []


def test_a_whole_gang_makes_room_for_a_whole_gang():
    nodes = [a_node(f"n{number}", cpu="1") for number in range(3)]
    decisions = plan(nodes, running("old", "n0", "n1", "n2"), waiting("g", 3))
    assert sorted(evicted(decisions)) == ["old-w-0", "old-w-1", "old-w-2"]
    assert sorted(promised(decisions).values()) == ["n0", "n1", "n2"]


# ------------------------------------------------------------------------------------------------------ within a gang


def test_a_member_may_take_the_place_of_a_lower_one_of_its_gang():
    starving = policy("allocate, preempt", ["priority", "conformance"], ["predicates", GANG])
    members = [a_pod("g-w-0", gang="g", node="n1", priority=1), a_pod("g-w-1", gang="g", priority=5)]
    world = [a_node("n1", cpu="1"), a_group("g", 1, phase="Running"), members]
    assert evicted(plan(*world, policy=starving)) == ["g-w-0"]


def test_a_swap_costs_no_more_members_than_it_must():
    starving = policy("allocate, preempt", ["priority", "conformance"], ["predicates", GANG])
    members = [
        a_pod("g-a-0", gang="g", node="n1", cpu="1", priority=0), a_pod("g-b-0", gang="g", node="n1", cpu="4", priority=1),
        a_pod("g-c-0", gang="g", cpu="4", priority=5),
    ]  # fmt: skip
    assert evicted(plan(a_node("n1", cpu="6"), a_group("g", 1, phase="Running"), members, policy=starving)) == ["g-b-0"]


def test_a_swap_that_leaves_the_gang_short_helps_nobody():
    members = [
        a_pod("g-w-0", gang="g", node="n1", priority=1),
        a_pod("g-w-1", gang="g", priority=5),
        a_pod("g-w-2", gang="g"),
    ]
    world = [a_node("n1", cpu="1"), a_group("g", 2, phase="Running"), members]
    assert evicted(plan(*world)) == []


# ------------------------------------------------------------------------------------------------------ quotas, worked examples

QUOTA = policy("allocate, preempt", ["priority", GANG, "conformance"], "predicates proportion")


def test_victims_go_where_that_brings_the_queue_within_its_capability():
    """Capability 6: without n1's victim 4 + 3 would be too much, without n2's 1 + 3 is not."""
    world = [
        a_node("n1", cpu="3"), a_node("n2", cpu="4"), a_queue(capability={"cpu": "6"}),
        running("a", "n1", cpu="1"), running("b", "n2", cpu="4"), waiting("g", cpu="3"),
    ]  # fmt: skip
    assert evicted(plan(*world, policy=QUOTA)) == ["b-w-0"]


@pytest.mark.parametrize(("capability", "victims"), [("1", ["old-w-0"]), ("2", [])])
def test_a_full_queue_beside_an_empty_node_evicts_for_its_quota(capability, victims):
    world = [a_node("empty", cpu="1"), a_node("full", cpu="1"), a_queue(capability={"cpu": capability}),
             running("old", "full"), waiting("g")]  # fmt: skip
    assert evicted(plan(*world, policy=QUOTA)) == victims


# ------------------------------------------------------------------------------------------------------ earlier cycles


def preempted(name, node, priority):
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    return a_pod(name, node=node, priority=priority, metadata=LEAVING, status={"conditions": [condition]})


def test_a_pod_that_waits_on_its_nominated_node_for_its_victim_preempts_nobody_else():
    """After a restart there is no claim, only the nomination."""
    rules = policy("preempt", ["priority", GANG, "conformance"], "predicates")
    nominated = waiting("g", priority=9, cpu="2", status={"nominatedNodeName": "n1"})
    world = [a_node("n1", cpu="2", pods="1"), a_node("n2", cpu="2"), running("old", "n2", cpu="2"), nominated]
    assert evicted(plan(*world, preempted("victim", "n1", priority=1), policy=rules)) == []
    leaves_by_itself = a_pod("victim", node="n1", priority=1, metadata=LEAVING)
    assert evicted(plan(*world, leaves_by_itself, policy=rules)) == ["old-w-0"]
    assert evicted(plan(*world, preempted("better", "n1", priority=99), policy=rules)) == ["old-w-0"]


def test_free_room_is_used_before_anybody_has_to_go():
    """Ten slots, six of them taken; where pods are spread, the full node looks as good as the other once somebody has left it."""
    rules = policy("allocate, preempt", ["priority", GANG, "conformance"], "predicates proportion nodeorder binpack")
    nodes = [a_node("n1", cpu="10", gpu=5), a_node("n2", cpu="10", gpu=5)]
    old = running("old", *["n1"] * 5, "n2", cpu="0", gpu=1)
    assert len(evicted(plan(*nodes, old, waiting("g", 6, cpu="0", gpu=1), policy=rules))) == 2


@pytest.mark.parametrize("nominated", ["n1", "gone"])
def test_a_gang_whose_preemption_was_cut_short_is_not_bound_by_its_nominations(nominated):
    """One of two victims has left, then the scheduler died; nobody is on the way out any more."""
    gang = waiting("g", 2, status={"nominatedNodeName": nominated})
    assert evicted(plan(a_node("n1", cpu="2"), running("old", "n1"), gang)) == ["old-w-0"]


def test_nobody_is_evicted_twice_for_the_same_gang():
    first = plan(a_node("n1", cpu="1"), a_node("n2", cpu="1"), running("a", "n1"), running("b", "n2"), waiting("g"))
    (victim,) = evicted(first)
    metadata = {"a-w-0": {}, "b-w-0": {}} | {victim: LEAVING}
    world = [
        a_node("n1", cpu="1"), a_node("n2", cpu="1"), running("a", "n1", metadata=metadata["a-w-0"]),
        running("b", "n2", metadata=metadata["b-w-0"]), waiting("g"), [Claimed(claim) for claim in first.claims],
    ]  # fmt: skip
    later = plan(*world, now=NOW + 5 * instant.SECOND)
    assert evicted(later) == []
    assert later.unclaims == {}


# ------------------------------------------------------------------------------------------------------ topology aware


def test_of_the_nodes_that_work_the_one_with_the_least_important_victims_is_chosen():
    world = [
        a_node("n1", cpu="1"),
        a_node("n2", cpu="1"),
        running("a", "n1", priority=7),
        running("b", "n2", priority=3),
        waiting("g"),
    ]
    assert evicted(plan(*world, policy=AWARE)) == ["b-w-0"]


def test_the_most_important_victim_counts_before_their_number():
    world = [
        a_node("n1", cpu="2"), a_node("n2", cpu="2"), running("a", "n1", cpu="2", priority=7),
        running("b", "n2", "n2", priority=3), waiting("g", cpu="2"),
    ]  # fmt: skip
    assert sorted(evicted(plan(*world, policy=AWARE))) == ["b-w-0", "b-w-1"]


def test_of_equally_important_victims_fewer_go():
    world = [
        a_node("n1", cpu="2"), a_node("n2", cpu="2"), running("a", "n1", "n1", priority=3),
        running("b", "n2", cpu="2", priority=3), waiting("g", cpu="2"),
    ]  # fmt: skip
    assert evicted(plan(*world, policy=AWARE)) == ["b-w-0"]


def test_of_equal_victims_the_one_that_started_last_goes():
    def started_at(minute):
        return {"status": {"startTime": f"2026-01-01T00:{minute}:00Z"}}

    world = [
        a_node("n1", cpu="1"), a_node("n2", cpu="1"), running("a", "n1", priority=3, **started_at(10)),
        running("b", "n2", priority=3, **started_at(40)), waiting("g"),
    ]  # fmt: skip
    assert evicted(plan(*world, policy=AWARE)) == ["b-w-0"]


def test_some_candidates_suffice():
    narrow = policy(
        "preempt", ["priority", GANG, "conformance"],
        configurations=[{"name": "preempt", "arguments": {
            "enableTopologyAwarePreemption": True, "minCandidateNodesPercentage": 1, "minCandidateNodesAbsolute": 1}}],
    )  # fmt: skip
    world = [
        a_node("n1", cpu="1"),
        a_node("n2", cpu="1"),
        running("a", "n1", priority=7),
        running("b", "n2", priority=3),
        waiting("g"),
    ]
    assert evicted(plan(*world, policy=narrow)) == ["a-w-0"]  # the first node that works ends the search


def test_the_reason_of_a_gang_that_waits_says_that_eviction_was_no_help():
    world = [a_node("n1", cpu="1"), running("old", "n1", priority_class="high"), waiting("g")]
    assert [reason.text for reason in report(plan(*world), "g").reasons] == ["Insufficient cpu"]


HOSTNAME = "kubernetes.io/hostname"
PREFERS_FULL = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {
                "weight": 100,
                "preference": {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": ["full"]}]},
            }
        ]
    }
}


def named_node(name, cpu):
    return a_node(name, cpu=cpu, labels={HOSTNAME: name})


def test_a_node_with_room_that_a_filter_refuses_costs_victims_like_any_other():
    """On `wide` there is room, but three pods there would have to go for the claimant's anti-affinity; on `full` it is one."""
    noisy = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"noisy": "yes"}}}
    affinity = {**PREFERS_FULL, "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [noisy]}}
    decisions = plan(
        [named_node("full", "2"), named_node("wide", "9")],
        running("noisy", "wide", "wide", "wide", labels={"noisy": "yes"}),
        running("quiet", "full", cpu="2"),
        waiting("g", cpu="2", spec={"affinity": affinity}),
        policy=policy("preempt", ["priority", GANG, "conformance"], "predicates nodeorder"),
    )
    assert evicted(decisions) == ["quiet-w-0"]


def test_a_plan_that_free_room_spoils_is_tried_again_in_the_order_of_scores():
    """After a free place for its first member the claimant holds more than what its victim would have left, and drf refuses."""
    decisions = plan(
        [named_node("full", "2"), named_node("free", "1")],
        running("old", "full", "full", min_member=1),
        waiting("g", 2, priority_class="low", spec={"affinity": PREFERS_FULL}),
        policy=policy("preempt", [GANG, "drf"], "predicates nodeorder"),
    )
    assert evicted(decisions) == ["old-w-1"]
    assert promised(decisions) == {"g-w-0": "full", "g-w-1": "free"}

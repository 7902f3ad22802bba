"""reclaim: a queue that has less than its due takes back from queues that have more, if that lets a gang start."""

import pytest
from tests.unit.scheduling.clusters import (
    a_gang,
    a_group,
    a_node,
    a_pod,
    a_queue,
    binds,
    evicted,
    plan_for,
    policy,
    promised,
)

# One tier, so that everybody is asked; gang keeps out of it, so that gangs may be broken.
POLICY = policy(
    "allocate, reclaim", ["conformance", {"name": "gang", "enableReclaimable": False}, "predicates", "proportion"]
)
# conformance lets all ordinary pods go, and then nobody else is asked: tiers are fallbacks (Volcano parity).
LOOSE = policy(
    "allocate, reclaim", "conformance", ["predicates", "proportion", {"name": "gang", "enableReclaimable": False}]
)
LEAVING = {"deletionTimestamp": "2026-01-01T00:59:00Z"}
QUEUES = [a_queue("rich"), a_queue("poor")]


def running(name, *nodes, queue="rich", **more):
    return a_gang(name, len(nodes), min_member=more.pop("min_member", 1), running=nodes,
                  group={"queue": queue, "phase": "Running", **more.pop("group", {})}, **more)  # fmt: skip


def waiting(name, size=1, *, queue="poor", **more):
    return a_gang(name, size, group={"queue": queue}, **more)


def foreign(node, count):
    """Pods of another scheduler, which no quota counts."""
    return [a_pod(f"{node}-foreign-{number}", node=node, spec={"schedulerName": "other"}) for number in range(count)]


def plan(*things, queues=QUEUES, policy=POLICY, **more):
    return plan_for(queues, *things, policy=policy, **more)


# ------------------------------------------------------------------------------------------------------ whether


def test_a_queue_below_its_share_takes_back_from_one_above():
    decisions = plan(a_node("n1", cpu="2"), running("old", "n1", "n1"), waiting("g"))
    assert len(evicted(decisions)) == 1
    assert promised(decisions) == {"g-w-0": "n1"}
    assert binds(decisions) == {}
    (eviction,) = decisions.evictions
    assert (eviction.rule, eviction.claimant) == ("reclaim", "default/g")


def test_nobody_goes_for_a_queue_that_has_its_share():
    """Both hold one of two cpus and deserve no more."""
    world = [a_node("n1", cpu="2"), running("old", "n1"), running("own", "n1", queue="poor"), waiting("g")]
    assert evicted(plan(*world, running("more", queue="rich"), a_gang("w", 1, group={"queue": "rich"}))) == []


def test_nobody_goes_for_a_gang_that_would_not_start_by_it():
    assert evicted(plan(a_node("n1", cpu="2"), running("old", "n1", "n1"), waiting("g", 2))) == []


def test_a_queue_that_is_not_reclaimable_keeps_what_it_has():
    queues = [a_queue("rich", reclaimable=False), a_queue("poor")]
    assert evicted(plan(a_node("n1", cpu="2"), running("old", "n1", "n1"), waiting("g"), queues=queues)) == []


def test_a_closed_queue_reclaims_nothing():
    queues = [a_queue("rich"), a_queue("poor", state="Closed")]
    assert evicted(plan(a_node("n1", cpu="2"), running("old", "n1", "n1"), waiting("g"), queues=queues)) == []


def test_nobody_is_reclaimed_within_a_queue():
    """The queue deserves more than it has, and room is short only because of pods that are not ours."""
    world = [a_node("n1", cpu="2"), running("old", "n1", "n1"), a_node("n2", cpu="2"), foreign("n2", 2)]
    assert evicted(plan(*world, waiting("g", queue="rich"), policy=LOOSE)) == []


@pytest.mark.parametrize(
    "victim",
    [
        {"annotations": {"volcano.sh/preemptable": "false"}},
        {"namespace": "kube-system"},
        {"spec": {"priorityClassName": "system-cluster-critical"}},
        {"phase": "Pending"},
    ],
    ids=["not preemptable", "kube-system", "critical", "bound but not running"],
)
@pytest.mark.parametrize("chosen", [POLICY, LOOSE], ids=["one tier", "fallback"])
def test_some_pods_are_not_for_taking(victim, chosen):
    assert evicted(plan(a_node("n1", cpu="2"), running("old", "n1", "n1", **victim), waiting("g"), policy=chosen)) == []


def test_pods_that_never_preempt_do_not_reclaim_either():
    world = [a_node("n1", cpu="2"), running("old", "n1", "n1"), waiting("g", spec={"preemptionPolicy": "Never"})]
    assert evicted(plan(*world)) == []


def test_a_node_that_opens_only_for_filters_that_eviction_cannot_cure_is_left_alone():
    world = [a_node("n1", cpu="2", taints=["dedicated=x:NoSchedule"]), running("old", "n1", "n1"), waiting("g")]
    assert evicted(plan(*world)) == []


def test_nobody_goes_whose_presence_is_what_draws_the_pod_to_the_node():
    """Without its victims the node would be no place for the pod: they would have gone in vain."""
    near = {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "old"}}}]}}}  # fmt: skip
    one = running("old", "n1", labels={"app": "old"}, cpu="2")
    assert evicted(plan(a_node("n1", cpu="2"), one, waiting("g", spec=near))) == []
    two = [running("old", "n1", labels={"app": "old"}), running("mate", "n1", labels={"app": "old"})]
    assert len(evicted(plan(a_node("n1", cpu="2"), two, waiting("g", spec=near)))) == 1


# ------------------------------------------------------------------------------------------------------ who


def test_only_as_many_go_as_must():
    world = [a_node("n1", cpu="8"), running("old", *["n1"] * 8), waiting("g", 2)]
    assert len(evicted(plan(*world))) == 2


def test_free_room_is_used_before_anybody_goes():
    """One cpu is free already, so one victim suffices for a pod of two."""
    world = [a_node("n1", cpu="4"), running("old", "n1", "n1", "n1"), waiting("g", cpu="2")]
    assert len(evicted(plan(*world))) == 1


def test_victims_end_where_their_queue_is_down_to_its_share():
    """rich deserves two of four cpus: it may lose two, not three."""
    world = [a_node("n1", cpu="4"), running("old", *["n1"] * 4)]
    assert len(evicted(plan(*world, waiting("g", 2)))) == 2
    assert evicted(plan(*world, waiting("g", 3))) == []


def test_a_queue_that_holds_no_more_than_its_share_loses_nothing():
    world = [a_node("n1", cpu="2"), running("old", "n1", "n1"), a_node("n2", cpu="2"), foreign("n2", 2)]
    assert evicted(plan(*world, waiting("g"))) == []


@pytest.mark.parametrize(("guarantee", "victims"), [("2", []), ("1", ["old-w-1"])])
def test_a_guarantee_holds_even_where_the_tier_that_knows_of_it_is_not_asked(guarantee, victims):
    by_gang_alone = policy("allocate, reclaim", "gang conformance", "predicates proportion")
    queues = [a_queue("rich", guarantee={"cpu": guarantee}), a_queue("poor")]
    world = [a_node("n1", cpu="2"), running("old", "n1", "n1", min_member=0), a_node("n2", cpu="1"), foreign("n2", 1)]
    assert evicted(plan(*world, waiting("g"), queues=queues, policy=by_gang_alone)) == victims


def test_the_queue_that_holds_more_of_its_share_loses_first():
    queues = [a_queue("q1"), a_queue("q2"), a_queue("poor")]
    world = [
        a_node("n1", cpu="6"),
        running("a", *["n1"] * 4, queue="q1"),
        running("b", "n1", "n1", queue="q2"),
        waiting("g"),
    ]
    assert evicted(plan(*world, queues=queues, policy=LOOSE)) == ["a-w-3"]


def test_of_two_queues_with_equal_shares_the_one_that_is_served_last_loses():
    queues = [a_queue("q1"), a_queue("q2"), a_queue("poor")]
    world = [
        a_node("n1", cpu="4"),
        running("a", "n1", "n1", queue="q1"),
        running("b", "n1", "n1", queue="q2"),
        waiting("g"),
    ]
    assert evicted(plan(*world, queues=queues))[0].startswith("b-")
    queues = [a_queue("q1", priority=5), a_queue("q2", priority=10), a_queue("poor", priority=10)]
    assert evicted(plan(*world, queues=queues))[0].startswith("a-")


def test_of_one_gang_the_last_placed_goes_first():
    world = [a_node("n1", cpu="2"), running("old", "n1", "n1"), waiting("g")]
    assert evicted(plan(*world)) == ["old-w-1"]


def test_a_gang_is_not_broken_where_its_plugin_is_asked():
    keeping = policy("allocate, reclaim", "gang conformance", "predicates proportion")
    whole = running("old", "n1", "n1", min_member=2)
    elastic = running("old", "n1", "n1", min_member=1)
    assert evicted(plan(a_node("n1", cpu="2"), elastic, waiting("g"), policy=keeping)) == ["old-w-1"]
    # gang protects all of it, so the next tier decides alone: tiers are fallbacks (Volcano parity)
    assert evicted(plan(a_node("n1", cpu="2"), whole, waiting("g"), policy=keeping)) == ["old-w-1"]
    alone = policy("allocate, reclaim", "gang conformance predicates proportion")
    assert evicted(plan(a_node("n1", cpu="2"), whole, waiting("g"), policy=alone)) == []


def test_room_that_is_leaving_already_costs_nobody_anything():
    world = [a_node("n1", cpu="2"), running("old", "n1"), a_pod("leaving", node="n1", metadata=LEAVING), waiting("g")]
    assert evicted(plan(*world)) == []


def test_a_gang_that_wants_to_be_close_together_may_reclaim():
    close = a_gang("g", 1, group={"queue": "poor", "spec": {"networkTopology": {"mode": "soft"}}})
    assert len(evicted(plan(a_node("n1", cpu="2"), running("old", "n1", "n1"), close))) == 1


def test_an_overused_queue_gets_no_turn():
    world = [a_node("n1", cpu="2"), running("old", "n1", "n1"), a_group("g", 1, queue="poor")]
    assert evicted(plan(*world)) == []


def test_all_gangs_of_a_queue_are_served_before_the_next_queue():
    queues = [a_queue("rich"), a_queue("p1", priority=9), a_queue("p2", priority=5)]
    world = [a_node("n1", cpu="6"), running("old", *["n1"] * 6)]
    gangs = [waiting("a", queue="p1"), waiting("b", queue="p1", created=1), waiting("c", queue="p2")]
    decisions = plan(*world, gangs, queues=queues)
    assert [eviction.claimant for eviction in decisions.evictions] == ["default/a", "default/b", "default/c"]

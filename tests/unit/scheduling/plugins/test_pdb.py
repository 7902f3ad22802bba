import pytest
from tests.unit.scheduling.clusters import (
    NOW,
    a_gang,
    a_group,
    a_node,
    a_pod,
    a_priority_class,
    an_object,
    evicted,
    plan_for,
    policy,
    promised,
    session_for,
)

from pumice import instant
from pumice.scheduling.core import builtin
from pumice.scheduling.core.codes import Code
from pumice.scheduling.core.points import EvictionKind

WEB = {"app": "web"}


def a_budget(allowed, labels=None, *, name="b", namespace="default", disrupted=(), selector=None):
    selector = {"matchLabels": WEB if labels is None else labels} if selector is None else selector
    manifest = {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": selector},
        "status": {
            "disruptionsAllowed": allowed,
            "disruptedPods": dict.fromkeys(disrupted, "2026-01-01T00:00:00Z"),
        },
    }
    return an_object("policy/v1", "PodDisruptionBudget", manifest)


def running(size=3, name="low", **pods):
    pods = {"labels": WEB, **pods}
    return a_gang(name, size, min_member=1, running=["n1"] * size, group={"phase": "Running"}, **pods)


def tolerated(*objects):
    """Of the pods of `low`, those that a claimant may evict."""
    session = session_for(a_node(cpu="9"), *objects, a_gang("g", 1), policy=policy("preempt", "pdb"))
    (hook,) = session.points.preemptable.hooks
    (claimant,) = session.gangs["default/g"].tasks
    return [task.name for task in hook.call.choose(claimant, session.gangs["default/low"].tasks)]


def test_as_many_go_as_the_budget_allows_the_first_ones_first():
    assert tolerated(a_budget(2), running()) == ["low-w-0", "low-w-1"]
    assert tolerated(a_budget(0), running()) == []


def test_pods_without_labels_are_under_no_budget_and_may_go():
    assert tolerated(a_budget(0), running(labels={})) == ["low-w-0", "low-w-1", "low-w-2"]


def test_budgets_of_other_namespaces_or_other_pods_do_not_matter():
    assert len(tolerated(a_budget(0, namespace="elsewhere"), running())) == 3
    assert len(tolerated(a_budget(0, {"app": "db"}), running())) == 3


@pytest.mark.parametrize(("selector", "allowed"), [({}, 0), (None, 3)])
def test_an_empty_selector_means_every_pod_and_none_means_no_pod(selector, allowed):
    manifest = {"metadata": {"name": "b", "namespace": "default"}, "spec": {}, "status": {"disruptionsAllowed": 0}}
    if selector is not None:
        manifest["spec"]["selector"] = selector
    assert len(tolerated(an_object("policy/v1", "PodDisruptionBudget", manifest), running())) == allowed


def test_a_pod_under_several_budgets_needs_all_of_them():
    both = {**WEB, "tier": "front"}
    budgets = [a_budget(5, name="a"), a_budget(1, {"tier": "front"}, name="b")]
    assert tolerated(*budgets, running(labels=both)) == ["low-w-0"]


def test_an_eviction_that_the_api_server_granted_already_is_not_counted_again():
    assert tolerated(a_budget(1, disrupted=["low-w-0"]), running()) == ["low-w-0", "low-w-1"]


def preempting(*objects, size=1):
    chosen = policy("preempt", [{"name": "gang", "enablePreemptable": False}, "priority", "pdb"])
    urgent = a_gang("urgent", size, group={"priority_class": "high"})
    return plan_for(a_node(cpu="3"), a_priority_class("high", 9), *objects, urgent, policy=chosen)


def test_one_plan_counts_all_of_its_evictions():
    """Each member of the claimant asks anew; together they may not take more than one budget's worth."""
    assert len(evicted(preempting(a_budget(2), running(), size=2))) == 2
    decisions = preempting(a_budget(1), running(), size=2)
    assert (evicted(decisions), promised(decisions)) == ([], {})


def test_budgets_hold_in_whichever_tier_pdb_stands():
    chosen = policy("preempt", "priority", "pdb")
    urgent = a_gang("urgent", 1, group={"priority_class": "high"})
    objects = [a_node(cpu="3"), a_priority_class("high", 9), running(), urgent]
    assert evicted(plan_for(*objects, a_budget(0), policy=chosen)) == []
    assert evicted(plan_for(*objects, a_budget(1), policy=chosen)) == ["low-w-2"]


def test_who_is_spared_gives_his_part_of_the_budget_back():
    session = session_for(a_node(cpu="9"), a_budget(1), running(2), policy=policy("preempt", "pdb"))
    (hook,) = session.points.preemptable.hooks
    tasks = session.gangs["default/low"].tasks
    statement = session.statement()
    statement.evict(tasks[0], "preempt")
    assert hook.call.choose(tasks[1], tasks) == []
    statement.rollback()
    assert [task.name for task in hook.call.choose(tasks[1], tasks)] == ["low-w-0"]


def test_placements_do_not_touch_the_budgets():
    session = session_for(a_node(cpu="9"), a_budget(1), running(1), a_pod("new", gang="g", labels=WEB), a_group("g"),
                          policy=policy("preempt", "pdb"))  # fmt: skip
    (moved,) = [hook for hook in session.points.moved.hooks if hook.plugin == "pdb"]
    gang = session.gangs["default/g"]
    moved.call(gang, session.shape(gang.tasks[0]), gang.tasks, [0], 1)
    (hook,) = session.points.preemptable.hooks
    assert len(hook.call.choose(gang.tasks[0], session.gangs["default/low"].tasks)) == 1


def test_reclaiming_whole_gangs_and_shuffling_keep_to_it_as_well():
    session = session_for(a_node(cpu="9"), a_budget(1), running(), policy=policy("preempt", "pdb"))
    gang = session.gangs["default/low"]
    (guard,) = session.points.shuffled.guard.hooks
    for left in (
        session.points.reclaimable.of(gang.tasks[0], gang.tasks),
        session.points.evictable.of(EvictionKind.RECLAIM, gang, gang.tasks),
        guard.call(gang.tasks),
    ):
        assert [task.name for task in left] == ["low-w-0"]


def test_pdb_alone_makes_shuffle_evict_nobody():
    assert evicted(plan_for(a_node(), a_budget(3), running(), policy=policy("shuffle", "pdb"))) == []


def in_the_way(allowed, *more, **plan):
    """A gang of higher priority than what runs, on a full node, under a budget of what runs."""
    urgent = a_gang("urgent", 1, cpu="3", priority=9, group={"priority_class": "high"})
    things = a_node(cpu="3"), a_priority_class("high", 9), a_budget(allowed), running(), urgent, *more
    return plan_for(*things, policy=builtin.parse(builtin.TEXT, "built-in policy"), **plan)


def told(decisions, gang="urgent"):
    reasons = decisions.gangs[f"default/{gang}"].reasons
    return [(each.facts.name, each.facts.gang) for each in reasons if each.code is Code.DISRUPTION_BUDGET]


def test_the_built_in_policy_plans_nothing_that_a_budget_would_refuse_and_says_which_one():
    decisions = in_the_way(0)
    assert not decisions.evictions
    assert told(decisions) == [("default/b", "default/low")]
    message = decisions.gangs["default/urgent"].message
    assert message.endswith(
        "; PodDisruptionBudget default/b allows no eviction now: pods of gang default/low, which could make room, stay"
    )


def test_it_is_said_again_in_cycles_in_which_nothing_is_tried_and_nothing_is_tried_again_and_again():
    first = in_the_way(0)
    again = in_the_way(0, memory=first.memory, now=NOW + instant.SECOND)
    assert told(again) == told(first)
    assert again.gangs["default/urgent"].message == first.gangs["default/urgent"].message
    assert not again.evictions


def test_nothing_is_said_of_a_budget_that_allows_it():
    decisions = in_the_way(3)
    assert len(decisions.evictions) == 3
    assert told(decisions) == []


def test_who_ranks_no_higher_is_not_told_of_budgets():
    equal = a_gang("equal", 1, cpu="3")
    decisions = plan_for(a_node(cpu="3"), a_budget(0), running(), equal, policy=builtin.parse(builtin.TEXT, "built-in"))
    assert told(decisions, "equal") == []


def test_a_pod_that_does_not_run_yet_may_go_whatever_its_budget_says():
    assert len(tolerated(a_budget(0), running(phase="Pending"))) == 3

"""user-limits: what one user may run, submit and hold in a queue, and what a gang beyond it is told."""

import pytest
from tests.unit.scheduling.clusters import a_gang, a_node, a_pod, a_queue, evicted, plan_for, policy, report, started

from pumice.api import names
from pumice.scheduling.core.codes import Code
from pumice.scheduling.core.policy import PolicyError
from pumice.scheduling.core.verdict import Cure

BESIDE = policy("enqueue, allocate", "gang", "user-limits predicates")


def limited(text, name="default", **queue):
    return a_queue(name, annotations={names.USER_LIMITS: text}, **queue)


def of(user, queue="default", **more):
    return {"annotations": {names.SUBMITTED_BY: user}, "queue": queue, **more}


def waits_for(decisions, gang):
    """Code, facts and cure of the first reason."""
    reason = report(decisions, gang).reasons[0]
    return reason.code, reason.facts, reason.cure


def test_no_more_gangs_of_a_user_run_than_may():
    gangs = [a_gang(f"g{number}", 1, group=of("mia"), created=number) for number in range(4)]
    others = [a_gang("other", 1, group=of("tom"))]
    decisions = plan_for(a_node(), limited("running=2"), gangs, others, policy=BESIDE)
    assert started(decisions) == {"g0": 1, "g1": 1, "other": 1}
    code, facts, cure = waits_for(decisions, "g2")
    assert (code, cure) == (Code.USER_RUNNING, Cure.WAITING)
    assert (facts.user, facts.queue, facts.limit, facts.free) == ("mia", "default", 2, 2)
    assert facts.holders == ("default/g0", "default/g1")


def test_a_gang_that_runs_already_counts_and_is_left_alone():
    things = a_gang("old", 1, running=["n1"], group=of("mia")), a_gang("new", 1, group=of("mia"))
    decisions = plan_for(a_node(), limited("running=1"), *things, policy=BESIDE)
    assert started(decisions) == {}
    assert evicted(decisions) == []
    assert waits_for(decisions, "new")[1].holders == ("default/old",)


def test_a_user_holds_no_more_of_a_resource_than_it_may():
    gangs = [a_gang(f"g{number}", 2, gpu=1, group=of("mia"), created=number) for number in range(3)]
    decisions = plan_for(a_node(cpu="9", gpu=8), limited("nvidia.com/gpu=5"), gangs, policy=BESIDE)
    assert started(decisions) == {"g0": 2, "g1": 2}
    code, facts, cure = waits_for(decisions, "g2")
    assert (code, cure) == (Code.USER_RESOURCES, Cure.WAITING)
    (amount,) = facts.amounts
    assert (amount.resource, amount.limit, amount.held, amount.wanted) == ("nvidia.com/gpu", "5", "4", "2")


def test_a_gang_that_asks_for_more_than_the_limit_itself_needs_a_change():
    decisions = plan_for(
        a_node(gpu=8), limited("nvidia.com/gpu=1"), a_gang("g", 2, gpu=1, group=of("mia")), policy=BESIDE
    )
    assert waits_for(decisions, "g")[2] is Cure.CHANGE


def test_a_gang_grows_only_as_far_as_its_user_may_hold():
    gang = a_gang("g", 6, min_member=2, group=of("mia"))
    assert started(plan_for(a_node(cpu="9"), limited("cpu=4"), gang, policy=BESIDE)) == {"g": 4}


def test_a_gang_that_has_begun_gets_its_minimum_whatever_the_limit_says_by_now():
    gang = a_gang("g", 2, running=["n1"], group=of("mia", phase="Running"))
    assert started(plan_for(a_node(), limited("running=0,cpu=1"), gang, policy=BESIDE)) == {"g": 1}


def test_gangs_beyond_the_number_that_may_be_submitted_are_not_admitted_the_oldest_are():
    gangs = [
        a_gang(f"g{number}", 1, group=of("mia", phase="Pending", minimum={"cpu": "1"}), created=9 - number)
        for number in range(4)
    ]
    decisions = plan_for(a_node(cpu="9"), limited("submitted=2"), gangs, policy=BESIDE)
    assert {name for name in ("g0", "g1", "g2", "g3") if report(decisions, name).phase != "Pending"} == {"g2", "g3"}
    code, facts, cure = waits_for(decisions, "g0")
    assert (code, facts.limit, facts.free, cure) == (Code.USER_SUBMITTED, 2, 4, Cure.WAITING)


def test_finished_gangs_are_not_counted():
    done = [
        a_gang(f"d{number}", 1, group=of("mia", phase="Completed"), status={"phase": "Succeeded"})
        for number in range(3)
    ]
    assert started(
        plan_for(a_node(), limited("submitted=1,running=1"), done, a_gang("g", 1, group=of("mia")), policy=BESIDE)
    ) == {"g": 1}


def test_admission_counts_those_that_were_admitted_and_wait():
    group = of("mia", phase="Pending", minimum={"cpu": "1"})
    inside = a_gang("in", 1, cpu="9", group=of("mia", phase="Inqueue", minimum={"cpu": "1"}))
    decisions = plan_for(a_node(), limited("running=1"), inside, a_gang("g", 1, group=group), policy=BESIDE)
    assert report(decisions, "g").phase == "Pending"
    assert waits_for(decisions, "g")[0] is Code.USER_RUNNING


def test_the_limits_of_a_queue_hold_for_all_queues_below_it_together():
    queues = limited("running=1", "top"), a_queue("a", parent="top"), a_queue("b", parent="top")
    gangs = (
        a_gang("x", 1, group=of("mia", "a")),
        a_gang("y", 1, group=of("mia", "b")),
        a_gang("z", 1, group=of("tom", "b")),
    )
    decisions = plan_for(a_node(), *queues, *gangs, policy=BESIDE)
    assert len(started(decisions).keys() & {"x", "y"}) == 1
    assert "z" in started(decisions)


def test_arguments_hold_for_each_queue_that_does_not_say_otherwise():
    option = {"name": "user-limits", "arguments": {"running": 1, "resources": {"cpu": 9}}}
    beside = policy("allocate", ["gang"], [option, "predicates"])
    gangs = [a_gang(f"{queue}{number}", 1, group=of("mia", queue)) for queue in "ab" for number in range(3)]
    found = started(plan_for(a_node(cpu="9"), a_queue("a"), limited("running=2", "b"), gangs, policy=beside))
    assert sorted(name[0] for name in found) == ["a", "b", "b"]


def test_pods_without_a_group_count_as_gangs_of_their_user():
    pods = [a_pod(f"p{number}", annotations={names.SUBMITTED_BY: "mia"}) for number in range(3)]
    assert len(started(plan_for(a_node(), limited("running=2"), pods, policy=BESIDE))) == 2


def test_no_gang_is_evicted_for_one_that_may_not_start():
    high = {"priority": 9}
    with_preempt = policy("allocate, preempt", ["priority", "gang"], ["user-limits", "predicates", "conformance"])
    low = a_gang("low", 1, cpu="2", running=["n1"], group=of("tom"))
    mine = (
        a_gang("mine", 1, running=["n2"], cpu="2", group=of("mia")),
        a_gang("more", 1, cpu="2", group=of("mia"), **high),
    )
    things = a_node("n1", cpu="2"), a_node("n2", cpu="2"), low, *mine
    decisions = plan_for(*things, limited("running=1"), policy=with_preempt)
    assert evicted(decisions) == []


def test_limits_that_cannot_be_read_let_nothing_start_and_say_so():
    decisions = plan_for(a_node(), limited("running=many"), a_gang("g", 1), policy=BESIDE)
    assert started(decisions) == {}
    assert waits_for(decisions, "g")[0] is Code.USER_LIMITS_UNREADABLE


@pytest.mark.parametrize(("name", "amount"), [("cpu", "lots"), ("gpu", 8)])
def test_an_argument_that_is_no_resource_or_no_quantity_is_named(name, amount):
    option = {"name": "user-limits", "arguments": {"resources": {name: amount}}}
    with pytest.raises(PolicyError, match=f"resources: {name}"):
        plan_for(a_node(), policy=policy("allocate", [option]))

import pytest
from tests.unit.scheduling.clusters import (
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
    session_for,
    started,
    when,
)

from pumice.instant import parse_instant
from pumice.scheduling.core.policy import PolicyError

NOON = parse_instant(when(12 * 3600))


def sla(actions="enqueue, allocate", waiting_time=None):
    arguments = {} if waiting_time is None else {"sla-waiting-time": waiting_time}
    return policy(actions, [{"name": "sla", "arguments": arguments}], "gang overcommit")


def patient(hours, key="volcano.sh/sla-waiting-time"):
    return {"annotations": {key: f"{hours}h"}}


def test_a_gang_that_has_waited_too_long_is_admitted_although_the_cluster_is_overbooked():
    group = a_group("g", 1, phase="Pending", minimum={"cpu": "99"}, created=0)
    due = plan_for(a_node(), group, policy=sla(waiting_time="12h"), now=NOON)
    not_yet = plan_for(a_node(), group, policy=sla(waiting_time="12h1s"), now=NOON)
    assert report(due, "g").phase == "Inqueue"
    assert report(not_yet, "g").phase == "Pending"


@pytest.mark.parametrize("key", ["volcano.sh/sla-waiting-time", "sla-waiting-time"])
def test_a_gangs_own_waiting_time_wins_over_everybodys(key):
    group = a_group("g", 1, phase="Pending", minimum={"cpu": "99"}, created=0, **patient(1, key))
    assert report(plan_for(a_node(), group, policy=sla(waiting_time="100h"), now=NOON), "g").phase == "Inqueue"


@pytest.mark.parametrize("written", ["soon", "-1h", "0s", ""])
def test_a_waiting_time_that_makes_no_sense_is_as_good_as_none(written):
    notes = {"annotations": {"volcano.sh/sla-waiting-time": written}}
    group = a_group("g", 1, phase="Pending", minimum={"cpu": "99"}, created=0, **notes)
    assert report(plan_for(a_node(), group, policy=sla(), now=NOON), "g").phase == "Pending"
    assert report(plan_for(a_node(), group, policy=sla(waiting_time="1h"), now=NOON), "g").phase == "Inqueue"


def test_gangs_with_a_deadline_come_first_and_the_earliest_of_them_before_all():
    session = session_for(
        a_node(),
        a_group("never", 1, created=0),
        a_group("late", 1, created=1, **patient(9)),
        a_group("soon", 1, created=7200, **patient(3)),
        policy=sla(),
    )
    keys = {name: session.gang_key(session.gangs[f"default/{name}"]) for name in ("never", "late", "soon")}
    assert sorted(keys, key=keys.get) == ["soon", "late", "never"]


def test_a_gang_that_is_due_keeps_the_room_that_it_found_from_those_behind_it():
    """Two of three members fit. Due, they hold their places for this cycle; else the next gang takes them."""
    objects = [a_node(cpu="2"), a_gang("big", 3, created=0), a_gang("small", 1, created=1)]
    assert started(plan_for(*objects, policy=sla(waiting_time="13h"), now=NOON)) == {"small": 1}
    due = plan_for(*objects, policy=sla(waiting_time="12h"), now=NOON)
    assert binds(due) == promised(due) == {}


def test_a_gang_that_nobody_has_dated_has_not_waited_yet():
    group = a_group("g", 1, phase="Pending", minimum={"cpu": "99"}, metadata={"creationTimestamp": None})
    assert report(plan_for(a_node(), group, policy=sla(waiting_time="1h"), now=NOON), "g").phase == "Pending"


@pytest.mark.parametrize("written", ["tomorrow", "-5m", "0"])
def test_a_default_that_is_no_time_to_wait_is_refused(written):
    with pytest.raises(PolicyError, match=r"plugin sla: sla-waiting-time: .*; write for example"):
        plan_for(a_node(), a_pod(), policy=sla(waiting_time=written))


@pytest.mark.parametrize(("action", "queue"), [("preempt", "default"), ("reclaim", "poor")])
@pytest.mark.parametrize(("size", "victims"), [(3, 3), (4, 0)])
def test_others_go_for_a_gang_that_is_due_only_if_it_can_then_start_whole(action, queue, size, victims):
    """All four pods of the node run, three of them beyond their gang's minimum: there is room to be made for three."""
    objects = [
        a_node(cpu="4"),
        a_queue("default", weight=1),
        a_queue("poor", weight=9),
        a_priority_class("high", 100),
        a_gang("low", 4, min_member=1, running=["n1"] * 4),
        a_gang("due", size, group={"queue": queue, "priority_class": "high"}, priority=100),
    ]
    due = {"name": "sla", "arguments": {"sla-waiting-time": "12h"}}
    chosen = policy(f"allocate, {action}", [due], "gang priority", "predicates proportion")
    decisions = plan_for(*objects, policy=chosen, now=NOON)
    assert len(evicted(decisions)) == len(promised(decisions)) == victims

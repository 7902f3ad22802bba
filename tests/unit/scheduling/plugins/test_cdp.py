import pytest
from tests.unit.scheduling.clusters import (
    a_gang,
    a_group,
    a_node,
    a_pod,
    a_priority_class,
    a_queue,
    evicted,
    plan_for,
    policy,
    session_for,
    when,
)

from pumice.instant import SECOND, parse_instant
from pumice.scheduling.core.points import EvictionKind

COOLDOWN = "volcano.sh/cooldown-time"
NOON = when(12 * 3600)


def noon(seconds=0):
    return parse_instant(NOON) + seconds * SECOND


def a_victim(*, cooldown="10m", as_label=True, scheduled=NOON, **pod):
    """A running pod that got its node at noon."""
    marks = {COOLDOWN: cooldown} if cooldown else {}
    conditions = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": scheduled}] if scheduled else []
    return a_pod(
        "victim", gang="low", node="n1", **{"labels" if as_label else "annotations": marks},
        status={"conditions": conditions}, **pod,
    )  # fmt: skip


def preempted(victim, seconds):
    """Whom a higher-ranked gang evicts so many seconds after noon."""
    objects = [a_node(cpu="1"), a_priority_class("high", 9), a_group("low", 1, phase="Running"), victim]
    urgent = a_gang("urgent", 1, group={"priority_class": "high"})
    return evicted(plan_for(*objects, urgent, policy=policy("preempt", "priority cdp"), now=noon(seconds)))


@pytest.mark.parametrize("as_label", [True, False])
def test_a_pod_is_left_alone_until_it_has_cooled_down(as_label):
    victim = a_victim(as_label=as_label)
    assert preempted(victim, 599) == []
    assert preempted(victim, 600) == ["victim"]


def test_the_label_wins_over_the_annotation():
    victim = a_pod(
        "victim", gang="low", node="n1", labels={COOLDOWN: "1m"}, annotations={COOLDOWN: "1h"},
        status={"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": NOON}]},
    )  # fmt: skip
    assert preempted(victim, 61) == ["victim"]


@pytest.mark.parametrize("cooldown", ["", "later", "-10m", "0s"])
def test_a_pod_that_asks_for_no_time_or_for_nonsense_has_none(cooldown):
    assert preempted(a_victim(cooldown=cooldown), 1) == ["victim"]


def test_a_pod_of_which_nobody_knows_when_it_got_its_node_is_not_protected():
    assert preempted(a_victim(scheduled=None), 1) == ["victim"]
    assert preempted(a_victim(scheduled="noon"), 1) == ["victim"]


def test_a_pod_that_does_not_run_yet_is_not_protected():
    assert preempted(a_victim(phase="Pending"), 1) == ["victim"]


def test_queues_reclaim_around_it():
    objects = [
        a_node(cpu="1"),
        a_queue("rich", deserved={}),
        a_queue("poor", deserved={"cpu": "1"}),
        a_group("low", 1, queue="rich", phase="Running"),
        a_victim(),
        a_gang("g", 1, group={"queue": "poor"}),
    ]
    gang = {"name": "gang", "enableReclaimable": False}
    for chosen in (policy("reclaim", [gang, "cdp", "capacity"]), policy("reclaim", [gang, "capacity"], "cdp")):
        assert evicted(plan_for(*objects, policy=chosen, now=noon(599))) == []
        assert evicted(plan_for(*objects, policy=chosen, now=noon(600))) == ["victim"]


def test_whole_gangs_and_shuffles_respect_it_too():
    session = session_for(
        a_node(),
        a_group("low", 1, phase="Running"),
        a_victim(),
        a_gang("g", 1),
        policy=policy("allocate", "cdp"),
        now=noon(1),
    )
    victims = session.gangs["default/low"].tasks
    (gangs,), (guard,) = session.points.evictable.hooks, session.points.shuffled.guard.hooks
    assert gangs.call(EvictionKind.PREEMPT, session.gangs["default/g"], victims) == []
    assert guard.call(victims) == []

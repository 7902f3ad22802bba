"""What it costs to find out that evictions cannot help, and how often that is found out."""

import pytest
from tests.unit.scheduling.clusters import (
    NOW,
    a_cluster,
    a_gang,
    a_node,
    a_pod,
    a_priority_class,
    a_queue,
    policy,
)

from pumice import instant
from pumice.api.changes import Upserted
from pumice.cluster.intake import Intake
from pumice.scheduling import cycle
from pumice.scheduling.actions import preempt, reclaim
from pumice.scheduling.eviction import PAUSE_FIRST, PAUSE_MAX
from pumice.scheduling.ports import Ports

NODES = 20
BUDGET = 10_000
RECLAIM = policy("reclaim", "gang conformance predicates proportion")
PREEMPT = policy("preempt", "gang conformance predicates priority")
ACTIONS = pytest.mark.parametrize(
    ("action", "chosen"), [(reclaim, RECLAIM), (preempt, PREEMPT)], ids=["reclaim", "preempt"]
)
SECOND = instant.SECOND


def full(*waiting):
    """Nodes full of whole gangs, which nobody may break."""
    queues = [a_queue("rich"), a_queue("poor"), a_priority_class("high", 9)]
    nodes = [a_node(f"n{number}", cpu="2") for number in range(NODES)]
    group = {"queue": "rich", "phase": "Running"}
    held = [a_gang(f"old{number}", 2, running=[f"n{number}"] * 2, group=group) for number in range(NODES)]
    return a_cluster(queues, nodes, held, *waiting)


def waiting(name, size, queue, **more):
    return a_gang(name, size, group={"queue": queue, "priority_class": "high"}, **more)


def queue_for(action):
    return "poor" if action is reclaim else "rich"


def looks(cluster, action, chosen, *, ports, now=NOW, budget=BUDGET):
    """How often one action has looked at all nodes."""
    session = cycle.open_session(cluster.snapshot(), chosen, now=now, ports=ports, budget=budget)
    action.run(session)
    return (budget - session.budget) // NODES


@ACTIONS
def test_a_gang_whose_first_member_finds_no_room_is_given_up_at_once(action, chosen):
    few, many = (looks(full(waiting("g", size, queue_for(action))), action, chosen, ports=Ports()) for size in (2, 12))
    assert few == many == 1


@ACTIONS
def test_a_gang_that_needs_only_some_of_its_members_tries_until_too_few_are_left(action, chosen):
    elastic = waiting("g", 12, queue_for(action), min_member=10)
    assert looks(full(elastic), action, chosen, ports=Ports()) == 3


@ACTIONS
def test_what_was_in_vain_is_tried_again_after_a_pause_that_grows(action, chosen):
    cluster, ports = full(waiting("g", 2, queue_for(action))), Ports()
    tried = [second for second in range(200) if looks(cluster, action, chosen, ports=ports, now=NOW + second * SECOND)]
    assert tried == [0, 2, 6, 14, 30, 62, 122, 182]
    assert (PAUSE_FIRST, PAUSE_MAX) == (2 * SECOND, 60 * SECOND)


@ACTIONS
def test_a_gang_that_has_changed_is_tried_at_once(action, chosen):
    cluster, ports = full(waiting("g", 2, queue_for(action))), Ports()
    assert [looks(cluster, action, chosen, ports=ports) for _ in range(2)] == [1, 0]
    Intake(cluster).apply(Upserted(a_pod("g-w-2", gang="g")))
    assert looks(cluster, action, chosen, ports=ports) == 2  # the minimum of two leaves one to spare


@ACTIONS
def test_where_the_budget_ends_the_next_ones_have_their_turn_in_the_next_cycle(action, chosen):
    gangs = [waiting(name, 2, queue_for(action), created=number) for number, name in enumerate("abc")]
    cluster, ports = full(*gangs), Ports()
    for number in range(3):
        looks(cluster, action, chosen, ports=ports, budget=NODES + 15, now=NOW + number)
    assert sorted(gang for _, gang in ports.memory.vain) == ["default/a", "default/b", "default/c"]


def test_whoever_is_postponed_is_not_forgotten_until_the_next_news():
    cluster, ports = full(waiting("g", 2, "poor")), Ports()
    first, second = (cycle.plan(cluster.snapshot(), RECLAIM, now=NOW, ports=ports).restless for _ in range(2))
    assert (first, second) == (False, True)  # what was just tried needs no second look before something happens


def test_who_is_gone_is_forgotten():
    cluster, ports = full(waiting("g", 2, "poor")), Ports()
    cycle.plan(cluster.snapshot(), RECLAIM, now=NOW, ports=ports)
    assert list(ports.memory.vain) == [("reclaim", "default/g")]
    cycle.plan(full().snapshot(), RECLAIM, now=NOW, ports=ports)
    assert ports.memory.vain == {}

"""What it costs to find out that evictions cannot help, and how often that is found out."""

import pytest
from tests.unit.scheduling.clusters import (
    NOW,
    a_cluster,
    a_gang,
    a_group,
    a_node,
    a_pod,
    a_priority_class,
    a_queue,
    an_object,
    evicted,
    policy,
)

from pumice import instant
from pumice.api.changes import Deleted, Upserted
from pumice.cluster.intake import Intake
from pumice.processes import scheduler
from pumice.scheduling.actions import preempt, reclaim
from pumice.scheduling.core import cycle
from pumice.scheduling.core.ports import Ports
from pumice.scheduling.evicting.eviction import PAUSE_FIRST, PAUSE_MAX

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


def budget_of(name="b", allowed=0):
    status = {"disruptionsAllowed": allowed}
    return an_object(
        "policy/v1", "PodDisruptionBudget", {"metadata": {"name": name, "namespace": "default"}, "status": status}
    )


@ACTIONS
@pytest.mark.parametrize(
    "news",
    [
        Upserted(a_queue("rich", weight=3)),
        Upserted(a_node("another", cpu="1")),
        Upserted(a_node("n0", cpu="2", labels={"zone": "a"})),
        Upserted(a_node("n0", cpu="2", spec={"unschedulable": True})),
        Upserted(a_priority_class("high", 99)),
        Upserted(budget_of(allowed=1)),
        Deleted(budget_of()),
        Upserted(a_group("old0", 1, queue="rich", phase="Running")),
        Upserted(a_pod("old0-w-0", gang="old0", node="n0", labels={"volcano.sh/preemptable": "false"})),
    ],
    ids=["queue", "new node", "labels", "cordon", "class", "budget", "no budget", "group", "pod"],
)
def test_where_the_rules_have_changed_everybody_is_tried_at_once(action, chosen, news):
    cluster, ports = full(waiting("g", 2, queue_for(action)), budget_of()), Ports()
    intake = Intake(cluster)
    assert [looks(cluster, action, chosen, ports=ports) for _ in range(2)] == [1, 0]
    intake.apply(news)
    assert [looks(cluster, action, chosen, ports=ports) > 0 for _ in range(2)] == [True, False]


@ACTIONS
def test_under_another_policy_everybody_is_tried_at_once(action, chosen):
    cluster, ports = full(waiting("g", 2, queue_for(action))), Ports()
    other = policy(chosen.actions[0], " ".join(option.name for option in chosen.options))
    assert [looks(cluster, action, each, ports=ports) for each in (chosen, chosen, other)] == [1, 0, 1]


@ACTIONS
def test_where_more_places_stand_free_everybody_is_tried_at_once(action, chosen):
    """One that goes by itself is one that need not be evicted."""
    cluster, ports = full(waiting("g", 2, queue_for(action))), Ports()
    alone = a_pod("alone", node="n0", spec={"schedulerName": "default-scheduler"})
    intake = Intake(cluster)
    intake.apply(Upserted(a_node("n0", cpu="3")))
    intake.apply(Upserted(alone))
    assert [looks(cluster, action, chosen, ports=ports) for _ in range(2)] == [1, 0]
    intake.apply(Deleted(alone))
    assert looks(cluster, action, chosen, ports=ports) > 0


@ACTIONS
@pytest.mark.parametrize(
    "news",
    [
        Upserted(a_queue("rich", status={"allocated": {"cpu": "1"}})),
        Upserted(a_node("n0", cpu="2", annotations={"beat": "7"})),
        Upserted(budget_of(allowed=-1)),
        Upserted(a_pod("new", gang="new")),
        Upserted(a_group("old0", 2, queue="rich", phase="Unknown")),
    ],
    ids=["holdings", "heartbeat", "less budget", "somebody else", "phase"],
)
def test_what_happens_all_the_time_does_not_end_a_pause(action, chosen, news):
    cluster, ports = full(waiting("g", 2, queue_for(action)), budget_of()), Ports()
    intake = Intake(cluster)
    looks(cluster, action, chosen, ports=ports)
    intake.apply(news)
    assert looks(cluster, action, chosen, ports=ports) == 0


@ACTIONS
def test_news_without_end_do_not_keep_the_last_from_having_a_turn(action, chosen):
    gangs = [waiting(name, 2, queue_for(action), created=number) for number, name in enumerate("abc")]
    cluster, ports = full(*gangs), Ports()
    intake = Intake(cluster)
    for number in range(6):
        intake.apply(Upserted(a_queue("rich", weight=2 + number)))
        snapshot = cluster.snapshot()
        cycle.plan(snapshot, chosen, now=NOW + number * SECOND, ports=ports, budget=NODES + 15)
    assert sorted(gang for _, gang in ports.memory.vain) == ["default/a", "default/b", "default/c"]


@ACTIONS
def test_a_gang_that_takes_more_than_a_cycle_has_does_not_keep_others_from_their_turn(action, chosen):
    elastic = waiting("a", 12, queue_for(action), min_member=1)
    cluster, ports = full(elastic, waiting("b", 1, queue_for(action), created=1)), Ports()
    for number in range(2):
        looks(cluster, action, chosen, ports=ports, budget=4 * NODES, now=NOW + number)
    assert sorted(gang for _, gang in ports.memory.vain) == ["default/a", "default/b"]


def test_nodes_that_have_nobody_to_give_are_looked_at_once_and_not_once_for_each_member():
    """Else a large gang could never preempt in a large cluster: its plan would take more than a cycle may work."""
    weak = [a_node(f"weak{number}", cpu="1", created=9) for number in range(8)]
    victims = [
        a_gang(f"v{number}", 1, min_member=0, running=[f"weak{number}"], group={"queue": "rich"}) for number in range(8)
    ]
    cluster = full(weak, victims, waiting("g", 8, "rich"))
    decisions = cycle.plan(cluster.snapshot(), PREEMPT, now=NOW, budget=3 * NODES)
    assert len(evicted(decisions)) == 8


def test_however_many_gangs_wait_their_turns_leave_time_for_evictions(monkeypatch):
    monkeypatch.setattr(scheduler, "CYCLE_UNITS", 2 * NODES)
    many = [waiting(f"g{number}", 2, "rich", created=number) for number in range(3 * NODES)]
    victim = a_gang("v", 1, min_member=0, running=["weak"], group={"queue": "rich"})
    cluster = full(a_node("weak", cpu="1"), victim, many, waiting("first", 1, "rich", created=0))
    chosen = policy("allocate, preempt, reclaim", "gang conformance predicates priority")
    snapshot = cluster.snapshot()
    ports = Ports()
    plans = [
        cycle.plan(snapshot, chosen, now=NOW + number, ports=ports, budget=scheduler.units_for(snapshot))
        for number in range(2)
    ]
    assert [evicted(each) for each in plans] == [["v-w-0"], ["v-w-0"]]


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

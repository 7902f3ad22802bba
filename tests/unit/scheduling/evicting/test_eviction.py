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
from pumice.scheduling.core import build_decisions, cycle, memory
from pumice.scheduling.core.build_decisions import OWN_MEMORY
from pumice.scheduling.evicting import backoff
from pumice.scheduling.evicting.backoff import PAUSE_FIRST, PAUSE_MAX
from pumice.scheduling.evicting.pool import Pool

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


class Past:
    """The memory from cycle to cycle; each time it goes through its encoding, as over a restart."""

    def __init__(self):
        self.memory = memory.EMPTY

    def plan(self, snapshot, chosen, now=NOW, **more):
        decisions = cycle.plan(snapshot, chosen, self.memory, now=now, **more)
        self.keep(decisions.memory)
        return decisions

    def keep(self, learned):
        slots = [slot for slot, _ in OWN_MEMORY]
        self.memory = memory.decode(memory.encode(learned, slots), slots)

    @property
    def gangs(self):
        """Those that back off."""
        actions = self.memory.of(backoff.SLOT).actions
        return sorted(gang for known in actions.values() for gang in known)


def looks(cluster, action, chosen, *, past, now=NOW, budget=BUDGET):
    """How often one action has looked at all nodes."""
    session = cycle.open_session(cluster.snapshot(), chosen, past.memory, now=now, budget=budget)
    looked = []
    with pytest.MonkeyPatch.context() as patch:
        screen = Pool.screen
        patch.setattr(Pool, "screen", lambda pool, *asked: (looked.append(asked), screen(pool, *asked))[1])
        action.run(session)
    past.keep(build_decisions.close(session).memory)
    return len(looked)


@ACTIONS
def test_a_gang_whose_first_member_finds_no_room_is_given_up_at_once(action, chosen):
    few, many = (looks(full(waiting("g", size, queue_for(action))), action, chosen, past=Past()) for size in (2, 12))
    assert few == many == 1


@ACTIONS
def test_a_gang_that_needs_only_some_of_its_members_tries_until_too_few_are_left(action, chosen):
    elastic = waiting("g", 12, queue_for(action), min_member=10)
    assert looks(full(elastic), action, chosen, past=Past()) == (3 if action is reclaim else 1)


def test_members_that_are_alike_are_not_tried_one_by_one_where_nobody_could_go_for_them():
    """Free room for all but one of them would be promised to one after the other, for nothing."""
    cluster = full(waiting("g", 12, "rich"))
    for number in range(11):
        Intake(cluster).apply(Upserted(a_node(f"free-{number}", cpu="1")))
    assert looks(cluster, preempt, PREEMPT, past=Past()) == 1


@ACTIONS
def test_what_was_in_vain_is_tried_again_after_a_pause_that_grows(action, chosen):
    cluster, past = full(waiting("g", 2, queue_for(action))), Past()
    tried = [second for second in range(200) if looks(cluster, action, chosen, past=past, now=NOW + second * SECOND)]
    assert tried == [0, 2, 6, 14, 30, 62, 122, 182]
    assert (PAUSE_FIRST, PAUSE_MAX) == (2 * SECOND, 60 * SECOND)


@ACTIONS
def test_a_gang_that_has_changed_is_tried_at_once(action, chosen):
    cluster, past = full(waiting("g", 2, queue_for(action))), Past()
    assert [looks(cluster, action, chosen, past=past) for _ in range(2)] == [1, 0]
    Intake(cluster).apply(Upserted(a_pod("g-w-2", gang="g")))
    assert looks(cluster, action, chosen, past=past) == (2 if action is reclaim else 1)  # one of three may fail


@ACTIONS
def test_where_the_budget_ends_the_next_ones_have_their_turn_in_the_next_cycle(action, chosen):
    gangs = [waiting(name, 2, queue_for(action), created=number) for number, name in enumerate("abc")]
    cluster, past = full(*gangs), Past()
    for number in range(3):
        looks(cluster, action, chosen, past=past, budget=NODES + 15, now=NOW + number)
    assert past.gangs == ["default/a", "default/b", "default/c"]


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
    cluster, past = full(waiting("g", 2, queue_for(action)), budget_of()), Past()
    intake = Intake(cluster)
    assert [looks(cluster, action, chosen, past=past) for _ in range(2)] == [1, 0]
    intake.apply(news)
    assert [looks(cluster, action, chosen, past=past) > 0 for _ in range(2)] == [True, False]


@ACTIONS
def test_under_another_policy_everybody_is_tried_at_once(action, chosen):
    cluster, past = full(waiting("g", 2, queue_for(action))), Past()
    other = policy(chosen.actions[0], " ".join(option.name for option in chosen.options), "binpack")
    assert [looks(cluster, action, each, past=past) for each in (chosen, chosen, other)] == [1, 0, 1]


@ACTIONS
def test_where_more_places_stand_free_everybody_is_tried_at_once(action, chosen):
    """One that goes by itself is one that need not be evicted."""
    cluster, past = full(waiting("g", 2, queue_for(action))), Past()
    alone = a_pod("alone", node="n0", spec={"schedulerName": "default-scheduler"})
    intake = Intake(cluster)
    intake.apply(Upserted(a_node("n0", cpu="3")))
    intake.apply(Upserted(alone))
    assert [looks(cluster, action, chosen, past=past) for _ in range(2)] == [1, 0]
    intake.apply(Deleted(alone))
    assert looks(cluster, action, chosen, past=past) > 0


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
    cluster, past = full(waiting("g", 2, queue_for(action)), budget_of()), Past()
    intake = Intake(cluster)
    looks(cluster, action, chosen, past=past)
    intake.apply(news)
    assert looks(cluster, action, chosen, past=past) == 0


@ACTIONS
def test_news_without_end_do_not_keep_the_last_from_having_a_turn(action, chosen):
    gangs = [waiting(name, 2, queue_for(action), created=number) for number, name in enumerate("abc")]
    cluster, past = full(*gangs), Past()
    intake = Intake(cluster)
    for number in range(6):
        intake.apply(Upserted(a_queue("rich", weight=2 + number)))
        snapshot = cluster.snapshot()
        past.plan(snapshot, chosen, now=NOW + number * SECOND, budget=NODES + 15)
    assert past.gangs == ["default/a", "default/b", "default/c"]


@ACTIONS
def test_a_gang_that_takes_more_than_a_cycle_has_does_not_keep_others_from_their_turn(action, chosen):
    elastic = waiting("a", 12, queue_for(action), min_member=1)
    cluster, past = full(elastic, waiting("b", 1, queue_for(action), created=1)), Past()
    for number in range(2):
        looks(cluster, action, chosen, past=past, budget=4 * NODES, now=NOW + number)
    assert past.gangs == ["default/a", "default/b"]


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
    past = Past()
    plans = [past.plan(snapshot, chosen, now=NOW + number, budget=scheduler.units_for(snapshot)) for number in range(2)]
    assert [evicted(each) for each in plans] == [["v-w-0"], ["v-w-0"]]


def test_whoever_is_postponed_is_not_forgotten_until_the_next_news():
    cluster, past = full(waiting("g", 2, "poor")), Past()
    first, second = (past.plan(cluster.snapshot(), RECLAIM).next_change for _ in range(2))
    # What was just tried needs no second look before something happens.
    assert (first, second) == (None, NOW + PAUSE_FIRST)


def test_who_is_gone_is_forgotten():
    cluster, past = full(waiting("g", 2, "poor")), Past()
    past.plan(cluster.snapshot(), RECLAIM)
    assert past.gangs == ["default/g"]
    past.plan(full().snapshot(), RECLAIM)
    assert past.gangs == []


def test_a_gang_of_the_same_name_is_another_one():
    past = Past()
    for uid, looked in (("one", 1), ("one", 0), ("two", 1)):
        group = {"queue": "poor", "priority_class": "high", "uid": uid}
        assert looks(full(a_gang("g", 2, group=group)), reclaim, RECLAIM, past=past) == looked


def test_back_offs_hold_in_another_process_that_has_listed_the_same_objects():
    """What a process counts begins anew with it."""
    past, former = Past(), full(waiting("g", 2, "poor"))
    Intake(former).apply(Upserted(a_pod("old0-w-0", gang="old0", node="n0", labels={"any": "thing"})))
    assert former.shifts == 1
    assert looks(former, reclaim, RECLAIM, past=past) == 1
    again = full(waiting("g", 2, "poor"))
    assert again.shifts == 0
    assert looks(again, reclaim, RECLAIM, past=past) == 0


def test_what_we_write_onto_its_group_ends_no_back_off():
    past, cluster = Past(), full(waiting("g", 2, "poor"))
    assert looks(cluster, reclaim, RECLAIM, past=past) == 1
    notes = {"annotations": {"pumice.dev/verdict": "{}"}, "phase": "Running"}
    Intake(cluster).apply(Upserted(a_group("g", 2, queue="poor", priority_class="high", **notes)))
    assert looks(cluster, reclaim, RECLAIM, past=past) == 0


def test_an_equal_policy_that_is_read_anew_ends_no_back_off():
    past, cluster = Past(), full(waiting("g", 2, "poor"))
    equal = policy("reclaim", "gang conformance predicates proportion")
    assert [looks(cluster, reclaim, each, past=past) for each in (RECLAIM, equal)] == [1, 0]


@ACTIONS
def test_a_back_off_that_begins_in_the_future_is_from_a_clock_that_was_ahead_and_holds_nobody_back(action, chosen):
    past, cluster = Past(), full(waiting("g", 2, queue_for(action)))
    hour = 3600 * SECOND
    assert [looks(cluster, action, chosen, past=past, now=now) for now in (NOW + hour, NOW, NOW + 1)] == [1, 1, 0]


def test_beyond_the_limit_those_back_offs_are_dropped_that_end_first(monkeypatch):
    monkeypatch.setattr(backoff, "BACKOFFS_MAX", 2)
    past, gangs = Past(), [waiting(name, 2, "poor", created=number) for number, name in enumerate("abc")]
    looks(full(gangs[0]), reclaim, RECLAIM, past=past)
    looks(full(*gangs), reclaim, RECLAIM, past=past, now=NOW + 1)
    assert past.gangs == ["default/b", "default/c"]


def test_the_largest_back_off_slot_is_within_its_bound():
    longest = "f" * 253  # a uid is 36 characters long; a key stands in where an object has none
    entry = backoff.Backoff("f" * 16, "f" * 16, 10**6, 10**6, pause=10**12, until=2 * 10**18)
    uids = [f"{number:036}" for number in range(backoff.BACKOFFS_MAX)]
    full_slot = backoff.EvictionBackoff(True, {"gangpreempt": dict.fromkeys([*uids, longest], entry)})
    assert len(backoff.SLOT.encode(full_slot)) <= backoff.SLOT.bytes_max

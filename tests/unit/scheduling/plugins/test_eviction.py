"""eviction: who is left alone, who has to wait, who goes first, and which plans come to nothing."""

import pytest
from tests.unit.scheduling.clusters import (
    NOW,
    a_gang,
    a_node,
    a_priority_class,
    a_queue,
    evicted,
    plan_for,
    policy,
    report,
    session_for,
    when,
)

from pumice.instant import HOUR, MINUTE, SECOND
from pumice.scheduling.core.codes import Code
from pumice.scheduling.core.memory import EMPTY
from pumice.scheduling.core.points import EvictionKind
from pumice.scheduling.core.policy import PolicyError
from pumice.scheduling.evicting.history import SLOT, Entry, Evictions
from pumice.scheduling.evicting.lost_work import LostWork
from pumice.scheduling.plugins.eviction import EvictionPlugin

HIGH = a_priority_class("high", 9)
URGENT = {"priority_class": "high"}


def rules(actions="preempt", first="priority conformance", **arguments):
    """A policy in which the plugin has these arguments."""
    own = {"name": "eviction", "arguments": arguments}
    return policy(actions, [*first.split(), own], "gang predicates")


def runs(name, *where, started=0, queue="default", annotations=None, group=None, **pods):
    """A gang that runs on these nodes since so many seconds after midnight; it is an hour after midnight."""
    own = {"phase": "Running", "queue": queue, **(group or {})}
    status = {"startTime": when(started)}
    return a_gang(name, len(where), running=list(where), group=own, status=status, annotations=annotations, **pods)


def wants(name="urgent", size=1, *, group=URGENT, **pods):
    return a_gang(name, size, group=group, **pods)


def reasons(decisions, gang="urgent"):
    return {reason.code: reason.facts for reason in report(decisions, gang).reasons}


# ------------------------------------------------------------------------------------------------- minimum run time


def world(started=3000, **queue):
    return [a_node(cpu="1"), HIGH, a_queue(**queue), runs("low", "n1", started=started), wants()]


def test_a_gang_is_left_alone_until_it_has_run_for_its_minimum_and_the_claimant_is_told():
    chosen = rules(**{"min-runtime": "15m"})
    decisions = plan_for(*world(), policy=chosen)
    assert evicted(decisions) == []
    facts = reasons(decisions)[Code.VICTIMS_PROTECTED]
    assert (facts.gang, facts.until) == ("default/low", when(3900))
    assert decisions.next_change == NOW + 300 * SECOND
    assert evicted(plan_for(*world(), policy=chosen, now=NOW + 300 * SECOND)) == ["low-w-0"]


def test_of_equal_claimants_one_asks_about_the_nodes_and_all_are_told(monkeypatch):
    asked = []
    ask = EvictionPlugin.not_protected
    monkeypatch.setattr(EvictionPlugin, "not_protected", lambda *told: asked.append(told[1]) or ask(*told))
    decisions = plan_for(*world(), wants("next"), wants("last"), policy=rules(**{"min-runtime": "15m"}))
    for name in ("urgent", "next", "last"):
        assert reasons(decisions, name)[Code.VICTIMS_PROTECTED].until == when(3900)
    assert len(asked) == 1


def test_the_claimant_says_so_for_as_long_as_it_holds_and_is_served_at_that_moment():
    """Also in cycles in which no plan is made for it, because the last one came to nothing."""
    chosen, memory = rules(**{"min-runtime": "15m"}), EMPTY
    for second in (0, 1, 3, 20, 200, 299):
        decisions = plan_for(*world(), policy=chosen, memory=memory, now=NOW + second * SECOND)
        assert Code.VICTIMS_PROTECTED in reasons(decisions), second
        memory = decisions.memory
    decisions = plan_for(*world(), policy=chosen, memory=memory, now=NOW + 300 * SECOND)
    assert evicted(decisions) == ["low-w-0"]
    assert Code.VICTIMS_PROTECTED not in reasons(decisions)


@pytest.mark.parametrize(
    ("policys", "queues", "is_evicted"),
    [("15m", "5m", True), ("5m", "15m", False), ("15m", "0s", True), (None, "15m", False), ("15m", "soon", False)],
)
def test_a_queues_own_minimum_wins(policys, queues, is_evicted):
    chosen = rules(**({"min-runtime": policys} if policys else {}))
    things = world(annotations={"pumice.dev/min-runtime": queues})
    assert bool(evicted(plan_for(*things, policy=chosen))) is is_evicted


def test_a_queue_above_speaks_for_those_below():
    things = [
        a_node(cpu="1"),
        HIGH,
        a_queue("science", annotations={"pumice.dev/min-runtime": "2h"}),
        a_queue("vision", parent="science"),
        runs("low", "n1", queue="vision"),
        wants(group={**URGENT, "queue": "vision"}),
    ]
    assert evicted(plan_for(*things, policy=rules())) == []
    things[3] = a_queue("vision", parent="science", annotations={"pumice.dev/min-runtime": "1h"})
    assert evicted(plan_for(*things, policy=rules())) == ["low-w-0"]


def test_members_beyond_the_minimum_may_go_all_the_same():
    elastic = runs("low", "n1", "n1", started=3500, min_member=1)
    things = [a_node(cpu="2"), HIGH, elastic, wants("one"), wants("two", created=1)]
    assert evicted(plan_for(*things, policy=rules(**{"min-runtime": "15m"}))) == ["low-w-1"]


def test_a_gang_that_has_not_started_is_not_protected():
    low = a_gang("low", 1, running=["n1"], group={"phase": "Running"})
    assert evicted(plan_for(a_node(cpu="1"), HIGH, low, wants(), policy=rules(**{"min-runtime": "15m"})))


def test_reclaim_whole_gangs_and_shuffles_respect_it_too():
    session = session_for(*world(), policy=rules(**{"min-runtime": "15m"}))
    victims, claimant = session.gangs["default/low"].tasks, session.gangs["default/urgent"]
    points = session.points
    assert points.reclaimable.of(claimant.tasks[0], victims) == []
    for kind in EvictionKind:
        assert points.evictable.of(kind, claimant, victims) == []
    (guard,) = (hook for hook in points.shuffled.guard.hooks if hook.plugin == "eviction")
    assert guard.call(victims) == []


def test_no_tier_can_choose_whom_it_protects():
    """The plugin stands in the last tier, and the first one would decide alone."""
    own = {"name": "eviction", "arguments": {"min-runtime": "15m"}}
    chosen = policy("preempt", "priority conformance gang predicates", [own])
    assert evicted(plan_for(*world(), policy=chosen)) == []


# ------------------------------------------------------------------------------------------------- delay


def test_a_gang_waits_before_others_have_to_go_and_is_told_until_when():
    things = [a_node(cpu="1"), HIGH, runs("low", "n1"), wants(created=3500)]
    chosen = rules(**{"preemption-delay": "5m"})
    decisions = plan_for(*things, policy=chosen)
    assert evicted(decisions) == []
    facts = reasons(decisions)[Code.EVICTION_DELAYED]
    assert (facts.until, facts.seconds) == (when(3800), 300)
    assert decisions.next_change == NOW + 200 * SECOND
    assert evicted(plan_for(*things, policy=chosen, now=NOW + 200 * SECOND)) == ["low-w-0"]


@pytest.mark.parametrize("action", ["preempt", "reclaim", "gangpreempt", "gangreclaim"])
def test_every_action_waits(action):
    things = [
        a_node(cpu="1"),
        HIGH,
        a_queue("rich", deserved={}),
        a_queue("poor", deserved={"cpu": "1"}),
        runs("low", "n1", queue="rich" if "reclaim" in action else "poor"),
        wants(group={**URGENT, "queue": "poor"}, created=3590),
    ]
    for delay, count in (("1m", 0), ("5s", 1)):
        own = {"name": "eviction", "arguments": {"preemption-delay": delay}}
        gang = {"name": "gang", "enableReclaimable": False, "enablePreemptable": False}
        chosen = policy(action, ["priority", gang, "conformance", own], ["predicates", "capacity"])
        assert len(evicted(plan_for(*things, policy=chosen))) == count


# ------------------------------------------------------------------------------------------------- order


def test_of_equals_the_one_goes_that_loses_the_least_work():
    """Without the order, the younger gang goes: here that is the one with the more GPUs."""
    things = [
        a_node(cpu="9", gpu=4),
        HIGH,
        runs("many", "n1", gpu=2, started=1800, created=9),
        runs("long", "n1", gpu=1, started=0),
        runs("short", "n1", gpu=1, started=2400),
        wants(gpu=1),
    ]
    assert evicted(plan_for(*things, policy=rules())) == ["short-w-0"]
    assert evicted(plan_for(*things, policy=rules(**{"lost-work-order": False}))) == ["many-w-0"]


def test_a_checkpoint_makes_a_gang_cheap():
    safe = runs("long", "n1", gpu=1, annotations={"pumice.dev/checkpointed-at": when(3599)})
    things = [a_node(cpu="9", gpu=2), HIGH, safe, runs("short", "n1", gpu=1, started=3500), wants(gpu=1)]
    assert evicted(plan_for(*things, policy=rules())) == ["long-w-0"]


def test_priority_comes_before_lost_work():
    low = a_priority_class("low", 1)
    cheap = runs("cheap", "n1", started=3590, group={"priority_class": "low"})
    things = [a_node(cpu="2"), HIGH, low, cheap, runs("dear", "n1"), wants()]
    assert evicted(plan_for(*things, policy=rules())) == ["dear-w-0"]


def test_who_is_broken_goes_on_giving():
    """Two pods have to go: both are of one gang, although a member of the other alone costs less than the gang."""
    pair = runs("pair", "n1", "n1", started=3400)
    things = [a_node(cpu="3"), HIGH, pair, runs("single", "n1", started=3300), wants(size=2)]
    assert evicted(plan_for(*things, policy=rules())) == ["single-w-0", "pair-w-1"]
    things[3] = runs("single", "n1", started=3100)
    assert evicted(plan_for(*things, policy=rules())) == ["pair-w-1", "pair-w-0"]


def test_what_losing_a_member_costs():
    session = session_for(
        a_node(cpu="99", gpu=9),
        runs("rigid", "n1", "n1", gpu=1, started=3500),
        runs("elastic", "n1", "n1", gpu=1, started=3500, min_member=1),
        runs("cpus", "n1", cpu="16", started=3500),
        a_gang("broken", 2, running=["n1"], group={"phase": "Running"}, status={"startTime": when(0)}),
        policy=rules(),
    )
    cost = session.shared(LostWork)
    found = {name: cost.of(session.gangs[f"default/{name}"]) for name in ("rigid", "elastic", "cpus", "broken")}
    assert found == {"rigid": 200, "elastic": 100, "cpus": 200, "broken": 0}


@pytest.mark.parametrize("action", ["gangpreempt", "gangreclaim"])
def test_whole_gangs_go_in_that_order_too(action):
    queue = "rich" if action == "gangreclaim" else "poor"
    things = [
        a_node(cpu="3"),
        HIGH,
        a_queue("rich", deserved={}),
        a_queue("poor", deserved={"cpu": "3"}),
        runs("long", "n1", queue=queue, created=1),
        runs("short", "n1", queue=queue, started=3000),
        runs("longer", "n1", queue=queue, created=2),
        wants(group={**URGENT, "queue": "poor"}),
    ]
    own = {"name": "eviction"}
    chosen = policy(action, ["priority", "gang", "conformance", own], ["predicates", "capacity"])
    assert evicted(plan_for(*things, policy=chosen)) == ["short-w-0"]


# ------------------------------------------------------------------------------------------------- cool-down


def remembered(*entries, **last):
    known = Evictions(tuple(entries), {f"default/{gang}": at for gang, at in last.items()})
    return EMPTY.after([(SLOT, known)])[0]


def test_a_gang_that_was_evicted_is_left_alone_after_its_next_start():
    chosen = rules(**{"cool-down": "15m"})
    past = remembered(low=NOW - 3 * HOUR)
    decisions = plan_for(*world(), policy=chosen, memory=past)
    assert evicted(decisions) == []
    assert reasons(decisions)[Code.VICTIMS_PROTECTED].until == when(3900)
    assert evicted(plan_for(*world(), policy=chosen, memory=past, now=NOW + 300 * SECOND)) == ["low-w-0"]
    assert evicted(plan_for(*world(), policy=chosen, memory=remembered(other=NOW))) == ["low-w-0"]


def test_an_eviction_is_remembered_while_the_gang_is_there():
    decisions = plan_for(*world(), policy=rules())
    known = decisions.memory.of(SLOT)
    assert known == Evictions((Entry(NOW, "default", "default/low", "default/urgent"),), {"default/low": NOW})
    later = plan_for(a_node(cpu="1"), a_gang("low", 1), policy=rules(), memory=decisions.memory, now=NOW + 2 * HOUR)
    assert later.memory.of(SLOT) == Evictions((), {"default/low": NOW})
    gone = plan_for(a_node(cpu="1"), policy=rules(), memory=decisions.memory, now=NOW + 2 * HOUR)
    assert gone.memory.of(SLOT) == Evictions()


# ------------------------------------------------------------------------------------------------- budget


def crowd():
    """Three gangs that may go, and two that each need the room of one."""
    return [a_node(cpu="3"), HIGH, *(runs(f"low{each}", "n1") for each in range(3)), wants("a"), wants("b", created=1)]


def test_a_queue_loses_so_many_gangs_in_a_cycle():
    assert len(evicted(plan_for(*crowd(), policy=rules(**{"evictions-per-hour": 2})))) == 2
    decisions = plan_for(*crowd(), policy=rules(**{"evictions-per-hour": 1}))
    assert len(evicted(decisions)) == 1
    facts = reasons(decisions, "b")[Code.EVICTION_BUDGET_USED]
    assert (facts.queue, facts.limit, facts.until) == ("default", 1, when(7200))
    assert evicted(plan_for(*crowd(), policy=rules(**{"evictions-per-hour": 0}))) == []


def test_a_plan_that_needs_more_than_is_left_comes_to_nothing():
    pair = [a_node(cpu="2"), HIGH, runs("x", "n1"), runs("y", "n1"), wants(size=2)]
    assert evicted(plan_for(*pair, policy=rules(**{"evictions-per-hour": 1}))) == []
    assert len(evicted(plan_for(*pair, policy=rules(**{"evictions-per-hour": 2})))) == 2


def test_a_gang_that_loses_two_members_counts_once():
    pair = [a_node(cpu="2"), HIGH, runs("x", "n1", "n1"), wants(size=2)]
    assert len(evicted(plan_for(*pair, policy=rules(**{"evictions-per-hour": 1})))) == 2


def test_what_a_queue_lost_within_the_hour_counts():
    chosen = rules(**{"evictions-per-hour": 1})
    lately = remembered(Entry(NOW - 50 * MINUTE, "default", "default/x", "default/y"))
    decisions = plan_for(*world(), policy=chosen, memory=lately)
    assert evicted(decisions) == []
    assert reasons(decisions)[Code.EVICTION_BUDGET_USED].until == when(3600 + 600)
    elsewhere = remembered(Entry(NOW - 50 * MINUTE, "other", "default/x", "default/y"))
    long_ago = remembered(Entry(NOW - 61 * MINUTE, "default", "default/x", "default/y"))
    ahead = remembered(Entry(NOW + MINUTE, "default", "default/x", "default/y"))
    for memory in (elsewhere, long_ago, ahead):
        assert evicted(plan_for(*world(), policy=chosen, memory=memory)) == ["low-w-0"]


# ------------------------------------------------------------------------------------------------- ping-pong


def rivals():
    """Two queues that each deserve all of the node, one of which has it."""
    return [
        a_node(cpu="2"),
        a_queue("one", deserved={"cpu": "2"}),
        a_queue("two", deserved={"cpu": "2"}),
        runs("holder", "n1", "n1", queue="one"),
        a_gang("rival", 2, group={"queue": "two"}),
    ]


# Volcano's documentation puts conformance above capacity. It then decides alone, and who deserves what is never asked.
CONFORMANCE_DECIDES = ["conformance", {"name": "gang", "enableReclaimable": False}]


@pytest.mark.parametrize("action", ["reclaim", "gangreclaim"])
def test_nobody_is_evicted_who_would_win_the_room_back(action):
    bare = policy(action, CONFORMANCE_DECIDES, "capacity predicates")
    assert len(evicted(plan_for(*rivals(), policy=bare))) == 2
    guarded = policy(action, [*CONFORMANCE_DECIDES, "eviction"], "capacity predicates")
    decisions = plan_for(*rivals(), policy=guarded)
    assert evicted(decisions) == []
    assert reasons(decisions, "rival")[Code.EVICTION_UNDONE].gang == "default/holder"


@pytest.mark.parametrize("action", ["reclaim", "gangreclaim"])
def test_a_queue_takes_back_what_is_its_own(action):
    things = rivals()
    things[1] = a_queue("one", deserved={"cpu": "0"})
    guarded = policy(action, [*CONFORMANCE_DECIDES, "eviction"], "capacity predicates")
    assert len(evicted(plan_for(*things, policy=guarded))) == 2


@pytest.mark.parametrize("action", ["preempt", "gangpreempt"])
def test_a_higher_priority_is_no_ping_pong(action):
    gang = {"name": "gang", "enablePreemptable": False}
    chosen = policy(action, ["priority", gang, "eviction"], "predicates")
    assert evicted(plan_for(*world(), policy=chosen)) == ["low-w-0"]


# ------------------------------------------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"min-runtime": "soon"}, "min-runtime"),
        ({"min-runtime": "-5m"}, "min-runtime"),
        ({"preemption-delay": 5}, "preemption-delay"),
        ({"cool-down": "0s"}, "cool-down"),
        ({"notice": "2h"}, "notice"),
        ({"notice": "later"}, "notice"),
        ({"evictions-per-hour": -1}, "evictions-per-hour"),
        ({"evictions-per-hour": "many"}, "evictions-per-hour"),
        ({"lost-work-order": "maybe"}, "lost-work-order"),
        ({"min-run-time": "5m"}, "min-runtime"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(arguments, named):
    with pytest.raises(PolicyError, match=named):
        plan_for(a_node(), policy=rules(**arguments))

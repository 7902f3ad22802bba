"""The engine run ahead: time jumps from event to event, and what is decided takes effect at once."""

import msgspec
import pytest
from tests.unit.scheduling.clusters import NOW, a_gang, a_node, a_priority_class, a_queue, flat, policy

from pumice import instant
from pumice.api import changes
from pumice.cluster.intake import Intake
from pumice.cluster.state import Cluster
from pumice.scheduling.core import builtin
from pumice.scheduling.time import run_times
from pumice.scheduling.time.forward import Forward

PLAIN = policy("enqueue, allocate", "priority gang predicates")
MINUTE = instant.MINUTE


def ahead(*objects, run=10 * MINUTE, chosen=PLAIN, now=NOW, **settings):
    """The engine over these objects; every gang runs for `run`, or for what a table says of it."""
    intake = Intake(Cluster())
    for number, thing in enumerate(flat([a_queue(), *objects])):  # with a version each, as a server's objects have
        metadata = msgspec.structs.replace(thing.metadata, resource_version=str(number + 1))
        intake.apply(changes.Upserted(object=msgspec.structs.replace(thing, metadata=metadata)))
    run_time = (lambda gang: run.get(gang.partition("/")[2])) if isinstance(run, dict) else lambda _: run
    return Forward(intake, chosen, now=now, run_time=run_time, **settings)


def told(forward, until):
    """What happened: minutes, and the names of gangs that ended, were restarted and started."""
    steps = [step for step in forward.run(NOW + until * MINUTE) if step.ended or step.restarted or step.started]
    forward.cluster.check()
    return [
        ((step.at - NOW) / MINUTE, *(
            " ".join(key.partition("/")[2] for key in keys) for keys in (step.ended, step.restarted, step.started)
        ))
        for step in steps
    ]  # fmt: skip


def test_the_next_gang_starts_when_the_one_before_it_ends():
    forward = ahead(a_node(cpu="2"), a_gang("a", 2), a_gang("b", 2, created=1), run={"a": 7 * MINUTE, "b": MINUTE})
    assert told(forward, 60) == [(0, "", "", "a"), (7, "a", "", "b"), (8, "b", "", "")]
    assert forward.now == NOW + 60 * MINUTE


def test_what_has_started_is_not_counted_again_as_what_is_still_to_start():
    """overcommit has room for 4.8 cores here: with b, which runs, counted twice, c would not be admitted when a ends."""
    chosen = policy("enqueue, allocate", "priority gang", "overcommit predicates")
    group = {"phase": "Pending", "minimum": {"cpu": "2"}}
    gangs = [a_gang(name, 2, created=number, group=group) for number, name in enumerate("abc")]
    forward = ahead(a_node(cpu="4"), *gangs, chosen=chosen, run={"a": 5 * MINUTE, "b": 60 * MINUTE, "c": MINUTE})
    assert told(forward, 30) == [(0, "", "", "a b"), (5, "a", "", "c"), (6, "c", "", "")]


def reports(chosen):
    """One gang ends after ten minutes; another one comes after thirty, a third after forty."""
    forward = ahead(a_node(cpu="2"), a_gang("a", 2), chosen=chosen)
    forward.submit(NOW + 30 * MINUTE, lambda: a_gang("b", 1, created=1800))
    forward.submit(NOW + 35 * MINUTE, lambda: a_gang("c", 1, created=2100))
    return {(step.at - NOW) // MINUTE: step.decisions.gangs for step in forward.run(NOW + 60 * MINUTE)}


def test_what_has_ended_is_seen_so_by_one_cycle_and_then_gone():
    steps = reports(builtin.parse(builtin.TEXT, "built-in policy"))
    assert steps[10]["default/a"].succeeded == 2
    assert list(steps[30]) == ["default/b"]


def test_where_nobody_waits_and_no_plugin_has_a_past_the_next_cycle_sees_what_has_ended():
    steps = reports(PLAIN)
    assert steps[10] == {}, "no cycle was planned"
    assert steps[30]["default/a"].succeeded == 2
    assert list(steps[35]) == ["default/c"], "b has run since 30, and has nothing new"


def test_who_came_later_and_waits_gets_the_room_of_the_first_that_ends_though_more_are_to_come():
    """Its phase stays as it came, and others came since: the cycles of arrivals know it as well."""
    forward = ahead(a_node(cpu="2"), a_gang("a", 2))
    forward.submit(NOW + 3 * MINUTE, lambda: a_gang("b", 2, created=180))
    forward.submit(NOW + 5 * MINUTE, lambda: a_gang("c", 2, created=300))
    forward.submit(NOW + 50 * MINUTE, lambda: a_gang("d", 2, created=3000))
    assert told(forward, 45) == [(0, "", "", "a"), (10, "a", "", "b"), (20, "b", "", "c"), (30, "c", "", "")]


def test_a_run_time_is_learned_to_the_second_though_no_cycle_saw_the_end():
    chosen = policy("enqueue, allocate", "priority gang predicates reservation")
    forward = ahead(a_node(cpu="2"), a_gang("a", 2), chosen=chosen)
    forward.submit(NOW + 30 * MINUTE, lambda: a_gang("b", 1, created=1800))
    told(forward, 31)
    (runs,) = forward.memory.of(run_times.SLOT).kinds.values()
    assert runs.lengths == (600,)


def test_what_arrives_later_is_planned_when_it_arrives():
    forward = ahead(a_node(cpu="2"))
    forward.submit(NOW + 3 * MINUTE, lambda: a_gang("late", 2))
    assert told(forward, 2) == []
    assert told(forward, 60) == [(3, "", "", "late"), (13, "late", "", "")]


def test_what_happens_at_one_instant_is_one_cycle():
    forward = ahead(a_node(cpu="4"), a_gang("a", 2), a_gang("b", 2))
    told(forward, 5)
    before = forward.cycles
    forward.submit(NOW + 10 * MINUTE, lambda: a_gang("c", 3))
    assert told(forward, 10) == [(10, "a b", "", "c")]
    assert forward.cycles == before + 1


def test_a_gang_that_runs_already_ends_when_it_was_said():
    forward = ahead(a_node(cpu="2"), a_gang("old", 2, running=["n1", "n1"], group={"phase": "Running"}), a_gang("b", 2))
    forward.is_running("default/old", until=NOW + 4 * MINUTE)
    assert told(forward, 20) == [(4, "old", "", "b"), (14, "b", "", "")]


def test_an_end_that_has_passed_is_now():
    forward = ahead(a_node(cpu="2"), a_gang("old", 2, running=["n1", "n1"], group={"phase": "Running"}), a_gang("b", 2))
    forward.is_running("default/old", until=NOW - MINUTE)
    assert told(forward, 1) == [(0, "old", "", "b")]


def test_a_gang_without_a_run_time_never_ends():
    assert told(ahead(a_node(cpu="2"), a_gang("a", 2), a_gang("b", 1), run={}), 10_000) == [(0, "", "", "a")]


def test_a_gang_that_loses_a_needed_member_begins_again_and_the_claimant_gets_the_room():
    classes = [a_priority_class("low", 1), a_priority_class("high", 100)]
    chosen = builtin.parse(builtin.TEXT, "built-in policy")
    low, high = {"group": {"priority_class": "low"}}, {"group": {"priority_class": "high"}}
    forward = ahead(a_node(cpu="2"), classes, a_gang("low", 2, **low, priority=1), chosen=chosen, leaving=MINUTE)
    forward.submit(NOW + 5 * MINUTE, lambda: a_gang("high", 1, **high, priority=100))
    assert told(forward, 60) == [
        (0, "", "", "low"),
        (6, "", "low", "high"),
        (16, "high", "", "low"),
        (26, "low", "", ""),
    ]


def test_a_gang_that_spares_a_member_runs_on():
    classes = [a_priority_class("low", 1), a_priority_class("high", 100)]
    chosen = builtin.parse(builtin.TEXT, "built-in policy")
    elastic = a_gang("low", 2, min_member=1, group={"priority_class": "low"}, priority=1)
    forward = ahead(a_node(cpu="2"), classes, elastic, chosen=chosen, leaving=MINUTE)
    forward.submit(NOW + 5 * MINUTE, lambda: a_gang("high", 1, group={"priority_class": "high"}, priority=100))
    assert told(forward, 60) == [(0, "", "", "low"), (6, "", "", "high"), (10, "low", "", ""), (16, "high", "", "")]


def test_in_a_run_ahead_nobody_doubts_for_long_that_victims_leave():
    """Until it is known that they go, their queue's limit counts them: `s` starts a second after its queue has lost r-w-1, and not when that is gone."""
    gpus = "nvidia.com/gpu"
    queues = [a_queue("a"), a_queue("b", guarantee={gpus: "1"})]
    running = a_gang("r", 2, gpu="3", running=["n1"] * 2, group={"queue": "a", "phase": "Running"})
    wants = [
        a_gang(name, size, gpu=gpu, created=number, group={"queue": queue})
        for number, (name, size, gpu, queue) in enumerate(
            [("s", 2, "1", "a"), ("t", 1, "3", "b"), ("large", 8, "1", "a")]
        )
    ]
    chosen = builtin.parse(builtin.TEXT, "built-in policy")
    forward = ahead(a_node(cpu="64", gpu="8"), queues, running, wants, chosen=chosen, leaving=MINUTE)
    forward.is_running("default/r", until=None)
    assert told(forward, 2)[:2] == [(1 / 60, "", "", "s"), (1, "", "r", "t")]


def test_the_clock_alone_makes_a_cycle_when_a_plugin_says_so():
    """sla lets a gang pass overcommit after its waiting time: nothing happens at that moment but the clock."""
    chosen = policy("enqueue, allocate", "priority gang sla", "overcommit")
    waiting = a_gang(
        "big", 1, cpu="9", created=3600,
        group={"phase": "Pending", "minimum": {"cpu": "9"}, "annotations": {"volcano.sh/sla-waiting-time": "7m"}},
    )  # fmt: skip
    forward = ahead(a_node(cpu="2"), waiting, chosen=chosen)
    phases = {
        (step.at - NOW) // MINUTE: step.decisions.gangs["default/big"].phase for step in forward.run(NOW + 9 * MINUTE)
    }
    assert phases[0] == "Pending"
    assert phases[7] == "Inqueue"


def test_the_past_cannot_be_submitted():
    forward = ahead()
    with pytest.raises(AssertionError, match="has passed"):
        forward.submit(NOW - 1, lambda: a_gang("a", 1))

"""What a different cluster would do, compared with this one, and when gangs would start there."""

import itertools

import msgspec
import pytest
from tests.unit.scheduling.clusters import NOW, a_group, a_node, a_priority_class, a_queue, policy, when
from tests.unit.scheduling.time.test_forecast import ESTIMATE, a_gang, a_world, running, waiting

from pumice import instant
from pumice.cli import what_if
from pumice.errors import BadInput, NotFound
from pumice.scheduling.core import builtin
from pumice.scheduling.whatif.outcome import StartTimes, When
from pumice.scheduling.whatif.scenario import FORECASTS_MAX, Scenario, compare, edited, queue_change

POLICY = builtin.parse(builtin.TEXT, "built-in policy")
GPU = {"gpu": 1, "cpu": None}
ABOUT_30 = pytest.approx(30, abs=5)  # in some runs a gang ends earlier or later than it was said to
UID = "0518b5e4-bb4a-4133-a8e3-2791ec7c7dc3"


def outcome(scenario, *things, chosen=POLICY, cpu=lambda: 0.0):
    return compare(a_world(*things, chosen=chosen), scenario, cpu=cpu)


def minutes(found):
    """Gang -> the likely start in minutes, as things are and in the other cluster; None: not within a week, or not at all."""

    def after(told):
        return None if told is None or told.p50 is None else (instant.parse_instant(told.p50) - NOW) / instant.MINUTE

    return {
        key.removeprefix("default/"): (after(each.before), after(each.after)) for key, each in found.forecasts.items()
    }


def test_a_job_whose_pods_do_not_exist_yet_would_be_admitted():
    """Its controller makes pods once it is admitted: to say that nothing would start would be wrong."""
    full = a_gang("runs", 8, running=["n1"] * 8, group={"phase": "Running"}, **GPU)
    eight = {"nvidia.com/gpu": "8"}
    waits = a_group(f"train-{UID}", 8, phase="Pending", minimum=eight, created=3590)
    found = outcome(Scenario(add_nodes=1, like="n1"), a_node("n1", gpu=8, cpu="64"), full, waits)
    assert (found.admitted, found.starts, found.waiting) == ({f"default/train-{UID}": 8}, {}, 0)
    assert what_if.text(found).startswith(
        "would be admitted, and start if its pods, which are made then, find room: default/train (8 pods)\n\n"
    )
    assert minutes(found) == {f"train-{UID}": (60, 0)}  # pods that stand in for those that are not there yet


def test_a_gang_with_pods_would_start():
    full = a_gang("runs", 8, running=["n1"] * 8, group={"phase": "Running"}, **GPU)
    waits = a_gang("train", 8, **GPU)
    found = outcome(Scenario(without=("default/runs",)), a_node("n1", gpu=8, cpu="64"), full, waits)
    assert (found.starts, found.admitted, found.waiting) == ({"default/train": 8}, {}, 0)
    assert minutes(found) == {"train": (60, 0)}


LINE = [
    a_node("n1", cpu="4"), running("runs", 4, estimate="40m"),
    waiting("first", 4, estimate="20m"), waiting("second", 4, estimate="20m", created=1),
]  # fmt: skip


def test_those_who_go_on_waiting_are_told_when_they_start_before_and_after():
    found = outcome(Scenario(add_nodes=1, like="n1"), *LINE)
    assert (found.starts, found.waiting) == ({"default/first": 4}, 1)
    assert minutes(found) == {"first": (10, 0), "second": (ABOUT_30, 10)}
    lines = what_if.text(found).splitlines()
    assert lines[:3] == ["would start: 4 pods of default/first", "1 gang would go on waiting", ""]
    assert [" ".join(line.split()) for line in lines[3:5]] == [
        "GANG STARTS AS THINGS ARE WOULD START IN 9 OF 10 CASES BY",
        "default/first 01:10Z (in 10m) now now",
    ]
    assert "01:10Z (in 10m)" in lines[5].removeprefix("default/second")


def test_a_gang_on_a_drained_node_runs_as_things_are_and_starts_again_later():
    found = outcome(Scenario(drain=("n1",)), a_node("n1", cpu="4"), a_node("n2", cpu="4"),
                    running("moves", 4), running("stays", 4, node="n2", estimate="45m"))  # fmt: skip
    assert found.displaced == {"default/moves": False}
    assert minutes(found) == {"moves": (None, 15)}
    assert found.forecasts["default/moves"].before is None
    assert "default/moves runs 01:15Z (in 15m)" in " ".join(what_if.text(found).split())


def test_a_gang_that_would_be_evicted_starts_again_later():
    here = policy("enqueue, allocate", "priority gang predicates")
    classes = [a_priority_class("low", 1), a_priority_class("high", 100)]
    low = a_gang("low", 4, running=["n1"] * 4, priority=1,
                 group={"phase": "Running", "priority_class": "low", "annotations": {ESTIMATE: "30m"}})  # fmt: skip
    high = a_gang("high", 4, priority=100, group={"priority_class": "high", "annotations": {ESTIMATE: "20m"}})
    found = outcome(Scenario(policy=POLICY), *classes, a_node("n1", cpu="4"), low, high, chosen=here)
    assert found.evicted == {"default/low": 4}
    assert found.forecasts["default/low"].before is None
    before, after = minutes(found)["low"]
    assert (before, after) == (None, pytest.approx(20, abs=5))
    assert "would be evicted: 4 pods of default/low; starts again 01:2" in what_if.text(found)


def test_a_gang_that_only_gives_back_its_surplus_does_not_start_again():
    here = policy("enqueue, allocate", "priority gang predicates")
    classes = [a_priority_class("low", 1), a_priority_class("high", 100)]
    low = a_gang(
        "low", 4, min_member=2, running=["n1"] * 4, priority=1, group={"phase": "Running", "priority_class": "low"}
    )
    high = a_gang("high", 2, priority=100, group={"priority_class": "high", "annotations": {ESTIMATE: "20m"}})
    found = outcome(Scenario(policy=POLICY), *classes, a_node("n1", cpu="4"), low, high, chosen=here)
    assert found.evicted == {"default/low": 2}
    assert list(found.forecasts) == ["default/high"]
    assert "would be evicted: 2 pods of default/low\n" in what_if.text(found)


def test_another_policy_and_another_queue_change_who_starts_when():
    first = policy("enqueue, allocate", "priority gang predicates")
    strict = msgspec.structs.replace(first, actions=("enqueue",))
    assert minutes(outcome(Scenario(policy=strict), *LINE, chosen=first)) == {
        "first": (10, None),
        "second": (ABOUT_30, None),
    }
    quota = policy("enqueue, allocate", "priority gang predicates capacity")
    things = [a_queue(capability={"cpu": "2"}), a_node("n1", cpu="4"), waiting("four", 4)]
    found = outcome(Scenario(queues=(queue_change("default.capability.cpu=4"),)), *things, chosen=quota)
    assert (found.starts, minutes(found)) == ({"default/four": 4}, {"four": (None, 0)})


def test_what_cannot_be_known_is_said_to_be_unknown():
    """No processor time is left after the first look: "not within a week" would be a lie."""
    spent = itertools.count(0, 1000)
    found = outcome(Scenario(add_nodes=1, like="n1"), *LINE, cpu=lambda: float(next(spent)))
    assert found.forecasts["default/second"] == StartTimes(When(complete=False), When(complete=False))
    text = what_if.text(found)
    assert "default/second not known not known not known" in " ".join(text.split())
    assert text.endswith("not known: the cluster is too large to look so far ahead in the time that a question has")


def test_ends_that_nobody_estimated_are_told():
    found = outcome(Scenario(drain=("n2",)), a_node("n1", cpu="4"), a_node("n2", cpu="1"),
                    running("runs", 4, estimate=""), waiting("w", 4))  # fmt: skip
    assert what_if.text(found).endswith("what starts after them is a guess by the policy's default")


def test_the_first_in_line_are_looked_ahead_for_and_those_first_for_whom_something_changes():
    many = [waiting(f"w{number:02}", 4, created=number) for number in range(FORECASTS_MAX + 5)]
    last = a_gang("last", 1, created=90, gpu=1, cpu=None, group={"annotations": {ESTIMATE: "10m"}})
    gpus = a_gang("gpus", 1, running=["n2"], gpu=1, cpu=None, group={"phase": "Running"}, status={"startTime": when(0)})
    found = outcome(Scenario(without=("default/gpus",)), a_node("n1", cpu="4"), a_node("n2", cpu="1", gpu=1),
                    running("runs", 4), many, gpus, last)  # fmt: skip
    assert found.starts == {"default/last": 1}
    assert next(iter(found.forecasts)) == "default/last"
    assert (len(found.forecasts), found.not_forecast) == (FORECASTS_MAX, 6)
    assert "... and 6 more in line, for whom nobody looked ahead" in what_if.text(found)


def test_an_extender_is_not_asked_about_the_future():
    asks = policy(
        "enqueue, allocate",
        "priority gang predicates",
        [{"name": "extender", "arguments": {"extender.urlPrefix": "http://127.0.0.1:1"}}],
    )
    found = outcome(Scenario(add_nodes=1, like="n1"), *LINE, chosen=asks)
    assert (found.forecasts, found.no_forecast) == ({}, "an extender has its say, who is not asked about the future")


def test_the_world_itself_is_not_changed():
    world = a_world(*LINE)
    before, revision = world.intake.cluster.snapshot(), world.intake.cluster.revision
    there, displaced = edited(
        world, Scenario(1, "n1", ("n1",), (queue_change("default.weight=3"),), ("default/first",))
    )
    there.intake.cluster.check()
    assert displaced == {"default/runs"}
    assert set(there.intake.cluster.gangs) == {"default/runs", "default/second"}
    assert there.intake.cluster.queues["default"].weight == 3
    assert there.intake.cluster.snapshot().nodes.names == ["n1", "n1+1"]
    assert (world.intake.cluster.revision, world.intake.cluster.snapshot().gangs) == (revision, before.gangs)


@pytest.mark.parametrize(
    ("scenario", "error", "words"),
    [
        (Scenario(drain=("n9",)), NotFound, "node 'n9' does not exist in the cluster; see `pumice nodes`"),
        (
            Scenario(queues=(("q9", "weight", "1"),)),
            NotFound,
            "queue 'q9' does not exist in the cluster; see `pumice queue list`",
        ),
        (Scenario(without=("default/ghost",)), NotFound, "job default/ghost: no gang of that name"),
        (Scenario(queues=(("default", "weight", "0"),)), BadInput, "a weight is at least 1"),
        (Scenario(queues=(("default", "weight", "65536"),)), BadInput, "at most 65535"),
        (
            Scenario(queues=(("default", "weight", "9" * 5000),)),
            BadInput,
            f"weight={'9' * 40}: expected a whole number",
        ),
        (Scenario(queues=(("default", "capability.cpu", "-3"),)), BadInput, "an amount is at least 0"),
        (Scenario(queues=(("default", "weight", "x"),)), BadInput, "expected a whole number"),
        (Scenario(queues=(("default", "deserved.cpu", "x"),)), BadInput, "queue default: deserved.cpu=x"),
        (Scenario(queues=(("default", "deserved", "3"),)), BadInput, "deserved or guarantee with .RESOURCE"),
    ],
)
def test_what_makes_no_sense_is_refused(scenario, error, words):
    with pytest.raises(error, match=words.replace("(", r"\(").replace("`", ".")):
        edited(a_world(*LINE), scenario)

"""When gangs will start: literal clusters whose future can be worked out by hand."""

import numpy as np
import pytest
from tests.unit.scheduling.clusters import NOW, a_gang, a_group, a_node, a_priority_class, a_queue, flat, policy, when

from pumice import instant
from pumice.api import changes
from pumice.cluster.intake import Intake
from pumice.cluster.state import Cluster
from pumice.scheduling.core import builtin
from pumice.scheduling.core.memory import Memory
from pumice.scheduling.time import accuracy
from pumice.scheduling.time.estimates import Source
from pumice.scheduling.time.forecast import Effort, World, first_in_line, forecast
from pumice.scheduling.time.stand_ins import with_stand_ins

MINUTE = instant.MINUTE
PLAIN = policy("enqueue, allocate", "priority gang predicates")
ESTIMATE = "pumice.dev/running-estimate"
OF_WORKERS = {
    "labelSelector": {"matchLabels": {"volcano.sh/task-spec": "worker"}},
    "matchLabelKeys": ["volcano.sh/partition-id"],
}


def a_world(*objects, chosen=PLAIN, memory=None):
    intake = Intake(Cluster())
    for thing in flat([a_queue(), *objects]):
        intake.apply(changes.Upserted(object=thing))
    return World(intake, chosen, NOW, memory or Memory())


def running(name, size, *, since=30, estimate="40m", node="n1"):
    """A gang that has run for so many minutes."""
    notes = {ESTIMATE: estimate} if estimate else {}
    group = {"phase": "Running", "annotations": notes}
    return a_gang(name, size, running=[node] * size, group=group, status={"startTime": when(3600 - since * 60)})


def waiting(name, size, *, estimate="10m", **more):
    return a_gang(name, size, group={"annotations": {ESTIMATE: estimate} if estimate else {}, **more})


def minutes(told):
    return [None if each is None else (each - NOW) / MINUTE for each in (told.p50, told.p90)]


def asked(world, *names, runs=1, seed=1, **effort):
    keys = [f"default/{name}" for name in names]
    found = forecast(world, keys, chance=np.random.default_rng(seed), effort=Effort(runs=runs, blur=0, **effort))
    return [found[key] for key in keys]


def test_a_gang_starts_when_those_in_front_are_expected_to_end():
    world = a_world(a_node(cpu="4"), running("a", 2, estimate="40m"), running("b", 2, estimate="50m"), waiting("w", 3))
    (told,) = asked(world, "w")
    assert minutes(told) == [20, 20]
    assert (told.ahead, told.unknown, told.nodes) == (2, 0, {"n1": 3})


def test_what_is_told_hardly_depends_on_chance():
    """One gang in front, whose past says anything from 31 to 40 minutes: each part of that is in one run, whatever the seed."""
    errors = accuracy.Errors({"declared": tuple(range(775, 1001, 5))})
    memory = Memory().after([(accuracy.SLOT, errors)])[0]
    world = a_world(a_node(cpu="2"), running("a", 2, estimate="40m"), waiting("w", 2), memory=memory)
    likely = [minutes(asked(world, "w", runs=11, seed=seed)[0])[0] for seed in range(8)]
    assert max(likely) - min(likely) < 1.5


def test_gangs_that_wait_in_front_count_with_their_own_run_times():
    world = a_world(
        a_node(cpu="2"), running("a", 2), waiting("first", 2, estimate="15m"), waiting("second", 2, created=1)
    )
    assert [minutes(each) for each in asked(world, "first", "second")] == [[10, 10], [25, 25]]


def test_the_cluster_itself_is_not_changed():
    world = a_world(a_node(cpu="2"), running("a", 2), waiting("w", 2))
    before, revision = world.intake.cluster.snapshot(), world.intake.cluster.revision
    first, second = (asked(world, "w", runs=5) for _ in range(2))
    assert first == second
    assert world.intake.cluster.revision == revision
    assert world.intake.cluster.snapshot().gangs == before.gangs
    world.intake.cluster.check()


def test_an_overdue_gang_is_expected_to_run_for_another_tenth_of_its_age():
    world = a_world(a_node(cpu="2"), running("late", 2, since=50, estimate="20m"), waiting("w", 2))
    assert minutes(asked(world, "w")[0]) == [5, 5]


def test_who_said_nothing_is_told():
    world = a_world(a_node(cpu="2"), running("a", 1, estimate=""), running("b", 1), waiting("w", 2))
    (told,) = asked(world, "w")
    assert minutes(told) == [30, 30]  # an hour by default, of which half is over
    assert (told.ahead, told.unknown) == (2, 1)


def test_what_does_not_start_within_the_horizon_has_no_time():
    world = a_world(a_node(cpu="2"), running("a", 2, estimate="400m"), waiting("w", 2), waiting("never", 3, created=1))
    assert [minutes(each) for each in asked(world, "w", "never", horizon=instant.HOUR)] == [[None, None]] * 2
    assert minutes(asked(world, "w")[0]) == [370, 370]


def test_victims_are_named():
    classes = [a_priority_class("low", 1), a_priority_class("high", 100)]
    low = a_gang("low", 2, running=["n1", "n1"], priority=1, group={"phase": "Running", "priority_class": "low"})
    high = a_gang("high", 2, priority=100, group={"priority_class": "high"})
    world = a_world(a_node(cpu="2"), classes, low, high, chosen=builtin.parse(builtin.TEXT, "built-in policy"))
    (told,) = asked(world, "high")
    assert told.victims == {"default/low": 2}
    assert minutes(told) == [0.5, 0.5]  # they have half a minute to leave


def test_luck_makes_the_difference_between_p50_and_p90():
    memory = Memory({accuracy.SLOT.name: accuracy.Errors({Source.DECLARED.value: tuple(range(800, 1810, 10))})})
    world = a_world(a_node(cpu="2"), running("a", 2), waiting("w", 2), memory=memory)
    (told,) = asked(world, "w", runs=20)
    p50, p90 = minutes(told)
    assert 5 < p50 < p90 <= 0.8 * 40 + 12
    assert told.runs == 20


def test_past_forecasts_stretch_p90():
    plain = a_world(a_node(cpu="2"), running("a", 2), waiting("w", 2))
    taught = Memory({accuracy.SCORE.name: accuracy.Score(bias=float(np.log(2)))})
    stretched = a_world(a_node(cpu="2"), running("a", 2), waiting("w", 2), memory=taught)
    assert minutes(asked(plain, "w")[0]) == [10, 10]
    assert minutes(asked(stretched, "w")[0]) == pytest.approx([10, 20])


def test_past_forecasts_that_were_too_late_make_both_times_earlier():
    early = Memory({accuracy.SCORE.name: accuracy.Score(waits=(500,) * 20)})
    world = a_world(a_node(cpu="2"), running("a", 2), waiting("w", 2), memory=early)
    (told,) = asked(world, "w")
    assert minutes(told) == pytest.approx([5, 5])
    assert told.found == NOW + 10 * MINUTE


def test_a_budget_that_ends_is_told_and_half_a_run_does_not_count():
    world = a_world(a_node(cpu="2"), running("a", 2), waiting("w", 2))
    (told,) = asked(world, "w", runs=5, cycles=1)
    assert (told.cut_short, told.runs, told.p50) == (True, 1, None)
    (told,) = asked(world, "w", runs=5, cycles=2)
    assert (told.cut_short, told.runs, minutes(told)) == (False, 1, [10, 10])


def test_what_ends_close_together_is_taken_together():
    gangs = [running(f"r{number}", 1, since=0, estimate=f"{100 + number}m") for number in range(4)]
    world = a_world(a_node(cpu="4"), gangs, waiting("w", 4))
    cycles = []
    for blur in (0, 0.05):
        left = [50]
        chance = np.random.default_rng(1)
        found = forecast(
            world, ["default/w"], chance=chance, effort=Effort(runs=1, blur=blur),
            go_on=lambda left=left: left.__setitem__(0, left[0] - 1) or True,
        )  # fmt: skip
        assert minutes(found["default/w"]) == [103, 103]
        cycles.append(50 - left[0])
    assert cycles == [4, 1]


def test_a_group_that_has_no_pods_yet_counts_with_its_minimum():
    group = a_group("w", 3, phase="Pending", minimum={"cpu": "3", "requests.nvidia.com/gpu": "6", "pods": "3"})
    world = a_world(a_node(cpu="4", gpu="6"), running("a", 2, estimate="40m"), group)
    assert first_in_line(world, 5) == []
    whole = with_stand_ins(world)
    assert first_in_line(whole, 5) == ["default/w"]
    (told,) = asked(whole, "w")
    assert (minutes(told), told.nodes) == ([10, 10], {"n1": 3})
    assert not world.intake.cluster.gangs["default/w"].tasks


@pytest.mark.parametrize(
    "policies",
    [(), ({"name": "worker", "subGroupSize": 2, "minSubGroups": 1, **OF_WORKERS},)],
    ids=["tasks", "tasks in partitions"],
)
def test_members_of_a_group_without_pods_belong_to_the_tasks_that_its_minimum_names(policies):
    group = a_group(
        "w",
        4,
        phase="Pending",
        minimum={"cpu": "4"},
        roles={"master": 1, "worker": 2},
        spec={"subGroupPolicy": policies},
    )
    (told,) = asked(with_stand_ins(a_world(a_node(cpu="4"), running("a", 2, estimate="40m"), group)), "w")
    assert minutes(told) == [10, 10]


def a_pending(members, **minimum):
    return a_group("w", members, phase="Pending", minimum=minimum)


@pytest.mark.parametrize(
    ("members", "gpus"),
    [(3, "16"), (3, "10"), (2, "16")],
    ids=["a launcher without GPUs and two workers", "parts that are not equal", "equal parts"],
)
def test_members_of_a_group_without_pods_ask_for_parts_that_nodes_have_room_for(members, gpus):
    nodes = [a_node(name, cpu="4", gpu="8") for name in ("n1", "n2")]
    group = a_pending(members, **{"cpu": "3", "nvidia.com/gpu": gpus})
    (told,) = asked(with_stand_ins(a_world(nodes, running("a", 4), running("b", 4, node="n2"), group)), "w")
    assert minutes(told) == [10, 10]


def test_a_group_without_pods_that_empty_nodes_have_no_room_for_has_no_time():
    group = a_pending(2, **{"cpu": "2", "nvidia.com/gpu": "9"})
    (told,) = asked(with_stand_ins(a_world(a_node(cpu="4", gpu="8"), group)), "w")
    assert minutes(told) == [None, None]


@pytest.mark.parametrize(("key", "expected"), [("team", [0, 0]), ("node.kubernetes.io/not-ready", [None, None])])
def test_taints_are_taken_to_be_tolerated_but_those_of_kubernetes(key, expected):
    node = a_node(cpu="4", spec={"taints": [{"key": key, "value": "", "effect": "NoSchedule"}]})
    (told,) = asked(with_stand_ins(a_world(node, a_pending(2, cpu="2"))), "w")
    assert minutes(told) == expected


def test_the_first_of_each_queue_stand_in_front():
    queues = [a_queue("a"), a_queue("b")]
    world = a_world(
        queues,
        waiting("a1", 1, queue="a"),
        waiting("a2", 1, queue="a", created=5),
        waiting("b1", 1, queue="b", created=9),
    )
    assert first_in_line(world, 10) == ["default/a1", "default/b1", "default/a2"]
    assert first_in_line(world, 1) == ["default/a1"]

import numpy as np
import pytest
from tests.unit.scheduling.clusters import (
    NOW,
    a_gang,
    a_group,
    a_node,
    a_pod,
    binds,
    plan_for,
    policy,
    report,
    session_for,
)

from pumice import instant
from pumice.instant import MINUTE, SECOND
from pumice.scheduling.core.policy import PolicyError
from pumice.scheduling.core.ports import NodeLoad, Ports
from pumice.scheduling.core.verdict import Cure

GI = 2**30


def usage(**arguments):
    return policy("allocate", ["gang", {"name": "usage", "arguments": arguments}])


def measured(age=0, **nodes):
    """Ports with measurements; a node's cpu percent, or cpu and memory percent."""
    pairs = {name: load if isinstance(load, tuple) else (load, load) for name, load in nodes.items()}
    loads = {name: NodeLoad(cpu, memory, measured_at=NOW - age) for name, (cpu, memory) in pairs.items()}
    return Ports(loads=loads)


def scores(*objects, ports, chosen=None):
    """Score per node for the pod `p`."""
    session = session_for(*objects, policy=chosen or usage(), ports=ports)
    (task,) = session.gangs["default/g"].tasks
    nodes = np.arange(len(session.room.table))
    found = session.placer.scores(session.shape(task), task, nodes)
    return dict(zip(session.room.table.names, found.tolist(), strict=True))


def waiting(**pod):
    return [a_group("g"), a_pod("p", gang="g", **pod)]


# ----------------------------------------------------------------------------------------------- measured loads


def test_the_least_busy_node_comes_first():
    decisions = plan_for(
        a_node("a"), a_node("b"), a_node("c"), a_gang("g", 1), policy=usage(), ports=measured(a=50, b=20, c=70)
    )
    assert binds(decisions) == {"g-w-0": "b"}


def test_the_score_is_the_weighted_free_part_of_cpu_and_memory():
    nodes = [a_node("a"), a_node("b")]
    ports = measured(a=(20, 60), b=(60, 20))
    assert scores(*nodes, *waiting(), ports=ports) == pytest.approx({"a": 300, "b": 300})
    chosen = usage(**{"usage.weight": 1, "cpu.weight": 3, "memory.weight": 1})
    assert scores(*nodes, *waiting(), ports=ports, chosen=chosen) == pytest.approx({"a": 70, "b": 50})


@pytest.mark.parametrize(
    ("load", "reason"),
    [
        ((81, 0), "the CPU load of the node exceeds the upper limit."),
        ((0, 81), "the memory load of the node exceeds the upper limit."),
    ],
)
def test_a_node_beyond_its_threshold_takes_nobody_for_the_time_being(load, reason):
    decisions = plan_for(a_node("a"), a_gang("g", 1), policy=usage(), ports=measured(a=load))
    assert binds(decisions) == {}
    assert [(each.text, each.cure) for each in report(decisions, "g").reasons] == [(reason, Cure.WAITING)]


def test_thresholds_can_be_set_and_a_load_of_exactly_that_is_not_beyond():
    def bound(**thresholds):
        return binds(plan_for(a_node("a"), a_gang("g", 1), policy=usage(thresholds=thresholds), ports=measured(a=90)))

    assert bound(cpu=90, mem=90)
    assert not bound(cpu=89, mem=90)
    assert not bound(cpu=90, mem=89)


# ----------------------------------------------------------------------------------------------- age of data


def test_measurements_older_than_five_minutes_say_nothing():
    busy = plan_for(a_node("a"), a_gang("g", 1), policy=usage(), ports=measured(5 * MINUTE, a=99))
    unknown = plan_for(a_node("a"), a_gang("g", 1), policy=usage(), ports=measured(5 * MINUTE + 1, a=99))
    assert (binds(busy), binds(unknown)) == ({}, {"g-w-0": "a"})


def test_without_any_measurement_the_plugin_has_no_opinion():
    session = session_for(a_node("a"), *waiting(), policy=usage())
    assert not session.points.load_score.hooks
    assert not session.points.filter.hooks


def test_where_nobody_has_measured_requests_stand_in_for_use():
    """b is not measured; half of it is requested, so it counts as half busy."""
    nodes = [a_node("a", cpu="4", memory="4Gi"), a_node("b", cpu="4", memory="4Gi")]
    busy = a_gang("r", 1, cpu="2", memory="2Gi", running=["b"], group={"phase": "Running"})
    found = scores(*nodes, busy, *waiting(), ports=measured(a=40))
    assert found == pytest.approx({"a": 300, "b": 250})


# ----------------------------------------------------------------------------------------------- newcomers


def started(seconds_ago):
    return {"status": {"startTime": instant.format_instant(NOW - seconds_ago * SECOND)}}


def newcomers_share(*, age=0, metrics="", **pod):
    """By how much of its cpu a node of 10 cpus counts as busier because of one pod that requests 5."""
    text = f"actions: allocate\ntiers: [{{plugins: [{{name: usage}}]}}]\n{metrics}"
    pod = {"cpu": "5", **pod}
    resident = a_pod("r", gang="r", node="a", **pod)
    nodes = [a_node("a", cpu="10", memory="10Gi"), a_node("b", cpu="10", memory="10Gi")]
    objects = [*nodes, a_group("r", phase="Running"), resident, *waiting()]
    found = scores(*objects, ports=measured(age, a=0, b=0), chosen=policy(text))
    return round((found["b"] - found["a"]) / 250, 3)


def test_a_pod_counts_by_estimate_until_a_measurement_can_know_it():
    assert newcomers_share(**started(29)) == 0.35  # 70 % of half the node
    assert newcomers_share(**started(30)) == 0


def test_it_is_the_age_of_the_measurement_that_counts_and_not_that_of_the_pod():
    assert newcomers_share(age=4 * MINUTE, **started(4 * 60 + 29)) == 0.35
    assert newcomers_share(age=4 * MINUTE, **started(4 * 60 + 30)) == 0


def test_the_interval_between_measurements_is_read_from_the_policy_file():
    assert newcomers_share(metrics="metrics: {interval: 2m}", **started(119)) == 0.35
    assert newcomers_share(metrics="metrics: {interval: often}", **started(29)) == 0.35


def test_a_pod_that_is_bound_but_not_started_counts():
    assert newcomers_share(phase="Pending") == 0.35


def limits(**amounts):
    return {"spec": {"containers": [{"resources": {"requests": {"cpu": "5"}, "limits": amounts}}]}}


def estimated(chosen=None, load=0, **pod):
    """Milli-cpus and bytes that one pod is expected to use on a node."""
    session = session_for(a_node("a"), *waiting(**pod), policy=usage(estimator=chosen or {}), ports=measured(a=load))
    plugin = session.points.filter.hooks[0].call.__self__
    (task,) = session.gangs["default/g"].tasks
    return plugin.estimate(task, np.array([0]))[:, 0].tolist()


def test_an_estimate_is_a_part_of_the_request_and_of_what_the_limit_adds():
    assert estimated(cpu="2", memory="1Gi") == [1400, int(0.7 * GI)]
    assert estimated({"request_ratio": 1, "burst_ratio": 0.5}, **limits(cpu="9")) == [7000, 0]


def test_on_a_busy_node_estimates_grow_but_never_beyond_the_limit():
    assert estimated(load=59, cpu="2") == [1400, 0]
    assert estimated(load=60, cpu="2") == [1680, 0]
    assert estimated({"request_ratio": 1}, load=60, cpu="2") == [2000, 0]
    assert estimated({"request_ratio": 1, "burst_ratio": 1}, load=60, **limits(cpu="8")) == [8000, 0]


def test_a_pod_without_requests_counts_a_little():
    assert estimated(cpu=None) == [250, 200 * 2**20]
    assert estimated({"be_cpu": 100, "be_mem": 1}, cpu=None) == [100, 2**20]
    assert estimated({"be_cpu": "1", "be_mem": "1Gi"}, cpu=None) == [1000, GI]


# ----------------------------------------------------------------------------------------------- placements


def test_placements_of_a_cycle_count_at_once_so_that_a_quiet_node_is_not_flooded():
    decisions = plan_for(
        a_node("a", cpu="10"),
        a_node("b", cpu="10"),
        a_gang("g", 4, cpu="2"),
        policy=usage(),
        ports=measured(a=10, b=20),
    )
    assert sorted(binds(decisions).values()) == ["a", "a", "a", "b"]


def test_a_batch_decides_what_single_placements_would():
    objects = [a_node("a", cpu="30"), a_node("b", cpu="20"), a_node("c", cpu="40")]
    ports = measured(a=30, b=10, c=61)
    batch = binds(plan_for(*objects, a_gang("g", 12, cpu="2"), policy=usage(), ports=ports))
    single = binds(plan_for(*objects, a_gang("g", 12, cpu="2", min_member=1), policy=usage(), ports=ports))
    assert sorted(batch.values()) == sorted(single.values())


def test_what_is_placed_and_taken_back_leaves_no_trace():
    session = session_for(
        a_node("a"),
        a_gang("r", 1, running=["a"], group={"phase": "Running"}, **started(1)),
        a_gang("g", 1),
        policy=usage(),
        ports=measured(a=10),
    )
    plugin = session.points.filter.hooks[0].call.__self__
    before = plugin.shadow.copy()
    assert before.any()
    new, old = session.gangs["default/g"], session.gangs["default/r"]
    statement = session.statement()
    statement.evict(old.tasks[0], "test")
    assert not plugin.shadow.any()
    statement.rollback()
    session.points.moved.tell(new, session.shape(new.tasks[0]), new.tasks, [0], 1)
    assert (plugin.shadow > before).any()
    session.points.moved.tell(new, session.shape(new.tasks[0]), new.tasks, [0], -1)
    assert (plugin.shadow == before).all()


@pytest.mark.parametrize(
    "arguments",
    [
        {"thresholds": {"cpu": 101}},
        {"thresholds": {"CPUUsageAvg.5m": 80}},
        {"estimator": {"request_ratio": 1.5}},
        {"estimator": {"risk_factor": 0.5}},
        {"estimator": {"be_mem": "plenty"}},
        {"usage.weight": -1},
    ],
)
def test_arguments_out_of_range_are_refused(arguments):
    with pytest.raises(PolicyError, match="plugin usage: "):
        plan_for(a_node(), policy=usage(**arguments))

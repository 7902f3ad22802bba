import pytest
from tests.unit.scheduling.clusters import NOW, a_gang, a_group, a_node, a_pod, evicted, plan_for, policy

from pumice.instant import MINUTE
from pumice.scheduling.core.memory import EMPTY, Memory
from pumice.scheduling.core.policy import PolicyError
from pumice.scheduling.core.ports import NodeLoad, Ports
from pumice.scheduling.plugins.rescheduling import MEMORY, ReschedulingMemory, quality_of_service


def strategy(low=30, target=60, **params):
    percents = {"thresholds": {"cpu": low, "memory": low}, "targetThresholds": {"cpu": target, "memory": target}}
    return {"strategies": [{"name": "lowNodeUtilization", "params": {**percents, **params}}]}


def moved(*objects, **arguments):
    """Pods that are evicted, given nodes' cpu percents (or cpu and memory percents)."""
    return evicted(decide(*objects, **arguments))


def decide(*objects, memory=EMPTY, age=0, arguments=None, also=(), **loads):
    arguments = strategy() if arguments is None else arguments
    pairs = {name: load if isinstance(load, tuple) else (load, load) for name, load in loads.items()}
    found = {name: NodeLoad(cpu, mem, measured_at=NOW - age) for name, (cpu, mem) in pairs.items()}
    chosen = policy("shuffle", [{"name": "rescheduling", "arguments": arguments}, *also])
    return plan_for(*objects, policy=chosen, memory=memory, ports=Ports(loads=found))


def two_nodes():
    return [a_node("busy", cpu="10", memory="10Gi"), a_node("idle", cpu="10", memory="10Gi")]


def residents(size=3, name="r", **pods):
    """Pods of their own on the busy node, each a tenth of it."""
    pods = {"memory": "1Gi", **pods}
    return [
        [
            a_group(f"{name}{number}", phase="Running"),
            a_pod(f"{name}{number}", gang=f"{name}{number}", node="busy", **pods),
        ]
        for number in range(size)
    ]


def test_a_busy_node_gives_up_pods_until_it_is_below_its_target():
    assert moved(*two_nodes(), residents(4), busy=75, idle=10) == ["r3", "r2"]


def test_nobody_moves_where_no_node_is_idle_or_none_is_too_busy():
    assert moved(*two_nodes(), residents(), busy=75, idle=30) == []
    assert moved(*two_nodes(), residents(), busy=60, idle=10) == []
    assert moved(*two_nodes(), residents(), busy=20, idle=10) == []


def test_one_resource_above_its_target_is_enough_and_one_above_the_threshold_is_not_idle():
    assert moved(*two_nodes(), residents(1), busy=(75, 1), idle=10) == ["r0"]
    assert moved(*two_nodes(), residents(1), busy=(1, 75), idle=10) == ["r0"]
    assert moved(*two_nodes(), residents(1), busy=75, idle=(10, 31)) == []


def test_no_more_is_moved_than_idle_nodes_can_take_on_their_way_to_the_target():
    """The idle node may grow from 29 to 50 percent: room for two pods of a tenth each."""
    arguments = strategy(target=50)
    assert moved(*two_nodes(), residents(6), busy=99, idle=29, arguments=arguments) == ["r5", "r4"]


def test_a_pod_too_large_for_the_room_stays_and_a_smaller_one_goes():
    objects = [*two_nodes(), residents(1, name="large", cpu="6", created=2), residents(1, name="small", created=1)]
    assert moved(*objects, busy=99, idle=20, arguments=strategy(target=50)) == ["small0"]


def test_the_busiest_node_comes_first():
    nodes = [a_node(name, cpu="10", memory="10Gi") for name in ("warm", "hot", "idle")]
    pods = [
        [a_group(name, phase="Running"), a_pod(name, gang=name, node=name, memory="1Gi")] for name in ("warm", "hot")
    ]
    arguments = strategy(target=39)  # room for one
    assert moved(*nodes, pods, warm=70, hot=90, idle=20, arguments=arguments) == ["hot"]


def test_cordoned_nodes_are_not_idle_and_unmeasured_or_forgotten_ones_are_neither():
    busy, idle = a_node("busy", cpu="10", memory="10Gi"), a_node("idle", cpu="10", spec={"unschedulable": True})
    assert moved(busy, idle, residents(), busy=75, idle=10) == []
    assert moved(*two_nodes(), residents(), busy=75) == []
    assert moved(*two_nodes(), residents(), busy=75, idle=10, age=5 * MINUTE + 1) == []


def with_resources(requests, limits):
    return {"spec": {"containers": [{"resources": {"requests": requests, "limits": limits}}]}}


def test_low_priority_goes_first_then_low_quality_of_service():
    same = {"cpu": "1", "memory": "1Gi"}
    pods = [
        a_pod("vip", gang="vip", node="busy", priority=9, memory="1Gi"),
        a_pod("guaranteed", gang="guaranteed", node="busy", priority=0, **with_resources(same, same)),
        a_pod("burstable", gang="burstable", node="busy", priority=0, memory="1Gi"),
        a_pod("plain", gang="plain", node="busy", memory="1Gi"),
    ]
    groups = [a_group(name, phase="Running") for name in ("vip", "guaranteed", "burstable", "plain")]
    order = moved(*two_nodes(), pods, groups, busy=99, idle=0, arguments=strategy(target=60))
    assert order == ["plain", "burstable", "guaranteed", "vip"]


@pytest.mark.parametrize(
    ("requests", "limits", "quality"),
    [
        ({}, {}, 0),
        ({"nvidia.com/gpu": "1"}, {"nvidia.com/gpu": "1"}, 0),
        ({"cpu": "1"}, {}, 1),
        ({}, {"cpu": "1", "memory": "1Gi"}, 2),
        ({"cpu": "1", "memory": "1Gi"}, {"cpu": "1", "memory": "1Gi"}, 2),
        ({"cpu": "500m", "memory": "1Gi"}, {"cpu": "1", "memory": "1Gi"}, 1),
    ],
)
def test_quality_of_service_is_what_the_kubelet_makes_of_requests_and_limits(requests, limits, quality):
    assert quality_of_service(a_pod("p", **with_resources(requests, limits))) == quality


def test_pods_of_equal_name_in_other_namespaces_are_not_mixed_up():
    twin = a_gang("r0", 1, namespace="other", running=["idle"], group={"phase": "Running"})
    twin = [each for each in twin if type(each).__name__ != "Pod"]
    twin.append(a_pod("r0", gang="r0", namespace="other", node="idle", memory="1Gi"))
    chosen = policy("shuffle", [{"name": "rescheduling", "arguments": strategy()}])
    loads = {"busy": NodeLoad(75, 75, NOW), "idle": NodeLoad(10, 10, NOW)}
    decisions = plan_for(*two_nodes(), twin, residents(1), policy=chosen, ports=Ports(loads=loads))
    assert [eviction.task.key for eviction in decisions.evictions] == ["default/r0"]


def test_a_pod_that_may_not_be_preempted_is_not_moved():
    stubborn = residents(annotations={"volcano.sh/preemptable": "false"})
    assert moved(*two_nodes(), stubborn, busy=75, idle=10) == []


def test_a_gang_gives_up_its_surplus_and_is_never_broken():
    gang = a_gang("g", 4, min_member=3, running=["busy"] * 4, memory="1Gi", group={"phase": "Running"})
    assert moved(*two_nodes(), gang, busy=99, idle=10) == ["g-w-3"]


def test_disruption_budgets_and_cool_downs_hold_here_too():
    assert moved(*two_nodes(), residents(3), busy=75, idle=10, also=["pdb", "cdp"]) == ["r2", "r1"]


def test_pods_are_moved_at_most_once_in_an_interval():
    quiet, busy = (
        decide(*two_nodes(), residents(), busy=20, idle=10),
        decide(*two_nodes(), residents(), busy=75, idle=10),
    )
    assert (evicted(quiet), quiet.memory.of(MEMORY)) == ([], ReschedulingMemory(None))
    assert (bool(evicted(busy)), busy.memory.of(MEMORY)) == (True, ReschedulingMemory(NOW))
    ahead = -60 * MINUTE  # a former leader's clock was
    for ago, has_moved in ((5 * MINUTE - 1, False), (5 * MINUTE, True), (ahead, True)):
        memory = Memory({"rescheduling": ReschedulingMemory(NOW - ago)})
        assert bool(moved(*two_nodes(), residents(), memory=memory, busy=75, idle=10)) is has_moved


def test_it_is_time_to_look_again_when_the_interval_ends_or_a_measurement_is_too_old():
    assert decide(*two_nodes(), residents(), busy=75, idle=10).next_change == NOW + 5 * MINUTE
    assert decide(*two_nodes(), residents(), busy=20, idle=10, age=MINUTE).next_change == NOW + 4 * MINUTE + 1
    assert decide(*two_nodes(), residents()).next_change is None


def test_volcanos_files_are_read_as_they_are():
    params = {"thresholdPriorityClassName": "system-cluster-critical", "nodeFit": True}
    arguments = {"interval": "1m", "metricsPeriod": "5m", **strategy(**params)}
    assert moved(*two_nodes(), residents(1), busy=75, idle=10, arguments=arguments) == ["r0"]


def test_by_default_no_node_is_ever_too_busy():
    assert moved(*two_nodes(), residents(), busy=100, idle=10, arguments={}) == []


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"interval": "never"}, "interval: duration 'never'"),
        ({"strategies": [{"name": "removeDuplicates"}]}, "removeDuplicates"),
        (strategy(low=70, target=60), r"thresholds\.cpu 70 lies above targetThresholds\.cpu 60"),
        (strategy(low=-1), "thresholds"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments, complaint):
    with pytest.raises(PolicyError, match=complaint):
        moved(a_node(), arguments=arguments)

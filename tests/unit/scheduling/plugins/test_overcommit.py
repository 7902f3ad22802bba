"""overcommit: minimums are admitted until they add up to a little more than the cluster has left."""

import pytest
from tests.unit.scheduling.clusters import a_gang, a_group, a_node, a_pod, plan_for, policy, report

from pumice.api import names


def is_admitted(*things, minimum, factor=None):
    arguments = {} if factor is None else {"overcommit-factor": factor}
    chosen = policy("enqueue", "gang", [{"name": "overcommit", "arguments": arguments}])
    waiting = a_group("g", 1, phase="Pending", minimum=minimum)
    return report(plan_for(a_node("n1", cpu="10"), *things, waiting, policy=chosen), "g").phase == "Inqueue"


@pytest.mark.parametrize(
    ("factor", "cpu", "expected"),
    [
        (None, "12", True),
        (None, "12001m", False),
        (2, "20", True),
        (1, "10", True),
        (1, "11", False),
        (0.5, "12", True),
    ],
)
def test_the_cluster_counts_as_so_many_times_its_size(factor, cpu, expected):
    assert is_admitted(minimum={"cpu": cpu}, factor=factor) is expected


def test_what_is_used_by_anybody_is_taken_off():
    foreign = a_pod("busy", cpu="6", node="n1", spec={"schedulerName": "other"})
    assert is_admitted(foreign, minimum={"cpu": "6"})
    assert not is_admitted(foreign, minimum={"cpu": "7"})


def test_a_resource_that_the_cluster_lacks_is_never_admitted_and_pods_are_not_looked_at():
    assert not is_admitted(minimum={"nvidia.com/gpu": "1"})
    assert is_admitted(minimum={"pods": "9999"})


def test_admitted_gangs_keep_their_minimum_reserved_and_running_ones_what_they_still_lack():
    admitted = a_group("a", 1, minimum={"cpu": "8"})
    assert not is_admitted(admitted, minimum={"cpu": "5"})
    assert is_admitted(admitted, minimum={"cpu": "4"})
    running = a_gang("r", 1, running=["n1"], cpu="3", group={"phase": "Running", "minimum": {"cpu": "8"}})
    # 12 less 3 in use, less the 5 that it still lacks
    assert is_admitted(running, minimum={"cpu": "4"})
    assert not is_admitted(running, minimum={"cpu": "5"})
    below_its_minimum = a_gang("r", 2, running=["n1"], cpu="3", group={"phase": "Running", "minimum": {"cpu": "8"}})
    assert is_admitted(below_its_minimum, minimum={"cpu": "9"})


@pytest.mark.parametrize(
    ("gates", "left"),
    [(["later"], 10), ([names.QUEUE_ALLOCATION_GATE], 4), ([names.QUEUE_ALLOCATION_GATE, "later"], 10), ([], 4)],
)
def test_gated_pods_reserve_nothing_unless_it_is_volcanos_own_gate_that_holds_them(gates, left):
    gated = a_pod("a-w-0", gang="a", cpu="6", spec={"schedulingGates": [{"name": name} for name in gates]})
    admitted = a_group("a", 1, minimum={"cpu": "8"})
    assert is_admitted(admitted, gated, minimum={"cpu": str(left)})
    assert not is_admitted(admitted, gated, minimum={"cpu": str(left + 1)})

"""binpack: the fuller node wins, by the resources that are listed."""

import numpy as np
import pytest
from tests.unit.scheduling.clusters import a_gang, a_node, a_pod, binds, plan_for, policy, session_for

GPU = "nvidia.com/gpu"


def scores(*things, arguments=None, nodes=1):
    chosen = policy("allocate", [{"name": "binpack", "arguments": arguments or {}}])
    session = session_for(*things, policy=chosen)
    (task,) = next(iter(session.gangs.values())).tasks
    return session.placer.scores(session.shape(task), task, np.arange(nodes)).tolist()


def test_the_worked_example():
    """cpu 5 of 10 used, memory 20 of 100; one more cpu and 10 more memory: (6/10 + 30/100) / 2 * 100."""
    world = [
        a_node("n1", cpu="10", memory="100"), a_pod("busy", cpu="5", memory="20", node="n1", spec={"schedulerName": "other"}),
        a_gang("g", 1, cpu="1", memory="10"),
    ]  # fmt: skip
    assert scores(*world) == pytest.approx([45.0])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, [10.0]),
        ({"binpack.weight": 10}, [100.0]),
        ({"binpack.resources": GPU}, [(0.1 + 0.5) / 2 * 100]),
        ({"binpack.resources": f" {GPU} ,", f"binpack.resources.{GPU}": 3}, [(0.1 + 3 * 0.5) / 4 * 100]),
        ({"binpack.resources": GPU, f"binpack.resources.{GPU}": -2}, [(0.1 + 0.5) / 2 * 100]),
        ({"binpack.cpu": 0, "binpack.resources": GPU}, [50.0]),
        ({"binpack.cpu": 0}, [0.0]),
    ],
)
def test_only_listed_resources_count_by_their_weights(arguments, expected):
    world = [a_node("n1", cpu="10", gpu=2), a_gang("g", 1, cpu="1", gpu=1)]
    assert scores(*world, arguments=arguments) == pytest.approx(expected)


def test_a_node_that_would_overflow_scores_nothing():
    leaving = a_pod("leaving", cpu="8", node="n1", metadata={"deletionTimestamp": "2026-01-01T00:30:00Z"})
    assert scores(a_node("n1", cpu="10"), leaving, a_gang("g", 1, cpu="4")) == [0.0]


def test_a_gang_fills_a_used_node_before_it_opens_an_empty_one():
    world = [a_node("empty", cpu="4"), a_node("used", cpu="4"), a_pod("busy", node="used"), a_gang("g", 4)]
    found = list(binds(plan_for(*world, policy=policy("allocate", "gang", "binpack"))).values())
    assert found == ["used", "used", "used", "empty"]


def test_without_a_weight_it_has_no_say():
    world = [a_node("a", cpu="4"), a_node("used", cpu="4"), a_pod("busy", node="used"), a_gang("g", 1)]
    silent = policy("allocate", "gang", [{"name": "binpack", "arguments": {"binpack.weight": 0}}])
    assert binds(plan_for(*world, policy=silent)) == {"g-w-0": "a"}

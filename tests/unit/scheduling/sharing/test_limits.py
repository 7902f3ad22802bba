"""What queues deserve, may hold and have left, under every way of sharing; all in GPUs."""

import pytest
from tests.unit.scheduling.clusters import NOW, a_cluster, a_gang, a_node, a_queue, policy

from pumice.cluster import amounts
from pumice.scheduling.core import cycle
from pumice.scheduling.sharing import limits

GPU = "nvidia.com/gpu"
PROPORTION = policy("allocate", "gang predicates", "proportion")
CAPACITY = policy("allocate", "gang predicates", "capacity")
TREE = policy("allocate", "gang predicates", [{"name": "capacity", "enableHierarchy": True}])
BOTH = policy("allocate", "gang predicates", "capacity proportion")
DRF = policy("allocate", "gang predicates", "drf")
NONE = policy("allocate", "gang predicates")


def gpus(text):
    return {GPU: text}


def running(name, queue, count):
    return a_gang(name, count, running=["n1"] * count, group={"queue": queue, "phase": "Running"}, cpu=None, gpu=1)


def limits_of(chosen, *things, gpu=16):
    """Queue -> (deserved, limit, left); None where nothing is said."""
    snapshot = a_cluster(a_node("n1", cpu="99", gpu=gpu), *things).snapshot()
    found = limits.queue_limits(snapshot, chosen, cycle.plan(snapshot, chosen, now=NOW))
    return {
        name: tuple(
            round(part[GPU] / amounts.MILLI, 1) if GPU in part else None
            for part in (each.deserved, each.limit, each.left)
        )
        for name, each in found.items()
    }


def test_by_weight_what_others_do_not_want_is_lent_out_and_can_be_had_back():
    found = limits_of(PROPORTION, a_queue("a"), a_queue("b"), running("all", "a", 16))
    assert found == {"a": (16, 16, 0), "b": (8, 8, 8)}
    found = limits_of(PROPORTION, a_queue("a"), a_queue("b"), running("most", "a", 14), running("few", "b", 2))
    assert found == {"a": (8, 14, 0), "b": (8, 8, 6)}  # what it wants less than its part is lent out


def test_by_weight_parts_follow_weights_among_the_queues_in_use():
    queues = a_queue("a"), a_queue("b", weight=3), a_queue("idle", weight=4)
    found = limits_of(PROPORTION, *queues, running("x", "a", 4), running("y", "b", 6))
    assert found == {"a": (4, 10, 6), "b": (12, 12, 6), "idle": (8, 8, 8)}


def test_by_weight_guarantees_and_capabilities_bound_the_part():
    queues = a_queue("a", capability=gpus("3")), a_queue("b", guarantee=gpus("10"))
    found = limits_of(PROPORTION, *queues, running("x", "a", 1), running("y", "b", 1))
    assert found["a"] == (3, 3, 2)
    assert found["b"][0] >= 10
    assert limits_of(PROPORTION, a_queue("a"), a_queue("b", guarantee=gpus("10")), running("x", "a", 1))["a"][1] == 6


def test_as_written_a_queue_may_borrow_what_is_free_and_take_back_what_it_deserves():
    queues = a_queue("a", deserved=gpus("4")), a_queue("b", deserved=gpus("12"), capability=gpus("14"))
    assert limits_of(CAPACITY, *queues) == {"a": (4, 16, 16), "b": (12, 14, 14)}
    assert limits_of(CAPACITY, *queues, running("x", "a", 10)) == {"a": (4, 16, 6), "b": (12, 14, 12)}


def test_in_a_tree_every_queue_above_limits():
    queues = (
        a_queue("root"),
        a_queue("team", parent="root", capability=gpus("8"), deserved=gpus("8")),
        a_queue("one", parent="team", deserved=gpus("4")),
        a_queue("two", parent="team", deserved=gpus("4")),
        a_queue("lost", parent="nowhere"),
    )
    found = limits_of(TREE, *queues, running("x", "one", 6))
    assert found == {
        "root": (8, 16, 10),
        "team": (8, 8, 2),
        "one": (4, 8, 2),
        "two": (4, 8, 2),
        "lost": (None, 16, 0),  # cut off: nothing starts there
    }


def test_flat_sharing_sums_up_what_stands_below_a_queue():
    queues = (
        a_queue("root"),
        a_queue("team", parent="root"),
        a_queue("one", parent="team"),
        a_queue("two", parent="team"),
    )
    found = limits_of(PROPORTION, *queues, running("x", "one", 2), running("y", "two", 2))
    assert found["one"] == found["two"] == (8, 14, 12)
    assert found["team"] == found["root"] == (16, 16, 12)


def test_beside_proportion_what_is_written_counts_and_the_smaller_limit():
    queues = a_queue("a", deserved=gpus("5")), a_queue("b")
    found = limits_of(BOTH, *queues, running("x", "a", 2), running("y", "b", 2))
    assert found == {"a": (5, 14, 12), "b": (8, 14, 12)}


@pytest.mark.parametrize("chosen", [DRF, NONE], ids=["drf", "none"])
def test_where_nothing_shares_the_cluster_there_is_neither_a_part_nor_a_limit(chosen):
    written = a_queue("a", deserved=gpus("1"), capability=gpus("2"), guarantee=gpus("1"))
    assert limits_of(chosen, written, a_queue("b"), running("x", "a", 6)) == {
        "a": (None, None, 10),
        "b": (None, None, 10),
    }


@pytest.mark.parametrize("chosen", [PROPORTION, CAPACITY, TREE, NONE])
def test_a_queue_that_is_not_open_has_nothing_left(chosen):
    assert limits_of(chosen, a_queue("a", state="Closed"))["a"][2] == 0


def test_what_a_cycle_has_just_placed_is_no_longer_left():
    waiting = a_gang("new", 4, group={"queue": "a"}, cpu=None, gpu=1)
    assert limits_of(CAPACITY, a_queue("a"), waiting)["a"] == (None, 16, 12)


def test_many_different_queues_cost_a_bounded_number_of_divisions(monkeypatch):
    monkeypatch.setattr(limits, "DIVISIONS_MAX", 1)
    found = limits_of(PROPORTION, a_queue("a"), a_queue("b", weight=3), running("x", "a", 8), running("y", "b", 8))
    assert [each[0] for each in found.values()] == [4, 12]
    assert found["b"][1] == 16  # told without regard to what others want

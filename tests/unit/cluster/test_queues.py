"""Queues as scheduling reads them."""

import pytest
from tests.unit.scheduling.clusters import a_queue

from pumice.cluster.queues import queue_of


def test_a_queue_has_what_its_object_says():
    found = queue_of(
        a_queue(
            "research", weight=3, priority=9, parent="lab", capability={"cpu": "10", "nvidia.com/gpu": "4"},
            deserved={"cpu": "5"}, guarantee={"memory": "1Gi"}, created=4,
            annotations={"volcano.sh/hierarchy": "root/lab", "volcano.sh/hierarchy-weights": "1/2"},
        )
    )  # fmt: skip
    assert (found.name, found.weight, found.priority, found.parent) == ("research", 3, 9, "lab")
    assert found.capability == {"cpu": 10_000, "nvidia.com/gpu": 4000}
    assert found.deserved == {"cpu": 5000}
    assert found.guarantee == {"memory": 2**30}
    assert (found.hierarchy, found.hierarchy_weights) == ("root/lab", "1/2")


def test_what_a_queue_does_not_limit_is_absent_and_not_zero():
    found = queue_of(a_queue())
    assert (found.capability, found.deserved, found.guarantee) == ({}, {}, {})


def test_every_queue_but_the_root_has_a_parent():
    assert queue_of(a_queue("root")).parent == ""
    assert queue_of(a_queue("root", parent="root")).parent == ""
    assert queue_of(a_queue("a")).parent == "root"


@pytest.mark.parametrize(("written", "expected"), [(None, True), (True, True), (False, False)])
def test_a_queue_lets_others_reclaim_unless_it_says_no(written, expected):
    assert queue_of(a_queue(reclaimable=written)).reclaimable is expected


@pytest.mark.parametrize(
    ("state", "is_open"), [("Open", True), ("Closed", False), ("Closing", False), ("Unknown", False), ("", True)]
)
def test_a_queue_is_open_where_it_says_so_or_nobody_has_said_anything_yet(state, is_open):
    assert queue_of(a_queue(state=state)).is_open is is_open

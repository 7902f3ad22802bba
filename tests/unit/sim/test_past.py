"""Workloads and clusters that exist: the record's gangs, and dumps of nodes, queues and gangs."""

import pytest
from tests.unit.scheduling.clusters import a_gang, a_node, a_priority_class, a_queue, flat

from pumice.errors import BadInput
from pumice.record.model import GangRow
from pumice.sim.past import cluster_of_dump, work_of_dump, work_of_record
from pumice.sim.simulation import SLOT, more_nodes


def a_row(uid, submitted, run_s, *shapes, queue="research", user="ann"):
    return GangRow(
        uid=uid, kind="Job", namespace="team", name=uid, user=user, queue=queue, team="", state="Completed", reason="",
        submitted=submitted, admitted=None, started=submitted, ended=submitted + run_s, wait_s=0, run_s=run_s, attempts=1,
        evictions=0, lost_s=0, gpu_hours=0.0, lost_gpu_hours=0.0, held={},
        shapes=[{"task": f"t{number}", "pods": pods, "resources": {"cpu": 1.0, SLOT: gpus}} for number, (pods, gpus) in enumerate(shapes)],
    )  # fmt: skip


def test_gangs_of_the_record_come_in_order_of_submission_and_run_as_they_did():
    work = work_of_record([a_row("late", 1500, 60, (1, 1.0)), a_row("first", 1000, 600, (4, 2.0), (1, 0.0))])
    assert [(each.at_s, each.run_s, each.size, each.slots, each.queue, each.user) for each in work] == [
        (0.0, 600.0, 4, 2, "research", "ann"),
        (500.0, 60.0, 1, 1, "research", "ann"),
    ]


def test_gangs_of_the_record_that_held_no_gpu_or_never_ran_are_left_out_and_uneven_ones_count_gpus():
    work = work_of_record(
        [a_row("cpu", 0, 60, (3, 0.0)), a_row("never", 0, 0, (1, 1.0)), a_row("uneven", 0, 60, (1, 4.0), (2, 1.0))]
    )
    assert [(each.size, each.slots) for each in work] == [(6, 1)]


def test_gangs_of_a_dump_are_all_there_at_once_with_those_that_run_first():
    estimate = {"pumice.dev/running-estimate": "2h"}
    dump = list(
        flat(
            [
                a_node("n1", gpu=8),
                a_gang("waits", 2, gpu=4, created=1),
                a_gang("runs", 2, gpu=1, running=["n1", "n1"], created=5, annotations=estimate),
                a_gang("plain", 2, cpu="1"),
            ]
        )
    )
    work = work_of_dump(dump, run_s=600)
    assert [(each.at_s, each.run_s, each.size, each.slots) for each in work] == [(0, 7200, 2, 1), (0, 600, 2, 4)]


def test_a_cluster_of_a_dump_has_nodes_with_gpus_that_take_pods_and_what_else_decides():
    dump = [
        a_node("n1", gpu=8, labels={"zone": "a"}),
        a_node("cpu", cpu="64"),
        a_node("cordoned", gpu=8, spec={"unschedulable": True}),
        a_queue("research", weight=3),
        a_queue("root"),
        a_priority_class("high", 100),
    ]
    nodes, queues, others = cluster_of_dump(dump, "dump.yaml")
    assert [(each.metadata.name, each.status.allocatable[SLOT], each.metadata.labels["zone"]) for each in nodes] == [
        ("n1", "8", "a")
    ]
    assert [(each.metadata.name, each.spec.weight) for each in queues] == [("research", 3)]
    assert [each.metadata.name for each in others] == ["high"]


def test_a_dump_without_gpus_says_what_to_give():
    with pytest.raises(BadInput, match=r"dump.yaml: no node in it has GPUs and takes pods; give what `kubectl get"):
        cluster_of_dump([a_node("cpu", cpu="64")], "dump.yaml")


def test_more_nodes_are_like_the_largest():
    nodes, _, _ = cluster_of_dump([a_node("small", gpu=2), a_node("large", gpu=8, labels={"zone": "b"})], "dump")
    more = more_nodes(nodes, 2)
    assert [(each.metadata.name, each.status.allocatable[SLOT]) for each in more[2:]] == [
        ("added-00000", "8"),
        ("added-00001", "8"),
    ]
    assert more[2].metadata.labels == {"kubernetes.io/hostname": "added-00000", "zone": "b"}
    with pytest.raises(BadInput, match="--add-nodes 20000: 1 to 19998"):
        more_nodes(nodes, 20_000)

"""Rows, columns, and a table that holds still."""

import pytest
from tests.unit.scheduling.clusters import a_cluster, a_node, a_pod, an_object

from pumice.api.changes import Upserted
from pumice.cluster.columns import CPU_ROW, FIRST_ROWS, MEMORY_ROW, PODS_ROW, SCORED_CPU_ROW, SCORED_MEMORY_ROW, Axis
from pumice.cluster.intake import Intake
from pumice.cluster.tasks import task_of

GPU = "nvidia.com/gpu"


def test_the_axis_only_grows_so_a_row_keeps_its_meaning():
    axis = Axis()
    axis.learn({GPU: 1, "memory": 1})
    axis.learn({"a.io/x": 1, GPU: 1})
    assert axis.names == [*FIRST_ROWS, GPU, "a.io/x"]
    assert [axis.rows[name] for name in axis.names] == list(range(len(axis)))


def test_a_vector_holds_the_names_that_have_a_row():
    axis = Axis()
    column = axis.vector({"cpu": 2, "memory": 3, GPU: 4})
    assert (column[CPU_ROW], column[MEMORY_ROW], column.sum()) == (2, 3, 5)


def test_a_demand_carries_the_slot_and_what_scores_count():
    column = Axis().demand(task_of(a_pod(cpu="2"), gang="").request)
    assert column[[CPU_ROW, MEMORY_ROW, PODS_ROW]].tolist() == [2000, 0, 1000]
    assert column[[SCORED_CPU_ROW, SCORED_MEMORY_ROW]].tolist() == [2000, 200 * 2**20]


def test_nodes_stand_in_order_of_age_then_name():
    table = a_cluster(a_node("b"), a_node("c"), a_node("a", created=5)).snapshot().nodes
    assert list(table.names) == ["b", "c", "a"]
    assert table.index == {"b": 0, "c": 1, "a": 2}
    assert [node.metadata.name for node in table.objects] == ["b", "c", "a"]


def test_a_table_has_allocatable_used_and_releasing_by_node():
    leaving = {"deletionTimestamp": "2026-01-01T00:00:09Z"}
    table = (
        a_cluster(
            a_node("n1", cpu="4"),
            a_node("n2", cpu="8", gpu=2),
            a_pod("a", cpu="1", node="n1"),
            a_pod("b", cpu="2", node="n2", metadata=leaving),
            a_pod("c", cpu="1", gpu=1, node="n2", spec={"schedulerName": "default-scheduler"}),
            a_pod("d", cpu="9"),
        )
        .snapshot()
        .nodes
    )
    gpu = table.axis.rows[GPU]
    assert table.allocatable[[CPU_ROW, gpu]].tolist() == [[4000, 8000], [0, 2000]]
    assert table.used[[CPU_ROW, gpu, PODS_ROW]].tolist() == [[1000, 3000], [0, 1000], [1000, 2000]]
    assert table.releasing[[CPU_ROW, gpu, PODS_ROW]].tolist() == [[0, 2000], [0, 0], [0, 1000]]
    assert [[task.name for task in tasks] for tasks in table.tasks] == [["a"], ["b", "c"]]


def test_each_rows_room_lies_side_by_side_in_memory():
    table = a_cluster([a_node(f"n{number}") for number in range(70)]).snapshot().nodes
    assert table.used[CPU_ROW].flags.c_contiguous


def test_the_total_is_exact_and_names_only_what_there_is():
    table = a_cluster(
        a_node("n1", memory=str(2**51 + 1)), a_node("n2", memory=str(2**51 + 1)), a_pod("p", gpu=1)
    ).snapshot()
    assert table.nodes.total() == {"cpu": 8000, "memory": 2**52 + 2, "pods": 220_000}


def test_a_node_without_allocatable_has_its_capacity():
    node = an_object("v1", "Node", {"metadata": {"name": "n1"}, "status": {"capacity": {"cpu": "3"}}})
    assert a_cluster(node).snapshot().nodes.total() == {"cpu": 3000}


@pytest.mark.parametrize(("written", "cpu"), [("1500", 5500), ("", 4000), ("1k", 4000), ("-5", 4000)])
def test_what_a_node_oversells_is_added(written, cpu):
    node = a_node("n1", cpu="4", annotations={"volcano.sh/oversubscription-cpu": written})
    assert a_cluster(node).snapshot().nodes.total()["cpu"] == cpu


def test_an_empty_cluster_has_an_empty_table():
    table = a_cluster().snapshot().nodes
    assert len(table) == 0
    assert table.total() == {}


def test_what_has_not_changed_is_shared_by_the_tables_of_later_snapshots():
    cluster = a_cluster(a_node("a"), a_node("b"))
    intake, first = Intake(cluster), cluster.snapshot().nodes
    intake.apply(Upserted(a_pod("p", node="a", phase="Running")))
    second = cluster.snapshot().nodes
    assert second.objects is first.objects
    assert second.allocatable is first.allocatable
    assert [[task.name for task in own] for own in (*first.tasks, *second.tasks)] == [[], [], ["p"], []]
    assert first.used.sum() == 0 < second.used.sum()
    intake.apply(Upserted(a_node("b", cpu="64")))
    third = cluster.snapshot().nodes
    assert third.objects is not second.objects
    assert third.allocatable[CPU_ROW].tolist() == [second.allocatable[CPU_ROW, 0], 64_000]


def test_a_demand_is_found_once_and_again_when_the_axis_has_grown():
    axis, request = Axis(), task_of(a_pod(cpu="2"), gang="").request
    assert axis.demand(request) is axis.demand(request)
    with pytest.raises(ValueError, match="read-only"):
        axis.demand(request)[0] = 1
    axis.learn({GPU: 1})
    assert len(axis.demand(request)) == len(axis)

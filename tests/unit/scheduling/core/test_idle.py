from tests.unit.scheduling.clusters import a_cluster, a_node, a_pod

from pumice.scheduling.core import idle


def test_idle_on_partly_used_nodes_is_fragmented():
    cluster = a_cluster(
        a_node("empty", gpu="8"),
        a_node("half", gpu="8"),
        a_node("full", gpu="8"),
        a_node("cordoned", gpu="8", spec={"unschedulable": True}),
        a_pod("a", gpu="4", node="half", phase="Running"),
        a_pod("b", gpu="8", node="full", phase="Running"),
    )
    found = idle.idle(cluster.snapshot().nodes)["nvidia.com/gpu"]
    assert (found.capacity, found.used, found.idle, found.fragmented) == (24_000, 12_000, 12_000, 4_000)


def test_a_cluster_without_nodes_has_nothing_idle():
    assert idle.idle(a_cluster().snapshot().nodes) == {}

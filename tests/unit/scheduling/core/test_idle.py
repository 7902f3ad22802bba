from tests.unit.scheduling.clusters import a_cluster, a_gang, a_node, a_pod, plan_for, policy, session_for

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


def stranded(*things):
    session = session_for(*things, policy=policy("allocate", "gang predicates"))
    return {(each.resource, each.each): (each.free, each.usable) for each in idle.stranded(session)}


def test_free_gpus_that_workers_of_a_whole_node_cannot_use_are_counted():
    used = [a_pod(f"p{each}", gpu=2, node=f"n{each}") for each in range(2)]
    nodes = [a_node(f"n{each}", gpu=8) for each in range(2)]
    assert stranded(*nodes, *used) == {("nvidia.com/gpu", 8): (12, 0)}
    cordoned = a_node("cordoned", gpu=8, spec={"unschedulable": True})
    assert stranded(*nodes, *used, a_node("whole", gpu=8), cordoned) == {("nvidia.com/gpu", 8): (20, 8)}
    assert stranded(a_node("n1")) == {}


def test_sizes_that_wait_count_with_their_cpu():
    """Six GPUs are free on each node, and cpu for one worker of two."""
    things = [a_node("n1", cpu="4", gpu=6), a_node("n2", cpu="4", gpu=6), a_gang("g", 5, cpu="3", gpu=2)]
    decisions = plan_for(*things, policy=policy("allocate", "gang predicates"))
    found = {each.each: (each.free, each.usable, each.waiting) for each in decisions.stranded}
    assert found == {2: (12, 4, 5), 6: (12, 12, 0)}


def test_partitions_of_gpus_are_counted_by_their_profile():
    mig = "nvidia.com/mig-3g.40gb"
    assert stranded(a_node("n1", more={mig: 2}), a_node("n2", more={mig: 1})) == {(mig, 2): (3, 2)}

"""Room on literal nodes."""

from pumice import instant
from pumice.api import decoding
from pumice.api.core import Node
from pumice.api.pods import Pod
from pumice.cli import nodes, room


def a_node(name, gpus, *, ready="True", cordoned=False, resource="nvidia.com/gpu", taints=(), labels=None):
    taints = list(taints)
    if ready != "True":  # as the controllers of every cluster do
        taints.append({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"})
    return decoding.decode_value(
        Node,
        {
            "metadata": {
                "name": name,
                "uid": name,
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": labels or {},
            },
            "spec": {"unschedulable": cordoned, "taints": taints},
            "status": {
                "allocatable": {"cpu": "16", "memory": "64Gi", "pods": "10", resource: str(gpus)},
                "conditions": [{"type": "Ready", "status": ready}],
            },
        },
    )


def a_pod(name, node, gpus):
    resources = {"requests": {"cpu": "1", "nvidia.com/gpu": str(gpus)}}
    return decoding.decode_value(
        Pod,
        {
            "metadata": {"name": name, "namespace": "d", "uid": name},
            "spec": {"nodeName": node, "containers": [{"name": "c", "resources": resources}]},
            "status": {"phase": "Running"},
        },
    )


def of(nodes, pods):
    return room.session_of(nodes, pods, instant.parse_instant("2026-01-01T01:00:00Z"))


def test_free_cards_beside_used_ones_are_fragmented():
    session = of([a_node("a", 8), a_node("b", 8), a_node("c", 4)], [a_pod("p", "a", 3), a_pod("q", "c", 4)])
    assert nodes.rooms_text(room.rooms(session)) == (
        "NAME        STATUS   GPUS   USED   FREE   FRAGMENTED   PODS\n"
        "a           Ready    8      3      5      5            1\n"
        "b           Ready    8      0      8      0            0\n"
        "c           Ready    4      4      0      0            1\n"
        "(3 nodes)            20     7      13     5            2\n"
        "\n"
        "Largest gang that fits now, by nvidia.com/gpu of each worker: 13 of 1, 6 of 2, 3 of 4, 1 of 8\n"
        "13 nvidia.com/gpu free, 8 usable for workers of 8"
    )


def test_what_free_cards_cost_that_are_of_no_use_is_said():
    session = of([a_node("a", 8), a_node("b", 8)], [a_pod("p", "a", 2), a_pod("q", "b", 2)])
    seen = room.rooms(session, prices={"nvidia.com/gpu": 2.5})
    assert nodes.stranded_text(seen) == "\n12 nvidia.com/gpu free, none usable for workers of 8: $30.00 an hour"
    assert seen.data()["stranded"] == [{"cardsEach": 8, "free": 12, "usable": 0, "dollarsPerHour": 30.0}]


def test_nodes_that_take_no_pods_have_nothing_free():
    session = of([a_node("a", 8, ready="False"), a_node("b", 8, cordoned=True), a_node("c", 8, ready="Unknown")], [])
    seen = room.rooms(session)
    assert [(each.state, each.free) for each in seen.nodes] == [
        ("NotReady,Tainted", 0),
        ("Ready,SchedulingDisabled", 0),
        ("Unknown,Tainted", 0),
    ]
    assert seen.gangs == {1: 0, 2: 0, 4: 0, 8: 0}


def test_a_worker_must_fit_in_every_resource():
    session = of([a_node("a", 8), a_node("b", 8)], [a_pod("p", "a", 1)])
    assert room.workers(session, {"cpu": 4000, "nvidia.com/gpu": 1000}) == 3 + 4
    assert room.workers(session, {"cpu": 1}) == 9 + 10  # pod slots
    assert room.workers(session, {"amd.com/gpu": 1000}) == 0


def test_the_commonest_gpu_is_counted_unless_another_is_named():
    session = of([a_node("a", 2), a_node("b", 4, resource="amd.com/gpu")], [])
    assert room.rooms(session).resource == "amd.com/gpu"
    assert room.rooms(session, "nvidia.com/gpu").gangs == {1: 2, 2: 1}


def test_a_cluster_without_gpus_says_so():
    assert nodes.rooms_text(room.rooms(of([a_node("a", 0)], []))).endswith("No node has any nvidia.com/gpu.")
    assert nodes.rooms_text(room.rooms(of([], []))).endswith("No node has any nvidia.com/gpu.")


def test_the_head_says_what_is_counted():
    session = of([a_node("a", 8)], [])
    assert nodes.cards_text(room.rooms(session, "cpu")).split()[:4] == ["NAME", "STATUS", "CPU", "USED"]
    assert nodes.cards_text(room.rooms(session, "nvidia.com/gpu")).split()[2] == "GPUS"


TAINT = {"key": "team", "value": "a", "effect": "NoSchedule"}


def test_nodes_that_are_tainted_cordoned_or_not_ready_do_not_count_for_a_gang_and_are_named():
    listed = [
        a_node("free", 8),
        a_node("kept", 8, taints=[TAINT]),
        a_node("shut", 8, cordoned=True),
        a_node("gone", 8, ready="False"),
        a_node("mild", 8, taints=[{"key": "slow", "effect": "PreferNoSchedule"}]),
    ]
    seen = room.rooms(of(listed, [a_pod("p", "kept", 2)]))
    assert nodes.rooms_text(seen) == (
        "NAME        STATUS                     GPUS   USED   FREE   FRAGMENTED   PODS\n"
        "free        Ready                      8      0      8      0            0\n"
        "gone        NotReady,Tainted           8      0      0      0            0\n"
        "kept        Ready,Tainted              8      2      6      6            1\n"
        "mild        Ready                      8      0      8      0            0\n"
        "shut        Ready,SchedulingDisabled   8      0      0      0            0\n"
        "(5 nodes)                              40     2      22     6            1\n"
        "\n"
        "Largest gang that fits now, by nvidia.com/gpu of each worker: 16 of 1, 8 of 2, 4 of 4, 2 of 8\n"
        "Not counted in it: 1 node (node(s) were unschedulable), 2 nodes (node(s) had untolerated taint(s))\n"
        "22 nvidia.com/gpu free, 16 usable for workers of 8"
    )
    assert {"nodes": 2, "because": "node(s) had untolerated taint(s)"} in seen.data()["leftOut"]

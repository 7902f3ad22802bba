"""Room on literal nodes."""

from pumice.api import decoding
from pumice.api.core import Node
from pumice.api.pods import Pod
from pumice.cli import nodes, room


def a_node(name, gpus, *, ready="True", cordoned=False, resource="nvidia.com/gpu", taints=(), labels=None):
    return decoding.decode_value(
        Node,
        {
            "metadata": {
                "name": name,
                "uid": name,
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": labels or {},
            },
            "spec": {"unschedulable": cordoned, "taints": list(taints)},
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


def test_free_cards_beside_used_ones_are_fragmented():
    table = room.table_of([a_node("a", 8), a_node("b", 8), a_node("c", 4)], [a_pod("p", "a", 3), a_pod("q", "c", 4)])
    assert nodes.rooms_text(room.rooms(table)) == (
        "NAME        STATUS   GPUS   USED   FREE   FRAGMENTED   PODS\n"
        "a           Ready    8      3      5      5            1\n"
        "b           Ready    8      0      8      0            0\n"
        "c           Ready    4      4      0      0            1\n"
        "(3 nodes)            20     7      13     5            2\n"
        "\n"
        "Largest gang that fits now, by nvidia.com/gpu of each worker: 13 of 1, 6 of 2, 3 of 4, 1 of 8"
    )


def test_nodes_that_take_no_pods_have_nothing_free():
    table = room.table_of(
        [a_node("a", 8, ready="False"), a_node("b", 8, cordoned=True), a_node("c", 8, ready="Unknown")], []
    )
    seen = room.rooms(table)
    assert [(each.state, each.free) for each in seen.nodes] == [
        ("NotReady", 0),
        ("Ready,SchedulingDisabled", 0),
        ("Unknown", 0),
    ]
    assert seen.gangs == {1: 0, 2: 0, 4: 0, 8: 0}


def test_a_worker_must_fit_in_every_resource():
    table = room.table_of([a_node("a", 8), a_node("b", 8)], [a_pod("p", "a", 1)])
    assert room.fits(table, {"cpu": 4000, "nvidia.com/gpu": 1000}) == [3, 4]
    assert room.fits(table, {"cpu": 1}) == [9, 10]  # pod slots
    assert room.fits(table, {"amd.com/gpu": 1000}) == [0, 0]


def test_the_commonest_gpu_is_counted_unless_another_is_named():
    table = room.table_of([a_node("a", 2), a_node("b", 4, resource="amd.com/gpu")], [])
    assert room.rooms(table).resource == "amd.com/gpu"
    assert room.rooms(table, "nvidia.com/gpu").gangs == {1: 2, 2: 1}


def test_a_cluster_without_gpus_says_so():
    assert nodes.rooms_text(room.rooms(room.table_of([a_node("a", 0)], []))).endswith("No node has any nvidia.com/gpu.")
    assert nodes.rooms_text(room.rooms(room.table_of([], []))).endswith("No node has any nvidia.com/gpu.")


TAINT = {"key": "team", "value": "a", "effect": "NoSchedule"}


def test_nodes_that_are_tainted_cordoned_or_not_ready_do_not_count_for_a_gang_and_are_named():
    listed = [
        a_node("free", 8),
        a_node("kept", 8, taints=[TAINT]),
        a_node("shut", 8, cordoned=True),
        a_node("gone", 8, ready="False"),
        a_node("mild", 8, taints=[{"key": "slow", "effect": "PreferNoSchedule"}]),
    ]
    seen = room.rooms(room.table_of(listed, [a_pod("p", "kept", 2)]))
    assert nodes.rooms_text(seen) == (
        "NAME        STATUS                     GPUS   USED   FREE   FRAGMENTED   PODS\n"
        "free        Ready                      8      0      8      0            0\n"
        "gone        NotReady                   8      0      0      0            0\n"
        "kept        Ready,Tainted              8      2      6      6            1\n"
        "mild        Ready                      8      0      8      0            0\n"
        "shut        Ready,SchedulingDisabled   8      0      0      0            0\n"
        "(5 nodes)                              40     2      22     6            1\n"
        "\n"
        "Largest gang that fits now, by nvidia.com/gpu of each worker: 16 of 1, 8 of 2, 4 of 4, 2 of 8\n"
        "Not counted in it: 1 node (not ready), 1 node (taint team=a:NoSchedule), 1 node (cordoned)"
    )
    assert seen.data()["leftOut"][1] == {"nodes": 1, "because": "taint team=a:NoSchedule"}


def spec_of(**spec):
    return decoding.decode_value(Pod, {"spec": spec}).spec


def test_what_a_pod_tolerates_and_which_labels_it_wants_decide_where_it_may_go():
    node = a_node("n", 8, taints=[TAINT], labels={"disk": "ssd"})
    tolerant = {"tolerations": [{"key": "team", "operator": "Exists"}]}
    assert room.barred(node) == "taint team=a:NoSchedule"
    assert room.barred(node, spec_of(**tolerant)) == ""
    assert room.barred(node, spec_of(**tolerant, nodeSelector={"disk": "ssd"})) == ""
    assert room.barred(node, spec_of(**tolerant, nodeSelector={"disk": "hdd"})) == "other labels than the pods want"
    term = {"matchExpressions": [{"key": "disk", "operator": "NotIn", "values": ["ssd"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    affine = spec_of(**tolerant, affinity={"nodeAffinity": required})
    assert room.barred(node, affine) == "other labels than the pods want"
    everything = {"tolerations": [{"operator": "Exists"}]}
    assert room.barred(a_node("c", 8, cordoned=True), spec_of(**everything)) == ""
    assert room.fits(room.table_of([node], []), {"nvidia.com/gpu": 1000}, spec_of(**tolerant)) == [8]

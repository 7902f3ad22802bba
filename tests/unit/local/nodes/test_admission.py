import pytest

from pumice.api import decoding
from pumice.api.core import Node
from pumice.api.pods import Pod
from pumice.local.nodes.admission import Ledger, Rejection, judge


def a_node(*, labels=None, taints=(), **allocatable):
    room = {"cpu": "4", "memory": "8Gi", "pods": "10"} | allocatable
    value = {"metadata": {"name": "n1", "labels": labels or {}}, "spec": {"taints": list(taints)}}
    return decoding.decode_value(Node, value | {"status": {"allocatable": room}})


def a_pod(name="p", *, requests=None, ports=(), **spec):
    container = {"name": "main", "resources": {"requests": requests or {}}, "ports": list(ports)}
    value = {"metadata": {"name": name, "uid": f"uid-{name}"}, "spec": {"containers": [container], **spec}}
    return decoding.decode_value(Pod, value)


def full(resource, *, requested, used, capacity):
    message = (
        f"Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {capacity}"
    )
    return Rejection(f"OutOf{resource}", message)


def test_a_pod_that_fits_exactly_is_admitted():
    assert judge(a_pod(requests={"cpu": "4", "memory": "8Gi"}), a_node(), {}) is None


@pytest.mark.parametrize(
    ("requests", "used", "expected"),
    [
        ({"cpu": "1500m"}, {"cpu": 3000}, full("cpu", requested=1500, used=3000, capacity=4000)),
        ({"memory": "1Gi"}, {"memory": 8 * 2**30}, full("memory", requested=2**30, used=2**33, capacity=2**33)),
        ({"nvidia.com/gpu": "2"}, {"nvidia.com/gpu": 7000}, full("nvidia.com/gpu", requested=2, used=7, capacity=8)),
        ({}, {"pods": 10_000}, full("pods", requested=1, used=10, capacity=10)),
        ({"ephemeral-storage": "1Ki"}, {}, full("ephemeral-storage", requested=1024, used=0, capacity=0)),
        ({"hugepages-2Mi": "4Mi"}, {}, full("hugepages-2Mi", requested=2**22, used=0, capacity=0)),
    ],
    ids=["cpu", "memory", "gpu", "pods", "ephemeral-storage", "hugepages"],
)
def test_a_pod_that_does_not_fit_is_rejected_in_a_kubelets_words(requests, used, expected):
    assert judge(a_pod(requests=requests), a_node(**{"nvidia.com/gpu": "8"}), used) == expected


def test_the_first_shortage_is_told_pods_before_cpu_before_gpus():
    pod = a_pod(requests={"nvidia.com/gpu": "9", "cpu": "9"})
    node = a_node(**{"nvidia.com/gpu": "8"})
    assert judge(pod, node, {"pods": 10_000}).reason == "OutOfpods"
    assert judge(pod, node, {}).reason == "OutOfcpu"


def test_an_extended_resource_that_the_node_does_not_have_at_all_is_let_pass_as_a_kubelet_does():
    assert judge(a_pod(requests={"nvidia.com/gpu": "1"}), a_node(), {}) is None


def test_a_status_says_failed_with_reason_and_message():
    rejection = Rejection("OutOfcpu", "too little")
    assert rejection.status == {"phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected: too little"}


def test_a_node_without_the_labels_that_the_pod_selects_rejects_it():
    expected = Rejection(
        "NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
    )
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    for spec in ({"nodeSelector": {"zone": "a"}}, {"affinity": affinity}):
        assert judge(a_pod(**spec), a_node(labels={"zone": "b"}), {}) == expected
        assert judge(a_pod(**spec), a_node(labels={"zone": "a"}), {}) is None


def test_only_taints_that_evict_reject_a_pod_and_a_toleration_helps():
    taint = {"key": "maintenance", "effect": "NoExecute"}
    expected = Rejection(
        "TaintToleration", "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"
    )
    assert judge(a_pod(), a_node(taints=[taint]), {}) == expected
    assert judge(a_pod(), a_node(taints=[taint | {"effect": "NoSchedule"}]), {}) is None
    tolerant = a_pod(tolerations=[{"key": "maintenance", "operator": "Exists"}])
    assert judge(tolerant, a_node(taints=[taint]), {}) is None


def test_a_host_port_belongs_to_one_pod_at_a_time():
    ledger = Ledger(a_node())
    assert ledger.admit(a_pod("a", ports=[{"hostPort": 80, "containerPort": 80}])) is None
    again = a_pod("b", ports=[{"hostPort": 80, "containerPort": 8080, "hostIP": "127.0.0.1"}])
    expected = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
    assert ledger.admit(again) == Rejection("NodePorts", expected)
    ledger.release("uid-a")
    assert ledger.admit(again) is None


def test_a_ledger_charges_a_pod_once_and_gives_its_room_back():
    ledger = Ledger(a_node())
    first, second = a_pod("a", requests={"cpu": "3"}), a_pod("b", requests={"cpu": "2"})
    assert ledger.admit(first) is None
    assert ledger.admit(first) is None
    assert ledger.admit(second) == full("cpu", requested=2000, used=3000, capacity=4000)
    assert "uid-b" not in ledger
    ledger.release("uid-a")
    ledger.release("uid-a")
    assert ledger.admit(second) is None


def test_a_pod_that_runs_already_is_charged_whether_it_fits_or_not():
    ledger = Ledger(a_node())
    ledger.charge(a_pod("a", requests={"cpu": "5"}))
    assert ledger.admit(a_pod("b", requests={"cpu": "1"})).message.endswith("used: 5000, capacity: 4000")

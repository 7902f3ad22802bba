"""Ten reasons to wait, made on a whole cluster, and what `pumice explain` says of each."""

import json

import pytest

from pumice.api.batch import Job
from pumice.api.core import Node
from pumice.api.pods import Pod
from pumice.api.scheduling import PodGroup, Queue
from pumice.kube.transport import Request

CHANGE = "what could change it: a change of the job, its queue or the nodes"
TIME = "what could change it: time alone"
EVICTION = "what could change it: pods that end, or are evicted"


def a_job(name, *, replicas=1, minimum=None, queue="default", resources=None, **pod):
    resources = resources or {"cpu": "1"}
    container = {"name": "c", "image": "i", "resources": {"requests": resources, "limits": resources}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container], **pod}}
    tasks = [{"name": "w", "replicas": replicas, "template": template}]
    spec = {"minAvailable": minimum or replicas, "schedulerName": "volcano", "queue": queue, "tasks": tasks}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def reasons_of(group):
    verdict = json.loads(group["metadata"].get("annotations", {}).get("pumice.dev/verdict", "{}"))
    return [each["reason"] for each in verdict.get("reasons", ())]


@pytest.fixture
def why(client, until, pumice):
    """Submits a Job, waits for a verdict that holds the words, and gives back the lines of the explanation."""

    def ask(job, words):
        name = job["metadata"]["name"]
        uid = client("create", Job, job, namespace="default").json()["metadata"]["uid"]
        group = f"{name}-{uid}"
        until(Job, lambda job: job.get("status", {}).get("state", {}).get("phase") == "Pending", name=name)
        until(PodGroup, lambda group: any(words in reason for reason in reasons_of(group)), name=group)
        result = pumice("explain", f"job/{name}")
        assert (result.code, result.err) == (0, "")
        return [line.strip() for line in result.lines]

    return ask


def test_too_few_gpus_on_every_node(why):
    lines = why(a_job("big", replicas=3, resources={"cpu": "1", "nvidia.com/gpu": "5"}), "Insufficient nvidia.com/gpu")
    assert "Members:    3 pods: 0 run, 3 wait; 3 must start together" in lines
    assert "Asks for:   cpu 3, nvidia.com/gpu 15" in lines
    at = lines.index("2 of 2 nodes: Insufficient nvidia.com/gpu")
    assert lines[at + 1] == f"says resources; {EVICTION}"
    assert "2 of 3 such pods fit, on 2 nodes: cpu 1, nvidia.com/gpu 5" in lines
    assert "nvidia.com/gpu   15      0      0          16" in lines
    assert "1 pod: 0/2 nodes are unavailable: 2 Insufficient nvidia.com/gpu." in lines


def test_a_gang_that_could_never_run_here(why):
    lines = why(a_job("never", replicas=3, resources={"cpu": "1", "nvidia.com/gpu": "5"}), "can never run here")
    at = lines.index(
        "the whole gang: can never run here: 3 such pods must start together (cpu 1, nvidia.com/gpu 5 each), "
        "and the nodes that may take them hold 2 even when empty"
    )
    assert lines[at + 1] == f"says cluster; {CHANGE}"


def test_more_than_the_whole_cluster_has(why):
    lines = why(a_job("vast", resources={"nvidia.com/gpu": "99"}), "overused nvidia.com/gpu")
    at = lines.index("the whole gang: resource in cluster is overused: overused nvidia.com/gpu")
    assert lines[at + 1] == f"says overcommit; {TIME}"
    assert "nvidia.com/gpu   99      0      0          16" in lines


def test_no_node_has_the_label(why):
    words = "node(s) didn't match Pod's node affinity/selector"
    lines = why(a_job("picky", nodeSelector={"disk": "ssd"}), words)
    assert lines[lines.index(f"2 of 2 nodes: {words}") + 1] == f"says predicates; {CHANGE}"
    assert "all 1 such pods fit, on 2 nodes: cpu 1" in lines


def test_every_node_is_cordoned(why, client):
    for name in ("node-0", "node-1"):
        client("patch", Node, name, {"spec": {"unschedulable": True}})
    try:
        lines = why(a_job("shut"), "node(s) were unschedulable")
        assert lines[lines.index("2 of 2 nodes: node(s) were unschedulable") + 1] == f"says predicates; {CHANGE}"
        assert "0 of 1 such pods fit, on 0 nodes: cpu 1" in lines
    finally:
        for name in ("node-0", "node-1"):
            client("patch", Node, name, {"spec": {"unschedulable": None}})


def test_every_node_has_a_taint(why, client):
    taint = {"key": "team", "value": "a", "effect": "NoSchedule"}
    for name in ("node-0", "node-1"):
        client("patch", Node, name, {"spec": {"taints": [taint]}})
    try:
        lines = why(a_job("tainted"), "had untolerated taint")
        assert lines[lines.index("2 of 2 nodes: node(s) had untolerated taint(s)") + 1] == f"says predicates; {CHANGE}"
    finally:
        for name in ("node-0", "node-1"):
            client("patch", Node, name, {"spec": {"taints": None}})


def test_a_queue_whose_capability_is_too_small(why, client, until):
    body = {"metadata": {"name": "small"}, "spec": {"weight": 1, "capability": {"nvidia.com/gpu": "2"}}}
    client("create", Queue, {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", **body})
    until(Queue, lambda queue: queue.get("status", {}).get("state") == "Open", name="small", namespace="")
    lines = why(a_job("capped", replicas=3, queue="small", resources={"nvidia.com/gpu": "1"}), "quota insufficient")
    assert "Queue:      small (Open, weight 1, below root)" in lines
    assert "the whole gang: queue resource quota insufficient: insufficient nvidia.com/gpu" in lines
    assert "nvidia.com/gpu   3       0           0          -           -          2" in lines
    assert (
        "nvidia.com/gpu: 3 asked are more than the capability of 2: "
        "waiting does not help; ask for less, or raise the capability"
    ) in lines


def test_room_that_is_promised_to_a_gang_that_was_admitted_first(why):
    why(a_job("first", replicas=3, resources={"nvidia.com/gpu": "5"}), "Insufficient nvidia.com/gpu")
    lines = why(a_job("second", replicas=4, resources={"nvidia.com/gpu": "1"}), "quota insufficient")
    assert "nvidia.com/gpu   4       0      15         16" in lines
    assert lines[lines.index("the whole gang: queue resource quota insufficient: insufficient nvidia.com/gpu") + 1] == (
        f"says proportion; {TIME}"
    )


def test_pods_behind_a_scheduling_gate(client, pumice, until):
    client("create", Job, a_job("gated", schedulingGates=[{"name": "example.com/hold"}]), namespace="default")
    until(Pod, lambda pod: True, name="gated-w-0")
    result = pumice("explain", "pod/gated-w-0")
    assert result.lines[0] == ("Pod:        default/gated-w-0, Pending: held by its scheduling gates example.com/hold")
    assert (
        "Members:    1 pods: 0 run, 1 wait, 1 of them behind a scheduling gate; 1 must start together" in result.lines
    )
    assert "the whole gang: 1 of 1 pods are held by the scheduling gate example.com/hold" in result.out


def test_a_gang_whose_members_are_not_there_yet(client, pumice, until):
    body = {"metadata": {"name": "lonely"}, "spec": {"minMember": 4, "queue": "default"}}
    group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", **body}
    client("create", PodGroup, group, namespace="default")
    until(PodGroup, lambda group: group.get("status", {}).get("phase") == "Inqueue", name="lonely")
    result = pumice("explain", "pg/lonely")
    assert "Members:    0 pods: 0 run, 0 wait; 4 must start together" in result.lines
    assert f"  the whole gang: 0 of the 4 pods that must start together exist\n    says members; {TIME}\n" in result.out


def test_a_gang_that_runs_needs_no_reasons(client, pumice, until):
    client("create", Job, a_job("fine", replicas=2), namespace="default")
    until(Job, lambda job: job.get("status", {}).get("running") == 2, name="fine")
    result = pumice("explain", "job/fine")
    assert "Members:    2 pods: 2 run, 0 wait; 2 must start together" in result.lines
    assert "Why it waits" not in result.out


def test_what_cannot_be_explained_says_so(pumice):
    assert (pumice("explain", "node/x").code, pumice("explain", "job").code) == (2, 2)
    assert pumice("explain", "node/x").err == "pumice: 'node/x': expected job/NAME, pg/NAME or pod/NAME\n"
    assert pumice("explain", "pg/ghost").code == 3


def test_the_same_is_there_as_data(why, pumice):
    why(a_job("machine", resources={"cpu": "1"}, nodeSelector={"disk": "ssd"}), "affinity/selector")
    data = json.loads(pumice("explain", "job/machine", "-o", "json").out)
    assert data["reasons"] == [
        {
            "plugin": "cluster",
            "reason": "can never run here: 1 such pods must start together (cpu 1 each), "
            "and the nodes that may take them hold 0 even when empty",
            "nodes": 0,
            "cure": "change",
        },
        {
            "plugin": "predicates",
            "reason": "node(s) didn't match Pod's node affinity/selector",
            "nodes": 2,
            "cure": "change",
        },
    ]
    assert data["room"] == [{"each": "cpu 1", "waiting": 1, "fit": 64, "onNodes": 2}]


def test_nodes_counts_cards_and_the_largest_gang(client, pumice, until):
    client("create", Job, a_job("cards", replicas=3, resources={"nvidia.com/gpu": "1"}), namespace="default")
    until(Job, lambda job: job.get("status", {}).get("running") == 3, name="cards")
    assert pumice("nodes").out == (
        "NAME        STATUS   GPUS   USED   FREE   FRAGMENTED   PODS\n"
        "node-0      Ready    8      3      5      5            3\n"
        "node-1      Ready    8      0      8      0            0\n"
        "(2 nodes)            16     3      13     5            3\n"
        "\n"
        "Largest gang that fits now, by nvidia.com/gpu of each worker: 13 of 1, 6 of 2, 3 of 4, 1 of 8\n"
    )
    assert pumice("nodes", "--each", "nvidia.com/gpu=3").lines[-1] == (
        "Largest gang that fits now: 3 workers of nvidia.com/gpu 3"
    )


def test_a_user_of_one_namespace_sees_what_he_may(why, cluster, client, pumice, tmp_path):
    why(a_job("mine", replicas=3, resources={"nvidia.com/gpu": "5"}), "Insufficient nvidia.com/gpu")
    rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}
    group = {"apiGroup": "rbac.authorization.k8s.io"}
    binding = {
        "roleRef": {**group, "kind": "Role", "name": "reader"},
        "subjects": [{**group, "kind": "User", "name": "dev"}],
    }
    for kind, plural, body in (("Role", "roles", {"rules": [rule]}), ("RoleBinding", "rolebindings", binding)):
        whole = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": "reader"}, **body}
        where = f"/apis/rbac.authorization.k8s.io/v1/namespaces/default/{plural}"
        client("call", Request("POST", where, {}, {"content-type": "application/json"}, json.dumps(whole).encode()))
    config = cluster.kubeconfig.with_name("as-dev")
    config.write_text(cluster.kubeconfig.read_text().replace("client-key:", "as: dev\n    client-key:"))
    result = pumice("explain", "job/mine", "--kubeconfig", str(config))
    assert (result.code, result.err) == (
        0,
        "pumice: you may not list all pods, queues, podgroups, nodes: numbers that need them are missing or too small\n",
    )
    assert "Queue:      default (not visible to you)" in result.lines
    assert "Members:    3 pods: 0 run, 3 wait; 3 must start together" in result.lines
    assert "2 nodes: Insufficient nvidia.com/gpu" in result.out
    refused = pumice("nodes", "--kubeconfig", str(config))
    assert (refused.code, refused.out) == (4, "")

"""`pumice explain` and `pumice nodes` beside the causes themselves, which are in test_causes.py."""

import json

import pytest
from tests.integration.cli.causes import a_job, a_pod

from pumice.api.batch import Job
from pumice.api.core import Node
from pumice.api.pods import Pod
from pumice.api.scheduling import PodGroup
from pumice.kube.transport import Request
from pumice.processes.health import HealthServer

SHORT = {"resource": "cpu", "free": "0", "mostOnOneNode": "0"}


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


def test_pods_behind_a_scheduling_gate(client, pumice, until):
    client("create", Job, a_job("gated", schedulingGates=[{"name": "example.com/hold"}]), namespace="default")
    until(Pod, lambda pod: True, name="gated-w-0")
    result = pumice("explain", "pod/gated-w-0")
    assert result.lines[0] == ("Pod:        default/gated-w-0, Pending: held by its scheduling gates example.com/hold")
    assert "Members:    1 pod: 0 run, 1 wait, 1 of them behind a scheduling gate; 1 must start together" in result.lines
    assert "the whole gang: 1 of 1 pods are held by the scheduling gate example.com/hold" in result.out


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
            "code": "ExceedsNodes",
            "plugin": "cluster",
            "facts": {"amounts": [{"resource": "cpu", "wanted": "1"}], "wanted": 1, "free": 0},
            "reason": "can never run here: 1 such pods must start together (cpu 1 each), "
            "and the nodes that may take them hold 0 even when empty",
            "nodes": 0,
            "cure": "change",
        },
        {
            "code": "NodeAffinity",
            "plugin": "predicates",
            "facts": {},
            "reason": "node(s) didn't match Pod's node affinity/selector",
            "nodes": 2,
            "cure": "change",
        },
    ]
    assert data["room"] == [{"each": "cpu 1", "waiting": 1, "fit": 0, "nodes": 2, "mayTake": 0, "short": [SHORT]}]


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


def test_tainted_nodes_do_not_count_in_the_largest_gang(client, pumice):
    taint = {"key": "team", "value": "a", "effect": "NoSchedule"}
    client("patch", Node, "node-1", {"spec": {"taints": [taint]}})
    try:
        shown = pumice("nodes")
        assert shown.lines[2].split()[:5] == ["node-1", "Ready,Tainted", "8", "0", "8"]
        assert shown.lines[-2:] == [
            "Largest gang that fits now, by nvidia.com/gpu of each worker: 8 of 1, 4 of 2, 2 of 4, 1 of 8",
            "Not counted in it: 1 node (taint team=a:NoSchedule)",
        ]
        assert json.loads(pumice("nodes", "-o", "json").out)["leftOut"] == [
            {"nodes": 1, "because": "taint team=a:NoSchedule"}
        ]
    finally:
        client("patch", Node, "node-1", {"spec": {"taints": None}})


def test_a_pod_without_a_group_says_whose_it_is(client, pumice):
    body = a_pod("plain", "", schedulerName="somebody-else")
    del body["metadata"]["annotations"]
    client("create", Pod, body, namespace="default")
    try:
        assert pumice("explain", "pod/plain").out == (
            "Pod:         default/plain, Pending\n"
            "Scheduler:   somebody-else\n"
            "\n"
            "Why it waits:\n"
            "  it is in no PodGroup; Pumice has no part in it: `kubectl describe pod` shows what its own scheduler says\n"
        )
    finally:
        client("delete", Pod, "plain", namespace="default", grace_s=0)


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


@pytest.fixture
def leader(cluster, background):
    """The address at which the cluster's scheduler answers."""
    health = HealthServer(
        cluster.scheduler.pulse, cluster.scheduler.meters, client=cluster.client, explain=cluster.scheduler.explain
    )
    port = background.run(health.start("127.0.0.1:0"))
    yield f"http://127.0.0.1:{port}"
    background.run(health.stop())


@pytest.fixture
def with_token(cluster, client, tmp_path):
    """A kubeconfig whose user shows a service account's token and may do everything."""

    def post(where, body):
        request = Request("POST", where, {}, {"content-type": "application/json"}, json.dumps(body).encode())
        return json.loads(client("call", request).body)

    account = "/api/v1/namespaces/default/serviceaccounts"
    post(account, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "asker"}})
    group = "rbac.authorization.k8s.io"
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "asker"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": "asker"}],
    }
    post(f"/apis/{group}/v1/clusterrolebindings", binding)
    wanted = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = post(f"{account}/asker/token", wanted)["status"]["token"]
    authority = cluster.kubeconfig.with_name("ca.crt")
    path = tmp_path / "kubeconfig"
    path.write_text(
        json.dumps(
            {
                "clusters": [
                    {"name": "c", "cluster": {"server": cluster.url, "certificate-authority": str(authority)}}
                ],
                "users": [{"name": "u", "user": {"token": token}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )
    )
    yield str(path)
    for where in (f"{account}/asker", f"/apis/{group}/v1/clusterrolebindings/asker"):
        client("call", Request("DELETE", where))


def test_the_leading_scheduler_is_asked_for_the_numbers_of_this_moment(why, pumice, leader, with_token):
    why(a_job("now", replicas=3, resources={"nvidia.com/gpu": "5"}), "Insufficient nvidia.com/gpu")
    fresh = pumice("explain", "job/now", "--scheduler", leader, "--kubeconfig", with_token)
    assert (fresh.code, fresh.err) == (0, "")
    assert "Why it waits, as the scheduler says now:\n" in fresh.out
    assert "  2 of 2 nodes: Insufficient nvidia.com/gpu\n" in fresh.out


def test_a_scheduler_that_does_not_answer_is_told_and_its_last_words_are_shown(why, pumice, leader):
    why(a_job("then", replicas=3, resources={"nvidia.com/gpu": "5"}), "Insufficient nvidia.com/gpu")
    nobody = pumice("explain", "job/then", "--scheduler", leader)  # by a certificate, which it cannot see
    assert nobody.code == 0
    assert nobody.err.startswith(f"pumice: {leader} was asked and did not say why default/then-")
    assert ": send a bearer token of somebody who may get this PodGroup; the verdict in the PodGroup" in nobody.err
    assert "Why it waits, as the scheduler wrote " in nobody.out


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("127.0.0.1:8080", "expected an address such as http://127.0.0.1:8080"),
        ("http://scheduler.example", "your token would travel there for all to read; use `kubectl port-forward`"),
    ],
)
def test_a_token_is_not_sent_anywhere_in_the_clear(why, pumice, url, said):
    why(a_job("safe", nodeSelector={"disk": "ssd"}), "affinity/selector")
    refused = pumice("explain", "job/safe", "--scheduler", url)
    assert (refused.code, refused.out) == (2, "")
    assert said in refused.err

"""`pumice explain` and `pumice nodes` beside the causes themselves, which are in test_causes.py."""

import json

import pytest
from tests.integration.cli.causes import a_group, a_job, a_pod

from pumice.api import names
from pumice.api.batch import Job
from pumice.api.core import Node
from pumice.api.events import CoreEvent
from pumice.api.pods import Pod
from pumice.api.scheduling import PodGroup
from pumice.kube.transport import Request

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
    until(PodGroup, lambda group: any("scheduling gate" in reason for reason in reasons_of(group)))
    result = pumice("explain", "pod/gated-w-0")
    assert result.lines[0] == ("Pod:        default/gated-w-0, Pending: held by its scheduling gates example.com/hold")
    assert "Members:    1 pod: 0 run, 1 wait, 1 of them behind a scheduling gate" in result.lines
    assert "the whole gang: 1 of 1 pods are held by the scheduling gate example.com/hold" in result.out


def test_pods_that_name_another_scheduler_are_pointed_out(client, pumice, until):
    job = a_job("theirs", replicas=2)
    job["spec"]["schedulerName"] = "somebody-else"
    client("create", Job, job, namespace="default")
    until(Job, lambda job: job.get("status", {}).get("pending") == 2, name="theirs")
    result = pumice("explain", "job/theirs")
    assert "Pods that Pumice leaves alone:" in result.lines
    assert (
        "  2 pods of the group name the scheduler somebody-else; members of a gang need schedulerName: volcano or pumice"
    ) in result.lines
    data = json.loads(pumice("explain", "job/theirs", "-o", "json").out)
    assert data["podsOfOtherSchedulers"] == {"somebody-else": 2}


def test_why_a_job_makes_no_pods_stands_beside_its_gang(client, pumice, until):
    job = a_job("classless", priorityClassName="nowhere")
    client("create", Job, job, namespace="default")
    until(CoreEvent, lambda event: event["reason"] == "FailedCreate")
    assert "no PriorityClass with name nowhere was found" in pumice("explain", "job/classless").out


def test_a_gang_that_runs_needs_no_reasons(client, pumice, until):
    client("create", Job, a_job("fine", replicas=2), namespace="default")
    until(PodGroup, lambda group: group.get("status", {}).get("running") == 2)  # the scheduler has seen them run
    result = pumice("explain", "job/fine")
    assert "Members:    2 pods: 2 run, 0 wait; 2 must start together" in result.lines
    assert "Why it waits" not in result.out


def test_a_job_that_waits_for_nobody_says_so(client, pumice, until):
    over = a_job("over")
    over["spec"]["tasks"][0]["template"]["metadata"] = {"annotations": {names.PRETEND_RUN: "0s"}}
    client("create", Job, over, namespace="default")
    client("create", Job, a_job("held"), namespace="default")
    until(Job, lambda job: job.get("status", {}).get("running") == 1, name="held")
    assert pumice("job", "suspend", "held").code == 0
    for name, phase in (("over", "Completed"), ("held", "Aborted")):
        until(Job, lambda job, phase=phase: job.get("status", {}).get("state", {}).get("phase") == phase, name=name)
    said = pumice("explain", "over")
    assert (said.code, said.err) == (
        3,
        "pumice: job default/over is Completed: it is over; see `pumice job view over`\n",
    )
    said = pumice("explain", "held")
    assert (said.code, said.err) == (3, "pumice: job default/held is Aborted; `pumice job resume held` lets it go on\n")


def test_what_cannot_be_explained_says_so(pumice):
    assert (pumice("explain", "node/x").code, pumice("explain", "job").code) == (2, 2)
    assert pumice("explain", "node/x").err == "pumice: 'node/x': expected job/NAME, pg/NAME or pod/NAME\n"
    assert pumice("explain", "pg/ghost").code == 3


def test_the_same_is_there_as_data(why, pumice):
    why(a_job("machine", resources={"cpu": "1"}, nodeSelector={"disk": "ssd"}), "affinity/selector")
    data = json.loads(pumice("explain", "job/machine", "-o", "json").out)
    assert data["source"] == "leader"
    assert data["gang"]["reasons"] == [
        {
            "code": "ExceedsNodes",
            "plugin": "cluster",
            "facts": {"amounts": [{"resource": "cpu", "wanted": "1"}], "wanted": 1, "free": 0},
            "reason": "can never run here: no node could take such a pod (cpu 1), even when empty",
        },
        {
            "code": "NodeAffinity",
            "plugin": "predicates",
            "reason": "node(s) didn't match Pod's node affinity/selector",
            "nodes": 2,
        },
    ]
    assert data["room"] == [{"each": {"cpu": "1"}, "waiting": 1, "fit": 0, "nodes": 2, "mayTake": 0, "short": [SHORT]}]


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
        "13 nvidia.com/gpu free, 8 usable for workers of 8\n"
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
            "Not counted in it: 1 node (node(s) had untolerated taint(s))",
        ]
        assert json.loads(pumice("nodes", "-o", "json").out)["leftOut"] == [
            {"nodes": 1, "because": "node(s) had untolerated taint(s)"}
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
    config.write_text(cluster.kubeconfig.read_text().replace('"client-key":', '"as": "dev", "client-key":'))
    result = pumice("explain", "job/mine", "--kubeconfig", str(config))
    assert result.code == 0
    asked, listed = result.err.splitlines()
    assert asked.startswith("pumice: no leading scheduler answers (the lease of the leading scheduler cannot be read: ")
    assert listed.startswith("pumice: the cluster cannot be listed (")
    assert "Queue:      default (not visible to you)" in result.lines
    assert "Members:    3 pods: 0 run, 3 wait; 3 must start together" in result.lines
    assert "Why it waits, as the scheduler wrote " in result.out
    assert "2 nodes: Insufficient nvidia.com/gpu" in result.out
    refused = pumice("nodes", "--kubeconfig", str(config))
    assert (refused.code, refused.out) == (4, "")


LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/pumice-scheduler"


@pytest.fixture
def changed(client):
    """Merges into an object for the time of a test."""
    former = []

    def change(path, patch, back):
        send(path, patch)
        former.append((path, back))

    def send(path, patch):
        kind = {"content-type": "application/merge-patch+json"}
        client("call", Request("PATCH", path, {}, kind, json.dumps(patch).encode()))

    yield change
    for path, back in former:
        send(path, back)


def address_is(address):
    return {"metadata": {"annotations": {"pumice.dev/address": address}}}


@pytest.mark.parametrize(
    ("address", "cause"),
    [
        ("http://127.0.0.1:9", "http://127.0.0.1:9: http://127.0.0.1:9 gave no answer to "),
        ("http://192.0.2.1:8080", "http://192.0.2.1:8080: it is not on this machine, and no pod"),
        (None, "no lease pumice-scheduler tells of a leading scheduler"),
    ],
)
def test_without_a_leader_the_same_engine_plans_over_a_listing(why, pumice, cluster, changed, address, cause):
    why(a_job("alone", replicas=3, resources={"nvidia.com/gpu": "5"}), "Insufficient nvidia.com/gpu")
    asked = pumice("explain", "job/alone")
    changed(LEASE, address_is(address), address_is(f"http://127.0.0.1:{cluster.port}"))
    planned = pumice("explain", "job/alone")
    assert planned.code == 0
    assert planned.err.startswith(f"pumice: no leading scheduler answers ({cause}")
    assert planned.err.endswith("pumice: one cycle was planned over a listing, with the built-in policy\n")
    assert "Why it waits, as one cycle over a listing finds:\n" in planned.out

    def told(text):
        return [line for line in text.partition("\n\nEvents:")[0].splitlines() if not line.startswith(("Phase", "Why"))]

    assert told(planned.out) == told(asked.out)


def test_another_policy_is_tried_without_asking_the_scheduler(why, pumice, tmp_path):
    why(a_job("other", replicas=2, resources={"nvidia.com/gpu": "9"}), "can never run here")
    policy = tmp_path / "policy.yaml"
    policy.write_text('actions: "enqueue, allocate"\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n')
    result = pumice("explain", "job/other", "--policy", str(policy))
    assert (result.code, result.err) == (0, "")
    assert "Why it waits, as one cycle over a listing finds:\n" in result.out
    assert "says overcommit" not in result.out


def test_an_account_that_may_see_nothing_is_shown_nothing(why, pumice, client, cluster):
    """The command asks as the viewer's account: what that may not see, the leader does not tell."""
    why(a_job("secret", nodeSelector={"disk": "ssd"}), "affinity/selector")
    binding = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/pumice-viewer"
    former = json.loads(client("call", Request("GET", binding)).body)
    client("call", Request("DELETE", binding))
    try:
        refused = pumice("explain", "job/secret")
    finally:
        del former["metadata"]["resourceVersion"], former["metadata"]["uid"]
        kind = {"content-type": "application/json"}
        client("call", Request("POST", binding.rpartition("/")[0], {}, kind, json.dumps(former).encode()))
    assert "system:serviceaccount:kube-system:pumice-viewer may not get podgroups secret-" in refused.err
    assert "Why it waits, as one cycle over a listing finds:\n" in refused.out


def test_members_that_wait_beside_a_gang_that_runs_are_explained(client, pumice, until):
    job = a_job("elastic", replicas=3, minimum=2, resources={"nvidia.com/gpu": "8"})
    client("create", Job, job, namespace="default")
    until(PodGroup, lambda group: group.get("status", {}).get("running") == 2)  # the scheduler has seen them run
    until(
        Pod,
        lambda pod: any(each["type"] == "PodScheduled" for each in pod["status"].get("conditions", ())),
        name="elastic-w-2",
    )
    result = pumice("explain", "job/elastic")
    assert (result.code, result.err) == (0, "")
    assert "Members:    3 pods: 2 run, 1 wait; 2 must start together" in result.lines
    assert "Why it waits, as the scheduler says now:\n" in result.out
    assert "nvidia.com/gpu" in result.out.partition("Why it waits")[2].partition("\n\n")[0]
    assert "  nvidia.com/gpu 8 each: 0 of 1 pod would fit; 2 of 2 nodes may take them\n" in result.out


@pytest.fixture
def wedged(client, until, emptied):
    """One node is full, and a gang wants both: whole nodes of 8 GPUs, two of them."""
    eight = {"nvidia.com/gpu": "8"}
    client("create", Job, a_job("runs", resources=eight), namespace="default")
    until(Job, lambda job: job.get("status", {}).get("running") == 1, name="runs")
    client("create", PodGroup, a_group("wide", 2), namespace="default")
    for number in range(2):
        client("create", Pod, a_pod(f"wide-{number}", "wide", eight), namespace="default")
    until(PodGroup, reasons_of, name="wide")
    yield
    for number in range(2):  # nobody else deletes pods that the test has made
        client("delete", Pod, f"wide-{number}", namespace="default")


def test_single_changes_that_would_start_a_gang_are_named_and_left_out_on_request(wedged, pumice):
    lines = [line.strip() for line in pumice("explain", "pg/wide").lines]
    begin = next(number for number, line in enumerate(lines) if line.startswith("What would start it"))
    assert lines[begin + 1 : begin + 3] == [
        "with 1 members that must start together instead of 2",
        "with 4 nvidia.com/gpu a pod instead of 8",
    ]
    assert "when default/runs has ended" in lines
    assert "with 1 more node like node-0" in lines
    data = json.loads(pumice("explain", "pg/wide", "-o", "json").out)
    assert [each["kind"] for each in data["suggestions"]][:3] == ["minimum", "resource", "gangEnds"]
    assert data["plansTried"] > len(data["suggestions"])
    assert "What would start it" not in pumice("explain", "pg/wide", "--quick").out


def test_what_if_says_who_would_start_wait_or_leave_in_a_different_cluster(wedged, pumice):
    more = pumice("what-if", "--add-nodes", "1", "--like", "node-0")
    assert (more.code, more.err) == (0, "")
    assert more.lines[0] == "would start: 2 pods of default/wide"
    assert "would go on waiting" not in more.out
    assert more.lines[-1].startswith("some running gangs have no estimate of their end")
    [wide] = [line.split() for line in more.lines if line.startswith("default/wide")]
    assert wide[-2:] == ["now", "now"]
    assert "would start: 2 pods of default/wide" in pumice("what-if", "--without", "runs").out
    drained = json.loads(pumice("what-if", "--drain", "node-0", "--drain", "node-1", "-o", "json").out)
    assert [starts for gang, starts in drained["displaced"].items()] == [False]
    [runs] = drained["displaced"]
    assert drained["forecasts"][runs] == {
        "before": None,
        "after": {"p50": None, "p90": None, "ahead": 0, "withoutEstimate": 0, "complete": True},
    }


def test_what_if_refuses_what_is_not_there_or_says_nothing(wedged, pumice):
    assert pumice("what-if").err == (
        "pumice: nothing is different: give --add-nodes, --drain, --queue, --without or --policy\n"
    )
    assert pumice("what-if", "--add-nodes", "2").code == 2
    assert pumice("what-if", "--queue", "default.colour=3").code == 2
    for words in (("--drain", "node-9"), ("--without", "ghost"), ("--policy", "nowhere.yaml", "--drain", "node-0")):
        assert pumice("what-if", *words).code == 3, words

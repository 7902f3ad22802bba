"""`pumice top` and what queues have left: from the leader, from a listing, for users of one namespace, and live on a terminal."""

import contextlib
import json

import pytest
from tests.integration.cli.causes import GPU, a_job
from tests.integration.cli.terminals import CTRL_C, HIDE_CURSOR, SHOW_CURSOR, terminal

from pumice.api.batch import Job
from pumice.api.scheduling import Queue
from pumice.errors import NotFound
from pumice.kube.transport import Request
from pumice.yamltext import load_all

LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
CAPACITY = "actions: allocate\ntiers: [{plugins: [{name: gang}, {name: predicates}, {name: capacity}]}]\n"
NO_SHARES = "actions: allocate\ntiers: [{plugins: [{name: gang}, {name: predicates}]}]\n"


@pytest.fixture
def send(client):
    def call(verb, path, body=None, kind="application/json"):
        data = json.dumps(body).encode() if body is not None else b""
        return client("call", Request(verb, path, {}, {"content-type": kind}, data)).body

    return call


@pytest.fixture
def team(client, send, until, emptied):
    """A queue and a namespace `team`, and a Job of 3 GPUs in each of the namespaces team and default."""
    send("POST", "/api/v1/namespaces", {"metadata": {"name": "team"}})
    spec = {"weight": 3, "deserved": {GPU: "6"}, "capability": {GPU: "8"}}
    client("create", Queue, {"metadata": {"name": "team"}, "spec": spec})
    until(Queue, lambda queue: queue.get("status", {}).get("state") == "Open", name="team", namespace="")
    for namespace, queue in (("team", "team"), ("default", "default")):
        job = a_job(f"{namespace}-job", replicas=3, queue=queue, resources={GPU: "1"})
        client("create", Job, job, namespace=namespace)
        until(Job, lambda job: job.get("status", {}).get("running") == 3, name=f"{namespace}-job", namespace=namespace)
    yield
    client("delete", Job, "team-job", namespace="team")
    until_no_jobs = lambda queue: queue["status"]["state"] == "Closed" and not queue["status"].get("running")  # noqa: E731
    client("patch", Queue, "team", {"status": {"state": "Closed"}}, subresource="status")
    until(Queue, until_no_jobs, name="team", namespace="")
    client("delete", Queue, "team")
    send("DELETE", "/api/v1/namespaces/team")


def rows(text, head):
    """The table that begins with a head, as name -> cells."""
    lines = text[text.index(head) :].partition("\n\n")[0].splitlines()
    heads = lines[0].split()
    return {line.split()[0]: dict(zip(heads, line.split(), strict=False)) for line in lines[1:]}


def test_who_uses_what_is_told_by_queue_user_and_job(pumice, team):
    shown = pumice("top")
    assert (shown.code, shown.err) == (0, "")
    assert shown.lines[0] == "nvidia.com/gpu: 6 of 16 used, 10 free, as the scheduler says now"
    queue = rows(shown.out, "QUEUE")["team"]
    assert [queue[name] for name in ("HELD", "SHARE", "DESERVED", "LIMIT", "LEFT")] == ["3", "19%", "8", "8", "5"]
    assert set(rows(shown.out, "USER")) == {"default", "team"}
    assert rows(shown.out, "JOB")["team-job"]["QUEUE"] == "team"
    data = json.loads(pumice("top", "-o", "json").out)
    assert (data["source"], [job["name"] for job in data["jobs"]]) == ("leader", ["default-job", "team-job"])
    assert sum(user["held"] for user in data["users"]) == data["used"] == 6
    assert "jobs" not in json.loads(pumice("top", "--by", "queue", "-o", "json").out)
    assert pumice("top", "--resource", "tpu").code == 3


@pytest.mark.parametrize(("policy", "cells"), [(CAPACITY, ["6", "8", "5"]), (NO_SHARES, ["-", "-", "10"])])
def test_another_policy_gives_other_shares(pumice, team, tmp_path, policy, cells):
    file = tmp_path / "policy.yaml"
    file.write_text(policy)
    shown = pumice("top", "--policy", str(file), "--by", "queue")
    assert (shown.code, shown.err) == (0, "")
    assert shown.lines[0].endswith(f"as one cycle over a listing finds, by {file}")
    queue = rows(shown.out, "QUEUE")["team"]
    assert [queue[name] for name in ("DESERVED", "LIMIT", "LEFT")] == cells


def test_listed_queues_have_what_the_scheduler_knows_of_them_also_as_data(pumice, team):
    [team_queue] = [
        each
        for each in json.loads(pumice("queue", "list", "-o", "json").out)["items"]
        if each["metadata"]["name"] == "team"
    ]
    share = team_queue["share"]
    assert (share["used"][GPU], share["deserved"][GPU], share["limit"][GPU], share["left"][GPU]) == ("3", "8", "8", "5")
    assert pumice("queue", "get", "team", "-o", "jsonpath={.share.left['nvidia.com/gpu']}").out == "5"
    shown = pumice("queue", "view", "team").out
    assert rows(shown, "RESOURCE")[GPU] == {
        "RESOURCE": GPU, "GUARANTEE": "-", "CAPABILITY": "8", "USED": "3", "DESERVED": "8", "BORROWED": "-",
        "LIMIT": "8", "LEFT": "5",
    }  # fmt: skip


def test_a_queue_is_made_and_changed_with_everything_that_sharing_needs(pumice, client, until):
    made = pumice(
        "queue", "create", "lab", "--guarantee", f"{GPU}=1", "--deserved", f"{GPU}=2,cpu=4", "--capability", f"{GPU}=4"
    )
    assert (made.code, made.out) == (0, "queue.scheduling.volcano.sh/lab created\n")
    assert made.err == (
        "pumice: queue lab: deserved has no effect under the policy in force (built-in policy): plugin proportion shares by weight; "
        "set the weight, or give the scheduler a policy with plugin capacity\n"
    )
    try:
        assert pumice("queue", "view", "lab").err == made.err
        assert (
            pumice("queue", "set", "lab", "--deserved", f"{GPU}=3,cpu-", "--not-reclaimable", "-w", "2").err == made.err
        )
        assert pumice("queue", "set", "lab", "--capability", f"{GPU}=4").err == ""
        spec = client("get", Queue, "lab").json()["spec"]
        assert spec["guarantee"] == {"resource": {GPU: "1"}}
        assert (spec["deserved"], spec["capability"]) == ({GPU: "3"}, {GPU: "4"})
        assert (spec["weight"], spec["reclaimable"]) == (2, False)
        for flags, said in (
            ((), "nothing to change; give --weight"),
            (("--deserved", f"{GPU}=5"), "deserved should less equal than capability, which is 4; lower deserved"),
            (("--guarantee", f"{GPU}=4"), "guarantee should less equal than deserved"),
            (("--parent", "lab"), "a queue cannot be its own parent"),
        ):
            refused = pumice("queue", "set", "lab", *flags)
            assert (refused.code, refused.out, said in refused.err) == (2, "", True), refused.err
        missing = pumice("queue", "set", "lab", "--parent", "ghost")
        assert (missing.code, 'spec.parent: "ghost": no such queue' in missing.err) == (4, True)
    finally:
        until(Queue, lambda queue: queue.get("status", {}).get("state") == "Open", name="lab", namespace="")
        pumice("queue", "operate", "lab", "-a", "close")
        until(Queue, lambda queue: queue["status"]["state"] == "Closed", name="lab", namespace="")
        assert pumice("queue", "delete", "lab").code == 0


# ------------------------------------------------------------------------------------------------- who may see what


@pytest.fixture
def narrow(cluster, send, team):
    """A kubeconfig whose user is in the namespace team, where the viewer's account may see that namespace alone."""
    rule = {"apiGroups": ["scheduling.volcano.sh"], "resources": ["podgroups"], "verbs": ["get", "list"]}
    subject = {"kind": "ServiceAccount", "namespace": "team", "name": "pumice-viewer"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "see"}
    send("POST", "/api/v1/namespaces/team/serviceaccounts", {"metadata": {"name": "pumice-viewer"}})
    send("POST", f"{RBAC}/namespaces/team/roles", {"metadata": {"name": "see"}, "rules": [rule]})
    binding = {"metadata": {"name": "see"}, "roleRef": role, "subjects": [subject]}
    send("POST", f"{RBAC}/namespaces/team/rolebindings", binding)
    config = cluster.kubeconfig.with_name("in-team")
    [written] = load_all(cluster.kubeconfig.read_bytes(), source="kubeconfig")
    written["contexts"][0]["context"]["namespace"] = "team"
    config.write_text(json.dumps(written))
    return str(config)


def test_who_may_see_one_namespace_sees_its_jobs_and_sums_of_the_rest(pumice, narrow):
    shown = pumice("top", "--kubeconfig", narrow, "-o", "json")
    assert (shown.code, shown.err) == (0, "")
    data = json.loads(shown.out)
    assert (data["source"], data["namespace"]) == ("leader", "team")
    assert [job["gang"].partition("/")[0] for job in data["jobs"]] == ["team"]
    assert [user["name"] for user in data["users"]] == ["team"]
    assert data["others"]["gangs"] == 3  # and not whose they are
    assert {each["name"]: each["held"] for each in data["queues"]}["default"] == 3
    assert "default-job" not in shown.out
    assert "(others, not in team)   3" in pumice("top", "--kubeconfig", narrow, "--by", "user").out


# ------------------------------------------------------------------------------------------------- where the leader is


@pytest.fixture
def moved(cluster, send):
    """The lease under another name, with or without the label; the usual one tells nothing."""
    usual = f"{LEASE}/pumice-scheduler"
    address = f"http://127.0.0.1:{cluster.port}"

    def tell(where):
        patch = {"metadata": {"annotations": {"pumice.dev/address": where}}}
        send("PATCH", usual, patch, "application/merge-patch+json")

    def move(labels):
        tell(None)
        metadata = {"name": "special", "annotations": {"pumice.dev/address": address}, "labels": labels}
        send("POST", LEASE, {"metadata": metadata, "spec": {"holderIdentity": "x"}})

    yield move
    tell(address)
    with contextlib.suppress(NotFound):
        send("DELETE", f"{LEASE}/special")


def source(shown):
    return json.loads(shown.out)["source"], bool(shown.err)


def test_a_leader_with_another_lease_is_found_by_its_label(pumice, moved):
    moved({"pumice.dev/view": "scheduler"})
    assert source(pumice("top", "-o", "json")) == ("leader", False)


def test_a_lease_without_the_label_can_be_named(pumice, moved, monkeypatch):
    moved({})
    listed = pumice("top", "-o", "json")
    assert source(listed) == ("listing", True)
    assert (
        "no lease pumice-scheduler tells of a leading scheduler; one of another name is found with PUMICE_LEASE=NAME"
        in (listed.err)
    )
    assert listed.err.endswith("pumice: one cycle was planned over a listing, with the built-in policy\n")
    monkeypatch.setenv("PUMICE_LEASE", "special")
    assert source(pumice("top", "-o", "json")) == ("leader", False)


# ------------------------------------------------------------------------------------------------- live


def test_on_a_terminal_it_is_redrawn_until_ctrl_c_and_leaves_it_as_it_was(cluster, emptied):
    with terminal("top", "-w", KUBECONFIG=str(cluster.kubeconfig)) as seen:
        seen.until("as the scheduler says now")
        before = seen.shown.count("\x1b[H\x1b[J")
        while seen.shown.count("\x1b[H\x1b[J") == before:
            seen.until_more()
        seen.press(CTRL_C)
        assert seen.end() == 130
    assert "Traceback" not in seen.plain
    assert HIDE_CURSOR in seen.shown
    assert seen.shown.rindex(SHOW_CURSOR) > seen.shown.rindex(HIDE_CURSOR)

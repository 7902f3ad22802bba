"""`pumice migrate check` over dumps: what is found, how bad it is, and where it is explained."""

import json
import re
from pathlib import Path

import pytest

from pumice.cli import main, migration
from pumice.cli.migration import Severity, findings

ROOT = Path(__file__).parents[3]
VOLCANOS_POLICY = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
"""


def policy(text):
    data = {"volcano-scheduler.conf": text}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "volcano-scheduler-configmap", "namespace": "volcano-system"},
        "data": data,
    }


def volcano(kind, name="x", *, group="batch", version="v1alpha1", **fields):
    metadata = {"name": name, "namespace": "team"}
    return {"apiVersion": f"{group}.volcano.sh/{version}", "kind": kind, "metadata": metadata, **fields}


def job(name="train", **spec):
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    task = {"name": "worker", "replicas": 2, "template": template}
    return volcano("Job", name, spec={"minAvailable": 2, "schedulerName": "volcano", "tasks": [task], **spec})


def scheduler(*flags):
    container = {
        "image": "volcanosh/vc-scheduler:v1.15.0",
        "args": ["--scheduler-conf=/volcano.scheduler/x.conf", *flags],
    }
    spec = {"replicas": 0, "template": {"spec": {"containers": [container]}}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "volcano-scheduler"}, "spec": spec}


def found(*objects):
    return [(each.severity.value, each.what, each.section) for each in findings(objects, {})]


def test_volcanos_own_default_installation_with_plain_jobs_breaks_nowhere():
    queue = volcano(
        "Queue", "default", group="scheduling", version="v1beta1", spec={"weight": 1}, status={"state": "Open"}
    )
    assert found(policy(VOLCANOS_POLICY), queue, job(), scheduler()) == []


CASES = {
    "a misspelt plugin": (policy(VOLCANOS_POLICY.replace("gang\n", "gnag\n")), "breaks", "gnag", "policy-file"),
    "an action with better manners": (
        policy(VOLCANOS_POLICY.replace("allocate,", "allocate, preempt,")),
        "differs",
        "preempt spares victims",
        "preemption-and-reclaim",
    ),
    "a plugin with other arithmetic": (
        policy(VOLCANOS_POLICY.replace("proportion", "capacity")),
        "differs",
        "capacity refuses single branches",
        "queues",
    ),
    "plugins in Go": (scheduler("--plugins-dir=/plugins"), "breaks", "--plugins-dir=/plugins: plugins are Python", ""),
    "another scheduler name": (scheduler("--scheduler-name=batch"), "breaks", "serves 'batch'", ""),
    "shards": (scheduler("--scheduler-sharding-mode=hard"), "breaks", "there are no shards", ""),
    "a scheduler that still runs": (
        {**scheduler(), "spec": {**scheduler()["spec"], "replicas": 1}},
        "hint",
        "scale it to 0 first",
        "",
    ),
    "discovery from UFM": (
        {
            **policy(""),
            "data": {"volcano-controller.conf": "networkTopologyDiscovery:\n- {source: ufm, enabled: true}\n"},
        },
        "breaks",
        "ufm",
        "other-controllers",
    ),
    "a delayed action": (
        job(policies=[{"event": "PodFailed", "action": "RestartJob", "timeout": "5m"}]),
        "differs",
        "delayed actions survive",
        "jobs",
    ),
    "an eviction policy": (
        job(policies=[{"event": "PodEvicted", "action": "RestartJob"}]),
        "differs",
        "scaling down no longer raises PodEvicted",
        "jobs",
    ),
    "a job that admission refuses": (
        job(plugins={"horovod": []}),
        "differs",
        "would be refused if it were submitted again: spec.plugins",
        "admission",
    ),
    "a cron job without a time zone": (
        volcano("CronJob", spec={"schedule": "0 3 * * *", "jobTemplate": {"spec": job()["spec"]}}),
        "differs",
        "runs by UTC",
        "other-controllers",
    ),
    "a flow with a patch": (
        volcano("JobFlow", group="flow", spec={"flows": [{"name": "a", "patch": {"jobSpec": {"queue": "q"}}}]}),
        "differs",
        "its patches work",
        "other-controllers",
    ),
    "a group without its queue": (
        (
            volcano("Queue", "default", group="scheduling", version="v1beta1", spec={}),
            volcano("PodGroup", group="scheduling", version="v1beta1", spec={"queue": "gone"}),
        ),
        "differs",
        "'gone' does not exist",
        "gangs",
    ),
    "a queue without its parent": (
        volcano("Queue", "a", group="scheduling", version="v1beta1", spec={"parent": "gone"}),
        "differs",
        "only this branch is refused",
        "queues",
    ),
    "an unknown tier": (
        (
            volcano("HyperNode", "s0", group="topology", spec={"tier": 1, "tierName": "rack", "members": []}),
            volcano(
                "PodGroup", group="scheduling", version="v1beta1", spec={"networkTopology": {"highestTierName": "rak"}}
            ),
        ),
        "differs",
        "'rak'",
        "topology-numa-and-devices",
    ),
    "shards of nodes": (volcano("NodeShard", group="shard", spec={}), "breaks", "nobody reads", ""),
    "colocation": (volcano("ColocationConfiguration", group="config", spec={}), "breaks", "nobody reads", ""),
    "an agent": (
        {
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": "volcano-agent"},
            "spec": {"template": {"spec": {"containers": [{"image": "volcanosh/vc-agent:v1.15.0"}]}}},
        },
        "breaks",
        "no counterpart",
        "",
    ),
    "admission that would refuse everything": (
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": "volcano-admission-service-jobs-validate"},
            "webhooks": [
                {"name": "validatejob.volcano.sh", "clientConfig": {"service": {"namespace": "volcano-system"}}}
            ],
        },
        "breaks",
        "refuses everything",
        "",
    ),
    "a pod with the other annotation": (
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": "team", "annotations": {"scheduling.volcano.sh/group-name": "g"}},
        },
        "differs",
        "is a member of the group",
        "gangs",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_different_is_found(name):
    objects, severity, words, section = CASES[name]
    objects = objects if isinstance(objects, tuple) else (objects,)
    matching = [each for each in found(*objects) if words in each[1]]
    assert [(each[0], each[2]) for each in matching] == [(severity, section)], found(*objects)


def test_budgets_are_told_of_where_somebody_evicts():
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b", "namespace": "team"}}
    evicting = policy(VOLCANOS_POLICY.replace("allocate,", "allocate, reclaim,"))
    assert any("1 PodDisruptionBudgets are asked" in what for _, what, _ in found(evicting, budget))
    assert found(policy(VOLCANOS_POLICY), budget) == []


def test_jobs_of_kubernetes_are_nobodys_business():
    plain = {**job(plugins={"horovod": []}), "apiVersion": "batch/v1"}
    assert found(plain) == []


def test_the_worst_comes_first():
    objects = (
        job(policies=[{"event": "Unknown", "action": "RestartJob"}]),
        scheduler("--plugins-dir=/p", "--schedule-period=5s"),
    )
    severities = [each[0] for each in found(*objects)]
    assert severities == sorted(severities, key=[each.value for each in Severity].index)
    assert severities[0] == "breaks"


def test_every_link_leads_to_a_section():
    text = (ROOT / migration.DOCUMENT).read_text()
    heads = {
        re.sub(r"[^a-z0-9 -]", "", line[3:].lower()).replace(" ", "-")
        for line in re.findall(r"^## .*$", text, re.MULTILINE)
    }
    sections = {section for _, section in migration.IN_USE.values()} | {each[3] for each in CASES.values()}
    assert sections - {""} <= heads


@pytest.mark.parametrize(
    ("objects", "flags", "code"),
    [
        ([policy(VOLCANOS_POLICY)], [], 0),
        ([policy(VOLCANOS_POLICY.replace("proportion", "capacity"))], [], 0),
        ([policy(VOLCANOS_POLICY.replace("proportion", "capacity"))], ["--strict"], 1),
        ([scheduler("--plugins-dir=/p")], [], 1),
    ],
)
def test_the_exit_code_says_whether_somebody_has_to_act(tmp_path, capsys, objects, flags, code):
    for number, each in enumerate(objects):
        (tmp_path / f"{number}.json").write_text(json.dumps(each))
    assert main.run(["migrate", "check", "-f", str(tmp_path), *flags]) == code
    out = capsys.readouterr().out
    assert "Nothing in 1 objects" in out or "SEVERITY" in out


def test_the_findings_are_data_as_well(tmp_path, capsys):
    file = tmp_path / "dump.json"
    file.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": [scheduler("--plugins-dir=/p"), job()]}))
    assert main.run(["migrate", "check", "-f", str(file), "-o", "json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["objects"] == 2
    (finding,) = data["findings"]
    assert finding["severity"] == "breaks"
    assert finding["subject"] == "Deployment volcano-scheduler"

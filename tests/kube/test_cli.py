"""The command line against the real API server: what it sends is accepted, what it shows is what kubectl shows."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from tests.bodies.patience import PATIENCE_S
from tests.integration.cli.causes import a_group, a_pod
from tests.integration.cli.terminals import CTRL_C, terminal

from pumice import yamltext
from pumice.cli import crds as crds_command
from pumice.cli import main

OURS = "pumice-cli-test"  # a scheduler that looks at nobody else's pods


@pytest.fixture
def pumice(plane, crds, namespace, monkeypatch, capsys):
    """Runs the command line in the test's namespace; without controllers, so objects stay as they are made."""
    monkeypatch.setenv("KUBECONFIG", str(plane.kubeconfig))

    def run(*arguments):
        capsys.readouterr()
        code = main.run(list(arguments))
        written = capsys.readouterr()
        return int(code), written.out, written.err

    return run


def test_a_job_is_made_listed_scaled_suspended_and_deleted(pumice, kubectl, namespace):
    there = ("-n", namespace)
    assert pumice("job", "run", "train", "-r", "2", "-R", "cpu=1,nvidia.com/gpu=1", *there) == (
        0,
        "job.batch.volcano.sh/train created\n",
        "",
    )
    assert pumice("job", "list", "-o", "name", *there)[1] == kubectl("get", "vcjob", "-o", "name").stdout
    assert pumice("job", "scale", "train", "-r", "5", *there)[0] == 0
    template = "jsonpath={.spec.tasks[0].replicas} {.metadata.name}"
    shown = kubectl("get", "vcjob", "train", "-o", template).stdout
    assert pumice("job", "view", "train", "-o", template, *there)[1] == shown == "5 train"
    assert pumice("job", "suspend", "-N", "train", *there)[0] == 0
    [command] = json.loads(kubectl("get", "commands.bus.volcano.sh", "-o", "json").stdout)["items"]
    assert (command["action"], command["target"]["name"]) == ("AbortJob", "train")
    assert command["metadata"]["name"].startswith("train-abortjob-")
    assert pumice("job", "delete", "train", *there)[0] == 0
    assert pumice("job", "view", "train", *there)[0] == 3


def test_the_whole_object_is_what_kubectl_prints(pumice, kubectl, namespace):
    pumice("job", "run", "same", "-n", namespace)
    ours = json.loads(pumice("job", "list", "-o", "json", "-n", namespace)[1])
    assert ours == json.loads(kubectl("get", "vcjob", "-o", "json").stdout)


def test_queues_are_made_and_deleted(pumice, namespace):
    name = f"q-{namespace}"[:50].rstrip("-")
    assert pumice("queue", "create", "-n", name, "-w", "4")[:2] == (0, f"queue.scheduling.volcano.sh/{name} created\n")
    assert pumice("queue", "operate", name, "-a", "update", "-w", "6")[0] == 0
    row = pumice("queue", "get", name, "--no-headers")[1].split()
    assert row[:4] == [name, "6", "<none>", "<none>"]  # nobody here opens it or sets a parent
    assert pumice("queue", "create", name)[0] == 5
    assert pumice("queue", "delete", name)[0] == 0


def test_what_the_schema_refuses_is_a_usage_error(pumice, namespace, tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text(
        "{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, metadata: {name: x}, spec: {minAvailable: many}}"
    )
    code, out, err = pumice("job", "run", "-f", str(file), "-n", namespace)
    assert (code, out) == (2, "")
    assert "spec.minAvailable" in err


def test_nodes_and_versions_are_the_servers(pumice, plane):
    code, out, _ = pumice("nodes", "-o", "json")
    listed = {node["metadata"]["name"] for node in plane.request("GET", "/api/v1/nodes").body["items"]}
    assert (code, {node["name"] for node in json.loads(out)["nodes"]}) == (0, listed)
    server = plane.request("GET", "/version").body["gitVersion"]
    assert pumice("version")[1].splitlines()[1] == f"API server:   {server}"


def test_a_suspended_job_is_resumed_and_one_without_pods_has_no_logs(pumice, kubectl, namespace):
    there = ("-n", namespace)
    pumice("job", "run", "train", *there)
    assert pumice("job", "resume", "train", *there)[:2] == (0, "job.batch.volcano.sh/train resuming\n")
    [command] = json.loads(kubectl("get", "commands.bus.volcano.sh", "-o", "json").stdout)["items"]
    assert command["action"] == "ResumeJob"
    code, out, err = pumice("job", "logs", "train", *there)
    assert (code, out) == (3, "")
    assert err == f"pumice: job {namespace}/train has no pods yet; `pumice explain job/train` says what it waits for\n"
    assert pumice("job", "delete", "train", "--wait", "--timeout", "60s", *there)[0] == 0
    assert kubectl("get", "vcjob", "-o", "name").stdout == ""


def test_jobs_are_watched_until_ctrl_c(pumice, plane, namespace):
    pumice("job", "run", "first", "-n", namespace)
    with terminal("job", "list", "-w", "-n", namespace, "-o", "name", KUBECONFIG=str(plane.kubeconfig)) as seen:
        seen.until("job.batch.volcano.sh/first")
        pumice("job", "run", "second", "-n", namespace)
        seen.until("job.batch.volcano.sh/second")
        seen.press(CTRL_C)
        assert seen.end() == 130


def test_a_wait_for_a_job_that_does_not_end_is_code_5(pumice, namespace):
    code, out, err = pumice("job", "run", "endless", "--wait", "--timeout", "200ms", "-n", namespace)
    assert (code, out) == (5, "")
    assert "not over within 0.2 s" in err


def test_a_queue_is_listed_closed_and_opened_by_commands(pumice, plane, namespace):
    name = f"o-{namespace}"[:50].rstrip("-")
    pumice("queue", "create", name, "--capability", "nvidia.com/gpu=4")
    assert f"queue.scheduling.volcano.sh/{name}" in pumice("queue", "list", "-o", "name")[1].splitlines()
    for action in ("close", "open"):
        assert pumice("queue", "operate", "-n", name, "-a", action)[0] == 0
    made = json.loads(plane.kubectl("-n", "default", "get", "commands.bus.volcano.sh", "-o", "json").stdout)["items"]
    actions = {each["action"] for each in made if each["target"]["name"] == name}
    assert actions == {"CloseQueue", "OpenQueue"}
    assert pumice("queue", "delete", "-n", name)[0] == 0


FLOWS = """\
apiVersion: flow.volcano.sh/v1alpha1
kind: {kind}
metadata: {{name: one}}
spec: {spec}
"""
SPECS = {
    "jobflow": ("JobFlow", "{flows: [{name: step}], jobRetainPolicy: retain}"),
    "jobtemplate": (
        "JobTemplate",
        "{minAvailable: 1, tasks: [{name: w, replicas: 1, template: {spec: {containers: [{name: c, image: i}]}}}]}",
    ),
}


@pytest.mark.parametrize("word", SPECS)
def test_flows_and_templates_are_made_listed_shown_described_and_deleted(pumice, kubectl, namespace, tmp_path, word):
    kind, spec = SPECS[word]
    file, there = tmp_path / "one.yaml", ("-n", namespace)
    file.write_text(FLOWS.format(kind=kind, spec=spec))
    assert pumice(word, "create", "-f", str(file), *there)[:2] == (0, f"{word}.flow.volcano.sh/one created\n")
    assert pumice(word, "list", "-o", "name", *there)[1] == kubectl("get", word, "-o", "name").stdout
    assert pumice(word, "get", "one", "--no-headers", *there)[1].split()[0] == "one"
    described = yaml.safe_load(pumice(word, "describe", "one", *there)[1])
    assert described == yaml.safe_load(kubectl("get", word, "one", "-o", "yaml").stdout)
    assert pumice(word, "delete", "one", *there)[:2] == (0, f"{word}.flow.volcano.sh/one deleted\n")


def test_pods_of_jobs_are_listed_as_kubectl_lists_them(pumice, kubectl, namespace):
    pod = a_pod("train-w-0", "train", schedulerName=OURS)
    pod["metadata"]["labels"] = {"volcano.sh/job-name": "train"}
    kubectl("create", "-f", "-", input=json.dumps(pod))
    listed = pumice("pod", "list", "-j", "train", "-n", namespace)[1].splitlines()
    assert [line.split()[:4] for line in listed] == [
        ["NAME", "READY", "STATUS", "RESTARTS"],
        ["train-w-0", "0/1", "Pending", "0"],
    ]


@contextlib.contextmanager
def a_scheduler(plane, namespace, listen, **environment):
    """`pumice scheduler` for pods that name it, its lease in the namespace; the port at which it answers."""
    command = [sys.executable, "-m", "pumice.cli", "scheduler", "--kubeconfig", str(plane.kubeconfig)]
    command += ["--lease-namespace", namespace, "--scheduler-name", OURS, "--listen", listen]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, **environment}
    ) as running:
        try:
            port = next(event["port"] for event in _events(running.stdout) if event["event"] == "listening")
            next(event for event in _events(running.stdout) if event["event"] == "scheduler_started")
            yield port
        finally:
            running.terminate()
            running.communicate()


def _events(lines):
    for line in lines:
        with contextlib.suppress(ValueError):
            yield json.loads(line)


@pytest.fixture
def waiting(kubectl, namespace):
    """The account that the leader is asked as, and a gang for which no node has the label."""
    kubectl("create", "serviceaccount", "pumice-viewer")
    subject = f"--serviceaccount={namespace}:pumice-viewer"
    kubectl("create", "rolebinding", "pumice-viewer", "--clusterrole=cluster-admin", subject)
    kubectl("create", "-f", "-", input=json.dumps(a_group("train", 2)))
    for number in range(2):
        pod = a_pod(f"train-{number}", "train", schedulerName=OURS, nodeSelector={"disk": "none-has-this"})
        kubectl("create", "-f", "-", input=json.dumps(pod))


def told_now(pumice, namespace):
    """All that is said of the gang, once the leader has looked at its pods."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        code, out, err = pumice("explain", "pg/train", "-n", namespace)
        if "affinity/selector" in out or time.monotonic() > deadline:
            assert (code, err) == (0, "")
            return out


SAID = (
    "Members:    2 pods: 0 run, 2 wait; 2 must start together\n",
    "Why it waits, as the scheduler says now:\n",
    "nodes: node(s) didn't match Pod's node affinity/selector\n",
    "  cpu 1 each: 0 of 2 pods would fit; 0 of ",
)


def test_explain_asks_the_leader_with_a_kubeconfig_alone(pumice, namespace, plane, waiting):
    with a_scheduler(plane, namespace, "127.0.0.1:0"):
        out = told_now(pumice, namespace)
        assert all(words in out for words in SAID)
    code, out, err = pumice("explain", "pg/train", "-n", namespace)
    assert code == 0
    assert "pumice: no leading scheduler answers (http://127.0.0.1:" in err
    assert "Why it waits, as one cycle over a listing finds:\n" in out


def own_address():
    """An address of this machine that is not its loopback, to which an API server would not proxy; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("203.0.113.1", 9))
        except OSError:
            pytest.skip("this machine has no address but its loopback")
        return probe.getsockname()[0]


def test_explain_asks_a_leader_in_a_pod_through_the_api_server(pumice, kubectl, namespace, plane, waiting):
    """The real server's pod proxy keeps the user's credentials, and passes our token's header on."""
    pod = a_pod("scheduler-0", "", schedulerName="somebody-else", nodeName="node-0")
    kubectl("create", "-f", "-", input=json.dumps(pod))
    address = own_address()
    status = {"status": {"podIP": address, "podIPs": [{"ip": address}]}}
    kubectl("patch", "pod", "scheduler-0", "--subresource=status", "--type=merge", "-p", json.dumps(status))
    pod = {"KUBE_POD_NAMESPACE": namespace, "KUBE_POD_NAME": "scheduler-0"}
    with a_scheduler(plane, namespace, "0.0.0.0:0", **pod) as port:
        written = "jsonpath={.items[*].metadata.annotations.pumice\\.dev/address}"
        where = kubectl("get", "leases", "-o", written).stdout
        assert where == f"pods/{namespace}/scheduler-0:{port}"
        out = told_now(pumice, namespace)
        assert all(words in out for words in SAID)


def test_a_cycle_over_what_kubectl_dumped_is_planned_offline(pumice, kubectl, namespace, tmp_path):
    kubectl("create", "-f", "-", input=json.dumps(a_group("off", 1)))
    kubectl("create", "-f", "-", input=json.dumps(a_pod("off-0", "off")))
    dump = tmp_path / "dump.json"
    dump.write_text(kubectl("get", "nodes,podgroups,pods", "-o", "json").stdout)
    queue = tmp_path / "queue.yaml"
    queue.write_text("{apiVersion: scheduling.volcano.sh/v1beta1, kind: Queue, metadata: {name: default}}")
    code, out, _ = pumice("schedule", "-f", str(dump), "-f", str(queue), "-o", "json")
    assert code == 0
    assert list(json.loads(out)["binds"]) == [f"{namespace}/off-0"]


def test_the_crds_that_it_prints_are_those_that_the_server_has(pumice, plane):
    printed = pumice("crds")[1]
    assert printed == crds_command.manifests()
    names = {each["metadata"]["name"] for each in yamltext.load_all(printed.encode(), source="crds")}
    assert names <= set(plane.kubectl("get", "crd", "-o", "jsonpath={.items[*].metadata.name}").stdout.split())


def test_kubectl_finds_its_plugin_and_completes_it(pumice, binaries, namespace, monkeypatch, tmp_path):
    pumice("job", "run", "train", "-n", namespace)
    assert pumice("install-aliases", "--dir", str(tmp_path))[0] == 0
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{tmp_path}", prepend=":")

    def run(*words):
        return subprocess.run([binaries / "kubectl", *words], capture_output=True, text=True, check=True).stdout

    assert run("pumice", "job", "list", "-n", namespace, "-o", "name") == "job.batch.volcano.sh/train\n"
    assert run("__complete", "pumice", "job", "susp").splitlines()[:2] == ["suspend", ":4"]

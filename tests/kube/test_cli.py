"""The command line against the real API server: what it sends is accepted, what it shows is what kubectl shows."""

import json

import pytest

from pumice.cli import main


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

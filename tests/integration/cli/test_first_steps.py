"""What a new user meets in the first hour: every question is answered, and none in silence."""

import re

import pytest
from tests.integration.cli.causes import GPU, a_group, a_job, a_pod

from pumice.api.batch import Job
from pumice.api.events import CoreEvent
from pumice.api.pods import Pod
from pumice.api.scheduling import PodGroup


@pytest.fixture
def train(pumice, until):
    """A running Job of three pods, two of which must start together."""
    assert pumice("job", "run", "train", "-r", "3", "-m", "2", "-R", "cpu=1").code == 0
    until(Job, lambda job: job.get("status", {}).get("running") == 3, name="train")


def an_event(pod, reason, message):
    """What a kubelet records about a pod."""
    about = {"kind": "Pod", "namespace": "default", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
    now = pod["metadata"]["creationTimestamp"]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": "event-", "namespace": "default"},
        "involvedObject": about,
        "reason": reason,
        "message": message,
        "type": "Normal",
        "source": {"component": "kubelet"},
        "firstTimestamp": now,
        "lastTimestamp": now,
    }


def events(pumice, job):
    """The rows below Events: of a view, without the head."""
    head, *rows = pumice("job", "view", job).out.partition("Events:\n")[2].splitlines()
    assert head.split() == ["TYPE", "REASON", "AGE", "OBJECT", "FROM", "MESSAGE"]
    return [re.split(r"\s{2,}", line.strip()) for line in rows]


def test_a_view_has_what_was_said_of_the_jobs_pods_each_thing_once(pumice, client, train):
    for number in range(3):
        pod = client("get", Pod, f"train-default0-{number}", namespace="default").json()
        for reason, message in (
            ("Pulled", f"Image of default/train-default0-{number} is there"),
            ("Ready", f"{number}"),
        ):
            client("create", CoreEvent, an_event(pod, reason, message), namespace="default")
    told = [(each[1], each[3], each[-1]) for each in events(pumice, "train")]
    assert [each[:2] for each in told if each[0] == "Pulled"] == [("Pulled", "3 pods")]
    assert ("Ready", "pod/train-default0-1", "1") in told


def test_a_view_has_what_was_said_of_the_jobs_group(pumice, client, until):
    client("create", Job, a_job("wide", replicas=20, minimum=17, resources={GPU: "1"}), namespace="default")
    until(CoreEvent, lambda event: event["reason"] == "Unschedulable" and "17 of 16" in event["message"])
    assert any(each[3].startswith("podgroup/wide-") for each in events(pumice, "wide"))


def test_what_was_said_of_an_earlier_job_of_the_name_is_not_the_new_ones(pumice, client, train, until):
    pod = client("get", Pod, "train-default0-0", namespace="default").json()
    pod["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z"
    client("create", CoreEvent, an_event(pod, "Killing", "by an earlier Job"), namespace="default")
    assert "by an earlier Job" not in pumice("job", "view", "train").out


def test_logs_of_pretend_pods_are_a_line_that_says_so(pumice, train):
    shown = pumice("job", "logs", "train", "--index", "0")
    assert (shown.code, "is a pretend node" in shown.out) == (0, True)


def test_asks_for_counts_all_pods_where_more_than_the_minimum_are_wanted(pumice, client, until):
    assert pumice("job", "run", "filler", "-r", "2", "-m", "2", "-R", f"{GPU}=7").code == 0
    until(Job, lambda job: job.get("status", {}).get("running") == 2, name="filler")
    client("create", PodGroup, a_group("wide", 3, minResources={GPU: "3"}), namespace="default")
    for number in range(6):
        client("create", Pod, a_pod(f"wide-{number}", "wide", {GPU: "1"}), namespace="default")
    shown = pumice("explain", "pg/wide").out
    for number in range(6):
        client("delete", Pod, f"wide-{number}", namespace="default")
    assert re.search(r"Asks for: +nvidia.com/gpu 3 to start, nvidia.com/gpu 6 for all its pods\n", shown), shown


def test_a_resource_that_no_node_has_is_not_found(pumice):
    asked = pumice("nodes", "--resource", "nvidia.com/gpuu")
    assert asked.code == 3
    assert asked.err.startswith("pumice: --resource nvidia.com/gpuu: no node has any; the nodes have cpu, ")
    assert "nvidia.com/gpu" in asked.err


def test_a_schedule_of_no_objects_says_what_it_wants(pumice, tmp_path):
    empty = tmp_path / "empty.yaml"
    empty.write_text("# nothing\n")
    asked = pumice("schedule", "-f", str(empty))
    assert (asked.code, asked.out) == (2, "")
    assert f"{empty}: no objects; give what `kubectl get nodes,pods," in asked.err
    alone = tmp_path / "node.yaml"
    alone.write_text("{apiVersion: v1, kind: Node, metadata: {name: alone}}")
    asked = pumice("schedule", "-f", str(alone))
    assert (asked.code, asked.out) == (0, "")
    assert "nothing to decide" in asked.err

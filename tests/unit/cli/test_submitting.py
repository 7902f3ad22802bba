"""Jobs from flags and Commands, compared with what vcctl writes."""

import pytest

from pumice.api import names
from pumice.api.batch import Job
from pumice.api.kinds import by_struct
from pumice.cli import describe, logs, submitting
from pumice.cli import job as job_commands
from pumice.cli.submitting import Shape
from pumice.errors import BadInput, NotFound, PumiceError
from pumice.instant import parse_instant
from pumice.kube import commands

NOW = parse_instant("2026-11-15T12:00:00Z")


def test_flags_make_the_job_that_vcctl_makes():
    shape = Shape("busybox", 3, 2, "cpu=1000m,memory=100Mi", "cpu=2", "sh -c 'sleep 5'")
    assert submitting.job_of("train", shape, scheduler="volcano") == {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {
            "schedulerName": "volcano",
            "minAvailable": 2,
            "tasks": [
                {
                    "replicas": 3,
                    "template": {
                        "metadata": {"labels": {"job.volcano.sh": "train"}},
                        "spec": {
                            "restartPolicy": "Never",
                            "containers": [
                                {
                                    "name": "train",
                                    "image": "busybox",
                                    "imagePullPolicy": "IfNotPresent",
                                    "command": ["sh", "-c", "sleep 5"],
                                    "resources": {
                                        "requests": {"cpu": "1000m", "memory": "100Mi"},
                                        "limits": {"cpu": "2"},
                                    },
                                }
                            ],
                        },
                    },
                }
            ],
        },
    }


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("cpu", "--requests 'cpu': expected NAME=AMOUNT, such as cpu=1000m or nvidia.com/gpu=1"),
        ("=1", "--requests '=1': expected NAME=AMOUNT"),
        ("cpu=lots", "--requests 'cpu=lots': "),
    ],
)
def test_resources_that_cannot_be_right_are_named(text, cause):
    with pytest.raises(BadInput) as raised:
        submitting.resources(text, "--requests")
    assert str(raised.value).startswith(cause)


def test_a_time_limit_stands_on_the_job_beside_what_its_file_says():
    job = {"metadata": {"name": "train", "annotations": {names.TIME_LIMIT: "1h", "mine": "1"}}}
    wanted = submitting.with_times(job, limit="2h", warning="2m")
    assert wanted["metadata"] == {
        "name": "train",
        "annotations": {"mine": "1", names.TIME_LIMIT: "2h", names.TIME_LIMIT_WARNING: "2m"},
    }
    assert submitting.with_times(job, limit=None, warning=None) == job


@pytest.mark.parametrize(
    ("limit", "warning", "cause"),
    [
        ("2", None, "--time-limit '2': duration '2': a unit is missing; write for example 90s"),
        ("", None, "--time-limit '': duration '': empty"),
        ("-2h", None, "--time-limit '-2h': duration '-2h': must be longer than 0"),
        ("2h", "2h", "--time-limit-warning '2h': a warning 2h0m0s before the end comes too early"),
        ("9999999h", None, "longer than 292 years"),
        (None, "2m", "--time-limit-warning '2m': there is no time limit to warn of"),
    ],
)
def test_a_time_that_cannot_be_right_is_named(limit, warning, cause):
    with pytest.raises(BadInput) as caught:
        submitting.with_times({"metadata": {"name": "train"}}, limit=limit, warning=warning)
    assert cause in str(caught.value)


def test_a_command_is_owned_by_its_target_and_named_after_it():
    job = {"metadata": {"name": "train", "namespace": "ml", "uid": "u1"}}
    reference = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "name": "train",
        "uid": "u1",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    assert commands.command_for(by_struct(Job), job, "AbortJob", namespace="ml") == {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {"generateName": "train-abortjob-", "namespace": "ml", "ownerReferences": [reference]},
        "target": reference,
        "action": "AbortJob",
    }


TWO_TASKS = {
    "metadata": {"name": "train"},
    "spec": {"minAvailable": 2, "tasks": [{"name": "ps", "replicas": 1}, {"name": "worker", "replicas": 2}]},
}


def test_scaling_changes_one_task_and_the_minimum_only_if_told():
    assert submitting.scale_job(TWO_TASKS, 5, task="worker", minimum=None)["spec"] == {
        "minAvailable": 2,
        "tasks": [{"name": "ps", "replicas": 1}, {"name": "worker", "replicas": 5}],
    }
    assert submitting.scale_job(TWO_TASKS, 5, task="ps", minimum=7)["spec"]["minAvailable"] == 7
    assert TWO_TASKS["spec"]["tasks"][1]["replicas"] == 2


def test_scaling_down_takes_minimums_along_that_were_all_of_the_replicas():
    task = {"name": "worker", "replicas": 3, "minAvailable": 3}
    job = {"metadata": {"name": "train"}, "spec": {"minAvailable": 3, "tasks": [task]}}
    assert submitting.scale_job(job, 2, task="", minimum=None)["spec"] == {
        "minAvailable": 2,
        "tasks": [{"name": "worker", "replicas": 2, "minAvailable": 2}],
    }


def test_scaling_needs_to_know_which_task():
    with pytest.raises(BadInput, match=r"job train has several tasks \(ps, worker\); name one with --task"):
        submitting.scale_job(TWO_TASKS, 5, task="", minimum=None)
    with pytest.raises(NotFound, match=r"job train has no task 'x'; its tasks: ps, worker"):
        submitting.scale_job(TWO_TASKS, 5, task="x", minimum=None)


def test_a_file_with_something_else_is_refused(tmp_path):
    file = tmp_path / "pod.yaml"
    file.write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: x}\n")
    with pytest.raises(BadInput, match=r"expected a Job of batch\.volcano\.sh/v1alpha1; correct apiVersion and kind"):
        submitting.read_job(str(file))
    file.write_text("a: 1\n---\nb: 2\n")
    with pytest.raises(BadInput, match="2 objects, expected one Job; use `kubectl apply -f` for several"):
        submitting.read_job(str(file))
    with pytest.raises(NotFound, match="no such file; check the name"):
        submitting.read_job(str(tmp_path / "ghost.yaml"))


def a_pod(name, task, index):
    return {"metadata": {"name": name, "labels": {"volcano.sh/task-spec": task, "volcano.sh/task-index": str(index)}}}


def test_pods_whose_logs_are_read_come_by_task_and_number():
    pods = [a_pod("w-10", "worker", 10), a_pod("w-9", "worker", 9), a_pod("ps-0", "ps", 0)]
    assert logs.chosen_pods(pods) == ["ps-0", "w-9", "w-10"]
    assert logs.chosen_pods(pods, task="worker") == ["w-9", "w-10"]
    assert logs.chosen_pods(pods, task="worker", index=10) == ["w-10"]


@pytest.mark.parametrize("action", ["RestartJob", "AbortJob", "ResumeJob"])
def test_a_job_that_nobody_has_looked_at_yet_is_not_over(action):
    job_commands._check_effect({"metadata": {"name": "train"}}, action)
    with pytest.raises(PumiceError, match="job train is Failed"):
        job_commands._check_effect({"metadata": {"name": "train"}, "status": {"state": {"phase": "Failed"}}}, action)


def test_a_file_without_a_job_is_said_to_be_empty(tmp_path):
    (tmp_path / "empty.yaml").write_text("\n")
    with pytest.raises(BadInput, match="there is nothing in it"):
        submitting.read_job(str(tmp_path / "empty.yaml"))


def test_a_job_with_a_time_limit_is_described_with_it():
    job = {"metadata": {"name": "train", "annotations": {names.TIME_LIMIT: "2h", names.TIME_LIMIT_WARNING: "5m"}}}
    assert "Time limit:       2h, told 5m before\n" in describe.job_text(job, [], NOW)


@pytest.mark.parametrize(("status", "word"), [({}, "Starts:"), ({"version": 1}, "Starts again:")])
def test_a_job_that_waits_is_described_with_its_start(status, word):
    job = {"metadata": {"name": "train"}, "status": status}
    shown = describe.job_text(job, [], NOW, starts="14:32Z (in 25m)")
    assert [line.split(maxsplit=word.count(" ") + 1)[-1] for line in shown.splitlines() if line.startswith(word)] == [
        "14:32Z (in 25m)"
    ]


def test_a_job_is_described_with_its_tasks_conditions_and_events():
    job = {
        "metadata": {
            "name": "train",
            "namespace": "ml",
            "creationTimestamp": "2026-11-15T11:50:00Z",
            "labels": {"team": "a"},
        },
        "spec": {
            "minAvailable": 2,
            "maxRetry": 3,
            "schedulerName": "volcano",
            "plugins": {"svc": [], "env": []},
            "tasks": [{"name": "worker", "replicas": 4, "minAvailable": 2}],
        },
        "status": {
            "state": {"phase": "Running"},
            "taskStatusCount": {"worker": {"phase": {"Running": 2}}},
            "conditions": [{"status": "Running", "lastTransitionTime": "2026-11-15T11:55:00Z"}],
        },
    }
    event = {
        "metadata": {"name": "e"},
        "type": "Normal",
        "reason": "Started",
        "message": "all members run",
        "lastTimestamp": "2026-11-15T11:58:00Z",
        "source": {"component": "pumice"},
    }
    assert describe.job_text(job, [event], NOW) == (
        "Name:             train\n"
        "Namespace:        ml\n"
        "Labels:           team=a\n"
        "Created:          2026-11-15T11:50:00Z (10m ago)\n"
        "Queue:            default\n"
        "Scheduler:        volcano\n"
        "Priority class:   <none>\n"
        "Min available:    2 of 4\n"
        "Max retry:        3\n"
        "Plugins:          env, svc\n"
        "Phase:            Running\n"
        "Reason:           <none>\n"
        "Retries:          0\n"
        "\n"
        "Tasks:\n"
        "  NAME     REPLICAS   MIN   PENDING   RUNNING   SUCCEEDED   FAILED   UNKNOWN\n"
        "  worker   4          2     0         2         0           0        0\n"
        "\n"
        "Conditions:\n"
        "  PHASE     AGE\n"
        "  Running   5m\n"
        "\n"
        "Events:\n"
        "  TYPE     REASON    AGE   FROM     MESSAGE\n"
        "  Normal   Started   2m    pumice   all members run"
    )

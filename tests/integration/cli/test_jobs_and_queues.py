"""The daily commands against a whole embedded cluster, over HTTP."""

import re
import signal
import subprocess
import sys

import pytest
from tests.bodies.patience import PATIENCE_S

from pumice.api.batch import Job
from pumice.api.scheduling import PodGroup, Queue


def ageless(text):
    """The text with ages as AGE and days as DAY."""
    text = re.sub(r"\d{4}-\d\d-\d\d\b", "DAY", text)
    return re.sub(r"\b\d+s$", "AGO", text, flags=re.MULTILINE)


def phase_is(phase):
    return lambda job: job.get("status", {}).get("state", {}).get("phase") == phase


@pytest.fixture
def train(pumice, until):
    """A running Job of three one-GPU pods."""
    made = pumice("job", "run", "train", "-r", "3", "-m", "2", "-R", "cpu=1,nvidia.com/gpu=1")
    assert (made.code, made.out) == (0, "job.batch.volcano.sh/train created\n")
    until(Job, lambda job: job.get("status", {}).get("running") == 3, name="train")


def test_an_empty_list_says_so_on_stderr_only(pumice):
    result = pumice("job", "list")
    assert (result.code, result.out, result.err) == (0, "", "No resources found in default namespace.\n")


def test_job_list_has_vcctls_columns_and_an_age(pumice, train):
    assert ageless(pumice("job", "list").out) == (
        "NAME    CREATION     PHASE     JOBTYPE   REPLICAS   MIN   PENDING   RUNNING   SUCCEEDED   FAILED   UNKNOWN   RETRYCOUNT   AGE\n"
        "train   DAY   Running   Batch     3          2     0         3         0           0        0         0            AGO\n"
    )
    assert pumice("job", "list", "-o", "name").out == "job.batch.volcano.sh/train\n"
    assert pumice("job", "list", "-A", "-o", "jsonpath={.items[*].metadata.namespace}").out == "default"
    assert pumice("job", "list", "-A", "--no-headers").lines[0].startswith("default   train")


def test_a_job_with_a_time_limit_ends_by_it_and_says_so(pumice, until):
    made = pumice("job", "run", "short", "-r", "2", "-m", "2", "--time-limit", "1s")
    assert made.code == 0
    job = until(Job, phase_is("Terminated"), name="short")
    assert job["status"]["state"]["reason"] == "TimeLimitExceeded"
    assert "TimeLimitExceeded" in pumice("job", "view", "short").out


def test_a_time_limit_that_makes_no_sense_is_refused_before_anybody_is_asked(pumice):
    result = pumice("job", "run", "short", "--time-limit", "1h", "--time-limit-warning", "90m")
    assert (result.code, result.out) == (2, "")
    assert "--time-limit-warning '90m': a warning 1h30m0s before the end comes too early" in result.err


def test_job_list_chooses_by_queue_and_scheduler(pumice, train):
    assert pumice("job", "list", "-q", "default", "-S", "volcano", "-o", "name").out != ""
    for option in (("-q", "other"), ("-S", "other")):
        assert pumice("job", "list", *option, "-o", "name").out == ""


def test_a_job_that_is_not_there_is_exit_code_3(pumice):
    for command in ("view", "suspend", "resume", "delete", "logs"):
        result = pumice("job", command, "ghost")
        assert (result.code, result.out) == (3, "")
        assert 'jobs.batch.volcano.sh "ghost" not found' in result.err


def test_suspend_and_resume_work_through_commands_as_vcctls_do(pumice, train, until):
    assert pumice("job", "suspend", "-N", "train", "-n", "default").out == "job.batch.volcano.sh/train suspending\n"
    until(Job, phase_is("Aborted"), name="train")
    assert pumice("job", "resume", "train").out == "job.batch.volcano.sh/train resuming\n"
    until(Job, phase_is("Running"), name="train")


def test_a_scaled_job_gets_its_pods(pumice, train, until):
    assert pumice("job", "scale", "train", "-r", "4").out == "job.batch.volcano.sh/train scaled\n"
    until(Job, lambda job: job["status"].get("running") == 4, name="train")
    assert len(pumice("pod", "list", "-j", "train", "--no-headers").lines) == 4
    refused = pumice("job", "scale", "train", "-r", "1", "-t", "ghost")
    assert (refused.code, refused.err) == (3, "pumice: job train has no task 'ghost'; its tasks: default0\n")


def test_what_admission_refuses_is_exit_code_4_and_nothing_is_made(pumice):
    result = pumice("job", "run", "wrong", "-r", "1", "-m", "5")
    assert (result.code, result.out) == (4, "")
    assert "spec.minAvailable: 5: " in result.err
    assert pumice("job", "view", "wrong").code == 3


def test_a_dry_run_makes_nothing(pumice):
    assert pumice("job", "run", "dry", "--dry-run").out == "job.batch.volcano.sh/dry created (dry run)\n"
    assert pumice("job", "view", "dry").code == 3


def test_a_job_of_a_file_lands_in_the_namespace_that_was_asked_for(pumice, tmp_path):
    file = tmp_path / "job.yaml"
    file.write_text(
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: filed, namespace: kube-system}\n"
        "spec: {minAvailable: 1, tasks: [{replicas: 1, template: {spec: {containers: [{name: c, image: i}]}}}]}\n"
    )
    assert (
        pumice("job", "run", "-f", str(file), "--dry-run", "-o", "jsonpath={.metadata.namespace}").out == "kube-system"
    )
    made = pumice("job", "run", "-f", str(file), "-n", "default", "--dry-run", "-o", "jsonpath={.metadata.namespace}")
    assert made.out == "default"


def test_a_misspelt_field_of_a_file_is_refused_as_kubectl_does(pumice, tmp_path):
    """A minimum that nobody reads would start the gang by half."""
    file = tmp_path / "job.yaml"
    file.write_text(
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: typo}\n"
        "spec: {minAvailabel: 8, tasks: [{replicas: 8, template: {spec: {containers: [{name: c, image: i}]}}}]}\n"
    )
    refused = pumice("job", "run", "-f", str(file))
    assert (refused.code, refused.out) == (2, "")
    assert 'strict decoding error: unknown field "spec.minAvailabel"' in refused.err
    assert pumice("job", "view", "typo").code == 3


def test_pods_are_listed_by_job_and_queue(pumice, train):
    listed = pumice("pod", "list", "-j", "train", "-q", "default")
    assert [line.split()[:4] for line in listed.lines] == [
        ["NAME", "READY", "STATUS", "RESTARTS"],
        *(["train-default0-" + str(number), "1/1", "Running", "0"] for number in range(3)),
    ]
    wrong = pumice("pod", "list", "-j", "train", "-q", "other")
    assert wrong.code == 2
    assert wrong.err == "pumice: job default/train is in queue 'default', not in 'other'; drop one of the options\n"


def test_queues_are_made_weighed_closed_opened_and_deleted(pumice, until):
    assert pumice("queue", "create", "-n", "team", "-w", "3").out == "queue.scheduling.volcano.sh/team created\n"
    until(Queue, lambda queue: queue.get("status", {}).get("state") == "Open", name="team", namespace="")
    assert ageless(pumice("queue", "get", "-n", "team").out) == (
        "NAME   WEIGHT   STATE   PARENT   RESOURCE         USED   DESERVED   LIMIT   LEFT   INQUEUE   PENDING   RUNNING   AGE\n"
        "team   3        Open    root     nvidia.com/gpu   0      16         16      16     0         0         0         AGO\n"
    )
    assert pumice("queue", "operate", "-n", "team", "-a", "update", "-w", "5").code == 0
    assert pumice("queue", "get", "team", "-o", "jsonpath={.spec.weight}").out == "5"
    assert pumice("queue", "operate", "team", "-a", "close").out == "queue.scheduling.volcano.sh/team closing\n"
    until(Queue, lambda queue: queue["status"]["state"] == "Closed", name="team", namespace="")
    assert pumice("queue", "operate", "team", "-a", "open").out == "queue.scheduling.volcano.sh/team opening\n"
    until(Queue, lambda queue: queue["status"]["state"] == "Open", name="team", namespace="")
    pumice("queue", "operate", "team", "-a", "close")
    until(Queue, lambda queue: queue["status"]["state"] == "Closed", name="team", namespace="")
    assert pumice("queue", "delete", "team").out == "queue.scheduling.volcano.sh/team deleted\n"


def test_a_queue_that_is_deleted_under_gangs_that_wait_says_so(pumice, until):
    assert pumice("queue", "create", "left").code == 0
    until(Queue, lambda queue: queue.get("status", {}).get("state") == "Open", name="left", namespace="")
    assert pumice("job", "run", "waits", "--queue", "left", "--gpus", "99").code == 0
    until(PodGroup, lambda group: group["metadata"]["name"].startswith("waits-"))
    gone = pumice("queue", "delete", "left")
    assert (gone.code, gone.out) == (0, "queue.scheduling.volcano.sh/left deleted\n")
    assert "queue left: 1 gang of it still waits, and will until there is a queue of that name" in gone.err


def test_a_queue_row_counts_the_groups_in_it(pumice, train, until):
    until(
        PodGroup, lambda group: group.get("status", {}).get("phase") == "Running"
    )  # which is said after its pods have started
    [row] = pumice("queue", "get", "default", "--no-headers", "--resource", "cpu", "-o", "wide").lines
    cells = row.split()
    assert cells[:6] == ["default", "1", "Open", "root", "cpu", "3"]
    assert cells[9:12] + cells[13:15] == ["0", "0", "1", "0", "0"]


def test_templates_are_made_listed_described_and_deleted(pumice, tmp_path):
    file = tmp_path / "templates.yaml"
    file.write_text(
        "".join(
            f"---\napiVersion: flow.volcano.sh/v1alpha1\nkind: JobTemplate\nmetadata: {{name: {name}}}\n"
            "spec: {minAvailable: 1, tasks: [{name: a, replicas: 1, template: {spec: {containers: [{name: c, image: i}]}}}]}\n"
            for name in ("first", "second")
        )
    )
    assert pumice("jobtemplate", "create", "-f", str(file)).out == (
        "jobtemplate.flow.volcano.sh/first created\njobtemplate.flow.volcano.sh/second created\n"
    )
    assert pumice("jobtemplate", "list", "-o", "name").lines == [
        "jobtemplate.flow.volcano.sh/first",
        "jobtemplate.flow.volcano.sh/second",
    ]
    described = pumice("jobtemplate", "describe", "-N", "first").out
    assert described.startswith("apiVersion: flow.volcano.sh/v1alpha1\nkind: JobTemplate\nmetadata:\n  name: first\n")
    assert pumice("jobtemplate", "delete", "first").code == 0
    assert pumice("jobtemplate", "delete", "second").code == 0
    assert pumice("jobflow", "list").err == "No resources found in default namespace.\n"


def test_a_wrong_form_is_refused_before_anything_is_made(pumice):
    result = pumice("job", "run", "unmade", "-o", "xml")
    assert (result.code, result.err) == (
        2,
        "pumice: -o xml: no such form; take table, wide, json, yaml, name or jsonpath=TEMPLATE\n",
    )
    assert pumice("job", "view", "unmade").code == 3


def test_a_server_that_is_not_there_is_exit_code_1(pumice):
    result = pumice("job", "list", "--master", "https://127.0.0.1:1")
    assert (result.code, result.out) == (1, "")
    assert "127.0.0.1:1" in result.err


def test_a_watch_prints_what_changes_and_ends_with_130(pumice, cluster, train):
    # What is started in the background inherits that Ctrl-C is ignored; a user's shell in the foreground does not do that.
    program = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from pumice.cli.main import main; main()"
    command = [sys.executable, "-u", "-c", program, "job", "list", "-w", "-o", "name"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watching:
        try:
            assert watching.stdout.readline() == "job.batch.volcano.sh/train\n"
            pumice("job", "run", "later")
            assert "job.batch.volcano.sh/later\n" in watching.stdout
            watching.send_signal(signal.SIGINT)
            assert watching.wait(timeout=PATIENCE_S) == 130
        finally:
            watching.kill()


def test_a_deleted_job_is_gone(pumice, train):
    assert pumice("job", "delete", "train").out == "job.batch.volcano.sh/train deleted\n"
    assert pumice("job", "view", "train").code == 3

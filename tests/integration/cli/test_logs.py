"""Logs of real processes: a node of this machine joins the cluster, and a Job's pods write on it."""

import subprocess
import sys

import pytest

from pumice.api.batch import Job
from pumice.api.core import Node

ONLY_THERE = "example.com/process"


@pytest.fixture(scope="module")
def process_node(cluster, tmp_path_factory):
    """`pumice node` in a process of its own; only pods that ask for its own resource come to it."""
    folder = tmp_path_factory.mktemp("node")
    options = ["--name", "here", "--data-dir", str(folder), "--capacity", f"{ONLY_THERE}=4"]
    command = [sys.executable, "-m", "pumice.cli", "node", "--kubeconfig", str(cluster.kubeconfig), *options]
    with (folder / "node.log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as running:
        yield
        running.terminate()
        running.wait()


@pytest.fixture
def written(process_node, pumice, until):
    """A Job of two pods that each wrote two lines and ended."""
    until(Node, lambda node: True, name="here", namespace="")
    script = "import os; print('first'); print('second of', os.environ['HOSTNAME'])"
    command = f'{sys.executable} -c "{script}"'
    made = pumice("job", "run", "say", "-r", "2", "-m", "2", "-R", f"cpu=100m,{ONLY_THERE}=1", "-c", command)
    assert made.code == 0
    until(Job, lambda job: job.get("status", {}).get("succeeded") == 2, name="say")


def test_of_a_job_that_is_gone_the_record_may_have_the_last_lines(pumice):
    said = pumice("job", "logs", "gone")
    assert (said.code, "--attempt 1 shows the last lines that the record keeps" in said.err) == (3, True)


def test_the_lines_of_several_pods_begin_with_their_pod(pumice, written):
    assert pumice("job", "logs", "say").lines == [
        "[say-default0-0] first",
        "[say-default0-0] second of say-default0-0",
        "[say-default0-1] first",
        "[say-default0-1] second of say-default0-1",
    ]


def test_one_pods_lines_are_its_own(pumice, written):
    assert pumice("job", "logs", "say", "--index", "1").lines == ["first", "second of say-default0-1"]
    assert pumice("job", "logs", "say", "--index", "1", "--tail", "1").lines == ["second of say-default0-1"]
    assert sorted(pumice("job", "logs", "say", "-f", "-t", "default0", "--tail", "1").lines) == [
        "[say-default0-0] second of say-default0-0",
        "[say-default0-1] second of say-default0-1",
    ]


def test_logs_of_nobody_and_of_two_times_at_once_are_refused(pumice, written):
    nobody = pumice("job", "logs", "say", "--index", "7")
    assert (nobody.code, nobody.err) == (
        3,
        "pumice: job default/say has no such pod; `pumice pod list -j say` lists them\n",
    )
    both = pumice("job", "logs", "say", "-f", "--previous")
    assert both.code == 2
    assert "-f and --previous exclude each other" in both.err


def test_logs_of_pods_that_are_not_there_yet_or_gone_say_what_to_ask(process_node, pumice, until):
    assert pumice("job", "run", "large", "-R", f"cpu=100m,{ONLY_THERE}=9").code == 0
    until(Job, lambda job: job.get("status", {}).get("state", {}).get("phase") == "Pending", name="large")
    assert "has no pods yet; `pumice explain job/large` says" in pumice("job", "logs", "large").err
    assert pumice("job", "suspend", "large").code == 0
    until(Job, lambda job: job["status"]["state"]["phase"] == "Aborted", name="large")
    gone = pumice("job", "logs", "large")
    assert (gone.code, gone.err) == (
        3,
        "pumice: the pods of job default/large are gone; `pumice job logs large --attempt 1` has their last lines, where a record is kept\n",
    )


def test_previous_where_nothing_was_restarted_says_so(pumice, written):
    asked = pumice("job", "logs", "say", "--previous")
    assert (asked.code, asked.out) == (3, "")
    assert asked.err == "pumice: job say: no container of its pods was restarted; drop --previous\n"


def test_previous_of_a_restarted_job_says_where_the_former_pods_logs_went(process_node, pumice, until):
    until(Node, lambda node: True, name="here", namespace="")
    command = f'{sys.executable} -c "import time; time.sleep(600)"'
    assert pumice("job", "run", "long", "-R", f"cpu=100m,{ONLY_THERE}=1", "-c", command).code == 0
    until(Job, lambda job: job.get("status", {}).get("running") == 1, name="long")
    assert pumice("job", "restart", "long").code == 0
    until(Job, lambda job: job["status"].get("retryCount") == 1 and job["status"].get("running") == 1, name="long")
    asked = pumice("job", "logs", "long", "--previous")
    assert (asked.code, asked.out) == (3, "")
    assert asked.err.startswith(
        "pumice: job long was restarted once, each time with new pods: the logs of the former ones went"
    )

"""One vocabulary: a flag means the same wherever it is, kubectl's habits and Volcano's spellings work, and slips are understood."""

import json

import click
import pytest
from tests.integration.cli.test_errors import leaves

from pumice.api.batch import Job
from pumice.api.bus import Command
from pumice.api.kinds import by_struct
from pumice.api.priority import PriorityClass
from pumice.cli import main
from pumice.cli.waiting import phase_of
from pumice.kube.commands import command_for

# What a letter stands for, by the long name beside it. In `logs`, -f is kubectl's follow; -n of queues is the name where no
# other is given.
MEANINGS = {
    "-f": {"--filename", "--follow"},
    "-o": {"--output"},
    "-n": {"--namespace"},
    "-N": {"--name"},
    "-l": {"--selector"},
    "-k": {"--kubeconfig"},
    "-s": {"--master"},
    "-q": {"--queue"},
    "-A": {"--all-namespaces"},
}


SLURM = {"sbatch", "squeue", "sinfo", "scancel"}  # whose users bring their own letters: -N is nodes, -o a file


def test_a_letter_means_the_same_in_every_command():
    found = {}
    for words, command in leaves(main.pumice):
        if words in SLURM:
            continue
        for each in command.params:
            letters = [one for one in each.opts if len(one) == 2]
            for letter in letters:
                found.setdefault(letter, {}).setdefault(each.opts[letters.index(letter) + 1], []).append(words)
    assert {letter: set(found[letter]) for letter in MEANINGS} == MEANINGS
    assert found["-f"]["--follow"] == ["job logs"]


def test_every_listing_chooses_by_labels(pumice, client):
    for name, labels in (("red", {"team": "a"}), ("blue", {"team": "b"})):
        assert pumice("job", "run", name, "-R", "cpu=1").code == 0
        client("patch", Job, name, {"metadata": {"labels": labels}}, namespace="default")
    assert pumice("job", "list", "-l", "team=a", "-o", "name").lines == ["job.batch.volcano.sh/red"]
    assert pumice("job", "list", "--selector", "team!=a", "-o", "name").lines == ["job.batch.volcano.sh/blue"]
    assert pumice("pod", "list", "-l", "volcano.sh/job-name=blue", "-o", "name").lines in ([], ["pod/blue-default0-0"])
    for words in (("queue", "list"), ("jobflow", "list"), ("jobtemplate", "list")):
        assert pumice(*words, "-l", "no=such", "-o", "name").lines == []


def test_several_names_are_served_and_one_that_is_not_there_keeps_none_of_the_others_waiting(pumice):
    for name in ("a", "b"):
        assert pumice("job", "run", name, "-R", "cpu=1").code == 0
    deleted = pumice("job", "delete", "a", "ghost", "b")
    assert deleted.code == 3
    assert deleted.lines == ["job.batch.volcano.sh/a deleted", "job.batch.volcano.sh/b deleted"]
    assert 'jobs.batch.volcano.sh "ghost" not found' in deleted.err


def test_several_objects_are_one_table(pumice):
    assert [line.split()[0] for line in pumice("queue", "get", "root", "default").lines] == ["NAME", "root", "default"]
    assert pumice("queue", "get", "root", "default", "-o", "jsonpath={.items[*].metadata.name}").out == "root default"
    assert pumice("queue", "get", "root", "ghost").code == 3


def test_a_queues_n_is_its_name_as_in_vcctl_and_a_namespace_beside_a_name_as_in_kubectl(pumice):
    for words in (("-n", "default"), ("default",), ("-N", "default"), ("default", "-n", "elsewhere")):
        assert pumice("queue", "get", *words, "-o", "name").lines == ["queue.scheduling.volcano.sh/default"]
    assert pumice("queue", "list", "-n", "elsewhere", "-o", "name").code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("jobs",), "`pumice job list`"),
        (("pods",), "`pumice pod list`"),
        (("logs", "train"), "`pumice job logs NAME`"),
        (("describe", "job", "train"), "`pumice job view NAME` or `pumice explain job/NAME`"),
        (("gpus",), "`pumice nodes`"),
        (("quota",), "`pumice top`"),
        (("queue", "update", "x"), "`pumice queue set NAME --weight WEIGHT`"),
        (("restart", "train"), "`pumice job restart NAME`"),
        (("job", "describe", "x"), "`pumice job view NAME`"),
        (("queue", "close", "x"), "`pumice queue operate NAME --action close`"),
        (("scheduel",), "`pumice schedule`"),
        (("job", "lst"), "`pumice job list`"),
    ],
)
def test_a_word_of_another_program_is_answered_with_ours(pumice, words, said):
    asked = pumice(*words)
    assert asked.code == 2
    assert f"Did you mean {said}?" in asked.err


def test_every_suggestion_is_a_command_that_there_is():
    from pumice.cli.suggestions import MEANT

    for words in MEANT.values():
        for word, suggestion in words.items():
            for each in suggestion.format(word).split("` or `"):
                command = main.pumice
                for part in each.split()[1:]:
                    if isinstance(command, click.Group):
                        command = command.get_command(click.Context(command), part)
                    assert command is not None, each


def test_a_job_is_explained_by_two_words_as_by_one_and_by_its_name_alone(pumice):
    assert pumice("job", "run", "train", "-R", "cpu=1").code == 0
    for words in (("job", "train"), ("job/train",), ("train",)):
        asked = pumice("explain", *words)
        assert asked.code in {0, 3}  # its group may not be there yet
        assert "expected job/NAME" not in asked.err
    assert pumice("explain", "job", "ghost").code == 3
    assert "expected job/NAME, pg/NAME or pod/NAME" in pumice("explain", "job", "a", "b").err


def test_an_error_begins_with_the_useful_sentence_and_names_the_request_with_v(pumice):
    words = ("job", "run", "x", "-q", "nowhere")
    asked = pumice(*words)
    assert asked.err.startswith('pumice: spec.queue: "nowhere": unable to find job queue')
    assert "POST" not in asked.err
    assert "webhook" not in asked.err
    for verbose in (("-v",), ("-v", "6"), ("--v", "6")):
        told = pumice(*words, *verbose)
        assert (told.code, "(POST /apis/batch.volcano.sh" in told.err) == (4, True)
    assert "POST" not in pumice(*words, "-v", "0").err
    assert "write a -v without one behind all names" in pumice("job", "view", "-v", "train").err


def dry(pumice, *words):
    made = pumice("job", "run", "x", "--dry-run", "-o", "json", *words)
    assert made.code == 0, made.err
    return json.loads(made.out)["spec"]


def test_a_run_takes_gpus_variables_volumes_and_a_priority(pumice, client):
    client("create", PriorityClass, {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 7})  # fmt: skip
    spec = dry(
        pumice, "--gpus", "2", "--env", "A=1", "--env", "B=x=y", "--volume", "data:/data:ro", "--volume", "/tmp/c:/c",
        "--priority", "high",
    )  # fmt: skip
    assert spec["priorityClassName"] == "high"
    pod = spec["tasks"][0]["template"]["spec"]
    container = pod["containers"][0]
    assert container["resources"]["requests"] == {"cpu": "1000m", "memory": "100Mi", "nvidia.com/gpu": "2"}
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "2"
    assert container["env"] == [{"name": "A", "value": "1"}, {"name": "B", "value": "x=y"}]
    assert [each["mountPath"] for each in container["volumeMounts"]] == ["/data", "/c"]
    assert container["volumeMounts"][0]["readOnly"] is True
    assert pod["volumes"][0]["persistentVolumeClaim"] == {"claimName": "data"}
    assert pod["volumes"][1]["hostPath"]["path"] == "/tmp/c"


@pytest.mark.parametrize(
    ("framework", "tasks"),
    [
        ("pytorch", [("master", 1), ("worker", 3)]),
        ("tensorflow", [("worker", 4)]),
        ("mpi", [("master", 1), ("worker", 3)]),
        ("ray", [("head", 1), ("worker", 3)]),
    ],
)
def test_a_run_for_a_framework_has_its_tasks_and_starts_them_together(pumice, framework, tasks):
    spec = dry(pumice, "--framework", framework, "-r", "4", "-c", "python train.py")
    assert [(each["name"], each["replicas"]) for each in spec["tasks"]] == tasks
    assert framework in spec["plugins"]
    assert spec["minAvailable"] == 4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--env", "A"), "--env 'A': expected NAME=VALUE"),
        (("--volume", "data"), "--volume 'data': expected CLAIM:/PATH or /FOLDER:/PATH"),
        (("--gpus", "1", "-R", "nvidia.com/gpu=1"), "two numbers for one thing"),
        (("--framework", "ray"), "--framework ray needs a head and a worker"),
    ],
)
def test_what_is_wrong_with_a_runs_flags_is_said(pumice, words, said):
    asked = pumice("job", "run", "x", *words)
    assert (asked.code, said in asked.err) == (2, True)


def test_a_job_is_waited_for_and_restarted(pumice, until):
    assert pumice("job", "run", "train", "-R", "cpu=1").code == 0
    waited = pumice("job", "wait", "train", "--for", "running", "--timeout", "60s")
    assert (waited.code, waited.out) == (0, "job.batch.volcano.sh/train running\n")
    assert pumice("job", "wait", "train", "--timeout", "10ms").code == 5
    assert pumice("job", "restart", "train").out == "job.batch.volcano.sh/train restarting\n"
    until(Job, lambda job: job["status"].get("retryCount") == 1 and job["status"].get("running") == 1, name="train")


def test_a_suspended_job_is_restarted_and_costs_no_retry(pumice, until):
    assert pumice("job", "run", "train", "-R", "cpu=1").code == 0
    assert pumice("job", "suspend", "train").err == ""
    until(Job, lambda job: phase_of(job) == "Aborted", name="train")
    assert "job train is Aborted: it is suspended already" in pumice("job", "suspend", "train").err
    assert pumice("job", "restart", "train").out == "job.batch.volcano.sh/train restarting\n"
    until(Job, lambda job: job["status"].get("running") == 1 and not job["status"].get("retryCount"), name="train")
    assert "job train is Running, not suspended" in pumice("job", "resume", "train").err


@pytest.mark.parametrize("verb", ["restart", "suspend", "resume"])
def test_a_job_that_is_over_is_not_said_to_start_again(pumice, until, client, verb):
    assert pumice("job", "run", "train", "-R", "cpu=1").code == 0
    until(Job, lambda job: phase_of(job) == "Running", name="train")
    job = client("get", Job, "train", namespace="default").json()
    body = command_for(by_struct(Job), job, "TerminateJob", namespace="default")
    client("create", Command, body, namespace="default")
    until(Job, lambda job: phase_of(job) == "Terminated", name="train")
    asked = pumice("job", verb, "train")
    assert (asked.code, asked.out) == (1, "")
    assert "job train is Terminated" in asked.err
    assert "`pumice job delete train`" in asked.err
    assert "no pod of it will be made or ended any more" in pumice("job", "scale", "train", "-r", "2").err


@pytest.mark.parametrize("group", ["job", "queue", "pod", "jobflow", "bench", "migrate"])
def test_no_command_of_a_group_is_listed_with_half_a_sentence(group):
    context = click.Context(main.pumice)
    shown = main.pumice.get_command(context, group).get_help(context).partition("Commands:")[2]
    assert shown
    assert "..." not in shown

"""The alias `vcctl` as scripts know it: Volcano's tables, sentences, help and exit codes."""

import pytest
from tests.integration.cli.test_jobs_and_queues import train  # noqa: F401  a running Job of three pods

from pumice.api.batch import Job
from pumice.cli import vcctl


@pytest.fixture
def run(pumice, capsys):
    """Runs vcctl and gives back its exit code and what it wrote to stdout."""

    def call(*words):
        capsys.readouterr()
        code = vcctl.run(words)
        return int(code), capsys.readouterr().out

    return call


def test_a_list_of_jobs_has_fixed_columns(run, train, client):  # noqa: F811
    day = client("get", Job, "train", namespace="default").json()["metadata"]["creationTimestamp"][:10]
    assert run("job", "list", "-n", "default") == (
        0,
        (
            f"{'Name':<8}{'Creation':<15}{'Phase':<12}{'JobType':<12}{'Replicas':<12}{'Min':<6}{'Pending':<10}{'Running':<10}"
            f"{'Succeeded':<12}{'Failed':<10}{'Unknown':<12}{'RetryCount':<10}\n"
            f"{'train':<8}{day:<15}{'Running':<12}{'Batch':<12}{'3':<12}{'2':<6}{'0':<10}{'3':<10}"
            f"{'0':<12}{'0':<10}{'0':<12}{'0':<10}\n"
        ),
    )
    assert run("job", "list", "--selector", "rai")[1].count("\n") == 2
    assert run("job", "list", "--selector", "other") == (0, "No resources found\n")
    assert run("job", "list", "--all-namespaces")[1].startswith(f"{'Namespace':<12}{'Name':<8}")
    assert "Ready" in run("pod", "list", "-j", "train")[1].splitlines()[0]


def test_queues_have_fixed_columns(run):
    lines = run("queue", "list")[1].splitlines()
    heads = ("Weight", "State", "Parent", "Inqueue", "Pending", "Running", "Unknown", "Completed")
    assert lines[0] == "".join([f"{'Name':<25}", *(f"{head:<8}" for head in heads)])
    assert lines[1].startswith(f"{'default':<25}{'1':<8}{'Open':<8}{'root':<8}{'0':<8}")
    assert run("queue", "get", "-n", "default")[1].splitlines() == lines[:2]


def test_what_was_done_is_told_in_vcctls_sentences(run, until):
    assert run("job", "run", "-N", "say") == (0, "run job say successfully\n")
    assert run("job", "suspend", "-N", "say") == (0, "")
    assert run("job", "delete", "-N", "say") == (0, "delete job say successfully\n")
    assert run("queue", "create", "-n", "here") == (0, "")
    assert run("queue", "operate", "-n", "here", "-a", "close") == (0, "")
    assert run("queue", "delete", "-n", "here")[0] in {0, 255}  # 255 until the controllers have closed it


def test_errors_go_to_stdout_and_end_with_255(run):
    assert run("job", "view", "-N", "ghost") == (255, 'Failed to view job: jobs.batch.volcano.sh "ghost" not found\n')
    code, said = run("job", "delete")
    assert (code, said.startswith("Failed to delete job: no name was given")) == (255, True)
    assert run("job", "frobnicate")[0] == 1


def test_help_is_vcctls(run):
    code, text = run("job", "list", "--help")
    assert (code, text.splitlines()[:7]) == (
        0,
        ["list job information", "", "Usage:", "  vcctl job list [flags]", "", "Flags:", "      --all-namespaces      list jobs in all namespaces"],
    )  # fmt: skip
    assert '  -n, --namespace string    the namespace of job (default "default")\n' in text
    assert "Global Flags:\n      --log-flush-frequency duration   Maximum" in text
    assert run("--help")[1].startswith(
        "Usage:\n  vcctl [command]\n\nAvailable Commands:\n  help        Help about any command\n"
    )
    assert run() == run("--help")
    assert run("help", "job", "list") == (0, text)
    assert "  -h, --help   help for job\n" in run("job", "--help")[1]
    assert run("version")[1].startswith("API Version: v1alpha1\nVersion: pumice ")


def test_every_flag_in_a_help_text_is_taken(run):
    root = vcctl.build()
    for group, (_, leaves) in vcctl.GROUPS.items():
        for name, leaf in leaves.items():
            command = root.commands[group].get_command(None, name)
            known = {option for each in command.params for option in each.opts}
            for flag in leaf.flags:
                assert {f"--{flag.name}", *([f"-{flag.letter}"] if flag.letter else [])} <= known, (group, name, flag)

"""What goes wrong, for every command there is: the subject, the cause, the next step and the documented exit code."""

import click
import pytest

from pumice.cli import main
from pumice.kube import client as kube_client

# Each command that asks a cluster, with arguments that would do if only the cluster were right; and what it says of a name
# that nobody has, where it takes one.
COMMANDS = {
    "job list": (),
    "job view": ("ghost",),
    "job run": ("ghost",),
    "job suspend": ("ghost",),
    "job resume": ("ghost",),
    "job delete": ("ghost",),
    "job wait": ("ghost",),
    "job restart": ("ghost",),
    "job scale": ("ghost", "-r", "2"),
    "job logs": ("ghost",),
    "queue list": (),
    "queue get": ("ghost",),
    "queue view": ("ghost",),
    "queue set": ("ghost", "-w", "2"),
    "queue create": ("ghost",),
    "queue operate": ("ghost", "-a", "close"),
    "queue delete": ("ghost",),
    "pod list": (),
    "jobflow list": (),
    "jobflow get": ("ghost",),
    "jobflow describe": ("ghost",),
    "jobflow create": ("-f", "FLOW"),
    "jobflow delete": ("ghost",),
    "jobtemplate list": (),
    "jobtemplate get": ("ghost",),
    "jobtemplate describe": ("ghost",),
    "jobtemplate create": ("-f", "TEMPLATE"),
    "jobtemplate delete": ("ghost",),
    "nodes": (),
    "top": (),
    "what-if": ("--drain", "ghost"),
    "forecast": ("ghost",),
    "why-evicted": ("ghost",),
    "consolidate": ("--dry-run",),
    "deadlocks": (),
    "prio": ("ghost",),
    "sprio": ("ghost",),
    "history": (),
    "sacct": (),
    "report": (),
    "squeue": ("-j", "ghost"),
    "sinfo": (),
    "scancel": ("ghost",),
    "sbatch": ("--wrap", "true"),
    "explain": ("job/ghost",),
    "version": (),
}
# Processes that go on until they are stopped find out in the same words that there is no such kubeconfig.
PROCESSES = {"scheduler": (), "controllers": (), "node": ("--pretend", "1")}
MAKERS = {"job run", "sbatch", "queue create", "jobflow create", "jobtemplate create"}
RECORD = {"history", "sacct", "report"}  # what they ask is the controllers
OWN_WORDS = {
    "what-if",
    "squeue",
    "prio",
    "sprio",
    "forecast",
    "consolidate",
}  # they look names up in a listing, tell of Jobs that are long gone, or take no name: no server has said that there is none


def leaves(command, path=()):
    """Every command that can be run, by its words."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from leaves(command.get_command(context, name), (*path, name))
    else:
        yield " ".join(path), command


def takes(command, option):
    return any(option in parameter.opts for parameter in command.params)


def test_no_command_that_asks_a_cluster_is_left_out_here():
    asking = {name for name, command in leaves(main.pumice) if takes(command, "--master")}
    assert asking - set(COMMANDS) == set()
    assert set(COMMANDS) - asking == set()


@pytest.fixture
def words(tmp_path):
    """The words of a command line, with real files where one is named."""
    flow = "apiVersion: flow.volcano.sh/v1alpha1\nkind: {}\nmetadata: {{name: x}}\nspec: {{}}\n"
    for kind in ("JobFlow", "JobTemplate"):
        (tmp_path / kind).write_text(flow.format(kind))
    places = {"FLOW": str(tmp_path / "JobFlow"), "TEMPLATE": str(tmp_path / "JobTemplate")}

    def build(name, arguments):
        return [*name.split(), *(places.get(each, each) for each in arguments)]

    return build


def refusal(result, code):
    """What was said on stderr: one line, nothing on stdout, and that exit code."""
    assert (result.code, result.out) == (code, ""), result.err
    [line] = result.err.splitlines()
    assert line.startswith("pumice: ")
    assert "; " in line, "a cause and, behind it, what to do"
    return line


@pytest.mark.parametrize(
    ("name", "arguments"), [(n, a) for n, a in COMMANDS.items() if a and n not in MAKERS | OWN_WORDS]
)
def test_a_name_that_nobody_has_is_code_3(pumice, words, name, arguments):
    said = refusal(pumice(*words(name, arguments)), 3)
    assert '"ghost" not found' in said
    assert "check the name and the namespace" in said


@pytest.mark.parametrize(("name", "arguments"), [*COMMANDS.items(), *PROCESSES.items()])
def test_a_kubeconfig_that_is_not_there_is_code_2(pumice, words, tmp_path, name, arguments):
    missing = tmp_path / "missing"
    said = refusal(pumice(*words(name, arguments), "--kubeconfig", str(missing)), 2)
    assert (
        said == f"pumice: kubeconfig {missing} cannot be read: No such file or directory; "
        "correct the path or its permissions"
    )


@pytest.mark.parametrize(("name", "arguments"), COMMANDS.items())
def test_a_context_that_is_not_there_is_code_2_and_the_others_are_named(pumice, words, name, arguments):
    said = refusal(pumice(*words(name, arguments), "--context", "nope"), 2)
    assert "there is no context 'nope'; choose one of: 'pumice'" in said


@pytest.mark.parametrize(("name", "arguments"), COMMANDS.items())
def test_a_cluster_that_does_not_answer_is_code_1(pumice, words, monkeypatch, name, arguments):
    monkeypatch.setattr(kube_client, "RETRY_S_FIRST", 0.0)
    said = refusal(pumice(*words(name, arguments), "--master", "https://127.0.0.1:1"), 1)
    before = (
        "the record cannot be asked (the lease of the leading controllers cannot be read: " if name in RECORD else ""
    )
    assert said.startswith(f"pumice: {before}https://127.0.0.1:1 gave no answer to ")
    assert "check the address and the certificates in context 'pumice' of " in said


def test_no_kubeconfig_at_all_says_where_it_was_looked_for(pumice, monkeypatch, tmp_path):
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    said = refusal(pumice("job", "list"), 2)
    assert said == (
        f"pumice: there is no kubeconfig: looked for {tmp_path}/.kube/config; name one with --kubeconfig or $KUBECONFIG"
    )


def test_a_kubeconfig_that_is_no_yaml_names_itself(pumice, tmp_path):
    broken = tmp_path / "broken"
    broken.write_text("{clusters: [")
    assert str(broken) in refusal(pumice("job", "list", "--kubeconfig", str(broken)), 2)


@pytest.mark.parametrize(
    ("arguments", "cause", "step"),
    [
        (
            ("job", "run", "x", "-r", "1", "-m", "5"),
            "spec.minAvailable: 5: job 'minAvailable' should not be greater than total replicas in tasks: there are 1",
            "lower it or raise replicas",
        ),
        (
            ("job", "run", "x", "-q", "nowhere"),
            'spec.queue: "nowhere": unable to find job queue',
            "create queue 'nowhere'",
        ),
        (("queue", "delete", "default"), "`default` queue can not be deleted", "close it instead"),
        (("queue", "create", "x", "--parent", "nowhere"), 'spec.parent: "nowhere"', "correct the object"),
    ],
)
def test_what_admission_refuses_is_code_4(pumice, arguments, cause, step):
    said = refusal(pumice(*arguments), 4)
    assert cause in said
    assert step in said


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("queue", "create", "default"), 5, 'queues.scheduling.volcano.sh "default" already exists'),
        (("queue", "create", "a/b"), 2, 'metadata.name: Invalid value: "a/b"'),
        (("job", "list", "-v", "x"), 2, "-v x: expected a level such as -v 6"),
        (("job", "view", "x", "-n", "\udcff"), 2, "not to be written as utf-8; correct the name"),
        (("job", "list", "--master", "h\udcff"), 2, "not to be written as utf-8; correct the name"),
        (("job", "run"), 2, "no name was given; write it behind the command, or a file with -f"),
        (("job", "view"), 2, "no name was given; write it behind the command, or as -N NAME"),
        (("job", "view", "a", "-N", "b"), 2, "two names: 'a' and -N 'b'; give one of them"),
        (("job", "view", "a/b"), 2, "'a/b' cannot be the name of an object"),
        (("job", "run", "x", "-R", "cpu"), 2, "--requests 'cpu': expected NAME=AMOUNT, such as cpu=1000m"),
        (("job", "run", "x", "-L", "cpu=much"), 2, "--limits 'cpu=much': quantity 'much': not a number"),
        (("job", "run", "x", "-c", "echo 'a"), 2, '--command "echo \'a": No closing quotation; close the quotation'),
        (("job", "run", "-f", "/none.yaml"), 3, "/none.yaml: no such file; check the name"),
        (("jobflow", "create", "-f", "/none.yaml"), 3, "/none.yaml: no such file; check the name"),
        (("jobflow", "delete"), 2, "give a name or a file with -f: one of them, not both"),
        (("queue", "operate", "default", "-a", "update"), 2, "--weight goes with `-a update`"),
        (("nodes", "--each", "gpu"), 2, "--each 'gpu': expected NAME=AMOUNT"),
        (("explain", "thing/x"), 2, "'thing/x': expected job/NAME, pg/NAME or pod/NAME"),
        (("schedule", "-f", "/none.yaml"), 3, "/none.yaml: no such file; check the name"),
        (("job", "run", "-f", "/dev/zero"), 2, "/dev/zero: cannot be read: larger than 16777216 bytes"),
        (("sbatch", "/dev/zero"), 2, "/dev/zero: cannot be read: larger than 16777216 bytes"),
        (
            ("simulate", "--workload", "generated", "--cluster", "4x8", "--policy", "/dev/zero"),
            2,
            "/dev/zero: cannot be read: larger than 1048576 bytes",
        ),
        (("replay", "/none"), 3, "/none: no such file; check the name"),
        (("replay", "/"), 2, "/: cannot be read: Is a directory; check the name and your rights"),
        (
            ("replay", __file__),
            2,
            "no flight recording; give the file that `pumice scheduler --flight-recorder` writes",
        ),
        (("replay", "/none", "--gang", "a/b"), 2, "--gang is explained within one cycle; give --cycle too"),
        (("job", "list", "-o", "jsonpath={.a"), 2, "a brace has no partner near '{.a'; close it"),
    ],
)
def test_what_is_wrong_with_the_words_themselves_is_said(pumice, arguments, code, said):
    result = pumice(*arguments)
    assert (result.code, result.out) == (code, "")
    assert said in result.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("frobnicate",), "No such command 'frobnicate'."),
        (("job", "frobnicate"), "No such command 'frobnicate'."),
        (("job", "list", "--bogus"), "No such option '--bogus'."),
        (("--context", "x", "job", "list"), "come after the command: `pumice COMMAND ... --context`."),
        (("job", "-n", "x", "list"), "come after the command: `pumice job COMMAND ... -n`."),
        (("job", "scale", "x", "-r", "-1"), "-1 is not in the range x>=0"),
        (("bench", "plan", "--nodes", "-5"), "-5 is not in the range x>=0"),
        (("completion", "tcsh"), "'tcsh' is not one of 'bash', 'zsh', 'fish'"),
    ],
)
def test_words_that_do_not_exist_are_code_2_and_help_is_offered(pumice, arguments, said):
    result = pumice(*arguments)
    assert (result.code, result.out) == (2, "")
    assert said in result.err
    assert "--help' for help." in result.err

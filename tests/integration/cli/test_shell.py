"""The program in a shell: real bash completes, aliases are real programs, versions are of both sides."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integration.cli.terminals import program

from pumice import __version__
from pumice.api.batch import Job
from pumice.cli import commands

BIN = Path(sys.executable).parent


@pytest.fixture
def completed(cluster, pumice, tmp_path):
    """What a real bash offers when Tab is pressed at the end of a line."""
    script = tmp_path / "completion.bash"
    script.write_text(pumice("completion", "bash").out)

    def ask(*words):
        listed = " ".join(f"'{word}'" for word in words)
        code = (
            f"source {script}; COMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}; "
            '_pumice_completion pumice; printf "%s\\n" "${COMPREPLY[@]}"'
        )
        env = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "KUBECONFIG": str(cluster.kubeconfig)}
        done = subprocess.run(["bash", "-c", code], env=env, capture_output=True, text=True, check=True)
        assert done.stderr == ""
        return done.stdout.split()

    return ask


def test_bash_completes_commands_options_and_live_names(completed, pumice):
    pumice("job", "run", "train")
    pumice("job", "run", "trace")
    assert completed("pumice", "jo") == ["job", "jobflow", "jobtemplate"]
    assert completed("pumice", "job", "su") == ["suspend"]
    assert completed("pumice", "job", "list", "--all") == ["--all-namespaces"]
    assert completed("pumice", "job", "view", "tr") == ["trace", "train"]
    assert completed("pumice", "queue", "get", "-n", "def") == ["default"]
    assert completed("pumice", "explain", "job/tra") == ["job/trace", "job/train"]
    assert completed("pumice", "explain", "p") == ["pg/", "pod/"]


def test_tab_completes_in_an_interactive_bash(cluster, pumice):
    pumice("job", "run", "trace")
    path = f"{BIN}:{os.environ['PATH']}"
    with program(
        shutil.which("bash"),
        "--norc",
        "--noprofile",
        "-i",
        PATH=path,
        KUBECONFIG=str(cluster.kubeconfig),
        PS1="ready> ",
    ) as seen:
        seen.until("ready> ")
        seen.press(b"source <(pumice completion bash); echo so''urced\n")
        seen.until("sourced")
        seen.press(b"pumice expl\t")
        seen.until("pumice explain ")
        seen.press(b"job/tr\t")
        seen.until("pumice explain job/trace ")
        seen.press(b"\x15pumice job vi\t")
        seen.until("pumice job view ")
        seen.press(b"\x15exit\n")
        assert seen.end() == 0


def test_completion_without_a_cluster_is_silent(completed):
    assert completed("pumice", "job", "view", "--master", "https://127.0.0.1:1", "t") == []


@pytest.mark.parametrize(
    ("shell", "words"), [("zsh", "#compdef pumice"), ("fish", "complete --no-files --command pumice")]
)
def test_other_shells_get_their_script(pumice, shell, words):
    assert words in pumice("completion", shell).out


@pytest.fixture
def aliases(pumice, cluster, tmp_path):
    """Runs one of the installed programs."""
    installed = pumice("install-aliases", "--dir", str(tmp_path))
    assert (
        installed.out
        == f"{tmp_path}: vcctl, vsub, vjobs, vqueues, vcancel, vsuspend, vresume, kubectl_complete-pumice\n"
    )
    env = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "VOLCANO_DEFAULT_IMAGE": "own:1"}

    def run(name, *arguments):
        return subprocess.run([tmp_path / name, *arguments], env=env, capture_output=True, text=True, check=False)

    return run


def test_the_short_commands_have_their_letters_swapped(aliases, pumice, until):
    assert (
        aliases("vsub", "-n", "short", "-N", "default", "-c", "sleep 5").stdout
        == "job.batch.volcano.sh/short created\n"
    )
    path = "jsonpath={.spec.tasks[0].template.spec.containers[0].image}"
    assert pumice("job", "view", "-N", "short", "-n", "default", "-o", path).out == "own:1"
    assert aliases("vjobs", "-N", "default", "-o", "name").stdout == "job.batch.volcano.sh/short\n"
    assert aliases("vjobs", "-n", "short").stdout.startswith("Name:             short\n")
    until(Job, lambda job: job.get("status", {}).get("running") == 1, name="short")
    assert aliases("vsuspend", "-n", "short", "-N", "default").stdout == "job.batch.volcano.sh/short suspending\n"
    until(Job, lambda job: job["status"]["state"]["phase"] == "Aborted", name="short")
    assert aliases("vresume", "-n", "short").stdout == "job.batch.volcano.sh/short resuming\n"
    until(Job, lambda job: job["status"]["state"]["phase"] == "Running", name="short")
    assert aliases("vqueues", "-n", "default", "-o", "name").stdout == "queue.scheduling.volcano.sh/default\n"
    assert aliases("vcctl", "job", "list", "-n", "default", "-o", "name").stdout == "job.batch.volcano.sh/short\n"
    assert aliases("vcancel", "-n", "short").stdout == "job.batch.volcano.sh/short deleted\n"
    missing = aliases("vcancel", "-n", "short", "-N", "nowhere")
    assert (missing.returncode, missing.stderr[:9]) == (3, "vcancel: ")


def test_kubectl_can_complete_its_plugin(aliases, pumice):
    pumice("job", "run", "train")
    assert aliases("kubectl_complete-pumice", "job", "view", "tr").stdout == "train\n:4\n"
    assert aliases("kubectl_complete-pumice", "expl").stdout == "explain\n:4\n"


def test_aliases_do_not_replace_a_strangers_program(pumice, tmp_path):
    (tmp_path / "vcctl").write_text("the real one")
    refused = pumice("install-aliases", "--dir", str(tmp_path))
    assert (refused.code, refused.err) == (
        5,
        f"pumice: {tmp_path}: vcctl already there and not ours: nothing was changed; use --dir or --force\n",
    )
    assert [path.name for path in tmp_path.iterdir()] == ["vcctl"]
    assert pumice("install-aliases", "--dir", str(tmp_path), "--force").code == 0
    assert pumice("install-aliases", "--dir", str(tmp_path)).code == 0  # ours may be replaced


def test_version_names_both_sides(pumice):
    first, second = pumice("version").lines
    assert first.startswith(f"pumice:       {__version__} (Python 3.")
    assert second.startswith("API server:   v1.")


def test_listing_commands_imports_none_of_them():
    code = (
        "import sys, click.testing, pumice.cli.main as m; click.testing.CliRunner().invoke(m.pumice, ['--help']); "
        "print({'msgspec', 'numpy', 'aiohttp', 'asyncio', 'pumice.cli.job'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize("word", ["--help", "-h"])
def test_help_is_printed_without_click(word):
    """To import it takes longer than all the rest."""
    code = (
        "import sys; sys.argv = ['pumice', sys.argv[1]]; from pumice.cli.entry import main; main(); "
        "print({'click', 'typing', 'inspect', 'pumice.cli.main'} & set(sys.modules), file=sys.stderr)"
    )
    env = {**os.environ, "COLUMNS": "80"}
    done = subprocess.run([sys.executable, "-c", code, word], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == commands.help_text(80)
    assert done.stderr == "set()\n"


@pytest.mark.parametrize("columns", [20, 52, 60, 80, 200])
def test_the_help_is_the_one_that_click_would_print(columns):
    run = [sys.executable, "-c", "from pumice.cli.main import run; run(['--help'])"]
    env = {**os.environ, "COLUMNS": str(columns)}
    done = subprocess.run(run, env=env, capture_output=True, text=True, check=True)
    assert commands.help_text(columns) == done.stdout


@pytest.mark.parametrize("arguments", ["--help", "version --help", "crds"])
def test_a_command_ends_in_peace_when_its_reader_has_seen_enough(arguments):
    """click says 1 then, and a script that looks at all of a pipe would take it for a failure."""
    code = f"import sys; sys.argv = ['pumice', *{arguments.split()}]; from pumice.cli.entry import main; main()"
    reads, writes = os.pipe()
    os.close(reads)
    done = subprocess.run([sys.executable, "-c", code], stdout=writes, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writes)
    assert (done.returncode, done.stderr) == (0, "")


HEAVY = {
    "aiohttp",
    "numpy",
    "rich",
    "cryptography",
    "jsonschema_rs",
    "prometheus_client",
    "structlog",
    "jinja2",
    "pumice.kube.http",
}


@pytest.mark.parametrize(
    "words",
    [("job", "list"), ("job", "view", "light"), ("queue", "list"), ("pod", "list"), ("jobflow", "list"), ("version",)],
)
def test_a_command_that_asks_one_question_imports_nothing_heavy(pumice, cluster, words):
    pumice("job", "run", "light")
    code = (
        "import sys, pumice.cli.main as m; code = m.run(sys.argv[2:]); "
        "print(int(code), sorted(set(sys.argv[1].split()) & set(sys.modules)), file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, " ".join(HEAVY), *words]
    env = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "0 []"


def test_kubectls_plugin_is_the_same_program(pumice, cluster):
    env = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
    plugin = subprocess.run(
        [BIN / "kubectl-pumice", "queue", "list", "-o", "name"], env=env, capture_output=True, text=True, check=True
    )
    assert plugin.stdout == pumice("queue", "list", "-o", "name").out

"""Commands in surroundings that give them nothing: no home, no room for files, ports that are taken, signals at the wrong time.

Tests run as root, whom no permission stops; a path beneath a regular file stops everybody.
"""

import contextlib
import signal
import socket
import subprocess
import sys

import pytest
from tests.integration.cli.test_errors import COMMANDS, leaves

from pumice.cli import main

# What else there is, with arguments that would do in a better place.
OTHERS = {
    "up --data-dir": ("NOWHERE/data",),
    "up --kubeconfig-out": ("NOWHERE/kubeconfig",),
    "up --policy": ("NOWHERE/policy",),
    "down": (),
    "dashboard": (),
    "status": (),
    "crds": (),
    "bench plan": ("--nodes=1", "--gangs=1", "--size=1"),
    "controllers": (),
    "migrate check": (),
    "scheduler": (),
    "webhooks": (),
    "webhooks manifests": (),
    "node": (),
    "node --pretend": ("1",),
    "schedule": ("-f", "NOWHERE/objects"),
    "simulate": ("--workload", "NOWHERE/trace.swf", "--cluster", "2x8"),
    "replay": ("NOWHERE/flight",),
    "replay --cycle": ("1", "NOWHERE/flight"),
    "install-aliases": ("--dir", "NOWHERE/bin"),
    "completion": ("bash",),
}
# They need no surroundings: `demo` takes half a minute, and `up` starts (tests/integration/processes/test_up.py).
LEFT_OUT = {"demo", "up"}


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """A path that cannot be, where home, cache, state, temporary files and the kubeconfig are said to be."""
    (tmp_path / "file").write_text("")
    place = str(tmp_path / "file" / "below")
    for name in ("HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "TMPDIR", "KUBECONFIG"):
        monkeypatch.setenv(name, place)
    return place


def test_no_command_is_left_out_here():
    named = {*COMMANDS, *OTHERS, *LEFT_OUT}
    assert {name for name, _ in leaves(main.pumice)} - named == set()


@pytest.mark.parametrize(("name", "arguments"), [*COMMANDS.items(), *OTHERS.items()])
def test_no_command_answers_hostile_surroundings_with_a_traceback(nowhere, capsys, name, arguments):
    """Whatever it raises would be one; what it says instead ends with what to do."""
    code = main.run([each.replace("NOWHERE", nowhere) for each in (*name.split(), *arguments)])
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert code is main.ExitCode.OK or "; " in said or said.startswith("Usage: "), said


@pytest.fixture
def taken():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_a_port_that_is_taken_is_told_in_one_sentence(taken, capsys):
    assert main.run(["up", f"--port={taken}"]) is main.ExitCode.CONFLICT
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"pumice: port {taken} of 127.0.0.1: nothing can listen there (")
    assert line.endswith("; end what does, or choose another port")


def test_a_port_that_cannot_be_is_told_in_one_sentence(capsys):
    assert main.run(["up", "--port=80000"]) is main.ExitCode.USAGE
    assert "80000 is not in the range 0<=x<=65535" in capsys.readouterr().err


def test_a_kubeconfig_in_a_folder_that_is_not_there_is_told_before_anything_starts(tmp_path, capsys):
    assert main.run(["up", f"--kubeconfig-out={tmp_path}/missing/kubeconfig"]) is main.ExitCode.USAGE
    said = capsys.readouterr()
    assert said.out == ""
    assert "its folder does not exist; make it first, or name another file" in said.err


# ------------------------------------------------------------------------------------------------------------ signals

INTERRUPTED_IMPORT = """
import os, signal, sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
sys.argv = ["pumice", "up", "--nodes=1"]
from pumice.cli.entry import main
main()
"""


@pytest.mark.parametrize("module", ["click", "pumice.cli.main", "pumice.cli.up", "pumice.local.up", "numpy"])
def test_ctrl_c_while_the_command_is_being_imported_ends_it_without_a_traceback(module):
    program = INTERRUPTED_IMPORT.format(module=module)
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.stderr.strip() == ""
    assert ended.returncode in {-signal.SIGINT, main.ExitCode.INTERRUPTED}


TOLD_TWICE = """
import asyncio, os, signal
from pumice.processes.lifecycle import until_stopped
async def work():
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.Event().wait()
asyncio.run(until_stopped(work(), []))
os.kill(os.getpid(), signal.SIGTERM)
print("ended in its own time")
"""


def test_a_second_sigterm_does_not_disturb_a_process_that_ends():
    ended = subprocess.run([sys.executable, "-c", TOLD_TWICE], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "ended in its own time\n", "")


# ------------------------------------------------------------------------------------------------------------- a restart


@contextlib.contextmanager
def up(folder):
    """A cluster in a folder: its process, and the lines that it says until it is ready."""
    command = [sys.executable, "-m", "pumice.cli", "up", "--nodes=1", f"--data-dir={folder}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        lines = []
        for line in process.stdout:
            lines.append(line)
            if "cluster ready" in line:
                break
        try:
            yield lines
        finally:
            process.terminate()


def test_up_says_what_it_does_keeps_its_port_and_lets_nobody_take_its_nodes(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "data"
    with up(folder) as lines:
        assert lines[0] == f"starting a cluster of 1 node with 8 GPUs in {folder} ...\n"
        first = lines[-1].split()[-1]
        joined = main.run(["node", "--pretend=1", "--name=node-", f"--kubeconfig={folder}/kubeconfig"])
        assert joined is main.ExitCode.REFUSED
        assert "node 'node-0' is kept by an agent that is alive" in capsys.readouterr().err
    with up(folder) as lines:
        assert lines[-1].split()[-1] == first

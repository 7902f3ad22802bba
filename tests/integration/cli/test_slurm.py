"""Slurm's commands against a whole embedded cluster."""

import io
import json

import pytest

from pumice.api import names
from pumice.api.batch import Job

SCRIPT = """\
#!/bin/bash
#SBATCH --job-name=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
#SBATCH --cpus-per-task=1
#SBATCH --time=2:00:00
#SBATCH --partition=default
#SBATCH --mem=64G
#SBATCH --mail-type=END
srun python train.py
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "train.sh"
    path.write_text(SCRIPT)
    return str(path)


def is_running(job):
    return job.get("status", {}).get("state", {}).get("phase") == "Running"


@pytest.fixture
def train(pumice, script, until):
    """The name of a Job that fills both nodes."""
    made = pumice("sbatch", "--parsable", script)
    assert made.code == 0
    until(Job, is_running, name=made.out.strip())
    return made.out.strip()


def test_a_script_is_submitted_runs_and_is_listed(pumice, train):
    (head, line) = pumice("squeue").lines
    assert head.split() == [
        "JOBID",
        "PARTITION",
        "USER",
        "ST",
        "TIME",
        "TIME_LIMIT",
        "PODS",
        "NODES",
        "NODELIST(REASON)",
    ]
    cells = line.split()
    assert (cells[:4], cells[5]) == ([train, "default", "default", "R"], "2:00:00")
    assert cells[6:8] == ["2", "2"]
    (row,) = json.loads(pumice("squeue", "-o", "json").out)["jobs"]
    assert (row["job"], row["state"], row["timeLimit"], len(row["nodes"])) == (train, "R", 7200, 2)
    assert pumice("squeue", "-o", "name").out == f"job.batch.volcano.sh/{train}\n"


def test_what_is_left_out_and_what_was_made_is_said(pumice, script):
    result = pumice("sbatch", script, "--epochs", "3")
    assert result.out.startswith("Submitted batch job train-")
    assert "line 10: --mail-type means nothing here" in result.err


def test_flags_win_over_the_script_and_the_job_can_be_looked_at_first(pumice, script):
    result = pumice("sbatch", "--to-yaml", "--nodes", "1", "--gpus", "2", "-t", "5", script, "--epochs", "3")
    assert result.code == 0
    assert f"{names.TIME_LIMIT}: 5m0s" in result.out
    assert "minAvailable: 1" in result.out
    assert "nvidia.com/gpu: '2'" in result.out
    assert result.out.count("--epochs") == 1
    assert pumice("squeue").lines[1:] == []


def test_a_job_that_waits_is_listed_with_its_reason_and_its_start(pumice, train, until):
    waiting = pumice("sbatch", "--parsable", "-N", "2", "--gpus-per-node", "8", "--wrap", "sleep 9").out.strip()
    until(Job, lambda job: job.get("status", {}).get("state", {}).get("phase") == "Pending", name=waiting)
    assert [line.split()[0] for line in pumice("squeue", "-t", "PD").lines[1:]] == [waiting]
    (line,) = pumice("squeue", "--start").lines[1:]
    assert line.split()[:4] == [waiting, "default", "default", "PD"]
    assert [line.split()[0] for line in pumice("squeue", "-j", train).lines[1:]] == [train]


def test_jobs_are_cancelled_by_name_and_by_state(pumice, train):
    other = pumice("sbatch", "--parsable", "-N", "2", "--gpus-per-node", "8", "--wrap", "sleep 9").out.strip()
    assert pumice("scancel", "-t", "PENDING").out == f"job.batch.volcano.sh/{other} deleted\n"
    gone = pumice("scancel", train, "ghost")
    assert (gone.code, gone.out) == (3, f"job.batch.volcano.sh/{train} deleted\n")
    assert "ghost" in gone.err


def test_without_a_file_the_script_is_read_from_stdin(pumice, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(SCRIPT.encode())))
    made = pumice("sbatch", "--nodes", "1")
    assert (made.code, made.err) == (0, "sbatch: stdin, line 10: --mail-type means nothing here, and is left out\n")
    assert made.out.startswith("Submitted batch job train-")


def test_nobody_is_kept_waiting_for_a_script_to_be_typed(pumice, monkeypatch):
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    refused = pumice("sbatch")
    assert (refused.code, refused.err[:44]) == (2, "pumice: expected a script, from a file or fr")


def test_nodes_are_shown_by_state(pumice, train):
    lines = [line.split() for line in pumice("sinfo").lines]
    assert lines[0] == ["PARTITION", "AVAIL", "TIMELIMIT", "NODES", "STATE", "NODELIST"]
    assert lines[1][:5] == ["default*", "up", "infinite", "2", "alloc"]
    assert {line.split()[1] for line in pumice("sinfo", "-N").lines[1:]} == {"alloc"}
    (row,) = json.loads(pumice("sinfo", "-p", "default", "-o", "json").out)["partitions"]
    assert (row["partition"], row["state"], len(row["nodes"])) == ("default", "alloc", 2)


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("squeue", "-t", "SLEEPING"), 2, "-t SLEEPING: no such state; take all, or some of PD (pending)"),
        (("squeue", "-j", "ghost"), 3, "there is no job ghost"),
        (("sinfo", "-p", "ghost"), 3, "there is no queue ghost; `pumice queue list` lists them"),
        (("scancel",), 2, "no job was named; write its name, or -u USER"),
        (("sbatch", "ghost.sh"), 3, "ghost.sh: no such file"),
        (("sbatch", "--nodes", "two", "--wrap", "x"), 2, "--nodes 'two': expected a whole number from 1 to 999999999"),
        (("sbatch", "--array", "1-3", "--wrap", "x"), 2, "No such option"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_next_step(pumice, words, code, says):
    result = pumice(*words)
    assert (result.code, result.out) == (code, "")
    assert says in result.err


def test_a_line_that_is_not_known_is_refused_by_its_number(pumice, tmp_path):
    path = tmp_path / "array.sh"
    path.write_text("#!/bin/sh\n#SBATCH --array=1-10\ntrue\n")
    result = pumice("sbatch", str(path))
    assert (result.code, result.out) == (2, "")
    assert "array.sh, line 2: --array is not known here; give a task as many replicas" in result.err

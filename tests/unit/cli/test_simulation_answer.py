"""What `pumice simulate` hands over: nothing of a long simulation is lost, nothing that it reads is written over, and what is missing is said."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.cli.test_simulate import TRACE, answered, refused

from pumice.cli import side_by_side, simulation_answer
from pumice.cli.main import ExitCode, run
from pumice.errors import BadInput
from pumice.sim import Submission

POLICY = 'actions: "allocate"\ntiers:\n- plugins:\n  - name: gang\n'


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "trace.swf"
    path.write_text(TRACE)
    return str(path)


@pytest.mark.parametrize("option", ["--workload", "--cluster", "--policy"])
def test_a_report_is_not_written_over_what_is_read(trace, tmp_path, capsys, option):
    nodes, policy = tmp_path / "nodes.csv", tmp_path / "policy.yaml"
    nodes.write_text("sn,gpu\na,4\n")
    policy.write_text(POLICY)
    given = {"--workload": trace, "--cluster": str(nodes), "--policy": str(policy)}
    before = Path(given[option]).read_text()
    here = f"{tmp_path}/../{tmp_path.name}/{Path(given[option]).name}"  # the same under another name
    arguments = [word for pair in given.items() for word in pair]
    said = refused(capsys, *arguments, "--report", here)
    assert f"--report {here}: that is what {option} reads, and would be lost; choose another name" in said
    assert Path(given[option]).read_text() == before


def test_a_report_is_not_written_over_the_record_that_is_read(tmp_path):
    file = tmp_path / "record.db"
    file.write_text("")
    with pytest.raises(BadInput, match="--workload reads"):
        simulation_answer.check_writable(str(file), {"--workload": [f"record:sqlite:///{file}"]})


def test_a_report_goes_to_a_file(trace, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said = refused(capsys, "--workload", trace, "--cluster", "4x1", "--report", "-")
    assert "--report -: standard output has the figures; name a file" in said
    assert [each.name for each in Path().iterdir()] == ["trace.swf"]


def test_a_report_of_before_stays_where_the_new_one_does_not_fit(trace, tmp_path, capsys, monkeypatch):
    file = tmp_path / "report.html"
    file.write_text("of before")

    def full(self, data):
        with self.open("wb") as half:
            half.write(data[:100])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    assert run(["simulate", "--workload", trace, "--cluster", "4x1", "--report", str(file)]) is ExitCode.FAILED
    assert f"{file}: No space left on device" in capsys.readouterr().err
    assert file.read_text() == "of before"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["report.html", "trace.swf"]


def test_a_report_that_is_written_again_keeps_who_may_read_it(trace, tmp_path, capsys):
    file = tmp_path / "report.html"
    file.write_text("of before")
    file.chmod(0o600)
    answered(capsys, "--workload", trace, "--cluster", "4x1", "--report", str(file))
    assert file.stat().st_mode & 0o777 == 0o600
    assert "trace.swf on 4x1" in file.read_text()


def test_a_report_is_written_where_nobody_reads_the_table(trace, tmp_path):
    file = tmp_path / "report.html"
    arguments = ["simulate", "--workload", trace, "--cluster", "4x1", "--report", str(file)]
    reads, writes = os.pipe()
    os.close(reads)
    command = [sys.executable, "-m", "pumice.cli", *arguments]
    done = subprocess.run(command, stdout=writes, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writes)
    assert (done.returncode, done.stderr) == (0, "")
    assert "trace.swf on 4x1" in file.read_text()


def test_a_report_goes_through_a_pipe(trace, tmp_path, capsys):
    """As with `--report >(gzip > report.html.gz)`: to try whether it can be written was the end for its reader."""
    reads, writes = os.pipe()
    with subprocess.Popen(["cat"], stdin=reads, stdout=subprocess.PIPE, text=True) as reader:
        answered(capsys, "--workload", trace, "--cluster", "4x1", "--report", f"/dev/fd/{writes}")
        os.close(reads)
        os.close(writes)
        assert "trace.swf on 4x1" in reader.stdout.read()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True) as reader:
        answered(capsys, "--workload", trace, "--cluster", "4x1", "--report", str(pipe))
        assert "trace.swf on 4x1" in reader.stdout.read()


def test_no_empty_report_is_left_where_nothing_was_simulated(trace, tmp_path, capsys, monkeypatch):
    file = tmp_path / "report.html"
    monkeypatch.setattr("pumice.cli.simulate.outcomes_of", lambda *_: {})
    arguments = ["simulate", "--workload", trace, "--cluster", "4x1", "--report", str(file)]
    assert run(arguments) is ExitCode.INTERRUPTED
    assert not file.exists()


def test_names_that_are_no_utf_8_are_answered(tmp_path, capsys):
    """On a disk a name is any bytes; figures and report had been lost after the simulation."""
    trace, policy, report = (os.fsdecode(bytes(tmp_path) + b"/" + name) for name in (b"j\xe9.swf", b"p\xe9.yaml", b"r"))
    Path(trace).write_text(TRACE)
    Path(policy).write_text(POLICY)
    arguments = ("--workload", trace, "--cluster", "4x1", "--policy", policy, "--report", report, "-o")
    assert "j\\xe9.swf" in answered(capsys, *arguments, "yaml")
    assert "<title>j\\xe9.swf on 4x1</title>" in Path(report).read_text()
    found = json.loads(answered(capsys, *arguments, "json"))
    assert found["workload"].endswith("/j\\xe9.swf")
    assert [each.rpartition("/")[2] for each in found["policies"]] == ["p\\xe9.yaml"]


def test_the_password_of_a_record_is_not_answered(capsys, monkeypatch):
    url = "record:postgresql://ann:secret@db.example/pumice"
    monkeypatch.setattr("pumice.cli.simulation_input._recorded", lambda *_: [Submission(at_s=0, run_s=9)])
    text = answered(capsys, "--workload", url, "--cluster", "4x1", "-o", "json")
    assert json.loads(text)["workload"] == "record:postgresql://ann:***@db.example/pumice"


def test_each_job_has_a_name_its_queue_and_its_user(tmp_path, capsys):
    trace = tmp_path / "trace.csv"
    trace.write_text("user,vc,num_gpu,node_num,creation_time,duration\nann,research,4,2,0,100\nbob,,1,1,5,50\n")
    text = answered(capsys, "--workload", str(trace), "--cluster", "2x4", "--per-job", "-o", "json")
    first, second = json.loads(text)["policies"]["builtin"]["runs"]
    assert first == {
        "gang": "sim/job-0000000", "queue": "research", "user": "ann", "submit_s": 0.0, "run_s": 100.0, "size": 2, "slots": 4,
        "start_s": 0.0, "end_s": 100.0, "restarts": 0,
    }  # fmt: skip
    assert (second["gang"], second["queue"], second["user"]) == ("sim/job-0000001", "default", "bob")


def test_jobs_that_never_started_are_said_for_their_waits_are_in_no_mean(trace, tmp_path, capsys):
    policy = tmp_path / "policy.yaml"
    policy.write_text('actions: "preempt"\ntiers: []\n')
    arguments = ["--workload", trace, "--cluster", "4x1", "--policy", str(policy), "--policy", "fifo"]
    assert run(["simulate", *arguments]) is ExitCode.OK
    said = capsys.readouterr().err
    assert said == f"pumice: {policy}: 4 of 4 jobs never started: waits and slowdowns are those of the others\n"


def test_policies_that_ctrl_c_came_before_are_named(trace, capsys, monkeypatch):
    monkeypatch.setattr(side_by_side, "_at_once", lambda trials, _: {"fifo": trials["fifo"]().outcome})
    assert run(["simulate", "--workload", trace, "--cluster", "4x1", "--policy", "fifo", "--policy", "easy"]) is ExitCode.INTERRUPTED  # fmt: skip
    assert "pumice: not tried: easy" in capsys.readouterr().err

"""pumice simulate: figures for scripts, a table for people, and errors that name what is wrong."""

import gzip
import json
import os

import pytest
from tests.unit.sim.test_gpu_traces import PHILLY

from pumice.cli.main import ExitCode, run
from pumice.errors import PumiceError
from pumice.record import rows
from pumice.record.store import Store
from pumice.sim import simulation
from pumice.sim.one_by_one import OneByOne

TRACE = """\
; four jobs
1 0 -1 100 3 -1 -1 -1 -1
2 1 -1 100 4 -1 -1 -1 -1
3 2 -1  50 1 -1 -1 -1 -1
4 3 -1 500 1 -1 -1 -1 -1
"""


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "trace.swf"
    path.write_text(TRACE)
    return str(path)


def answered(capsys, *arguments):
    assert run(["simulate", *arguments]) is ExitCode.OK
    return capsys.readouterr().out


def refused(capsys, *arguments, code=ExitCode.USAGE):
    assert run(["simulate", *arguments]) is code
    return capsys.readouterr().err


def test_policies_side_by_side(trace, capsys):
    text = answered(
        capsys, "--workload", trace, "--cluster", "4x1", "--policy", "fifo", "--policy", "easy", "-o", "json"
    )
    found = json.loads(text)["policies"]
    assert list(found) == ["fifo", "easy"]
    assert found["fifo"]["mean_wait_s"] == 123.5
    assert found["easy"]["mean_wait_s"] == 74
    assert {"bounded_slowdown", "utilisation", "makespan_s", "evictions", "lost_gpu_h"} <= found["easy"].keys()


def test_each_job_where_asked_for(trace, capsys):
    arguments = ("--workload", trace, "--cluster", "4x1", "--jobs", "2", "--policy", "fifo", "-o", "json")
    assert "runs" not in json.loads(answered(capsys, *arguments))["policies"]["fifo"]
    runs = json.loads(answered(capsys, *arguments, "--per-job"))["policies"]["fifo"]["runs"]
    assert [(each["start_s"], each["end_s"]) for each in runs] == [(0, 100), (100, 200)]


def test_a_table_for_people(trace, capsys):
    text = answered(capsys, "--workload", trace, "--cluster", "2x2", "--policy", "greedy")
    assert text.splitlines()[0].split() == [
        "POLICY",
        "MEAN",
        "WAIT",
        "SLOWDOWN",
        "UTILISATION",
        "MAKESPAN",
        "EVICTIONS",
        "LOST",
        "GPU-H",
        "BLOCKED",
        "GPU-H",
        "NOT",
        "STARTED",
    ]
    assert text.splitlines()[1].startswith("greedy")


def test_a_policy_from_a_file(trace, tmp_path, capsys):
    policy = tmp_path / "policy.yaml"
    policy.write_text('actions: "allocate"\ntiers:\n- plugins:\n  - name: gang\n')
    found = json.loads(answered(capsys, "--workload", trace, "--cluster", "4x1", "--policy", str(policy), "-o", "json"))
    assert found["policies"][str(policy)]["never_started"] == 0


def test_estimates_that_are_wrong_are_drawn_from_the_seed(trace, capsys):
    arguments = (
        "--workload",
        trace,
        "--cluster",
        "4x1",
        "--policy",
        "easy",
        "-o",
        "json",
        "--estimate-error",
        "1",
        "--seed",
    )
    first, again = (answered(capsys, *arguments, "7") for _ in range(2))
    assert first == again


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--cluster", "4"], "write NODESxSLOTS, such as 32x8"),
        (
            ["--cluster", "4x1", "--policy", "esay"],
            "no such policy; take one of fifo, easy, conservative, greedy, builtin",
        ),
        (["--cluster", "4x1", "--jobs", "0"], "0 is not in the range"),
        (["--cluster", "4x1", "--queue", "research=3"], "no job of the workload is in it; there are default"),
        (["--cluster", "4x1", "--gpu-price", "1e308"], "1e+308 is not in the range"),
        (["--cluster", __file__ + "/nodes.csv"], "cannot be read: Not a directory"),
        (["--cluster", "4x1", "--estimate-error", "99"], "99.0 is not in the range"),
    ],
)
def test_bad_input_is_named(trace, capsys, arguments, says):
    assert says in refused(capsys, "--workload", trace, *arguments)


def test_a_file_that_is_not_there_or_no_trace(tmp_path, capsys):
    nowhere = str(tmp_path / "nowhere.swf")
    assert "no such file" in refused(capsys, "--workload", nowhere, "--cluster", "4x1", code=ExitCode.NOT_FOUND)
    empty = tmp_path / "empty.swf"
    empty.write_text("; nothing\n")
    assert "no job in it has a run time" in refused(capsys, "--workload", str(empty), "--cluster", "4x1")
    broken = tmp_path / "broken.swf"
    broken.write_bytes(b"\xff\xfe not a trace")
    assert "broken.swf: its first line is " in refused(capsys, "--workload", str(broken), "--cluster", "4x1")
    policy = tmp_path / "policy.yaml"
    policy.write_text('actions: "dance"\ntiers: []\n')
    trace = tmp_path / "t.swf"
    trace.write_text(TRACE)
    assert "unknown action 'dance'" in refused(
        capsys, "--workload", str(trace), "--cluster", "4x1", "--policy", str(policy)
    )


def test_a_report_is_written_beside_the_answer(trace, capsys, tmp_path):
    file = tmp_path / "report.html"
    answered(capsys, "--workload", trace, "--nodes", "4x1xH100", "--policy", "volcano", "--report", str(file))
    assert "trace.swf on 4x1xH100" in file.read_text()
    said = refused(capsys, "--workload", trace, "--nodes", "4x1", "--report", str(tmp_path / "no" / "where.html"))
    assert "No such file or directory; choose another place" in said


def test_a_report_that_a_full_disk_does_not_take_is_named_and_the_figures_are_printed(trace, capsys, tmp_path):
    full = tmp_path / "report.html"
    full.symlink_to("/dev/full")
    arguments = ("simulate", "--workload", trace, "--nodes", "4x1", "--policy", "fifo", "--report", str(full))
    assert run(list(arguments)) is ExitCode.FAILED
    printed = capsys.readouterr()
    assert "fifo" in printed.out
    assert printed.err.startswith(f"pumice: {full}: No space left on device; ")


def test_where_a_report_cannot_be_written_nothing_is_simulated(trace, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(simulation.Simulation, "steps", lambda *_: pytest.fail("it ran"))
    refused(capsys, "--workload", trace, "--nodes", "4x1", "--report", str(tmp_path / "no" / "where.html"))


def test_pod_by_pod_gangs_that_are_not_whole_hold_what_they_have(capsys, tmp_path):
    """Two gangs of 30 come together to 40 slots: each holds 20, until one has lost its patience; without patience nobody ever starts."""
    trace = tmp_path / "two.swf"
    trace.write_text("1 0 -1 100 30\n2 0 -1 100 30\n")
    arguments = (
        "--workload",
        str(trace),
        "--nodes",
        "10x4",
        "--policy",
        "one-by-one",
        "--policy",
        "fifo",
        "-o",
        "json",
    )
    found = json.loads(answered(capsys, *arguments, "--gpu-price", "2"))["policies"]
    assert found["one-by-one"]["never_started"] == 0
    assert found["one-by-one"]["give_backs"] == 1
    assert found["one-by-one"]["deadlocked_s"] > 500
    assert found["one-by-one"]["blocked_gpu_h"] > found["fifo"]["blocked_gpu_h"] == 0
    assert found["one-by-one"]["idle_dollars"] > found["fifo"]["idle_dollars"]
    stuck = json.loads(answered(capsys, *arguments, "--give-back", "0"))["policies"]
    assert stuck["one-by-one"]["never_started"] == 2


def test_a_packed_trace_is_unpacked_and_a_damaged_one_is_named(capsys, tmp_path):
    packed = tmp_path / "trace.swf.gz"
    packed.write_bytes(gzip.compress(TRACE.encode()))
    arguments = ("--workload", str(packed), "--cluster", "4x1", "--policy", "fifo", "-o", "json")
    assert json.loads(answered(capsys, *arguments))["policies"]["fifo"]["mean_wait_s"] == 123.5
    packed.write_bytes(packed.read_bytes()[:-12])
    assert "trace.swf.gz: damaged gzip file" in refused(capsys, *arguments)


def test_what_is_left_out_of_a_trace_is_said(capsys, tmp_path):
    trace = tmp_path / "trace.swf"
    trace.write_text("1 0 -1 -5 3\n2 5 -1 5 3\n3 6 -1 5 0\n")
    assert run(["simulate", "--workload", str(trace), "--cluster", "4x1", "--policy", "fifo"]) is ExitCode.OK
    assert "trace.swf: 2 jobs left out: 2 that never ran" in capsys.readouterr().err


def test_jobs_that_the_cluster_has_no_room_for_are_left_out_and_counted_everywhere(trace, capsys, tmp_path):
    report = tmp_path / "report.html"
    arguments = ("--workload", trace, "--cluster", "3x1", "--policy", "fifo", "--report", str(report), "-o", "json")
    assert run(["simulate", *arguments]) is ExitCode.OK
    printed = capsys.readouterr()
    assert "trace.swf: 1 job left out: 1 that the cluster has no room for" in printed.err
    found = json.loads(printed.out)
    assert found["left_out"] == {"too_large": 1}
    assert (found["policies"]["fifo"]["jobs"], found["policies"]["fifo"]["never_started"]) == (3, 0)
    assert "3 jobs, 3 slots (1 job left out: 1 that the cluster has no room for)" in report.read_text()


def test_room_is_that_of_whole_pods(capsys, tmp_path):
    """Three pods of three slots ask for nine of ten, and each node of five has room for one of them."""
    file = tmp_path / "trace.csv"
    file.write_text("num_gpu,node_num,creation_time,duration\n9,3,0,100\n6,2,0,100\n")
    assert run(["simulate", "--workload", str(file), "--nodes", "2x5", "--policy", "fifo", "-o", "json"]) is ExitCode.OK
    found = json.loads(capsys.readouterr().out)
    assert found["left_out"] == {"too_large": 1}
    assert found["policies"]["fifo"]["never_started"] == 0


def test_a_list_of_nodes_is_a_cluster(capsys, tmp_path):
    nodes, trace = tmp_path / "nodes.csv", tmp_path / "trace.csv"
    nodes.write_text("sn,cpu_milli,memory_mib,gpu,model\na,64000,262144,2,P100\nb,96000,393216,8,\nc,1,1,0,\n")
    trace.write_text("num_gpu,creation_time,duration\n8,0,100\n2,0,100\n2,0,100\n")
    text = answered(
        capsys, "--workload", str(trace), "--cluster", str(nodes), "--policy", "fifo", "-o", "json", "--per-job"
    )
    found = json.loads(text)["policies"]["fifo"]
    assert [each["start_s"] for each in found["runs"]] == [0, 0, 100]
    nodes.write_text("sn,gpu\nc,0\n")
    assert "no node in it has GPUs" in refused(capsys, "--workload", str(trace), "--cluster", str(nodes))
    nodes.write_text("sn,gpu\na,2\na,2\n")
    assert "nodes.csv:3: node 'a' of 2 GPUs; expected up to 20000 nodes with different names" in refused(
        capsys, "--workload", str(trace), "--cluster", str(nodes)
    )


def test_a_log_of_philly_is_a_workload(capsys, tmp_path):
    log = tmp_path / "cluster_job_log.json"
    log.write_text(json.dumps(PHILLY))
    arguments = ("--workload", str(log), "--cluster", "2x8", "--policy", "fifo", "--per-job", "-o", "json")
    runs = json.loads(answered(capsys, *arguments))["policies"]["fifo"]["runs"]
    assert [(each["submit_s"], each["size"], each["end_s"]) for each in runs] == [(0, 2, 90)]
    log.write_text('[{"attempts": 7}]')
    assert "job 0: not as Philly's log has it" in refused(capsys, *arguments)


def test_a_workload_can_be_generated(capsys):
    arguments = ("--workload", "generated", "--jobs", "20", "--nodes", "2x4", "--policy", "easy", "-o", "json")
    found = json.loads(answered(capsys, *arguments))["policies"]["easy"]
    assert (found["jobs"], found["never_ended"]) == (20, 0)
    assert json.loads(answered(capsys, *arguments))["policies"]["easy"] == found


def test_ctrl_c_keeps_what_is_done(trace, capsys, monkeypatch):
    steps = simulation.Simulation.steps

    def cut_short(self, until_s=None):
        for number, step in enumerate(steps(self, until_s)):
            if number == 3:
                raise KeyboardInterrupt
            yield step

    monkeypatch.setattr(simulation.Simulation, "steps", cut_short)
    arguments = ["--workload", trace, "--cluster", "4x1", "--policy", "fifo", "-o", "json"]
    assert run(["simulate", *arguments]) is ExitCode.INTERRUPTED
    printed = capsys.readouterr()
    said = "pumice: cut short: fifo had come to day 0.0, 0 of 4 jobs had ended, and its figures are of those\n"
    assert printed.err == said
    found = json.loads(printed.out)["policies"]
    assert list(found) == ["fifo"]
    assert found["fifo"]["never_ended"] == 4
    assert found["fifo"]["cut_short_s"] == 3


def test_a_rhythm_gathers_what_happens_while_somebody_waits(trace, capsys):
    arguments = ("--workload", trace, "--cluster", "4x1", "--policy", "greedy", "--per-job", "-o", "json")
    runs = json.loads(answered(capsys, *arguments, "--rhythm", "60"))["policies"]["greedy"]["runs"]
    assert [each["start_s"] for each in runs] == [0, 121, 61, 221]


def test_side_by_side_each_policy_comes_to_what_it_comes_to_alone(trace, capsys):
    arguments = ("--workload", trace, "--cluster", "2x2", "--per-job", "-o", "json")
    policies = ("easy", "one-by-one", "fifo", "builtin")
    together = json.loads(answered(capsys, *arguments, *(word for each in policies for word in ("--policy", each))))
    assert list(together["policies"]) == list(policies)
    for each in policies:
        alone = json.loads(answered(capsys, *arguments, "--policy", each))
        assert together["policies"][each] == alone["policies"][each]


def test_what_goes_wrong_beside_others_is_told_as_it_is_alone(trace, capsys, monkeypatch):
    def fail(self, until_s=None):
        raise PumiceError("the plugin of mine: it does not simulate")

    monkeypatch.setattr(OneByOne, "steps", fail)
    arguments = ("--workload", trace, "--cluster", "4x1", "--policy", "one-by-one")
    alone = refused(capsys, *arguments, code=ExitCode.FAILED)
    assert refused(capsys, *arguments, "--policy", "easy", code=ExitCode.FAILED) == alone
    assert "the plugin of mine: it does not simulate" in alone


def test_a_process_that_dies_is_told(trace, capsys, monkeypatch):
    monkeypatch.setattr(OneByOne, "steps", lambda self: os._exit(9))
    arguments = ("--workload", trace, "--cluster", "4x1", "--policy", "one-by-one", "--policy", "easy")
    assert "a process that simulated has died" in refused(capsys, *arguments, code=ExitCode.FAILED)


def test_a_pod_that_is_larger_than_a_node_is_named(capsys, tmp_path):
    file = tmp_path / "trace.csv"
    file.write_text("num_gpu,creation_time,scheduled_time,deletion_time\n8,0,0,100\n")
    said = refused(capsys, "--workload", str(file), "--nodes", "4x4")
    assert "no job of the workload fits: the smallest wants 1 pod of 8 slots, and 4 nodes of up to 4 have 16" in said


DUMP = {
    "kind": "List",
    "items": [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n1"},
            "status": {"allocatable": {"nvidia.com/gpu": "4", "cpu": "8", "memory": "32Gi", "pods": "110"}},
        },
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": {"name": "research"},
            "spec": {"weight": 3},
            "status": {"state": "Open"},
        },
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": "train", "namespace": "team"},
            "spec": {"minMember": 1, "queue": "research"},
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "train-0",
                "namespace": "team",
                "annotations": {"scheduling.k8s.io/group-name": "train"},
            },
            "spec": {
                "schedulerName": "volcano",
                "containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "2"}}}],
            },
        },
    ],
}


@pytest.fixture
def dump(tmp_path):
    path = tmp_path / "dump.json"
    path.write_text(json.dumps(DUMP))
    return str(path)


def test_a_dump_is_a_workload_and_a_cluster(dump, capsys):
    text = answered(capsys, "--workload", dump, "--cluster", dump, "--run-time", "60", "--per-job", "-o", "json")
    found = json.loads(text)["policies"]["builtin"]
    assert found["makespan_s"] == 60
    assert [each["gang"] for each in found["runs"]] == ["team/train"]


@pytest.mark.parametrize("number", ["0", "1e308", "inf", "nan"])
@pytest.mark.parametrize("option", ["--run-time", "--load"])
def test_a_number_that_no_workload_can_have_is_refused(dump, capsys, option, number):
    error = refused(capsys, "--workload", dump, "--cluster", dump, option, number)
    assert f"Invalid value for '{option}'" in error


def test_what_if_there_were_more_nodes_stands_beside_what_is(trace, capsys):
    arguments = ("--workload", trace, "--cluster", "4x1", "--policy", "fifo", "--add-nodes", "4", "-o", "json")
    found = json.loads(answered(capsys, *arguments))["policies"]
    assert list(found) == ["fifo", "fifo +4 nodes"]
    assert found["fifo +4 nodes"]["mean_wait_s"] < found["fifo"]["mean_wait_s"]


def test_queues_are_weighed(trace, dump, capsys):
    for cluster in ("4x1", dump):
        assert answered(capsys, "--workload", trace, "--cluster", cluster, "--queue", "default=3", "--policy", "fifo")
    error = refused(capsys, "--workload", trace, "--cluster", "4x1", "--queue", "research")
    assert "--queue 'research': write NAME=WEIGHT, such as research=3" in error


def test_the_record_is_a_workload(tmp_path, capsys):
    url = f"sqlite:///{tmp_path}/record.db"
    store = Store(url)
    store.open()
    arguments = ("--workload", f"record:{url}", "--cluster", "4x1", "--policy", "fifo", "-o", "json")
    assert "no gang in the record held GPUs" in refused(capsys, *arguments)
    shapes = json.dumps([{"task": "w", "pods": 2, "resources": {"nvidia.com/gpu": 1.0}}])
    gang = rows.Gang(
        "u1", "Job", "team", "train", "ann", "research", "research", shapes, 2, 1000, 1000, 1010, 1110, "Completed", "", 1110
    )  # fmt: skip
    store.write([gang], now=1110)
    store.close()
    found = json.loads(answered(capsys, *arguments, "--per-job"))["policies"]["fifo"]
    assert [(each["size"], each["start_s"], each["end_s"]) for each in found["runs"]] == [(2, 0, 100)]

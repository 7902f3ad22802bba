"""What `pumice simulate` is given: files that are not what their names say."""

import gzip
import json

import pytest
from tests.unit.cli.test_simulate import DUMP, answered, refused

from pumice.cli.main import ExitCode


@pytest.mark.parametrize("head", ["a,b,c", "submit_time,duration", "gpu_num,duration"])
def test_a_csv_without_the_columns_of_a_gpu_trace_is_told_which_those_are(capsys, tmp_path, head):
    file = tmp_path / "trace.csv"
    file.write_text(f"{head}\n1,2,3\n")
    error = refused(capsys, "--workload", str(file), "--cluster", "4x1")
    assert f"its first line is '{head}'; the CSV of a GPU trace has columns such as submit_time, gpu_num and" in error


def test_a_comment_with_commas_begins_a_trace_all_the_same(capsys, tmp_path):
    file = tmp_path / "trace.swf"
    file.write_text("; one, two\n1 nan -1 100 3\n")
    assert "trace.swf:2: a field is no finite number" in refused(capsys, "--workload", str(file), "--cluster", "4x1")


def test_the_head_of_a_trace_may_stand_in_quotes(capsys, tmp_path):
    file = tmp_path / "trace.csv"
    file.write_bytes(b'\xef\xbb\xbf"gpu_num","submit_time","duration"\r\n"2","0","60"\r\n')
    found = json.loads(answered(capsys, "--workload", str(file), "--cluster", "1x4", "-o", "json"))
    assert found["policies"]["builtin"]["makespan_s"] == 60


@pytest.mark.parametrize(
    "head", ["gpu_num;submit_time;duration", "gpu_num\tsubmit_time\tduration", "apiVersion: v1", '{"kind": "List"}']
)
def test_a_file_that_is_no_trace_is_told_what_a_trace_begins_with(capsys, tmp_path, head):
    """Most often it is a table with other signs between its columns, or a dump under another name."""
    file = tmp_path / "trace.txt"
    file.write_text(f"{head}\n1;2;3\n")
    error = refused(capsys, "--workload", str(file), "--cluster", "4x1")
    assert f"its first line is {head!r}; " in error
    assert "with commas between them" in error
    assert "the name of a dump ends in .yaml or .json" in error


def test_a_cluster_that_is_neither_says_what_files_are_called(capsys, tmp_path):
    dump = tmp_path / "dump.txt"
    dump.write_text(json.dumps(DUMP))
    error = refused(capsys, "--workload", "generated", "--cluster", str(dump))
    assert f"--cluster {str(dump)!r}: write NODESxSLOTS" in error
    assert "or name a dump (.yaml, .json) or a list of nodes (.csv, .csv.gz)" in error


def test_a_dump_is_known_by_the_end_of_its_name_in_any_letters(capsys, tmp_path):
    dump = tmp_path / "DUMP.JSON"
    dump.write_text(json.dumps(DUMP))
    found = json.loads(answered(capsys, "--workload", str(dump), "--cluster", str(dump), "-o", "json"))
    assert found["policies"]["builtin"]["jobs"] == 1


def test_a_list_of_nodes_may_be_packed(capsys, tmp_path):
    nodes = tmp_path / "nodes.csv.gz"
    nodes.write_bytes(gzip.compress(b"sn,gpu\na,4\nb,4\n"))
    arguments = ("--workload", "generated", "--jobs", "5", "--cluster", str(nodes), "-o", "json")
    assert json.loads(answered(capsys, *arguments))["policies"]["builtin"]["jobs"] == 5


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("lines", [["1 0 -1 10 1", "2 0 -1 10 1"], ["gpus,submit_time,duration", "1,0,10", "1,0,10"]])
def test_lines_end_as_on_any_system(capsys, tmp_path, lines, end):
    """Two jobs of a trace were one, whose other fields nobody reads."""
    file = tmp_path / "trace"
    file.write_bytes("".join(f"{line}{end}" for line in lines).encode())
    found = json.loads(answered(capsys, "--workload", str(file), "--cluster", "1x4", "-o", "json"))
    assert found["policies"]["builtin"]["jobs"] == 2


def test_a_queue_with_two_weights_is_refused(capsys):
    arguments = ("--workload", "generated", "--jobs", "5", "--cluster", "2x8", "--queue", "default=1", "--queue")
    assert "--queue default: it is given the weights 1 and 2; give one of them" in refused(
        capsys, *arguments, "default=2"
    )
    answered(capsys, *arguments, "default=1")


def test_a_record_of_an_unknown_kind_is_named_by_its_option(capsys):
    error = refused(capsys, "--workload", "record:oracle://db", "--cluster", "2x8")
    assert "--workload record: 'oracle://db': no such kind of record; write sqlite:///" in error


def test_a_record_whose_file_is_called_like_a_dump_is_a_record(capsys, tmp_path):
    arguments = ("--workload", f"record:sqlite:///{tmp_path}/record.json", "--cluster", "2x8")
    assert "there is no such file" in refused(capsys, *arguments, code=ExitCode.NOT_FOUND)


def test_gangs_of_a_dump_that_ask_for_no_gpu_are_counted(capsys, tmp_path):
    plain = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "plain", "namespace": "team"},
        "spec": {"schedulerName": "volcano", "containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]},
    }  # fmt: skip
    dump = tmp_path / "dump.json"
    dump.write_text(json.dumps({"kind": "List", "items": [*DUMP["items"], plain]}))
    found = json.loads(answered(capsys, "--workload", str(dump), "--cluster", "2x8", "-o", "json"))
    assert found["left_out"] == {"no_gpu": 1}

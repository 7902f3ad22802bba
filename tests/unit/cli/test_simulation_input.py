"""What `pumice simulate` is given: files that are not what their names say."""

import pytest
from tests.unit.cli.test_simulate import refused


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

"""What a trace says, and what is wrong with one that says nothing."""

import pytest

from pumice.errors import BadInput
from pumice.sim import nodes, read_swf
from pumice.sim.workload import Submission

TRACE = """\
; Version: 2
; a comment, and an empty line

1    100 -1   60  4 -1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1
2     50 -1   30  1 -1 -1  1 90 -1 1  7 -1 -1 0 -1 -1 -1
3     70 -1   -1  1 -1 -1 -1 -1 -1 5 -1 -1 -1 0 -1 -1 -1
4     80 -1   10 -1 -1 -1  8 -1 -1 1 -1 -1 -1 0 -1 -1 -1
"""


def test_jobs_come_in_order_of_submission_and_cancelled_ones_not_at_all():
    assert read_swf(TRACE.splitlines(), "trace") == [
        Submission(at_s=50, run_s=30, size=1, estimate_s=90, user="user-7"),
        Submission(at_s=80, run_s=10, size=8, estimate_s=10),
        Submission(at_s=100, run_s=60, size=4, estimate_s=60),
    ]


def test_a_part_of_a_trace_are_its_first_jobs():
    assert [each.at_s for each in read_swf(TRACE.splitlines(), "trace", most=2)] == [50, 100]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("1 2 x 4 5", "trace:1: could not convert string to float: 'x'"),
        ("1 2 3", "trace:1: 3 fields; the Standard Workload Format has 18 numbers a line"),
        ("1 nan 3 4 5", "trace:1: a field is no finite number"),
        ("1 1e30 3 4 5", "trace:1: times may be 0 to"),
        ("1 -5 3 4 5", "trace:1: times may be 0 to"),
        ("1 5 3 4 1e9", "processors; is this line damaged?"),
        ("1 5 3 4 5 -1 -1 5 1e308", "trace:1: times may be 0 to"),
    ],
)
def test_a_line_that_is_no_job_is_named(line, says):
    with pytest.raises(BadInput) as told:
        read_swf([line], "trace")
    assert says in str(told.value)


def test_a_part_of_a_processor_counts_as_a_whole_one():
    assert [each.size for each in read_swf(["1 0 -1 60 0.5", "2 0 -1 60 2.5"], "trace")] == [1, 3]


def test_a_cluster_is_written_as_nodes_times_slots():
    found = nodes("3x8")
    assert [node.metadata.name for node in found] == ["node-00000", "node-00001", "node-00002"]
    assert found[0].status.allocatable["nvidia.com/gpu"] == "8"


@pytest.mark.parametrize("text", ["", "8", "8x", "x8", "0x8", "8x0", "-1x8", "8x8x8", "99999999x1", "1x99999", "1 x 8"])
def test_a_cluster_that_cannot_be_read_is_refused(text):
    with pytest.raises(BadInput, match="write NODESxSLOTS, such as 32x8"):
        nodes(text)

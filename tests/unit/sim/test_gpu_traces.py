"""Public GPU traces: which columns are understood, and what is wrong with a file that says nothing."""

import json
from collections import Counter
from pathlib import Path

import pytest

from pumice.errors import BadInput
from pumice.sim.gpu_traces import is_gpu_trace, is_philly, read_csv, read_philly
from pumice.sim.workload import Submission

ALIBABA = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
pod-0,12000,16384,1,460,,LS,Running,100,700,130
pod-1,12000,16384,0,0,,LS,Running,100,700,130
pod-2,12000,16384,8,1000,,BE,Running,90,95,
pod-3,12000,16384,8,1000,,BE,Running,90,1090,90
"""
HELIOS = """\
job_id,user,vc,jobname,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue
7,u1,vc2,j,16,64,2,COMPLETED,2020-04-01 00:00:10,2020-04-01 00:00:20,2020-04-01 00:01:20,60,10
8,u2,vc3,j,0,4,1,COMPLETED,2020-04-01 00:00:00,2020-04-01 00:00:20,2020-04-01 00:01:20,60,10
9,u2,vc3,j,2,4,1,FAILED,2020-04-01 00:00:00,2020-04-01 00:00:20,2020-04-01 00:00:25,5,10
"""
ACME = """\
job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time
dlc1,u1,2,16,256,LLM,COMPLETED,2023-05-17 11:00:00+00:00,2023-05-17 11:00:30+00:00,2023-05-17 11:10:30+00:00,600.0,30.0,9600.0
dlc2,u2,1,1,8,Evaluation,FAILED,2023-05-17 19:00:00+08:00,2023-05-17 19:00:00+08:00,2023-05-17 19:00:09+08:00,9.0,0.0,9.0
"""
PHILLY = [
    {
        "status": "Pass", "vc": "ee9e8c", "jobid": "application_1", "submitted_time": "2017-10-07 02:13:28", "user": "ce2f04",
        "attempts": [
            {"start_time": "2017-10-07 02:14:00", "end_time": "2017-10-07 02:14:30", "detail": [{"ip": "m1", "gpus": ["gpu0"]}]},
            {"start_time": "2017-10-07 02:15:00", "end_time": "2017-10-07 02:16:00", "detail": [{"ip": "m1", "gpus": ["gpu0", "gpu1"]}, {"ip": "m2", "gpus": ["gpu0", "gpu1"]}]},
        ],
    },
    {"status": "Killed", "vc": "ee9e8c", "jobid": "application_2", "attempts": [], "submitted_time": "2017-10-07 02:13:20", "user": "ce2f04"},
    {
        "status": "Failed", "vc": "6214e9", "jobid": "application_3", "submitted_time": "None", "user": "ce2f04",
        "attempts": [{"start_time": "None", "end_time": None, "detail": [{"ip": "m1", "gpus": ["gpu0"]}]}],
    },
]  # fmt: skip
SHARED = Path(__file__).parents[3].parent / "shared" / "traces" / "openb_pods.csv"


def test_pods_of_alibaba_come_in_order_run_from_their_start_and_those_without_gpus_or_a_start_not_at_all():
    assert read_csv(ALIBABA.splitlines(), "trace") == [
        Submission(at_s=0, run_s=1000, slots=8, estimate_s=1000),
        Submission(at_s=10, run_s=570, slots=1, estimate_s=570),
    ]


def test_a_job_of_helios_is_a_gang_of_one_pod_a_node():
    assert read_csv(HELIOS.splitlines(), "trace") == [
        Submission(at_s=0, run_s=5, size=1, slots=2, user="u2", queue="vc3", estimate_s=5),
        Submission(at_s=10, run_s=60, size=2, slots=8, user="u1", queue="vc2", estimate_s=60),
    ]


def test_a_queue_that_is_a_number_is_a_waiting_time_and_dates_have_zones():
    """Acme's column `queue` has seconds; both jobs come at 11:00 UTC."""
    assert read_csv(ACME.splitlines(), "trace") == [
        Submission(at_s=0, run_s=600, size=2, slots=8, user="u1", estimate_s=600),
        Submission(at_s=0, run_s=9, size=1, slots=1, user="u2", estimate_s=9),
    ]


def test_a_job_of_philly_is_a_gang_of_one_pod_on_each_node_of_its_last_attempt_for_as_long_as_all_ran():
    left_out = Counter()
    assert read_philly(PHILLY, "log", left_out=left_out) == [
        Submission(at_s=0, run_s=90, size=2, slots=2, user="ce2f04", queue="ee9e8c", estimate_s=90),
    ]
    assert left_out == {"no_gpu": 1, "never_ran": 1}
    assert is_philly(json.dumps(PHILLY))
    assert not is_philly(ALIBABA)


@pytest.mark.parametrize("log", [{}, [7], [{"attempts": [{"detail": 7}]}], [{"attempts": [7]}]])
def test_a_log_that_is_not_as_philly_writes_it_is_bad_input(log):
    with pytest.raises(BadInput, match="log: "):
        read_philly(log, "log")


def test_what_is_left_out_is_counted():
    left_out = Counter()
    read_csv(ALIBABA.splitlines(), "trace", left_out=left_out)
    assert left_out == {"no_gpu": 1, "never_ran": 1}


def test_such_a_trace_is_known_by_its_head():
    assert is_gpu_trace(ALIBABA.partition("\n")[0])
    assert is_gpu_trace(HELIOS.partition("\n")[0])
    assert is_gpu_trace('"job_id","gpu_num","submit_time"')  # as spreadsheets write it
    assert not is_gpu_trace('"' + "a" * 200_000)
    assert not is_gpu_trace("1 100 -1 60 4 -1")
    assert not is_gpu_trace("a,b,c")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("x,1,1,many,1,,LS,Running,1,2,1", "trace:2: num_gpu is 'many'; expected a number"),
        ("x,1,1,1,1,,LS,Running,yesterday,2,1", "trace:2: creation_time is 'yesterday'; expected seconds or a date"),
        ("x,1,1,1,1,,LS,Running,inf,2,1", "trace:2: creation_time is 'inf'"),
        ("x,1,1,1,1,,LS,Running,0,1e30,1", "is this line damaged?"),
    ],
)
def test_a_damaged_line_is_named(line, says):
    with pytest.raises(BadInput, match=says.replace("?", r"\?")):
        read_csv([ALIBABA.partition("\n")[0], line], "trace")


def test_a_file_that_is_no_csv_after_some_lines_is_named_with_the_last_good_one():
    lines = ["submit_time,gpus,duration", "1,1,5", f'"{"a" * 200_000}",1,5']
    with pytest.raises(BadInput, match="trace:2: after this line no CSV: field larger than field limit"):
        read_csv(lines, "trace")


def test_a_quote_that_nobody_closes_hides_no_rows():
    """Without a word all that follows would be one field."""
    with pytest.raises(BadInput, match="trace:2: after this line no CSV: unexpected end of data"):
        read_csv(["submit_time,gpus,duration", "1,1,5", '"2,1,5', "3,1,5"], "trace")


def test_a_line_is_named_by_its_number_in_the_file():
    with pytest.raises(BadInput, match="trace:5: gpus is 'many'"):
        read_csv(["submit_time,gpus,duration", "", "1,1,5", "", "2,many,5"], "trace")


def test_two_jobs_that_lie_more_than_a_hundred_years_apart_are_a_damaged_line():
    with pytest.raises(BadInput, match=r"trace: the last job was submitted .* s after the first one"):
        read_csv(["submit_time,gpus,duration", "0001-01-01,1,5", "9999-12-31,1,5"], "trace")


@pytest.mark.skipif(not SHARED.exists(), reason="the published trace is not here")
def test_the_published_trace_reads():
    with SHARED.open() as lines:
        found = read_csv(lines, "openb_pods.csv")
    assert len(found) > 6000
    assert max(each.slots for each in found) == 8

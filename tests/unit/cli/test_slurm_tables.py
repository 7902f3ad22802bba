"""Jobs, queues and nodes in Slurm's words."""

import json

import pytest

from pumice import instant
from pumice.api import decoding, names
from pumice.api.batch import Job, JobPhase
from pumice.api.pods import Pod
from pumice.api.scheduling import PodGroup, Queue
from pumice.cli import slurm_tables
from pumice.cli.room import NodeRoom
from pumice.readmodel import model

NOW = instant.parse_instant("2026-03-28T12:00:00Z")


def a_job(
    name="train", phase="Running", *, reason="", replicas=2, annotations=None, conditions=(), at="2026-03-28T11:59:00Z"
):
    state = {"phase": phase, "reason": reason, "lastTransitionTime": at}
    body = {
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"u-{name}",
            "creationTimestamp": "2026-03-28T10:00:00Z",
            "annotations": annotations or {},
        },
        "spec": {"queue": "research", "minAvailable": replicas, "tasks": [{"name": "worker", "replicas": replicas}]},
        "status": {"state": state, "conditions": list(conditions)},
    }
    return decoding.decode_value(Job, body)


def owned(name):
    owner = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "name": name,
        "uid": f"u-{name}",
        "controller": True,
    }
    return [owner]


def a_pod(index, node, started="2026-03-28T10:30:00Z", *, job="train", phase="Running"):
    metadata = {"name": f"{job}-{index}", "namespace": "team", "uid": f"p{index}", "ownerReferences": owned(job)}
    status = {"phase": phase, **({"startTime": started} if started else {})}
    return decoding.decode_value(Pod, {"metadata": metadata, "spec": {"nodeName": node}, "status": status})


def a_group(job="train", *, annotations=None, conditions=()):
    metadata = {
        "name": f"{job}-g",
        "namespace": "team",
        "ownerReferences": owned(job),
        "annotations": annotations or {},
    }
    status = {"phase": "Inqueue", "conditions": list(conditions)}
    return decoding.decode_value(PodGroup, {"metadata": metadata, "spec": {"minMember": 2}, "status": status})


def table(jobs, groups=(), pods=(), *, starts=False, everywhere=False):
    rows = slurm_tables.queue_rows(jobs, groups, pods, NOW)
    return [" ".join(cells) for cells in slurm_tables.queue_table(rows, starts=starts, everywhere=everywhere)]


def test_a_job_that_runs_has_its_time_its_limit_and_its_nodes():
    job = a_job(annotations={names.TIME_LIMIT: "26h", names.SUBMITTED_BY: "alice"})
    pods = [a_pod(0, "gpu-1"), a_pod(1, "gpu-2", "2026-03-28T10:31:00Z")]
    assert table([job], [a_group()], pods) == [
        "JOBID PARTITION USER ST TIME TIME_LIMIT PODS NODES NODELIST(REASON)",
        "train research alice R 1:29:00 1-02:00:00 2 2 gpu-[1-2]",
    ]
    assert table([job], [a_group()], pods, everywhere=True)[1].startswith("team train ")


def test_a_job_that_waits_has_the_code_of_its_first_reason():
    verdict = {
        "reasons": [
            {"code": "QueueLimit", "plugin": "capacity", "reason": "full"},
            {"code": "Room", "plugin": "x", "reason": ""},
        ]
    }
    group = a_group(annotations={names.VERDICT: json.dumps(verdict)})
    assert table([a_job(phase="Pending")], [group])[1] == "train research team PD 0:00 UNLIMITED 2 0 (QueueLimit)"
    condition = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources"}
    assert table([a_job(phase="Pending")], [a_group(conditions=[condition])])[1].endswith("(NotEnoughResources)")
    assert table([a_job(phase="Pending")], [a_group(annotations={names.VERDICT: "{"})])[1].endswith("(NotLookedAtYet)")
    assert table([a_job(phase="")])[1].endswith("(NoPodGroup)")


def test_when_a_job_will_start_is_what_its_reservation_says_or_is_not_known():
    def line(annotations):
        return table([a_job(phase="Pending")], [a_group(annotations=annotations)], starts=True)[1]

    reserved = json.dumps({"time": "2026-03-28T14:00:00Z", "nodes": 2})
    assert line({names.RESERVATION: reserved}) == "train research team PD 2026-03-28T14:00:00Z 2 0 (NotLookedAtYet)"
    assert line({}).startswith("train research team PD n/a (no reservation and no forecast yet) ")
    assert line({names.RESERVATION: "soon"}).startswith("train research team PD n/a (its reservation cannot be read) ")


@pytest.mark.parametrize(
    ("p50", "expected"),
    [
        ("2026-03-28T14:00:00Z", "2026-03-28T14:00:00Z (likely)"),
        ("", "n/a (not within a week, as far as is known)"),
    ],
)
def test_a_start_that_is_only_foreseen_is_marked_and_one_that_is_not_says_so(p50, expected):
    rows = slurm_tables.queue_rows([a_job(phase="Pending")], [a_group()], [], NOW)
    told = model.Forecast("2026-03-28T12:00:00Z", p50)
    gang = model.Gang(
        "team/train-g", "team", "train-g", "research", "Pending", model.Members(minimum=2), job="train", forecast=told
    )
    (_, line) = slurm_tables.queue_table(slurm_tables.with_forecasts(rows, [gang]), starts=True, everywhere=False)
    assert expected in line


@pytest.mark.parametrize("phase", JobPhase)
def test_every_phase_has_a_word(phase):
    assert slurm_tables.state_of(a_job(phase=phase.value)) in slurm_tables.LONG_STATES.values()


def test_a_job_that_ran_out_of_time_is_told_from_one_that_was_cancelled():
    running = [{"status": "Running", "lastTransitionTime": "2026-03-28T11:00:00Z"}]
    job = a_job(phase="Terminated", reason="TimeLimitExceeded", conditions=running)
    assert table([job])[1] == "train research team TO 59:00 UNLIMITED 2 0 (TimeLimitExceeded)"
    assert slurm_tables.state_of(a_job(phase="Terminated", reason="CommandIssued")) == "CA"


def test_who_runs_comes_before_who_waits():
    jobs = [a_job("c", "Pending"), a_job("b"), a_job("a", "Pending")]
    assert [line.split()[0] for line in table(jobs)[1:]] == ["b", "a", "c"]


def test_the_pods_of_others_are_not_a_jobs():
    assert table([a_job()], [], [a_pod(0, "n1", job="other")])[1].endswith("0 ()")


# ---------------------------------------------------------------------------------------------------------------- nodes


@pytest.mark.parametrize(
    ("state", "used", "free", "wanted"),
    [
        ("Ready", 0, 8, "idle"),
        ("Ready", 3, 5, "mix"),
        ("Ready", 8, 0, "alloc"),
        ("Ready,Tainted", 0, 8, "idle"),
        ("Ready,SchedulingDisabled", 0, 0, "drain"),
        ("Ready,SchedulingDisabled", 2, 0, "drng"),
        ("NotReady", 0, 0, "down"),
        ("Unknown", 1, 0, "down"),
    ],
)
def test_nodes_have_slurms_states(state, used, free, wanted):
    assert slurm_tables.node_state(NodeRoom("n", state, 8, used, free, 0, 0)) == wanted


def a_queue(name, state="Open", parent="root"):
    body = {"metadata": {"name": name}, "spec": {"parent": parent}, "status": {"state": state}}
    return decoding.decode_value(Queue, body)


def test_queues_that_take_jobs_are_partitions_over_all_nodes():
    queues = [a_queue("default"), a_queue("root", parent=""), a_queue("dept"), a_queue("team", "Closed", "dept")]
    rows = slurm_tables.partition_rows(queues, {"gpu-1": "idle", "gpu-2": "mix", "gpu-3": "idle"})
    assert [" ".join(cells) for cells in slurm_tables.partition_table(rows)] == [
        "PARTITION AVAIL TIMELIMIT NODES STATE NODELIST",
        "default* up infinite 2 idle gpu-[1,3]",
        "default* up infinite 1 mix gpu-2",
        "team down infinite 2 idle gpu-[1,3]",
        "team down infinite 1 mix gpu-2",
    ]


def test_a_cluster_without_nodes_still_has_its_queues():
    rows = slurm_tables.partition_rows([a_queue("default")], {})
    assert slurm_tables.partition_table(rows)[1] == ("default*", "up", "infinite", "0", "n/a", "")


# ---------------------------------------------------------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("seconds", "wanted"),
    [(0, "0:00"), (303, "5:03"), (7_200, "2:00:00"), (302_400, "3-12:00:00"), (-5, "0:00")],
)
def test_times_are_written_as_slurm_writes_them(seconds, wanted):
    assert slurm_tables.slurm_time(seconds) == wanted


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        ((), []),
        (("a",), ["a"]),
        (("gpu-1", "gpu-2", "gpu-3", "gpu-7"), ["gpu-[1-3,7]"]),
        (("n08", "n09", "n10"), ["n[08-10]"]),
        (("n9", "n10"), ["n[9-10]"]),
        (("n1", "n01"), ["n[01,1]"]),
        (("x1y", "b2"), ["b2", "x1y"]),
    ],
)
def test_names_are_folded_into_ranges(found, wanted):
    assert slurm_tables.ranges_of_names(found) == wanted


def test_very_many_names_are_counted():
    found = slurm_tables.ranges_of_names([f"{chr(97 + number)}x" for number in range(20)])
    assert found[-1] == "and 8 more"

"""When a running Job is over, and how."""

import pytest
from tests.unit.controllers.job.literals import NOW, a_command, a_job, a_pod, a_task, fitting_group, gang, told

from pumice.controllers.job.status import STARTING_S, WAITING_S


def pods(**phases):
    """`worker="SSF"`: three workers, two succeeded and one failed; R runs, P is pending."""
    words = {"S": "Succeeded", "F": "Failed", "R": "Running", "P": "Pending"}
    return [
        a_pod(task, index, words[letter]) for task, letters in phases.items() for index, letter in enumerate(letters)
    ]


@pytest.mark.parametrize(
    ("spec", "workers", "then"),
    [
        ({}, "SSSS", "Completed"),
        ({}, "SSSR", "Running"),
        ({}, "SSSF", "Failed"),  # the task needs all of its pods to succeed
        ({"minSuccess": 2}, "SSRR", "Completed"),  # what still runs is killed
        ({"minSuccess": 2}, "SFRR", "Running"),
        ({"minSuccess": 3}, "SSFF", "Failed"),
        ({"minAvailable": 2, "task": 2}, "SSFF", "Completed"),
        ({"minAvailable": 2, "task": 2}, "SFFF", "Failed"),
        ({"minAvailable": 3, "task": 2}, "SSFF", "Failed"),  # enough for the task, too few for the Job
        (
            {"minAvailable": 2, "task": 3},
            "SSFF",
            "Completed",
        ),  # the Job asks for less than the task: only the Job counts
        ({"minAvailable": 3, "task": 3}, "PPRR", "Pending"),  # too many wait for the minimum to run
        ({"minAvailable": 2, "task": 2}, "PPRR", "Running"),
    ],
)
def test_a_running_job(spec, workers, then):
    spec = dict(spec)
    task = a_task("worker", 4, minAvailable=spec.pop("task", 4))
    assert told(a_job(task, **spec), *pods(worker=workers)).phase == then


def test_a_job_that_failed_by_itself_says_who_failed_first():
    ended = [
        a_pod("worker", 0, "Failed", exit_code=1, finished="2026-03-01T12:50:05Z"),
        a_pod("worker", 1, "Failed", exit_code=137, finished="2026-03-01T12:50:00Z"),
        a_pod("worker", 2, "Succeeded"),
    ]
    state = told(a_job(a_task("worker", 3)), *ended).job.status.state
    assert (state.reason, state.message) == (
        "PodFailed",
        "2 of 3 pods failed, pod train-worker-1 first: exit code 137",
    )


def test_every_task_must_have_succeeded_where_the_job_needs_all_of_them():
    tasks = [a_task("ps", 1), a_task("worker", 2)]
    assert told(a_job(*tasks), *pods(ps="S", worker="SF")).phase == "Failed"
    assert told(a_job(*tasks), *pods(ps="S", worker="SS")).phase == "Completed"


def test_a_job_scaled_to_nothing_keeps_its_phase():
    assert told(a_job(a_task("worker", 0), minAvailable=0)).phase == "Running"


def test_counters_of_a_finished_job_stay_though_its_pods_are_deleted_later():
    completed = told(a_job(a_task("worker", 2)), *pods(worker="SS"))
    assert completed.phase == "Completed"
    later = told(completed.job, group=None)
    assert later.patch is None
    assert later.job.status.succeeded == 2
    assert later.job.status.task_status_count["worker"].phase == {"Succeeded": 2}


def test_a_job_that_completed_early_counts_until_its_last_pod_is_gone():
    completed = told(a_job(a_task("worker", 3), minSuccess=1), *pods(worker="SRR"))
    assert (completed.phase, completed.killed) == ("Completed", set())
    killing = told(completed.job, *pods(worker="SRR"))
    assert killing.killed == {"worker-1", "worker-2"}
    assert killing.loses_group
    assert (killing.job.status.terminating, killing.job.status.running) == (2, 0)
    gone = told(killing.job, *pods(worker="S"), group=None)
    assert (gone.job.status.terminating, gone.job.status.succeeded) == (0, 1)


def test_times_move_with_phases_and_not_with_counters():
    job = a_job(minAvailable=2)
    found = told(job, *gang(worker2=a_pod("worker", 2, "Failed")))
    assert found.job.status.failed == 1
    assert not found.patch.hurry
    assert found.job.status.state.last_transition_time == "2026-03-01T12:00:00Z"
    completed = told(a_job(a_task("worker", 1)), *pods(worker="S"))
    assert completed.patch.hurry
    assert completed.job.status.state.last_transition_time == "2026-03-01T13:00:00Z"


@pytest.mark.parametrize(
    ("phase", "conditions", "then_s"),
    [
        ("Inqueue", [], STARTING_S),  # its pods come, or are being placed: Running will say it all
        ("Running", [{"type": "Scheduled", "status": "True"}], STARTING_S),  # they are bound, and not running yet
        ("Inqueue", [{"type": "Unschedulable", "status": "True", "message": "no room"}], WAITING_S),
        ("Inqueue", [{"type": "Unschedulable", "status": "False"}], STARTING_S),
    ],
)
def test_what_a_pending_job_counts_is_told_soon_where_its_gang_is_told_to_wait(phase, conditions, then_s):
    job = a_job(a_task("worker", 2), phase="Pending")
    found = told(job, *pods(worker="PP"), group=fitting_group(job, phase, conditions=conditions))
    assert (found.patch.hurry, found.patch.patience_s) == (False, then_s)


def test_whoever_leaves_the_roll_leaves_it_at_once_and_whoever_joins_may_wait():
    """A pod that was scaled away and is wanted again must not be missed meanwhile."""
    roll = {"members": {"worker": "0-2"}}
    smaller = told(a_job(a_task("worker", 2), progress=roll), *[a_pod("worker", index) for index in range(3)])
    assert smaller.progress.members == {"worker": "0-1"}
    assert smaller.patch.hurry
    larger = told(a_job(a_task("worker", 4), progress=roll), *[a_pod("worker", index) for index in range(4)])
    assert larger.progress.members == {"worker": "0-3"}
    assert not larger.patch.hurry


def test_conditions_list_each_phase_once_with_its_last_time():
    job = a_job(phase="Running")
    restarting = told(job, *gang(), commands=[a_command("RestartJob")]).job
    pending = told(restarting, group=None, now=NOW + 10**9).job
    fresh = [a_pod("master", 0, version=1), *(a_pod("worker", index, version=1) for index in range(3))]
    running = told(pending, *fresh, now=NOW + 60 * 10**9).job
    assert [(each.status, each.last_transition_time) for each in running.status.conditions] == [
        ("Restarting", "2026-03-01T13:00:00Z"),
        ("Pending", "2026-03-01T13:00:01Z"),
        ("Running", "2026-03-01T13:01:00Z"),
    ]


def test_the_running_duration_is_written_when_the_job_is_over_and_stays():
    completed = told(a_job(a_task("worker", 1)), *pods(worker="S"))
    assert completed.job.status.running_duration == "1h0m0s"
    assert told(completed.job, group=None).job.status.running_duration == "1h0m0s"
    assert told(a_job(), *gang()).job.status.running_duration is None


def test_pods_that_leave_count_as_nothing_else():
    found = told(a_job(minAvailable=1), *gang(worker1=a_pod("worker", 1, leaving=True)))
    status = found.job.status
    assert (status.running, status.terminating) == (3, 1)
    assert {task: state.phase for task, state in status.task_status_count.items()} == {
        "master": {"Running": 1},
        "worker": {"Running": 2},
    }


def test_a_pod_in_a_strange_phase_counts_as_unknown():
    found = told(a_job(minAvailable=1), *gang(worker1=a_pod("worker", 1, "Unknown")))
    assert (found.job.status.running, found.job.status.unknown) == (3, 1)


def test_a_status_that_is_right_is_not_written():
    found = told(a_job(), *gang())
    again = told(found.job, *gang())
    assert again.operations == []

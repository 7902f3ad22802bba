"""The whole table of phase x action, as a table: what the Job becomes, what it costs, and whom it kills."""

import msgspec
import pytest
from tests.unit.controllers.job.literals import UID, a_command, a_group, a_job, a_pod, a_task, gang, told

from pumice.api.batch import Action, JobPhase
from pumice.api.pods import Pod
from pumice.controllers.operations import Delete

# A master and three workers: worker 1 has succeeded, worker 2 has failed, and no policy cares.
PODS = gang(worker1=a_pod("worker", 1, "Succeeded"), worker2=a_pod("worker", 2, "Failed"))
KILLS = {
    "all": {"master-0", "worker-0", "worker-1", "worker-2"},
    "unfinished": {"master-0", "worker-0"},
    "task": {"worker-0", "worker-1", "worker-2"},
    "partition": {"worker-2"},
    "pod": {"worker-2"},
    "-": set(),
}

BY_COMMAND = """
phase       action            to           retry version kills       group
(empty)     RestartJob        Restarting   +1    +1      all         gone
(empty)     AbortJob          Aborting     0     +1      unfinished  gone
(empty)     TerminateJob      Terminating  0     +1      unfinished  gone
(empty)     CompleteJob       Completing   0     +1      unfinished  gone
(empty)     ResumeJob         Running      0     0       -           stays
(empty)     RestartTask       Running      0     0       -           stays
(empty)     RestartPod        Running      0     0       -           stays
(empty)     RestartPartition  Running      0     0       -           stays
(empty)     SyncJob           Running      0     0       -           stays
(empty)     EnqueueJob        Running      0     0       -           stays
(empty)     Frobnicate        Running      0     0       -           stays
Pending     RestartJob        Restarting   +1    +1      all         gone
Pending     AbortJob          Aborting     0     +1      unfinished  gone
Pending     TerminateJob      Terminating  0     +1      unfinished  gone
Pending     CompleteJob       Completing   0     +1      unfinished  gone
Pending     ResumeJob         Running      0     0       -           stays
Pending     RestartTask       Running      0     0       -           stays
Pending     RestartPod        Running      0     0       -           stays
Pending     RestartPartition  Running      0     0       -           stays
Pending     SyncJob           Running      0     0       -           stays
Pending     EnqueueJob        Running      0     0       -           stays
Pending     Frobnicate        Running      0     0       -           stays
Running     RestartJob        Restarting   +1    +1      all         gone
Running     AbortJob          Aborting     0     +1      unfinished  gone
Running     TerminateJob      Terminating  0     +1      unfinished  gone
Running     CompleteJob       Completing   0     +1      unfinished  gone
Running     ResumeJob         Running      0     0       -           stays
Running     RestartTask       Running      0     0       -           stays
Running     RestartPod        Running      0     0       -           stays
Running     RestartPartition  Running      0     0       -           stays
Running     SyncJob           Running      0     0       -           stays
Running     EnqueueJob        Running      0     0       -           stays
Running     Frobnicate        Running      0     0       -           stays
Restarting  RestartJob        Restarting   0     +1      all         gone
Restarting  AbortJob          Aborting     0     +1      unfinished  gone
Restarting  TerminateJob      Terminating  0     +1      unfinished  gone
Restarting  CompleteJob       Completing   0     +1      unfinished  gone
Restarting  ResumeJob         Pending      0     0       -           stays
Restarting  RestartTask       Pending      0     0       -           stays
Restarting  RestartPod        Pending      0     0       -           stays
Restarting  RestartPartition  Pending      0     0       -           stays
Restarting  SyncJob           Pending      0     0       -           stays
Restarting  EnqueueJob        Pending      0     0       -           stays
Restarting  Frobnicate        Pending      0     0       -           stays
Aborting    RestartJob        Restarting   0     +1      all         gone
Aborting    AbortJob          Aborting     0     0       unfinished  gone
Aborting    TerminateJob      Aborting     0     0       unfinished  gone
Aborting    CompleteJob       Aborting     0     0       unfinished  gone
Aborting    ResumeJob         Restarting   0     +1      unfinished  gone
Aborting    RestartTask       Aborting     0     0       unfinished  gone
Aborting    RestartPod        Aborting     0     0       unfinished  gone
Aborting    RestartPartition  Aborting     0     0       unfinished  gone
Aborting    SyncJob           Aborting     0     0       unfinished  gone
Aborting    EnqueueJob        Aborting     0     0       unfinished  gone
Aborting    Frobnicate        Aborting     0     0       unfinished  gone
Aborted     RestartJob        Restarting   0     +1      all         gone
Aborted     AbortJob          Aborted      0     0       unfinished  gone
Aborted     TerminateJob      Aborted      0     0       unfinished  gone
Aborted     CompleteJob       Aborted      0     0       unfinished  gone
Aborted     ResumeJob         Restarting   0     +1      unfinished  gone
Aborted     RestartTask       Aborted      0     0       unfinished  gone
Aborted     RestartPod        Aborted      0     0       unfinished  gone
Aborted     RestartPartition  Aborted      0     0       unfinished  gone
Aborted     SyncJob           Aborted      0     0       unfinished  gone
Aborted     EnqueueJob        Aborted      0     0       unfinished  gone
Aborted     Frobnicate        Aborted      0     0       unfinished  gone
"""
LIVE = ("Pending", "Running", "Restarting")
OVER = ("Completing", "Completed", "Terminating", "Terminated", "Failed")

# The same actions when a policy asks for them because worker 2 has failed.
BY_POLICY = """
phase       action            to           retry version kills       group
Pending     RestartJob        Restarting   +1    +1      all         gone
Pending     RestartTask       Restarting   +1    0       task        stays
Pending     RestartPod        Restarting   +1    0       pod         stays
Pending     RestartPartition  Restarting   +1    0       partition   stays
Pending     AbortJob          Aborting     0     +1      unfinished  gone
Pending     TerminateJob      Terminating  0     +1      unfinished  gone
Pending     CompleteJob       Completing   0     +1      unfinished  gone
Pending     ResumeJob         Running      0     0       -           stays
Running     RestartJob        Restarting   +1    +1      all         gone
Running     RestartTask       Restarting   +1    0       task        stays
Running     RestartPod        Restarting   +1    0       pod         stays
Running     RestartPartition  Restarting   +1    0       partition   stays
Running     AbortJob          Aborting     0     +1      unfinished  gone
Running     TerminateJob      Terminating  0     +1      unfinished  gone
Running     CompleteJob       Completing   0     +1      unfinished  gone
Running     ResumeJob         Running      0     0       -           stays
Restarting  RestartJob        Restarting   0     +1      all         gone
Restarting  RestartTask       Restarting   0     0       task        stays
Restarting  RestartPod        Restarting   0     0       pod         stays
Restarting  RestartPartition  Restarting   0     0       partition   stays
Restarting  AbortJob          Aborting     0     +1      unfinished  gone
Restarting  TerminateJob      Terminating  0     +1      unfinished  gone
Restarting  CompleteJob       Completing   0     +1      unfinished  gone
Restarting  ResumeJob         Pending      0     0       -           stays
"""


def rows(text):
    return [line.split() for line in text.strip().splitlines()[1:]]


def check(found, before, row):
    _, _, to, retry, version, kills, group = row
    status = found.job.status
    assert found.phase == to
    assert status.retry_count - before.status.retry_count == int(retry)
    assert status.version - before.status.version == int(version)
    assert found.killed == KILLS[kills]
    assert found.loses_group == (group == "gone")


ACTIONS = [action.value for action in Action if not action.value.endswith("Queue")]
EFFECTIVE = [action for action in ACTIONS if action not in {"SyncJob", "EnqueueJob"}]


def test_the_tables_cover_every_phase_and_every_action_once():
    commands = [(row[0], row[1]) for row in rows(BY_COMMAND)]
    phases = ["(empty)", *(phase.value for phase in JobPhase if phase not in OVER)]
    assert sorted(commands) == sorted((phase, action) for phase in phases for action in [*ACTIONS, "Frobnicate"])
    policies = [(row[0], row[1]) for row in rows(BY_POLICY)]
    assert sorted(policies) == sorted((phase, action) for phase in LIVE for action in EFFECTIVE)


@pytest.mark.parametrize("row", rows(BY_COMMAND), ids=lambda row: f"{row[0]}-{row[1]}")
def test_a_command(row):
    phase = "" if row[0] == "(empty)" else row[0]
    job = a_job(phase=phase, status={"version": 0, "retryCount": 1}, maxRetry=5)
    check(told(job, *PODS, commands=[a_command(row[1])]), job, row)


@pytest.mark.parametrize("action", [action.value for action in Action] + ["Frobnicate"])
@pytest.mark.parametrize("phase", OVER)
def test_a_command_changes_nothing_once_a_job_is_over(phase, action):
    job = a_job(phase=phase)
    found = told(job, *PODS, commands=[a_command(action)])
    check(found, job, [phase, action, phase, "0", "0", "unfinished", "gone"])


@pytest.mark.parametrize("row", rows(BY_POLICY), ids=lambda row: f"{row[0]}-{row[1]}")
def test_a_policy(row):
    partitions = {"totalPartitions": 3, "partitionSize": 1}
    tasks = (a_task("master", 1), a_task("worker", 3, partitionPolicy=partitions))
    # In Restarting, pods are those of the retry before.
    retries = 1 if row[0] != "Restarting" else 0
    pods = gang(
        worker0=a_pod("worker", 0, retries=retries),
        worker1=a_pod("worker", 1, "Succeeded", retries=retries),
        worker2=a_pod("worker", 2, "Failed", retries=retries),
    )
    policies = [{"event": "PodFailed", "action": row[1]}]
    job = a_job(*tasks, phase=row[0], status={"retryCount": 1}, maxRetry=5, policies=policies)
    found = told(job, *pods)
    check(found, job, row)
    if row[2] != row[0] and row[1] != "ResumeJob":
        assert found.writes_before_deeds()


@pytest.mark.parametrize("phase", ["Aborting", "Aborted", *OVER])
@pytest.mark.parametrize("action", EFFECTIVE)
def test_no_policy_fires_in_a_phase_that_ends(phase, action):
    job = a_job(phase=phase, policies=[{"event": "*", "action": action}])
    found = told(job, *PODS)
    check(found, job, [phase, action, phase, "0", "0", "unfinished", "gone"])


@pytest.mark.parametrize(
    ("phase", "then"), [("Aborting", "Aborted"), ("Completing", "Completed"), ("Terminating", "Terminated")]
)
def test_an_ending_phase_ends_when_no_pod_is_left_that_could_do_anything(phase, then):
    finished = [a_pod("worker", 1, "Succeeded"), a_pod("worker", 2, "Failed")]
    assert told(a_job(phase=phase), *finished).phase == then
    for busy in (a_pod("worker", 0, "Pending"), a_pod("worker", 0), a_pod("worker", 0, "Succeeded", leaving=True)):
        assert told(a_job(phase=phase), *finished, busy).phase == phase


def test_pending_becomes_running_when_the_minimum_has_started_or_ended():
    job = a_job(phase="Pending", minAvailable=3)
    two = [a_pod("master", 0), a_pod("worker", 0, "Succeeded")]
    assert told(job, *two, a_pod("worker", 1, "Pending")).phase == "Pending"
    assert told(job, *two, a_pod("worker", 1, "Failed")).phase == "Running"


def test_a_job_that_needs_nobody_runs_without_pods():
    tasks = [a_task("worker", 2, minAvailable=0)]
    assert told(a_job(*tasks, phase="Pending", minAvailable=0), group="Pending").phase == "Running"


def test_restarting_ends_when_enough_of_the_old_pods_are_gone():
    job = a_job(phase="Restarting", status={"version": 1, "retryCount": 1}, minAvailable=3)
    leaving = [a_pod("worker", index, leaving=True) for index in range(2)]
    assert told(job, *leaving).phase == "Restarting"
    assert told(job, *leaving[:1]).phase == "Pending"


def test_restarting_does_not_end_before_every_pod_that_must_go_is_on_its_way():
    """The minimum is small, so enough are gone; but one of the old pods has not been deleted yet."""
    job = a_job(phase="Restarting", status={"version": 1, "retryCount": 1}, minAvailable=1)
    found = told(job, a_pod("worker", 0))
    assert found.phase == "Restarting"
    assert found.killed == {"worker-0"}


def test_the_last_retry_fails_the_job_and_keeps_its_finished_pods():
    job = a_job(
        phase="Running", maxRetry=2, status={"retryCount": 1}, policies=[{"event": "PodFailed", "action": "RestartJob"}]
    )
    found = told(job, *PODS)
    assert found.phase == "Restarting"
    assert found.job.status.retry_count == 2
    assert found.killed == {"master-0", "worker-0"}
    later = told(found.job, *PODS[2:], group=None)
    assert later.phase == "Failed"
    assert later.killed == set()
    assert "no retry is left of 2" in later.job.status.state.message
    assert "worker-2 failed" in later.job.status.state.message


def test_with_max_retry_one_the_first_restart_fails_the_job():
    job = a_job(phase="Running", maxRetry=1, policies=[{"event": "PodFailed", "action": "RestartPod"}])
    found = told(job, *PODS)
    assert (found.phase, found.killed) == ("Restarting", set())
    assert told(found.job, *PODS, group=None).phase == "Failed"


def test_suspending_and_resuming_costs_no_retry_however_often():
    job = a_job(phase="Running", maxRetry=1)
    for number in range(4):
        aborting = told(job, commands=[a_command("AbortJob", uid=f"a{number}")]).job
        aborted = told(aborting, group=None).job
        assert aborted.status.state.phase == "Aborted"
        restarting = told(aborted, commands=[a_command("ResumeJob", uid=f"r{number}")], group=None).job
        assert restarting.status.state.phase == "Restarting"
        job = told(restarting, group=None).job
        assert (job.status.state.phase, job.status.retry_count) == ("Pending", 0)


def test_what_succeeded_before_a_suspension_stays_and_what_failed_fires_no_policy_again():
    policies = [{"event": "PodFailed", "action": "AbortJob"}]
    job = a_job(phase="Pending", status={"version": 2}, policies=policies, minAvailable=4)
    found = told(job, *PODS[2:])
    assert found.phase == "Pending"
    assert found.killed == set()
    assert found.created == ["master-0", "worker-0"]


def test_a_whole_restart_removes_finished_pods_of_every_earlier_version():
    job = a_job(phase="Restarting", status={"version": 3}, progress={"floor": 3})
    found = told(job, a_pod("worker", 1, "Succeeded", version=1), a_pod("worker", 2, "Failed", version=2))
    assert found.killed == {"worker-1", "worker-2"}


def test_an_unknown_phase_is_taken_for_pending():
    assert told(a_job(phase="Pondering"), *gang()).phase == "Running"


def test_a_job_that_is_being_deleted_is_left_to_the_api_server():
    job = a_job()
    gone = msgspec.structs.replace(
        job, metadata=msgspec.structs.replace(job.metadata, deletion_timestamp="2026-03-01T12:59:00Z")
    )
    assert told(gone, commands=[a_command("AbortJob")], group=None).operations == []


def test_a_group_of_a_killed_gang_goes_and_its_successor_stays():
    job = a_job(phase="Pending", status={"version": 1}, progress={"group": "old"})
    assert told(job, group=a_group("Running", uid="old")).loses_group
    found = told(job, group="Inqueue")
    assert not found.loses_group
    assert len(found.created) == 4


def test_no_pod_is_made_for_a_gang_whose_old_group_is_still_there():
    job = a_job(phase="Pending", status={"version": 1}, progress={"group": "old"})
    found = told(job, group=a_group("Running", uid="old"))
    assert found.created == []
    assert "PodGroup/train-" + UID not in found.bodies


def test_kills_name_the_very_pod_and_not_its_namesake():
    found = told(a_job(phase="Completing"), a_pod("worker", 0, uid="this-one"))
    (kill,) = [each for each in found.operations if isinstance(each, Delete) and each.kind is Pod]
    assert (kill.uid, kill.blame.reason) == ("this-one", "FailedDelete")

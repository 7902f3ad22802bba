"""What counts as an event, which policy answers it, and that nothing is answered twice."""

import pytest
from msgspec.structs import replace
from tests.unit.controllers.job.literals import NOW, a_command, a_job, a_pod, a_task, fitting_group, gang, told

from pumice.api import names
from pumice.api.pods import Pod
from pumice.controllers.operations import Delete, Emit, Look

RESTART_ALL = [{"event": "PodEvicted", "action": "RestartJob"}, {"event": "PodFailed", "action": "RestartJob"}]
MEMBERS = {"master": "0", "worker": "0-2"}
FAILED = a_pod("worker", 2, "Failed", exit_code=3)


def policy(event, action, **more):
    return {"event": event, "action": action, **more}


# --------------------------------------------------------------------------------------------------------- evictions


def test_a_pod_that_is_being_evicted_is_noticed_before_it_is_gone():
    evicted = a_pod("worker", 1, leaving=True, disruption="PreemptionByScheduler", message="for gang b/big")
    found = told(a_job(policies=RESTART_ALL), *gang(worker1=evicted))
    assert found.phase == "Restarting"
    assert found.killed == {"master-0", "worker-0", "worker-2"}
    assert found.job.status.state.reason == "PodEvicted"
    assert "pod train-worker-1 was evicted (PreemptionByScheduler: for gang b/big)" in found.job.status.state.message


def test_a_pod_that_somebody_deleted_counts_as_evicted():
    found = told(a_job(policies=RESTART_ALL), *gang(worker1=a_pod("worker", 1, leaving=True)))
    assert found.phase == "Restarting"
    assert "pod train-worker-1 was deleted" in found.job.status.state.message


def test_a_pod_that_vanished_while_nobody_watched_is_missed_by_name():
    found = told(a_job(policies=RESTART_ALL, progress={"members": MEMBERS}), *gang(worker1=None))
    assert found.phase == "Restarting"
    assert "pod train-worker-1 is gone" in found.job.status.state.message


def test_before_anything_is_done_about_a_vanished_pod_the_server_itself_is_asked():
    """A watch that lags behind the Job's own would otherwise cost a whole restart."""
    job = a_job(policies=RESTART_ALL, progress={"members": MEMBERS})
    found = told(job, *gang(worker1=None, worker2=None), doubted=frozenset({"train-worker-1", "train-worker-2"}))
    assert found.operations == [Look(kind=Pod, name=f"train-worker-{index}", namespace="team") for index in (1, 2)]
    seen = told(job, *gang(worker1=None))
    assert seen.phase == "Restarting"


def test_nobody_is_asked_where_no_policy_cares():
    job = a_job(progress={"members": MEMBERS})
    assert told(job, *gang(worker1=None), doubted=frozenset({"train-worker-1"})).created == ["worker-1"]


def test_how_a_vanished_pod_was_last_seen_explains_why_it_went():
    ghost = a_pod("worker", 1, leaving=True, disruption="PreemptionByScheduler", message="for gang b/big")
    job = a_job(policies=RESTART_ALL, progress={"members": MEMBERS})
    found = told(job, *gang(worker1=None), deleted_pods={"train-worker-1": ghost})
    assert "pod train-worker-1 was evicted (PreemptionByScheduler: for gang b/big)" in found.job.status.state.message


EVICTED = {"leaving": True, "disruption": "EvictionByEvictionAPI", "message": "evicting"}


@pytest.mark.parametrize("phase", ["", "Pending", "Running"])
@pytest.mark.parametrize("group", ["Pending", "Inqueue", "Running"])
@pytest.mark.parametrize("known", [{}, {"members": {"master": "0"}}, {"members": MEMBERS}])
def test_an_evicted_pod_is_answered_also_where_it_went_before_anything_was_written_about_the_gang(phase, group, known):
    """Whether we look before or after it is gone must not matter: its peers would wait for it for ever."""
    job = a_job(policies=RESTART_ALL, status={"state": {"phase": phase}}, progress=known)
    ghost = a_pod("worker", 1, **EVICTED)
    looked_late = told(job, *gang(worker1=None), deleted_pods={"train-worker-1": ghost}, group=group)
    looked_early = told(job, *gang(worker1=ghost), group=group)
    assert (looked_late.phase, looked_late.killed) == ("Restarting", {"master-0", "worker-0", "worker-2"})
    assert looked_late.job.status.state.message == looked_early.job.status.state.message


def test_an_evicted_pod_that_was_never_written_about_is_answered_once():
    job = a_job(policies=[policy("PodEvicted", "RestartPod")], status={"state": {"phase": "Pending"}})
    deleted = {"train-worker-1": a_pod("worker", 1, **EVICTED)}
    found = told(job, *gang(worker1=None), deleted_pods=deleted)
    assert (found.phase, found.job.status.retry_count) == ("Restarting", 1)
    pending = told(found.job, *gang(worker1=None), deleted_pods=deleted)
    assert (pending.phase, pending.job.status.retry_count) == ("Pending", 1)
    made = told(pending.job, *gang(worker1=None), deleted_pods=deleted, group="Running")
    assert (made.created, made.job.status.retry_count) == (["worker-1"], 1)


def test_who_was_scaled_away_is_not_missed_and_costs_nothing_when_there_is_room_for_it_again():
    """We have deleted it ourselves: nothing says that it was evicted."""
    job = a_job(
        policies=RESTART_ALL,
        status={"state": {"phase": "Running"}},
        progress={"members": {"master": "0", "worker": "0,2"}},
    )
    deleted = {"train-worker-1": a_pod("worker", 1, leaving=True)}
    assert told(job, *gang(worker1=None), deleted_pods=deleted).created == ["worker-1"]
    failed = told(job, *gang(worker1=None, worker2=FAILED), deleted_pods=deleted)
    assert failed.progress.lost_s == 2 * 3600 + 50 * 60


def test_a_vanished_pod_that_was_last_seen_being_released_is_no_loss():
    ghost = a_pod("worker", 1, leaving=True, disruption="GangReleased")
    job = a_job(policies=RESTART_ALL, progress={"members": MEMBERS})
    found = told(job, *gang(worker1=None), deleted_pods={"train-worker-1": ghost})
    assert (found.phase, found.created) == ("Running", ["worker-1"])


def test_what_a_former_version_of_a_pod_was_last_seen_as_explains_nothing():
    ghost = a_pod("worker", 1, leaving=True, disruption="GangReleased", version=0)
    job = a_job(policies=RESTART_ALL, status={"version": 1}, progress={"members": MEMBERS})
    pods = [a_pod("master", 0, version=1), a_pod("worker", 0, version=1), a_pod("worker", 2, version=1)]
    assert told(job, *pods, deleted_pods={"train-worker-1": ghost}).phase == "Restarting"


def test_a_pod_that_was_never_there_is_made_and_not_missed():
    found = told(
        a_job(policies=RESTART_ALL, progress={"members": {"master": "0", "worker": "0,2"}}), *gang(worker1=None)
    )
    assert (found.phase, found.created) == ("Running", ["worker-1"])


def test_before_the_gang_has_started_a_vanished_pod_is_simply_made_again():
    job = a_job(phase="Pending", policies=RESTART_ALL, progress={"members": MEMBERS})
    pods = [a_pod("worker", index, "Pending") for index in (0, 2)]
    found = told(job, *pods, group="Inqueue")
    assert found.phase == "Pending"
    assert found.job.status.retry_count == 0
    assert found.created == ["master-0", "worker-1"]


def test_after_the_gang_has_started_a_vanished_pod_is_missed_even_while_the_job_is_pending_again():
    job = a_job(phase="Pending", policies=RESTART_ALL, progress={"members": MEMBERS})
    assert told(job, a_pod("worker", 0), group="Running").phase == "Restarting"


def test_pods_of_the_former_run_that_are_still_leaving_are_not_missed_when_they_are_gone():
    """An elastic gang goes on while some of its former pods leave; their end is no second loss and costs no second retry."""
    elastic = a_job(
        a_task("worker", 4, minAvailable=2),
        phase="Restarting",
        minAvailable=2,
        policies=RESTART_ALL,
        status={"version": 1, "retryCount": 1},
    )
    leaving = [a_pod("worker", index, leaving=True) for index in (0, 1)]
    waits = told(elastic, *leaving, group="Running")
    assert (waits.phase, dict(waits.progress.members)) == ("Pending", {})
    gone = told(waits.job, group="Running")
    assert (gone.phase, gone.job.status.retry_count) == ("Pending", 1)


@pytest.mark.parametrize("phase", ["Pending", "Running"])
def test_a_release_by_the_scheduler_is_no_failure(phase):
    released = a_pod("worker", 1, "Pending", leaving=True, disruption="GangReleased")
    found = told(a_job(phase=phase, policies=[policy("*", "RestartJob")]), *gang(worker1=released))
    assert found.phase == phase
    assert found.job.status.retry_count == 0
    assert found.progress.members.get("worker") == "0,2"


@pytest.mark.parametrize(("annotations", "phase"), [({names.ATTEMPT: "1-a"}, "Pending"), ({}, "Restarting")])
def test_a_pod_that_our_scheduler_bound_and_its_node_refused_has_not_failed(annotations, phase):
    """The scheduler takes it back, and the Job waits for it again; another scheduler's is its own business."""
    pod = a_pod("worker", 1, "Failed", annotations=annotations)
    refused = replace(pod, status=replace(pod.status, reason="OutOfnvidia.com/gpu"))
    found = told(a_job(policies=RESTART_ALL), *gang(worker1=refused))
    assert found.phase == phase


def test_a_released_pod_that_is_gone_is_made_again():
    job = a_job(
        phase="Pending", policies=[policy("*", "RestartJob")], progress={"members": {"master": "0", "worker": "0,2"}}
    )
    found = told(
        job, *[a_pod("worker", index, "Pending") for index in (0, 2)], a_pod("master", 0, "Pending"), group="Inqueue"
    )
    assert found.created == ["worker-1"]
    assert found.job.status.retry_count == 0


def test_scaling_down_is_no_eviction():
    tasks = [a_task("master", 1), a_task("worker", 2)]
    job = a_job(*tasks, policies=[policy("*", "RestartJob")], progress={"members": MEMBERS})
    found = told(job, *gang())
    assert (found.phase, found.killed) == ("Running", {"worker-2"})
    leaving = told(job, *gang(worker2=a_pod("worker", 2, leaving=True)))
    assert leaving.phase == "Running"
    gone = told(job, *gang(worker2=None))
    assert (gone.phase, gone.job.status.retry_count) == ("Running", 0)


def test_without_a_policy_an_evicted_pod_is_made_again_when_its_name_is_free():
    job = a_job(progress={"members": MEMBERS})
    leaving = told(job, *gang(worker1=a_pod("worker", 1, leaving=True)))
    assert (leaving.created, leaving.killed) == ([], set())
    assert told(job, *gang(worker1=None)).created == ["worker-1"]


def test_a_pod_marked_by_volcano_as_out_of_sync_is_deleted_and_fires_nothing():
    from pumice.api import names

    marked = a_pod("worker", 1, "Failed", annotations={names.OUT_OF_SYNC: "true"})
    found = told(a_job(policies=RESTART_ALL), *gang(worker1=marked))
    assert (found.phase, found.killed) == ("Running", {"worker-1"})


# ---------------------------------------------------------------------------------------------------- failed pods


def test_a_failed_pod_of_an_older_version_fires_nothing():
    job = a_job(status={"version": 1}, policies=RESTART_ALL)
    pods = [a_pod(task, index, version=1) for task, index in (("master", 0), ("worker", 0), ("worker", 1))]
    found = told(job, *pods, a_pod("worker", 2, "Failed", version=0))
    assert found.phase == "Running"


def test_without_a_policy_failed_pods_stay_and_the_job_goes_on():
    found = told(a_job(), *gang(worker2=FAILED))
    assert (found.phase, found.killed, found.created) == ("Running", set(), [])


@pytest.mark.parametrize(("code", "fires"), [(3, True), (4, False)])
def test_exit_codes_are_those_of_the_first_container(code, fires):
    found = told(a_job(policies=[{"exitCode": code, "action": "TerminateJob"}]), *gang(worker2=FAILED))
    assert found.phase == ("Terminating" if fires else "Running")


def test_a_policy_of_the_task_wins_over_the_jobs_and_others_fall_through():
    worker = a_task("worker", 3, policies=[policy("PodFailed", "RestartPod")])
    job = a_job(
        a_task("master", 1), worker, policies=[policy("PodFailed", "TerminateJob"), policy("PodEvicted", "AbortJob")]
    )
    assert told(job, *gang(worker2=FAILED)).killed == {"worker-2"}
    assert told(job, *gang(master0=a_pod("master", 0, "Failed"))).phase == "Terminating"
    assert told(job, *gang(worker2=a_pod("worker", 2, leaving=True))).phase == "Aborting"


def test_the_first_of_several_matching_policies_wins():
    policies = [{"exitCode": 3, "action": "CompleteJob"}, policy("*", "TerminateJob")]
    assert told(a_job(policies=policies), *gang(worker2=FAILED)).phase == "Completing"
    assert told(a_job(policies=policies[::-1]), *gang(worker2=FAILED)).phase == "Terminating"


def test_events_may_be_listed():
    policies = [{"events": ["PodEvicted", "PodFailed"], "action": "AbortJob"}]
    assert told(a_job(policies=policies), *gang(worker2=FAILED)).phase == "Aborting"


@pytest.mark.parametrize("event", ["PodRunning", "JobUpdated", "OutOfSync", "CommandIssued"])
def test_events_that_nobody_raises_fire_nothing(event):
    assert told(a_job(policies=[policy(event, "TerminateJob")]), *gang(worker2=FAILED)).phase == "Running"


def test_what_happened_first_is_answered_and_an_eviction_explains_the_failures_that_follow():
    evicted = a_pod("worker", 0, leaving=True, disruption="TerminationByKubelet", message="node is shutting down")
    later = a_pod("worker", 1, "Failed", finished="2026-03-01T12:59:55Z")
    found = told(a_job(policies=RESTART_ALL), *gang(worker0=evicted, worker1=later))
    assert found.job.status.state.reason == "PodEvicted"


def test_the_end_of_the_master_is_answered_before_the_failures_that_it_caused():
    policies = [policy("PodFailed", "RestartJob"), policy("TaskCompleted", "CompleteJob")]
    done = a_pod("master", 0, "Succeeded", finished="2026-03-01T12:59:00Z")
    broken = a_pod("worker", 0, "Failed", finished="2026-03-01T12:59:00Z")
    assert told(a_job(policies=policies), *gang(master0=done, worker0=broken)).phase == "Completing"


# ------------------------------------------------------------------------------------------------------------ tasks


def test_a_task_is_complete_when_as_many_pods_succeeded_as_it_has_replicas():
    job = a_job(policies=[policy("TaskCompleted", "CompleteJob")])
    done = [a_pod("worker", index, "Succeeded") for index in range(3)]
    assert told(job, a_pod("master", 0), *done[:2], a_pod("worker", 2)).phase == "Running"
    assert told(job, a_pod("master", 0), *done).phase == "Completing"


def test_a_task_without_replicas_is_never_complete():
    tasks = [a_task("master", 1), a_task("worker", 0)]
    assert told(a_job(*tasks, policies=[policy("TaskCompleted", "CompleteJob")]), a_pod("master", 0)).phase == "Running"


def test_pods_that_succeeded_before_a_suspension_count_towards_completion():
    job = a_job(status={"version": 1}, policies=[policy("TaskCompleted", "CompleteJob")])
    before = [a_pod("worker", index, "Succeeded", version=0) for index in range(2)]
    master = a_pod("master", 0, version=1)
    assert told(job, master, *before, a_pod("worker", 2, version=1)).phase == "Running"
    assert told(job, master, *before, a_pod("worker", 2, "Succeeded", version=1)).phase == "Completing"


@pytest.mark.parametrize(("limit", "restarts", "fails"), [(4, 3, False), (4, 4, True), (0, 2, False), (0, 3, True)])
def test_a_task_fails_when_its_containers_were_restarted_too_often(limit, restarts, fails):
    tasks = [a_task("master", 1), a_task("worker", 3, maxRetry=limit)]
    pods = gang(worker0=a_pod("worker", 0, restarts=restarts - 1), worker1=a_pod("worker", 1, restarts=1))
    found = told(a_job(*tasks, policies=[policy("TaskFailed", "TerminateJob")]), *pods)
    assert found.phase == ("Terminating" if fails else "Running")


# ---------------------------------------------------------------------------------------------------------- unknown


def test_a_gang_that_runs_without_some_of_its_members_raises_unknown_however_often_the_job_was_restarted():
    job = a_job(status={"version": 4}, policies=[policy("Unknown", "RestartJob")])
    pods = [a_pod("worker", 0, version=4), a_pod("worker", 1, "Pending", version=4)]
    found = told(job, *pods, group="Unknown")
    assert found.phase == "Restarting"
    assert found.loses_group
    # The group of the gang that was killed is no news.
    again = told(found.job, group=fitting_group(job, "Unknown"))
    assert again.job.status.retry_count == found.job.status.retry_count


def test_unknown_concerns_no_pod_so_a_restart_of_single_pods_does_nothing_and_costs_nothing():
    job = a_job(policies=[policy("Unknown", "RestartTask")])
    found = told(job, *gang(), group="Unknown")
    assert (found.phase, found.job.status.retry_count) == ("Running", 0)


# ------------------------------------------------------------------------------------------------------ time limits

ENDED = {names.TIME_LIMIT: "2h", names.RUN: '{"started": "2026-03-01T10:59:00Z", "ended": "2026-03-01T12:59:00Z"}'}


@pytest.mark.parametrize(
    ("policies", "phase"),
    [
        ([], "Terminating"),
        ([policy("PodFailed", "RestartJob")], "Terminating"),
        ([policy("TimeLimitExceeded", "CompleteJob")], "Completing"),
        ([policy("TimeLimitExceeded", "AbortJob")], "Aborting"),
        ([policy("TimeLimitExceeded", "RestartJob")], "Restarting"),
        ([policy("*", "RestartJob")], "Restarting"),
        ([policy("TimeLimitExceeded", "RestartPod")], "Terminating"),
        ([policy("TimeLimitExceeded", "RestartTask")], "Terminating"),
        ([policy("TimeLimitExceeded", "ResumeJob")], "Terminating"),
    ],
)
def test_a_gang_whose_time_is_up_ends_whatever_policies_say(policies, phase):
    job = a_job(policies=policies, annotations={names.TIME_LIMIT: "2h"})
    found = told(job, *gang(), group=fitting_group(job, "Running", annotations=ENDED))
    assert found.phase == phase
    assert found.job.status.state.reason == "TimeLimitExceeded"
    assert "has run for its time limit of 2h, since 2026-03-01T10:59:00Z" in found.job.status.state.message
    assert found.killed == {"master-0", "worker-0", "worker-1", "worker-2"}
    assert found.loses_group


def test_the_end_of_time_is_answered_once_however_long_the_group_takes_to_go():
    job = a_job(policies=[policy("TimeLimitExceeded", "RestartJob")])
    marked = fitting_group(job, "Running", annotations=ENDED)
    found = told(job, *gang(), group=marked)
    again = told(found.job, group=marked)
    assert again.job.status.retry_count == found.job.status.retry_count == 1


def test_a_policy_for_the_end_of_time_may_grant_a_while():
    job = a_job(policies=[policy("TimeLimitExceeded", "AbortJob", timeout="5m")], annotations={names.TIME_LIMIT: "2h"})
    marked = fitting_group(job, "Running", annotations=ENDED)
    found = told(job, *gang(), group=marked)
    assert found.phase == "Running"
    assert found.plan.again_at == NOW + 4 * 60 * 10**9
    assert told(job, *gang(), group=marked, now=NOW + 4 * 60 * 10**9).phase == "Aborting"


def test_a_mark_on_a_group_says_nothing_to_people_about_waiting():
    warned = {
        "type": "TimeLimitWarning",
        "status": "True",
        "message": "soon",
        "lastTransitionTime": "2026-03-01T12:59:00Z",
    }
    job = a_job()
    found = told(job, *gang(), group=fitting_group(job, "Running", conditions=[warned]))
    assert [each for each in found.operations if isinstance(each, Emit)] == []


# -------------------------------------------------------------------------------------------------- single restarts


def test_pods_that_failed_together_are_restarted_together_for_one_retry():
    job = a_job(policies=[policy("PodFailed", "RestartPod")])
    found = told(job, *gang(worker0=a_pod("worker", 0, "Failed"), worker2=FAILED))
    assert found.killed == {"worker-0", "worker-2"}
    assert found.job.status.retry_count == 1


def test_the_successor_of_a_restarted_pod_is_spared():
    job = a_job(policies=[policy("PodFailed", "RestartPod")])
    restarting = told(job, *gang(worker2=FAILED)).job
    assert told(restarting, *gang(worker2=FAILED)).killed == {"worker-2"}
    pending = told(restarting, *gang(worker2=None))
    assert pending.phase == "Pending"
    made = told(pending.job, *gang(worker2=None), group="Inqueue")
    assert made.created == ["worker-2"]
    back = gang(worker2=a_pod("worker", 2, retries=1))
    running = told(made.job, *back)
    assert (running.phase, running.killed) == ("Running", set())
    assert running.progress.targets == ()


def test_a_successor_is_spared_while_another_target_still_leaves():
    targets = [{"task": "worker", "indexes": "1-2", "below": 1}]
    job = a_job(status={"retryCount": 1}, progress={"targets": targets}, minAvailable=1)
    pods = gang(worker1=a_pod("worker", 1, leaving=True), worker2=a_pod("worker", 2, retries=1))
    assert told(job, *pods).killed == set()
    slow = gang(worker1=a_pod("worker", 1), worker2=a_pod("worker", 2, retries=1))
    assert told(job, *slow).killed == {"worker-1"}


def test_a_pod_that_fails_again_costs_another_retry():
    job = a_job(policies=[policy("PodFailed", "RestartPod")], status={"retryCount": 1}, maxRetry=5)
    found = told(job, *gang(worker2=a_pod("worker", 2, "Failed", retries=1)))
    assert (found.killed, found.job.status.retry_count) == ({"worker-2"}, 2)


def test_a_partition_is_restarted_whole_and_alone():
    task = a_task("worker", 6, partitionPolicy={"totalPartitions": 3, "partitionSize": 2})
    pods = [a_pod("worker", index, "Failed" if index == 3 else "Running") for index in range(6)]
    found = told(a_job(task, policies=[policy("PodFailed", "RestartPartition")]), *pods)
    assert found.killed == {"worker-2", "worker-3"}


def test_a_partition_of_a_task_without_partitions_is_not_restarted():
    found = told(a_job(policies=[policy("PodFailed", "RestartPartition")]), *gang(worker2=FAILED))
    assert (found.phase, found.killed, found.job.status.retry_count) == ("Running", set(), 0)


def test_a_vanished_pod_is_restarted_alone_under_restart_pod():
    job = a_job(policies=[policy("PodEvicted", "RestartPod")], progress={"members": MEMBERS})
    found = told(job, *gang(worker1=None))
    assert (found.phase, found.killed, found.job.status.retry_count) == ("Restarting", set(), 1)
    pending = told(found.job, *gang(worker1=None))
    assert (pending.phase, pending.job.status.retry_count) == ("Pending", 1)
    assert told(pending.job, *gang(worker1=None), group="Running").created == ["worker-1"]


# ------------------------------------------------------------------------------------------------------ what is told


def test_a_restart_says_what_caused_it_and_what_it_cost():
    evicted = a_pod("worker", 1, leaving=True, disruption="PreemptionByScheduler", message="for gang b/big")
    found = told(a_job(policies=RESTART_ALL), *gang(worker1=evicted))
    why = "pod train-worker-1 was evicted (PreemptionByScheduler: for gang b/big)"
    message = f"RestartJob: {why}; 4 pods lose up to 1h0m0s of run time, 4h0m0s in all; retry 1 of 3"
    assert found.job.status.state.message == message
    assert ("PodEvicted", message) in found.events
    assert ("ExecuteAction", "Start to execute action RestartJob ") in found.events
    (restart,) = found.progress.restarts
    assert (restart.action, restart.why, restart.lost_s) == ("RestartJob", why, 4 * 3600)
    assert found.progress.lost_s == 4 * 3600


def test_what_a_restart_costs_does_not_depend_on_who_has_left_already():
    """Evicted pods vanish when they like: whether the controller looks a moment before or after that, they have lost their work."""
    leaving = [
        a_pod("worker", index, leaving=True, disruption="PreemptionByScheduler", message="for gang b/big")
        for index in (1, 2)
    ]
    job = a_job(policies=RESTART_ALL, progress={"members": MEMBERS})
    deleted = {pod.metadata.name: pod for pod in leaving}
    before = told(job, *gang(worker1=leaving[0], worker2=leaving[1]))
    between = told(job, *gang(worker1=leaving[0], worker2=None), deleted_pods=dict([*deleted.items()][1:]))
    after = told(job, *gang(worker1=None, worker2=None), deleted_pods=deleted)
    messages = {found.job.status.state.message for found in (before, between, after)}
    assert [message.partition("; ")[2] for message in messages] == [
        "4 pods lose up to 1h0m0s of run time, 4h0m0s in all; retry 1 of 3"
    ]
    assert [found.progress.lost_s for found in (before, between, after)] == [4 * 3600] * 3


def test_a_pod_that_had_to_be_gone_long_ago_has_lost_no_more_than_it_ran():
    leaving = a_pod("worker", 1, leaving=True)
    gone = replace(leaving, metadata=replace(leaving.metadata, deletion_timestamp="2026-03-01T12:30:00Z"))
    job = a_job(policies=RESTART_ALL, progress={"members": MEMBERS})
    found = told(job, *gang(worker1=None), deleted_pods={"train-worker-1": gone})
    assert found.progress.lost_s == 3 * 3600 + 1800


def test_a_pod_of_a_former_start_that_is_gone_costs_nothing():
    former = a_pod("worker", 1, leaving=True, version=0)
    pods = [a_pod("master", 0, version=1), a_pod("worker", 0, version=1), a_pod("worker", 2, version=1)]
    job = a_job(policies=RESTART_ALL, status={"version": 1}, progress={"members": MEMBERS})
    assert told(job, *pods, deleted_pods={"train-worker-1": former}).progress.lost_s == 3 * 3600


def test_the_cost_of_restarts_adds_up_and_only_the_last_few_are_told_apart():
    past = [
        {"at": "2026-03-01T12:00:00Z", "action": "RestartJob", "why": str(number), "lostS": 10} for number in range(5)
    ]
    job = a_job(policies=RESTART_ALL, progress={"restarts": past, "lostS": 50}, maxRetry=9)
    found = told(job, *gang(worker2=a_pod("worker", 2, "Failed", started="2026-03-01T12:49:00Z")))
    assert [each.why for each in found.progress.restarts][:4] == ["1", "2", "3", "4"]
    assert found.progress.lost_s == 50 + 3 * 3600 + 60


def test_the_reason_stays_until_the_job_runs_again():
    restarting = told(a_job(policies=RESTART_ALL), *gang(worker2=FAILED)).job
    pending = told(restarting, group=None)
    assert (pending.phase, pending.job.status.state.reason) == ("Pending", "PodFailed")
    fresh = [
        a_pod("master", 0, version=1, retries=1),
        *(a_pod("worker", index, version=1, retries=1) for index in range(3)),
    ]
    running = told(pending.job, *fresh)
    assert (running.phase, running.job.status.state.reason, running.job.status.state.message) == ("Running", "", "")
    assert running.progress.restarts[0].action == "RestartJob"


# --------------------------------------------------------------------------------------------------------- commands


def test_a_command_is_written_down_with_what_it_did_and_then_deleted():
    found = told(a_job(), *gang(), commands=[a_command("AbortJob", uid="c9")])
    assert found.progress.command == "c9"
    assert found.writes_before_deeds()
    assert [each.uid for each in found.operations if isinstance(each, Delete) and each.name == "cmd"] == ["c9"]
    assert found.events[-1][0] == "CommandIssued"


def test_a_command_that_was_carried_out_before_a_crash_is_only_deleted():
    job = a_job(phase="Pending", progress={"command": "c9"}, status={"version": 1, "retryCount": 1})
    found = told(job, commands=[a_command("RestartJob", uid="c9")], group=None)
    assert (found.phase, found.job.status.retry_count) == ("Pending", 1)
    assert [each.uid for each in found.operations if isinstance(each, Delete)] == ["c9"]


def test_commands_are_heard_in_the_order_of_their_creation():
    first = a_command("AbortJob", "b", uid="c1", created="2026-03-01T12:01:00Z")
    second = a_command("TerminateJob", "a", uid="c2", created="2026-03-01T12:02:00Z")
    found = told(a_job(), *gang(), commands=[second, first])
    assert (found.phase, found.progress.command) == ("Aborting", "c1")


def test_a_command_for_a_former_job_of_the_name_is_deleted_and_does_nothing():
    found = told(a_job(), *gang(), commands=[a_command("AbortJob", target="another")])
    assert found.phase == "Running"
    assert [each.name for each in found.operations if isinstance(each, Delete)] == ["cmd"]


def test_a_command_without_effect_is_deleted_and_said_to_have_none():
    found = told(a_job(phase="Completed"), commands=[a_command("ResumeJob")], group=None)
    assert ("CommandIssued", "command ResumeJob has no effect on a job that is Completed") in found.events


# --------------------------------------------------------------------------------------------------------- timeouts


def test_a_pending_pod_is_answered_after_the_timeout_and_not_before():
    policies = [policy("PodPending", "AbortJob", timeout="10m")]
    young = a_pod("worker", 1, "Pending", created="2026-03-01T12:51:00Z")
    waiting = told(a_job(policies=policies, minAvailable=3), *gang(worker1=young))
    assert waiting.phase == "Running"
    assert waiting.plan.again_at == NOW + 60 * 10**9
    old = a_pod("worker", 1, "Pending", created="2026-03-01T12:50:00Z")
    assert told(a_job(policies=policies), *gang(worker1=old)).phase == "Aborting"


def test_a_pending_pod_is_not_answered_without_a_timeout():
    for event in ("PodPending", "*"):
        pods = gang(worker1=a_pod("worker", 1, "Pending"))
        assert told(a_job(policies=[policy(event, "AbortJob")], minAvailable=3), *pods).phase == "Running"


def test_a_pending_policy_without_a_timeout_does_not_act_because_another_policy_has_one():
    policies = [policy("PodPending", "AbortJob"), policy("PodFailed", "TerminateJob", timeout="1m")]
    pods = gang(worker1=a_pod("worker", 1, "Pending"))
    assert told(a_job(policies=policies, minAvailable=3), *pods).phase == "Running"


def test_any_event_with_a_timeout_covers_pending_pods():
    found = told(a_job(policies=[policy("*", "AbortJob", timeout="1m")]), *gang(worker1=a_pod("worker", 1, "Pending")))
    assert found.phase == "Aborting"


def test_a_failed_pod_is_answered_when_it_has_been_failed_for_so_long():
    policies = [policy("PodFailed", "TerminateJob", timeout="15m")]
    found = told(a_job(policies=policies), *gang(worker2=FAILED))  # failed ten minutes ago
    assert (found.phase, found.plan.again_at) == ("Running", NOW + 5 * 60 * 10**9)
    later = told(a_job(policies=policies), *gang(worker2=FAILED), now=NOW + 5 * 60 * 10**9)
    assert later.phase == "Terminating"


def test_the_timer_of_an_eviction_survives_in_the_status_and_acts_when_due():
    policies = [policy("PodEvicted", "RestartJob", timeout="5m")]
    job = a_job(policies=policies, progress={"members": MEMBERS}, minAvailable=3)
    found = told(job, *gang(worker1=a_pod("worker", 1, leaving=True)))  # asked to go ten seconds ago
    assert found.phase == "Running"
    (timer,) = found.progress.timers
    assert (timer.event, timer.action, timer.pod) == ("PodEvicted", "RestartJob", "train-worker-1")
    assert timer.due == NOW + 290 * 10**9
    assert ("ExecuteAction", "Execute action RestartJob after 5m0s") in found.events
    made_again = gang(worker1=a_pod("worker", 1, "Pending"))
    waiting = told(found.job, *made_again, now=NOW + 60 * 10**9)
    assert (waiting.phase, waiting.plan.again_at, len(waiting.progress.timers)) == ("Running", timer.due, 1)
    due = told(waiting.job, *made_again, now=timer.due)
    assert due.phase == "Restarting"
    assert due.progress.timers == ()


def test_the_timer_of_an_eviction_ends_when_the_pod_runs_again():
    timer = {
        "event": "PodEvicted",
        "action": "RestartJob",
        "due": NOW + 10**9,
        "task": "worker",
        "pod": "train-worker-1",
        "index": 1,
    }
    job = a_job(policies=[policy("PodEvicted", "RestartJob", timeout="5m")], progress={"timers": [timer]})
    found = told(job, *gang())
    assert found.progress.timers == ()
    assert told(found.job, *gang(), now=NOW + 10**10).phase == "Running"


def test_a_timer_that_was_replaced_does_not_fire():
    due = {"due": NOW + 10**9, "task": "worker", "pod": "train-worker-1", "index": 1}
    timer = {"event": "PodEvicted", "action": "AbortJob", **due}
    policies = [policy("PodEvicted", "TerminateJob", timeout="5m")]
    job = a_job(policies=policies, progress={"timers": [timer], "members": MEMBERS}, minAvailable=3)
    found = told(job, *gang(worker1=None))
    assert [each.action for each in found.progress.timers] == ["TerminateJob"]
    assert told(found.job, *gang(worker1=a_pod("worker", 1, "Pending")), now=NOW + 10**10).phase == "Running"


def test_a_whole_action_ends_all_timers():
    timer = {
        "event": "PodEvicted",
        "action": "RestartPod",
        "due": NOW + 10**9,
        "task": "worker",
        "pod": "train-worker-1",
        "index": 1,
    }
    job = a_job(progress={"timers": [timer]})
    assert told(job, *gang(), commands=[a_command("RestartJob")]).progress.timers == ()


def test_a_restart_of_single_pods_ends_their_timers_and_no_others():
    timers = [
        {
            "event": "PodEvicted",
            "action": "RestartJob",
            "due": NOW + 10**9,
            "task": "worker",
            "pod": f"train-worker-{index}",
            "index": index,
        }
        for index in (1, 2)
    ]
    policies = [policy("PodFailed", "RestartPod")]
    pods = gang(worker1=a_pod("worker", 1, "Pending"), worker2=FAILED)
    found = told(a_job(policies=policies, progress={"timers": timers}, minAvailable=1), *pods)
    assert found.phase == "Restarting"
    assert [timer.pod for timer in found.progress.timers] == ["train-worker-1"]


def test_the_timer_of_unknown_ends_when_the_gang_is_whole_again():
    policies = [policy("Unknown", "RestartJob", timeout="5m")]
    found = told(a_job(policies=policies), *gang(), group="Unknown")
    assert len(found.progress.timers) == 1
    assert told(found.job, *gang(), group="Running").progress.timers == ()
    assert told(found.job, *gang(), group="Unknown", now=NOW + 301 * 10**9).phase == "Restarting"


def test_a_timeout_of_zero_acts_at_once():
    assert (
        told(a_job(policies=[policy("PodFailed", "AbortJob", timeout="0s")]), *gang(worker2=FAILED)).phase == "Aborting"
    )

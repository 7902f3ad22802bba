"""Every event, answered by every action, by a policy of the Job or of the task, at once or after a while: the whole table."""

import itertools

import pytest
from tests.unit.controllers.job.literals import NOW, a_job, a_pod, a_task, gang, told

# What happens, to which task, and to which of its pods: each in a gang of a master and three workers that runs.
HAPPENINGS = {
    "PodFailed": (gang(worker2=a_pod("worker", 2, "Failed", exit_code=3)), "worker", "worker-2"),
    "PodEvicted": (gang(worker2=a_pod("worker", 2, leaving=True)), "worker", "worker-2"),
    "TaskCompleted": (gang(master0=a_pod("master", 0, "Succeeded")), "master", "master-0"),
    "TaskFailed": (gang(worker1=a_pod("worker", 1, restarts=3)), "worker", "worker-1"),
    "PodPending": (gang(worker0=a_pod("worker", 0, "Pending")), "worker", "worker-0"),
    "exit code": (gang(worker2=a_pod("worker", 2, "Failed", exit_code=3)), "worker", "worker-2"),
    "Unknown": (gang(), "", ""),
}
ENDS = {"AbortJob": "Aborting", "TerminateJob": "Terminating", "CompleteJob": "Completing"}
ALL_PODS = {"master-0", "worker-0", "worker-1", "worker-2"}


def a_policy(event, action, timeout):
    trigger = {"exitCode": 3} if event == "exit code" else {"event": event}
    return {**trigger, "action": action, **({"timeout": timeout} if timeout else {})}


def expected(action, pods, task, pod):
    """The phase, and the pods that are killed: those that are not leaving, nor finished where only others go."""
    present = {each.metadata.name.removeprefix("train-"): each for each in pods}
    unfinished = {name for name, each in present.items() if each.status.phase not in {"Succeeded", "Failed"}}
    chosen = {
        "RestartJob": ALL_PODS,
        "RestartTask": {name for name in ALL_PODS if task and name.startswith(task)},
        "RestartPod": {pod},
        "RestartPartition": {pod},
        **dict.fromkeys(ENDS, unfinished),
    }.get(action, set())
    killed = {name for name in chosen & set(present) if present[name].metadata.deletion_timestamp is None}
    acts = action in ENDS or action == "RestartJob" or (action.startswith("Restart") and task)
    return (ENDS.get(action, "Restarting"), killed) if acts else ("Running", set())


def cells():
    """Unknown concerns no task, and a pod that has just been made is pending as a matter of course."""
    for event, level, timeout in itertools.product(HAPPENINGS, ("job", "task"), ("", "5m")):
        if (event, level) != ("Unknown", "task") and (event, timeout) != ("PodPending", ""):
            yield event, level, timeout


@pytest.mark.parametrize("action", ["RestartPod", "RestartTask", "RestartPartition", "RestartJob", *ENDS, "ResumeJob"])
@pytest.mark.parametrize(("event", "level", "timeout"), list(cells()))
def test_every_event_is_answered_by_every_action_at_both_levels_at_once_or_after_a_while(event, action, level, timeout):
    pods, task, pod = HAPPENINGS[event]
    policies = [a_policy(event, action, timeout)]
    tasks = [
        a_task(
            name,
            size,
            partitionPolicy={"totalPartitions": size, "partitionSize": 1},
            policies=policies if level == "task" and name == task else [],
        )
        for name, size in (("master", 1), ("worker", 3))
    ]
    job = a_job(*tasks, minAvailable=1, **({"policies": policies} if level == "job" else {}))
    group = "Unknown" if event == "Unknown" else "Running"
    found = told(job, *pods, group=group)
    if timeout and event in {"PodEvicted", "TaskFailed", "Unknown"}:
        # What passes is written down, and answered later if it is still so.
        assert (found.phase, found.killed) == ("Running", set())
        found = told(found.job, *pods, group=group, now=NOW + 6 * 60 * 10**9)
    assert (found.phase, found.killed) == expected(action, pods, task, pod)

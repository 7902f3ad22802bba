"""Gangs whose time runs out, on the embedded server under virtual time; controllers that die before any write change nothing about it."""

import json

import pytest
from tests.unit.controllers.job.test_stories import without_times
from tests.unit.controllers.job.theatre import Theatre
from tests.unit.controllers.stage import same_after_every_crash

from pumice.api import names
from pumice.api.batch import Job
from pumice.api.native import NativePodGroup
from pumice.api.pods import Pod
from pumice.api.scheduling import PodGroup
from pumice.controllers.podgroup import loop as podgroup
from pumice.controllers.timelimit import loop as timelimit

GANG = (("master", 1), ("worker", 2))
ALL = ["train-master-0", "train-worker-0", "train-worker-1"]
LIMIT = {names.TIME_LIMIT: "10m"}
WARNED = {**LIMIT, names.TIME_LIMIT_WARNING: "2m", names.TIME_LIMIT_SIGNAL: "SIGUSR1"}
SPEC = {"schedulerName": "volcano", "containers": [{"name": "main", "image": "train"}]}
MINUTE_S = 60.0


def stage():
    return Theatre(timelimit.controller, timelimit.native_controller, podgroup.controller)


async def reasons(stage, wanted):
    return [reason for reason, _ in await stage.events() if reason.startswith(wanted)]


async def a_job_ends_for_its_time(stage):
    await stage.submit(*GANG, metadata={"annotations": WARNED})
    await stage.settle(7 * MINUTE_S)
    assert await stage.phase() == "Running"
    await stage.settle(2 * MINUTE_S)
    assert await stage.phase() == "Running"
    marked = [each["metadata"]["annotations"].get(names.TIME_LIMIT_ENDS) for each in await stage.all(Pod)]
    assert None not in marked
    await stage.settle(3 * MINUTE_S)
    state = (await stage.job())["status"]["state"]
    assert (state["phase"], state["reason"]) == ("Terminated", "TimeLimitExceeded")
    assert await stage.names(Pod) == await stage.names(PodGroup) == []


async def a_job_starts_anew_for_its_time(stage):
    policies = [{"event": "TimeLimitExceeded", "action": "RestartJob"}]
    await stage.submit(*GANG, metadata={"annotations": LIMIT}, policies=policies, maxRetry=2)
    await stage.settle(12 * MINUTE_S)
    assert (await stage.job())["status"]["retryCount"] == 1
    assert await stage.phase() == "Running"
    await stage.settle(6 * MINUTE_S)
    assert (await stage.job())["status"]["retryCount"] == 1
    await stage.settle(4 * MINUTE_S)
    state = (await stage.job())["status"]["state"]
    assert (state["phase"], state["reason"]) == ("Failed", "TimeLimitExceeded")
    assert "no retry is left of 2" in state["message"]


async def a_bare_pod_ends_for_its_time(stage):
    await stage.make(Pod, "alone", metadata={"annotations": LIMIT}, spec=SPEC)
    await stage.settle(9 * MINUTE_S)
    assert await stage.names(Pod) == ["alone"]
    await stage.settle(2 * MINUTE_S)
    assert await stage.names(Pod) == []


async def a_plain_gang_ends_for_its_time(stage):
    await stage.make(PodGroup, "g", metadata={"annotations": WARNED}, spec={"minMember": 2})
    for name in ("a", "b", "c"):
        await stage.make(Pod, name, metadata={"annotations": {names.GROUP_NAME: "g"}}, spec=SPEC)
    await stage.settle(9 * MINUTE_S)
    assert await stage.names(Pod) == ["a", "b", "c"]
    await stage.settle(2 * MINUTE_S)
    assert await stage.names(Pod) == []
    group = await stage.get(PodGroup, "g")
    held = {each["type"] for each in group["status"]["conditions"] if each["status"] == "True"}
    assert {"TimeLimitWarning", "TimeLimitExceeded"} <= held


async def a_gang_of_kubernetes_own_ends_for_its_time(stage):
    gang = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    await stage.make(NativePodGroup, "g", metadata={"annotations": WARNED}, spec=gang)
    for name in ("a", "b", "c"):
        asks = {"annotations": {names.TIME_LIMIT_SIGNAL: "SIGUSR1"}}
        await stage.make(Pod, name, metadata=asks, spec={**SPEC, "schedulingGroup": {"podGroupName": "g"}})
    await stage.settle(9 * MINUTE_S)
    assert await stage.names(Pod) == ["a", "b", "c"]
    marked = [each["metadata"]["annotations"].get(names.TIME_LIMIT_ENDS) for each in await stage.all(Pod)]
    assert None not in marked
    await stage.settle(2 * MINUTE_S)
    assert await stage.names(Pod) == []
    group = await stage.get(NativePodGroup, "g")
    assert sorted(json.loads(group["metadata"]["annotations"][names.RUN])) == ["ended", "started", "warned"]


STORIES = [
    a_job_ends_for_its_time,
    a_job_starts_anew_for_its_time,
    a_bare_pod_ends_for_its_time,
    a_plain_gang_ends_for_its_time,
    a_gang_of_kubernetes_own_ends_for_its_time,
]


@pytest.mark.parametrize("story", STORIES)
def test_a_gang(story):
    stage().run(story)


def forget(found):
    """What a delay may change: when things happened, and who has which marks for that."""
    found = without_times(found)
    for each in found.values():
        annotations = each["metadata"].get("annotations", {})
        annotations.pop(names.TIME_LIMIT_ENDS, None)
        if names.RUN in annotations:
            annotations[names.RUN] = sorted(json.loads(annotations[names.RUN]))
        if "spec" in each and "minMember" in each["spec"]:
            conditions = each["status"].get("conditions", ())
            each["status"]["conditions"] = [(condition["type"], condition["status"]) for condition in conditions]
    return found


@pytest.mark.parametrize("story", STORIES)
def test_a_gang_whose_controllers_die_before_any_write(story):
    assert same_after_every_crash(stage(), story, (Job, PodGroup, NativePodGroup, Pod), forget) > 2


def test_people_are_told_once_of_each_thing():
    async def story(stage):
        await a_job_ends_for_its_time(stage)
        assert await reasons(stage, "TimeLimit") == [
            *["TimeLimitWarning"] * 2,  # on the group and on the Job
            *["TimeLimitExceeded"] * 3,  # and when the Job acts on it
        ]

    stage().run(story)


def test_people_are_told_of_a_gang_of_kubernetes_own():
    async def story(stage):
        await a_gang_of_kubernetes_own_ends_for_its_time(stage)
        assert await reasons(stage, "TimeLimit") == ["TimeLimitWarning", "TimeLimitExceeded"]

    stage().run(story)


def test_a_limited_gang_costs_few_writes():
    """One for its start, one for the warning, one for the end; and one for each pod that asks for a signal."""

    async def story(stage):
        await stage.submit(*GANG, metadata={"annotations": WARNED})
        await stage.settle()
        before = +stage.executor.writes
        await stage.settle(8 * MINUTE_S)
        assert stage.executor.writes - before == {"patch PodGroup": 1, "patch Pod": 3}
        await stage.settle(2 * MINUTE_S)
        later = stage.executor.writes - before
        assert later["patch PodGroup"] == 2
        assert later["delete Pod"] == 3
        assert later["delete PodGroup"] == 1

    stage().run(story)


def test_an_unlimited_gang_costs_nothing():
    async def story(stage):
        await stage.submit(*GANG)
        await stage.settle()
        (driver,) = [each for each in stage.drivers if each.name == "timelimit"]
        assert driver.plans == 0

    stage().run(story)


def test_more_time_for_a_job_that_runs_is_more_time():
    async def story(stage):
        await stage.submit(*GANG, metadata={"annotations": WARNED})
        await stage.settle(9 * MINUTE_S)
        await stage.patch(Job, "train", {"metadata": {"annotations": {names.TIME_LIMIT: "20m"}}})
        await stage.settle(8 * MINUTE_S)
        assert await stage.phase() == "Running"
        await stage.settle(5 * MINUTE_S)
        assert await stage.phase() == "Terminated"
        assert len(await reasons(stage, "TimeLimitWarning")) == 4  # twice on the group and on the Job

    stage().run(story)


def test_more_time_for_a_bare_pod_is_more_time():
    async def story(stage):
        await stage.make(Pod, "alone", metadata={"annotations": LIMIT}, spec=SPEC)
        await stage.settle(9 * MINUTE_S)
        await stage.patch(Pod, "alone", {"metadata": {"annotations": {names.TIME_LIMIT: "20m"}}})
        await stage.settle(6 * MINUTE_S)
        assert await stage.names(Pod) == ["alone"]

    stage().run(story)


def test_a_job_that_is_suspended_and_resumed_has_all_its_time_again():
    async def story(stage):
        await stage.submit(*GANG, metadata={"annotations": LIMIT})
        await stage.settle(6 * MINUTE_S)
        await stage.end("train-worker-0")
        await stage.settle()
        await stage.command("AbortJob")
        await stage.settle()
        await stage.command("ResumeJob")
        await stage.settle(9 * MINUTE_S)
        assert await stage.phase() == "Running"
        await stage.settle(3 * MINUTE_S)
        assert await stage.phase() == "Terminated"

    stage().run(story)


def test_a_pod_that_is_restarted_alone_gives_the_gang_no_more_time():
    async def story(stage):
        policies = [{"event": "PodFailed", "action": "RestartPod"}]
        await stage.submit(*GANG, metadata={"annotations": LIMIT}, policies=policies, maxRetry=9)
        await stage.settle(6 * MINUTE_S)
        await stage.end("train-worker-0", code=1)
        await stage.settle(2 * MINUTE_S)
        assert sorted(await stage.pods()) == ALL
        assert await stage.phase() == "Running"
        await stage.settle(3 * MINUTE_S)
        assert await stage.phase() == "Terminated"

    stage().run(story)

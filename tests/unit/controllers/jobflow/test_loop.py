"""Flows on a server: a diamond in order, probes that open the way, clean-up, and deaths at any write."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.controllers.stage import Stage, outcome, patches_of, same_after_every_crash

from pumice.api import names
from pumice.api.batch import Job
from pumice.api.core import ConfigMap
from pumice.api.flow import JobFlow, JobTemplate
from pumice.api.pods import Pod
from pumice.controllers.garbage import loop as garbage
from pumice.controllers.jobflow import loop
from pumice.controllers.jobflow.probes import Question
from pumice.controllers.jobtemplate import loop as jobtemplate
from pumice.kube import errors

KINDS = [Job, JobFlow, JobTemplate]


def a_stage(ask=None):
    async def nobody(question):
        return False

    return Stage(lambda known: loop.controller(known, ask or nobody), jobtemplate.controller, kinds=KINDS)


async def template(stage, *template_names, tasks=("worker",)):
    pods = {"spec": {"containers": [{"name": "main", "image": "train"}]}}
    for name in template_names:
        made = [{"name": task, "replicas": 1, "template": pods} for task in tasks]
        await stage.make(JobTemplate, name, spec={"minAvailable": 1, "tasks": made})


async def flow(stage, waits, **spec):
    parts = [
        {"name": name, **({"dependsOn": {"targets": targets}} if targets else {})} for name, targets in waits.items()
    ]
    await stage.make(JobFlow, "f", spec={"flows": parts, **spec})


DIAMOND = {"a": [], "b": ["a"], "c": ["a"], "d": ["b", "c"]}


async def enter(stage, phase, *jobs):
    for name in jobs:
        await stage.patch(Job, name, {"status": {"state": {"phase": phase}}}, subresource="status")
    await stage.settle(2)


async def a_diamond(stage):
    await template(stage, *DIAMOND)
    await flow(stage, DIAMOND)
    await stage.settle(2)
    for jobs in (["f-a"], ["f-b", "f-c"], ["f-d"]):
        await enter(stage, "Running", *jobs)
        await enter(stage, "Completed", *jobs)


def test_four_jobs_run_in_order_and_the_flow_succeeds():
    async def body(stage):
        await template(stage, *DIAMOND)
        await flow(stage, DIAMOND)
        await stage.settle(2)
        assert await stage.names(Job) == ["f-a"]
        await enter(stage, "Completed", "f-a")
        assert await stage.names(Job) == ["f-a", "f-b", "f-c"]
        assert (await stage.get(JobFlow, "f"))["status"]["state"] == {"phase": "Running"}
        await enter(stage, "Completed", "f-b", "f-c")
        assert await stage.names(Job) == ["f-a", "f-b", "f-c", "f-d"]
        await enter(stage, "Completed", "f-d")
        status = (await stage.get(JobFlow, "f"))["status"]
        assert status["state"] == {"phase": "Succeed"}
        assert status["completedJobs"] == ["f-a", "f-b", "f-c", "f-d"]
        assert (await stage.get(JobTemplate, "a"))["status"]["jobDependsOnList"] == ["f-a"]
        assert ("Created", "Created job f-d") in await stage.events()
        assert stage.executor.writes["create Job"] == 4

    a_stage().run(body)


def test_a_flow_that_succeeded_cleans_up_where_that_is_wanted_and_only_its_own():
    async def body(stage):
        await template(stage, "a")
        await flow(stage, {"a": []}, jobRetainPolicy="delete")
        spec = {"tasks": [{"name": "w", "template": {"spec": {"containers": []}}}]}
        await stage.make(Job, "other", metadata={"labels": {names.CREATED_BY_JOB_FLOW: "team.f"}}, spec=spec)
        await stage.settle(2)
        await enter(stage, "Completed", "f-a")
        await stage.settle(5)
        assert await stage.names(Job) == ["other"]
        assert (await stage.get(JobFlow, "f"))["status"]["state"] == {"phase": "Succeed"}

    a_stage().run(body)


def test_jobs_that_are_collected_as_soon_as_they_are_done_are_not_run_again():
    async def body(stage):
        spec = {
            "minAvailable": 1,
            "ttlSecondsAfterFinished": 0,
            "tasks": [{"name": "w", "template": {"spec": {"containers": []}}}],
        }
        for name in ("a", "b"):
            await stage.make(JobTemplate, name, spec=spec)
        await flow(stage, {"a": [], "b": ["a"]})
        await stage.settle(2)
        for name in ("f-a", "f-b"):
            state = {"phase": "Completed", "lastTransitionTime": "2026-03-28T12:00:00Z"}
            await stage.patch(Job, name, {"status": {"state": state}}, subresource="status")
            await stage.settle(5)
        assert await stage.names(Job) == []
        status = (await stage.get(JobFlow, "f"))["status"]
        assert (status["state"], status["completedJobs"]) == ({"phase": "Succeed"}, ["f-a", "f-b"])
        assert stage.executor.writes["create Job"] == 2

    Stage(garbage.controller, loop.controller, kinds=KINDS).run(body)


def test_a_status_that_arrives_late_does_not_open_a_flow_again(monkeypatch):
    """Its jobs are gone, and would be made once more; the first write of their phase may be on its way for a minute, and made again meanwhile."""
    sent = patches_of(JobFlow, monkeypatch)

    async def body(stage):
        await template(stage, "a")
        await flow(stage, {"a": []}, jobRetainPolicy="delete")
        await stage.settle(2)
        await enter(stage, "Running", "f-a")
        again, _ = sent[-1]
        await enter(stage, "Completed", "f-a")
        await stage.settle(60)
        assert await stage.names(Job) == []
        with pytest.raises(errors.Conflict):
            await again()
        await stage.settle(60)
        assert await stage.names(Job) == []
        assert (await stage.get(JobFlow, "f"))["status"]["state"] == {"phase": "Succeed"}

    a_stage().run(body)


def test_a_deleted_flow_takes_its_jobs_along():
    async def body(stage):
        await template(stage, *DIAMOND)
        await flow(stage, DIAMOND)
        await stage.make(ConfigMap, "mine")
        await stage.settle(2)
        await stage.remove(JobFlow, "f")
        await stage.settle(5)
        assert await stage.names(Job) == []
        assert len(await stage.names(JobTemplate)) == 4
        assert "mine" in await stage.names(ConfigMap)

    a_stage().run(body)


def test_a_template_that_comes_late_is_enough():
    async def body(stage):
        await flow(stage, {"a": []})
        await stage.settle(5)
        assert await stage.names(Job) == []
        assert [reason for reason, _ in await stage.events()] == ["SyncJobFlow"]
        await template(stage, "a")
        await stage.settle(2)
        assert await stage.names(Job) == ["f-a"]

    a_stage().run(body)


def test_a_probe_opens_the_way_while_its_target_runs():
    asked = []

    async def ask(question):
        asked.append(question)
        await asyncio.sleep(0.01)
        return len(asked) > 3

    async def body(stage):
        await template(stage, "server", "client", tasks=["ps"])
        probe = {"httpGetList": [{"taskName": "ps", "path": "/ready", "port": 8080}]}
        parts = [{"name": "server"}, {"name": "client", "dependsOn": {"targets": ["server"], "probe": probe}}]
        await stage.make(JobFlow, "f", spec={"flows": parts})
        await stage.settle(3)
        assert asked == []
        job = await stage.get(Job, "f-server")
        owner = {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "name": "f-server",
            "uid": job["metadata"]["uid"],
            "controller": True,
        }
        metadata = {"annotations": {names.TASK_SPEC: "ps"}, "ownerReferences": [owner]}
        await stage.make(Pod, "f-server-ps-0", metadata=metadata, spec={"containers": [{"name": "m", "image": "x"}]})
        await stage.patch(
            Pod, "f-server-ps-0", {"status": {"phase": "Running", "podIP": "10.0.0.7"}}, subresource="status"
        )
        await stage.settle(10)
        assert await stage.names(Job) == ["f-client", "f-server"]
        assert set(asked) == {Question("10.0.0.7", 8080, "/ready")}
        count = len(asked)
        await stage.settle(30)
        assert len(asked) == count, "nobody wants to know any more"

    a_stage(ask).run(body)


def test_a_status_costs_one_write_a_phase_and_one_a_second_for_numbers():
    async def body(stage):
        await template(stage, "a")
        await flow(stage, {"a": []})
        await stage.settle(3)
        before = stage.executor.writes["patch JobFlow"]
        for number in range(20):
            counts = {"worker": {"phase": {"Running": number}}}
            await stage.patch(Job, "f-a", {"status": {"taskStatusCount": counts}}, subresource="status")
            await stage.clock.sleep(0.05)
        await stage.settle(3)
        assert stage.executor.writes["patch JobFlow"] - before <= 2
        condition = (await stage.get(JobFlow, "f"))["status"]["conditions"]["f-a"]
        assert condition["taskStatusCount"] == {"worker": {"phase": {"Running": 19}}}
        await stage.patch(
            Job,
            "f-a",
            [{"op": "add", "path": "/status/taskStatusCount", "value": {"worker": {"phase": {"Succeeded": 1}}}}],
            subresource="status",
            json=True,
        )
        await stage.settle(3)
        condition = (await stage.get(JobFlow, "f"))["status"]["conditions"]["f-a"]
        assert condition["taskStatusCount"] == {"worker": {"phase": {"Succeeded": 1}}}

    a_stage().run(body)


def without_times(found):
    for (kind, _), each in found.items():
        if kind == "Job":
            each["metadata"]["ownerReferences"][0].pop("uid")
        if kind == "JobFlow":
            each["status"]["jobStatusList"] = [
                (entry["name"], entry["state"]) for entry in each["status"]["jobStatusList"]
            ]
            for condition in each["status"]["conditions"].values():
                condition.pop("createTime")
    return found


def test_a_death_at_any_write_changes_nothing_of_the_end():
    assert same_after_every_crash(a_stage(), a_diamond, KINDS, without_times) > 10


@settings(max_examples=10, deadline=None)
@given(
    ends=st.lists(st.sampled_from(["Running", "Completed", "Completed", "Failed"]), min_size=4, max_size=8),
    retain=st.sampled_from(["retain", "delete"]),
    cut=st.integers(1, 15),
)
def test_whatever_becomes_of_its_jobs_a_death_changes_nothing(ends, retain, cut):
    async def story(stage):
        await template(stage, *DIAMOND)
        await flow(stage, DIAMOND, jobRetainPolicy=retain)
        await stage.settle(2)
        for number, phase in enumerate(ends):
            unfinished = [
                each["metadata"]["name"]
                for each in await stage.all(Job)
                if each.get("status", {}).get("state", {}).get("phase", "") not in {"Completed", "Failed"}
            ]
            if unfinished:
                await enter(stage, phase, sorted(unfinished)[number % len(unfinished)])
        await stage.settle()
        return without_times(await outcome(stage, KINDS))

    stage = a_stage()
    wanted = stage.run(story)
    stage.crash_before = cut
    assert stage.run(story) == wanted

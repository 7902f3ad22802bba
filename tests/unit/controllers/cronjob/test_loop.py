"""CronJobs on a server under virtual time: nights on which clocks change, and deaths at any write."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.controllers.stage import Stage, outcome, patches_of, same_after_every_crash

from pumice import instant
from pumice.api import names
from pumice.api.batch import CronJob, Job
from pumice.controllers.cronjob import loop
from pumice.kube import errors

HOUR_S = 3600.0


def a_stage(start="2026-03-28T12:00:00Z"):
    return Stage(loop.controller, kinds=[CronJob, Job], start=instant.parse_instant(start))


async def cron_job(stage, schedule, **spec):
    template = {"spec": {"tasks": [{"name": "worker", "replicas": 1, "template": {"spec": {"containers": []}}}]}}
    await stage.make(CronJob, "nightly", spec={"schedule": schedule, "jobTemplate": template, **spec})


async def end(stage, name, phase="Completed"):
    state = {"phase": phase, "lastTransitionTime": instant.format_instant(stage.clock.now())}
    await stage.patch(Job, name, {"status": {"state": state}}, subresource="status")


async def times(stage):
    return sorted(each["metadata"]["annotations"][names.CRONJOB_SCHEDULED_TIMESTAMP] for each in await stage.all(Job))


def test_in_the_night_that_skips_an_hour_a_job_of_that_hour_does_not_run():
    async def body(stage):
        await cron_job(stage, "30 2 * * *", timeZone="Europe/Berlin")
        await stage.settle(26 * HOUR_S)
        assert await times(stage) == ["2026-03-30T02:30:00+02:00"]
        (job,) = await stage.all(Job)
        assert job["metadata"]["creationTimestamp"] == "2026-03-30T00:30:00Z"

    a_stage("2026-03-28T23:00:00Z").run(body)


def test_in_the_night_that_has_an_hour_twice_a_job_of_that_hour_runs_twice():
    async def body(stage):
        await cron_job(stage, "30 2 * * *", timeZone="Europe/Berlin")
        await stage.settle(24 * HOUR_S)
        assert await times(stage) == ["2026-10-25T02:30:00+01:00", "2026-10-25T02:30:00+02:00"]
        assert sorted(each["metadata"]["creationTimestamp"] for each in await stage.all(Job)) == [
            "2026-10-25T00:30:00Z",
            "2026-10-25T01:30:00Z",
        ]

    a_stage("2026-10-24T22:00:00Z").run(body)


def test_an_hourly_job_runs_every_hour_of_both_nights():
    async def body(stage):
        await cron_job(stage, "0 * * * *", timeZone="Europe/Berlin")
        await stage.settle(24 * HOUR_S + 60)
        return len(await stage.names(Job))

    assert a_stage("2026-03-28T12:00:00Z").run(body) == 24
    assert a_stage("2026-10-24T12:00:00Z").run(body) == 24


def test_a_run_costs_four_writes_and_history_stays_within_its_limit():
    async def body(stage):
        await cron_job(stage, "0 * * * *", successfulJobsHistoryLimit=1)
        await stage.settle(60)
        for _ in range(5):
            await stage.settle(HOUR_S)
            for name in await stage.names(Job):
                if not (await stage.get(Job, name)).get("status"):
                    await end(stage, name)
        await stage.settle(60)
        status = (await stage.get(CronJob, "nightly"))["status"]
        assert status["active"] == []
        assert (status["lastScheduleTime"], status["lastSuccessfulTime"]) == (
            "2026-03-28T17:00:00Z",
            "2026-03-28T17:01:00Z",
        )
        assert await stage.names(Job) == [f"nightly-{instant.parse_instant('2026-03-28T17:00:00Z') // instant.MINUTE}"]
        assert stage.executor.writes == {"create Job": 5, "patch CronJob": 10, "delete Job": 4}

    a_stage().run(body)


def test_forbid_runs_the_missed_time_once_the_job_before_it_has_ended():
    async def body(stage):
        await cron_job(stage, "0 * * * *", concurrencyPolicy="Forbid")
        await stage.settle(HOUR_S + 60)
        (first,) = await stage.names(Job)
        await stage.settle(HOUR_S)
        assert await stage.names(Job) == [first]
        await end(stage, first, "Failed")
        await stage.settle(5)
        assert await times(stage) == ["2026-03-28T13:00:00Z", "2026-03-28T14:00:00Z"]
        assert "ForbidConcurrent" in [reason for reason, _ in await stage.events()]

    a_stage().run(body)


def test_a_status_that_arrives_late_makes_no_job_run_again(monkeypatch):
    """Where no Jobs are kept, the status alone tells which times are over; its first write may be on its way for two hours, and made again meanwhile."""
    sent = patches_of(CronJob, monkeypatch)

    async def body(stage):
        await cron_job(stage, "0 * * * *", successfulJobsHistoryLimit=0)
        await stage.settle(60)
        for _ in range(2):
            await stage.settle(HOUR_S)
            (job,) = await stage.all(Job)
            await end(stage, job["metadata"]["name"])
        await stage.settle(60)
        assert await stage.all(Job) == []
        again = next(again for again, what in sent if "lastScheduleTime" in what[2]["status"])
        with pytest.raises(errors.Conflict):
            await again()
        await stage.settle(600)
        assert await stage.all(Job) == []

    a_stage().run(body)


def test_a_suspended_one_that_goes_on_runs_what_it_missed_last():
    async def body(stage):
        await cron_job(stage, "0 * * * *", suspend=True)
        await stage.settle(5 * HOUR_S + 60)
        assert await stage.names(Job) == []
        await stage.patch(CronJob, "nightly", {"spec": {"suspend": False}})
        await stage.settle(5)
        assert await times(stage) == ["2026-03-28T17:00:00Z"]

    a_stage().run(body)


def test_its_jobs_go_with_it_and_others_stay():
    async def body(stage):
        await cron_job(stage, "0 * * * *")
        await stage.make(Job, "other", spec={"tasks": [{"name": "w", "template": {"spec": {"containers": []}}}]})
        await stage.settle(HOUR_S + 60)
        assert len(await stage.names(Job)) == 2
        await stage.remove(CronJob, "nightly")
        await stage.settle(2 * HOUR_S)
        assert await stage.names(Job) == ["other"]

    a_stage().run(body)


def test_a_job_of_somebody_else_under_its_name_is_left_alone():
    async def body(stage):
        name = f"nightly-{instant.parse_instant('2026-03-28T13:00:00Z') // instant.MINUTE}"
        spec = {"tasks": [{"name": "w", "template": {"spec": {"containers": []}}}]}
        await stage.make(Job, name, spec=spec)
        await cron_job(stage, "0 * * * *")
        await stage.settle(HOUR_S + 120)
        assert "ownerReferences" not in (await stage.get(Job, name))["metadata"]
        assert "FailedCreate" in [reason for reason, _ in await stage.events()]
        await stage.settle(HOUR_S)
        stage.failures.clear()
        assert len(await stage.names(Job)) == 2

    a_stage().run(body)


async def half_an_hour(stage):
    await cron_job(stage, "*/6 * * * *", concurrencyPolicy="Replace", successfulJobsHistoryLimit=1)
    for minute in range(30):
        await stage.settle(61)
        if minute % 7 == 0:
            for name in await stage.names(Job):
                await end(stage, name)


def test_a_death_at_any_write_neither_loses_nor_repeats_a_run():
    def forget(found):
        for (kind, _), each in found.items():
            if kind == "CronJob":
                each["status"]["active"] = [reference["name"] for reference in each["status"]["active"]]
            else:
                del each["metadata"]["ownerReferences"]
        return found

    assert same_after_every_crash(a_stage(), half_an_hour, [CronJob, Job], forget) > 5


@settings(max_examples=15, deadline=None)
@given(
    policy=st.sampled_from(["Allow", "Forbid", "Replace"]),
    ends=st.lists(st.sampled_from([None, "Completed", "Failed", "Terminated", "Aborted"]), min_size=3, max_size=6),
    limits=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    cut=st.integers(1, 20),
)
def test_whatever_becomes_of_its_jobs_a_death_changes_nothing_of_the_end(policy, ends, limits, cut):
    async def story(stage):
        good, bad = limits
        spec = {"concurrencyPolicy": policy, "successfulJobsHistoryLimit": good, "failedJobsHistoryLimit": bad}
        await cron_job(stage, "*/5 * * * *", **spec)
        for phase in ends:
            await stage.settle(305)
            for name in await stage.names(Job):
                if phase and not (await stage.get(Job, name)).get("status"):
                    await end(stage, name, phase)
        await stage.settle()
        found = await outcome(stage, [CronJob, Job])
        runs = sorted(name for kind, name in found if kind == "Job")
        return runs, found["CronJob", "nightly"]["status"].get("lastScheduleTime")

    stage = a_stage()
    wanted = stage.run(story)
    stage.crash_before = cut
    assert stage.run(story) == wanted


def test_between_two_forbid_runs_the_status_is_never_without_an_active_job():
    """The job of 13:00 runs until 14:30, so that the one of 14:00 starts the moment it ends."""
    seen = []

    async def body(stage):
        stage.known.of(CronJob).subscribe(lambda changed: seen.extend(len(each.status.active) for each in changed))
        await cron_job(stage, "0 * * * *", concurrencyPolicy="Forbid")
        await stage.settle(2.5 * HOUR_S)
        (first,) = await stage.names(Job)
        await end(stage, first)
        await stage.settle()
        second = max(await stage.names(Job))
        assert second != first
        (active,) = (await stage.get(CronJob, "nightly"))["status"]["active"]
        assert active["name"] == second
        assert [reason for reason, _ in await stage.events()].count("SawCompletedJob") == 1

    a_stage().run(body)
    assert 0 not in seen[seen.index(1) :]

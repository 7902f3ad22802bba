"""What a CronJob does, from its spec, its status and its Jobs alone."""

import msgspec
import pytest

from pumice import instant
from pumice.api import names
from pumice.api.batch import (
    CronJob,
    CronJobSpec,
    CronJobStatus,
    CronJobTemplate,
    Job,
    JobState,
    JobStatus,
    JobTemplateMeta,
)
from pumice.api.meta import ObjectMeta, ObjectReference
from pumice.controllers.cronjob.plan import plan
from pumice.controllers.operations import NOTHING_TO_DO, Create, Delete, Emit, Patch

NOON = instant.parse_instant("2026-03-28T12:00:00Z")
MINUTE = instant.MINUTE
NOON_JOB = f"nightly-{NOON // MINUTE}"


def a_cron_job(schedule="0 * * * *", *, created="2026-03-28T11:30:00Z", status=None, **spec):
    template = CronJobTemplate(
        metadata=JobTemplateMeta(labels={"team": "blue"}, annotations={"note": "x"}, name="ignored"),
        spec=msgspec.Raw(b'{"minAvailable":1,"unheard":{"of":true}}'),
    )
    return CronJob(
        metadata=ObjectMeta(name="nightly", namespace="team", uid="u-cron", creation_timestamp=created),
        spec=CronJobSpec(schedule=schedule, job_template=template, **spec),
        status=status or CronJobStatus(),
    )


def a_job(name, phase="Running", *, at=None, ended=None, created="2026-03-28T11:00:00Z", **metadata):
    marks = {names.CRONJOB_SCHEDULED_TIMESTAMP: at} if at else {}
    return Job(
        metadata=ObjectMeta(
            name=name,
            namespace="team",
            uid=f"u-{name}",
            creation_timestamp=created,
            annotations=marks,
            **metadata,
        ),
        status=JobStatus(state=JobState(phase=phase, last_transition_time=ended)),
    )


def listing(*jobs):
    return tuple(ObjectReference(uid=job.metadata.uid, name=job.metadata.name) for job in jobs)


def of(kind, found):
    return [each for each in found if isinstance(each, kind)]


def words(found):
    return [(each.reason, each.message) for each in of(Emit, found)]


def test_a_job_whose_time_has_come_is_made_and_the_next_look_is_at_the_next_time():
    found = plan(a_cron_job(), (), NOON)
    (create,) = of(Create, found)
    assert create.body == {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {
            "name": NOON_JOB,
            "namespace": "team",
            "labels": {"team": "blue"},
            "annotations": {"note": "x", names.CRONJOB_SCHEDULED_TIMESTAMP: "2026-03-28T12:00:00Z"},
            "ownerReferences": [
                {
                    "apiVersion": "batch.volcano.sh/v1alpha1",
                    "kind": "CronJob",
                    "name": "nightly",
                    "uid": "u-cron",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {"minAvailable": 1, "unheard": {"of": True}},
    }
    assert found.again_at == NOON + instant.HOUR
    assert words(found) == [("SuccessfulCreate", f"Created job {NOON_JOB}")]


def test_before_its_time_nothing_happens():
    found = plan(a_cron_job(), (), NOON - 1)
    assert list(found) == []
    assert found.again_at == NOON


def test_the_time_is_written_in_the_zone_of_the_schedule():
    (create,) = of(Create, plan(a_cron_job("0 13 * * *", time_zone="Europe/Berlin"), (), NOON))
    assert create.body["metadata"]["annotations"][names.CRONJOB_SCHEDULED_TIMESTAMP] == "2026-03-28T13:00:00+01:00"


def test_a_job_that_is_there_is_not_made_again_though_nobody_recorded_it():
    """The process died between making and recording; now it records."""
    job = a_job(NOON_JOB, at="2026-03-28T12:00:00Z")
    found = plan(a_cron_job(), [job], NOON)
    (patch,) = found
    assert patch.body["status"]["lastScheduleTime"] == "2026-03-28T12:00:00Z"
    assert [each["name"] for each in patch.body["status"]["active"]] == [NOON_JOB]
    assert patch.subresource == "status"


def test_what_is_recorded_is_not_done_again_though_its_job_is_gone():
    status = CronJobStatus(last_schedule_time="2026-03-28T12:00:00Z")
    assert list(plan(a_cron_job(status=status), (), NOON)) == []


def test_of_many_missed_times_only_the_last_is_run():
    found = plan(a_cron_job("*/10 * * * *", created="2026-03-28T11:00:00Z"), (), NOON + MINUTE)
    assert [each.name for each in of(Create, found)] == [NOON_JOB]


def test_more_than_a_hundred_missed_times_are_told_of_and_the_last_is_run():
    found = plan(a_cron_job("* * * * *", created="2026-03-27T12:00:00Z"), (), NOON)
    assert of(Create, found)
    assert words(found)[0][0] == "TooManyMissedTimes"


def test_a_time_older_than_the_deadline_is_let_go():
    late = NOON + 61 * instant.SECOND
    assert of(Create, plan(a_cron_job(starting_deadline_seconds=60), (), late)) == []
    assert of(Create, plan(a_cron_job(starting_deadline_seconds=61), (), late))


def test_a_suspended_one_starts_nothing_and_keeps_its_books():
    job = a_job("old", "Completed", at="2026-03-28T11:00:00Z", ended="2026-03-28T11:05:00Z")
    cron_job = a_cron_job(suspend=True, status=CronJobStatus(active=listing(job)))
    found = plan(cron_job, [job], NOON)
    assert of(Create, found) == []
    (patch,) = of(Patch, found)
    assert patch.body["status"] == {
        "active": [],
        "lastScheduleTime": "2026-03-28T11:00:00Z",
        "lastSuccessfulTime": "2026-03-28T11:05:00Z",
    }
    assert words(found) == [("SawCompletedJob", "Saw completed job: old, condition: Completed")]


def booked(cron_job_spec, *jobs):
    """A CronJob whose status knows its Jobs already."""
    active = [job for job in jobs if job.status.state.phase in {"", "Pending", "Running", "Aborting"}]
    return a_cron_job(
        **cron_job_spec,
        status=CronJobStatus(active=listing(*active), last_schedule_time="2026-03-28T11:00:00Z"),
    )


def test_forbid_starts_nothing_beside_an_active_job_and_says_so():
    job = a_job("old", at="2026-03-28T11:00:00Z")
    found = plan(booked({"concurrency_policy": "Forbid"}, job), [job], NOON)
    assert words(found) == [
        ("ForbidConcurrent", "no job was started: old has not ended, and spec.concurrencyPolicy forbids a second one")
    ]
    assert of(Create, found) == []
    assert found.again_at == NOON + instant.HOUR


@pytest.mark.parametrize("phase", ["Completed", "Failed", "Terminated", "Aborted"])
def test_a_job_that_is_over_makes_room_for_the_next(phase):
    job = a_job("old", phase, at="2026-03-28T11:00:00Z")
    assert of(Create, plan(booked({"concurrency_policy": "Forbid"}, job), [job], NOON))


def test_replace_deletes_what_is_active_before_it_starts_the_next():
    job = a_job("old", at="2026-03-28T11:00:00Z")
    found = plan(booked({"concurrency_policy": "Replace"}, job), [job], NOON)
    deletes, _, creates, _ = found.stages
    assert [(type(each), each.name, each.uid) for each in deletes] == [(Delete, "old", "u-old")]
    assert [each.name for each in creates] == [NOON_JOB]


def test_replace_does_not_delete_twice():
    job = a_job("old", at="2026-03-28T11:00:00Z", deletion_timestamp="2026-03-28T12:00:00Z")
    found = plan(booked({"concurrency_policy": "Replace"}, job), [job], NOON)
    assert of(Delete, found) == []
    assert of(Create, found)


def test_allow_starts_beside_whatever_runs():
    job = a_job("old", at="2026-03-28T11:00:00Z")
    assert of(Create, plan(booked({}, job), [job], NOON))


def test_old_jobs_go_oldest_first_and_those_that_ended_badly_have_a_limit_of_their_own():
    ended = [
        a_job("good-1", "Completed", created="2026-03-28T01:00:00Z"),
        a_job("good-2", "Completed", created="2026-03-28T02:00:00Z"),
        a_job("bad-1", "Failed", created="2026-03-28T01:00:00Z"),
        a_job("bad-2", "Terminated", created="2026-03-28T02:00:00Z"),
        a_job("bad-3", "Aborted", created="2026-03-28T03:00:00Z"),
        a_job("busy", "Running", created="2026-03-28T00:00:00Z"),
        a_job("ending", "Aborting", created="2026-03-28T00:00:00Z"),
    ]
    limits = {"successful_jobs_history_limit": 1, "failed_jobs_history_limit": 1, "suspend": True}
    found = plan(booked(limits, *ended), ended, NOON)
    assert sorted(each.name for each in of(Delete, found)) == ["bad-1", "bad-2", "good-1"]
    none = {"successful_jobs_history_limit": 0, "failed_jobs_history_limit": 0, "suspend": True}
    assert len(of(Delete, plan(booked(none, *ended), ended, NOON))) == 5


def test_the_time_of_a_job_is_recorded_before_the_job_is_pruned():
    job = a_job(NOON_JOB, "Completed", at="2026-03-28T12:00:00Z", ended="2026-03-28T12:00:01Z")
    found = plan(a_cron_job(successful_jobs_history_limit=0), [job], NOON + MINUTE)
    kinds = [type(stage[0]) for stage in found.stages]
    assert kinds.index(Patch) < kinds.index(Delete)
    assert of(Create, found) == []


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"schedule": "0 * * * *", "time_zone": "Mars/Olympus"}, "InvalidTimeZone"),
        ({"schedule": "nonsense"}, "UnParseableCronJobSchedule"),
        ({"schedule": "CRON_TZ=UTC 0 * * * *"}, "UnsupportedSchedule"),
    ],
)
def test_a_schedule_that_cannot_be_read_is_told_of(spec, reason):
    found = plan(a_cron_job(**spec), (), NOON)
    assert [word for word, _ in words(found)] == [reason]
    assert found.again_at is None


def test_several_jobs_a_minute_have_names_of_their_own():
    cron_job = a_cron_job("@every 20s", created="2026-03-28T12:00:00Z")
    (first,) = of(Create, plan(cron_job, (), NOON + 20 * instant.SECOND))
    (second,) = of(Create, plan(cron_job, (), NOON + 40 * instant.SECOND))
    assert (first.name, second.name) == (f"{NOON_JOB}-20", f"{NOON_JOB}-40")


def test_a_spoilt_note_on_a_job_is_ignored():
    job = a_job("odd", at="yesterday")
    assert of(Create, plan(a_cron_job(), [job], NOON))


def test_a_cron_job_that_is_going_starts_nothing():
    going = CronJob(metadata=ObjectMeta(name="nightly", deletion_timestamp="2026-03-28T12:00:00Z"))
    assert plan(going, (), NOON) == NOTHING_TO_DO

"""A template's list of the Jobs that were made from it."""

from tests.unit.controllers.stage import Stage, same_after_every_crash

from pumice.api import names
from pumice.api.batch import Job
from pumice.api.flow import JobTemplate, JobTemplateStatus
from pumice.api.meta import ObjectMeta
from pumice.controllers.jobtemplate import loop
from pumice.controllers.jobtemplate.plan import JOBS_LISTED_MAX, plan
from pumice.controllers.operations import NOTHING_TO_DO

SPEC = {"tasks": [{"name": "w", "replicas": 1, "template": {"spec": {"containers": []}}}]}


def a_template(*listed, **metadata):
    return JobTemplate(
        metadata=ObjectMeta(name="t", namespace="team", uid="u", **metadata), status=JobTemplateStatus(listed)
    )


def some_jobs(*job_names):
    return [Job(metadata=ObjectMeta(name=name, namespace="team")) for name in job_names]


def test_the_list_is_sorted_and_written_only_if_it_differs():
    (patch,) = plan(a_template(), some_jobs("b", "a"))
    assert patch.body == {"status": {"jobDependsOnList": ["a", "b"]}}
    assert plan(a_template("a", "b"), some_jobs("b", "a")) == NOTHING_TO_DO
    (emptied,) = plan(a_template("a"), [])
    assert emptied.body == {"status": {"jobDependsOnList": []}}


def test_the_list_has_an_end():
    (patch,) = plan(a_template(), some_jobs(*(f"j{number:05}" for number in range(JOBS_LISTED_MAX + 1))))
    assert len(patch.body["status"]["jobDependsOnList"]) == JOBS_LISTED_MAX


def test_a_template_that_is_going_is_left_alone():
    assert plan(a_template(deletion_timestamp="2026-03-28T12:00:00Z"), some_jobs("a")) == NOTHING_TO_DO


async def a_job(stage, name, origin):
    await stage.make(Job, name, metadata={"annotations": {names.CREATED_BY_JOB_TEMPLATE: origin}}, spec=SPEC)


async def some_templates(stage):
    await stage.make(JobTemplate, "t", spec=SPEC)
    await stage.make(JobTemplate, "with.dot", spec=SPEC)
    await a_job(stage, "one", "team.t")
    await a_job(stage, "two", "team.t")
    await a_job(stage, "three", "team.with.dot")
    await a_job(stage, "foreign", "other.t")


def test_jobs_are_found_by_their_origin_and_forgotten_when_they_are_gone():
    async def body(stage):
        await some_templates(stage)
        await stage.settle(3)
        assert (await stage.get(JobTemplate, "t"))["status"] == {"jobDependsOnList": ["one", "two"]}
        assert (await stage.get(JobTemplate, "with.dot"))["status"] == {"jobDependsOnList": ["three"]}
        assert stage.executor.writes == {"patch JobTemplate": 2}
        await stage.remove(Job, "one")
        await stage.settle(3)
        assert (await stage.get(JobTemplate, "t"))["status"] == {"jobDependsOnList": ["two"]}

    Stage(loop.controller, kinds=[Job, JobTemplate]).run(body)


def test_a_death_at_any_write_changes_nothing_of_the_end():
    stage = Stage(loop.controller, kinds=[Job, JobTemplate])
    assert same_after_every_crash(stage, some_templates, [JobTemplate]) == 2

"""Finished Jobs go when their time is up, with all that they made, and no others do."""

import pytest
from tests.unit.controllers.stage import Stage, same_after_every_crash

from pumice import instant
from pumice.api.batch import Job, JobSpec, JobState, JobStatus
from pumice.api.core import ConfigMap
from pumice.api.meta import ObjectMeta
from pumice.controllers.garbage import loop
from pumice.controllers.garbage.plan import plan
from pumice.controllers.operations import NOTHING_TO_DO, Delete, Plan
from pumice.kube.requests import Propagation

FINISHED_AT = instant.parse_instant("2026-03-28T12:00:00Z")


def a_job(phase, *, ttl=60, at="2026-03-28T12:00:00Z", **metadata):
    return Job(
        metadata=ObjectMeta(name="train", namespace="team", uid="u1", **metadata),
        spec=JobSpec(ttl_seconds_after_finished=ttl),
        status=JobStatus(state=JobState(phase=phase, last_transition_time=at)),
    )


@pytest.mark.parametrize("phase", ["Completed", "Failed", "Terminated"])
def test_a_finished_job_goes_when_its_time_is_up_and_not_before(phase):
    due = FINISHED_AT + 60 * instant.SECOND
    assert plan(a_job(phase), due - 1) == Plan(again_at=due)
    ((delete,),) = plan(a_job(phase), due).stages
    assert isinstance(delete, Delete)
    assert (delete.name, delete.uid, delete.propagation) == ("train", "u1", Propagation.FOREGROUND)


@pytest.mark.parametrize("phase", ["", "Pending", "Running", "Restarting", "Completing", "Aborting", "Aborted"])
def test_a_job_that_is_not_over_stays(phase):
    assert plan(a_job(phase), FINISHED_AT * 2) == NOTHING_TO_DO


def test_a_job_without_a_time_to_live_stays_for_ever():
    assert plan(a_job("Completed", ttl=None), FINISHED_AT * 2) == NOTHING_TO_DO


def test_zero_seconds_are_a_time_to_live_too():
    assert list(plan(a_job("Completed", ttl=0), FINISHED_AT))


def test_nothing_is_asked_for_a_job_that_is_going_or_does_not_say_since_when_it_is_over():
    assert plan(a_job("Completed", deletion_timestamp="2026-03-28T13:00:00Z"), FINISHED_AT * 2) == NOTHING_TO_DO
    assert plan(a_job("Completed", at=None), FINISHED_AT * 2) == NOTHING_TO_DO


async def a_finished_job(stage):
    spec = {"ttlSecondsAfterFinished": 30, "tasks": [{"name": "worker", "template": {"spec": {"containers": []}}}]}
    state = {"phase": "Completed", "lastTransitionTime": "2026-03-28T12:00:00Z"}
    job = await stage.make(Job, "train", spec=spec, status={"state": state})
    await stage.make(Job, "other", spec={**spec, "ttlSecondsAfterFinished": 3600}, status={"state": state})
    owner = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "name": "train",
        "uid": job["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    await stage.make(ConfigMap, "hosts", metadata={"ownerReferences": [owner]})
    await stage.make(ConfigMap, "somebody-elses")


def test_what_the_job_made_goes_with_it_and_nothing_else():
    async def body(stage):
        await a_finished_job(stage)
        await stage.settle(29)
        assert await stage.names(Job) == ["other", "train"]
        await stage.settle(2)
        assert await stage.names(Job) == ["other"]
        maps = await stage.names(ConfigMap)
        assert "hosts" not in maps
        assert "somebody-elses" in maps
        assert stage.executor.writes == {"delete Job": 1}

    Stage(loop.controller, kinds=[Job]).run(body)


def test_a_death_before_the_delete_only_delays_it():
    assert same_after_every_crash(Stage(loop.controller, kinds=[Job]), a_finished_job, [Job, ConfigMap]) == 1

"""What plugins made and somebody deleted is made again while the Job runs; and how often anybody looks."""

import pytest
from tests.unit.controllers.job.literals import NOW, a_job, gang, told
from tests.unit.controllers.job.theatre import Theatre

from pumice import instant
from pumice.api.core import ConfigMap, Secret, Service
from pumice.controllers.job.plugins.svc import NETWORK_POLICY
from pumice.controllers.job.repair_rounds import JOBS_A_SECOND, RESTORE_S_MIN, Rounds
from pumice.controllers.operations import NOTHING_TO_DO, Create, Plan

MADE = {"plugin-svc": "svc", "plugin-ssh": "ssh"}
PLUGINS = {"svc": [], "ssh": ["--ssh-private-key=secret", "--ssh-public-key=public"]}
TURN = round(RESTORE_S_MIN * instant.SECOND)


def a_job_with_plugins(name="train", **more):
    return a_job(name=name, plugins=PLUGINS, status={"controlledResources": MADE}, **more)


def test_when_it_is_time_every_object_is_asked_for_and_otherwise_none():
    job = a_job_with_plugins()
    found = told(job, *gang(), restores=True)
    asked = [each for each in found.operations if isinstance(each, Create) and each.restored is not None]
    assert {each.body["kind"] for each in asked} == {"ConfigMap", "Service", "NetworkPolicy", "Secret"}
    assert all("was deleted while the job runs" in each.restored.message for each in asked)
    assert not [each for each in told(job, *gang()).operations if isinstance(each, Create)]


def test_new_keys_come_with_a_warning_for_those_who_have_the_old_ones():
    job = a_job(plugins={"ssh": []}, status={"controlledResources": {"plugin-ssh": "ssh"}})
    (create,) = [each for each in told(job, *gang(), restores=True).operations if isinstance(each, Create)]
    assert "pods that run keep the old ones" in create.restored.message


def test_a_job_has_its_turn_once_an_interval_and_not_right_after_its_objects_were_made():
    rounds, job = Rounds(), a_job_with_plugins()
    assert [rounds.is_due(job, NOW + at) for at in (0, TURN - 1, TURN, TURN + 1, 2 * TURN)] == [
        False,
        False,
        True,
        False,
        True,
    ]


def test_a_plan_is_made_again_for_the_jobs_turn_or_sooner():
    rounds, job = Rounds(), a_job_with_plugins()
    assert rounds.schedule_repair(NOTHING_TO_DO, job) == NOTHING_TO_DO
    rounds.is_due(job, NOW)
    assert rounds.schedule_repair(NOTHING_TO_DO, job).again_at == NOW + TURN
    assert rounds.schedule_repair(Plan(again_at=NOW + 1), job).again_at == NOW + 1
    assert rounds.schedule_repair(Plan(again_at=NOW + 2 * TURN), job).again_at == NOW + TURN


def test_the_more_jobs_there_are_the_longer_is_a_round():
    rounds = Rounds()
    many = int(4 * RESTORE_S_MIN * JOBS_A_SECOND)
    for number in range(many):
        rounds.is_due(a_job_with_plugins(f"job-{number}"), NOW)
    last = a_job_with_plugins(f"job-{many - 1}")
    assert not rounds.is_due(last, NOW + 3 * TURN)
    assert rounds.is_due(last, NOW + 4 * TURN)


@pytest.mark.parametrize("over", [a_job(), a_job_with_plugins(phase="Completed")])
def test_jobs_without_such_objects_and_jobs_that_are_over_have_no_turn_and_are_not_remembered(over):
    rounds = Rounds()
    rounds.is_due(a_job_with_plugins(), NOW)
    assert not rounds.is_due(over, NOW + 10 * TURN)
    assert len(rounds) == 0


def test_whatever_somebody_deletes_is_back_soon_and_people_are_told():
    async def body(stage):
        await stage.submit(("worker", 2), plugins=PLUGINS)
        await stage.settle()
        for struct, name in ((Service, "train"), (ConfigMap, "train-svc"), (Secret, "train-ssh")):
            await stage.remove(struct, name)
        await stage.client.delete(NETWORK_POLICY, "train", namespace="team")
        before = stage.written
        await stage.settle(2 * RESTORE_S_MIN)
        assert stage.written == before + 4
        assert await stage.get(Service, "train") is not None
        assert await stage.names(ConfigMap) == ["train-svc"]
        assert await stage.names(Secret) == ["train-ssh"]
        assert len(await stage.client.list_json(NETWORK_POLICY, namespace="team")) == 1
        told = sorted(message.partition(" was")[0] for reason, message in await stage.events() if "Missing" in reason)
        assert told == ["ConfigMap train-svc", "NetworkPolicy train", "Secret train-ssh", "Service train"]
        assert await stage.phase() == "Running"

    Theatre().run(body)


def test_as_long_as_everything_is_there_looking_writes_nothing():
    async def body(stage):
        await stage.submit(("worker", 2), plugins=PLUGINS)
        await stage.settle()
        before = stage.written
        await stage.settle(10 * RESTORE_S_MIN)
        assert stage.written == before
        assert "PluginObjectMissing" not in [reason for reason, _ in await stage.events()]

    Theatre().run(body)


def test_a_suspended_jobs_objects_stay_away():
    async def body(stage):
        await stage.submit(("worker", 2), plugins=PLUGINS)
        await stage.settle()
        await stage.command("AbortJob")
        await stage.settle(10 * RESTORE_S_MIN)
        assert await stage.names(ConfigMap) == await stage.names(Secret) == []

    Theatre().run(body)

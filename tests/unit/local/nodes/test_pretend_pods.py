import random

import pytest

from pumice.api import decoding
from pumice.api.pods import Pod
from pumice.instant import SECOND, parse_instant
from pumice.local.nodes import distributions
from pumice.local.nodes.admission import Rejection
from pumice.local.nodes.pretend_pods import NEVER, Behaviour, Life, Stage, plan_of

NOON = parse_instant("2026-01-31T12:00:00Z")


def a_pod(*, annotations=None, policy="Never", deleted=None, status=None, inits=()):
    metadata = {"name": "p", "namespace": "ns", "uid": "u", "annotations": annotations or {}}
    if deleted is not None:
        metadata |= {"deletionTimestamp": "2026-01-31T12:00:00Z", "deletionGracePeriodSeconds": deleted}
    spec = {"containers": [{"name": "main"}], "initContainers": list(inits), "restartPolicy": policy}
    return decoding.decode_value(Pod, {"metadata": metadata, "spec": spec, "status": status or {}})


def a_life(pod, behaviour=None, at=0.0):
    plan = plan_of(pod, behaviour or Behaviour(), random.Random(0))
    return Life(pod, plan, address="10.128.0.1", host="127.0.0.1", at=at, now=NOON)


def advance(life, at):
    life.advance(at, NOON + round(at * SECOND))
    return life.stage, life.report.phase


def test_a_pod_without_wishes_runs_at_once_and_for_ever():
    life = a_life(a_pod())
    assert advance(life, 0.0) == (Stage.RUNNING, "Running")
    assert life.due == NEVER
    assert life.status(NOON)["podIP"] == "10.128.0.1"


@pytest.mark.parametrize(("code", "phase"), [(None, "Succeeded"), ("0", "Succeeded"), ("3", "Failed")])
def test_an_annotated_pod_ends_after_its_time_with_its_exit_code(code, phase):
    wishes = {"pumice.dev/pretend-run": "1.5s"} | ({"pumice.dev/pretend-exit-code": code} if code else {})
    life = a_life(a_pod(annotations=wishes))
    assert advance(life, 1.0) == (Stage.RUNNING, "Running")
    assert life.due == 2.5
    assert advance(life, 2.5) == (Stage.OVER, phase)
    ended = life.status(NOON)["containerStatuses"][0]["state"]["terminated"]
    assert ended["exitCode"] == int(code or 0)
    assert (ended["startedAt"], ended["finishedAt"]) == ("2026-01-31T12:00:01Z", "2026-01-31T12:00:02Z")


def test_annotations_win_over_what_the_agent_was_told():
    behaviour = Behaviour(run=distributions.constant(60.0), failure_rate=1.0, stop=distributions.constant(9.0))
    plan = plan_of(a_pod(), behaviour, random.Random(0))
    assert (plan.run_s, plan.exit_code, plan.stop_s) == (60.0, 1, 9.0)
    wishes = {"pumice.dev/pretend-run": "2s", "pumice.dev/pretend-stop": "3s"}
    plan = plan_of(a_pod(annotations=wishes), behaviour, random.Random(0))
    assert (plan.run_s, plan.exit_code, plan.stop_s) == (2.0, 0, 3.0)


def test_an_annotation_that_cannot_be_read_is_complained_about_and_ignored():
    plan = plan_of(a_pod(annotations={"pumice.dev/pretend-exit-code": "300"}), Behaviour(), random.Random(0))
    assert plan.complaint.startswith("exit code '300' is not a number from 0 to 255")
    assert plan.exit_code == 0


def test_a_pod_that_is_always_restarted_runs_again_with_a_growing_back_off():
    life = a_life(a_pod(annotations={"pumice.dev/pretend-run": "1s"}, policy="Always"))
    assert advance(life, 0.0) == (Stage.RUNNING, "Running")
    assert advance(life, 1.0) == (Stage.RUNNING, "Running")  # the first restart does not wait
    assert advance(life, 2.0) == (Stage.BACKING_OFF, "Running")
    status = life.status(NOON)["containerStatuses"][0]
    assert status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert (status["restartCount"], life.due) == (1, 12.0)
    assert advance(life, 12.0)[0] is Stage.RUNNING
    assert advance(life, 13.0) == (Stage.BACKING_OFF, "Running")
    assert life.due == 33.0


@pytest.mark.parametrize(("code", "stage"), [("0", Stage.OVER), ("1", Stage.RUNNING)])
def test_a_pod_that_is_restarted_on_failure_ends_with_success_only(code, stage):
    wishes = {"pumice.dev/pretend-run": "1s", "pumice.dev/pretend-exit-code": code}
    life = a_life(a_pod(annotations=wishes, policy="OnFailure"))
    advance(life, 0.0)
    assert advance(life, 1.0)[0] is stage


def test_a_deleted_pod_takes_its_annotated_time_to_stop_but_not_longer_than_its_grace():
    for grace, due in ((30, 7.0), (1, 6.0)):
        life = a_life(a_pod(annotations={"pumice.dev/pretend-stop": "2s"}))
        advance(life, 0.0)
        life.see(a_pod(annotations={"pumice.dev/pretend-stop": "2s"}, deleted=grace), 5.0)
        assert (life.stage, life.due) == (Stage.STOPPING, due)
        assert advance(life, due) == (Stage.GONE, "Failed")
        assert life.status(NOON)["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 143


def test_a_shorter_grace_shortens_the_wait_that_has_begun():
    wishes = {"pumice.dev/pretend-stop": "20s"}
    life = a_life(a_pod(annotations=wishes))
    advance(life, 0.0)
    life.see(a_pod(annotations=wishes, deleted=30), 5.0)
    life.see(a_pod(annotations=wishes, deleted=1), 8.0)
    assert life.due == 6.0


@pytest.mark.parametrize("policy", ["Never", "Always"])
def test_a_pod_that_had_not_begun_or_has_ended_goes_at_once(policy):
    waiting = a_life(a_pod(policy=policy), Behaviour(start=distributions.constant(60.0)))
    waiting.see(a_pod(policy=policy, deleted=30), 1.0)
    assert waiting.stage is Stage.GONE
    ended = a_life(a_pod(policy=policy, status={"phase": "Failed"}))
    assert (ended.stage, ended.version) == (Stage.OVER, 0)
    ended.see(a_pod(policy=policy, deleted=30, status={"phase": "Failed"}), 1.0)
    assert ended.stage is Stage.GONE


def test_a_rejected_pod_has_failed_before_it_began():
    life = a_life(a_pod())
    life.reject(Rejection("OutOfcpu", "full"))
    assert life.status(NOON) == {"phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected: full"}
    assert advance(life, 99.0)[0] is Stage.OVER


def test_init_containers_have_done_their_work_and_sidecars_run():
    life = a_life(a_pod(inits=[{"name": "fetch"}, {"name": "proxy", "restartPolicy": "Always"}]))
    advance(life, 0.0)
    fetch, proxy = life.status(NOON)["initContainerStatuses"]
    assert fetch["state"]["terminated"]["exitCode"] == 0
    assert "running" in proxy["state"]


def test_a_new_agent_goes_on_where_the_former_one_stopped():
    status = {
        "phase": "Running",
        "podIP": "10.128.9.9",
        "startTime": "2026-01-31T11:59:00Z",
        "containerStatuses": [
            {"name": "main", "restartCount": 2, "state": {"running": {"startedAt": "2026-01-31T11:59:50Z"}}}
        ],
    }
    life = a_life(a_pod(annotations={"pumice.dev/pretend-run": "60s"}, status=status), at=100.0)
    assert (life.stage, life.due, life.version) == (Stage.RUNNING, 150.0, 0)
    advance(life, 150.0)
    told = life.status(NOON)
    assert (told["phase"], told["podIP"], told["startTime"]) == ("Succeeded", "10.128.9.9", "2026-01-31T11:59:00Z")
    assert told["containerStatuses"][0]["restartCount"] == 2


def test_a_pod_that_is_annotated_while_it_runs_ends_by_the_new_word():
    life = a_life(a_pod())
    advance(life, 0.0)
    life.see(a_pod(annotations={"pumice.dev/pretend-run": "5s"}), 10.0)
    assert life.due == 15.0
    life.see(a_pod(annotations={"pumice.dev/pretend-run": "8s"}), 11.0)
    assert life.due == 18.0

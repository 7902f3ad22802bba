"""Whole lives of Jobs, and that a controller which dies before any of its writes changes nothing about how they end."""

import json

import pytest
from tests.unit.controllers.job.theatre import Theatre
from tests.unit.controllers.stage import same_after_every_crash

from pumice.api import names
from pumice.api.batch import Job
from pumice.api.bus import Command
from pumice.api.core import ConfigMap, PersistentVolumeClaim, Service
from pumice.api.pods import Pod
from pumice.api.scheduling import PodGroup

GANG = (("master", 1), ("worker", 2))
ALL = ["train-master-0", "train-worker-0", "train-worker-1"]
ON_EVICTION = {
    "RestartJob": [{"event": "PodEvicted", "action": "RestartJob"}],
    "RestartPod": [{"event": "PodEvicted", "action": "RestartPod"}],
}


async def completes(stage):
    await stage.submit(*GANG, run="60s", plugins={"pytorch": []})
    await stage.settle()
    assert await stage.phase() == "Completed"


async def loses_a_worker(stage, action):
    """Its pods before that and after."""
    await stage.submit(*GANG, policies=ON_EVICTION[action])
    await stage.settle()
    before = await stage.pods()
    await stage.remove(Pod, "train-worker-1")
    await stage.settle()
    assert await stage.phase() == "Running"
    return before, await stage.pods()


async def restarts_whole(stage):
    before, after = await loses_a_worker(stage, "RestartJob")
    assert set(after) == set(before) == set(ALL)
    assert not {uid for _, uid in after.values()} & {uid for _, uid in before.values()}


async def restarts_alone(stage):
    before, after = await loses_a_worker(stage, "RestartPod")
    assert [name for name in ALL if after[name] != before[name]] == ["train-worker-1"]


async def is_suspended_and_resumed(stage):
    await stage.submit(*GANG, plugins={"svc": []})
    await stage.settle()
    await stage.end("train-worker-0")
    await stage.settle()
    await stage.command("AbortJob")
    await stage.settle()
    assert await stage.phase() == "Aborted"
    assert await stage.names(Pod) == ["train-worker-0"]
    assert await stage.names(PodGroup) == []
    await stage.command("ResumeJob")
    await stage.settle()
    assert await stage.phase() == "Running"
    assert {name: phase for name, (phase, _) in (await stage.pods()).items()} == {
        "train-master-0": "Running",
        "train-worker-0": "Succeeded",
        "train-worker-1": "Running",
    }


async def is_scaled_up_and_down(stage):
    await stage.submit(*GANG, minAvailable=2, plugins={"svc": []}, policies=[{"event": "*", "action": "RestartJob"}])
    await stage.settle()
    before = await stage.pods()
    for replicas in (4, 1):
        tasks = (await stage.job())["spec"]["tasks"]
        tasks[1]["replicas"] = replicas
        await stage.patch(Job, "train", {"spec": {"tasks": tasks}})
        await stage.settle()
        assert len(await stage.pods()) == 1 + replicas
        data = (await stage.get(ConfigMap, "train-svc"))["data"]
        assert data["VC_WORKER_NUM"] == str(replicas)
    after = await stage.pods()
    assert after == {name: before[name] for name in ("train-master-0", "train-worker-0")}


async def fails_after_its_retries(stage):
    await stage.submit(*GANG, maxRetry=2, policies=[{"event": "PodFailed", "action": "RestartJob"}])
    for _ in range(2):
        await stage.settle()
        await stage.end("train-worker-0", code=1)
    await stage.settle()
    assert await stage.phase() == "Failed"
    assert {name: phase for name, (phase, _) in (await stage.pods()).items()} == {"train-worker-0": "Failed"}


STORIES = [
    completes,
    restarts_whole,
    restarts_alone,
    is_suspended_and_resumed,
    is_scaled_up_and_down,
    fails_after_its_retries,
]


def without_times(found):
    """A death delays what follows; nothing else may differ. Uids are of the run, so only their number counts."""
    for (kind, _), each in found.items():
        if kind == "Job":
            status = each["status"]
            status["state"].pop("lastTransitionTime")
            status["state"].pop("message", None)  # tells how long pods had run
            status.pop("runningDuration", None)
            status["conditions"] = [condition["status"] for condition in status["conditions"]]
            progress = json.loads(status.get("controlledResources", {}).pop(names.PROGRESS, "{}"))
            for key in ("command", "group", "lostS"):
                progress.pop(key, None)
            progress["restarts"] = [restart["action"] for restart in progress.get("restarts", ())]
            status["progress"] = progress
        if kind == "Pod":
            each["status"] = each["status"]["phase"]
            each.pop("spec")
        for owner in each["metadata"].get("ownerReferences", ()):
            owner.pop("uid")
        each["metadata"].get("annotations", {}).pop(names.GROUP_NAME, None)
        if kind == "PodGroup":
            each["metadata"]["name"] = "of the gang"
    return {(kind, name if kind != "PodGroup" else "of the gang"): each for (kind, name), each in found.items()}


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_job(story):
    Theatre().run(story)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_job_whose_controller_dies_before_any_write(story):
    deaths = same_after_every_crash(Theatre(), story, (Job, PodGroup, Pod, Command, Service, ConfigMap), without_times)
    assert deaths > 5


def test_a_job_that_cannot_be_right_is_told_so_where_admission_did_not():
    async def story(stage):
        template = {
            "spec": {
                "containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": "1e99999999999"}}}]
            }
        }
        tasks = [{"name": "worker", "replicas": 1, "template": template}]
        await stage.make(Job, "train", spec={"minAvailable": 1, "tasks": tasks})
        await stage.settle()
        (event,) = await stage.events()
        assert event[0] == "InvalidJob"
        assert "the exponent needs more than 32 bits" in event[1]

    Theatre().run(story)


def test_a_command_for_a_job_that_is_not_there_is_given_a_minute():
    async def story(stage):
        target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "never", "uid": "x"}
        await stage.make(Command, "lost", action="AbortJob", target=target)
        await stage.settle(50.0)
        assert await stage.names(Command) == ["lost"]
        await stage.settle(20.0)
        assert await stage.names(Command) == []

    Theatre().run(story)


def test_a_job_waits_for_a_claim_and_goes_on_when_it_comes():
    async def story(stage):
        await stage.submit(*GANG, volumes=[{"mountPath": "/data", "volumeClaimName": "mine"}])
        await stage.settle()
        assert await stage.names(PodGroup) == []
        claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        await stage.make(PersistentVolumeClaim, "mine", spec=claim)
        await stage.settle(2.0)
        assert await stage.phase() == "Running"

    Theatre().run(story)


def test_a_job_makes_its_claim_and_mounts_it_in_every_pod():
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}

    async def story(stage):
        await stage.submit(*GANG, volumes=[{"mountPath": "/data", "volumeClaim": claim}])
        await stage.settle()
        assert await stage.phase() == "Running"
        (name,) = await stage.names(PersistentVolumeClaim)
        assert (await stage.job())["spec"]["volumes"][0]["volumeClaimName"] == name
        mounted = [pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] for pod in await stage.all(Pod)]
        assert mounted == [name] * 3

    same_after_every_crash(Theatre(), story, (Job, PodGroup, Pod, PersistentVolumeClaim), without_times)


def test_a_name_that_somebody_else_has_is_waited_for_and_told():
    async def story(stage):
        await stage.make(Service, "train", spec={"clusterIP": "None"})
        await stage.submit(*GANG, plugins={"svc": []})
        await stage.settle()
        assert await stage.phase() == "Pending"
        reasons = {reason for reason, _ in await stage.events()}
        assert "PluginError" in reasons
        stage.failures.clear()
        await stage.remove(Service, "train")
        await stage.settle()
        assert await stage.phase() == "Running"
        stage.failures.clear()

    Theatre().run(story)

"""One Job that is too much for us, or for the cluster, keeps none of the others waiting."""

import collections

import msgspec
from tests.unit.controllers.stage import Stage

from pumice.api.batch import Job
from pumice.api.bus import Command
from pumice.api.pods import Pod
from pumice.api.scheduling import PodGroup, Queue
from pumice.api.validation.limits import JOB_REPLICAS_MAX
from pumice.controllers.job import loop
from pumice.controllers.job.desired_objects import PODS_OF_ONE_PLAN
from pumice.controllers.job.pace import LOOK_S, LOOKS_OPEN, PODS_MIN

KINDS = (Job, PodGroup, Queue, Command)
TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "train"}]}}


def a_stage():
    """One worker: whatever keeps it busy keeps everything else waiting."""
    return Stage(lambda known: msgspec.structs.replace(loop.controller(known), workers=1), kinds=KINDS)


async def make_job(stage, name, replicas, **spec):
    task = {"name": "worker", "replicas": replicas, "minAvailable": 1, "template": TEMPLATE}
    await stage.make(Job, name, spec={"minAvailable": 1, "queue": "default", "tasks": [task], **spec})


async def admit_all(stage):
    for group in await stage.all(PodGroup):
        name = group["metadata"]["name"]
        await stage.patch(PodGroup, name, {"status": {"phase": "Inqueue"}})


def test_a_small_job_that_comes_after_a_large_one_does_not_wait_for_all_of_its_pods():
    async def body(stage):
        await make_job(stage, "large", 1_000)
        await make_job(stage, "small", 2)
        await stage.settle()
        await admit_all(stage)
        await stage.settle()
        pods = sorted(await stage.all(Pod), key=lambda pod: int(pod["metadata"]["resourceVersion"]))
        names = [pod["metadata"]["name"] for pod in pods]
        assert len(names) == 1_002
        assert names.index("small-worker-1") < 2 * PODS_OF_ONE_PLAN

    a_stage().run(body)


def test_a_job_of_too_many_pods_that_came_past_admission_keeps_nobody_waiting():
    async def body(stage):
        for plugin in ("svc", "tensorflow", "mpi", "ray"):
            tasks = [
                {"name": name, "replicas": JOB_REPLICAS_MAX, "minAvailable": 1, "template": TEMPLATE}
                for name in ("master", "worker")
            ]
            await make_job(stage, f"huge-{plugin}", 1, plugins={plugin: []}, tasks=tasks)
        await make_job(stage, "small", 2)
        await stage.settle()
        await admit_all(stage)
        await stage.settle()
        assert await stage.names(Pod) == ["small-worker-0", "small-worker-1"]
        told = [message for reason, message in await stage.events() if reason == "InvalidJob"]
        assert len(told) == 4
        assert (await stage.get(Job, "huge-svc"))["status"]["state"]["phase"] == "Pending"

    a_stage().run(body)


async def four_admitted_jobs(stage):
    for name in "abcd":
        await make_job(stage, name, PODS_MIN)
    await stage.settle()
    await admit_all(stage)
    await stage.settle(LOOK_S)


async def pods_by_job(stage):
    return collections.Counter(name.partition("-")[0] for name in await stage.names(Pod))


def test_a_job_makes_its_pods_when_those_of_the_jobs_before_it_are_bound_or_gone():
    async def body(stage):
        await four_admitted_jobs(stage)
        assert await pods_by_job(stage) == {"a": PODS_MIN, "b": PODS_MIN}
        for pod in await stage.all(Pod):
            name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
            if name.startswith("a-"):
                await stage.client.bind(name, namespace="team", uid=uid, node="n")
        await stage.settle(LOOK_S)
        assert await pods_by_job(stage) == dict.fromkeys("abc", PODS_MIN)
        await stage.remove(Job, "c")
        for number in range(PODS_MIN):
            await stage.remove(Pod, f"c-worker-{number}")
        await stage.settle(LOOK_S)
        assert await pods_by_job(stage) == dict.fromkeys("abd", PODS_MIN)

    a_stage().run(body)


def test_jobs_make_their_pods_though_those_of_the_jobs_before_them_are_never_bound():
    async def body(stage):
        await four_admitted_jobs(stage)
        await stage.settle(LOOKS_OPEN * LOOK_S)
        assert await pods_by_job(stage) == dict.fromkeys("abcd", PODS_MIN)

    a_stage().run(body)

"""What administrators and users put into a world, again and again until it is there."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

from pumice.api import names
from pumice.api.batch import CronJob, Job
from pumice.api.flow import JobFlow, JobRetainPolicy, JobTemplate
from pumice.api.priority import PriorityClass
from pumice.api.resource import ResourceClaim
from pumice.api.scheduling import Queue
from pumice.kube import errors
from pumice.local.nodes.pretend import GPU
from pumice.sim.worlds import admission, crons, devices, volumes
from pumice.sim.worlds.story import CRON_NAME, JobPlan

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pumice.kube.client import Client
    from pumice.sim.worlds.story import CronPlan, Story
    from pumice.sim.worlds.world import World

AGAIN_S = 1.0
LOOK_S = 2.0
CRON_S_MAX = 600.0  # so long after the faults a CronJob has made a Job
TRIES_MAX = 300  # of a user: longer than anything is broken; webhooks whose first watch is silent find that out after two minutes


async def furnish(client: Client, story: Story, controllers: tuple[str, ...]) -> None:
    """What an administrator installs before anybody submits anything."""
    nodes = [f"node-{number}" for number in range(story.nodes)]
    if story.has_devices:
        await devices.furnish(client, nodes)
    if story.has_volumes:
        await volumes.furnish(client, nodes)
    if story.has_webhooks:
        for kind, body in admission.configurations(controllers):
            await client.create(kind, body)
    await client.create(PriorityClass, {"metadata": {"name": "high"}, "value": 1000})
    for name, plan in story.queues.items():
        spec: dict[str, Any] = {"weight": plan.weight, "reclaimable": True}
        if plan.limit:
            spec["capability"] = {GPU: str(plan.limit)}
        if plan.guarantee:
            spec["guarantee"] = {"resource": {GPU: str(plan.guarantee)}}
            spec["deserved"] = {GPU: str(plan.guarantee)} if story.has_webhooks else {}  # admission wants it so
        if name != "default":
            await insist(client.create, Queue, {"metadata": {"name": name}, "spec": spec})


async def submit(client: Client, plan: JobPlan) -> None:
    if plan.shares_devices:
        claim = {"metadata": {"name": _claim_of(plan)}, "spec": devices.SPEC}
        await insist(client.create, ResourceClaim, claim, namespace="default")
    await insist(client.create, Job, manifest(plan), namespace="default")


def _claim_of(plan: JobPlan) -> str:
    return f"{plan.name}-card"


async def submit_flow(client: Client, parts: tuple[JobPlan, ...], *, goes: bool) -> None:
    for part in parts:
        template = {"metadata": {"name": part.name}, "spec": manifest(part)["spec"]}
        await insist(client.create, JobTemplate, template, namespace="default")
    flows: list[dict[str, Any]] = [{"name": part.name} for part in parts]
    for before, flow in itertools.pairwise(flows):
        flow["dependsOn"] = {"targets": [before["name"]]}
    retained = JobRetainPolicy.DELETE if goes else JobRetainPolicy.RETAIN
    body = {"metadata": {"name": "flow"}, "spec": {"flows": flows, "jobRetainPolicy": retained.value}}
    await insist(client.create, JobFlow, body, namespace="default")


async def submit_cron(client: Client, plan: CronPlan) -> None:
    job = JobPlan(plan.at_s, CRON_NAME, size=1, minimum=1, gpus=1, run_s=plan.run_s, queue="default")
    body = crons.manifest(plan, manifest(job)["spec"])
    await insist(client.create, CronJob, body, namespace="default")


async def end_crons(world: World) -> None:
    """A CronJob goes on after the faults; then it is suspended, so that the world comes to rest."""
    began, seen = world.clock.monotonic(), world.witness.crons.seen
    has_true_clock = not world.network.done["skew-controllers"]
    while seen and has_true_clock and not world.witness.crons.has_run_since(began):
        await asyncio.sleep(LOOK_S)
        if world.clock.monotonic() - began > CRON_S_MAX:
            world.witness.complain("a CronJob makes no Jobs any more, long after the faults")
            break
    for _ in tuple(seen):
        suspended = {"spec": {"suspend": True}}
        await insist(world.client.patch, CronJob, CRON_NAME, suspended, namespace="default")


async def insist(ask: Callable[..., Awaitable[object]], *what: Any, **named: Any) -> None:
    """Users try again until it is done; admission that knows nothing yet of a queue refuses what leads there."""
    for number in range(TRIES_MAX):
        try:
            await ask(*what, **named)
        except errors.AlreadyExists:
            return
        except (errors.Unreachable, errors.ServerError, errors.Refused):
            if number == TRIES_MAX - 1:
                raise
            await asyncio.sleep(AGAIN_S)
        else:
            return


def manifest(plan: JobPlan) -> dict[str, Any]:
    amounts = {GPU: str(plan.gpus)}
    template: dict[str, Any] = {
        "metadata": {"annotations": {names.PRETEND_RUN: f"{plan.run_s}s", names.PRETEND_STOP: "3s"}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 5,
            "containers": [{"name": "main", "image": "train", "resources": {"limits": amounts, "requests": amounts}}],
        },
    }
    if plan.has_devices:
        of = {"resourceClaimName": _claim_of(plan)} if plan.shares_devices else {"resourceClaimTemplateName": "card"}
        template["spec"]["resourceClaims"] = [{"name": "card", **of}]
    if plan.has_scratch:
        scratch = {"volumeClaimTemplate": {"spec": volumes.CLAIM}}
        template["spec"]["volumes"] = [{"name": "scratch", "ephemeral": scratch}]
    spec: dict[str, Any] = {
        "schedulerName": "volcano",
        "queue": plan.queue,
        "minAvailable": plan.minimum,
        "maxRetry": 100,
        "policies": [{"event": "PodEvicted", "action": "RestartJob"}, {"event": "PodFailed", "action": "RestartJob"}],
        "tasks": [
            {"name": "w", "replicas": plan.size, "minAvailable": plan.minimum, "maxRetry": 3, "template": template}
        ],
    }
    if plan.has_volume:
        spec["volumes"] = [{"mountPath": "/data", "volumeClaim": volumes.CLAIM}]
    if plan.priority:
        spec["priorityClassName"] = plan.priority
    notes = {names.RUNNING_ESTIMATE: f"{plan.estimate_s}s"} if plan.estimate_s else {}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": plan.name, "annotations": notes},
        "spec": spec,
    }

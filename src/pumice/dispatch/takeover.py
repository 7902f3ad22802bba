"""Before a new leader decides anything, binds that its predecessor may still have on the way are made void.

A dead leader's bind may wait in a proxy or an overloaded server for longer than any lease, and the new leader sees nothing of it:
the pod is pending, the room looks free. Each bind names the version of the pod that it was decided for (docs/adr/0016). So one
write to a pod decides it: either the bind came first, and the answer to the write shows the node, or it will be refused whenever it
arrives. A pod that has come or changed since this process began to lead needs no write: no former leader knew it so.

The same holds for devices: their writes name the version of the claim. One that came first is taken back, since its pod is bound to
no node and may go to another.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from pumice.api import changes, names, versions
from pumice.api.pods import Pod
from pumice.api.resource import ResourceClaim
from pumice.cluster.tasks import Status
from pumice.dispatch.devices import Devices
from pumice.kube import errors, requests
from pumice.kube.client import Reply
from pumice.kube.transport import Request
from pumice.scheduling.evicting import mend
from pumice.scheduling.placing.constraints.claims import claim_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pumice.api.meta import ObjectMeta
    from pumice.cluster.state import Cluster
    from pumice.cluster.tasks import Task
    from pumice.kube.client import Client
    from pumice.runtime import Runtime

WRITES_AT_ONCE = 64
RESEND_S_FIRST = 0.1
RESEND_S_MAX = 5.0

Marked = TypeVar("Marked", Pod, ResourceClaim)
SUBRESOURCES: Mapping[type[object], str] = {Pod: "status", ResourceClaim: ""}  # that of a claim takes no annotations


async def version_now(client: Client) -> str:
    """The version of pods at this moment: whatever has a larger one in a later answer has come or changed since."""
    request = Request("GET", requests.collection_path(Pod, ""), requests.query(limit=1))
    metadata = Reply((await client.call(request)).body).json().get("metadata") or {}
    return str(metadata.get("resourceVersion", ""))


async def void_former_binds(
    client: Client, cluster: Cluster, learn: Callable[[changes.Change], None], runtime: Runtime, *, since: str
) -> None:
    """`since`: the version of pods when this process had begun to lead. Returns once no bind from before can take effect any more; what had taken effect is in the state then."""
    pending = [
        task
        for task in cluster.tasks.values()
        if task.gang
        and task.status is Status.PENDING
        and not task.gates  # a gated pod cannot have been bound
        and not versions.is_older(since, than=task.pod.metadata.resource_version)
    ]
    leader = mend.attempt_id(runtime.clock.now(), f"{runtime.chance.getrandbits(48):012x}")
    window = asyncio.Semaphore(WRITES_AT_ONCE)
    devices = Devices(client, cluster, learn, runtime)

    async def mark_pod(task: Task) -> None:
        async with window:
            found = await _mark(client, task.pod.metadata, Pod, leader, runtime)
        if found is not None:
            learn(changes.Upserted(object=found))

    async def mark_claim(claim: ResourceClaim) -> None:
        async with window:
            found = await _mark(client, claim.metadata, ResourceClaim, leader, runtime)
            if found is not None and found.status.reserved_for:
                await devices.give_back(claim.metadata.key, waiting)

    async with asyncio.TaskGroup() as group:
        for task in pending:
            group.create_task(mark_pod(task))
    # Those that had been bound are known by now; the others have no use for what was reserved for them.
    waiting = {uid for uid, task in cluster.tasks.items() if task.status is Status.PENDING}
    claims = _claims(cluster, [task for task in pending if task.uid in waiting])
    async with asyncio.TaskGroup() as group:
        for claim in claims:
            group.create_task(mark_claim(claim))
    if pending:
        runtime.log("former_binds_void", pods=len(pending), claims=len(claims))


def _claims(cluster: Cluster, tasks: Sequence[Task]) -> list[ResourceClaim]:
    """Those of the pods, each once: a former leader may have given them devices, and may still."""
    known = cluster.others.get(ResourceClaim, {})
    keys = dict.fromkeys(key for task in tasks for key in claim_keys(task) if key in known)
    return [known[key] for key in keys]


async def _mark(
    client: Client, metadata: ObjectMeta, kind: type[Marked], leader: str, runtime: Runtime
) -> Marked | None:
    """Write to one object; it as the answer has it, None where it is gone, or nobody may write to it."""
    body = {"metadata": {"uid": metadata.uid, "annotations": {names.LEADER: leader}}}
    delay = RESEND_S_FIRST
    while True:
        try:
            reply = await client.patch(
                kind, metadata.name, body, namespace=metadata.namespace, subresource=SUBRESOURCES[kind]
            )
        except errors.NotFound:
            return None
        except (errors.Invalid, errors.Refused) as error:
            # One that cannot be written must not keep all others waiting.
            runtime.log("former_bind_not_void", object=metadata.key, reason=str(error))
            return None
        except errors.KubeError as error:
            # Not every conflict means that another object has the name by now.
            if isinstance(error, errors.Conflict) and await _is_gone(client, metadata, kind):
                return None
            runtime.log("former_bind_unknown", object=metadata.key, reason=str(error))
            await runtime.clock.sleep(delay)
            delay = min(delay * 2, RESEND_S_MAX)
        else:
            return reply.into(kind)


async def _is_gone(client: Client, metadata: ObjectMeta, kind: type[Pod | ResourceClaim]) -> bool:
    """Whether it is certain that the object is not there any more, or another one of its name: then what was sent for it is void."""
    try:
        found = (await client.get(kind, metadata.name, namespace=metadata.namespace)).into(kind)
    except errors.NotFound:
        return True
    except errors.KubeError:
        return False
    return found.metadata.uid != metadata.uid

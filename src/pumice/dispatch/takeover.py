"""Before a new leader decides anything, binds that its predecessor may still have on the way are made void.

A dead leader's bind may wait in a proxy or an overloaded server for longer than any lease, and the new leader sees nothing of it:
the pod is pending, the room looks free. Each bind names the version of the pod that it was decided for (docs/adr/0016). So one
write to a pod decides it: either the bind came first, and the answer to the write shows the node, or it will be refused whenever it
arrives. A pod that has come or changed since this process began to lead needs no write: no former leader knew it so.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pumice.api import changes, names, versions
from pumice.api.pods import Pod
from pumice.cluster.tasks import Status
from pumice.kube import errors, requests
from pumice.kube.client import Reply
from pumice.kube.transport import Request
from pumice.scheduling.evicting import mend

if TYPE_CHECKING:
    from collections.abc import Callable

    from pumice.cluster.state import Cluster
    from pumice.cluster.tasks import Task
    from pumice.kube.client import Client
    from pumice.runtime import Runtime

WRITES_AT_ONCE = 64
RESEND_S_FIRST = 0.1
RESEND_S_MAX = 5.0


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

    async def mark(task: Task) -> None:
        async with window:
            await _mark(client, task, leader, learn, runtime)

    async with asyncio.TaskGroup() as group:
        for task in pending:
            group.create_task(mark(task))
    if pending:
        runtime.log("former_binds_void", pods=len(pending))


async def _mark(
    client: Client, task: Task, leader: str, learn: Callable[[changes.Change], None], runtime: Runtime
) -> None:
    """Write to one pod, and take in what the answer says of it."""
    body = {"metadata": {"uid": task.uid, "annotations": {names.LEADER: leader}}}
    delay = RESEND_S_FIRST
    while True:
        try:
            reply = await client.patch(Pod, task.name, body, namespace=task.namespace, subresource="status")
        except (errors.NotFound, errors.Conflict):
            return  # gone, or another one of that name: then the bind is void as well
        except errors.KubeError as error:
            if isinstance(error, errors.Invalid | errors.Refused):
                # One pod that cannot be written must not keep all others waiting.
                runtime.log("former_bind_not_void", pod=task.key, reason=str(error))
                return
            runtime.log("former_bind_unknown", pod=task.key, reason=str(error))
            await runtime.clock.sleep(delay)
            delay = min(delay * 2, RESEND_S_MAX)
        else:
            learn(changes.Upserted(object=reply.into(Pod)))
            return

"""Evicts and releases pods: says on the pod why, then asks through the eviction subresource, so that budgets count."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice import instant
from pumice.api import changes
from pumice.api.changes import PodRef
from pumice.api.pods import Pod
from pumice.kube import errors
from pumice.kube.requests import PatchType

if TYPE_CHECKING:
    from collections.abc import Callable

    from pumice.cluster.tasks import Task
    from pumice.dispatch.rim import Rim
    from pumice.kube.client import Client
    from pumice.kube.recorder import Recorder
    from pumice.scheduling.decisions import Evict, Release

PREEMPTED = "PreemptionByScheduler"
RELEASED = "GangReleased"  # not a failure: it neither costs a retry nor fires a policy
BUDGET_RETRIES_MAX = 5
BUDGET_RETRY_S = 2.0


class Evictor:
    """Carries out evictions and releases; belongs to one event loop."""

    def __init__(self, client: Client, learn: Callable[[changes.Change], None], recorder: Recorder, rim: Rim) -> None:
        self._client = client
        self._learn = learn
        self._recorder = recorder
        self._clock = rim.clock
        self._guard = rim.guard
        self._log = rim.log
        self._reach = rim.reach

    def announce(self, eviction: Evict) -> None:
        """From now on the victim's room is on its way out, and claimed."""
        task = eviction.task
        ref = PodRef(namespace=task.namespace, name=task.name, uid=task.uid)
        at = self._clock.now()
        self._learn(
            changes.Evicting(pod=ref, node=task.node, at=at, claimant=eviction.claimant, reason=eviction.reason)
        )

    async def evict(self, eviction: Evict) -> None:
        task = eviction.task
        self._recorder.record(
            task.pod, "Warning", "Evict", f"Pod is evicted, because of {eviction.reason}: {eviction.why}"
        )
        message = (
            f"{eviction.reason} for gang {eviction.claimant}: {eviction.why}" if eviction.claimant else eviction.reason
        )
        try:
            await self._say_why(task, PREEMPTED, message)
            self._reach("evicting")
            await self._ask(task)
            self._log("pod_evicted", pod=task.key, node=task.node, by=eviction.reason, claimant=eviction.claimant)
        except errors.NotFound:
            return  # it left by itself
        except errors.KubeError as error:
            self._give_up(eviction, str(error))

    async def _ask(self, task: Task) -> None:
        for _ in range(BUDGET_RETRIES_MAX):
            try:
                await self._client.evict(task.name, namespace=task.namespace, uid=task.uid, guard=self._guard)
            except errors.TooManyRequests as error:
                self._log("eviction_delayed", pod=task.key, reason=str(error))
                await self._clock.sleep(error.retry_after or BUDGET_RETRY_S)
            else:
                return
        await self._client.evict(task.name, namespace=task.namespace, uid=task.uid, guard=self._guard)

    def _give_up(self, eviction: Evict, reason: str) -> None:
        task = eviction.task
        self._log("eviction_failed", pod=task.key, reason=reason)
        ref = PodRef(namespace=task.namespace, name=task.name, uid=task.uid)
        self._learn(changes.Forgotten(pod=ref, at=self._clock.now(), reason=reason))
        if eviction.claimant:
            self._learn(changes.Unclaimed(gang=eviction.claimant, reason=f"{task.key} could not be evicted: {reason}"))

    async def release(self, release: Release) -> None:
        """Delete members of a gang that was never whole, so that their controller makes new ones."""
        for task in release.tasks:
            try:
                await self._say_why(task, RELEASED, release.why)
                self._guard()
                await self._client.delete(Pod, task.name, namespace=task.namespace, uid=task.uid)
                self._log("pod_released", pod=task.key, gang=release.gang, why=release.why)
            except errors.NotFound:
                continue
            except errors.KubeError as error:
                self._log("release_failed", pod=task.key, gang=release.gang, reason=str(error))

    async def _say_why(self, task: Task, reason: str, message: str) -> None:
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": reason,
            "message": message,
            "lastTransitionTime": instant.format_instant(self._clock.now()),
        }
        body = {"metadata": {"uid": task.uid}, "status": {"conditions": [condition]}}
        await self._client.patch(
            Pod, task.name, body, how=PatchType.STRATEGIC, namespace=task.namespace, subresource="status"
        )

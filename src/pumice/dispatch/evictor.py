"""Evicts and releases pods: says on the pod why, then asks through the eviction subresource, so that budgets count."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import msgspec

from pumice import instant
from pumice.api import changes, disruptions, names
from pumice.api.changes import PodRef
from pumice.api.pods import Pod
from pumice.cluster import freshness
from pumice.dispatch import discretion
from pumice.kube import errors
from pumice.kube.requests import PatchType
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pumice.api.meta import Struct
    from pumice.cluster.tasks import Task
    from pumice.kube.client import Client
    from pumice.kube.recorder import Recorder
    from pumice.runtime import Runtime
    from pumice.scheduling.core.decisions import Evict, Notice, Release

BUDGET_RETRY_S = 2.0
RESEND_S_FIRST = 0.1
RESEND_S_MAX = 5.0
EVICTING_MAX = 20_000  # pods that are known to be on their way; one that is forgotten is asked to go again
REFUSED_S = 2.0  # how long a refusal is believed before the next cycle may ask for the same again


class EvictionSettings(Value):
    """How long a disruption budget may say no, and whether a pod that cannot be evicted is deleted then or stays."""

    patience_s: float = 10.0
    delete_then: bool = False


class Evictor:
    """Carries out evictions and releases; belongs to one event loop."""

    def __init__(
        self,
        client: Client,
        learn: Callable[[changes.Change], None],
        recorder: Recorder,
        runtime: Runtime,
        eviction_settings: EvictionSettings,
        group_of: Callable[[str], Struct | None] = lambda _: None,
    ) -> None:
        self._client = client
        self._learn = learn
        self._recorder = recorder
        self._clock = runtime.clock
        self._log = runtime.log
        self._fail_point = runtime.fail_point
        self._tracing = runtime.tracing
        self._eviction_settings = eviction_settings
        self._group_of = group_of
        self._evicting: dict[str, None] = {}  # uids, until they are asked to go in vain
        self._releasing: set[str] = set()  # uids: a pod that is gone already cannot be announced as leaving

    # ------------------------------------------------------------------------------------------------- evicting

    def announce(self, task: Task, *, claimant: str, reason: str) -> None:
        """From now on the victim's room is on its way out, and claimed."""
        self._leaves(task, claimant=claimant, reason=reason)

    async def evict(self, eviction: Evict) -> None:
        """Until the pod is gone, each cycle says again of one that was given notice that it has to go."""
        if eviction.task.uid in self._evicting:
            return
        freshness.remember(self._evicting, eviction.task.uid, None, most=EVICTING_MAX)
        if not await self._evict(eviction):
            self._evicting.pop(eviction.task.uid, None)

    async def _evict(self, eviction: Evict) -> bool:
        """Whether the pod goes."""
        task = eviction.task
        rule, cause = eviction.rule, eviction.cause
        story = discretion.story_of(eviction)
        self._recorder.record(task.pod, "Warning", "Evict", f"Pod is evicted, because of {story.text}")
        facts = {
            "pod": task.key,
            "node": task.node,
            "by": rule,
            "claimant": eviction.claimant,
            "code": cause.code.value,
        }
        with self._tracing.span("evict", **facts) as span:
            try:
                await self._say_why(task, disruptions.PREEMPTED, story.text, story)
                self._fail_point("evicting")
                await self._remove(task)
                self._log("pod_evicted", **facts)
            except errors.KubeError as error:
                if not _is_gone(error):
                    span.fail(str(error))
                    await self._give_up(eviction, str(error))
                    return False
        return True

    async def _remove(self, task: Task) -> None:
        """Evict the pod; delete it where that is configured and evicting it is forbidden for too long or cannot be asked for."""
        try:
            await self._ask(task)
        except errors.StatusError as error:
            if not self._eviction_settings.delete_then or not (
                isinstance(error, errors.TooManyRequests) or _is_unserved(error)
            ):
                raise
            await self._until_known(task, functools.partial(self._delete, task, at_once=False))
            self._log("pod_deleted_instead", pod=task.key, reason=str(error))

    async def _ask(self, task: Task) -> None:
        """Ask until the budget allows it; raises TooManyRequests where that takes longer than patience lasts."""
        until = self._clock.monotonic() + self._eviction_settings.patience_s
        while True:
            try:
                await self._until_known(
                    task, lambda: self._client.evict(task.name, namespace=task.namespace, uid=task.uid)
                )
            except errors.TooManyRequests as error:
                left = until - self._clock.monotonic()
                if left <= 0:
                    raise
                self._log("eviction_delayed", pod=task.key, reason=str(error))
                await self._clock.sleep(min(error.retry_after or BUDGET_RETRY_S, left))
            else:
                return

    async def _give_up(self, eviction: Evict, reason: str) -> None:
        task = eviction.task
        self._log("eviction_failed", pod=task.key, reason=reason)
        if (group := self._group_of(eviction.claimant)) is not None:
            # The one for whom it should have left waits for it; the same plan may be made again and again.
            sees = discretion.of_gang(eviction.claimant).sees(task.gang)
            what = (
                f"pod {task.key} stays: {reason}"
                if sees
                else "a pod of others stays: the API server refuses its eviction"
            )
            self._recorder.record(group, "Warning", "EvictionRefused", f"{what}; it is tried again")
        await self._clock.sleep(REFUSED_S)
        self._stays(task, reason)
        if eviction.claimant:
            self._learn(changes.Unclaimed(gang=eviction.claimant))

    # ------------------------------------------------------------------------------------------------- notice

    async def give_notice(self, notice: Notice) -> None:
        """Tell the pod that it, or others of its gang, will have to go; what it says of its work afterwards is its answer."""
        task, about = notice.task, notice.about
        story = about.story
        discreet = discretion.of_gang(task.gang).story(story)
        who = "the pod" if about.leaves else "its gang"
        text = f"{who} has to leave at {about.until}, or once its work is safe: {discreet.text}"
        self._recorder.record(task.pod, "Warning", "EvictionNotice", text)
        try:
            written = msgspec.json.encode(msgspec.structs.replace(about, story=discreet)).decode()
            await self._mark(
                task, {"type": disruptions.NOTICE, "status": "True", "reason": "Told", "message": text}, written
            )
            self._log("notice_given", pod=task.key, by=story.rule, claimant=story.claimant.gang, until=about.until)
        except errors.KubeError as error:
            if not _is_gone(error) and about.leaves:
                self._log("notice_failed", pod=task.key, reason=str(error))
                await self._clock.sleep(REFUSED_S)
                self._stays(task, str(error))
                if story.claimant.gang:
                    self._learn(changes.Unclaimed(gang=story.claimant.gang))

    async def withdraw(self, task: Task) -> None:
        """Tell a pod that was given notice that it stays; where that fails, the next cycle says so again."""
        if task.uid in self._evicting:
            return  # too late
        text = "the room is no longer needed"
        try:
            await self._mark(
                task, {"type": disruptions.NOTICE, "status": "False", "reason": "Withdrawn", "message": text}, None
            )
            self._log("notice_withdrawn", pod=task.key)
        except errors.KubeError as error:
            if not _is_gone(error):
                self._log("notice_not_withdrawn", pod=task.key, reason=str(error))
                await self._clock.sleep(REFUSED_S)
        self._stays(task, text)

    async def _mark(self, task: Task, condition: dict[str, str], notice: str | None) -> None:
        condition["lastTransitionTime"] = instant.format_instant(self._clock.now())
        metadata = {"uid": task.uid, "annotations": {names.EVICTION_NOTICE: notice}}
        body = {"metadata": metadata, "status": {"conditions": [condition]}}
        await self._patch_status(task, body)

    # ------------------------------------------------------------------------------------------------- releasing

    def announce_release(self, release: Release) -> None:
        """From now on the members' room is on its way out: they are not released twice, and older attempts may count on it."""
        for task in release.tasks:
            self._leaves(task, claimant="", reason=disruptions.RELEASED)

    async def release(self, release: Release) -> None:
        """Delete members of a gang that was never whole, so that their controller makes new ones."""
        fresh = tuple(task for task in release.tasks if task.uid not in self._releasing)
        uids = {task.uid for task in fresh}
        self._releasing |= uids
        try:
            await self._release_all(msgspec.structs.replace(release, tasks=fresh))
        finally:
            self._releasing -= uids

    async def _release_all(self, release: Release) -> None:
        why = release.cause.text
        with self._tracing.span("release", gang=release.gang, pods=len(release.tasks), why=why) as span:
            refused = await self._release(release)
            if refused:
                span.fail(f"{len(refused)} of {len(release.tasks)} pods stay: {refused[0][1]}")
                await self._clock.sleep(REFUSED_S)
        for task, reason in refused:
            self._stays(task, reason)

    async def _release(self, release: Release) -> list[tuple[Task, str]]:
        """Who could not be deleted, and why."""
        refused: list[tuple[Task, str]] = []
        why = release.cause.text
        for task in release.tasks:
            try:
                await self._say_why(task, disruptions.RELEASED, why)
                await self._until_known(task, functools.partial(self._delete, task, at_once=release.at_once))
                self._log("pod_released", pod=task.key, gang=release.gang, why=why)
            except errors.NotFound:
                continue
            except errors.KubeError as error:
                self._log("release_failed", pod=task.key, gang=release.gang, reason=str(error))
                refused.append((task, str(error)))
        return refused

    # ------------------------------------------------------------------------------------------------- both

    async def _until_known(self, task: Task, call: Callable[[], Awaitable[object]]) -> None:
        """Make the call until it is answered. One without an answer may still take effect, so it is not certain that the pod stays."""
        delay = RESEND_S_FIRST
        while True:
            try:
                await call()
            except errors.KubeError as error:
                if not errors.is_open(error):
                    raise
                self._log("removal_unknown", pod=task.key, reason=str(error))
                await self._clock.sleep(delay)
                delay = min(delay * 2, RESEND_S_MAX)
            else:
                return

    async def _delete(self, task: Task, *, at_once: bool) -> None:
        grace_s = 0 if at_once else None
        await self._client.delete(Pod, task.name, namespace=task.namespace, uid=task.uid, grace_s=grace_s)

    def _leaves(self, task: Task, *, claimant: str, reason: str) -> None:
        at = self._clock.now()
        self._learn(changes.Evicting(pod=_ref(task), node=task.node, at=at, claimant=claimant, reason=reason))

    def _stays(self, task: Task, reason: str) -> None:
        self._learn(changes.Forgotten(pod=_ref(task), at=self._clock.now(), reason=reason))

    async def _say_why(self, task: Task, reason: str, message: str, story: disruptions.Story | None = None) -> None:
        """On the pod, in one write: the condition for all who read pods, and (`story`) the same as data."""
        condition = {
            "type": disruptions.CONDITION,
            "status": "True",
            "reason": reason,
            "message": message,
            "lastTransitionTime": instant.format_instant(self._clock.now()),
        }
        metadata: dict[str, object] = {"uid": task.uid}
        if story is not None:
            metadata["annotations"] = {names.EVICTION: msgspec.json.encode(story).decode()}
        body = {"metadata": metadata, "status": {"conditions": [condition]}}
        await self._patch_status(task, body)

    async def _patch_status(self, task: Task, body: dict[str, object]) -> None:
        await self._client.patch(
            Pod, task.name, body, how=PatchType.STRATEGIC, namespace=task.namespace, subresource="status"
        )


def _is_unserved(error: errors.StatusError) -> bool:
    """The server has no eviction subresource: it says so of the path, or of the verb, and names no pod."""
    return error.code in {404, 405} and not error.details.name


def _is_gone(error: errors.KubeError) -> bool:
    """The pod left by itself."""
    return isinstance(error, errors.NotFound) and not _is_unserved(error)


def _ref(task: Task) -> PodRef:
    return PodRef(namespace=task.namespace, name=task.name, uid=task.uid)

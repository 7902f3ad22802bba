"""Binds whole gangs through an API that binds one pod at a time.

All members are assumed before the first call leaves, so that the next cycle plans around them. Calls go out side by side in a
bounded window. What fails is told to the state at once and placed anew by the next cycle's mend; what nobody knows is read
back until somebody does.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pumice.api import changes, names
from pumice.api.changes import PodRef
from pumice.api.pods import Pod
from pumice.dispatch.bind_backoff import Refusals
from pumice.dispatch.locks import NodeLocks
from pumice.dispatch.preparations import Preparations
from pumice.dispatch.runtime import PreparationFailed
from pumice.errors import PumiceError
from pumice.kube import errors
from pumice.scheduling.evicting import mend

if TYPE_CHECKING:
    from collections.abc import Callable

    from pumice.dispatch.runtime import Runtime
    from pumice.kube.client import Client
    from pumice.scheduling.core.decisions import Bind, GangCommit
    from pumice.telemetry.traces import Fact, Span

BIND_WINDOW = 64  # calls in flight: enough to keep an API server busy, few enough not to starve everybody else
READ_BACK_S_FIRST = 0.1
READ_BACK_S_MAX = 5.0


class Binder:
    """Carries out commits; belongs to one event loop."""

    def __init__(self, client: Client, learn: Callable[[changes.Change], None], runtime: Runtime) -> None:
        self._client = client
        self._learn = learn
        self._runtime = runtime
        self._clock = runtime.clock
        self._preparations = Preparations(client, runtime)
        self._locks = NodeLocks(client, runtime)
        self._window = asyncio.Semaphore(BIND_WINDOW)
        self.refusals = Refusals(runtime.clock)
        self.bound = 0
        self.failed = 0

    def assume(self, commit: GangCommit) -> str:
        """Charge all members to their nodes, before any call leaves; the id of the attempt."""
        attempt = mend.attempt_id(self._clock.now(), f"{self._runtime.chance.getrandbits(48):012x}")
        for bind in commit.binds:
            self._learn(
                changes.Assumed(
                    pod=_ref(bind),
                    node=bind.node,
                    attempt=attempt,
                    at=self._clock.now(),
                    annotations=bind.annotations,
                )
            )
        self._runtime.reach("assumed")
        return attempt

    async def commit(self, commit: GangCommit, attempt: str) -> None:
        """Bind all members of one gang, once their volumes are there; every outcome is told to the state."""
        facts: dict[str, Fact] = {"gang": commit.gang, "attempt": attempt, "mends": commit.mends}
        with self._runtime.tracing.span("attempt", pods=len(commit.binds), needed=commit.needed, **facts) as span:
            try:
                if any(bind.first for bind in commit.binds):
                    with self._runtime.tracing.span("prepare"):
                        await self._preparations.prepare(commit.binds)
            except PreparationFailed as error:
                span.fail(str(error))
                self.refusals.note(commit.gang, str(error))
                for bind in commit.binds:
                    self._fail(bind, attempt, str(error))
                return
            await self._bind_all(commit, attempt, span)

    async def _bind_all(self, commit: GangCommit, attempt: str, span: Span) -> None:
        began = self._clock.monotonic()
        async with asyncio.TaskGroup() as group:
            calls = []
            for bind in commit.binds:
                if bind.lock:
                    calls.append(group.create_task(self._bind_locked(bind, attempt)))
                else:
                    await self._window.acquire()
                    calls.append(group.create_task(self._bind(bind, attempt)))
        self._runtime.reach("bound")
        failures = [(bind, why) for bind, call in zip(commit.binds, calls, strict=True) if (why := call.result())]
        for bind, why in failures:
            span.event("bind_failed", pod=bind.task.key, node=bind.node, reason=why)
        span.note(bound=len(commit.binds) - len(failures), failed=len(failures))
        if failures:
            span.fail(f"{len(failures)} of {len(commit.binds)} binds failed")
            self.refusals.note(commit.gang, failures[0][1])
        self._runtime.log(
            "gang_bound",
            gang=commit.gang,
            pods=len(commit.binds) - len(failures),
            failed=len(failures),
            attempt=attempt,
            seconds=round(self._clock.monotonic() - began, 3),
        )

    async def _bind_locked(self, bind: Bind, attempt: str) -> str:
        """Bind under the lock that the node's device plugin wants held; whoever waits for it waits outside the window."""
        try:
            held = await self._locks.take(bind.node, bind.lock)
        except PumiceError as error:
            return self._fail(bind, attempt, str(error))
        keeps = False
        try:
            self._runtime.reach("locked")
            await self._window.acquire()
            keeps = (
                True  # a bind that is cancelled half way may have happened: then the lock is the device plugin's to end
            )
            why = await self._bind(bind, attempt)
            keeps = not why
        finally:
            if not keeps:
                await self._locks.release(held)
        return why

    async def _bind(self, bind: Bind, attempt: str) -> str:
        """Why the pod is not bound where it should be, empty where it is; gives its place in the window back."""
        try:
            self._runtime.reach("binding")
            task = bind.task
            await self._client.bind(
                task.name,
                namespace=task.namespace,
                uid=task.uid,
                node=bind.node,
                annotations={**bind.annotations, names.ATTEMPT: attempt},
                guard=self._runtime.guard,
            )
        except (errors.Unreachable, errors.Conflict, errors.ServerError) as error:
            return await self._unknown(bind, attempt, str(error))
        except errors.KubeError as error:
            return self._fail(bind, attempt, str(error))
        finally:
            self._window.release()
        self.bound += 1
        return ""

    def _fail(self, bind: Bind, attempt: str, reason: str) -> str:
        self.failed += 1
        self._runtime.log("bind_failed", pod=bind.task.key, node=bind.node, attempt=attempt, reason=reason)
        now = self._clock.now()
        self._learn(changes.BindFailed(pod=_ref(bind), node=bind.node, attempt=attempt, at=now, reason=reason))
        return reason

    async def _unknown(self, bind: Bind, attempt: str, reason: str) -> str:
        """Nobody knows whether the pod is bound: the charge stays until it has been read back. As _bind."""
        now = self._clock.now()
        self._learn(changes.BindUnknown(pod=_ref(bind), node=bind.node, attempt=attempt, at=now, reason=reason))
        delay = READ_BACK_S_FIRST
        while True:
            try:
                reply = await self._client.get(Pod, bind.task.name, namespace=bind.task.namespace)
                pod = reply.into(Pod)
                break
            except errors.NotFound:
                return self._fail(bind, attempt, f"{reason}; the pod is gone")
            except errors.KubeError as error:
                self._runtime.log("read_back_failed", pod=bind.task.key, error=str(error))
                await self._clock.sleep(delay)
                delay = min(delay * 2, READ_BACK_S_MAX)
        if pod.metadata.uid == bind.task.uid and pod.spec.node_name:
            self.bound += 1
            self._learn(changes.Upserted(object=pod))
            return "" if pod.spec.node_name == bind.node else f"{reason}; the pod is on {pod.spec.node_name}"
        return self._fail(bind, attempt, f"{reason}; the pod turned out not to be bound")


def _ref(bind: Bind) -> PodRef:
    return PodRef(namespace=bind.task.namespace, name=bind.task.name, uid=bind.task.uid)

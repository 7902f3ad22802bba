"""Binds whole gangs through an API that binds one pod at a time.

All members are assumed before the first call leaves, so that the next cycle plans around them. Calls go out side by side in a
bounded window. What fails is told to the state at once and placed anew by the next cycle's mend. A bind whose outcome is unknown
keeps its room, and is sent again until it is known (docs/adr/0016).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pumice.api import changes, names
from pumice.api.changes import PodRef
from pumice.api.pods import Pod
from pumice.dispatch.bind_backoff import BindBackoff
from pumice.dispatch.errors import PreparationFailed
from pumice.dispatch.locks import NodeLocks
from pumice.dispatch.preparations import Preparations
from pumice.errors import PumiceError
from pumice.kube import errors
from pumice.scheduling.evicting import mend

if TYPE_CHECKING:
    from collections.abc import Callable

    from pumice.cluster.state import Cluster
    from pumice.kube.client import Client
    from pumice.runtime import Runtime
    from pumice.scheduling.core.decisions import Bind, GangCommit
    from pumice.telemetry.traces import Fact, Span

BIND_WINDOW = 64  # calls in flight: enough to keep an API server busy, few enough not to starve all other clients
BINDS_TOGETHER = 128  # of one gang, before those of the next one have their turn
RESEND_S_FIRST = 0.1
RESEND_S_MAX = 5.0
CHANGES_MAX = 5  # how often a pod may change between our look at it and our bind


class Binder:
    """Carries out commits; belongs to one event loop."""

    def __init__(
        self, client: Client, cluster: Cluster, learn: Callable[[changes.Change], None], runtime: Runtime
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._learn = learn
        self._runtime = runtime
        self._clock = runtime.clock
        self._preparations = Preparations(client, cluster, learn, runtime)
        self._locks = NodeLocks(client, runtime)
        self._window = asyncio.Semaphore(BIND_WINDOW)
        # First come, first bound: the first gangs of many are complete while the last wait; side by side all would be complete at the end.
        self._turn = asyncio.Lock()
        self.bind_backoff = BindBackoff(runtime.clock)
        self.bound = 0
        self.failed = 0

    def assume(self, commit: GangCommit) -> str:
        """Charge all members to their nodes, before any call leaves; the id of the attempt."""
        stamp = mend.next_stamp(self._clock.now(), self._attempts(commit.gang))
        attempt = mend.attempt_id(stamp, f"{self._runtime.chance.getrandbits(48):012x}")
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
        self._runtime.fail_point("assumed")
        return attempt

    def _attempts(self, gang: str) -> list[str]:
        """Those before, as its members and its group tell."""
        slot = self._cluster.gangs.get(gang)
        if slot is None:
            return []
        holders = [task.pod.metadata for task in slot.tasks.values()]
        holders += [slot.group.metadata] if slot.group is not None else []
        return [each.annotations.get(names.ATTEMPT, "") for each in holders]

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
                self.bind_backoff.note(commit.gang, str(error))
                await self._preparations.give_back(commit.binds)
                for bind in commit.binds:
                    self._fail(bind, attempt, str(error))
                return
            await self._bind_all(commit, attempt, span)

    async def _bind_all(self, commit: GangCommit, attempt: str, span: Span) -> None:
        began = self._clock.monotonic()
        async with asyncio.TaskGroup() as group:
            calls = []
            for start in range(0, len(commit.binds), BINDS_TOGETHER):
                async with self._turn:
                    for bind in commit.binds[start : start + BINDS_TOGETHER]:
                        if not bind.lock:
                            await self._window.acquire()
                        work = self._bind_locked if bind.lock else self._bind
                        calls.append(group.create_task(work(bind, attempt)))
        self._runtime.fail_point("bound")
        failures = [(bind, why) for bind, call in zip(commit.binds, calls, strict=True) if (why := call.result())]
        for bind, why in failures:
            span.event("bind_failed", pod=bind.task.key, node=bind.node, reason=why)
        span.note(bound=len(commit.binds) - len(failures), failed=len(failures))
        if failures:
            span.fail(f"{len(failures)} of {len(commit.binds)} binds failed")
            self.bind_backoff.note(commit.gang, failures[0][1])
        self._runtime.log(
            "gang_bound",
            gang=commit.gang,
            pods=len(commit.binds) - len(failures),
            failed=len(failures),
            attempt=attempt,
            seconds=round(self._clock.monotonic() - began, 3),
        )

    async def _bind_locked(self, bind: Bind, attempt: str) -> str:
        """Bind under the lock that the node's device plugin wants held; a bind that waits for it waits outside the window."""
        try:
            held = await self._locks.take(bind.node, bind.lock)
        except PumiceError as error:
            return await self._give_up(bind, attempt, str(error))
        keeps = False
        try:
            self._runtime.fail_point("locked")
            await self._window.acquire()
            # A bind that is cancelled half way may have happened: then the lock is the device plugin's to end.
            keeps = True
            why = await self._bind(bind, attempt)
            keeps = not why
        finally:
            if not keeps:
                await self._locks.release(held)
        return why

    async def _bind(self, bind: Bind, attempt: str) -> str:
        """Why the pod is not bound where it should be, empty where it is. Returns when that is certain, however long it takes.

            sent --201--> bound
              |--refused, or it never left--> not bound
              |--409, 404--> the pod is read: bound, gone, or changed, and then no bind of before can take effect any more
              `--no answer, 5xx--> open: it is read as well, and where it is still unbound the same bind is sent again

        A bind that is open may still arrive: a look at a pod that is unbound and unchanged proves nothing, so its room stays charged.
        """
        version, times_changed = self._version_of(bind), 0
        is_open, delay = False, RESEND_S_FIRST
        while True:
            try:
                await self._send(bind, attempt, version)
            except errors.KubeError as error:
                refusal = error
            else:
                self.bound += 1
                return ""
            if errors.is_open(refusal) and not is_open:
                is_open = True
                self._tell_unknown(bind, attempt, str(refusal))
            if errors.is_open(refusal) or isinstance(refusal, errors.Conflict | errors.NotFound):
                pod = await self._read(bind)
                if pod is None or not _may_be_bound(pod):
                    return await self._settle(bind, attempt, pod, str(refusal))
                if version not in {"", pod.metadata.resource_version}:
                    # Nothing that was sent for the former version can take effect any more.
                    version, times_changed, is_open = pod.metadata.resource_version, times_changed + 1, False
                    if times_changed <= CHANGES_MAX:
                        await self._window.acquire()
                        continue
            if not is_open:
                return await self._give_up(bind, attempt, str(refusal))
            await self._clock.sleep(delay)
            delay = min(delay * 2, RESEND_S_MAX)
            await self._window.acquire()

    async def _send(self, bind: Bind, attempt: str, version: str) -> None:
        """Send the bind once; gives its place in the window back."""
        try:
            self._runtime.fail_point("binding")
            await self._client.bind(
                bind.task.name,
                namespace=bind.task.namespace,
                uid=bind.task.uid,
                node=bind.node,
                annotations={**bind.annotations, names.ATTEMPT: attempt},
                resource_version=version,
            )
        finally:
            self._window.release()

    def _version_of(self, bind: Bind) -> str:
        """The pod's version as far as it is known: what was planned for an older one has been looked at again since."""
        return self._cluster.tasks.get(bind.task.uid, bind.task).pod.metadata.resource_version

    async def _read(self, bind: Bind) -> Pod | None:
        """The pod as the server has it, None where it is gone; asked for until there is an answer."""
        delay = RESEND_S_FIRST
        while True:
            try:
                pod = (await self._client.get(Pod, bind.task.name, namespace=bind.task.namespace)).into(Pod)
            except errors.NotFound:
                return None
            except errors.KubeError as error:
                self._runtime.log("read_back_failed", pod=bind.task.key, error=str(error))
                await self._clock.sleep(delay)
                delay = min(delay * 2, RESEND_S_MAX)
            else:
                if pod.metadata.uid != bind.task.uid:
                    return None
                self._learn(changes.Upserted(object=pod))
                return pod

    async def _settle(self, bind: Bind, attempt: str, pod: Pod | None, reason: str) -> str:
        """What a pod says that no bind can change any more. As _bind."""
        if pod is None or not pod.spec.node_name:
            return await self._give_up(bind, attempt, f"{reason}; the pod is gone, or cannot be bound any more")
        self.bound += 1
        return "" if pod.spec.node_name == bind.node else f"{reason}; the pod is on {pod.spec.node_name}"

    async def _give_up(self, bind: Bind, attempt: str, reason: str) -> str:
        """The pod will not be bound: its gang may go elsewhere once what was prepared for it is given back. As _bind."""
        if bind.first:
            await self._preparations.give_back((bind,))
        return self._fail(bind, attempt, reason)

    def _fail(self, bind: Bind, attempt: str, reason: str) -> str:
        self.failed += 1
        self._runtime.log("bind_failed", pod=bind.task.key, node=bind.node, attempt=attempt, reason=reason)
        now = self._clock.now()
        self._learn(changes.BindFailed(pod=_ref(bind), node=bind.node, attempt=attempt, at=now, reason=reason))
        return reason

    def _tell_unknown(self, bind: Bind, attempt: str, reason: str) -> None:
        self._runtime.log("bind_unknown", pod=bind.task.key, node=bind.node, attempt=attempt, reason=reason)
        now = self._clock.now()
        self._learn(changes.BindUnknown(pod=_ref(bind), node=bind.node, attempt=attempt, at=now, reason=reason))


def _may_be_bound(pod: Pod) -> bool:
    spec = pod.spec
    return not (spec.node_name or spec.scheduling_gates or pod.metadata.deletion_timestamp)


def _ref(bind: Bind) -> PodRef:
    return PodRef(namespace=bind.task.namespace, name=bind.task.name, uid=bind.task.uid)

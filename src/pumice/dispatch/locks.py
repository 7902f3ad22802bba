"""Locks on nodes, as device plugins for shared GPUs want them: an annotation that holds the time at which it was taken.

    take --> bind --> the device plugin hands the cards out, and takes the annotation away
               `----> the bind failed, or was called off before it was sent: we take it away

The plugin serves one pod at a time and finds it by what is pending on its node, so a second pod must not be bound there before the
first has its cards. A scheduler that crashes between loses the lock after EXPIRY.
"""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING

from pumice import instant
from pumice.api.core import Node
from pumice.errors import PumiceError
from pumice.kube import errors
from pumice.values import Value

if TYPE_CHECKING:
    from pumice.instant import Instant
    from pumice.kube.client import Client
    from pumice.runtime import Runtime

EXPIRY = 5 * instant.MINUTE  # as Volcano's and HAMi's: all who share a node have to agree on it
# The wait for a lock, together with the gang's other members on the node; within the grace time of mend.
TAKE_S_MAX = 20.0
RETRY_S = 0.25
RELEASE_TRIES_MAX = 5


class NotLocked(PumiceError):
    """Another process holds the lock, and stays so for longer than a bind can wait."""


class Held(Value):
    """A lock that is ours: by the very text that we wrote."""

    node: str
    name: str
    text: str


class NodeLocks:
    """Takes and releases locks; belongs to one event loop."""

    def __init__(self, client: Client, runtime: Runtime) -> None:
        self._client = client
        self._runtime = runtime
        # Of locks that were found: their text and since when it has stood there, by our own clock.
        self._found: dict[tuple[str, str], tuple[str, float]] = {}
        # Members of a gang come in their order, and do not race one another for the same annotation.
        self._turns: weakref.WeakValueDictionary[tuple[str, str], asyncio.Lock] = weakref.WeakValueDictionary()

    async def take(self, node: str, name: str) -> Held:
        """The lock, once it is free or has expired; raises NotLocked where that takes too long, KubeError where that is unknown."""
        clock = self._runtime.clock
        until = clock.monotonic() + TAKE_S_MAX
        turn = self._turns.setdefault((node, name), asyncio.Lock())
        async with turn:
            while True:
                # Down to the microsecond, so that another process's is not taken for it.
                ours = Held(node, name, instant.format_micro_instant(clock.now()))
                try:
                    holder = await self._try(ours)
                except (errors.KubeError, asyncio.CancelledError):
                    await self.release(ours)  # it is unknown whether the write arrived
                    raise
                if holder is None:
                    return ours
                if clock.monotonic() >= until:
                    raise NotLocked(
                        f"node {node} is locked by {name}={holder} for another pod; if its device plugin is dead, "
                        f"the lock expires {EXPIRY // instant.MINUTE} minutes after that time"
                    )
                await clock.sleep(RETRY_S)

    async def _try(self, ours: Held) -> str | None:
        """None where the lock is ours now; else what stands in its place."""
        node = await self._look(ours)
        holder = node.metadata.annotations.get(ours.name, "")
        if holder and not _is_expired(holder, self._runtime.clock.now()) and not self._is_old(ours, holder):
            return holder
        try:
            await self._write(node, ours.name, ours.text)
        except errors.Conflict:
            return holder or "somebody who was faster"
        except (errors.Unreachable, errors.ServerError):
            if (await self._look(ours)).metadata.annotations.get(ours.name) != ours.text:
                raise  # else it was written, and only the answer was lost
        return None

    def _is_old(self, ours: Held, holder: str) -> bool:
        """Whether a lock whose time has not come, by a clock that was ahead, has stood unchanged for as long as it may."""
        if not _is_ahead(holder, self._runtime.clock.now()):
            return False
        key, now = (ours.node, ours.name), self._runtime.clock.monotonic()
        if self._found.get(key, ("", 0.0))[0] != holder:
            self._found[key] = (holder, now)
        return now - self._found[key][1] > EXPIRY / instant.SECOND

    async def _look(self, lock: Held) -> Node:
        return (await self._client.get(Node, lock.node)).into(Node)

    async def release(self, held: Held) -> None:
        """Give the lock back, if it is still ours; one that cannot be given back expires by itself."""
        try:
            for _ in range(RELEASE_TRIES_MAX):
                node = await self._look(held)
                if node.metadata.annotations.get(held.name) != held.text:
                    return
                try:
                    await self._write(node, held.name, None)
                except errors.Conflict:
                    continue
                return
            reason = "the node changes faster than it can be written"
        except errors.NotFound:
            return
        except PumiceError as error:
            reason = str(error)
        self._runtime.log("lock_not_released", node=held.node, lock=held.name, since=held.text, reason=reason)

    async def _write(self, node: Node, name: str, text: str | None) -> None:
        metadata = {"resourceVersion": node.metadata.resource_version, "annotations": {name: text}}
        await self._client.patch(Node, node.metadata.name, {"metadata": metadata})


def _is_ahead(text: str, now: Instant) -> bool:
    try:
        return instant.parse_instant(text.partition(",")[0]) > now
    except instant.InstantError:
        return False


def _is_expired(text: str, now: Instant) -> bool:
    """Some write who holds it behind the time; what is no time at all never expires, because its meaning is unknown."""
    try:
        return now - instant.parse_instant(text.partition(",")[0]) > EXPIRY
    except instant.InstantError:
        return False

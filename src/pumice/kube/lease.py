"""Who leads, by a Lease: one of many processes works, and another takes over when it is gone.

    candidate --lease free, released or expired--> leader --could not renew in time, or taken--> NotLeading
                                                     |
                                                     +--stopped--> work ends, then the lease is released

Clocks are never compared between machines. A candidate measures by its own monotonic clock how long it has seen no renewal;
a leader stops by itself RENEW_S after it *sent* its last successful renewal, and others wait LEASE_S after they *saw* it.
The difference between the two is the time in which a write that is under way may still land.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from pumice import instant
from pumice.api.coordination import Lease
from pumice.api.decoding import UNREADABLE
from pumice.api.kinds import type_meta
from pumice.kube import errors, requests
from pumice.kube.transport import Request
from pumice.kube.watch import Lines
from pumice.runtime import Log, silent

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Coroutine

    from pumice.api.meta import Json
    from pumice.clock import Clock
    from pumice.kube.client import Client

LEASE_S = 15  # as kube-scheduler and Volcano
RENEW_S = 10.0
ANSWER_S_MAX = RENEW_S / 2  # as kube-scheduler: an answer that is lost leaves time for another try
RETRY_S = 2.0
WATCH_S = 300  # of a candidate, whom nothing but the holder's silence concerns
RELEASE_S_MAX = 3.0  # a process that is told to stop does not wait for a dead server

T = TypeVar("T")


class NotLeading(errors.KubeError):
    """The lease is not ours any more, or never was: we must not write."""


class Election:
    """One candidate. `lead` runs it; `check` is called before every write."""

    def __init__(
        self,
        client: Client,
        *,
        namespace: str,
        name: str,
        identity: str,
        clock: Clock,
        chance: random.Random,
        log: Log = silent,
        retry_s: float = RETRY_S,
    ) -> None:
        """`retry_s`: how often a leader renews its lease and others look at it."""
        self._client = client
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._clock = clock
        self._chance = chance
        self._log = log
        self._retry_s = retry_s
        self.annotations: Json = {}  # what a leader writes onto the lease: where it can be asked, say
        self.labels: Json = {}  # and by which such leases are found
        self._deadline = float("-inf")
        self._held: Json | None = None  # the lease as we last wrote it
        self._holder = ""  # who held it when we last looked
        self._seen_spec: Json | None = None  # as it was then, and since when it has been so
        self._seen_at = float("-inf")
        self._seen_version = ""

    def deadline(self) -> float:
        """By the monotonic clock, when this process must stop writing; in the past if it does not lead."""
        return self._deadline

    def check(self) -> None:
        """Raises NotLeading where a write might meet one of another leader."""
        if self._clock.monotonic() >= self._deadline:
            raise NotLeading(
                f"{self._identity} does not hold lease {self._namespace}/{self._name}: nothing was sent; the new leader will"
            )

    @property
    def stands_by(self) -> bool:
        """True while another is known to hold the lease: this process has nothing to do, and is ready to take over."""
        return self._holder not in {"", self._identity}

    @property
    def identity(self) -> str:
        """Ours, as it stands in the lease when we hold it."""
        return self._identity

    @property
    def holder(self) -> str:
        """Who held the lease when we last looked; empty for none."""
        return self._holder

    async def lead(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Waits for the lease and runs `work` while holding it; returns what it returns.

        Raises NotLeading, after `work` was cancelled and has ended, if the lease is lost. When cancelled, lets `work` end
        first, still renewing, and then releases the lease, so that another leads at once.
        """
        while not await self._attempt(RENEW_S):
            await self._wait_for_news()
        self._log("leading", lease=f"{self._namespace}/{self._name}", identity=self._identity)
        holding = asyncio.create_task(self._hold(), name="lease-hold")
        working = asyncio.create_task(work(), name="lease-work")
        try:
            await asyncio.wait({holding, working}, return_when=asyncio.FIRST_COMPLETED)
            lost = holding.exception() if holding.done() else None
        finally:
            await _end(working)
            await _end(holding)
            await self._release()
        if lost is not None:
            raise lost
        return working.result()

    async def _hold(self) -> None:
        """Renews for ever; raises NotLeading when that has failed for too long."""
        while True:
            await self._clock.sleep(min(self._retry_s, max(self._deadline - self._clock.monotonic(), 0.0)))
            left = self._deadline - self._clock.monotonic()
            renewed = left > 0 and await self._attempt(min(left, ANSWER_S_MAX))
            was_taken = self._holder != self._identity
            if not renewed and (was_taken or self._clock.monotonic() >= self._deadline):
                self._log("leadership_lost", lease=f"{self._namespace}/{self._name}", identity=self._identity)
                self._deadline = float("-inf")
                raise NotLeading(
                    f"{self._identity} lost lease {self._namespace}/{self._name}: it was taken, or not renewed in time; start again"
                )

    async def _attempt(self, seconds: float) -> bool:
        """Takes or renews the lease if that is possible now, and if the server answers in time."""
        try:
            async with asyncio.timeout(seconds):
                return await self._renew() or await self._take()
        except (errors.KubeError, TimeoutError) as error:
            self._log("lease_failed", lease=f"{self._namespace}/{self._name}", error=str(error) or "no answer in time")
            return False

    async def _renew(self) -> bool:
        if self._held is None:
            return False
        try:
            await self._write(self._held)
        except errors.StatusError:  # another process touched or deleted it: look who holds it
            self._held = None
            return False
        return True

    async def _take(self) -> bool:
        try:
            found = (await self._client.get(Lease, self._name, namespace=self._namespace)).json()
        except errors.NotFound:
            metadata = {"name": self._name, "namespace": self._namespace}
            found = {**type_meta(Lease), "metadata": metadata}
        self._note(found)
        if self._holder not in {"", self._identity} and self._left_s() > 0:
            return False
        try:
            await self._write(found)
        except (errors.Conflict, errors.AlreadyExists):
            return False
        return True

    def _note(self, lease: Json) -> None:
        """Who holds it, and since when it has been as it is."""
        spec = lease.get("spec") or {}
        if spec != self._seen_spec:
            self._seen_spec, self._seen_at = spec, self._clock.monotonic()
        self._seen_version = (lease.get("metadata") or {}).get("resourceVersion", "")
        self._holder = spec.get("holderIdentity") or ""

    def _left_s(self) -> float:
        """How long its holder may still be silent."""
        duration = (self._seen_spec or {}).get("leaseDurationSeconds") or LEASE_S
        return self._seen_at + float(duration) - self._clock.monotonic()

    async def _write(self, lease: Json) -> None:
        """Writes ourselves into the lease as it was read; the server refuses if it has changed since."""
        spec = lease.get("spec") or {}
        now = instant.format_micro_instant(self._clock.now())
        is_ours = spec.get("holderIdentity") == self._identity
        fresh = spec | {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": LEASE_S,
            "renewTime": now,
            "acquireTime": (spec.get("acquireTime") if is_ours else None) or now,
            "leaseTransitions": (spec.get("leaseTransitions") or 0) + (bool(spec) and not is_ours),
        }
        metadata = lease["metadata"]
        for part, own in (("annotations", self.annotations), ("labels", self.labels)):
            if own:
                metadata = metadata | {part: (metadata.get(part) or {}) | own}
        sent_at = self._clock.monotonic()
        self._held = await self._put(lease | {"metadata": metadata, "spec": fresh})
        self._holder = self._identity
        self._deadline = sent_at + RENEW_S

    async def _put(self, lease: Json) -> Json:
        if "resourceVersion" in lease["metadata"]:
            return (await self._client.update(Lease, self._name, lease, namespace=self._namespace)).json()
        return (await self._client.create(Lease, lease, namespace=self._namespace)).json()

    async def _release(self) -> None:
        held, self._held = self._held, None
        if held is None or self._clock.monotonic() >= self._deadline:
            return
        self._deadline = float("-inf")
        now = instant.format_micro_instant(self._clock.now())
        spec = held["spec"] | {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": now, "acquireTime": now}
        try:
            async with asyncio.timeout(RELEASE_S_MAX):
                await self._put(held | {"spec": spec})
        except (errors.KubeError, TimeoutError) as error:
            self._log("lease_not_released", lease=f"{self._namespace}/{self._name}", error=str(error))

    async def _wait_for_news(self) -> None:
        """Returns when the lease may be free, or after the retry time where it cannot be watched.

        As long as its holder renews it, one watch is enough.
        """
        query = {
            "watch": "true",
            "fieldSelector": f"metadata.name={self._name}",
            "resourceVersion": self._seen_version,
            "timeoutSeconds": str(WATCH_S),
        }
        path = requests.collection_path(Lease, self._namespace)
        retry_s, loop = self._retry_s * (1.0 + 0.2 * self._chance.random()), asyncio.get_running_loop()
        try:
            async with asyncio.timeout(retry_s) as patience:
                with contextlib.suppress(errors.KubeError):
                    request = Request("GET", path, query, {"accept": "application/json"})
                    if await self._watch(request, patience, retry_s):
                        return
                patience.reschedule(loop.time() + retry_s)
                await asyncio.Event().wait()  # no news to be had: the retry time passes
        except TimeoutError:
            return

    async def _watch(self, request: Request, patience: asyncio.Timeout, retry_s: float) -> bool:
        """True with the first news that is no renewal, False where the watch ends; whoever stops renewing is missed when his time is over."""
        lines, loop = Lines(), asyncio.get_running_loop()
        async with self._client.stream(request) as chunks:
            patience.reschedule(loop.time() + max(self._left_s(), retry_s))
            async for chunk in chunks:
                for lease in map(_renewed, lines.feed(chunk)):
                    if not self._holder or (lease.get("spec") or {}).get("holderIdentity") != self._holder:
                        return True
                    self._note(lease)
                    patience.reschedule(loop.time() + max(self._left_s(), retry_s))
        return False


def _renewed(line: bytes) -> Json:
    """The lease as a line of the watch has it; nothing where it was deleted, or the line says something else."""
    try:
        event = msgspec.json.decode(line, type=dict[str, Any])
    except UNREADABLE:
        return {}
    return event["object"] if event.get("type") == "MODIFIED" and isinstance(event.get("object"), dict) else {}


async def _end(task: asyncio.Task[Any]) -> None:
    """Ends a task and waits for its end; what it ended with has been seen, or no longer matters."""
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.exception()

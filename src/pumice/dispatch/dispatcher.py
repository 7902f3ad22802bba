"""Carries out one cycle's decisions: what must be known to the next cycle at once, the rest in the background."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pumice.api import changes
from pumice.dispatch import discretion, revalidation, takeover
from pumice.dispatch.binder import Binder
from pumice.dispatch.evictor import EvictionSettings, Evictor
from pumice.dispatch.gates import Gates
from pumice.dispatch.statuses import Statuses
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping
    from typing import Any

    from pumice.api.meta import Struct
    from pumice.cluster.state import Cluster
    from pumice.kube.client import Client
    from pumice.kube.recorder import Recorder
    from pumice.runtime import Runtime
    from pumice.scheduling.core.decisions import Decisions, Evict
    from pumice.scheduling.core.ports import Resting


class Tally(Value):
    """Pods bound, binds that failed, and plans that no longer held."""

    bound: int
    failed: int
    dropped: int


class Dispatcher:
    """The only writer to the API server; everything it learns returns through `learn`."""

    def __init__(
        self,
        client: Client,
        cluster: Cluster,
        learn: Callable[[changes.Change], None],
        recorder: Recorder,
        runtime: Runtime,
        *,
        eviction_settings: EvictionSettings | None = None,
    ) -> None:
        client = client.with_guard(runtime.guard)
        self._client = client
        self._cluster = cluster
        self._learn = learn
        self._runtime = runtime
        self._log = runtime.log
        self._fail_point = runtime.fail_point
        self._binder = Binder(client, cluster, learn, runtime)
        self._recorder = recorder
        eviction_settings = eviction_settings or EvictionSettings()
        self._evictor = Evictor(client, learn, recorder, runtime, eviction_settings, self._group_of)
        self._gates = Gates(client, runtime)
        self._statuses = Statuses(client, cluster, learn, recorder, runtime)
        self._under_way: set[asyncio.Task[None]] = set()
        self._dropped = 0
        self._unwritten: Decisions | None = None
        self._writing = False

    def _group_of(self, gang: str) -> Struct | None:
        slot = self._cluster.gangs.get(gang)
        return slot.group if slot is not None else None

    def take_tally(self) -> Tally:
        """What happened since it was last asked."""
        tally = Tally(self._binder.bound, self._binder.failed, self._dropped)
        self._binder.bound = self._binder.failed = self._dropped = 0
        return tally

    @property
    def has_unwritten(self) -> bool:
        """Whether a status waits to be written again, and its time has come."""
        again_at = self._statuses.again_at
        is_due = again_at is not None and self._runtime.clock.now() >= again_at
        return is_due or self._statuses.unwritten or self._gates.unwritten

    def resting(self) -> Mapping[str, Resting]:
        """Gangs whose attempts have failed more than once lately: others have their turn."""
        return self._binder.bind_backoff.resting()

    async def take_over(self, *, since: str) -> None:
        """To be called before the first decision: what a former leader has sent can take no effect any more."""
        await takeover.void_former_binds(self._client, self._cluster, self._learn, self._runtime, since=since)

    def carry_out(self, decisions: Decisions) -> None:
        """Assume, claim and announce now; bind, evict and write in the background."""
        for gang, reason in decisions.unclaims.items():
            self._log("claim_ended", gang=gang, reason=reason)
            self._learn(changes.Unclaimed(gang=gang))
        for gang, uid in decisions.admitted.items():
            self._learn(changes.Admitted(gang=gang, uid=uid))
        for commit in decisions.commits:
            stale = revalidation.why_stale(self._cluster, commit)
            if stale:
                self._dropped += 1
                self._log("plan_dropped", gang=commit.gang, reason=stale)
                continue
            self._start(self._binder.commit(commit, self._binder.assume(commit)))
        self._make_room(decisions)
        if decisions.ungated:
            self._start(self._gates.remove(decisions.ungated))
        self._fail_point("dispatched")
        if self._unwritten is None and not self._writing:
            self._start(self._write())
        self._unwritten = decisions

    def _make_room(self, decisions: Decisions) -> None:
        evictions = [each for each in decisions.evictions if revalidation.still_evictable(self._cluster, each)]
        for eviction in evictions:
            self._evictor.announce(eviction.task, claimant=eviction.claimant, reason=eviction.rule)
        for claim in decisions.claims:
            self._learn(changes.Claimed(claim=claim))
        self._tell_groups(evictions)
        for eviction in evictions:
            self._start(self._evictor.evict(eviction))
        self._give_notice(decisions)
        for release in decisions.releases:
            self._evictor.announce_release(release)
            self._start(self._evictor.release(release))

    def _give_notice(self, decisions: Decisions) -> None:
        for notice in decisions.notices:
            if notice.about.leaves:
                story = notice.about.story
                self._evictor.announce(notice.task, claimant=story.claimant.gang, reason=story.rule)
            self._start(self._evictor.give_notice(notice))
        for task in decisions.withdrawn:
            self._start(self._evictor.withdraw(task))
        told = {notice.task.gang: notice.about for notice in decisions.notices}
        for gang, about in told.items():
            story = discretion.of_gang(gang).story(about.story)
            text = f"members leave at {about.until}, or once they have written a checkpoint: {story.text}"
            self._tell_group(gang, "EvictionNotice", text)
        for gang in dict.fromkeys(task.gang for task in decisions.withdrawn):
            self._tell_group(gang, "EvictionWithdrawn", "nobody has to leave: the room is no longer needed")
        for ring in decisions.rings:
            self._log("eviction_ring", gangs=", ".join(ring))
            names = discretion.of_gang(ring[0]).names(ring)
            self._tell_group(ring[0], "EvictionRing", f"gangs have evicted one another within an hour: {names}")

    def _tell_groups(self, evictions: Iterable[Evict]) -> None:
        """One event on each group that loses members: pods are gone soon, and their events are hard to find then."""
        together: dict[tuple[str, str, str], list[Evict]] = {}
        for eviction in evictions:
            together.setdefault((eviction.task.gang, eviction.rule, eviction.claimant), []).append(eviction)
        for (gang, _, _), those in together.items():
            pods = f"{len(those)} pod{'s are' if len(those) > 1 else ' is'} evicted"
            self._tell_group(gang, "MembersEvicted", f"{pods}: {discretion.story_of(those[0]).text}")

    def _tell_group(self, gang: str, reason: str, text: str) -> None:
        slot = self._cluster.gangs.get(gang)
        if slot is not None and slot.group is not None:
            self._recorder.record(slot.group, "Warning", reason, text)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._under_way.add(task)
        task.add_done_callback(self._forget_task)

    def _forget_task(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._log("dispatch_failed", error=repr(task.exception()))

    async def _write(self) -> None:
        """Write the newest reports; what came meanwhile replaces what was still waiting."""
        self._writing = True
        try:
            while (decisions := self._unwritten) is not None:
                self._unwritten = None
                await self._statuses.write(decisions)
        finally:
            self._writing = False

    async def settle(self) -> None:
        """Wait until everything that was begun has ended."""
        while self._under_way:
            await asyncio.wait(self._under_way)

    async def stop(self) -> None:
        for task in self._under_way:
            task.cancel()
        await self.settle()

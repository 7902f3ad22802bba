"""The scheduler as a process: watches, plans when something that matters has changed, and carries out what was planned.

An idle scheduler plans at once when news arrives; what arrives while it plans is the next cycle. Planning happens in one worker
thread on an immutable snapshot, so that watches, binds and the lease never wait for it.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import gc
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import msgspec

from pumice import instant
from pumice.api import (
    names,
    pods,
    scheduling,
)
from pumice.api.changes import AttemptSeen, Claimed, Upserted
from pumice.api.scheduling import SCHEDULER_NAMES
from pumice.cluster.intake import Intake
from pumice.cluster.state import Cluster
from pumice.cluster.tasks import Status
from pumice.dispatch import takeover
from pumice.dispatch.dispatcher import Dispatcher
from pumice.dispatch.evictor import EvictionSettings
from pumice.dispatch.memory_store import MemoryPlace, MemoryStore
from pumice.errors import NotFound
from pumice.flight.unrecorded import NOBODY, Planned, Unrecorded
from pumice.kube.recorder import Recorder
from pumice.processes import queues
from pumice.processes.extender_client import Extending
from pumice.processes.forecasting import Forecasting
from pumice.processes.gpu_loads import GangGpus, MeasuredGpus
from pumice.processes.health import Pulse
from pumice.processes.loads import MeasuredLoads
from pumice.processes.recorded_runs import RecordedRuns
from pumice.processes.requirements import STATE_KINDS, Requirements
from pumice.processes.scheduler_metrics import Observer
from pumice.processes.wakeups import Pace, Wakeups
from pumice.readmodel.build import Cycle
from pumice.scheduling.core import cycle, memory
from pumice.scheduling.core.build_decisions import CLAIM_SECONDS
from pumice.scheduling.core.memory import Memory
from pumice.scheduling.core.ports import Ports, no_measure
from pumice.scheduling.evicting import mend, reserved_room
from pumice.scheduling.time.forecast import World
from pumice.telemetry.meters import Meters
from pumice.telemetry.traces import OFF
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pumice.api.changes import Change
    from pumice.cluster.state import Snapshot
    from pumice.instant import Instant
    from pumice.kube.client import Client
    from pumice.kube.informer import Informers, News
    from pumice.runtime import Runtime
    from pumice.scheduling.core.decisions import Decisions
    from pumice.scheduling.core.plugin import Plugin
    from pumice.scheduling.core.policy import Policy

# The heart beats so often; and work that the budget of a cycle has cut off goes on after so long.
TICK_S = 1.0
TICK = round(TICK_S * instant.SECOND)
SOONEST_S = 0.01  # a clock that is set, or a plugin that names the past, must not make the loop spin
# Everything is looked at again so often, whether or not anything seems to have changed.
SWEEP_S = 60.0
# The most that one cycle may work beyond one turn for each gang: nodes tried for evictions, some 30 to 50 microseconds each.
CYCLE_UNITS = 30_000
TURNS = 4  # that a waiting gang may have in one cycle: allocate, preempt (from others, from itself) and reclaim
# What arrives this soon after the first piece of news is planned with it: a gang's pods are created one by one.
GATHER_S = 0.005


class Served(Value):
    """What this scheduler serves, pods that name it and groups that name no queue, and with which plugins from outside."""

    scheduler_names: frozenset[str] = frozenset(SCHEDULER_NAMES)
    default_queue: str = "default"
    extra_plugins: Mapping[str, type[Plugin]] = msgspec.field(default_factory=dict)
    volcano_metrics: bool = True  # export Volcano's metric names beside ours
    meters: Meters | None = None  # instead of its own: where nobody reads them
    prices: Mapping[str, float] = msgspec.field(default_factory=dict)  # dollars per hour: a card, a core, a GiB
    grace_s: int = cycle.GRACE_SECONDS  # how long a gang whose commit was cut short may stay incomplete
    # What is done where a pod that has to go is refused its eviction.
    eviction_settings: EvictionSettings = msgspec.field(default_factory=EvictionSettings)
    memory_place: MemoryPlace | None = None  # where persistent memory is kept; None: it ends with the process
    flight: Unrecorded = NOBODY  # keeps what every cycle is planned from


def units_for(snapshot: Snapshot) -> int:
    """The budget of one cycle: however many gangs wait, their turns leave enough of it to those whose turn comes last."""
    return CYCLE_UNITS + TURNS * sum(bool(gang.counts[Status.PENDING]) for gang in snapshot.gangs.values())


def _publish_nothing(_: Cycle) -> None:
    """For tests and benches, which run the scheduler without a view."""


class Scheduler:
    """One scheduler over one API server."""

    def __init__(
        self, client: Client, informers: Informers, chosen: Callable[[], Policy], runtime: Runtime, served: Served
    ) -> None:
        self._client = client
        self._informers = informers
        self._policy = chosen
        self._clock = runtime.clock
        self._log = runtime.log
        self._cluster = Cluster(scheduler_names=served.scheduler_names, default_queue=served.default_queue)
        self._intake = Intake(self._cluster)
        self._wakeups = Wakeups(self._intake)
        self.meters = served.meters or Meters(with_volcano_names=served.volcano_metrics)
        self.pulse = Pulse(runtime.clock)
        self._tracing = runtime.tracing
        self._observer = Observer(self.meters, served.prices, runtime.tracing)
        self._extending = Extending()
        self._loads = MeasuredLoads(client, chosen, clock=runtime.clock, log=runtime.log, tell=self._wakeups.now)
        place = served.memory_place
        self._recorded = RecordedRuns(
            client, chosen, None if place is None else place.namespace, clock=runtime.clock, log=runtime.log
        )
        self._gpus = MeasuredGpus(chosen, clock=runtime.clock, log=runtime.log)
        self._gang_gpus = GangGpus(self._gpus, self.meters, served.prices)
        self.forecasting = Forecasting(self._world, clock=runtime.clock, log=runtime.log)
        is_measured = self.meters.is_read or runtime.tracing is not OFF
        self._ports = Ports(measure=self._observer.measure if is_measured else no_measure)
        self._publish: Callable[[Cycle], None] = _publish_nothing
        self._refused = ""  # why the newest policy is not in force
        self._extra_plugins = served.extra_plugins
        self._grace_s = served.grace_s
        self._flight = served.flight
        self._flight.of(served.scheduler_names, served.default_queue, served.grace_s)
        self._recorder = Recorder(client, component="pumice-scheduler", clock=runtime.clock, log=runtime.log)
        self.dispatcher = Dispatcher(
            client, self._cluster, self._learn, self._recorder, runtime, eviction_settings=served.eviction_settings
        )
        self._store = MemoryStore(client, self._recorder, runtime, served.memory_place)
        self._requirements = Requirements(client, informers, self._receive, served.extra_plugins)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="plan")
        self.cycles = 0
        self._failures: frozenset[tuple[str, str, str]] = frozenset()  # of plugins, in the last cycle
        self._planned_at = float("-inf")
        self._pace = Pace()
        self._in_force: Policy | None = None  # all that its plugins need is there
        self._entering: asyncio.Task[None] | None = None
        self._memory = memory.EMPTY
        self._planned_with = memory.EMPTY, Ports()  # the last cycle
        self._loaded: dict[str, msgspec.Struct] = {}  # slots that a former leader has left, for the next cycle
        self._oversized: frozenset[str] = frozenset()
        self._next_change: Instant | None = None  # when time alone may change a decision

    # ------------------------------------------------------------------------------------------------- news

    def _learn(self, change: Change) -> None:
        self._wakeups.learn(change, self._requirements.concerns)
        self._flight.saw(change)

    def _receive(self, news: Sequence[News]) -> None:
        for change in news:
            if isinstance(change, Upserted) and isinstance(change.object, pods.Pod):
                self._notice_attempt(change.object.metadata.annotations.get(names.ATTEMPT, ""))
            self._learn(change)

    def _notice_attempt(self, attempt: str) -> None:
        """A leader whose clock was ahead stamps its attempts with a time that has not come: here they begin when they are seen."""
        if attempt and attempt not in self._cluster.seen_at:
            now = self._clock.now()
            if (mend.attempt_started(attempt) or 0) > now:
                self._learn(AttemptSeen(attempt=attempt, at=now))

    @property
    def cluster(self) -> Cluster:
        """What this scheduler holds to be true now; only its own intake may change it."""
        return self._cluster

    @property
    def remembered(self) -> Memory:
        """What the last cycle left for the next one."""
        return self._memory

    # ------------------------------------------------------------------------------------------------- life

    async def run(self) -> None:
        """Schedule until cancelled. Informers must be running."""
        since = await takeover.version_now(self._client)
        served = await self._requirements.watch(STATE_KINDS)
        if scheduling.PodGroup not in served or scheduling.Queue not in served:
            raise NotFound(
                "the API server does not know PodGroups and Queues; install them with `pumice crds | kubectl apply --server-side -f -`"
            )
        await self._enter(self._policy())
        gc.freeze()  # what was listed stays: the collector need not look at it again
        if scheduling.ROOT_QUEUE in self._cluster.queues:  # else no scheduler has ever decided anything here
            await self.dispatcher.take_over(since=since)
        await queues.make_own(self._client, self._cluster, clock=self._clock, log=self._log)
        lasts = CLAIM_SECONDS * instant.SECOND
        for claim in reserved_room.rebuilt(self._cluster.snapshot(), self._clock.now(), lasts):
            self._learn(Claimed(claim=claim))
        self.pulse.ready = True
        self._log("scheduler_started", nodes=len(self._cluster.nodes), pods=len(self._cluster.tasks))
        works = (self._loads, self._gpus, self._store, self.forecasting, self._recorded)
        beside = [asyncio.create_task(each.run()) for each in works]
        telling = asyncio.create_task(self._recorder.run())
        try:
            while True:
                await self._wait_for_news()
                await self._cycle()
        finally:
            for task in (*beside, *filter(None, [self._entering])):
                task.cancel()
            await self.dispatcher.stop()
            telling.cancel()  # it writes what is left, also what the dispatcher said last
            await self._store.flush()
            await asyncio.wait({telling})
            if self._extending.is_open:
                self._thread.submit(self._extending.close)  # after a plan that may still be asking
            self._thread.shutdown(wait=False)
            self._flight.close()

    async def idle_pulse(self) -> None:
        """A replica that waits to lead is alive too: it beats until its own loop does."""
        while not self.pulse.ready:
            self.pulse.beat()
            await self._clock.sleep(TICK_S)
        await asyncio.Event().wait()

    async def _enter(self, chosen: Policy) -> None:
        """Puts a policy in force once all that its plugins read has been listed, and what they remember has been loaded."""
        await self._requirements.meet(chosen)
        for metric in self._requirements.metrics(chosen):
            self.meters.add(metric)
        loaded = await self._store.load(self._requirements.slots(chosen))
        self._loaded |= loaded
        self._in_force = chosen
        self._wakeups.now()

    def _look_for_policy(self) -> None:
        """A file that was read anew is entered beside the work; until it is in force the former one is."""
        chosen = self._policy()
        if chosen is not self._in_force and (self._entering is None or self._entering.done()):
            self._entering = asyncio.create_task(self._enter(chosen))

    async def _wait_for_news(self) -> None:
        """Returns when there is something to plan for: news, the time at which the last cycle may change its mind, or the sweep."""
        while True:
            self._look_for_policy()
            due_s = TICK_S
            if self._next_change is not None:
                due_s = min(TICK_S, (self._next_change - self._clock.now()) / instant.SECOND)
            if await self._wakeups.wait(max(due_s, SOONEST_S)):
                break
            self.pulse.beat()
            is_due = self._next_change is not None and self._clock.now() >= self._next_change
            if is_due or self.dispatcher.has_unwritten or self._clock.monotonic() - self._planned_at >= SWEEP_S:
                return
        await self._clock.sleep(max(GATHER_S, self._pace.rest_s(self._clock.monotonic())))

    async def _cycle(self) -> None:
        self._wakeups.begin()
        self.pulse.beat()
        began = self._planned_at = self._clock.monotonic()
        with self._tracing.span("cycle", number=self.cycles) as span:
            snapshot = self._cluster.snapshot()
            opened_s = self._clock.monotonic() - began
            now = self._clock.now()
            decisions = await self._plan(snapshot, now)
            self.cycles += 1
            assert self._in_force is not None  # if it is another one by now, the next cycle is due in any case
            self._wakeups.expect(snapshot, decisions, self._in_force)
            self._tell_failures(decisions)
            self._tell(snapshot, decisions, now)
            self.dispatcher.carry_out(decisions)
            seconds = self._clock.monotonic() - began
            binds, evictions = sum(len(commit.binds) for commit in decisions.commits), len(decisions.evictions)
            span.note(nodes=len(snapshot.nodes.names), gangs=len(snapshot.gangs), binds=binds, evictions=evictions)
        self._observer.cycle(snapshot, decisions, now=now, seconds=seconds, opened_s=opened_s)
        self._pace.planned(began, self._clock.monotonic())
        self._count_dispatch()
        if binds or evictions:
            self._log("cycle", binds=binds, evictions=evictions, seconds=round(seconds, 4))

    async def _plan(self, snapshot: Snapshot, now: Instant) -> Decisions:
        """What one cycle decides, found in the worker thread."""
        chosen = self._in_force
        assert chosen is not None
        if self._loaded:
            self._memory = Memory({**self._loaded, **self._memory.values})
            self._loaded = {}
        ports = msgspec.structs.replace(
            self._ports,
            extender=self._flight.listening(self._extending.of(chosen)),
            loads=self._loads.current,
            resting=self.dispatcher.resting(),
            forecasts=self.forecasting.take_fresh(),
            run_times=self._recorded.current,
        )
        budget = units_for(snapshot)
        self._flight.begins(self._intake, Planned(self.cycles, now, chosen, self._memory, ports, budget))
        plan = functools.partial(
            cycle.plan,
            now=now,
            ports=ports,
            extra_plugins=self._extra_plugins,
            budget=budget,
            grace_s=self._grace_s,
        )
        self._planned_with = self._memory, msgspec.structs.replace(ports, measure=no_measure)
        in_context = contextvars.copy_context().run  # so that spans of the plan lie within the cycle's
        decisions = await asyncio.get_running_loop().run_in_executor(
            self._thread, in_context, plan, snapshot, chosen, self._memory
        )
        self._flight.ends(decisions, seconds=self._clock.monotonic() - self._planned_at)
        self._memory = decisions.memory
        self._store.offer(decisions.memory)
        for slot in decisions.refused_memory.keys() - self._oversized:
            self._store.set_aside(slot, decisions.refused_memory[slot])
        self._oversized = frozenset(decisions.refused_memory)
        self._next_change = now + TICK if decisions.unfinished else decisions.next_change
        return decisions

    def _world(self) -> World | None:
        """What forecasts are made from; None if nobody reads them, no gang waits, or the policy has an extender: it is not called for them."""
        chosen = self._in_force
        waits = any(gang.counts[Status.PENDING] or not gang.tasks for gang in self._cluster.snapshot().gangs.values())
        is_read = self._publish is not _publish_nothing
        if chosen is None or not is_read or not waits or chosen.option("extender") is not None:
            return None
        return self._world_at(self._clock.now(), chosen)

    def _world_at(self, now: Instant, policy: Policy) -> World:
        ports = msgspec.structs.replace(self._planned_with[1], forecasts={})
        return World(self._intake, policy, now, self._memory, ports, self._extra_plugins)

    def tell(self, publish: Callable[[Cycle], None]) -> None:
        """From now on, every cycle is published."""
        self._publish = publish

    def _tell(self, snapshot: Snapshot, decisions: Decisions, now: Instant) -> None:
        assert self._in_force is not None
        self._publish(
            Cycle(
                number=self.cycles,
                at=now,
                snapshot=snapshot,
                decisions=decisions,
                policy=self._in_force,
                refused=self._refused,
                resting={gang: each.why for gang, each in self.dispatcher.resting().items()},
                memory=self._planned_with[0],
                ports=self._planned_with[1],
                forecasts=self.forecasting.current,
                extra_plugins=self._extra_plugins,
                gpu_uses=self._gang_gpus.look(snapshot, now),
                world=self._world_at(now, self._in_force),
            )
        )

    def _tell_failures(self, decisions: Decisions) -> None:
        """A plugin that fails is counted with every cycle, and told of when it begins to fail or fails on something else."""
        failures = {(each.plugin, each.gang, each.error): each for each in decisions.failures}
        for failure in failures.values():
            self.meters.count("pumice_plugin_failures_total", plugin=failure.plugin)
        for key in failures.keys() - self._failures:
            failure = failures[key]
            self._log(
                "plugin_failed", plugin=failure.plugin, gang=failure.gang, error=failure.error, trace=failure.trace
            )
            without = f"gang {failure.gang}" if failure.gang else "it"
            text = f"plugin {failure.plugin} failed, and cycles are planned without {without}: {failure.error}"
            self._recorder.record(queues.ROOT, "Warning", "PluginFailed", text)
        self._failures = frozenset(failures)

    def policy_refused(self, why: str) -> None:
        """The policy file as it is now cannot be used, and the last good one stays in force; empty: it can be used again."""
        self._refused = why
        self.meters.set("pumice_policy_refused", bool(why))
        if why:
            self.meters.count("pumice_policy_refusals_total")
            self._recorder.record(
                queues.ROOT, "Warning", "PolicyRefused", f"the last good policy stays in force: {why}"
            )

    def _count_dispatch(self) -> None:
        tally = self.dispatcher.take_tally()
        self.meters.count("pumice_binds_total", tally.bound)
        self.meters.count("pumice_bind_failures_total", tally.failed)
        self.meters.count("pumice_plans_dropped_total", tally.dropped)

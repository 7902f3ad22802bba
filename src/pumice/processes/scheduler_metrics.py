"""Numbers about the scheduler's work, from what each cycle decided."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from pumice import __version__, instant
from pumice.api.scheduling import PodGroupPhase
from pumice.cluster import amounts
from pumice.scheduling.core import idle
from pumice.scheduling.core.codes import DEADLOCKS
from pumice.telemetry.traces import OFF, Tracing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pumice.cluster.amounts import Amounts
    from pumice.cluster.state import Snapshot
    from pumice.instant import Instant
    from pumice.scheduling.core.decisions import Decisions
    from pumice.telemetry.meters import Meters

_WAITING = frozenset({PodGroupPhase.PENDING.value, PodGroupPhase.INQUEUE.value, PodGroupPhase.UNKNOWN.value})
_MS = 1000.0
QUEUES_TOLD_MAX = 1_000  # histograms by queue; those of further queues are told together
OTHERS = "(others)"
_BY_QUEUE = ("pumice_gang_admit_seconds", "pumice_queue_position")  # histograms that go with their queue
_STARTS = tuple(f"volcano_e2e_job_scheduling_{what}" for what in ("duration", "start_time", "last_time"))


class Observer:
    """Feeds the meters and the traces. `measure` is the stopwatch that the engine is given."""

    def __init__(self, meters: Meters, prices: Mapping[str, float], tracing: Tracing = OFF) -> None:
        self._meters = meters
        self._tracing = tracing
        self._started: dict[str, tuple[tuple[str, ...], tuple[float, ...]]] = {}  # by the gang's key: what _STARTS tell
        self._told: set[str] = set()  # queues that have histograms
        self._in_line: dict[str, str] = {}  # gangs that wait, and their uids
        self._prices = prices  # dollars per hour for one unit: one card, one core, one GiB
        meters.set("pumice_build_info", 1, version=__version__)

    @contextlib.contextmanager
    def measure(self, what: str, name: str, /) -> Iterator[None]:
        began = time.perf_counter()
        try:
            with self._tracing.span(f"{what} {name}"):
                yield
        finally:
            took_ms = (time.perf_counter() - began) * _MS
            if what == "action":
                self._meters.observe("volcano_action_scheduling_latency_milliseconds", took_ms, action=name)
            elif what == "plugin":
                self._meters.observe(
                    "volcano_plugin_scheduling_latency_milliseconds", took_ms, plugin=name, OnSession="OnSessionOpen"
                )

    def cycle(self, snapshot: Snapshot, decisions: Decisions, *, now: Instant, seconds: float, opened_s: float) -> None:
        meters = self._meters
        meters.count("pumice_cycles_total")
        meters.observe("pumice_cycle_seconds", seconds)
        meters.observe("volcano_e2e_scheduling_latency_milliseconds", seconds * _MS)
        meters.observe("volcano_open_session_duration_milliseconds", opened_s * _MS)
        self._gangs(snapshot, decisions, now)
        self._evictions(decisions)
        self._queues(snapshot, decisions)
        self._bill(snapshot, decisions)
        for name, series in decisions.metrics.items():
            meters.replace(name, series.items())

    def _gangs(self, snapshot: Snapshot, decisions: Decisions, now: Instant) -> None:
        meters = self._meters
        for commit in decisions.commits:
            spec = snapshot.gangs[commit.gang].spec
            meters.count("pumice_gangs_committed_total")
            meters.count("volcano_schedule_attempts_total", result="scheduled")
            if commit.mends:
                meters.count("pumice_gangs_mended_total")
            if spec.created:
                waited_s = (now - instant.parse_instant(spec.created)) / instant.SECOND
                meters.observe("pumice_gang_admit_seconds", waited_s, queue=self._label(spec.queue))
                meters.observe("volcano_e2e_job_scheduling_latency_milliseconds", waited_s * _MS)
                labels = (spec.name, spec.queue, spec.namespace)
                self._started[commit.gang] = (
                    labels,
                    (waited_s * _MS, now / instant.SECOND - waited_s, now / instant.SECOND),
                )
        self._tell_starts(snapshot, decisions)
        self._tell_lines(snapshot, decisions, now)
        meters.count("pumice_gangs_released_total", len(decisions.releases))
        waiting = {key: report for key, report in decisions.gangs.items() if report.phase in _WAITING}
        by_queue: dict[tuple[str, ...], float] = {}
        lacking: dict[tuple[str, ...], float] = {}
        for key, report in waiting.items():
            spec = snapshot.gangs[key].spec
            by_queue[spec.queue, report.phase] = by_queue.get((spec.queue, report.phase), 0) + 1
            lacking[spec.name,] = float(len(report.pods))
        meters.replace("pumice_waiting_gangs", by_queue.items())
        meters.replace("pumice_deadlocked_gangs", _deadlocked(decisions).items())
        meters.replace("volcano_unschedule_task_count", lacking.items())
        meters.set("volcano_unschedule_job_count", len(waiting))
        shares = {
            (snapshot.gangs[key].spec.namespace, snapshot.gangs[key].spec.name): share
            for key, share in decisions.shares.items()
        }
        meters.replace("volcano_job_share", shares.items())

    def _tell_starts(self, snapshot: Snapshot, decisions: Decisions) -> None:
        """Of the gangs that there are: a series of each that ever was would grow without end."""
        gone = self._started.keys() - snapshot.gangs.keys()
        for key in gone:
            del self._started[key]
        if gone or decisions.commits:
            for number, name in enumerate(_STARTS):
                self._meters.replace(name, ((labels, values[number]) for labels, values in self._started.values()))

    def _label(self, queue: str) -> str:
        if queue not in self._told and len(self._told) >= QUEUES_TOLD_MAX:
            return OTHERS
        self._told.add(queue)
        return queue

    def _tell_lines(self, snapshot: Snapshot, decisions: Decisions, now: Instant) -> None:
        """Where gangs begin to wait, and for how long the oldest that has not started has; one that waits again begins anew."""
        waiting: dict[str, str] = {}
        longest: dict[tuple[str, ...], float] = {}
        for key, report in decisions.gangs.items():
            if not report.position:
                continue
            spec = snapshot.gangs[key].spec
            waiting[key] = spec.uid
            if self._in_line.get(key) != spec.uid:
                self._meters.observe("pumice_queue_position", report.position, queue=self._label(spec.queue))
            if spec.created and report.phase in _WAITING:
                waited_s = (now - instant.parse_instant(spec.created)) / instant.SECOND
                longest[spec.queue,] = max(longest.get((spec.queue,), 0.0), waited_s)
        self._in_line = waiting
        self._meters.replace("pumice_queue_longest_wait_seconds", longest.items())

    def _evictions(self, decisions: Decisions) -> None:
        meters = self._meters
        meters.count("pumice_eviction_notices_total", len(decisions.notices))
        meters.count("pumice_eviction_rings_total", len(decisions.rings))
        if not decisions.evictions:
            return
        meters.set("volcano_pod_preemption_victims", len(decisions.evictions))
        meters.count("volcano_total_preemption_attempts")
        plans = {(eviction.rule, eviction.claimant) for eviction in decisions.evictions}
        for action, _ in plans:
            meters.count("volcano_eviction_transactions_total", action=action)
        for eviction in decisions.evictions:
            meters.count("pumice_evictions_total", action=eviction.rule)

    def _queues(self, snapshot: Snapshot, decisions: Decisions) -> None:
        meters = self._meters
        tables: dict[str, dict[str, Amounts]] = {
            "allocated": {name: each.allocated for name, each in decisions.figures.items()},
            "request": {name: each.request for name, each in decisions.figures.items()},
            "deserved": {name: each.deserved for name, each in decisions.figures.items()},
            "inqueue": {name: each.admitted for name, each in decisions.figures.items()},
            "real_capacity": {name: each.ceiling for name, each in decisions.figures.items()},
            "capacity": {name: queue.capability for name, queue in snapshot.queues.items()},
        }
        for what, table in tables.items():
            self._amounts(f"volcano_queue_{what}", table)
        total = {name: value for name, value in snapshot.nodes.total().items() if name != amounts.PODS}
        used = {
            (queue, name): amounts.units(name, held.get(name, 0))
            for queue, held in decisions.queues.items()
            for name in total
        }
        shares = [((queue,), amounts.dominant_share(held, total)) for queue, held in decisions.queues.items()]
        meters.replace("pumice_queue_used", used.items())
        meters.replace("pumice_queue_share", shares)
        for gone in self._told - snapshot.queues.keys():
            self._told.discard(gone)
            for name in _BY_QUEUE:
                meters.forget(name, queue=gone)
        figures = decisions.figures.items()
        meters.replace("volcano_queue_share", [((name,), each.share) for name, each in figures])
        meters.replace("volcano_queue_overused", [((name,), float(each.overused)) for name, each in figures])
        meters.replace("volcano_queue_weight", [((name,), queue.weight) for name, queue in snapshot.queues.items()])

    def _amounts(self, prefix: str, table: Mapping[str, Amounts]) -> None:
        cpu, memory, scalars = {}, {}, {}
        for queue, held in table.items():
            cpu[queue,] = held.get(amounts.CPU, 0)
            memory[queue,] = held.get(amounts.MEMORY, 0)
            for name, value in held.items():
                if name not in {amounts.CPU, amounts.MEMORY, amounts.PODS} and value != amounts.UNLIMITED:
                    scalars[queue, name] = value
        self._meters.replace(f"{prefix}_milli_cpu", cpu.items())
        self._meters.replace(f"{prefix}_memory_bytes", memory.items())
        self._meters.replace(f"{prefix}_scalar_resources", scalars.items())

    def _bill(self, snapshot: Snapshot, decisions: Decisions) -> None:
        """What stands idle, in units that people count in and in dollars where a price is known."""
        meters = self._meters
        found = idle.idle(snapshot.nodes)
        meters.set("pumice_nodes", len(snapshot.nodes))
        for metric in ("capacity", "used", "idle", "fragmented"):
            meters.replace(
                f"pumice_{metric}",
                [((name,), amounts.units(name, getattr(each, metric))) for name, each in found.items()],
            )
        priced = {name: each for name, each in found.items() if name in self._prices}
        for metric in ("idle", "fragmented"):
            costs = {(name,): self._dollars(name, getattr(each, metric)) for name, each in priced.items()}
            meters.replace(f"pumice_{metric}_dollars_per_hour", costs.items())
        stranded = decisions.stranded
        meters.replace("pumice_unusable", [((each.resource, str(each.each)), each.unusable) for each in stranded])
        unusable = {
            (each.resource, str(each.each)): self._dollars(each.resource, each.unusable * amounts.MILLI)
            for each in stranded
            if each.resource in self._prices
        }
        meters.replace("pumice_unusable_dollars_per_hour", unusable.items())
        held = {
            (queue, name): self._dollars(name, value)
            for queue, amounts_held in decisions.queues.items()
            for name, value in amounts_held.items()
            if name in self._prices
        }
        meters.replace("pumice_queue_dollars_per_hour", held.items())

    def _dollars(self, name: str, value: float) -> float:
        units = value / 2**30 if amounts.in_bytes(name) else value / amounts.MILLI
        return units * self._prices[name]


def _deadlocked(decisions: Decisions) -> dict[tuple[str, ...], float]:
    found: dict[tuple[str, ...], float] = {(code.value,): 0.0 for code in DEADLOCKS}
    for report in decisions.gangs.values():
        for code in DEADLOCKS & {reason.code for reason in report.reasons}:
            found[code.value,] += 1
    return found

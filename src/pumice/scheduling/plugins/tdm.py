"""tdm: time division. Nodes of a revocable zone serve preemptable pods while their window is open, and are emptied after it.

    tdm.revocable-zone.night: 22:00-06:00        nodes labelled volcano.sh/revocable-zone=night
    tdm.time-zone: Europe/Berlin                 whose clock that is

A window whose end is not after its start runs over midnight; equal ends mean all day.
"""

from __future__ import annotations

import datetime as dt
import re
import zoneinfo
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar

import msgspec
import numpy as np

from pumice.api import names
from pumice.cluster.tasks import Status, preemptable
from pumice.instant import MINUTE, SECOND
from pumice.scheduling.core import arguments
from pumice.scheduling.core.codes import Code, Facts
from pumice.scheduling.core.memory import Slot, past
from pumice.scheduling.core.plugin import Plugin
from pumice.scheduling.core.points import Vote
from pumice.scheduling.core.shapes import Reads
from pumice.scheduling.core.verdict import Cure, Denial
from pumice.scheduling.evicting import disruption

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pumice.cluster.columns import Mask
    from pumice.cluster.tasks import Task
    from pumice.instant import Instant
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.points import Indexes, Scores
    from pumice.scheduling.core.policy import PluginOption
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape

ZONE_PREFIX = "tdm.revocable-zone."
EVICT_PERIOD = "tdm.evict.period"
REVOCABLE_SCORE = 100.0
_DAY_MINUTES = 24 * 60
_DAY_S = _DAY_MINUTES * 60
_QUARTER = 15 * MINUTE
_WINDOW = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])-([01]?[0-9]|2[0-3]):([0-5][0-9])")

Window = tuple[int, int]  # minutes of the day


class Args(arguments.Args, frozen=True, kw_only=True):
    """Zones by name, and whose clock their windows follow: never the machine's, so that two schedulers agree."""

    PREFIXES: ClassVar[Mapping[str, str]] = {ZONE_PREFIX: "window of one zone, `HH:MM-HH:MM`"}

    evict_period: Annotated[
        str, msgspec.Meta(description="nodes whose window is over are emptied at most once in this time")
    ] = msgspec.field(name=EVICT_PERIOD, default="1m")
    time_zone: Annotated[str, msgspec.Meta(description="IANA time zone of all windows")] = msgspec.field(
        name="tdm.time-zone", default="UTC"
    )

    def __post_init__(self) -> None:
        arguments.duration(EVICT_PERIOD, self.evict_period)
        self.windows()
        self.clock()

    def windows(self) -> dict[str, Window]:
        return {key.removeprefix(ZONE_PREFIX): _window(key, str(text)) for key, text in self.named.items()}

    def clock(self) -> dt.tzinfo:
        if self.time_zone == "UTC":
            return dt.UTC
        try:
            return zoneinfo.ZoneInfo(self.time_zone)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ValueError(
                f"tdm.time-zone: no time zone {self.time_zone!r} here; write an IANA name such as Europe/Berlin"
            ) from error


def _window(key: str, text: str) -> Window:
    match = _WINDOW.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{key}: {text!r} is no window of the day; write for example 22:00-06:00")
    hours, minutes, end_hours, end_minutes = map(int, match.groups())
    return hours * 60 + minutes, end_hours * 60 + end_minutes


def minute_of_day(now: Instant, clock: dt.tzinfo) -> int:
    local = dt.datetime.fromtimestamp(now // SECOND, clock)
    return local.hour * 60 + local.minute


def is_within(minute: int, window: Window) -> bool:
    start, end = window
    return start <= minute < end if start < end else minute >= start or minute < end


class TdmMemory(msgspec.Struct, frozen=True):
    """When nodes were last emptied."""

    last_eviction: int | None = None


MEMORY = Slot("tdm", TdmMemory, persistent=True)


def next_edge(windows: Iterable[Window], now: Instant, clock: dt.tzinfo) -> Instant | None:
    """When a window opens or closes next; around a change of the clocks perhaps too early, never too late."""
    local = dt.datetime.fromtimestamp(now // SECOND, clock)
    edges = {minute for window in windows for minute in window}
    if not edges:
        return None
    if local.utcoffset() != dt.datetime.fromtimestamp(now // SECOND + _DAY_S, clock).utcoffset():
        return (now // _QUARTER + 1) * _QUARTER  # clocks change at a quarter of an hour, wherever they do
    minute = minute_of_day(now, clock)
    ahead = min((edge - minute - 1) % _DAY_MINUTES + 1 for edge in edges)
    return now - now % MINUTE + ahead * MINUTE


class Tdm(Plugin):
    """Zones open and close; ordinary nodes are none of its business."""

    args_type = Args
    memory = MEMORY

    def __init__(self, args: Args, option: PluginOption) -> None:
        del option
        self.chosen: frozenset[str] = frozenset()
        self.windows = args.windows()
        self.clock = args.clock()
        self.period = arguments.duration(EVICT_PERIOD, args.evict_period)

    def open(self, session: Session) -> None:
        self.session = session
        minute = minute_of_day(session.now, self.clock)
        self.active = {zone for zone, window in self.windows.items() if is_within(minute, window)}
        self.zones = [node.metadata.labels.get(names.REVOCABLE_ZONE, "") for node in session.room.table.objects]
        self.labels = np.array(self.zones, dtype=np.str_)
        self.revocable: Mask = self.labels != ""
        self.closed = self._denials()
        on = session.on
        on.declare(Reads.REVOCABLE_ZONE)
        on.filter(self.filter)
        on.fixed_score(self.score)
        on.preemptable(self.preemptable)
        on.shuffled(self.overstayed)
        on.gang_order(lambda gang: float(gang.spec.preemptable))
        on.pipelined(lambda gang: Vote.PERMIT if gang.is_pipelined else Vote.REJECT)
        on.starving(_is_starving)

    def _denials(self) -> list[Denial]:
        """Nodes whose zone is not open now, zone by zone: for all pods."""
        found = []
        for zone in sorted(set(self.zones) - self.active - {""}):
            if zone in self.windows:
                start, end = self.windows[zone]
                span = f"{start // 60:02}:{start % 60:02}-{end // 60:02}:{end % 60:02}"
                code, facts, cure = Code.ZONE_CLOSED, Facts(zone=zone, window=span), Cure.WAITING
            else:
                code, facts, cure = Code.ZONE_UNKNOWN, Facts(zone=zone), Cure.CHANGE
            found.append(Denial(code, "tdm", self.labels == zone, cure, facts))
        return found

    def filter(self, shape: Shape) -> Sequence[Denial]:
        if shape.example.revocable_zone:
            return self.closed
        reserved = self.revocable.copy()
        for denial in self.closed:
            reserved &= ~denial.nodes
        return [*self.closed, Denial(Code.ZONE_REVOCABLE, "tdm", reserved)]

    def score(self, shape: Shape, nodes: Indexes) -> Scores | None:
        """Preemptable pods go where only they may go; filters have left none but open zones."""
        if not shape.example.revocable_zone:
            return None
        return np.where(self.revocable[nodes], REVOCABLE_SCORE, 0.0)

    def preemptable(self, claimant: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        """A pod that says it may be preempted itself preempts no other; the others take from ordinary nodes, within budgets."""
        if _says_preemptable(claimant) or claimant.revocable_zone:
            return []
        return disruption.within_budgets(
            self.session,
            (task for task in candidates if self._is_fair_game(task) and not self._zone(task)),
        )

    def overstayed(self, running: Sequence[Task]) -> Sequence[Task]:
        """Preemptable pods on nodes whose window is over, within budgets, now and then."""
        pause_ends = self._pause_ends()
        if pause_ends is not None and self.session.now < pause_ends:
            return []
        chosen = disruption.within_budgets(self.session, (task for task in running if self._overstays(task)))
        self.chosen = frozenset(task.uid for task in chosen)
        return chosen

    def _pause_ends(self) -> Instant | None:
        last = past(self.session.memory.of(MEMORY).last_eviction, self.session.now)
        return None if last is None else last + self.period

    def _overstays(self, task: Task) -> bool:
        return self._is_fair_game(task) and self._zone(task) in self.windows.keys() - self.active

    def learn(self, session: Session) -> TdmMemory | None:
        return TdmMemory(session.now) if self.chosen & session.evicted else None

    def next_change(self, session: Session) -> Instant | None:
        """The next edge of a window, or the end of the pause between evictions where there are more to come."""
        running = (task for gang in session.gangs.values() for task in gang.tasks_in(Status.RUNNING))
        pause_ends = session.now + self.period if self.chosen & session.evicted else self._pause_ends()
        times = [next_edge(self.windows.values(), session.now, self.clock)]
        if pause_ends is not None and pause_ends > session.now and any(self._overstays(task) for task in running):
            times.append(pause_ends)
        return min((when for when in times if when is not None), default=None)

    def _is_fair_game(self, task: Task) -> bool:
        gang = self.session.gangs.get(task.gang)
        return task.preemptable and gang is not None and gang.status(task) is Status.RUNNING

    def _zone(self, task: Task) -> str:
        index = self.session.room.table.index.get(task.node)
        return self.zones[index] if index is not None else ""


def _says_preemptable(task: Task) -> bool:
    """Pods may be preempted unless they say otherwise; only one that says so itself gives up preempting others for it."""
    meta = task.pod.metadata
    return preemptable(meta.annotations, meta.labels, default=False)


def _is_starving(gang: GangState) -> bool:
    return not gang.spec.preemptable and gang.tally[Status.PENDING] > 0

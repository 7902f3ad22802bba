"""Which gangs have lost members lately, and for whom: what budgets and cool-downs are counted by, and how it shows that gangs take turns.

It is plain data of one hour, and is kept over a restart. A gang is known by its name: a restarted Job's next group has another uid.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import msgspec

from pumice import instant
from pumice.scheduling.core.memory import Slot, past
from pumice.scheduling.core.statement import Eviction

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pumice.instant import Instant
    from pumice.scheduling.core.session import Session

WINDOW = instant.HOUR
ENTRIES_MAX = 1_500  # of the last hour, about 150 bytes each; the oldest are dropped beyond it
RESTED_MAX = 2_500  # gangs that were evicted and are still there, about 80 bytes each


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """A gang lost members to another one (or, claimant empty, to none)."""

    at: int
    queue: str  # the victim's
    victim: str
    claimant: str


class Evictions(msgspec.Struct, frozen=True):
    """Those of the last hour, oldest first, and for each gang that is still there when it last lost a member."""

    entries: tuple[Entry, ...] = ()
    last: dict[str, int] = {}


SLOT = Slot("evictions", Evictions, persistent=True)


def recent(session: Session) -> list[Entry]:
    """The entries of the last hour before this cycle."""
    return [entry for entry in session.memory.of(SLOT).entries if _is_recent(entry, session.now)]


def _is_recent(entry: Entry, now: Instant) -> bool:
    at = past(entry.at, now)
    return at is not None and now < at + WINDOW


def of_this_cycle(session: Session) -> list[Entry]:
    """What this cycle has decided so far: each victim's gang once for each claimant."""
    found = {
        (operation.gang.key, claimant.key if claimant is not None else ""): Entry(
            session.now, operation.gang.queue, operation.gang.key, claimant.key if claimant is not None else ""
        )
        for operation, claimant in session.accepted
        if isinstance(operation, Eviction) and operation.gang is not claimant
    }
    return list(found.values())


def next_value(session: Session) -> Evictions:
    fresh = of_this_cycle(session)
    known = session.memory.of(SLOT)
    entries = tuple([*recent(session), *fresh][-ENTRIES_MAX:])
    last = {**known.last, **{entry.victim: entry.at for entry in fresh}}
    # A Job that restarts has no group for a moment.
    kept = sorted((at, gang) for gang, at in last.items() if gang in session.gangs or session.now - at < WINDOW)
    return Evictions(entries, {gang: at for at, gang in sorted(kept[-RESTED_MAX:], key=lambda each: each[1])})


def rings_of(session: Session) -> tuple[tuple[str, ...], ...]:
    """Those that this cycle's evictions close."""
    fresh = of_this_cycle(session)
    return tuple(rings(recent(session), fresh)) if fresh else ()


def rings(earlier: Iterable[Entry], fresh: Iterable[Entry]) -> list[tuple[str, ...]]:
    """For each fresh eviction that gives somebody its room back: the gangs that have taken turns, from the victim on.

    An eviction for a gang that, or for whose evictor and so on, the victim itself was evicted within the hour closes a ring.
    """
    took: dict[str, set[str]] = {}  # victim -> its claimants
    for entry in earlier:
        if entry.claimant:
            took.setdefault(entry.victim, set()).add(entry.claimant)
    found: dict[frozenset[str], tuple[str, ...]] = {}
    for entry in fresh:
        path = _path(took, entry.claimant, entry.victim) if entry.claimant else None
        if path is not None:
            found.setdefault(frozenset(path), (entry.victim, *path[:-1]))
        if entry.claimant:
            took.setdefault(entry.victim, set()).add(entry.claimant)
    return list(found.values())


def _path(took: dict[str, set[str]], start: str, end: str) -> list[str] | None:
    """The shortest way from a gang over those that took its room; None where it does not lead to `end`."""
    before: dict[str, str] = {start: ""}
    line = deque([start])
    while line:
        gang = line.popleft()
        if gang == end:
            way = [gang]
            while before[way[-1]]:
                way.append(before[way[-1]])
            return way[::-1]
        for other in sorted(took.get(gang, ())):
            if other not in before:
                before[other] = gang
                line.append(other)
    return None

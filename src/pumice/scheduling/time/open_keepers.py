"""Gangs that were admitted in vain, in a session that stays open (`evicting/deadlocks.py`): they keep out others for whom there is room, and give their
admission back after a while, one in an instant.
"""

from __future__ import annotations

import bisect
import itertools
from typing import TYPE_CHECKING

import numpy as np

from pumice import instant
from pumice.scheduling.evicting import deadlocks
from pumice.scheduling.time.crowd import CREATED, IS_ADMITTED, PAUSED_UNTIL, uid_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pumice.cluster.amounts import Amounts
    from pumice.instant import Instant
    from pumice.scheduling.core.memory import Memory
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.time.crowd import Crowd, Waiting


class Keepers:
    """Since when they keep somebody out, and how long those that gave their admission back stay out themselves."""

    def __init__(self, session: Session, crowd: Crowd) -> None:
        self._session = session
        self._crowd = crowd
        self._grace = session.policy.deadlock_grace
        self._since: dict[str, Instant] = {}  # by gang
        self._pauses: dict[str, deadlocks.Pause] = {}
        self._outside: list[tuple[str, Waiting]] = []  # who is not admitted, in the order in which sessions have gangs
        self._changes: list[Instant] = []

    def comes(self, waiting: Waiting) -> None:
        bisect.insort(self._outside, (waiting.ask.gang, waiting), key=lambda each: each[0])

    def is_admitted(self, waiting: Waiting) -> None:
        del self._outside[bisect.bisect_left(self._outside, waiting.ask.gang, key=lambda each: each[0])]

    def look(self, in_vain: Sequence[int], now: Instant) -> None:
        """At the end of an instant, at those rows that have been admitted, and have nothing to hope for."""
        self._pauses = {gang: pause for gang, pause in self._pauses.items() if pause.until > now}
        since, self._since, self._changes = self._since, {}, []
        kept_out = self._kept_out() if in_vain else []
        if kept_out:
            self._look_at(self._last_first(in_vain), kept_out, since, now)
        self._changes += [pause.until for pause in self._pauses.values()]

    def next_changes(self) -> list[Instant]:
        return list(self._changes)

    def recall(self, memory: Memory) -> None:
        """What is remembered of the gangs that wait."""
        known = memory.of(deadlocks.SLOT)
        for row, waiting in enumerate(self._crowd.gangs if known.since or known.pauses else ()):
            uid = uid_of(waiting)
            if uid in known.since:
                self._since[waiting.ask.gang] = known.since[uid]
            if uid in known.pauses:
                self._pauses[waiting.ask.gang] = known.pauses[uid]
                self._crowd[PAUSED_UNTIL][row] = known.pauses[uid].until

    def learned(self) -> deadlocks.Known:
        told = self._since.keys() | self._pauses.keys()
        uids = {each.ask.gang: uid_of(each) for each in self._crowd.gangs if each.ask.gang in told}
        since = {uids[gang]: began for gang, began in self._since.items() if gang in uids}
        pauses = {uids[gang]: pause for gang, pause in self._pauses.items() if gang in uids}
        return deadlocks.Known(dict(sorted(since.items())), dict(sorted(pauses.items())))

    def _look_at(self, rows: Sequence[int], kept_out: Sequence[str], since: dict[str, Instant], now: Instant) -> None:
        crowd = self._crowd
        for number, row in enumerate(rows):
            waiting, gang = crowd.gangs[row], crowd.gangs[row].ask.gang
            began = since.get(gang, now)
            if began + self._grace > now:
                self._since[gang] = began
                self._changes.append(began + self._grace)
                continue
            names, seconds = tuple(sorted(kept_out)[: deadlocks.NAMED_MAX]), (now - began) // instant.SECOND
            self._pauses[gang] = deadlocks.Pause(now + self._grace, names, seconds)
            crowd[IS_ADMITTED][row], crowd[PAUSED_UNTIL][row] = False, now + self._grace
            self.comes(waiting)
            others = [crowd.gangs[other].ask.gang for other in rows[number + 1 :]]
            self._since |= {other: since.get(other, now) for other in others}
            self._changes.append(now + deadlocks.GIVEN_BACK_BY)
            return

    def _last_first(self, rows: Sequence[int]) -> list[int]:
        crowd, standing = self._crowd, self._crowd.standing
        ordered = sorted(rows, key=lambda row: crowd.gangs[row].ask.gang)
        ordered.sort(key=lambda row: (standing[row], crowd[CREATED][row]), reverse=True)
        return ordered

    def _kept_out(self) -> list[str]:
        """Who is kept out by what others were promised, and for whom there is room; only so many are looked at."""
        idle = np.clip(self._session.room.idle, 0, None).sum(axis=1).tolist()
        room = dict(zip(self._session.room.table.axis.names, idle, strict=True))
        looked_at = itertools.islice(self._asking(), deadlocks.KEPT_OUT_MAX)
        return [waiting.ask.gang for waiting in looked_at if _has_room(waiting, room)]

    def _asking(self) -> Iterator[Waiting]:
        return (waiting for gang, waiting in self._outside if gang not in self._pauses)


def _has_room(waiting: Waiting, room: Amounts) -> bool:
    return all(room.get(name, 0) >= value * waiting.ask.pods for name, value in waiting.kind.minimum.items())

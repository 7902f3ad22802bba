"""Who is admitted in a session that stays open: action `enqueue`, by numbers.

What is promised only grows within an instant, so that a size which is refused stays refused. Those that may be admitted are looked at alone: of hundreds
that wait, at most instants there is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pumice.cluster import amounts
from pumice.scheduling.time.crowd import (
    CREATED,
    IS_ADMITTED,
    IS_TOO_LARGE,
    LINE,
    NOBODY,
    PAUSED_UNTIL,
    PODS,
    SORT,
    amounts_of,
)
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pumice.cluster.amounts import MutableAmounts
    from pumice.cluster.columns import Mask
    from pumice.instant import Duration, Instant
    from pumice.scheduling.core.plugin import AdmittingBooks
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.time.crowd import Crowd


class Insistence(Value, eq=False):
    """Of a plugin that has one gang admitted at an instant although others refuse it: one that has waited so long, and may be the next."""

    patience: Duration
    may_be_next: Callable[[], Mask]  # by rows


class Admission:
    """All of these have to let a gang in; without any, all are admitted at once."""

    def __init__(
        self, session: Session, crowd: Crowd, voters: Sequence[AdmittingBooks], insistence: Insistence | None
    ) -> None:
        self._session = session
        self._crowd = crowd
        self._voters = voters
        self._insistence = insistence

    def let_in(self, now: Instant, *, spared: int = NOBODY) -> Sequence[int]:
        """Rows of those that are admitted now. `spared`: room for that one is seen to, and need not be kept for it."""
        crowd = self._crowd
        asking = (crowd[IS_ADMITTED] == 0) & (crowd[PAUSED_UNTIL] <= now)
        if not asking.any():
            return ()
        if self._voters:
            return self._in_turn(asking, self._promised(spared), now)
        rows: list[int] = np.flatnonzero(asking).tolist()
        for row in rows:
            self._admit(row)
        return rows

    def _in_turn(self, asking: Mask, promised: MutableAmounts, now: Instant) -> list[int]:
        crowd, used, admitted, insists = self._crowd, self._used(), list[int](), self._insistence is not None
        while True:
            fitting = asking & (crowd[PODS] <= self._most(used, promised)[crowd[SORT]])
            row = crowd.first(fitting | self._patient(asking, now) if insists else fitting)
            if row == NOBODY:
                return admitted
            asking &= ~crowd.before(row)  # they have been refused
            asking[row] = False
            insists = insists and bool(fitting[row])
            admitted.append(row)
            amounts.add(promised, self._admit(row))

    def _admit(self, row: int) -> amounts.Amounts:
        crowd = self._crowd
        minimum = crowd.gangs[row].holder.minimum
        crowd[IS_ADMITTED][row] = True
        crowd.lines.admitted(int(crowd[LINE][row]), minimum)
        return minimum

    def _promised(self, spared: int) -> MutableAmounts:
        """The minimums of all that are admitted and wait."""
        crowd, promised = self._crowd, dict[str, float]()
        waiting = crowd[IS_ADMITTED] > 0
        if spared != NOBODY:
            waiting[spared] = False
        if waiting.any():
            for kind, pods in zip(crowd.sorts, crowd.by_sort(waiting), strict=True):
                amounts.add(promised, amounts_of(kind.minimum, pods))
        return promised

    def _used(self) -> MutableAmounts:
        rows, used = self._session.room.table.axis.rows, self._session.room.used.sum(axis=1).tolist()
        return {name: used[rows[name]] for name in self._session.total if name in rows}

    def _most(self, used: MutableAmounts, promised: MutableAmounts) -> Mask:
        """How many pods a gang of each sort may have to be admitted next."""
        found = [
            min([each.admits(kind.minimum, used, promised) for each in self._voters]) for kind in self._crowd.sorts
        ]
        return np.array(found, dtype=np.int64)

    def _patient(self, asking: Mask, now: Instant) -> Mask:
        """Those that have waited long enough, that the empty cluster could hold, and that may be next."""
        insistence, crowd = self._insistence, self._crowd
        assert insistence is not None
        found: Mask = asking & (crowd[CREATED] <= now - insistence.patience) & (crowd[IS_TOO_LARGE] == 0)
        return found & insistence.may_be_next() if found.any() else found

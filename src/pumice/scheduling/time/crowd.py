"""Gangs that wait beside a session that stays open, as columns: hundreds may, and most instants are about one or two of them.

A row for each, the first in line first. All of them are equals that start whole: which is whose turn, and who is admitted, is asked of rows.
"""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING

import numpy as np

from pumice import instant
from pumice.api.pods import Pod
from pumice.api.scheduling import PodGroup
from pumice.cluster import amounts, gangs
from pumice.cluster.tasks import task_of
from pumice.scheduling.core.gangstate import GangState
from pumice.scheduling.placing import feasibility
from pumice.scheduling.time.later import ROOM_ONLY
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from pumice.cluster.amounts import Amounts
    from pumice.cluster.columns import Column, Mask
    from pumice.cluster.gangs import GangSpec
    from pumice.scheduling.core.plugin import Holder, RankingBooks
    from pumice.scheduling.core.points import Scores
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape
    from pumice.scheduling.time.backlog import Ask, Objects

Turn = tuple[tuple[str, str], tuple[int, str]]  # the rank of the queue, and the place in it
ROWS_LEAST = 64
NOBODY = -1  # in place of a row
PODS, SORT, LINE, CREATED, LENGTH, IS_ADMITTED, PAUSED_UNTIL, IS_TOO_LARGE, FITS_NOWHERE = range(9)
_FIELDS = 9


class Kind(Value, eq=False):
    """What gangs of one kind have in common: the shape of their pods, and what the group of the first of them says."""

    shape: Shape
    spec: GangSpec
    minimum: Amounts  # for each pod
    is_known: bool  # whether nodes know all that they ask for, and nothing speaks against them
    is_plain: bool  # whether nothing but room, and what is fixed, decides where they go, and a minimum is written


class Standing(Value):
    """A gang that waits as a session opens, or is closed."""

    ask: Ask
    objects: Objects
    is_admitted: bool


class Waiting(Value, eq=False):
    """A gang that has come and not started."""

    turn: Turn
    ask: Ask
    objects: Objects
    kind: Kind
    holder: Holder


class Crowd:
    """Those that wait."""

    def __init__(self, session: Session, lines: RankingBooks) -> None:
        self.session = session
        self.lines = lines
        self.gangs: list[Waiting] = []
        self.sorts: list[Kind] = []  # examples of gangs that differ in nothing but size, owner and age
        self._sorts: dict[Hashable, int] = {}
        self._rows = np.zeros((_FIELDS, ROWS_LEAST), dtype=np.int64)

    def __len__(self) -> int:
        return len(self.gangs)

    def __getitem__(self, field: int) -> Column:
        """A column as it is kept: to set values in it changes them."""
        column: Column = self._rows[field, : len(self.gangs)]
        return column

    # ------------------------------------------------------------------------------------------------- turns

    @property
    def standing(self) -> Scores:
        """Of the line of each."""
        standing: Scores = self.lines.standing[self[LINE]]
        return standing

    def first(self, rows: Mask) -> int:
        """Of those rows the one whose turn is first."""
        found = np.flatnonzero(rows)
        if len(found) < 2:
            return int(found[0]) if len(found) else NOBODY
        return int(found[np.argmin(self.lines.standing[self[LINE][found]])])

    def before(self, row: int) -> Mask:
        """Those whose turn is before that of a row."""
        standing = self.standing
        found: Mask = standing < standing[row]
        found[:row] |= standing[:row] == standing[row]
        return found

    # ------------------------------------------------------------------------------------------------- coming and going

    def add(self, waiting: Waiting) -> None:
        row, count = self.row_of(waiting.turn), len(self.gangs)
        if count == self._rows.shape[1]:
            self._rows = np.pad(self._rows, ((0, 0), (0, count)))
        if row < count:
            self._rows[:, row + 1 : count + 1] = self._rows[:, row:count]
        self.gangs.insert(row, waiting)
        self._rows[:, row] = self._row(waiting)

    def remove(self, row: int) -> None:
        count = len(self.gangs)
        self._rows[:, row : count - 1] = self._rows[:, row + 1 : count]
        del self.gangs[row]

    def row_of(self, turn: Turn) -> int:
        """Where a gang with that turn stands, or would."""
        if not self.gangs or self.gangs[-1].turn < turn:  # most come in the order of their turns
            return len(self.gangs)
        return bisect.bisect_left(self.gangs, turn, key=lambda each: each.turn)

    def _row(self, waiting: Waiting) -> tuple[int, ...]:
        ask, kind, minimum = waiting.ask, waiting.kind, waiting.holder.minimum
        line, created = self.lines.line_of(waiting.holder), ask.place[0] * instant.SECOND
        is_too_large = bool(amounts.beyond(minimum, self.session.total, asked=minimum))
        fits_nowhere = not kind.is_known or feasibility.capacity_when_empty(self.session, kind.shape) < ask.pods
        return ask.pods, self._sort(kind), line, created, ask.estimate, False, 0, is_too_large, fits_nowhere

    def _sort(self, kind: Kind) -> int:
        sort = kind.shape, kind.is_known, *sorted(kind.minimum.items())
        number = self._sorts.setdefault(sort, len(self._sorts))
        if number == len(self.sorts):
            self.sorts.append(kind)
        return number

    def by_sort(self, rows: Mask) -> list[int]:
        """How many pods gangs of each sort have, of those rows."""
        found: list[float] = np.bincount(self[SORT][rows], self[PODS][rows], len(self.sorts)).tolist()
        return [int(pods) for pods in found]


def kind_of(session: Session, ask: Ask, objects: Iterable[object]) -> Kind:
    group, pods = read(objects)
    spec = gangs.spec_of_pod_group(group, priority=0, default_queue=ask.queue)
    shape, points = session.shape(task_of(pods[0], gang=ask.gang)), session.points
    is_known = session.room.table.axis.rows.keys() >= shape.request.amounts.keys()
    limits = [each.call for each in points.limit.hooks if each.call.code not in ROOM_ONLY]
    is_plain = not points.live_filter.concerns(shape) and all(each.count(shape) is None for each in limits)
    is_plain = is_plain and spec.minimum is not None
    minimum = {name: value // spec.min_member for name, value in (spec.minimum or {}).items()}
    return Kind(shape, spec, minimum, is_known and session.placer.prefilter(shape) is None, is_plain)


def uid_of(waiting: Waiting) -> str:
    """As sessions have it."""
    return read(waiting.objects())[0].metadata.uid or waiting.ask.gang


def read(objects: Iterable[object]) -> tuple[PodGroup, list[Pod]]:
    things = list(objects)
    group = next(each for each in things if isinstance(each, PodGroup))
    return group, [each for each in things if isinstance(each, Pod)]


def state_of(waiting: Waiting) -> GangState:
    """As a cycle would have it."""
    group, pods = read(waiting.objects())
    spec = gangs.spec_of_pod_group(group, priority=0, default_queue=waiting.ask.queue)
    return GangState(gangs.gang_of(spec, [task_of(pod, gang=waiting.ask.gang) for pod in pods]))


def amounts_of(each: Amounts, times: int) -> Amounts:
    return {name: value * times for name, value in each.items()}

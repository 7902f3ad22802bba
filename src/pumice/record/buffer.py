"""Rows that wait to be written: each once, in its latest state, and never more than a limit.

When the database is away for so long that the limit is reached, the oldest detail goes first (what single pods held), then attempts and
at last gangs. What was given up is counted, and stands in the record as a gap once the database is back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.record.rows import TABLES, Gap
from pumice.record.settings import BUFFER_ROWS_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, TypeAlias

    from pumice.record.rows import Row

    Waiting: TypeAlias = dict[Any, tuple[Row, float]]

BATCH_MAX = 2_000  # rows of one transaction


class Buffer:
    """`put` rows, `take` a batch, then say whether it is `written` or came to nothing (`put_back`)."""

    def __init__(self, limit: int = BUFFER_ROWS_MAX) -> None:
        self._limit = limit
        self._waiting: dict[str, Waiting] = {each.TABLE: {} for each in TABLES}
        self._taken: list[tuple[Row, float]] = []
        self.gap: Gap | None = None  # what was given up since the last batch that was written

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values())) + len(self._taken)

    def since(self) -> float | None:
        """When the row that waits longest was put; None where none does."""
        firsts = [next(iter(rows.values()))[1] for rows in self._waiting.values() if rows]
        return min([*firsts, *(at for _, at in self._taken)], default=None)

    def put(self, rows: Iterable[Row], at: float) -> int:
        """Rows replace those of the same key; how many had to be given up for them."""
        for row in rows:
            waiting = self._waiting[row.TABLE]
            known = waiting.get(row.key)
            waiting[row.key] = (row, at if known is None else known[1])
        return self._thin(at)

    def take(self, limit: int = BATCH_MAX) -> list[Row]:
        """The oldest rows of each table, gangs first; they still count as waiting."""
        assert not self._taken, "one batch at a time"
        for waiting in self._waiting.values():
            for key in list(waiting)[: limit - len(self._taken)]:
                self._taken.append(waiting.pop(key))
        return [row for row, _ in self._taken]

    def written(self, gap: Gap | None) -> None:
        """The batch is in the database, and so is the gap that was written with it."""
        self._taken = []
        if gap is self.gap:
            self.gap = None

    def put_back(self, at: float) -> int:
        """The batch is not in the database: its rows wait again, before all others, unless there is a newer state of them."""
        taken, self._taken = self._taken, []
        for table, waiting in self._waiting.items():
            older: Waiting = {row.key: (row, since) for row, since in taken if table == row.TABLE}
            for key, (row, since) in waiting.items():
                older[key] = (row, older[key][1] if key in older else since)
            self._waiting[table] = older
        return self._thin(at)

    def _thin(self, at: float) -> int:
        """Down to the limit again, with a tenth of room so that not every row costs a search."""
        if len(self) <= self._limit:
            return 0
        wanted = len(self) - self._limit + self._limit // 10
        dropped: list[float] = []
        for table in reversed(self._waiting):
            waiting = self._waiting[table]
            dropped += [waiting.pop(key)[1] for key in list(waiting)[: wanted - len(dropped)]]
        self._count(dropped, at)
        return len(dropped)

    def _count(self, dropped: Sequence[float], at: float) -> None:
        if not dropped:
            return
        since, rows = int(min(dropped)), len(dropped)
        if self.gap is not None:
            since, rows = min(since, self.gap.since), rows + self.gap.rows
        self.gap = Gap(since=since, until=int(at), rows=rows)

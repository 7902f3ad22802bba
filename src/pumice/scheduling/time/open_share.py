"""What a queue that alone has gangs may still have, in a session that stays open: all that is left of the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.cluster import amounts
from pumice.cluster.columns import PODS_ROW

if TYPE_CHECKING:
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.time.crowd import Waiting


class Share:
    """It deserves what it asks for, up to all there is."""

    def __init__(self, session: Session) -> None:
        self._room = session.room

    def _left(self, waiting: Waiting) -> dict[str, int]:
        """Of what the gang asks for."""
        rows = self._room.table.axis.rows
        return {name: int(self._room.idle[rows[name]].sum()) for name in waiting.holder.amounts}

    def is_used_up(self, waiting: Waiting) -> bool:
        """Whether the queue has all that it deserves, so that it gets no more turns."""
        if self._room.idle[PODS_ROW].any():
            return False
        return all(left < amounts.EPSILON for left in self._left(waiting).values())

    def allows(self, waiting: Waiting) -> int:
        """How many pods of the gang the queue may take."""
        return amounts.times_within(self._left(waiting), {}, waiting.kind.shape.request.amounts)

    def lacks_something(self, waiting: Waiting) -> bool:
        """Of all that the gang asks for: then it may be lent what no gang fits into."""
        return all(left > 0 for name, left in self._left(waiting).items() if name != amounts.PODS)

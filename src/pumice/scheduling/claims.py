"""Room that was made by evictions belongs to the gang it was made for, across cycles, until it has it or time is up.

At the start of a cycle each live claim is held: its members are pipelined where they were promised, so that nobody else is
placed there and nobody is evicted for them a second time. When the gang's turn comes, the hold is lifted for it alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.cluster.tasks import Status
from pumice.scheduling.statement import Placement

if TYPE_CHECKING:
    from pumice.api.changes import Claim
    from pumice.scheduling.gangstate import GangState
    from pumice.scheduling.session import Session
    from pumice.scheduling.statement import Operation, Statement


class Holds:
    """The claims of one session: held, lifted, and (`ended`) over."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.held: dict[str, Statement] = {}
        self.ended: dict[str, str] = {}  # gang -> why its claim is over
        for key, claim in sorted(session.snapshot.claims.items()):
            self._hold(key, claim)

    def _hold(self, key: str, claim: Claim) -> None:
        session = self.session
        gang = session.gangs.get(key)
        if gang is None or not gang.tally[Status.PENDING]:
            self.ended[key] = "the gang no longer waits"
            return
        if claim.until <= session.now:
            self.ended[key] = "its time is up"
            return
        statement = session.statement(gang)
        places = dict(claim.places)
        for task in gang.tasks_in(Status.PENDING):
            node = session.room.table.index.get(places.get(task.uid, ""))
            shape = session.shape(task)
            if node is not None and all(session.room.future[row, node] >= shape.demand[row] for row in shape.rows):
                statement.place(Placement(gang, shape, [task], [node], Status.PIPELINED, after_eviction=True))
        if statement.operations:
            self.held[key] = statement
        else:
            self.ended[key] = "nothing is left of its room"

    def lift(self, gang: GangState) -> list[Operation]:
        """Give the gang its own room back to work with; what `put_back` needs if it finds no better use."""
        statement = self.held.pop(gang.key, None)
        if statement is None:
            return []
        operations = list(statement.operations)
        statement.rollback()
        return operations

    def put_back(self, gang: GangState, operations: list[Operation]) -> None:
        """Hold the room again: the gang could not use it yet."""
        if operations:
            statement = self.session.statement(gang)
            statement.replay(operations)
            self.held[gang.key] = statement

    def lift_below(self, gang: GangState) -> dict[str, list[Operation]]:
        """Holds of gangs of strictly lower priority: a claim protects from equals and lesser, not from its betters."""
        lower = [self.session.gangs[key] for key in self.held if self.session.gangs[key].priority < gang.priority]
        return {other.key: self.lift(other) for other in lower}

"""A journal of tentative operations: do and undo are written together, commit hands over, roll back leaves no trace.

A gang is tried inside a statement. What is not committed is rolled back, bit for bit: columns are integers, and plugins learn
of an undo through the same call as of a do, with the sign turned.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pumice.cluster.tasks import Status
from pumice.scheduling.core.gangstate import LastTry
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape
    from pumice.scheduling.core.verdict import Cause


class Placement(Value, eq=False):
    """Members of one gang and one shape, each with its node; allocated, or pipelined behind what is being released."""

    gang: GangState
    shape: Shape
    tasks: Sequence[Task]
    nodes: Sequence[int]
    status: Status
    after_eviction: bool = False


class Eviction(Value, eq=False):
    """One victim, and why it has to go."""

    gang: GangState
    shape: Shape
    task: Task
    node: int
    former: Status
    rule: str
    cause: Cause | None


Operation = Placement | Eviction


class Statement:
    """Operations of one attempt, applied to the session as they are recorded."""

    def __init__(self, session: Session, claimant: GangState | None = None) -> None:
        self.session = session
        self.claimant = claimant
        self.operations: list[Operation] = []

    def place(self, placement: Placement) -> None:
        self._apply(placement, 1)
        self.operations.append(placement)

    def evict(self, task: Task, rule: str, cause: Cause | None = None) -> None:
        """A cause is needed by what is to be carried out, not by what is only tried."""
        session = self.session
        gang = session.gangs[task.gang]
        eviction = Eviction(gang, session.shape(task), task, session.node_index(task), gang.status(task), rule, cause)
        self._apply(eviction, 1)
        self.operations.append(eviction)

    def checkpoint(self) -> int:
        """A mark to roll back to."""
        return len(self.operations)

    def rollback(self, mark: int = 0, *, remember: bool = False) -> None:
        """Undo everything after the mark, last first; `remember` keeps where tasks would have gone, for explanations."""
        while len(self.operations) > mark:
            operation = self.operations.pop()
            if remember and self.session.explain and isinstance(operation, Placement):
                _remember(self.session, operation)
            self._apply(operation, -1)

    def unevict(self, eviction: Eviction) -> None:
        """Spare one victim without touching what came after it."""
        self.operations.remove(eviction)
        self._apply(eviction, -1)

    def commit(self) -> None:
        """Hand the operations over to the session's decisions; nothing can be undone after this."""
        self.session.accept(self.operations, self.claimant)
        self.operations = []

    def merge(self, other: Statement) -> None:
        """Take over another statement's operations, which are applied already."""
        self.operations += other.operations
        other.operations = []

    @property
    def evictions(self) -> list[Eviction]:
        return [operation for operation in self.operations if isinstance(operation, Eviction)]

    @property
    def placements(self) -> list[Placement]:
        return [operation for operation in self.operations if isinstance(operation, Placement)]

    def replay(self, operations: Sequence[Operation]) -> None:
        """Do again what was tried and rolled back before."""
        for operation in operations:
            self._apply(operation, 1)
        self.operations += operations

    def _apply(self, operation: Operation, sign: int) -> None:
        if isinstance(operation, Placement):
            self._apply_placement(operation, sign)
        else:
            self._apply_eviction(operation, sign)

    def _apply_placement(self, placement: Placement, sign: int) -> None:
        session, gang = self.session, placement.gang
        if placement.status is Status.ALLOCATED:
            session.room.allocate(placement.shape.demand, placement.nodes, sign)
        else:
            session.room.pipeline(placement.shape.demand, placement.nodes, sign)
        gang.move(placement.tasks, placement.status if sign > 0 else Status.PENDING, placement.nodes)
        session.moved_gangs.append(gang)
        session.points.moved.tell(gang, placement.shape, placement.tasks, placement.nodes, sign)

    def _apply_eviction(self, eviction: Eviction, sign: int) -> None:
        _leave(self.session, eviction.gang, eviction.shape, [eviction.task], [eviction.node], eviction.former, sign)


@contextlib.contextmanager
def without(session: Session, gang: GangState, *statuses: Status) -> Iterator[None]:
    """Inside, the gang's members of these statuses have left, as far as a question goes: equal ones in one move, however many they are."""
    runs: dict[tuple[Shape, Status], tuple[list[Task], list[int]]] = {}
    for task, node in session.on_nodes(gang.tasks_in(*statuses)):
        tasks, nodes = runs.setdefault((session.shape(task), gang.status(task)), ([], []))
        tasks.append(task)
        nodes.append(node)
    for (shape, former), (tasks, nodes) in runs.items():
        _leave(session, gang, shape, tasks, nodes, former, 1)
    try:
        yield
    finally:
        for (shape, former), (tasks, nodes) in reversed(runs.items()):
            _leave(session, gang, shape, tasks, nodes, former, -1)


def _leave(
    session: Session,
    gang: GangState,
    shape: Shape,
    tasks: Sequence[Task],
    nodes: Sequence[int],
    former: Status,
    sign: int,
) -> None:
    session.room.evict(shape.demand, nodes, sign)
    gang.move(tasks, Status.RELEASING if sign > 0 else former, nodes)
    session.moved_gangs.append(gang)
    session.points.moved.tell(gang, shape, tasks, nodes, -sign)


def _remember(session: Session, placement: Placement) -> None:
    """Where the tasks would have gone; a promise of room that is idle already counts as that room."""
    names, idle = session.room.table.names, session.room.idle
    shape = placement.shape
    for task, node in zip(placement.tasks, placement.nodes, strict=True):
        status = placement.status
        if status is Status.PIPELINED and all(idle[row, node] >= shape.demand[row] for row in shape.rows):
            status = Status.ALLOCATED
        placement.gang.last_tries[task] = LastTry(status, names[node], placement.gang.sub_of(task).hyper_node)

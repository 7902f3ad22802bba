"""Which members of a gang are to be placed in its turn, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.cluster.tasks import Status

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.gangstate import GangState, SubState
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape

TIED_SHAPES_MAX = 64  # of a gang's members, whose nodes are counted: each count is a look at all nodes
_WAITING = frozenset({Status.PENDING})
_WAITING_OR_HELD = frozenset({Status.PENDING, Status.PIPELINED})  # a claim's members are pipelined until their turn


def waiting(session: Session, gang: GangState) -> list[Task]:
    """Members that wait behind no gate, in the order of placement; found once for each version of the gang."""
    known = gang.waiting
    if known is None or known[0] != gang.version:
        tasks = [task for task in gang.tasks_in(Status.PENDING) if not task.gates]
        known = gang.waiting = (gang.version, session.in_placement_order(tasks))
    return known[1]


def shape_of_all(session: Session, gang: GangState) -> Shape | None:
    """The one shape of a gang that waits as one and has no places; None for any other."""
    whole = gang.gang
    return None if gang.places or not whole.waits_as_one else session.shapes.of_all(whole, whole.tasks[0])


class PendingMembers:
    """The members of a gang that may be placed in this action, by sub gang; each is tried once."""

    def __init__(self, session: Session, gang: GangState, *, held: bool = False) -> None:
        self._session = session
        self._gang = gang
        self._held = held
        self._waiting: dict[str, list[Task]] | None = None  # found when its turn comes: in a long line, few get there

    @property
    def waiting(self) -> dict[str, list[Task]]:
        if self._waiting is None:
            self._waiting = {}
            for sub in self._gang.subs:
                ordered = self._in_order(sub)
                if ordered:
                    if self._held:  # the room was made for these very members, so they come before higher-ranked mates
                        ordered.sort(key=lambda task: not self._session.promised_node(task))
                    self._waiting[sub.sub.key] = ordered
        return self._waiting

    @waiting.setter
    def waiting(self, waiting: dict[str, list[Task]]) -> None:
        self._waiting = waiting

    def _in_order(self, sub: SubState) -> list[Task]:
        if not self._held and len(self._gang.subs) == 1:
            return [task for task in waiting(self._session, self._gang) if not task.is_best_effort]
        return self._session.in_placement_order(self._placeable(sub))

    def _placeable(self, sub: SubState) -> Iterator[Task]:
        waiting = _WAITING_OR_HELD if self._held else _WAITING
        if any(sub.tally[status] for status in waiting):
            for task in sub.sub.tasks:
                if self._gang.status(task) in waiting and is_placeable(task):
                    yield task

    def put_tied_first(self) -> bool:
        """Put those first that can go to the fewest nodes; False where that changes nothing, or no member differs from its equals in this.

        Members of one role and request are equal but for what they have already: volumes, say, that are on some nodes.
        """
        tasks = [task for tasks in self.waiting.values() for task in tasks]
        shapes = {(task.role, task.request, self._session.shape(task)) for task in tasks}
        if len(shapes) == len({(role, request) for role, request, _ in shapes}) or len(shapes) > TIED_SHAPES_MAX:
            return False
        before = {key: list(tasks) for key, tasks in self.waiting.items()}
        for each in self.waiting.values():
            each.sort(key=lambda task: int(self._session.placer.allowed(self._session.shape(task)).sum()))
        return before != self.waiting

    def __bool__(self) -> bool:
        if self._waiting is None and not self._held and not self._gang.places:
            return self._gang.gang.has_placeable
        if self._waiting is None:
            return any(next(self._placeable(sub), None) is not None for sub in self._gang.subs)
        return any(self._waiting.values())

    def count_anew(self) -> None:
        """Look again who waits: others than the holder of this list have placed members, and a pod is placed once."""
        self._waiting = None

    def copy(self) -> PendingMembers:
        twin = PendingMembers(self._session, self._gang, held=self._held)
        twin.waiting = {key: list(tasks) for key, tasks in self.waiting.items()}
        return twin


def is_placeable(task: Task) -> bool:
    """Gated pods wait for their gate, and pods that ask for nothing are backfill's."""
    return not task.gates and not task.is_best_effort

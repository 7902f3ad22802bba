"""Which members of a gang are to be placed in its turn, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.cluster.tasks import Status

if TYPE_CHECKING:
    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.session import Session

_WAITING = frozenset({Status.PENDING})
_WAITING_OR_HELD = frozenset({Status.PENDING, Status.PIPELINED})  # a claim's members are pipelined until their turn


class PendingMembers:
    """The members of a gang that may be placed in this action, by sub gang; each is tried once."""

    def __init__(self, session: Session, gang: GangState, *, held: bool = False) -> None:
        self.waiting: dict[str, list[Task]] = {}
        waiting = _WAITING_OR_HELD if held else _WAITING
        for sub in gang.subs:
            if not any(sub.tally[status] for status in waiting):
                continue
            tasks = [task for task in sub.sub.tasks if gang.status(task) in waiting and is_placeable(task)]
            if tasks:
                ordered = session.in_placement_order(tasks)
                if held:  # the room was made for these very members, so they come before higher-ranked mates
                    ordered.sort(key=lambda task: not session.promised_node(task))
                self.waiting[sub.sub.key] = ordered

    def __bool__(self) -> bool:
        return any(self.waiting.values())

    def copy(self) -> PendingMembers:
        twin = PendingMembers.__new__(PendingMembers)
        twin.waiting = {key: list(tasks) for key, tasks in self.waiting.items()}
        return twin


def is_placeable(task: Task) -> bool:
    """Gated pods wait for their gate, and pods that ask for nothing are backfill's."""
    return not task.gates and not task.is_best_effort

"""Moving gangs: who may be moved, what that costs, and whether all that has to go finds room elsewhere at once.

Work is counted in card-seconds (`lost_work`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec

from pumice import instant
from pumice.api import names
from pumice.cluster.tasks import OCCUPYING, go_bool
from pumice.scheduling.core.memory import Slot, past
from pumice.scheduling.core.statement import Eviction
from pumice.scheduling.evicting.gang_eviction import Arguments as Domains
from pumice.scheduling.evicting.lost_work import card_seconds, cards, started
from pumice.scheduling.placing.constraints.card_book import CardBook

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.cluster.tasks import Task
    from pumice.instant import Instant
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.statement import Statement

RULE = "consolidate"
WINDOW = instant.HOUR
_CARD_HOUR = 3600

Hours = Annotated[float, msgspec.Meta(ge=0, le=1e6)]


class Arguments(Domains, frozen=True):
    """What moving may cost, in GPU-hours, and what it is held to be worth."""

    lost_max: Hours = msgspec.field(name="maxLostGpuHours", default=8.0)  # within an hour, by all moves together
    gain_hours: Hours = msgspec.field(name="gainHours", default=1.0)  # that a gang is held to wait for without the move
    gangs_max: Annotated[int, msgspec.Meta(ge=0)] = msgspec.field(name="maxGangs", default=1)  # served in one cycle
    # A gang that started later is left alone.
    settled_s: Annotated[int, msgspec.Meta(ge=0)] = msgspec.field(name="minRuntimeSeconds", default=600)


class Spent(msgspec.Struct, frozen=True):
    """Card-seconds of work that moves have cost since then."""

    since: int = 0
    lost: int = 0


SLOT = Slot("consolidation", Spent)


class Moves:
    """The question of one cycle: which gangs may be moved, and whether a plan is worth it."""

    def __init__(self, session: Session, arguments: Arguments) -> None:
        self.session = session
        self.arguments = arguments
        self.left = arguments.gangs_max
        self._lost: dict[str, int] = {}

    # ------------------------------------------------------------------------------------------------- who

    def may_move(self, gang: GangState) -> bool:
        """Whether any of its members may: its surplus, or all of it."""
        may_move = gang.tally.ready > gang.minimum or self.may_move_whole(gang)
        return may_move and not self._is_tied(gang) and not self._started_lately(gang)

    def may_move_whole(self, gang: GangState) -> bool:
        return go_bool(gang.spec.annotations.get(names.MOVABLE, "")) is True or all(
            names.CHECKPOINTED_AT in task.pod.metadata.annotations for task in gang.tasks_in(*OCCUPYING)
        )

    def _is_tied(self, gang: GangState) -> bool:
        """Whether it cannot be said here where it would start again: it must be close, or holds parts of cards or volumes."""
        book = self.session.shared(CardBook)
        close = gang.spec.closeness is not None and gang.spec.closeness.hard
        holds = any(task.mounts is not None or book.ask(task) is not None for task in gang.tasks_in(*OCCUPYING))
        return close or bool(gang.spec.policies) or holds

    def _started_lately(self, gang: GangState) -> bool:
        """One that is not started yet has only just got its place."""
        now, settles = self.session.now, self.arguments.settled_s * instant.SECOND
        starts = (started(task) for task in gang.tasks_in(*OCCUPYING))
        settled = max(((now if start is None else start) + settles for start in starts), default=now)
        if settled <= now:
            return False
        self.session.changes_at.append(settled)
        return True

    # ------------------------------------------------------------------------------------------------- what it costs

    def lost(self, gang: GangState) -> int:
        """Card-seconds that moving the whole gang costs."""
        if gang.key not in self._lost:
            self._lost[gang.key] = card_seconds(gang.tasks_in(*OCCUPYING), self.session.now)
        return self._lost[gang.key]

    def is_worth_it(self, statement: Statement) -> bool:
        """Whether the plan costs less than it gains, within the budget, and everyone finds room elsewhere at once."""
        victims = [each.task for each in statement.evictions]
        lost = card_seconds(victims, self.session.now)
        placed = [task for placement in statement.placements for task in placement.tasks]
        gained = sum(cards(task) for task in placed) * self.arguments.gain_hours * _CARD_HOUR
        spent, budget = next_value(self.session), self.arguments.lost_max * _CARD_HOUR
        if budget - spent.lost < lost <= budget:
            self.session.changes_at.append(spent.since + WINDOW)
        return lost <= min(gained, budget - spent.lost) and self._find_room([*_moved_now(self.session), *victims])

    # ------------------------------------------------------------------------------------------------- where they go

    def _find_room(self, victims: Sequence[Task]) -> bool:
        """Place all that leave in this cycle beside what the plan has placed, the largest first; nothing stays changed."""
        session = self.session
        done: list[tuple[Task, list[int]]] = []
        asked: dict[tuple[str, int], int] = {}
        for task in sorted(victims, key=lambda task: (-cards(task), task.uid)):
            shape, queue = session.shape(task), session.queue_of(session.gangs[task.gang])
            number = asked[queue.name, id(shape)] = asked.get((queue.name, id(shape)), 0) + 1
            if session.points.allocatable.of(queue, shape, number) < number:
                break
            places = session.placer.fill(shape, 1, None, task)
            if not places.nodes:
                break
            session.room.pipeline(shape.demand, places.nodes)
            done.append((task, list(places.nodes)))
        for task, nodes in reversed(done):
            session.room.pipeline(session.shape(task).demand, nodes, -1)
        return len(done) == len(victims)


def _moved_now(session: Session) -> list[Task]:
    return [each.task for each, _ in session.accepted if isinstance(each, Eviction) and each.rule == RULE]


def _holds(known: Spent, now: Instant) -> bool:
    since = past(known.since, now)
    return since is not None and now < since + WINDOW


def next_value(session: Session) -> Spent:
    """What the next cycle knows: the cost of this window's moves."""
    known, lost = session.memory.of(SLOT), card_seconds(_moved_now(session), session.now)
    if _holds(known, session.now):
        return Spent(known.since, known.lost + lost)
    return Spent(session.now, lost) if lost else Spent()

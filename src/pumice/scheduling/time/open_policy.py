"""What of a policy has a say while gangs wait beside a session that stays open, extension point by extension point; nothing where that is not known.

Gangs that wait there are equals: of one priority, whole or not at all, with nothing that only cycles look at. Among them plugins have a say in few
things: who is admitted, whose turn is first, and who may pass a reservation.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import numpy as np

from pumice.api.priority import PriorityClass
from pumice.scheduling.core.plugin import AdmittingBooks, RankingBooks, ShareBooks
from pumice.scheduling.time.crowd import Crowd
from pumice.scheduling.time.open_admission import Admission, Insistence
from pumice.scheduling.time.open_keepers import Keepers
from pumice.scheduling.time.open_precedence import Precedence
from pumice.scheduling.time.open_reservation import OpenReservation
from pumice.scheduling.time.open_turns import Rules, Turns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pumice.cluster.amounts import Amounts
    from pumice.cluster.queues import QueueInfo
    from pumice.instant import Instant
    from pumice.scheduling.core.plugin import Books, Holder
    from pumice.scheduling.core.points import TaskVictims
    from pumice.scheduling.core.session import Session

FIRST_ACTIONS = ("enqueue", "allocate")
FURTHER_ACTIONS = ("preempt", "reclaim", "lend", "backfill")  # in this order, as many of them as there are


class Reach(enum.Enum):
    """Of how many queues gangs may be."""

    ANY = enum.auto()
    ONE_WAITS = enum.auto()  # all that wait are of one
    ONE_IN_USE = enum.auto()  # and all that run, too


class InTurn(RankingBooks):
    """Where no plugin ranks gangs: a line for each queue, in the order of queues."""

    while_waiting = True

    def __init__(self, queues: Iterable[QueueInfo]) -> None:
        ordered = sorted(queues, key=lambda queue: (queue.created, queue.name))
        self._lines = {queue.name: line for line, queue in enumerate(ordered)}
        self.standing = np.arange(len(ordered), dtype=np.float64)

    def line_of(self, gang: Holder) -> int:
        return self._lines[gang.queue]

    def begin(self, now: Instant) -> None:
        """They stand where they stood."""

    def admitted(self, line: int, minimum: Amounts) -> None:
        """Nobody counts it."""

    def started(self, line: int, more: Amounts) -> None:
        """Nor this."""


def waits_as_whole(session: Session) -> bool:
    """Whether gangs start whole or hold nothing, and nobody has to leave for an equal."""
    actions, points = session.policy.actions, session.points
    further = [name for name in FURTHER_ACTIONS if name in actions]
    is_usual = actions == (*FIRST_ACTIONS, *further)
    is_whole = bool(points.ready.hooks and points.pipelined.hooks and points.shortfall.hooks)
    return is_usual and is_whole and ("preempt" not in actions or _lets_no_equal_go(points.preemptable))


def _lets_no_equal_go(point: TaskVictims) -> bool:
    ended = {hook.tier for hook in point.hooks if hook.call.bound is not None and hook.call.bound.nobody is not None}
    return all(hook.tier in ended for hook in point.hooks)


def runs_as_equals(session: Session) -> bool:
    """Whether all that runs is whole, and no more than that, and nobody of it has to leave for those that wait."""
    classes = session.snapshot.objects(PriorityClass).values()
    own = max((each.value for each in classes if each.global_default), default=0)
    running = (gang for gang in session.snapshot.gangs.values() if gang.held)
    return all(gang.spec.priority >= own and len(gang.tasks) <= gang.spec.min_member for gang in running)


def turns_of(session: Session, books: Mapping[str, Books]) -> Turns | None:
    """`books` are those of plugins, all of which know what these say while gangs wait."""
    voters, insists = _voters(session, books)
    rules = _rules(session, books)
    if voters is None or rules is None:
        return None
    ranking = next((each for each in books.values() if isinstance(each, RankingBooks)), None)
    reservation = next((each for each in books.values() if isinstance(each, OpenReservation)), None)
    crowd = Crowd(session, ranking or InTurn(session.queues.values()))
    keepers = Keepers(session, crowd) if session.policy.break_deadlocks and voters else None
    if keepers is not None and rules.shares and not rules.lends:
        return None  # who gives an admission back for want of a share may ask again as soon as there is one
    precedence = insistence = None
    if reservation is not None:
        precedence = Precedence(crowd, reservation, ranks=ranking is not None)
        insistence = Insistence(reservation.patience, precedence.may_be_next) if insists else None
    return Turns(crowd, rules, Admission(session, crowd, voters, insistence), precedence, keepers)


def _voters(session: Session, books: Mapping[str, Books]) -> tuple[Sequence[AdmittingBooks] | None, bool]:
    """Who votes on admissions, all in one tier, None where somebody else does; and whether a reservation's vote counts more."""
    hooks = [(hook.tier, books[hook.plugin]) for hook in session.points.enqueueable.hooks]
    insisting = [tier for tier, each in hooks if isinstance(each, OpenReservation)]
    voting = [(tier, each) for tier, each in hooks if isinstance(each, AdmittingBooks)]
    tiers = {tier for tier, _ in voting}
    if len(insisting) + len(voting) < len(hooks) or len(tiers) > 1:
        return None, False
    return [each for _, each in voting], bool(insisting) and min(insisting) < min(tiers, default=0)


def _rules(session: Session, books: Mapping[str, Books]) -> Rules | None:
    """None where a plugin says of queues, or of turns, what its books do not."""
    points, actions = session.points, session.policy.actions
    sharing = [{hook.plugin for hook in point.hooks} for point in (points.allocatable, points.overused)]
    is_known = sharing[0] == sharing[1] and all(isinstance(books[name], ShareBooks) for name in sharing[0])
    if not is_known or points.turn.hooks:
        return None
    return Rules(
        shares=bool(sharing[0]),
        preempts="preempt" in actions,
        lends=bool(sharing[0]) and "lend" in actions,
    )


def reach_of(session: Session, books: Mapping[str, Books]) -> Reach:
    if {"preempt", "reclaim"}.intersection(session.policy.actions) or session.policy.break_deadlocks:
        return Reach.ONE_IN_USE
    if any(each.in_one_queue for each in books.values()):
        return Reach.ONE_IN_USE
    return Reach.ONE_WAITS if session.points.queue_order.hooks else Reach.ANY

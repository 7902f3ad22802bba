"""user-limits: how many gangs of one user may run in a queue, how many may wait there, and how much they may hold together.

A queue's annotation `pumice.dev/user-limits` says it for that queue and all below it; the arguments say it for every queue that
has gangs and does not say it itself. Whatever would go beyond a limit waits, and reads which limit it is and what takes it up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec

from pumice.api import names
from pumice.api.user_limits import NO_LIMITS, UserLimits, UserLimitsError, is_limited, parse_user_limits
from pumice.cluster import amounts
from pumice.cluster.tasks import Status
from pumice.quantity import QuantityError
from pumice.scheduling.core import arguments
from pumice.scheduling.core.codes import Amount, Code, Facts
from pumice.scheduling.core.plugin import Plugin
from pumice.scheduling.core.points import Vote
from pumice.scheduling.core.verdict import Cure, Reason
from pumice.scheduling.sharing.queue_tree import queue_tree
from pumice.values import once

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pumice.cluster.amounts import Amounts, MutableAmounts
    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.plugin import Books
    from pumice.scheduling.core.policy import PluginOption
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape

NAME = "user-limits"
HOLDERS_TOLD_MAX = 3

Count = Annotated[int, msgspec.Meta(ge=0)]


class Args(arguments.Args, frozen=True, kw_only=True):
    """For every queue whose annotation does not say otherwise; what is absent is not limited."""

    running: Annotated[Count | None, msgspec.Meta(description="gangs of one user that may run in a queue")] = None
    submitted: Annotated[
        Count | None,
        msgspec.Meta(description="gangs of one user that may run or wait in a queue; later ones are not admitted"),
    ] = None
    resources: Annotated[
        dict[str, str | int], msgspec.Meta(description="what all gangs of one user may hold in a queue, by resource")
    ] = msgspec.field(default_factory=dict)
    trust_user_label: Annotated[
        bool,
        msgspec.Meta(description="whether the label `pumice.dev/user` names the user where admission recorded none"),
    ] = msgspec.field(name="trust-user-label", default=False)

    def __post_init__(self) -> None:
        for name, text in self.resources.items():
            if not is_limited(name):
                raise ValueError(
                    f"resources: {name} is no resource that queues count; write for example nvidia.com/gpu"
                )
            try:
                amounts.amount(name, text)
            except QuantityError as error:
                raise ValueError(f"resources: {name}: {error}") from error

    def limits(self) -> UserLimits:
        resources = {name: str(amount) for name, amount in self.resources.items()}
        return UserLimits(self.running, self.submitted, resources)


class Holdings:
    """Gangs with what each of them takes up, and all of it together."""

    def __init__(self) -> None:
        self.by_gang: dict[str, MutableAmounts] = {}
        self.total: MutableAmounts = {}

    def add(self, gang: str, more: Amounts, times: int = 1) -> None:
        own = self.by_gang.setdefault(gang, {})
        amounts.add(own, more, times)
        amounts.add(self.total, more, times)
        if times < 0 and not any(value > 0 for value in own.values()):
            del self.by_gang[gang]


class Book:
    """What one user has in one queue, and in all below it."""

    def __init__(self, queue: str, user: str, limits: UserLimits) -> None:
        self.queue = queue
        self.user = user
        self.limits = limits
        self.resources = amounts.read(limits.resources, unreadable=0)
        self.submitted: list[GangState] = []
        self.admitted = Holdings()  # what they hold, or will at least
        self.held = Holdings()

    @once
    def first(self) -> list[str]:
        """The gangs in the order in which the limit of submitted ones lets them in."""
        ranked = sorted(self.submitted, key=lambda each: (each.is_waiting_for_admission, each.spec.created, each.key))
        return [gang.key for gang in ranked]

    @once
    def let_in(self) -> frozenset[str]:
        return frozenset(self.first[: self.limits.submitted])

    def crowded(self, gang: GangState) -> Reason | None:
        """Why the gang may not be admitted at all yet: so many older ones are there."""
        limit = self.limits.submitted
        if limit is None or gang.key in self.let_in:
            return None
        return self._no(Code.USER_SUBMITTED, self.first, limit)

    def full(self, gang: GangState, taken: Holdings) -> Reason | None:
        """Why no other gang may run, or be admitted: as many do, or are."""
        limit = self.limits.running
        if limit is None or gang.key in taken.by_gang or len(taken.by_gang) < limit:
            return None
        return self._no(Code.USER_RUNNING, list(taken.by_gang), limit)

    def beyond(self, asked: Amounts, taken: Holdings) -> Reason | None:
        """Why the user may not hold so much more."""
        total = taken.total
        over = [name for name, limit in self.resources.items() if 0 < asked.get(name, 0) > limit - total.get(name, 0)]
        if not over:
            return None
        told = tuple(
            Amount.of(name, limit=self.resources[name], held=total.get(name, 0), wanted=asked[name])
            for name in amounts.in_reading_order(over)
        )
        holders = [key for key, own in taken.by_gang.items() if any(own.get(name, 0) > 0 for name in over)]
        never = any(asked[name] > self.resources[name] for name in over)
        facts = Facts(
            queue=self.queue, user=self.user, amounts=told, free=len(holders), holders=tuple(holders[:HOLDERS_TOLD_MAX])
        )
        return Reason(Code.USER_RESOURCES, NAME, facts, cure=Cure.CHANGE if never else Cure.WAITING)

    def _no(self, code: Code, holders: Sequence[str], limit: int) -> Reason:
        facts = Facts(
            queue=self.queue,
            user=self.user,
            limit=limit,
            free=len(holders),
            holders=tuple(holders[:HOLDERS_TOLD_MAX]),
        )
        return Reason(code, NAME, facts, cure=Cure.WAITING if limit else Cure.CHANGE)


class UserLimitsPlugin(Plugin):
    """Keeps a book for each user in each queue that has limits; where there are none it does nothing."""

    args_type = Args
    stays_open = True
    essential = True

    def __init__(self, args: Args, option: PluginOption) -> None:
        del option
        self.trusts_label = args.trust_user_label
        self.default = args.limits()

    def open(self, session: Session) -> None:
        self.limits: dict[str, UserLimits] = {}
        self.faults: dict[str, Reason] = {}
        for name, queue in session.queues.items():
            self._read(name, queue.annotations.get(names.USER_LIMITS))
        if not self.limits and not self.faults and self.default == NO_LIMITS:
            return
        self.tree = queue_tree(session.queues)
        self.books: dict[tuple[str, str], Book] = {}
        for gang in session.gangs.values():
            for book in self._books_of(gang):
                self._enter(book, gang)
        on = session.on
        on.enqueueable(self.enqueueable)
        on.enqueued(self.enqueued)
        on.turn(self.turn)
        on.moved(self.moved)

    def open_books(self, session: Session) -> Books | None:
        """Where there are no limits."""
        return (
            super().open_books(session) if not self.limits and not self.faults and self.default == NO_LIMITS else None
        )

    def _read(self, name: str, text: str | None) -> None:
        if text is None:
            return
        try:
            self.limits[name] = parse_user_limits(text)
        except UserLimitsError as error:
            facts = Facts(queue=name, text=str(error))
            self.faults[name] = Reason(Code.USER_LIMITS_UNREADABLE, NAME, facts)

    def _books_of(self, gang: GangState) -> Iterator[Book]:
        """Of the gang's user, in its queue and in those above that have limits of their own."""
        user = gang.spec.user_by(trusts_label=self.trusts_label)
        for queue in self.tree.paths[gang.queue]:
            limits = self.limits.get(queue)
            if queue == gang.queue:
                limits = (limits or NO_LIMITS).over(self.default)
            if limits is None or limits == NO_LIMITS:
                continue
            book = self.books.get((queue, user))
            if book is None:
                book = self.books[queue, user] = Book(queue, user, limits)
            yield book

    @staticmethod
    def _enter(book: Book, gang: GangState) -> None:
        waits, holds = gang.is_waiting_for_admission, gang.tally.occupying
        if not waits and not holds and not gang.tally[Status.PENDING] and gang.tasks:
            return  # it is done
        book.submitted.append(gang)
        if holds:
            book.held.add(gang.key, gang.occupied)
        if not waits or holds:
            book.admitted.add(gang.key, amounts.at_least(gang.occupied, gang.spec.minimum or {}))

    def _fault(self, gang: GangState) -> Reason | None:
        return next((self.faults[name] for name in self.tree.paths[gang.queue] if name in self.faults), None)

    # ------------------------------------------------------------------------------------------------- questions

    def enqueueable(self, gang: GangState) -> Vote | Reason:
        if (fault := self._fault(gang)) is not None:
            return fault
        for book in self._books_of(gang):
            taken = book.admitted
            reason = book.crowded(gang) or book.full(gang, taken) or book.beyond(gang.spec.minimum or {}, taken)
            if reason is not None:
                return reason
        return Vote.ABSTAIN

    def enqueued(self, gang: GangState) -> None:
        for book in self._books_of(gang):
            book.admitted.add(gang.key, gang.spec.minimum or {})

    def turn(self, gang: GangState) -> Reason | None:
        """A gang that has begun gets its minimum, whatever the limit; one that has it gets one member at a time."""
        if (fault := self._fault(gang)) is not None:
            return fault
        asked = _asked(gang)
        for book in self._books_of(gang):
            reason = book.crowded(gang) or book.full(gang, book.held) or book.beyond(asked, book.held)
            if reason is not None:
                return reason
        return None

    def moved(self, gang: GangState, shape: Shape, tasks: Sequence[Task], nodes: Sequence[int], sign: int) -> None:
        del nodes
        for book in self._books_of(gang):
            book.held.add(gang.key, shape.request.amounts, len(tasks) * sign)


def _asked(gang: GangState) -> Amounts:
    """What the gang will take in its next turn."""
    waiting = gang.tasks_in(Status.PENDING)
    if not gang.tally.occupying:
        first = amounts.sum_of(task.request.amounts for task in waiting[: max(gang.spec.min_member, 1)])
        return amounts.at_least(first, gang.spec.minimum or {})
    if gang.is_starving:
        return {}
    largest: Amounts = {}
    for task in waiting:
        largest = amounts.at_least(largest, task.request.amounts)
    return largest

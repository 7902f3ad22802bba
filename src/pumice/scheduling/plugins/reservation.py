"""reservation: a gang that has waited long enough gets a time by which it starts, and only those pass that leave that time standing.

With `depth: 1` this is what batch systems call EASY backfill, with a large depth conservative backfill.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec

from pumice.cluster.tasks import Status
from pumice.scheduling.core import arguments
from pumice.scheduling.core.codes import Code, Facts
from pumice.scheduling.core.decisions import Reserved
from pumice.scheduling.core.plugin import Books, Plugin
from pumice.scheduling.core.points import Vote
from pumice.scheduling.core.points.combination import is_rejection
from pumice.scheduling.core.shapes import Reads
from pumice.scheduling.core.verdict import Cure, Reason
from pumice.scheduling.placing import feasibility, members
from pumice.scheduling.time import keeping, passing, reservations
from pumice.scheduling.time.estimates import Estimates
from pumice.scheduling.time.open_profile import OpenProfile, run_of
from pumice.scheduling.time.open_reservation import OpenReservation
from pumice.scheduling.time.passing import Passing
from pumice.scheduling.time.planning import Book, Rules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.cluster.columns import Column
    from pumice.cluster.tasks import Task
    from pumice.instant import Duration, Instant
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.policy import PluginOption
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape
    from pumice.scheduling.core.statement import Statement

NAME = keeping.NAME
DEPTH_MAX = 10_000
# Refusals of admission that time heals: what is full now empties, and reservations see to it that it does for this gang.
_HEALED_BY_TIME = frozenset({Code.CLUSTER_OVERCOMMITTED, Code.QUEUE_QUOTA_INSUFFICIENT})


class Args(arguments.Args, frozen=True, kw_only=True):
    """Run times come from `pumice.dev/time-limit`, `pumice.dev/running-estimate`, past runs, and a Queue's `pumice.dev/default-run-time`."""

    depth: Annotated[
        int,
        msgspec.Meta(ge=0, le=DEPTH_MAX, description="how many gangs have a reservation at a time: 1 is EASY backfill"),
    ] = 1
    queue_depth: Annotated[
        int, msgspec.Meta(ge=0, le=DEPTH_MAX, description="how many of one queue, within `depth`")
    ] = msgspec.field(name="queue-depth", default=DEPTH_MAX)
    patience: Annotated[str, msgspec.Meta(description="how long a gang waits before it gets one; 0s: at once")] = "5m"
    default_estimate: Annotated[
        str, msgspec.Meta(description="how long a gang is expected to run that nothing is known of")
    ] = msgspec.field(name="default-estimate", default="1h")
    horizon: Annotated[str, msgspec.Meta(description="nothing is reserved for a later time than this from now")] = (
        "168h"
    )
    queues: Annotated[
        str, msgspec.Meta(description="queues whose gangs may have one, separated by commas; empty: all")
    ] = ""

    def __post_init__(self) -> None:
        self.waits()
        arguments.duration("default-estimate", self.default_estimate)
        arguments.duration("horizon", self.horizon)

    def waits(self) -> Duration:
        return 0 if self.patience in {"0", "0s"} else arguments.duration("patience", self.patience)


class ReservationPlugin(Plugin):
    """Reservations for gangs that wait, in the order in which allocate asks."""

    args_type = Args
    args: Args
    memory = reservations.SLOT
    stays_open = True

    def __init__(self, args: Args, option: PluginOption) -> None:
        del option
        self.args = args
        self.patience = args.waits()
        self.queues = frozenset(filter(None, (each.strip() for each in args.queues.split(","))))

    def open(self, session: Session) -> None:
        args = self.args
        self.session = session
        self.estimates = Estimates(session, arguments.duration("default-estimate", args.default_estimate))
        horizon = arguments.duration("horizon", args.horizon)
        self.book = Book(session, self.estimates, Rules(args.depth, args.queue_depth, horizon))
        self.passing = Passing(self.book)
        self.kept_open: OpenReservation | None = None
        self.is_placing = False  # between the first action and the last
        self.waiting: dict[str, reservations.Reservation] = {}  # their gangs hold places that others are about to leave
        self.promised_admission = 0
        self.expected = (-1, 0)  # how many gangs are admitted, patient and not complete, as of so many moves
        on = session.on
        on.declare(Reads.NOTHING)
        on.begin(self.begin)
        on.limit(self.limit, code=Code.NODE_RESERVED, cure=Cure.WAITING)
        on.veto(self.veto)
        on.detour(self.detour)
        on.unplaced(self.unplaced)
        on.moved(self.moved)
        on.enqueueable(self.admit)
        on.close(self.close)

    def open_books(self, session: Session) -> Books:
        """With one reservation, for any gang, it knows what it says while gangs wait; nodes that memory has no room for it finds anew in every cycle."""
        args = self.args
        if args.depth != 1 or not args.queue_depth or self.queues or len(session.room.table) > reservations.NODES_MAX:
            return Books()
        profile = OpenProfile(session, self.estimates)
        for gang in session.gangs.values():
            if gang.gang.held:
                profile.start(gang.key, run_of(gang, self.estimates, session.room.table))
        self.book = Book(session, self.estimates, self.book.rules, profile)
        self.kept_open = OpenReservation(session, self.book, profile, self.patience)
        return self.kept_open

    def limit(self, shape: Shape) -> Column | None:
        return self.passing.limit(shape) if self.kept_open is None else self.kept_open.limit(shape)

    def moved(self, gang: GangState, shape: Shape, tasks: Sequence[Task], nodes: Sequence[int], sign: int) -> None:
        self.book.moved(gang, shape, tasks, nodes, sign)

    # ------------------------------------------------------------------------------------------------- who

    def begin(self) -> None:
        self.is_placing = self.args.depth > 0
        if self.is_placing:
            keeping.take_up(self.book, self._is_entitled)

    def _is_entitled(self, gang: GangState) -> bool:
        """Whether the gang may have a reservation at all; one that others leave for has something better."""
        session = self.session
        if gang.key in session.made_room_for or gang.key in session.aside.gangs or gang.key in session.ports.resting:
            return False
        return (not self.queues or gang.queue in self.queues) and not gang.is_waiting_for_admission

    def _patient_since(self, gang: GangState) -> Instant:
        """When the gang has waited long enough."""
        created = gang.gang.created
        return (self.session.now if created is None else created) + self.patience

    # ------------------------------------------------------------------------------------------------- turns

    def veto(self, gang: GangState, statement: Statement) -> Reason | None:
        """Half a gang holds nothing: it gets a reservation instead. And nobody takes what a reservation needs of its queue."""
        if not self.is_placing:
            return None
        if not passing.is_whole(self.book, gang):
            found = sum(len(each.tasks) for each in statement.placements)
            facts = Facts(free=found, wanted=found + self.session.shortfall(gang))
            return Reason(Code.NOT_HELD, NAME, facts, cure=Cure.WAITING)
        objection = self.passing.objection(gang) if self.book.standing else None
        if objection is None:
            self._has_places(gang)
        return objection

    def detour(self, gang: GangState) -> Statement | None:
        if not self.is_placing or not self.book.standing:
            return None
        statement = self.passing.detour(gang)
        if statement is not None:
            self._has_places(gang)
        return statement

    def _has_places(self, gang: GangState) -> None:
        """It starts, or waits for room that is being released: there is nothing to be reserved any more."""
        own = self.book.standing.get(gang.key)
        if own is not None:
            self.book.drop(gang.key)
            if not self.session.is_ready(gang):
                self.waiting[gang.key] = own

    def unplaced(self, gang: GangState) -> None:
        if not self.is_placing:
            return
        if passing.was_refused(gang):
            for each in self.passing.outlived(gang)[:1]:
                members.refuse(gang, passing.would_delay(each))
        if self._is_entitled(gang):
            self._reserve(gang)

    def _reserve(self, gang: GangState) -> None:
        """A reservation for a gang that found no room, or an earlier one than it has."""
        book, now = self.book, self.session.now
        own = book.standing.get(gang.key)
        if own is not None and own.time > now:
            found = book.find(gang, before=own.time)
            if found is not None:
                keeping.inherit(found, own)
                book.enter(found)
        elif own is not None:
            cause = keeping.blame_for(book, own)
            book.drop(gang.key)
            found = book.find(gang)
            if found is None:
                book.ended[gang.key] = reservations.Ended(*cause, own.time)
            else:
                keeping.inherit(found, own)
                keeping.blame(found, own.time, cause)
                book.enter(found)
        elif (self._patient_since(gang) <= now or self._is_due(gang)) and book.has_room(gang):
            found, ended = book.find(gang), book.ended.get(gang.key)
            if found is not None and ended is not None and found.time > ended.time:
                keeping.blame(found, ended.time, (ended.code, ended.culprit))
            if found is not None:
                book.enter(found)

    def _is_due(self, gang: GangState) -> bool:
        """Whether another plugin (sla) has waited for it long enough."""
        return any(reason.code is Code.NOT_HELD for reason in gang.reasons)

    # ------------------------------------------------------------------------------------------------- admission

    def admit(self, gang: GangState) -> Vote:
        """A gang whose time has come is admitted although the cluster, or its queue, is full: without pods it gets no reservation."""
        if not self.is_placing or (self.queues and gang.queue not in self.queues) or not self._may_be_next(gang):
            return Vote.ABSTAIN
        if feasibility.exceeds_cluster(self.session, gang) or feasibility.exceeds_queue(self.session, gang):
            return Vote.ABSTAIN
        hooks = (hook for hook in self.session.points.enqueueable.hooks if hook.plugin != NAME)
        answers = [answer for hook in hooks if is_rejection(answer := hook.call(gang))]
        if not answers or not all(isinstance(each, Reason) and _is_healed_by_time(each) for each in answers):
            return Vote.ABSTAIN
        self.promised_admission += 1
        return Vote.PERMIT

    def _may_be_next(self, gang: GangState) -> bool:
        if self._patient_since(gang) > self.session.now:
            return False
        moves = len(self.session.moved_gangs)
        if self.expected[0] != moves:
            self.expected = moves, sum(map(self._is_expected, self.session.restless))
        expected = self.promised_admission + self.expected[1]
        room = self.args.depth - len(self.book.standing) - expected
        return room > 0 or (expected == 0 and self.book.has_room(gang))

    def _is_expected(self, gang: GangState) -> bool:
        """Whether it is admitted and patient, and its members are still to come."""
        if gang.is_waiting_for_admission or gang.tally.occupying or gang.tally.valid >= gang.minimum:
            return False
        return self._patient_since(gang) <= self.session.now

    # ------------------------------------------------------------------------------------------------- the end of a cycle

    def close(self) -> None:
        """What stands is told to its gangs; room is described as it is, reserved or not."""
        self.is_placing = False
        # Others leave for these since a later action than the one that reserved: no time is told any more.
        for key in self.session.made_room_for.intersection(self.book.standing):
            self.book.drop(key)
        keeping.settle(self.book)
        if self.session.explain:
            for gang, reason in keeping.reasons(self.book):
                members.refuse(gang, reason)
        self.session.expected = {**self.book.profile.expected, **self.estimates.asked()}
        self.session.reservations.update(
            {key: Reserved(each.time, len(each.nodes), each.since) for key, each in self.book.standing.items()}
        )

    def next_change(self, session: Session) -> Instant | None:
        """When somebody's patience ends, a reserved time comes, or work that a reservation waits for is expected to end."""
        waiting = (each for each in session.restless if each.is_waiting_for_admission or each.tally[Status.PENDING])
        times = [self._patient_since(gang) for gang in waiting if self.args.depth and gang.spec.created]
        if self.book.standing:
            times += [*(each.time for each in self.book.standing.values()), *self.book.profile.ends()[:1]]
        return min((each for each in times if each > session.now), default=None)

    def learn(self, session: Session) -> reservations.Reservations:
        standing = [*self.waiting.values(), *self.book.standing.values()]
        # Who starts, or has others leave for it, needs none.
        still = [
            each for each in standing if not session.is_ready(each.gang) and each.gang.key not in session.made_room_for
        ]
        return reservations.remembered(session, still, self.book.ended)


def _is_healed_by_time(no: Reason) -> bool:
    """Not where the gang is more than its queue may ever hold: it would wait in vain, and keep others out of theirs."""
    return no.code in _HEALED_BY_TIME and no.cure is not Cure.CHANGE

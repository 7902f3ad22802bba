"""Taking up what the last cycle reserved, and why a reservation became later.

A reservation that still stands at its time stays as it is. One that does not is found anew; who or what is to blame is looked for on the nodes
that are short: somebody who outlived an estimate, a node that went, somebody of higher rank who came, or pods that are not ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pumice import instant
from pumice.cluster.tasks import Status
from pumice.scheduling.core.codes import Code, Facts
from pumice.scheduling.core.verdict import Cure, Reason
from pumice.scheduling.time import reservations
from pumice.scheduling.time.reservations import Ended, Reservation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pumice.cluster.columns import Mask
    from pumice.instant import Instant
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.time.planning import Book
    from pumice.scheduling.time.reservations import Kept

NAME = "reservation"
Cause = tuple[Code, str]  # and the gang or node


def take_up(book: Book, is_entitled: Callable[[GangState], bool]) -> None:
    """Bring the reservations of the last cycle into the book, in their order; each beside those before it."""
    session = book.session
    remembered = session.memory.of(reservations.SLOT)
    book.ended |= {key: each for key, each in remembered.ended.items() if key in session.gangs}
    found: list[tuple[GangState, Kept, Reservation | str]] = []
    for kept in remembered.kept:
        gang = session.gangs.get(kept.gang)
        if gang is not None and is_entitled(gang):
            with session.turn_of(gang):
                recalled = _recalled(book, kept)
                if recalled is not None:
                    found.append((gang, kept, recalled))
                elif gang.uid == kept.uid and gang.tally[Status.PENDING] and not session.is_ready(gang):
                    book.ended[gang.key] = Ended(Code.RESERVATION_GANG_CHANGED, "", kept.time)
    fit = book.fit_together([each for *_, each in found if isinstance(each, Reservation)])
    for gang, kept, recalled in found:
        with session.turn_of(gang):
            if not book.has_room(gang):
                # One before it was promised other room for a while, which left a place in the book, and is back.
                book.ended[gang.key] = Ended(Code.RESERVATION_OUTRANKED, next(reversed(book.standing), ""), kept.time)
            elif isinstance(recalled, str):
                _renew(book, gang, kept, (Code.RESERVATION_NODE_LOST, recalled))
            else:
                _confirm(book, recalled, kept, fits=fit)
        # One that was found anew may lie where a later one was to go.
        fit = fit and book.standing.get(gang.key) is recalled


def _recalled(book: Book, kept: Kept) -> Reservation | str | None:
    """What is remembered, as it would be now."""
    recalled = reservations.recalled(book.session, kept)
    if isinstance(recalled, Reservation):
        recalled.length = book.estimates.of(recalled.gang).length
        recalled.time = max(recalled.time, book.now)
    return recalled


def _confirm(book: Book, recalled: Reservation, kept: Kept, *, fits: bool) -> None:
    """Keep it as it is, or find it anew."""
    others = book.binding(recalled.gang)
    short = None if fits else book.shortage(recalled, others)
    if short is not None:
        _renew(book, recalled.gang, kept, _cause(book, recalled, short))
        return
    lost = _closed_node(book, recalled)
    if lost:
        _renew(book, recalled.gang, kept, (Code.RESERVATION_NODE_LOST, lost))
    elif not book.has_share(recalled, others):
        # Its queue may not hold it any more, because another queue wants its own share: who waits there must not be kept out for it.
        _renew(book, recalled.gang, kept, (Code.RESERVATION_ROOM_TAKEN, ""))
    elif not book.passes(recalled, others):
        nowhere = np.zeros(len(recalled.nodes), dtype=bool)  # there is room enough
        _renew(book, recalled.gang, kept, _cause(book, recalled, nowhere))
    else:
        book.enter(recalled)


def settle(book: Book) -> None:
    """Find anew what others of higher rank have reserved over, so that no room is promised twice; in the order of rank, each beside those before it."""
    for key in list(book.standing):
        culprit = book.overlaid.pop(key, None)
        if culprit is None or key not in book.standing:
            continue
        own = book.standing[key]
        book.drop(key)
        with book.session.turn_of(own.gang):
            others = book.binding(own.gang)
            if book.shortage(own, others) is None and book.has_share(own, others) and book.passes(own, others):
                book.enter(own)
            else:
                _renew(book, own.gang, own, (Code.RESERVATION_OUTRANKED, culprit))


def _renew(book: Book, gang: GangState, kept: Kept | Reservation, cause: Cause) -> None:
    found = book.find(gang)
    if found is None:
        book.ended[gang.key] = Ended(*cause, kept.time)
        return
    inherit(found, kept)
    if found.time > kept.time:
        blame(found, kept.time, cause)
    book.enter(found)


def inherit(found: Reservation, own: Reservation | Kept) -> None:
    """What a gang was told stays with its reservation: the first time, and why it is later than it once was."""
    found.since, found.said = own.since, own.said
    if found.time > own.former:
        found.moved, found.culprit, found.former = own.moved, own.culprit, own.former


def blame(found: Reservation, former: int, cause: Cause) -> None:
    """Of several moves the last has its cause told, and the time before the first: until it is as early again, it is told that it moved."""
    if found.moved is None:
        found.former = former
    found.moved, found.culprit = cause


def blame_for(book: Book, late: Reservation) -> Cause:
    """Its time has come, and it could not start: who or what is in the way."""
    short = late.lacks(book.left(book.now, late.nodes, book.binding(late.gang)))
    lost = _closed_node(book, late)
    return (Code.RESERVATION_NODE_LOST, lost) if lost else _cause(book, late, short)


def _closed_node(book: Book, reservation: Reservation) -> str:
    """A node of it that no longer takes such pods."""
    names = book.session.room.table.names
    for seat in reservation.seats:
        is_open = book.session.placer.allowed(seat.shape)[np.asarray(seat.nodes, dtype=np.intp)]
        if not is_open.all():
            return names[seat.nodes[int(np.argmin(is_open))]]
    return ""


def _cause(book: Book, reservation: Reservation, short: Mask) -> Cause:
    """Who or what takes the room on the nodes that are short."""
    table = book.session.room.table
    too_small = reservation.lacks(table.allocatable[:, reservation.nodes])
    if too_small.any():
        return Code.RESERVATION_NODE_LOST, table.names[reservation.nodes[too_small][0]]
    nodes = reservation.nodes[short] if short.any() else reservation.nodes
    return _running_cause(book, reservation, nodes.tolist()) or _promised_cause(book, reservation, set(nodes.tolist()))


def _running_cause(book: Book, reservation: Reservation, nodes: Sequence[int]) -> Cause | None:
    """A gang that runs there, and should be gone or should not have come."""
    gangs, estimates = book.session.gangs, book.estimates
    there = {task.gang for node in nodes for task in book.session.room.table.tasks[node]}
    running = [gangs[key] for key in sorted(there) if key in gangs and gangs[key].gang.held]
    for gang in running:
        if estimates.is_overdue(gang):
            return Code.RESERVATION_OUTLIVED, gang.key
    for gang in running:
        if estimates.end(gang) > reservation.time:
            is_newer = (gang.gang.started or book.now) >= reservation.since
            return (Code.RESERVATION_OUTRANKED if is_newer else Code.RESERVATION_OUTLIVED), gang.key
    return None


def _promised_cause(book: Book, reservation: Reservation, nodes: set[int]) -> Cause:
    """A gang that this cycle has placed there, that others leave for, or of higher rank whose reservation lies there now."""
    for move in book.profile.moves:
        if move.sign > 0 and move.gang is not reservation.gang and nodes.intersection(move.nodes):
            return Code.RESERVATION_OUTRANKED, move.gang.key
    for key, statement in book.session.reserved_room.held.items():
        if any(nodes.intersection(placement.nodes) for placement in statement.placements):
            return Code.RESERVATION_OUTRANKED, key
    for other in book.standing.values():
        if book.outranks(other.gang, reservation.gang) and nodes.intersection(other.nodes.tolist()):
            return Code.RESERVATION_OUTRANKED, other.gang.key
    return Code.RESERVATION_ROOM_TAKEN, ""


def reasons(book: Book) -> list[tuple[GangState, Reason]]:
    """What the gangs of a book are told: what is reserved for them, and why that became later or ended."""
    told = []
    for each in book.standing.values():
        facts = Facts(until=instant.format_instant(each.time), free=len(each.nodes))
        told.append((each.gang, Reason(Code.RESERVED, NAME, facts, cure=Cure.WAITING)))
        # Times are told in whole seconds: within one, nobody would see that anything moved.
        if each.moved is not None and facts.until > instant.format_instant(each.former):
            told.append((each.gang, _moved(each.moved, each.culprit, each.former, each.time)))
    for key, ended in book.ended.items():
        told.append((book.session.gangs[key], _moved(ended.code, ended.culprit, ended.time, None)))
    return told


def _moved(code: Code, culprit: str, former: Instant, until: Instant | None) -> Reason:
    is_node = code is Code.RESERVATION_NODE_LOST
    facts = Facts(
        gang="" if is_node else culprit,
        node=culprit if is_node else "",
        former=instant.format_instant(former),
        until="" if until is None else instant.format_instant(until),
    )
    return Reason(code, NAME, facts, cure=Cure.WAITING)

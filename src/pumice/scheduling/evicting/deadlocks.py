"""Gangs that hold something while they wait for more: found in every cycle, named with numbers, and broken where the policy says so.

A gang starts as a whole or not at all, so two of them never share a cluster by halves. Three ways to stand in each other's way are left:

- Half alive: a gang that runs loses members with a node, others take the room, and there is none for the members made anew. What is left of it
  holds its room. If another gang could start with that room, be it one in the same plight, there is a deadlock. It is broken where
  least work is lost: the gang leaves whole, and waits for all of its room again.
- Admitted in vain: a gang that was let into its queue and finds no room keeps what it was promised, and so others out for which there is room.
  It gives its admission back, and may ask for it again after a while.
- Grown in front of others: members beyond a gang's minimum hold room with which a gang of equal priority would start (`surplus`). Where the policy
  breaks deadlocks, so many of them leave as it needs.

Whether a gang could start is not worked out here: the engine evicts and places in a statement, and takes it back.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from pumice import instant
from pumice.api.scheduling import PodGroupPhase
from pumice.cluster import amounts
from pumice.cluster.tasks import EVICTABLE, Status
from pumice.scheduling.core.codes import Amount, Code, Facts
from pumice.scheduling.core.memory import Slot, past
from pumice.scheduling.core.verdict import Cause, Cure, Reason
from pumice.scheduling.evicting import eviction, gang_eviction, lost_work, mend, surplus
from pumice.scheduling.sharing import admitted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pumice.cluster.amounts import Amounts
    from pumice.cluster.queues import QueueInfo
    from pumice.cluster.tasks import Task
    from pumice.instant import Instant
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.statement import Operation, Statement

RULE = "deadlock"
HOLDERS_MAX = 64  # that are looked at in one cycle
VICTIMS_TRIED_MAX = 4  # and for each of them so many gangs that may start by it
STARTS_TRIED_MAX = 4
KEPT_OUT_MAX = 16  # gangs of a queue of which it is asked who keeps them out
NAMED_MAX = 4  # in a reason
GIVEN_BACK_BY = instant.SECOND  # when the cluster knows that an admission was given back

_QUEUE_IS_FULL = frozenset({Code.QUEUE_QUOTA_INSUFFICIENT, Code.QUEUE_QUOTA_USED, Code.QUEUE_SHARE_USED})
_LACKS_SHARE = frozenset({Code.QUEUE_QUOTA_USED, Code.QUEUE_SHARE_USED, Code.QUEUE_SHARE_TOO_SMALL})
_CLUSTER_IS_FULL = Code.CLUSTER_OVERCOMMITTED


class Pause(msgspec.Struct, frozen=True):
    """A gang that gave its admission back: until when it stays out, for whom, and how long it had kept them out."""

    until: int
    names: tuple[str, ...]
    seconds: int
    for_share: bool = False  # its queue had no share for it: where it has one again, the gang may ask at once


class Known(msgspec.Struct, frozen=True):
    """By uid: since when gangs hold and wait, and which of them stay out of their queue."""

    since: Mapping[str, int] = {}
    pauses: Mapping[str, Pause] = {}


SLOT = Slot("deadlocks", Known, persistent=True)  # else every new leader would begin the grace time anew


def run(session: Session) -> None:
    """After all actions: whoever is left waiting and holding is told so, and one of them leaves if it is time."""
    session.shared(Deadlocks).look()


def next_value(session: Session) -> Known:
    return session.shared(Deadlocks).known


def pause_of(session: Session, gang: GangState) -> Reason | None:
    """Why the gang is not to be admitted now although nothing else keeps it out."""
    return session.shared(Deadlocks).pause_of(gang)


class Deadlocks:
    """The deadlocks of one cycle."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.breaks = session.policy.break_deadlocks
        self.grace = session.policy.deadlock_grace
        self.known = session.memory.of(SLOT)
        self._since: dict[str, Instant] = {}
        uids = {gang.uid for gang in session.restless} if self.known.pauses else set()
        self._pauses = {
            uid: pause for uid, pause in self.known.pauses.items() if uid in uids and self._holds_good(pause)
        }

    def look(self) -> None:
        halves = [gang for gang in self.session.restless if self._is_half_alive(gang)][:HOLDERS_MAX]
        if halves:
            self._look_at_halves(halves)
        if self.breaks:
            self._look_at_surplus()
        self._look_at_keepers(self._keepers())
        self.session.changes_at += [pause.until for pause in self._pauses.values()]
        self.known = Known(dict(sorted(self._since.items())), dict(sorted(self._pauses.items())))

    def _holds_good(self, pause: Pause) -> bool:
        """One that has not begun was written by a machine whose clock was ahead, and would keep the gang out for as long as that."""
        return pause.until > self.session.now and past(pause.until - self.grace, self.session.now) is not None

    def pause_of(self, gang: GangState) -> Reason | None:
        pause = self._pauses.get(gang.uid)
        if (
            pause is not None
            and pause.for_share
            and gang.tasks
            and self._may_take_one(self.session.queue_of(gang), gang)
        ):
            del self._pauses[gang.uid]
            return None
        return None if pause is None else _given_back(pause)

    def _began(self, gang: GangState) -> Instant:
        """When the gang was first seen to hold and wait."""
        known = past(self.known.since.get(gang.uid), self.session.now)
        return self._since.setdefault(gang.uid, self.session.now if known is None else known)

    def _until(self, gang: GangState) -> Instant | None:
        """When it has to give up what it holds; None where the policy leaves it alone."""
        if not self.breaks:
            return None
        until = self._began(gang) + self.grace
        self.session.changes_at += [until] if until > self.session.now else []
        return until

    # ------------------------------------------------------------------------------------------------- half alive

    def _is_half_alive(self, gang: GangState) -> bool:
        session, tally = self.session, gang.tally
        if not tally.occupying or not tally[Status.PENDING] or gang.key in session.aside.gangs:
            return False
        return (
            not session.is_ready(gang)
            and not session.is_pipelined(gang)
            and session.obstacle(gang) is None
            and not mend.members_to_mend(gang, session.now)  # never started: mend gives it up
        )

    def _look_at_halves(self, halves: Sequence[GangState]) -> None:
        self._since |= {gang.uid: self._began(gang) for gang in halves}
        hopes = _set_aside(self.session)
        statement = victim = helped = None
        for victim, helped in self._pairs(halves):
            statement = self._try(victim, helped)
            if statement is not None:
                break
        until = self._until(victim) if statement is not None and victim is not None else None
        for gang in halves:
            gang.reasons.insert(0, self._holds(gang, victim, helped, until) if statement else self._holds(gang))
        if statement is not None and helped is not None and until is not None and until <= self.session.now:
            statement.commit()
            self._since[helped.uid] = self.session.now  # it has its own grace time to make use of the room
            return
        if statement is not None:
            statement.rollback()
        _put_back(hopes)

    def _pairs(self, halves: Sequence[GangState]) -> Iterator[tuple[GangState, GangState]]:
        """Who might leave for whom, at the lowest loss of work first; nobody leaves for a gang of lower priority."""
        victims = [gang for gang in halves if self._may_leave(gang)]
        waiting = self._first_in_line() if victims else []
        work = {gang.key: lost_work.card_seconds(gang.tasks_in(*EVICTABLE), self.session.now) for gang in victims}
        victims.sort(key=lambda gang: (work[gang.key], gang.priority, gang.key))
        for victim in victims[:VICTIMS_TRIED_MAX]:
            for gang in [*(half for half in halves if half is not victim), *waiting][:STARTS_TRIED_MAX]:
                if gang.priority >= victim.priority and self.session.spend(1):
                    yield victim, gang

    def _first_in_line(self) -> list[GangState]:
        """Gangs that wait for room as a whole, in the order in which actions ask."""
        session = self.session
        waiting = [
            gang
            for gang in session.restless
            if session.takes_part(gang)
            and not gang.tally.occupying
            and not gang.tally[Status.PIPELINED]
            and session.obstacle(gang) is None
        ]
        return heapq.nsmallest(
            STARTS_TRIED_MAX, waiting, key=lambda gang: (session.gang_key(gang), gang.spec.created, gang.key)
        )

    def _may_leave(self, gang: GangState) -> bool:
        """Whether all of it may be evicted, and will be made anew by somebody."""
        tasks = self._members(gang)
        replaced = all(task.preemptable and task.pod.metadata.controller is not None for task in tasks)
        return bool(tasks) and replaced and len(self.session.points.shuffled.allowed(tasks)) == len(tasks)

    def _members(self, gang: GangState) -> list[Task]:
        return [task for task, _ in self.session.on_nodes(gang.tasks_in(*EVICTABLE))]

    def _try(self, victim: GangState, helped: GangState) -> Statement | None:
        """The plan by which one leaves and the other starts; None where it would not start."""
        session = self.session
        seconds = (session.now - self._began(victim)) // instant.SECOND
        facts = Facts(
            gang=victim.key, free=victim.tally.ready, wanted=victim.minimum, names=(helped.key,), seconds=seconds
        )
        statement = session.statement(helped)
        for task in self._members(victim):
            statement.evict(task, RULE, Cause(Code.VICTIM_OF_DEADLOCK, facts))
        if self._starts(statement, helped) or self._is_lent_room(statement, helped):
            return statement
        statement.rollback()
        return None

    def _starts(self, statement: Statement, helped: GangState) -> bool:
        """Whether there are places for it; they are in the statement then."""
        mark = statement.checkpoint()
        with self.session.turn_of(helped):
            works = gang_eviction.promise_places(self.session, statement, helped)
            works = works and eviction.is_worth_it(self.session, statement, helped)
        if not works:
            statement.rollback(mark)
        return works

    def _is_lent_room(self, statement: Statement, helped: GangState) -> bool:
        """Whether it would start beyond its queue's share: then action lend gives it the room once it is free, and no claim is needed."""
        session, mark = self.session, statement.checkpoint()
        allowance = session.points.allocatable
        if "lend" not in session.policy.actions or not allowance.may_exceed(session.queue_of(helped), helped):
            return False
        with allowance.exceeding():
            works = self._starts(statement, helped)
        statement.rollback(mark)
        return works

    def _holds(
        self,
        gang: GangState,
        victim: GangState | None = None,
        helped: GangState | None = None,
        until: Instant | None = None,
    ) -> Reason:
        """What a gang that is half alive is told: what it holds, who would start with that, or whose room it would start with."""
        waits_for = victim.key if victim is not None and gang is helped else ""
        names = (helped.key,) if helped is not None and gang is victim else ()
        facts = Facts(
            amounts=_held(gang.gang.occupied),
            free=gang.gang.counts[Status.RUNNING] + gang.gang.counts[Status.BOUND],
            wanted=gang.minimum,
            gang=waits_for,
            names=names,
            until=instant.format_instant(until) if until is not None and (waits_for or names) else "",
        )
        return Reason(Code.HOLDS_WHILE_WAITING, RULE, facts, cure=Cure.WAITING)

    # ------------------------------------------------------------------------------------------------- grown in front of others

    def _look_at_surplus(self) -> None:
        """The first in line that would start with what others can spare is told so, and gets it once it is time."""
        session = self.session
        hopes = _set_aside(session)
        first = (gang for gang in self._first_in_line() if gang.key not in session.made_room_for and session.spend(1))
        plans = ((gang, surplus.plan_for(session, gang, RULE)) for gang in first)
        gang, statement = next((each for each in plans if each[1] is not None), (None, None))
        if gang is not None and statement is not None:
            until = self._began(gang) + self.grace
            if until <= session.now:
                statement.commit()
                return
            session.changes_at.append(until)
            gang.reasons.append(_surplus_ahead(statement, until))
            statement.rollback()
        _put_back(hopes)

    # ------------------------------------------------------------------------------------------------- admitted in vain

    def _keepers(self) -> list[tuple[GangState, list[str]]]:
        """Admitted gangs without room, and whom each keeps out of its queue for whom there is room; who has given its admission back first, then the last in line."""
        session = self.session
        outside = _kept_out(session.restless)
        if not outside:
            return []
        hopes = _set_aside(session)  # members that fit one by one are no places of their gang
        keepers = [gang for gang in session.restless if self._is_admitted_in_vain(gang)]
        room = _idle(session)
        _put_back(hopes)
        found: dict[str, list[str]] = {}
        for gang, why in outside:
            if amounts.within(gang.spec.minimum or {}, room):
                for keeper in (each for each in keepers if self._keeps_out(each, gang, why)):
                    found.setdefault(keeper.key, []).append(gang.key)
        gangs = [session.gangs[key] for key in found]
        gangs.sort(key=lambda gang: (gang.uid in self._pauses, session.gang_key(gang), gang.spec.created), reverse=True)
        return [(gang, found[gang.key]) for gang in gangs]

    def _is_admitted_in_vain(self, gang: GangState) -> bool:
        """It was let in before this cycle, or has had its turn in it, has got nothing, and there is no time at which it will."""
        session = self.session
        has_nothing = not gang.tally.occupying and not gang.tally[Status.PIPELINED]
        is_admitted = gang.phase == PodGroupPhase.INQUEUE.value and gang.spec.minimum is not None
        is_admitted = is_admitted and (gang.spec.phase == gang.phase or _lacks_share(gang))
        promised = gang.key in session.made_room_for or gang.key in session.reservations
        return is_admitted and has_nothing and not promised and gang.key not in session.ports.resting

    def _keeps_out(self, keeper: GangState, gang: GangState, why: Reason) -> bool:
        over = why.facts.names if why.code is _CLUSTER_IS_FULL else [each.resource for each in why.facts.amounts]
        held = admitted.ungated_minimum(keeper)
        is_near = why.code is _CLUSTER_IS_FULL or keeper.queue == gang.queue
        return is_near and bool(over) and all(held.get(name, 0) > 0 for name in over)

    def _is_no_use_to(self, keeper: GangState, kept_out: Iterable[str]) -> bool:
        """Whether free room is no use to the gang, because its queue has no share for it, and is to another queue, a gang of which it keeps out."""
        if not _lacks_share(keeper):
            return False
        others = {self.session.gangs[key].queue for key in kept_out} - {keeper.queue}
        return any(self._may_take_one(self.session.queues[name], keeper) for name in sorted(others))

    def _may_take_one(self, queue: QueueInfo, like: GangState) -> bool:
        """Whether the queue has a share for one more such pod, or is lent room because it lacks something of its share."""
        allowance = self.session.points.allocatable
        if allowance.of(queue, self.session.shape(like.tasks[0]), 1):
            return True
        return "lend" in self.session.policy.actions and allowance.may_exceed(queue, like)

    def _look_at_keepers(self, keepers: Sequence[tuple[GangState, list[str]]]) -> None:
        """The first whose time has come gives back its admission; the others keep their time, and are looked at again with what that has changed."""
        for number, (keeper, kept_out) in enumerate(keepers):
            if self._look_at_keeper(keeper, kept_out):
                self._since |= {gang.uid: self._began(gang) for gang, _ in keepers[number + 1 :]}
                self.session.changes_at.append(self.session.now + GIVEN_BACK_BY)
                return

    def _look_at_keeper(self, keeper: GangState, kept_out: Sequence[str]) -> bool:
        """Tell the gang what it does, or take its admission back; whether the latter."""
        given_back = self._pauses.get(keeper.uid)
        if given_back is not None:  # in a cycle before, and the cluster does not know yet
            return self._send_back(keeper, given_back)
        began, until = self._began(keeper), self._until(keeper)
        if until is not None and self._is_no_use_to(keeper, kept_out):
            until = self.session.now
        names = tuple(sorted(kept_out)[:NAMED_MAX])
        if until is None or until > self.session.now:
            text = "" if until is None else instant.format_instant(until)
            facts = Facts(queue=keeper.queue, amounts=_held(keeper.spec.minimum or {}), names=names, until=text)
            keeper.reasons.insert(0, Reason(Code.QUOTA_HELD, RULE, facts, cure=Cure.WAITING))
            return False
        seconds = (self.session.now - began) // instant.SECOND
        for_share = _lacks_share(keeper) and not self._may_take_one(self.session.queue_of(keeper), keeper)
        self._pauses[keeper.uid] = pause = Pause(self.session.now + self.grace, names, seconds, for_share)
        del self._since[keeper.uid]
        return self._send_back(keeper, pause)

    def _send_back(self, keeper: GangState, pause: Pause) -> bool:
        keeper.send_back()
        keeper.reasons.insert(0, _given_back(pause))
        return True


def _set_aside(session: Session) -> list[tuple[Statement, list[Operation]]]:
    """Hopes would be in the way of what is tried."""
    hopes = [(statement, list(statement.operations)) for statement in session.hopes()]
    for statement, _ in hopes:
        statement.rollback(remember=True)
    return hopes


def _put_back(hopes: Iterable[tuple[Statement, list[Operation]]]) -> None:
    for hope, operations in hopes:
        hope.replay(operations)


def _kept_out(gangs: Iterable[GangState]) -> list[tuple[GangState, Reason]]:
    """Who is kept out, and why; some of each queue, because what keeps one queue's gangs out may be of use to another's."""
    found: list[tuple[GangState, Reason]] = []
    seen: Counter[str] = Counter()
    for gang in gangs:
        why = _kept_out_by(gang) if seen[gang.queue] < KEPT_OUT_MAX else None
        if why is not None:
            seen[gang.queue] += 1
            found.append((gang, why))
    return found


def _kept_out_by(gang: GangState) -> Reason | None:
    """The reason for which the gang is not admitted, where that is about what others were promised."""
    if not gang.is_waiting_for_admission or gang.spec.minimum is None:
        return None
    return next((each for each in gang.reasons if each.code is _CLUSTER_IS_FULL or each.code in _QUEUE_IS_FULL), None)


def _lacks_share(gang: GangState) -> bool:
    """Whether the gang found its queue without a share for it, in its turn: so it has members."""
    return bool(gang.tasks) and any(reason.code in _LACKS_SHARE for reason in gang.reasons)


def _idle(session: Session) -> Amounts:
    idle = np.clip(session.room.idle, 0, None)
    return {name: sum(idle[row].tolist()) for row, name in enumerate(session.room.table.axis.names)}


def _held(held: Amounts) -> tuple[Amount, ...]:
    """What counts of what is held: cards where there are any."""
    names = [name for name in amounts.in_reading_order(held) if name != amounts.PODS and held[name]]
    cards = [name for name in names if "/" in name]
    return tuple(Amount.of(name, held=held[name]) for name in cards or names)


def _surplus_ahead(statement: Statement, until: Instant) -> Reason:
    gangs = sorted({each.gang.key for each in statement.evictions})
    facts = Facts(free=len(statement.evictions), names=tuple(gangs[:NAMED_MAX]), until=instant.format_instant(until))
    return Reason(Code.SURPLUS_AHEAD, RULE, facts, cure=Cure.WAITING)


def _given_back(pause: Pause) -> Reason:
    facts = Facts(names=pause.names, seconds=pause.seconds, until=instant.format_instant(pause.until))
    return Reason(Code.QUOTA_GIVEN_BACK, RULE, facts, cure=Cure.WAITING)

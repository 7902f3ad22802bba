"""Gangs that start without a cycle: nobody else waits, and room, filters and scores decide where their equal pods go.

A cycle for one gang that comes to a cluster in which all others run would open and close all plugins, and look at whatever may have changed, to ask
one thing: which nodes? Here one session stays open from one instant to the next, and its placer is asked, with the filters and scores of the policy's
plugins. The room that gangs take, and give back when they end, is that of the session; what plugins learn from starts and ends, they keep up
instant by instant (`Books`). Where their books know all that they say while gangs wait, gangs wait here, too (`open_policy`, `open_turns`). The
cluster learns of gangs that still run when somebody needs a cycle; of most it never does.
"""

from __future__ import annotations

import heapq
from collections import Counter
from typing import TYPE_CHECKING, Any

from pumice.scheduling import plugins
from pumice.scheduling.core import cycle
from pumice.scheduling.core.plugin import Books, Holder, SilentBooks
from pumice.scheduling.placing.open_placer import OpenPlacer
from pumice.scheduling.time import open_policy
from pumice.scheduling.time.crowd import Standing, Waiting, amounts_of, kind_of
from pumice.scheduling.time.open_policy import Reach
from pumice.scheduling.time.open_turns import places
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    import msgspec

    from pumice.cluster.state import Cluster
    from pumice.instant import Instant
    from pumice.scheduling.core.memory import Memory, Slot
    from pumice.scheduling.core.policy import Policy
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape
    from pumice.scheduling.time.backlog import Ask, Objects
    from pumice.scheduling.time.crowd import Kind
    from pumice.scheduling.time.open_turns import Turns

# Those that do nothing while nobody waits; the others may evict unasked.
ACTIONS = frozenset({"enqueue", "allocate", "preempt", "reclaim", "lend", "backfill"})
SAY_NOTHING = frozenset({Books, SilentBooks})


class Started(Value, eq=False):
    """A gang that runs: since when, and the nodes of its pods in their order."""

    ask: Ask
    objects: Objects
    at: Instant
    nodes: Sequence[str]
    holder: Holder
    shape: Shape
    columns: list[int]  # the nodes in the session's room


class Leaving(Value):
    """What a session that is closed leaves behind."""

    running: Sequence[Started]
    waiting: Sequence[Standing]
    learned: Sequence[tuple[Slot[Any], msgspec.Struct]]


class DirectStarts:
    """Gangs that run and that the cluster does not know, and those that wait: in `strict` queues for the first of them, else in the turns that plugins give them.

    Where more has a say in who waits, the first that does not fit ends it: who may pass it, and what is reserved for it, a cycle decides.
    """

    def __init__(self, cluster: Cluster, policy: Policy, *, strict: bool) -> None:
        assert may_start(policy), f"{policy.source}: an action or a plugin needs cycles"
        self._cluster = cluster
        self._policy = policy
        self._is_strict = strict
        self.is_line = False  # whether the first of a queue waits for room, and the others for it
        self.lets_wait = True  # as far as is known
        self._session: Session | None = None
        self._standing: Sequence[Standing] = ()  # that have not been taken in yet
        self._is_refused = False  # by a plugin, for what its arguments or the cluster say
        self._books: list[tuple[Slot[Any] | None, Books]] = []  # with something in them; and the plugin's memory
        self._names: Sequence[str] = ()  # of its nodes
        self._turns: Turns | None = None  # where books know what their plugins say while gangs wait
        self._reach = Reach.ANY  # of those
        self._lines: dict[str, list[tuple[tuple[int, str], Ask, Objects]]] = {}  # by queue, as heaps
        self._running: dict[str, Started] = {}
        self._queues: Counter[str] = Counter()  # gangs that run, those included that the cluster knows
        self._kinds: dict[Hashable, Kind] = {}

    def start(
        self,
        coming: Sequence[tuple[Ask, Objects]],
        now: Instant,
        memory: Memory,
        standing: Sequence[Standing] = (),
    ) -> list[Started] | None:
        """Those that start at this instant, each whole, in the order of their turns; None where a cycle has to decide, and this is to be closed. `standing`: who
        waits as the session opens, and is not in the cluster any more.
        """
        session = self._session or self._open(now, memory)
        self._standing = standing
        if session is None:
            return None
        if self.is_line:
            self._standing = ()
            return self._start_first(session, [*((each.ask, each.objects) for each in standing), *coming], now)
        if standing:
            if self._turns is None or not self._take_in(session, self._turns, memory):
                return None
            self._standing = ()
        if self._turns is not None and self._is_within_reach(self._turns, coming):
            started = self._take_turns(session, self._turns, coming, now)
        elif self.waits:
            return None
        else:
            started = self._start_all(session, coming, now)
        if started is not None:
            self.settle(started, now)
        return started

    def end(self, gang: str) -> bool:
        """Whether the gang is one of these; it gives its room back."""
        started = self._running.pop(gang, None)
        if started is not None and self._session is not None:
            self._session.room.allocate(started.shape.demand, started.columns, -1)
            self._has_ended(gang, started.holder)
        return started is not None

    def ended(self, gang: str) -> None:
        """A gang that the cluster knows has ended, and had not changed before."""
        session = self._session
        if session is None:
            return
        known, room = session.snapshot.gangs[gang], session.room
        for request, nodes in known.held:
            columns = [room.table.index[node] for node in nodes if node in room.table.index]
            room.allocate(room.table.axis.demand(request), columns, -1)
        self._has_ended(gang, Holder(known.spec.queue, known.spec, known.tasks[0], len(known.tasks), known.occupied))

    @property
    def next_change(self) -> Instant | None:
        """When to look again although nobody comes or ends."""
        return None if self._turns is None else self._turns.next_change()

    @property
    def is_open(self) -> bool:
        return self._session is not None or bool(self._standing)

    @property
    def waits(self) -> bool:
        """Whether somebody does here."""
        return bool(self._turns is not None and len(self._turns.crowd)) or any(self._lines.values())

    def close(self, now: Instant) -> Leaving:
        """The cluster is to know from now on of gangs that run and that wait, and the memory what plugins have learned."""
        lines = self._lines.values()
        waiting = [*self._standing, *(Standing(*each[1:], is_admitted=True) for line in lines for each in sorted(line))]
        # While some have not been taken in, books do not know of them, and nobody else waits.
        learned = [] if self._standing else self._learned(now)
        if self._turns is not None:
            waiting += [Standing(each.ask, each.objects, admitted) for each, admitted in self._turns.waiting()]
        left = Leaving(list(self._running.values()), waiting, learned)
        self._session, self._books, self._turns = None, [], None
        self._running, self._lines, self._kinds, self._standing = {}, {}, {}, ()
        self._queues.clear()
        return left

    def _learned(self, now: Instant) -> list[tuple[Slot[Any], msgspec.Struct]]:
        found = [(slot, books.learned(now)) for slot, books in self._books if slot is not None]
        own = [] if self._turns is None else self._turns.learned()
        return [*((slot, value) for slot, value in found if value is not None), *own]

    def _open(self, now: Instant, memory: Memory) -> Session | None:
        """None where a plugin cannot stay open after all."""
        if self._is_refused:
            return None
        session = cycle.open_session(self._cluster.snapshot(), self._policy, memory, now=now)
        found = [(plugin.memory, plugin.open_books(session)) for plugin in session.plugins]
        self._is_refused = any(books is None for _, books in found)
        if self._is_refused:
            return None
        session.placer = OpenPlacer(session)
        self._books = [(slot, books) for slot, books in found if books is not None and type(books) not in SAY_NOTHING]
        named = [option.name for option in self._policy.options]
        by_plugin = {name: books for name, (_, books) in zip(named, found, strict=True) if books is not None}
        knows_all = len(by_plugin) == len(named) and all(books.while_waiting for books in by_plugin.values())
        self._turns, self.is_line, self.lets_wait = None, False, knows_all and open_policy.waits_as_whole(session)
        if self.lets_wait and open_policy.runs_as_equals(session):
            self.is_line = self._is_strict and not self._books
            self._turns = None if self._is_strict else open_policy.turns_of(session, by_plugin)
            self._reach = open_policy.reach_of(session, by_plugin)
            self.lets_wait = self.is_line or self._turns is not None
        self._names = session.room.table.names
        self._queues.update(gang.spec.queue for gang in session.snapshot.gangs.values() if gang.held)
        self._session = session
        return session

    def settle(self, started: Sequence[Started], now: Instant) -> None:
        """Books learn of an instant, after all that has ended at it."""
        holders = [each.holder for each in started]
        for _, books in self._books:
            for holder in holders:
                books.waits(holder, -1)
            books.settle(holders, now)

    def _has_ended(self, key: str, gang: Holder) -> None:
        self._queues[gang.queue] -= 1
        if not self._queues[gang.queue]:
            del self._queues[gang.queue]
        for _, books in self._books:
            books.ended(gang)
        if self._turns is not None:
            self._turns.gone(key)

    def _is_within_reach(self, turns: Turns, coming: Sequence[tuple[Ask, Objects]]) -> bool:
        """Whether as few queues have gangs as plugins have to know."""
        if self._reach is Reach.ANY:
            return True
        first_and_last = (*turns.crowd.gangs[:1], *turns.crowd.gangs[-1:])  # those of a queue stand together
        queues = {ask.queue for ask, _ in coming} | {each.ask.queue for each in first_and_last}
        if self._reach is Reach.ONE_IN_USE:
            queues |= self._queues.keys()
        return len(queues) <= 1

    # ------------------------------------------------------------------------------------------------- turns

    def _start_first(self, session: Session, coming: Iterable[tuple[Ask, Objects]], now: Instant) -> list[Started]:
        """Of these and of those that wait in line: who finds room before the first of its queue that finds none."""
        for ask, objects in coming:
            heapq.heappush(self._lines.setdefault(ask.queue, []), (ask.place, ask, objects))
        found = []
        for queue in sorted(self._lines, key=self._rank):
            line = self._lines[queue]
            while line:
                waiting = self._waiting(session, *line[0][1:])
                nodes = self._places(session, waiting)
                if nodes is None:
                    break
                heapq.heappop(line)
                found.append(self._has_started(waiting, nodes, now))
        return found

    def _start_all(self, session: Session, coming: Sequence[tuple[Ask, Objects]], now: Instant) -> list[Started] | None:
        """All of these; None, and none of them, where one finds no room, or a plugin does not know who comes first."""
        ordered = sorted([self._waiting(session, *each) for each in coming], key=lambda each: each.turn)
        asking = {id(each.holder): each for each in ordered}
        turns: Sequence[Holder] | None = [each.holder for each in ordered]
        for _, books in self._books if coming else ():
            turns = None if turns is None else books.come(turns, now)
        if turns is None:
            return None
        found: list[Started] = []
        for turn in turns:
            nodes = self._places(session, asking[id(turn)])
            if nodes is None:
                for each in found:
                    del self._running[each.ask.gang]
                return None
            found.append(self._has_started(asking[id(turn)], nodes, now))
        if self._turns is not None:
            for each in found:
                self._turns.started(asking[id(each.holder)], each.columns, now)
        return found

    def _take_turns(
        self, session: Session, turns: Turns, coming: Sequence[tuple[Ask, Objects]], now: Instant
    ) -> list[Started] | None:
        """Of these and of those that wait: whose turns come to something."""
        waiting = [self._waiting(session, *each) for each in coming]
        if not all(each.kind.is_plain for each in waiting):
            return None
        for each in waiting:
            for _, books in self._books:
                books.waits(each.holder, 1)
        if not waiting and not len(turns.crowd):
            return []
        found = turns.take(waiting, now)
        return None if found is None else [self._has_started(each, nodes, now) for each, nodes in found]

    def _take_in(self, session: Session, turns: Turns, memory: Memory) -> bool:
        """Those that wait as the session opens; False where gangs like them need cycles."""
        waiting = [self._waiting(session, each.ask, each.objects) for each in self._standing]
        if not all(each.kind.is_plain for each in waiting):
            return False
        for each, standing in zip(waiting, self._standing, strict=True):
            for _, books in self._books:
                books.waits(each.holder, 1)
            turns.take_in(each, is_admitted=standing.is_admitted)
        turns.recall(memory)
        return True

    def _rank(self, queue: str) -> tuple[str, str]:
        return self._cluster.queues[queue].created, queue

    def _waiting(self, session: Session, ask: Ask, objects: Objects) -> Waiting:
        kind = self._kinds.get(ask.kind)
        if kind is None:
            kind = self._kinds[ask.kind] = kind_of(session, ask, objects())
        asked = amounts_of(kind.shape.request.amounts, ask.pods)
        holder = Holder(ask.queue, kind.spec, kind.shape.example, ask.pods, asked)
        return Waiting((self._rank(ask.queue), ask.place), ask, objects, kind, holder)

    def _places(self, session: Session, waiting: Waiting) -> list[int] | None:
        return places(session, waiting.kind.shape, waiting.ask.pods) if waiting.kind.is_known else None

    def _has_started(self, waiting: Waiting, columns: list[int], now: Instant) -> Started:
        ask, shape = waiting.ask, waiting.kind.shape
        nodes = [self._names[column] for column in columns]
        started = Started(ask, waiting.objects, now, nodes, waiting.holder, shape, columns)
        self._running[ask.gang] = started
        self._queues[ask.queue] += 1
        return started


def may_start(policy: Policy) -> bool:
    """Whether a gang that comes while nobody waits starts if there is room, as far as the policy alone says it."""
    named = (plugins.find(option.name, cycle.NO_PLUGINS) for option in policy.options)
    return ACTIONS.issuperset(policy.actions) and all(plugin.stays_open for plugin in named)

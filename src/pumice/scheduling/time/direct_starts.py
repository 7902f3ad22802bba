"""Gangs that start without a cycle: nobody else waits, and room, filters and scores decide where their equal pods go.

A cycle for one gang that comes to a cluster in which all others run would open and close all plugins, and look at whatever may have changed, to ask
one thing: which nodes? Here one session stays open from one instant to the next, and its placer is asked, with the filters and scores of the policy's
plugins. The room that gangs take, and give back when they end, is that of the session; what plugins learn from starts and ends, they keep up
instant by instant (`Books`). Where one plugin alone has a say while gangs wait, and knows what (`OpenReservation`, `RankingBooks`), they wait here, too. The
cluster learns of gangs that still run when somebody needs a cycle; of most it never does.
"""

from __future__ import annotations

import bisect
import functools
import heapq
from typing import TYPE_CHECKING, Any

from pumice.api.pods import Pod
from pumice.api.scheduling import PodGroup
from pumice.cluster import gangs
from pumice.cluster.tasks import task_of
from pumice.scheduling import plugins
from pumice.scheduling.core import cycle
from pumice.scheduling.core.gangstate import GangState
from pumice.scheduling.core.plugin import Books, Holder, RankingBooks, StaysOpen
from pumice.scheduling.placing.open_placer import OpenPlacer
from pumice.scheduling.time.open_profile import run_on
from pumice.scheduling.time.open_reservation import OpenReservation
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    import msgspec

    from pumice.cluster.gangs import GangSpec
    from pumice.cluster.state import Cluster
    from pumice.instant import Instant
    from pumice.scheduling.core.memory import Memory, Slot
    from pumice.scheduling.core.policy import Policy
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape
    from pumice.scheduling.time.backlog import Ask, Objects

# Those that do nothing while nobody waits; the others may evict unasked.
ACTIONS = frozenset({"enqueue", "allocate", "preempt", "reclaim", "lend", "backfill"})
# Those that do nothing either while gangs wait, none of which outranks another.
ACTIONS_IN_TURN = frozenset({"enqueue", "allocate", "backfill"})
TOUCHED_MAX = 1_000_000  # nodes in the journal of a session; then its placer begins anew


class Kind(Value, eq=False):
    """What gangs of one kind have in common: the shape of their pods, and what the group of the first of them says."""

    shape: Shape
    spec: GangSpec
    is_known: bool  # whether nodes know all that they ask for, and nothing speaks against them


class Waiting(Value, eq=False):
    """A gang that has come and not started; in the order of turns."""

    turn: tuple[tuple[str, str], tuple[int, str]]
    ask: Ask
    objects: Objects
    kind: Kind


class Started(Value, eq=False):
    """A gang that runs: since when, and the nodes of its pods in their order."""

    ask: Ask
    objects: Objects
    at: Instant
    nodes: Sequence[str]
    holder: Holder
    shape: Shape
    columns: list[int]  # the nodes in the session's room


class DirectStarts:
    """Gangs that run and that the cluster does not know, and those that wait: in `strict` queues for the first of them, else beside a reservation
    or in the turns of a plugin.

    Where more has a say in who waits, the first that does not fit ends it: who may pass it, and what is reserved for it, a cycle decides.
    """

    def __init__(self, cluster: Cluster, policy: Policy, *, strict: bool) -> None:
        assert may_start(policy), f"{policy.source}: an action or a plugin needs cycles"
        self._cluster = cluster
        self._policy = policy
        self._is_strict = strict
        self._is_line = strict and _stays(policy) == {StaysOpen.IN_LINE}
        self._session: Session | None = None
        self._is_refused = False  # by a plugin, for what its arguments or the cluster say
        self._books: list[tuple[Slot[Any] | None, Books]] = []  # with something in them; and the plugin's memory
        self._names: Sequence[str] = ()  # of its nodes
        # Of the plugin that has a say while gangs wait, where there is one, and no other.
        self._reservation: OpenReservation | None = None
        self._ranking: RankingBooks | None = None
        self._waiting: list[Waiting] = []  # then
        self._states: dict[str, GangState] = {}  # of those that have had it
        self._lines: dict[str, list[tuple[tuple[int, str], Ask, Objects]]] = {}  # by queue, as heaps
        self._running: dict[str, Started] = {}
        self._kinds: dict[Hashable, Kind] = {}

    def start(self, coming: Sequence[tuple[Ask, Objects]], now: Instant, memory: Memory) -> list[Started] | None:
        """Those that start at this instant, each whole, in the order of their turns; None where a cycle has to decide, and this is to be closed."""
        session = self._session or self._open(now, memory)
        if session is None:
            return None
        if self._is_line:
            return self._start_first(session, coming, now)
        if self._reservation is not None:
            return self._take_turns(session, self._reservation, coming, now)
        if self._ranking is not None:
            started = self._start_in_turn(session, self._ranking, coming, now)
        else:
            started = self._start_all(session, coming, now)
        if started is not None:
            holders = [each.holder for each in started]
            for _, books in self._books:
                books.settle(holders, now)
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
        return None if self._reservation is None else self._reservation.next_change()

    @property
    def is_open(self) -> bool:
        return self._session is not None

    @property
    def waits(self) -> bool:
        """Whether somebody does here."""
        return bool(self._waiting) or any(self._lines.values())

    def close(
        self, now: Instant
    ) -> tuple[list[Started], list[tuple[Ask, Objects]], list[tuple[Slot[Any], msgspec.Struct]]]:
        """Gangs that run, and those that wait: the cluster is to know of them from now on. And what plugins have learned."""
        running = list(self._running.values())
        waiting = [entry[1:] for line in self._lines.values() for entry in sorted(line)]
        waiting += [(each.ask, each.objects) for each in self._waiting]
        learned = [
            (slot, value)
            for slot, books in self._books
            if slot is not None and (value := books.learned(now)) is not None
        ]
        self._session, self._books, self._reservation, self._ranking = None, [], None, None
        self._running, self._lines, self._waiting, self._kinds, self._states = {}, {}, [], {}, {}
        return running, waiting, learned

    def _open(self, now: Instant, memory: Memory) -> Session | None:
        """None where a plugin cannot stay open after all."""
        if self._is_refused:
            return None
        session = cycle.open_session(self._cluster.snapshot(), self._policy, memory, now=now)
        found = [(plugin.memory, plugin.open_books(session)) for plugin in session.plugins]
        self._is_refused = any(books is None for _, books in found)
        if self._is_refused:
            return None
        self._books = [(slot, books) for slot, books in found if books is not None and type(books) is not Books]
        self._let_wait([(plugin.stays_open, books) for plugin, (_, books) in zip(session.plugins, found, strict=True)])
        session.placer = OpenPlacer(session)
        self._names = session.room.table.names
        self._session = session
        return session

    def _let_wait(self, found: Iterable[tuple[StaysOpen, Books | None]]) -> None:
        """Gangs may wait here where one plugin at most has a say in that, and knows what."""
        deciding = [books for stays_open, books in found if stays_open is not StaysOpen.IN_LINE]
        policy = self._policy
        if (
            len(deciding) != 1
            or self._is_strict
            or policy.break_deadlocks
            or not ACTIONS_IN_TURN.issuperset(policy.actions)
        ):
            return
        if isinstance(deciding[0], OpenReservation):
            self._reservation = deciding[0]
        elif isinstance(deciding[0], RankingBooks) and deciding[0].knows_turns:
            self._ranking = deciding[0]

    def _has_ended(self, key: str, gang: Holder) -> None:
        for _, books in self._books:
            books.ended(gang)
        if self._reservation is not None:
            self._reservation.gone(key)

    # ------------------------------------------------------------------------------------------------- turns

    def _start_first(self, session: Session, coming: Iterable[tuple[Ask, Objects]], now: Instant) -> list[Started]:
        """Of these and of those that wait in line: who finds room before the first of its queue that finds none."""
        for ask, objects in coming:
            heapq.heappush(self._lines.setdefault(ask.queue, []), (ask.place, ask, objects))
        found = []
        for queue in sorted(self._lines, key=self._rank):
            line = self._lines[queue]
            while line:
                _, ask, objects = line[0]
                holder = self._holder(session, ask, objects)
                started = self._place(session, ask, objects, holder, now)
                if started is None:
                    break
                heapq.heappop(line)
                found.append(started)
        return found

    def _start_all(self, session: Session, coming: Sequence[tuple[Ask, Objects]], now: Instant) -> list[Started] | None:
        """All of these; None, and none of them, where one finds no room, or a plugin does not know who comes first."""
        if not coming:
            return []
        ordered = sorted(coming, key=lambda each: (self._rank(each[0].queue), each[0].place))
        asking = {id(holder := self._holder(session, *each)): (*each, holder) for each in ordered}
        turns: Sequence[Holder] | None = [holder for *_, holder in asking.values()]
        for _, books in self._books:
            turns = None if turns is None else books.come(turns, now)
        if turns is None:
            return None
        found: list[Started] = []
        for turn in turns:
            started = self._place(session, *asking[id(turn)], now)
            if started is None:
                for each in found:
                    del self._running[each.ask.gang]
                return None
            found.append(started)
        return found

    def _start_in_turn(
        self, session: Session, ranking: RankingBooks, coming: Sequence[tuple[Ask, Objects]], now: Instant
    ) -> list[Started] | None:
        """Of these and of those that wait: who finds room in its turn; None where they are of several queues."""
        if len({ask.queue for ask, _ in coming} | {each.ask.queue for each in self._waiting[:1]}) > 1:
            return None
        self._wait(session, coming)
        fitting = [each for each in self._waiting if each.ask.pods <= self._free(session, each.kind)]
        if not fitting:
            return []
        asking = {id(holder := self._holder(session, each.ask, each.objects)): (each, holder) for each in fitting}
        admitted = [self._holder(session, *each) for each in coming]
        found: list[Started] = []
        turns = ranking.turns([holder for _, holder in asking.values()], admitted, now)
        turn = next(turns, None)
        while turn is not None:
            waiting, holder = asking[id(turn)]
            started = self._place(session, waiting.ask, waiting.objects, holder, now)
            found += () if started is None else (started,)
            try:
                turn = turns.send(started is not None)
            except StopIteration:
                turn = None
        self._waiting = [each for each in self._waiting if each.ask.gang not in self._running]
        return found

    def _wait(self, session: Session, coming: Iterable[tuple[Ask, Objects]]) -> None:
        for ask, objects in coming:
            waiting = Waiting((self._rank(ask.queue), ask.place), ask, objects, self._kind(session, ask, objects))
            bisect.insort(self._waiting, waiting, key=lambda each: each.turn)

    def _free(self, session: Session, kind: Kind) -> int:
        return session.placer.free_places(kind.shape) if kind.is_known else 0

    def _take_turns(
        self, session: Session, reservation: OpenReservation, coming: Iterable[tuple[Ask, Objects]], now: Instant
    ) -> list[Started]:
        """Of these and of those that wait: who finds room beside the reservation, or makes it go elsewhere."""
        reservation.begin(now)
        self._wait(session, coming)
        found: list[Started] = []
        free: dict[Shape, int] = {}
        for each in self._waiting:
            ask, shape = each.ask, each.kind.shape
            if shape not in free:
                free[shape] = self._free(session, each.kind)
            nodes = self._places_beside(session, reservation, each, now) if ask.pods <= free[shape] else None
            if nodes is None:
                reservation.refused(ask, shape, functools.partial(self._state, each))
                continue
            free.clear()
            found.append(
                self._has_started(each.ask, each.objects, self._holder(session, ask, each.objects), nodes, now)
            )
            reservation.started(ask.gang, run_on(now, now + ask.estimate, shape, nodes))
            self._states.pop(ask.gang, None)
        if found:
            self._waiting = [each for each in self._waiting if each.ask.gang not in self._running]
        return found

    def _places_beside(
        self, session: Session, reservation: OpenReservation, waiting: Waiting, now: Instant
    ) -> list[int] | None:
        ask, shape = waiting.ask, waiting.kind.shape
        place = functools.partial(_places, session, shape, ask.pods)
        if not reservation.binds(ask, now + ask.estimate):
            return place()
        there, anywhere = reservation.places_beside(shape)
        if ask.pods <= there:
            return reservation.beside(place)
        return reservation.detour(shape, place) if ask.pods <= anywhere else None

    def _state(self, waiting: Waiting) -> GangState:
        """As a cycle would have it."""
        key = waiting.ask.gang
        state = self._states.get(key)
        if state is None:
            group, pods = _read(waiting.objects())
            spec = gangs.spec_of_pod_group(group, priority=0, default_queue=waiting.ask.queue)
            state = self._states[key] = GangState(gangs.gang_of(spec, [task_of(pod, gang=key) for pod in pods]))
        return state

    def _rank(self, queue: str) -> tuple[str, str]:
        return self._cluster.queues[queue].created, queue

    def _kind(self, session: Session, ask: Ask, objects: Objects) -> Kind:
        kind = self._kinds.get(ask.kind)
        if kind is None:
            kind = self._kinds[ask.kind] = _kind(session, ask, objects())
        return kind

    def _holder(self, session: Session, ask: Ask, objects: Objects) -> Holder:
        kind = self._kind(session, ask, objects)
        amounts = {name: value * ask.pods for name, value in kind.shape.request.amounts.items()}
        return Holder(ask.queue, kind.spec, kind.shape.example, ask.pods, amounts)

    def _place(self, session: Session, ask: Ask, objects: Objects, holder: Holder, now: Instant) -> Started | None:
        kind = self._kinds[ask.kind]
        columns = _places(session, kind.shape, ask.pods) if kind.is_known else None
        return None if columns is None else self._has_started(ask, objects, holder, columns, now)

    def _has_started(self, ask: Ask, objects: Objects, holder: Holder, columns: list[int], now: Instant) -> Started:
        nodes, shape = [self._names[column] for column in columns], self._kinds[ask.kind].shape
        started = self._running[ask.gang] = Started(ask, objects, now, nodes, holder, shape, columns)
        return started


def _kind(session: Session, ask: Ask, objects: Iterable[object]) -> Kind:
    group, pods = _read(objects)
    spec = gangs.spec_of_pod_group(group, priority=0, default_queue=ask.queue)
    shape = session.shape(task_of(pods[0], gang=ask.gang))
    is_known = session.room.table.axis.rows.keys() >= shape.request.amounts.keys()
    return Kind(shape, spec, is_known and session.placer.prefilter(shape) is None)


def _read(objects: Iterable[object]) -> tuple[PodGroup, list[Pod]]:
    things = list(objects)
    return next(each for each in things if isinstance(each, PodGroup)), [
        each for each in things if isinstance(each, Pod)
    ]


def _places(session: Session, shape: Shape, pods: int) -> list[int] | None:
    """Nodes for all of them, whose room is taken; None where one finds none."""
    room = session.room
    if len(room.touched) > TOUCHED_MAX:
        room.touched.clear()
        session.placer = OpenPlacer(session)
    if session.placer.free_places(shape) < pods:
        return None
    nodes: list[int] = []
    while len(nodes) < pods:
        places = session.placer.fill(shape, pods - len(nodes), task=shape.example)
        if not places.nodes or places.pipelined:
            room.allocate(shape.demand, nodes, -1)
            return None
        room.allocate(shape.demand, list(places.nodes))
        nodes += places.nodes
    return nodes


def may_start(policy: Policy) -> bool:
    """Whether a gang that comes while nobody waits starts if there is room, as far as the policy alone says it."""
    return ACTIONS.issuperset(policy.actions) and StaysOpen.NEVER not in _stays(policy)


def _stays(policy: Policy) -> set[StaysOpen]:
    return {plugins.find(option.name, cycle.NO_PLUGINS).stays_open for option in policy.options}

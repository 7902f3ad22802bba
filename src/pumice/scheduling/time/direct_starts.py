"""Gangs that start without a cycle: nobody else waits, and room, filters and scores decide where their equal pods go.

A cycle for one gang that comes to a cluster in which all others run would open and close all plugins, and look at whatever may have changed, to ask
one thing: which nodes? Here one session stays open from one instant to the next, and its placer is asked, with the filters and scores of the policy's
plugins. The room that gangs take, and give back when they end, is that of the session; what plugins learn from starts and ends, they keep up
instant by instant (`Books`). The cluster learns of gangs that still run when somebody needs a cycle; of most it never does.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

from pumice.api.pods import Pod
from pumice.api.scheduling import PodGroup
from pumice.cluster import gangs
from pumice.cluster.tasks import task_of
from pumice.scheduling import plugins
from pumice.scheduling.core import cycle
from pumice.scheduling.core.plugin import Books, Holder, StaysOpen
from pumice.scheduling.placing.open_placer import OpenPlacer
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
TOUCHED_MAX = 1_000_000  # nodes in the journal of a session; then its placer begins anew


class Kind(Value, eq=False):
    """What gangs of one kind have in common: the shape of their pods, and what the group of the first of them says."""

    shape: Shape
    spec: GangSpec


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
    """Gangs that run and that the cluster does not know and, in `strict` queues, those that wait for the first of them.

    Where queues are not strict, or plugins have a say in who waits, the first that does not fit ends it: who may pass it, and what is reserved for it,
    a cycle decides.
    """

    def __init__(self, cluster: Cluster, policy: Policy, *, strict: bool) -> None:
        assert may_start(policy), f"{policy.source}: an action or a plugin needs cycles"
        self._cluster = cluster
        self._policy = policy
        self._is_line = strict and _stays(policy) == {StaysOpen.IN_LINE}
        self._session: Session | None = None
        self._is_refused = False  # by a plugin, for what its arguments or the cluster say
        self._books: list[tuple[Slot[Any] | None, Books]] = []  # with something in them; and the plugin's memory
        self._names: Sequence[str] = ()  # of its nodes
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
            self._has_ended(started.holder)
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
        self._has_ended(Holder(known.spec.queue, known.spec, known.tasks[0], len(known.tasks), known.occupied))

    def close(
        self, now: Instant
    ) -> tuple[list[Started], list[tuple[Ask, Objects]], list[tuple[Slot[Any], msgspec.Struct]]]:
        """Gangs that run, and those that wait: the cluster is to know of them from now on. And what plugins have learned."""
        running = list(self._running.values())
        waiting = [entry[1:] for line in self._lines.values() for entry in sorted(line)]
        learned = [
            (slot, value)
            for slot, books in self._books
            if slot is not None and (value := books.learned(now)) is not None
        ]
        self._session, self._books = None, []
        self._running, self._lines, self._kinds = {}, {}, {}
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
        session.placer = OpenPlacer(session)
        self._names = session.room.table.names
        self._session = session
        return session

    def _has_ended(self, gang: Holder) -> None:
        for _, books in self._books:
            books.ended(gang)

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

    def _rank(self, queue: str) -> tuple[str, str]:
        return self._cluster.queues[queue].created, queue

    def _holder(self, session: Session, ask: Ask, objects: Objects) -> Holder:
        kind = self._kinds.get(ask.kind)
        if kind is None:
            kind = self._kinds[ask.kind] = _kind(session, ask, objects())
        amounts = {name: value * ask.pods for name, value in kind.shape.request.amounts.items()}
        return Holder(ask.queue, kind.spec, kind.shape.example, ask.pods, amounts)

    def _place(self, session: Session, ask: Ask, objects: Objects, holder: Holder, now: Instant) -> Started | None:
        shape = self._kinds[ask.kind].shape
        columns = _places(session, shape, ask.pods)
        if columns is None:
            return None
        nodes = [self._names[column] for column in columns]
        started = self._running[ask.gang] = Started(ask, objects, now, nodes, holder, shape, columns)
        return started


def _kind(session: Session, ask: Ask, objects: Iterable[object]) -> Kind:
    things = list(objects)
    group = next(each for each in things if isinstance(each, PodGroup))
    pod = next(each for each in things if isinstance(each, Pod))
    spec = gangs.spec_of_pod_group(group, priority=0, default_queue=ask.queue)
    return Kind(session.shape(task_of(pod, gang=ask.gang)), spec)


def _places(session: Session, shape: Shape, pods: int) -> list[int] | None:
    """Nodes for all of them, whose room is taken; None where one finds none."""
    room = session.room
    if len(room.touched) > TOUCHED_MAX:
        room.touched.clear()
        session.placer = OpenPlacer(session)
    if not room.table.axis.rows.keys() >= shape.request.amounts.keys() or session.placer.prefilter(shape) is not None:
        return None
    if pods > 1 and shape.copies(room.idle).sum() < pods:
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

"""Gangs that start without a cycle: nobody else waits, and nothing but room decides where their equal pods go.

A cycle for one gang that comes to a cluster in which all others run would open and close all plugins, and look at whatever may have changed, to ask
one thing: which nodes? Here one session stays open from one instant to the next, and its placer is asked, with the filters of the policy's
plugins. The room that gangs take, and give back when they end, is that of the session. The cluster learns of gangs that still run when somebody needs a
cycle; of most it never does.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import msgspec

from pumice.api.pods import Pod
from pumice.cluster.tasks import task_of
from pumice.scheduling.core import cycle
from pumice.scheduling.placing.placement import Placer
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from pumice.cluster.state import Cluster
    from pumice.cluster.tasks import Task
    from pumice.instant import Instant
    from pumice.scheduling.core.policy import Policy
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape
    from pumice.scheduling.time.backlog import Ask, Objects

FILTERS = "predicates"  # the one plugin with a say in where pods go
# Under these, nothing but room and their filters decides.
PLUGINS = frozenset({"priority", "gang", "reservation", FILTERS})
ACTIONS = frozenset({"enqueue", "allocate"})
TOUCHED_MAX = 1_000_000  # nodes in the journal of a session; then its placer begins anew


class Started(Value, eq=False):
    """A gang that runs: since when, and the nodes of its pods in their order."""

    ask: Ask
    objects: Objects
    at: Instant
    nodes: Sequence[str]
    shape: Shape
    columns: list[int]  # the nodes in the session's room


class DirectStarts:
    """Gangs that run and that the cluster does not know and, in `strict` queues, those that wait for the first of them.

    Where queues are not strict, the first that does not fit ends it (`is_stuck`): who may pass it, and what is reserved for it, a cycle decides.
    """

    def __init__(self, cluster: Cluster, policy: Policy, *, strict: bool) -> None:
        assert is_plain(policy), f"{policy.source}: more than room decides"
        self._cluster = cluster
        self._policy = msgspec.structs.replace(
            policy, options=tuple(each for each in policy.options if each.name == FILTERS)
        )
        self._strict = strict
        self._session: Session | None = None
        self._names: Sequence[str] = ()  # of its nodes
        self._lines: dict[str, list[tuple[tuple[int, str], Ask, Objects]]] = {}  # by queue, as heaps
        self._running: dict[str, Started] = {}
        self._shapes: dict[Hashable, Shape] = {}

    @property
    def is_stuck(self) -> bool:
        return not self._strict and any(self._lines.values())

    def start(self, coming: Iterable[tuple[Ask, Objects]], now: Instant) -> list[Started]:
        """Of these and of those that wait: who finds room, in the order of turns. Each starts whole or not at all."""
        for ask, objects in coming:
            heapq.heappush(self._lines.setdefault(ask.queue, []), (ask.place, ask, objects))
        found, known = [], self._cluster.queues
        for queue in sorted(self._lines, key=lambda name: (known[name].created, name)):
            line = self._lines[queue]
            while line:
                _, ask, objects = line[0]
                shape = self._shape(ask, objects, now)
                columns = self._places(shape, ask.pods)
                if columns is None:
                    break
                heapq.heappop(line)
                nodes = [self._names[column] for column in columns]
                self._running[ask.gang] = Started(ask, objects, now, nodes, shape, columns)
                found.append(self._running[ask.gang])
            if line and not self._strict:
                break
        return found

    def end(self, gang: str) -> bool:
        """Whether the gang is one of these; it gives its room back."""
        started = self._running.pop(gang, None)
        if started is not None and self._session is not None:
            self._session.room.allocate(started.shape.demand, started.columns, -1)
        return started is not None

    def ended(self, tasks: Iterable[Task]) -> None:
        """Pods that the cluster knows have ended on their nodes."""
        if self._session is not None:
            room = self._session.room
            for task in tasks:
                if task.node in room.table.index:
                    room.allocate(room.table.axis.demand(task.request), [room.table.index[task.node]], -1)

    def close(self) -> tuple[list[Started], list[tuple[Ask, Objects]]]:
        """Gangs that run, and those that wait: the cluster is to know of them from now on."""
        running = list(self._running.values())
        waiting = [entry[1:] for line in self._lines.values() for entry in sorted(line)]
        self._session = None
        self._running, self._lines, self._shapes = {}, {}, {}
        return running, waiting

    def _shape(self, ask: Ask, objects: Objects, now: Instant) -> Shape:
        """Of its pods, which are like those of all gangs of that kind but for their names."""
        if self._session is None:
            self._session = cycle.open_session(self._cluster.snapshot(), self._policy, now=now)
            self._names = self._session.room.table.names
        shape = self._shapes.get(ask.kind)
        if shape is None:
            pod = next(each for each in objects() if isinstance(each, Pod))
            shape = self._shapes[ask.kind] = self._session.shape(task_of(pod, gang=ask.gang))
        return shape

    def _places(self, shape: Shape, pods: int) -> list[int] | None:
        """Nodes for all of them, whose room is taken; None where one finds none."""
        session = self._session
        assert session is not None
        room = session.room
        if len(room.touched) > TOUCHED_MAX:
            room.touched.clear()
            session.placer = Placer(session)
        if not room.table.axis.rows.keys() >= shape.request.amounts.keys() or shape.copies(room.idle).sum() < pods:
            return None
        nodes: list[int] = []
        if session.placer.prefilter(shape) is not None:
            return None
        while len(nodes) < pods:
            places = session.placer.fill(shape, pods - len(nodes), task=shape.example)
            if not places.nodes or places.pipelined:
                room.allocate(shape.demand, nodes, -1)
                return None
            room.allocate(shape.demand, list(places.nodes))
            nodes += places.nodes
        return nodes


def is_plain(policy: Policy) -> bool:
    """Whether a gang that comes while nobody waits starts if there is room, and nothing but its plugins' filters decides where."""
    return ACTIONS.issuperset(policy.actions) and PLUGINS.issuperset(option.name for option in policy.options)

"""One scheduling cycle in memory: the snapshot, what has tentatively changed, and the plugins that have a say."""

from __future__ import annotations

import functools
from collections import Counter
from typing import TYPE_CHECKING, Any, TypeVar

from pumice.cluster.columns import NodeTable
from pumice.cluster.tasks import ON_A_NODE, Status
from pumice.scheduling.core import steady, task_order
from pumice.scheduling.core.codes import Code, Facts
from pumice.scheduling.core.failures import NOTHING_ASIDE
from pumice.scheduling.core.gangstate import Gangs, GangState, SubState
from pumice.scheduling.core.points import Points
from pumice.scheduling.core.room import Room
from pumice.scheduling.core.shapes import ShapeBook
from pumice.scheduling.core.shortcuts import NO_SHORTCUTS
from pumice.scheduling.core.statement import Eviction, Placement, Statement
from pumice.scheduling.core.verdict import Cure, Reason
from pumice.scheduling.evicting import notices
from pumice.scheduling.evicting.reserved_room import ReservedRoom
from pumice.scheduling.placing.line import Line
from pumice.scheduling.placing.placement import Placer
from pumice.values import once

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pumice.cluster.amounts import MutableAmounts
    from pumice.cluster.gangs import Gang
    from pumice.cluster.queues import QueueInfo
    from pumice.cluster.state import Snapshot
    from pumice.cluster.tasks import Task
    from pumice.instant import Instant
    from pumice.scheduling.core.decisions import Expected, Factors, QueueFigures, QueueUsage, Release, Reserved
    from pumice.scheduling.core.failures import Aside, Failure
    from pumice.scheduling.core.memory import Memory
    from pumice.scheduling.core.plugin import Plugin
    from pumice.scheduling.core.policy import Policy
    from pumice.scheduling.core.ports import Ports
    from pumice.scheduling.core.shapes import Shape
    from pumice.scheduling.core.shortcuts import Shortcuts
    from pumice.scheduling.core.statement import Operation
    from pumice.scheduling.core.steady import Steady
    from pumice.scheduling.evicting.backoff import Backoff
    from pumice.telemetry.catalogue import Metric

T = TypeVar("T")


# Work is counted in units of roughly ten microseconds: a gang's turn, a placement, a node tried for eviction.
UNLIMITED_BUDGET = 2**62


class _Queues:
    """The queues that steady gangs are in."""

    def __init__(self) -> None:
        self.names: Counter[str] = Counter()

    def add(self, gang: Gang, sign: int) -> None:
        self.names[gang.spec.queue] += sign
        if not self.names[gang.spec.queue]:
            del self.names[gang.spec.queue]


def _stranded(snapshot: Snapshot, gangs: Gangs) -> dict[str, GangState]:
    if len(gangs) == len(snapshot.gangs):
        return {}
    found = {key: GangState(gang) for key, gang in snapshot.gangs.items() if key not in gangs}
    for gang in found.values():
        gang.reasons.append(Reason(Code.QUEUE_MISSING, "queue", Facts(queue=gang.queue)))
    return found


def _starts(key: str, operations: Sequence[Operation]) -> bool:
    """Whether they give the gang all that this cycle can: its minimum at once, or places for all members once others leave."""
    own = [each for each in operations if isinstance(each, Placement) and each.gang.key == key]
    if not own:
        return False
    gang = own[0].gang
    starts = any(each.status is Status.ALLOCATED for each in own) and gang.tally.occupying >= gang.spec.min_member
    return starts or not gang.tally[Status.PENDING]


class _Turn:
    """A turn that ends; a generator would take three times as long, for each gang in each action."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._session.turn = None


class Session:
    """What actions and plugins work on. Nothing here outlives the cycle but the accepted operations."""

    def __init__(  # noqa: PLR0913  what a cycle depends on
        self,
        snapshot: Snapshot,
        policy: Policy,
        memory: Memory,
        *,
        now: Instant,
        ports: Ports,
        budget: int,
        aside: Aside = NOTHING_ASIDE,
        explain: bool = True,
        shortcuts: Shortcuts = NO_SHORTCUTS,
    ) -> None:
        self.snapshot = snapshot
        self.policy = policy
        self.now = now
        self.ports = ports
        self.memory = memory  # of the cycles before; what this one learns is in the decisions
        self.aside = aside  # gangs and plugins on which an earlier attempt at this cycle broke
        self.explain = explain  # else nobody reads what is said for people alone
        self.shortcuts = shortcuts
        self.is_answered = False  # the gang that is asked about has started: nobody else has a turn
        self.closed_by: Failure | None = None  # of a plugin that this cycle cannot do without
        self.turn: GangState | None = None  # the gang that is worked on
        self._turn = _Turn(self)
        self.queues = snapshot.queues
        self.queues_in_use = {gang.spec.queue for gang in self.steady.restless} | self.steady.sum(_Queues).names.keys()
        self.gangs = Gangs(snapshot.gangs, self.queues if self.queues_in_use - self.queues.keys() else None)
        self.stranded = _stranded(snapshot, self.gangs)  # gangs whose queue does not exist
        # Gangs that may have members to place, or something to be said of; of most clusters' gangs all members just run.
        self.restless = [self.gangs[gang.key] for gang in self.steady.restless if gang.key in self.gangs]
        self.room = Room(snapshot.nodes)
        self.is_ahead = False  # while the room is that of a later moment (scheduling/time/later.py)
        allocatable = snapshot.nodes.allocatable
        self.total: MutableAmounts = dict(snapshot.kept(NodeTable.total, allocatable, snapshot.nodes.total))
        self.units = self.budget = budget
        self.points = self.on = Points()  # `on`: where a plugin registers while it opens
        self.plugins: list[Plugin] = []  # in the policy's order
        self.shapes = ShapeBook(snapshot.nodes.axis, snapshot.gangs)
        self.shape: Callable[[Task], Shape] = self.shapes.of
        self.placer = Placer(self)
        self.accepted: list[tuple[Operation, GangState | None]] = []  # with the gang that it was done for
        self.moved_gangs: list[
            GangState
        ] = []  # in the order in which they changed: a memory of one is stale after that
        self.made_room_for: set[str] = set()  # gangs that others leave for, since this cycle or an earlier one
        self.releases: list[Release] = []
        self.ungated: list[Task] = []
        self.mended: set[str] = set()
        self.queue_groups: Mapping[
            str, Sequence[str]
        ] = {}  # the queues above each, where plugins compare whole branches
        self.backoffs: dict[str, dict[str, Backoff]] = {}  # evictions that came to nothing, by action and gang
        self.retry_at: dict[str, Instant] = {}  # by gang: evictions for it that come to nothing now may not, then
        self.changes_at: list[Instant] = []  # the clock alone may change a decision then
        self.published: dict[str, dict[tuple[str, ...], float]] = {}  # plugins' own metrics, by labels
        self.figures: dict[str, QueueFigures] = {}  # what plugins publish when they close
        self.shares: dict[str, float] = {}
        self.reservations: dict[str, Reserved] = {}  # by gang
        self.expected: Mapping[str, Expected] = {}
        self.factors: dict[str, Factors] = {}  # of gangs that wait
        self.factor_weights: dict[str, float] = {}
        self.usage: dict[str, QueueUsage] = {}
        self.shapes_examined = 0  # for which the room that is left was found out
        self.kept: list[Statement] = []  # neither committed nor undone: they hold room until the cycle ends
        self._shared: dict[Callable[[Session], Any], Any] = {}
        self._queue_orders: dict[tuple[str, str], float] = {}  # of two queues, after so many moves
        self._queue_moves = 0

    @property
    def steady(self) -> Steady:
        """The gangs of the snapshot that run and are whole, and sums over them."""
        return steady.of(self.snapshot)

    def publish(self, metric: Metric, value: float, *labels: str) -> None:
        """The value of a gauge that a plugin has declared; what is not published in a cycle is not exported after it."""
        self.published.setdefault(metric.name, {})[labels] = value

    def shared(self, kind: Callable[[Session], T]) -> T:
        """Machinery that several plugins use, made once a session, by the first that asks.

        What says that it is `of_node_objects` follows from those alone, and is kept until one of them changes.
        """
        made: T | None = self._shared.get(kind)
        if made is None:
            if getattr(kind, "of_node_objects", False):
                made = self.snapshot.kept(kind, self.snapshot.nodes.objects, functools.partial(kind, self))
            else:
                made = kind(self)
            self._shared[kind] = made
        return made

    def settle(self) -> None:
        """After all plugins have opened: what any of them reads makes up the shapes."""
        self.shapes.settle(self.points.reads, self.points.traits)
        self.reserved_room = ReservedRoom(self)
        self.made_room_for.update(self.reserved_room.held)

    def turn_of(self, gang: GangState) -> _Turn:
        """Inside is the gang's turn: what raises there sets the gang aside (core/failures.py), so an error must not end the turn."""
        self.turn = gang
        return self._turn

    def hopes(self) -> list[Statement]:
        """Of what is kept: places of gangs that cannot start as a whole with them."""
        return [each for each in self.kept if each.placements and not self.is_pipelined(each.placements[0].gang)]

    def spend(self, units: int) -> bool:
        """Count work; False once the budget is used up: what has been decided stands, the rest waits for the next cycle."""
        self.budget -= units
        return self.budget > 0

    # ------------------------------------------------------------------------------------------------- look-ups

    def on_nodes(self, tasks: Iterable[Task]) -> Iterator[tuple[Task, int]]:
        """Tasks with their nodes; not those whose node is gone while their pods still exist."""
        index = self.room.table.index
        for task in tasks:
            gang = self.gangs.get(task.gang)
            if (gang is not None and task in gang.places) or task.node in index:
                yield task, self.node_index(task)

    def node_index(self, task: Task) -> int:
        """The node that a task is on: by this session's placement, else by the snapshot, which must know it (see `on_nodes`)."""
        gang = self.gangs.get(task.gang)
        place = gang.places.get(task) if gang is not None else None
        return place[1] if place is not None else self.room.table.index[task.node]

    def promised_node(self, task: Task) -> str:
        """The node that a claim or the pod's own status promises it; empty for most.

        And for one whose victims have only been told: what is free elsewhere is better, and lets them stay.
        """
        claim = self.snapshot.claims.get(task.gang) if self.snapshot.claims else None
        if claim is not None:
            if task.gang in self.shared(notices.claimants):
                return ""
            return next((node for uid, node in claim.places if uid == task.uid), task.nominated_node)
        return task.nominated_node

    def viewed(self, tasks: Iterable[Task]) -> Iterator[tuple[Task, int]]:
        """Those that are on nodes as kube-scheduler's view has it, each with its node: promised ones are, evicted ones are not."""
        index = self.room.table.index
        for task in tasks:
            gang = self.gangs.get(task.gang)
            place = gang.places.get(task) if gang is not None else None
            if place is not None:
                if place[0] not in {Status.RELEASING, Status.PENDING}:
                    yield task, place[1]
            elif task.status in ON_A_NODE and task.node in index:
                yield task, index[task.node]

    def queue_of(self, gang: GangState) -> QueueInfo:
        return self.queues[gang.queue]

    def statement(self, claimant: GangState | None = None) -> Statement:
        """A new attempt; `claimant` is the gang on whose behalf others may be evicted."""
        return Statement(self, claimant)

    # ------------------------------------------------------------------------------------------------- orders

    def gang_key(self, gang: GangState) -> tuple[float, ...]:
        """The plugins' keys, cached until the gang or its holder changes: plugins compare gangs by what these hold."""
        cached = gang.order_key
        standing = 0.0 if gang.holder is None else gang.holder.standing
        if cached is None or cached[0] != gang.version or cached[1] != standing:
            cached = gang.order_key = (gang.version, standing, self.points.gang_order.of(gang))
        return cached[2]

    def gang_line(self) -> Line[GangState]:
        """An empty line for gangs of one queue."""
        return Line(self.gang_before, lambda gang: () if gang.holder is None else (gang.holder,))

    def queue_line(self, names: Iterable[str]) -> Line[QueueInfo]:
        above = self.queue_groups
        return Line(self.queue_before, lambda queue: above.get(queue.name, ()), (self.queues[name] for name in names))

    def gang_before(self, left: GangState, right: GangState) -> bool:
        if left.ranking is right.ranking and left.ranking.moves == len(self.moved_gangs):
            return left.rank < right.rank
        mine, theirs = self.gang_key(left), self.gang_key(right)
        if mine != theirs:
            return mine < theirs
        return (left.spec.created, left.key) < (right.spec.created, right.key)

    def queue_compare(self, left: QueueInfo, right: QueueInfo) -> float:
        """Not asked again while no gang moves or is admitted: queues are compared with every turn."""
        if self._queue_moves != len(self.moved_gangs):
            self._queue_orders, self._queue_moves = {}, len(self.moved_gangs)
        order = self._queue_orders.get((left.name, right.name))
        if order is None:
            order = self.points.queue_order.of(left, right)
            order = order or (-1 if (left.created, left.name) < (right.created, right.name) else 1)
            self._queue_orders[left.name, right.name] = order
        return order

    def queue_before(self, left: QueueInfo, right: QueueInfo) -> bool:
        return self.queue_compare(left, right) < 0

    def sub_key(self, sub: SubState) -> tuple[float | str, ...]:
        return (*self.points.sub_order.of(sub), sub.sub.match_index, sub.sub.key)

    def in_placement_order(self, tasks: Iterable[Task]) -> list[Task]:
        return task_order.in_placement_order(self.points, tasks)

    # ------------------------------------------------------------------------------------------------- questions

    def takes_part(self, gang: GangState) -> bool:
        """Whether the gang was admitted, and has members to place or room that is kept for it."""
        waits = gang.tally[Status.PENDING] > 0 or gang.key in self.reserved_room.held
        return waits and not gang.is_waiting_for_admission and gang.key not in self.shortcuts.passed_over

    def obstacle(self, gang: GangState) -> Reason | None:
        """Why no action may work on the gang in this cycle; None where all may."""
        if (failure := self.aside.gangs.get(gang.key)) is not None:
            return failure.reason
        if (failed := self.ports.resting.get(gang.key)) is not None:
            return Reason(Code.ATTEMPT_FAILED, "dispatch", Facts(text=failed.why), cure=Cure.WAITING)
        return self.points.valid.of(gang)

    @property
    def in_question(self) -> Iterable[GangState]:
        """Gangs that may not be ready as the session begins: all but steady ones, if the plugins let those count as ready."""
        return self.restless if self.points.ready.holds_of_steady else self.gangs.values()

    def is_ready(self, gang: GangState) -> bool:
        return self.points.ready.holds(gang)

    def sub_is_ready(self, sub: SubState) -> bool:
        return self.points.sub_ready.holds(sub) if sub.gang.spec.policies else self.is_ready(sub.gang)

    def until_ready(self, sub: SubState, role: str, most: int) -> int:
        """How many equal members may be placed before the plugins have to be asked again; at least one."""
        point = self.points.sub_ready if sub.gang.spec.policies else self.points.ready
        return point.until(sub, role, most)

    def shortfall(self, subject: GangState | SubState) -> int:
        """At least how many more members must find a place before it can start or keep promised places; one at least."""
        if isinstance(subject, SubState) and subject.gang.spec.policies:
            satisfied = self.sub_is_ready(subject) or self.sub_is_pipelined(subject)
        else:
            subject = subject.gang if isinstance(subject, SubState) else subject
            satisfied = self.is_ready(subject) or self.is_pipelined(subject)
        return 1 if satisfied else max([1, *self.points.shortfall.of(subject)])

    def is_pipelined(self, gang: GangState) -> bool:
        return self.points.pipelined.passes(gang)

    def sub_is_pipelined(self, sub: SubState) -> bool:
        return self.points.sub_pipelined.passes(sub) if sub.gang.spec.policies else self.is_pipelined(sub.gang)

    # ------------------------------------------------------------------------------------------------- operations

    def accept(self, operations: Sequence[Operation], claimant: GangState | None) -> None:
        self.accepted += [(operation, claimant) for operation in operations]
        if claimant is not None and any(isinstance(operation, Eviction) for operation in operations):
            self.made_room_for.add(claimant.key)
        if self.shortcuts.until and _starts(self.shortcuts.until, operations):
            self.is_answered, self.budget = True, 0

    @property
    def evicted(self) -> set[str]:
        """The uids of all that this cycle evicts so far."""
        return {operation.task.uid for operation, _ in self.accepted if isinstance(operation, Eviction)}

    @once
    def committed(self) -> set[Task]:
        """Tasks that are bound by this cycle; asked for after the last action."""
        placements = [operation for operation, _ in self.accepted if isinstance(operation, Placement)]
        return {task for each in placements if each.status is Status.ALLOCATED for task in each.tasks}

    @once
    def nominations(self) -> dict[Task, str]:
        """Tasks for which others were evicted, with their node; asked for after the last action."""
        names = self.room.table.names
        placements = [operation for operation, _ in self.accepted if isinstance(operation, Placement)]
        return {
            task: names[node]
            for each in placements
            if each.status is Status.PIPELINED and each.after_eviction
            for task, node in zip(each.tasks, each.nodes, strict=True)
        }

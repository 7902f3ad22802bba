"""fragmentation: pods go where they leave the least of the free GPUs useless for the pods and gangs that are likely to come.

What is likely to come: the pods that wait, those that were started lately, and what the arguments say. How much of a node is useless for
them is counted with GPUs, whole and shared, and with the cpu and memory beside them (`placing/fragmentation.py`).
"""

from __future__ import annotations

import itertools
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Annotated

import msgspec
import numpy as np

from pumice import quantity
from pumice.cluster import amounts
from pumice.cluster.columns import CPU_ROW, MEMORY_ROW
from pumice.cluster.tasks import Status
from pumice.scheduling.core import arguments
from pumice.scheduling.core.memory import Slot
from pumice.scheduling.core.plugin import Books, Plugin
from pumice.scheduling.core.shapes import Reads
from pumice.scheduling.core.statement import Placement
from pumice.scheduling.placing import fragmentation
from pumice.scheduling.placing.constraints import gpu_sharing_modes
from pumice.scheduling.placing.constraints.card_book import NO_CARDS, CardBook, step
from pumice.scheduling.placing.constraints.shared_gpus import Ask
from pumice.scheduling.placing.fragmentation import CARDS, CardTable, Known, Pool, Typical

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from pumice.cluster.columns import Column
    from pumice.cluster.requests import Request
    from pumice.cluster.tasks import Task
    from pumice.instant import Instant
    from pumice.scheduling.core.plugin import Holder
    from pumice.scheduling.core.points import Indexes, Scores
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape
    from pumice.scheduling.placing.constraints.shared_gpus import State
    from pumice.scheduling.placing.placement import Pairs

TYPICAL_MAX = 64  # kinds of pods that are looked at: the most frequent
REMEMBERED_MAX = 128  # kinds of pods that are remembered
RECENT_MAX = 4096  # pods that are remembered; at more, all counts are halved, so that what is long ago fades
WEIGHT_MAX = 10_000  # of a given shape
_ALL = slice(None)
# For as many GPUs as one likes; half of it for one: what a pod says that it prefers must outweigh any number.
POINTS = 100.0


class Recent(msgspec.Struct, frozen=True):
    """Pods with GPUs that were started lately, by kind."""

    kinds: tuple[tuple[Typical, int], ...] = ()


SLOT = Slot("fragmentation", Recent, bytes_max=64 * 1024)


class Args(arguments.Args, frozen=True, kw_only=True):
    weight: Annotated[int, msgspec.Meta(ge=0, description="weight of the score; 0 switches it off")] = msgspec.field(
        name="fragmentation.weight", default=10
    )
    resources: Annotated[
        str,
        msgspec.Meta(description="GPUs that nodes count, separated by commas; a `*` at the end stands for the rest"),
    ] = msgspec.field(name="fragmentation.resources", default="nvidia.com/gpu,amd.com/gpu,nvidia.com/mig-*")
    shapes: Annotated[
        list[dict[str, str | int]],
        msgspec.Meta(description="pods that are likely to come, as resources and `weight`; instead of what is seen"),
    ] = msgspec.field(name="fragmentation.shapes", default_factory=list)

    def __post_init__(self) -> None:
        for number, shape in enumerate(self.shapes):
            where = f"fragmentation.shapes[{number}]"
            if not any(self.counted(name) or name.startswith("volcano.sh/vgpu-") for name in shape):
                raise ValueError(f"{where}: asks for no GPU; name one of {self.resources}, or volcano.sh/vgpu-number")
            weight = shape.get("weight", 1)
            if not isinstance(weight, int) or not 0 < weight <= WEIGHT_MAX:
                raise ValueError(f"{where}: weight is {weight!r}; give a whole number from 1 to {WEIGHT_MAX}")
            for name, value in shape.items():
                if name != "weight" and _milli(where, str(value)) <= 0:
                    raise ValueError(f"{where}: {name} is {value!r}; leave out what such a pod does not ask for")

    def counted(self, name: str) -> bool:
        """Whether the resource is GPUs, or parts of GPUs, that nodes count."""
        listed = (part.strip() for part in self.resources.split(","))
        return any(name.startswith(part[:-1]) if part.endswith("*") else name == part for part in listed)


class Fragmentation(Plugin):
    """Score: what the placement takes away from the node's useless GPUs; less than nothing where it adds to them."""

    args_type = Args
    args: Args
    memory = SLOT
    stays_open = True

    def open(self, session: Session) -> None:
        self.session = session
        self.book = session.shared(CardBook)
        self.recent = dict(session.memory.of(SLOT).kinds)  # started lately, by earlier cycles
        self.coming: Counter[Typical] = Counter()  # while it stays open: those that wait are no gangs of the session
        self._is_stale = False
        self._pools: dict[str, Pool] | None = None
        self._kinds: dict[tuple[Request, Ask | None], Typical | None] = {}
        self._paths: dict[tuple[Ask, State], list[int]] = {}
        self.gpu_rows = [row for row, name in enumerate(session.room.table.axis.names) if self.args.counted(name)]
        if self.args.weight:
            session.on.declare(Reads.NOTHING)
            session.on.load_score(self.score, looks_beyond=lambda: bool(self.book.boards), parts=self)

    def open_books(self, session: Session) -> Books | None:
        """Where no node has cards that pods share."""
        del session
        return None if self.book.boards else _Starts(self)

    # ------------------------------------------------------------------------------------------------- what is likely to come

    def kind(self, task: Task) -> Typical | None:
        """The task as a typical pod; None for one that asks for no GPU."""
        key = task.request, self.book.ask(task)
        if key not in self._kinds:
            self._kinds[key] = self._kind(*key)
        return self._kinds[key]

    def _kind(self, request: Request, ask: Ask | None) -> Typical | None:
        axis = self.session.room.table.axis
        demand = axis.demand(request)
        cpu, memory = int(demand[CPU_ROW]), int(demand[MEMORY_ROW])
        if ask is not None:
            return fragmentation.of_cards(ask, cpu, memory)
        row = next((row for row in self.gpu_rows if demand[row] > 0), None)
        return None if row is None else Typical(axis.names[row], int(demand[row]), cpu, memory)

    def typical(self) -> list[tuple[Typical, int]]:
        """The most frequent kinds of pods, with how often they come."""
        if self.args.shapes:
            return [_given(each, self.args) for each in self.args.shapes]
        counts = self.started_lately()
        counts.update(self.coming)
        for gang in self.session.restless:
            if gang.gang.counts[Status.PENDING]:
                waiting = [task for task in gang.gang.tasks if task.status is Status.PENDING]
                examples = {task.request: task for task in waiting}  # most gangs have one kind of pod, however many
                for request, number in Counter(task.request for task in waiting).items():
                    if (kind := self.kind(examples[request])) is not None:
                        counts[kind] += number
        return _foremost(counts, TYPICAL_MAX)

    def started_lately(self) -> Counter[Typical]:
        """What earlier cycles have started; a scheduler without a past looks at what runs."""
        if self.recent:
            return Counter(self.recent)
        running = (
            task
            for gang in (self.session.snapshot.gangs[key] for key in self.session.gangs)  # their states are not needed
            for task in gang.tasks
            if task.status in (Status.RUNNING, Status.BOUND)
        )
        kinds = (self.kind(task) for task in itertools.islice(running, RECENT_MAX))
        return Counter(kind for kind in kinds if kind is not None)

    def pools(self) -> dict[str, Pool]:
        """Typical pods by the GPUs that they ask for; asked once a cycle, so that scores do not change on the way."""
        if self._is_stale:
            self._weigh_anew()
        if self._pools is None:
            typical = sorted(self.typical())
            total = sum(weight for _, weight in typical)
            names = dict.fromkeys(kind.pool for kind, _ in typical)
            self._pools = {name: Pool([pair for pair in typical if pair[0].pool == name], total) for name in names}
            self._known = {name: Known(len(self.session.room.table)) for name in names}
            if CARDS in self._pools:
                self.table = CardTable(self._pools[CARDS])
        return self._pools

    def expect(self, coming: Counter[Typical]) -> None:
        """From now on the plugin, which stays open, sees these wait, beside what was started until now."""
        self.coming, self._is_stale = coming, True

    def _weigh_anew(self) -> None:
        self._is_stale = False
        weights = dict(self.typical())
        if self._pools is None or self._kinds_of_pools() != tuple(sorted(weights)):
            self._pools = None
            return
        total = sum(weights.values())
        for pool in self._pools.values():
            pool.weigh([weights[kind] for kind in pool.typical], total)
        self._known = {name: Known(len(self.session.room.table)) for name in self._pools}

    def learn(self, session: Session) -> Recent | None:
        """Pods that this cycle starts join those of before."""
        counts = self.started_lately()
        for operation, _ in session.accepted:
            if isinstance(operation, Placement) and operation.status is Status.ALLOCATED:
                kind = self.kind(operation.tasks[0])
                if kind is not None:
                    counts[kind] += len(operation.tasks)
        return Recent(_ranked(_remembered(counts)))

    # ------------------------------------------------------------------------------------------------- scores

    def score(self, shape: Shape, pairs: Pairs) -> Scores | None:
        pools = self.pools()
        if not pools:
            return None
        gained = np.zeros(len(pairs.nodes))
        cpu, memory = _free(pairs, CPU_ROW), _free(pairs, MEMORY_ROW)
        cpu_after, memory_after = cpu - shape.demand[CPU_ROW], memory - shape.demand[MEMORY_ROW]
        before, after = np.stack((cpu, memory, cpu)), np.stack((cpu_after, memory_after, cpu_after))
        for name, pool in pools.items():
            if name == CARDS:
                gained += self._gained_of_cards(pool, shape, pairs, before, after)
            elif (row := self.session.room.table.axis.rows.get(name)) is not None:
                total = pairs.allocatable(row)
                before[2] = _free(pairs, row)
                after[2] = before[2] - shape.demand[row]
                gained += self._known[name].look_up(pairs.nodes, before, partial(_counted, pool, before, total))
                gained -= _counted(pool, after, total, _ALL)
        return self._points(gained)

    def _points(self, gained: Scores) -> Scores:
        total_weight = next(iter(self.pools().values())).total
        gpus = gained / (2 * total_weight * fragmentation.CARD)
        points: Scores = gpus / (1.0 + np.abs(gpus)) * (POINTS * self.args.weight)
        return points

    # While it stays open, what is likely to come is weighted anew at each instant; of one kind of pod, and of the same load, the score's part stays.

    def basis(self) -> Hashable:
        self.pools()
        return self._kinds_of_pools()

    def _kinds_of_pools(self) -> tuple[Typical, ...]:
        return tuple([kind for pool in (self._pools or {}).values() for kind in pool.typical])

    def parts(self, shape: Shape, pairs: Pairs) -> Scores:
        """What the score is the weighted sum of: for each pool a column for each typical pod, and one for all of them."""
        rows = self.session.room.table.axis.rows
        found = [np.zeros((len(pairs.nodes), 0))]
        free = [_free(pairs, row) for row in (CPU_ROW, MEMORY_ROW)]
        for name, pool in self.pools().items():
            if (row := rows.get(name)) is None:
                found.append(np.zeros((len(pairs.nodes), len(pool.typical) + 1)))
                continue
            total, own = pairs.allocatable(row), _free(pairs, row)
            before, after = (
                pool.beside(*free),
                pool.beside(free[0] - shape.demand[CPU_ROW], free[1] - shape.demand[MEMORY_ROW]),
            )
            left = own - shape.demand[row]
            found.append(pool.counted_parts(own, before, own >= total) - pool.counted_parts(left, after, left >= total))
        return np.hstack(found)

    def together(self, parts: Scores) -> Scores:
        gained, at = np.zeros(len(parts)), 0
        if not self.pools():
            return gained
        for pool in self.pools().values():
            width = len(pool.typical) + 1
            gained += pool.weighed(parts[:, at : at + width])
            at += width
        return self._points(gained)

    def _gained_of_cards(self, pool: Pool, shape: Shape, pairs: Pairs, before: Scores, after: Scores) -> Scores:
        """`before` and `after`: cpu and memory that are free, and room for the state of the cards."""
        if self.book.way is None:
            return np.zeros(len(pairs.nodes))
        ask = self.book.ask(shape.example)
        standings = self.book.standings(ask or fragmentation.NO_ASK)
        standings.cache.refresh()
        numbers = standings.of_node[pairs.nodes]
        there = numbers != NO_CARDS
        gained = np.zeros(len(pairs.nodes))
        if not there.any():
            return gained
        numbers, copies = (
            numbers[there],
            pairs.copies[there] if ask is not None else np.zeros(int(there.sum()), dtype=np.int64),
        )
        paths = self._path_table(ask, standings.states, numbers, int(copies.max()) + 2)
        before, after = before[:, there], after[:, there]
        before[2], after[2] = paths[numbers, copies], paths[numbers, copies + 1]
        known = self._known[CARDS].look_up(pairs.nodes[there], before, partial(_of_cards, pool, self.table, before))
        gained[there] = known - _of_cards(pool, self.table, after, _ALL)
        return gained

    def _path_table(self, ask: Ask | None, states: list[State], numbers: Indexes, depth: int) -> Indexes:
        """By the number of a state: the states of its cards after 0, 1, 2 ... such pods, as the table numbers them."""
        found = np.zeros((len(states), depth), dtype=np.intp)
        for number in np.unique(numbers).tolist():
            path = self._path(ask, states[number], depth)
            found[number] = path[:depth]
        return found

    def _path(self, ask: Ask | None, state: State, depth: int) -> list[int]:
        """Where a pod finds no cards, the state stays: nobody asks for its score."""
        number = self.table.number(state)
        if ask is None:
            return [number] * depth
        assert self.book.way is not None
        path = self._paths.get((ask, state), [])
        if len(path) < depth:
            path, reached = [number], state
            for _ in range(depth - 1):
                further = step(self.book.way, reached, ask)
                reached = further[1] if further is not None else reached
                path.append(self.table.number(reached))
            self._paths[ask, state] = path
        return path


class _Starts(Books):
    """Pods that start while the plugin stays open join those of before, instant by instant."""

    while_waiting = True

    def __init__(self, plugin: Fragmentation) -> None:
        self._plugin = plugin
        self._waiting: Counter[Typical] = Counter()

    def come(self, coming: Sequence[Holder], now: Instant) -> Sequence[Holder]:
        del now
        for each in coming:
            self.waits(each, 1)
        return coming

    def waits(self, gang: Holder, sign: int) -> None:
        kind, waiting = self._plugin.kind(gang.task), self._waiting
        if kind is not None:
            waiting[kind] += sign * gang.pods
            if not waiting[kind]:
                del waiting[kind]
            self._plugin.expect(waiting)

    def settle(self, started: Sequence[Holder], now: Instant) -> None:
        del now
        if not started:
            return
        counts = self._plugin.started_lately()
        for each in started:
            if (kind := self._plugin.kind(each.task)) is not None:
                counts[kind] += each.pods
        self._plugin.recent = _remembered(counts)
        self._plugin.expect(self._waiting)

    def learned(self, now: Instant) -> Recent:
        del now
        return Recent(_ranked(self._plugin.recent))


def _remembered(counts: Mapping[Typical, int]) -> dict[Typical, int]:
    while sum(counts.values()) > RECENT_MAX:
        counts = {kind: count // 2 for kind, count in counts.items() if count > 1}
    return dict(_foremost(counts, REMEMBERED_MAX) if len(counts) > REMEMBERED_MAX else counts)


def _ranked(counts: Mapping[Typical, int]) -> tuple[tuple[Typical, int], ...]:
    return tuple(_foremost(counts, REMEMBERED_MAX))


def _counted(pool: Pool, basis: Scores, total: Column, positions: Indexes | slice) -> Scores:
    """Useless GPUs that nodes count; `basis`: cpu, memory and GPUs that are free."""
    cpu, memory, free = basis[:, positions]
    return pool.counted(free, pool.beside(cpu, memory), free >= total[positions])


def _of_cards(pool: Pool, table: CardTable, basis: Scores, positions: Indexes | slice) -> Scores:
    """The same of shared cards; `basis`: cpu and memory that are free, and the state of the cards."""
    cpu, memory, states = basis[:, positions]
    return pool.cards(table, states.astype(np.intp), pool.beside(cpu, memory))


def _milli(where: str, text: str) -> int:
    try:
        return quantity.parse_milli(text)
    except quantity.QuantityError as error:
        raise ValueError(f"{where}: {error}") from error


def _foremost(counts: Mapping[Typical, int], most: int) -> list[tuple[Typical, int]]:
    """The most frequent; of those that come as often, the largest."""
    return sorted(counts.items(), key=lambda pair: (-pair[1], -pair[0].gpu_milli, pair[0]))[:most]


def _free(pairs: Pairs, row: int) -> Scores:
    """What is left before the next copy comes; nothing where a node has shrunk."""
    free: Scores = np.maximum(pairs.allocatable(row) - pairs.viewed(row), 0).astype(np.float64)
    return free


def _given(shape: Mapping[str, str | int], args: Args) -> tuple[Typical, int]:
    """A shape of the arguments, as a pod's resources."""
    weight = int(shape.get("weight", 1))
    asked = {
        name: int(value) for name, value in amounts.read({n: str(v) for n, v in shape.items() if n != "weight"}).items()
    }
    cpu, memory = asked.get(amounts.CPU, 0), asked.get(amounts.MEMORY, 0)
    of_cards = gpu_sharing_modes.wanted_slices({name: value // amounts.MILLI for name, value in asked.items()})
    if of_cards.cards:
        return fragmentation.of_cards(Ask((of_cards,)), cpu, memory), weight
    name = next(name for name in asked if args.counted(name))
    return Typical(name, asked[name], cpu, memory), weight

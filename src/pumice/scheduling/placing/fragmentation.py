"""GPUs that are free and of no use: how much of a node's free GPUs the pods that are likely to come could not use.

For each typical pod, by its weight, two amounts of free GPU are added up and halved: what one such pod could not use (cards with too little
left, or all of them where cpu, memory or the number of cards do not suffice), and what stays free when as many of them have come as fit. The
first is the measure of "fragmentation gradient descent" (USENIX ATC 2023); the second sees cpu and memory run out before the GPUs do, and
small rests that no whole number of pods fills. All amounts are whole numbers below 2^53, in floats: sums are exact in any order, so
a batch of nodes gets the scores that each node would get alone.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from pumice.cluster.cards import CORES
from pumice.scheduling.placing.constraints.shared_gpus import Ask, Wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pumice.cluster.columns import Mask
    from pumice.scheduling.core.points import Indexes, Scores
    from pumice.scheduling.placing.constraints.shared_gpus import Standing, State

CARD = 1000.0  # thousandths of a GPU
CARDS = "cards"  # the pool of shared GPUs; other pools are resources that nodes count
WHOLE_NODE = 10_000  # a node without any GPU in use weighs this part of all typical pods: it decides between equals
STANDINGS_CACHED_MAX = 65_536  # some 200 bytes each
_MANY = 2.0**31
NO_ASK = Ask(())  # of pods without shared GPUs: they only look


class Typical(msgspec.Struct, frozen=True, order=True):
    """A pod that is likely to come: what it asks for, of GPUs of one pool."""

    pool: str
    gpus: int  # thousandths of a counted resource; of shared GPUs, the number of cards
    cpu_milli: int = 0
    memory_bytes: int = 0
    card_memory: int = 0  # of each shared card, or percent of it
    card_percent: int = 0
    card_cores: int = 0
    types: tuple[str, ...] = ()
    not_types: tuple[str, ...] = ()

    @property
    def gpu_milli(self) -> int:
        """Thousandths of GPUs; where memory is asked for, every card counts as a whole one."""
        return self.gpus if self.pool != CARDS else self.gpus * int(CARD) * (self.card_percent or 100) // 100

    def ask(self) -> Ask:
        wanted = Wanted(self.gpus, self.card_memory, self.card_percent, self.card_cores)
        return Ask((wanted,), self.types, self.not_types)


def of_cards(ask: Ask, cpu_milli: int, memory_bytes: int) -> Typical:
    """A pod with shared GPUs; its containers are taken as one."""
    wanted = max(ask.containers, key=lambda each: (each.cards, each.memory, each.percent))
    cards = sum(each.cards for each in ask.containers)
    return Typical(
        CARDS, cards, cpu_milli, memory_bytes, wanted.memory, wanted.percent, wanted.cores, ask.types, ask.not_types
    )


class Pool:
    """Typical pods of one pool as columns."""

    def __init__(self, typical: Sequence[tuple[Typical, int]], total: int) -> None:
        self.typical = [each for each, _ in typical]
        self.weigh([weight for _, weight in typical], total)
        self.cpu = np.array([each.cpu_milli for each in self.typical], dtype=np.float64)
        self.memory = np.array([each.memory_bytes for each in self.typical], dtype=np.float64)
        self._wants_cpu, self._wants_memory = self.cpu > 0, self.memory > 0
        self.gpus = np.array([each.gpus for each in self.typical], dtype=np.float64)

    def weigh(self, weights: Sequence[int], total: int) -> None:
        """How often each comes, and all of all pools."""
        self.weights = np.array(weights, dtype=np.float64) * WHOLE_NODE
        self.total = float(total) * WHOLE_NODE

    def beside(self, cpu: Scores, memory: Scores) -> Scores:
        """How many of each typical pod cpu and memory suffice for; of shape (nodes, typical)."""
        copies = np.full((len(cpu), len(self.cpu)), _MANY)
        for free, asked, wants in ((cpu, self.cpu, self._wants_cpu), (memory, self.memory, self._wants_memory)):
            if wants.all():  # nearly always
                fits = free[:, None] / asked
                np.minimum(copies, np.floor(fits, out=fits), out=copies)
            elif wants.any():
                copies[:, wants] = np.minimum(copies[:, wants], np.floor(free[:, None] / asked[wants]))
        return copies

    def counted(self, free: Scores, beside: Scores, whole: Mask) -> Scores:
        """Unusable thousandths, doubled and weighted, where GPUs are whole and counted; `whole`: nodes where none is in use."""
        return self.weighed(self.counted_parts(free, beside, whole))

    def counted_parts(self, free: Scores, beside: Scores, whole: Mask) -> Scores:
        """The same before it is weighted: a column for each typical pod, and one for all of them."""
        copies = np.minimum(beside, np.floor(free[:, None] / self.gpus))
        return _parts(free, copies, np.zeros_like(copies), self.gpus[None, :], whole)

    def weighed(self, parts: Scores) -> Scores:
        found: Scores = parts[:, :-1] @ self.weights + parts[:, -1] * (self.total / WHOLE_NODE)
        return found

    def cards(self, table: CardTable, states: Indexes, beside: Scores) -> Scores:
        """The same for shared cards in these states."""
        copies = np.minimum(beside, table.copies[states])
        small, each = table.small[states], table.each[states]
        return self.weighed(_parts(table.free[states], copies, small, each, table.whole[states]))


def _parts(free: Scores, copies: Scores, small: Scores, each: Scores, whole: Mask) -> Scores:
    """Unusable thousandths, doubled, by typical pod; in the last column those of nodes that are in use."""
    parts = np.empty((len(free), copies.shape[1] + 1))
    unusable = parts[:, :-1]
    np.subtract(free[:, None], copies * each, out=unusable)
    np.maximum(unusable, 0.0, out=unusable)
    unusable += small
    np.copyto(unusable, 2 * free[:, None], where=copies < 1)
    parts[:, -1] = np.where(whole, 0.0, 2 * free)
    return parts


class Known:
    """What was found of each node, as long as what it was found from stays: of most nodes it does from one score to the next."""

    def __init__(self, nodes: int) -> None:
        self._from: Scores = np.full((3, nodes), np.nan)
        self._found: Scores = np.zeros(nodes)

    def look_up(self, nodes: Indexes, basis: Scores, compute: Callable[[Indexes], Scores]) -> Scores:
        """`basis`: three numbers that decide, by node; `compute` finds it for some of the positions."""
        found: Scores = self._found[nodes]
        positions = np.flatnonzero((self._from[:, nodes] != basis).any(axis=0))
        if len(positions):
            found[positions] = fresh = compute(positions)
            self._found[nodes[positions]] = fresh
            self._from[:, nodes[positions]] = basis[:, positions]
        return found


class CardTable:
    """What typical pods could use of shared cards, by the state of a node's cards; states are looked at once."""

    def __init__(self, pool: Pool) -> None:
        asks = [each.ask() for each in pool.typical]
        self._asks = list(dict.fromkeys(asks))
        self._columns = np.array([self._asks.index(ask) for ask in asks], dtype=np.intp)
        self._slots: list[dict[Standing, tuple[int, int]]] = [{} for _ in self._asks]  # by request, then by card
        self._numbers: dict[State, int] = {}
        self.free: Scores = np.zeros(0)
        self.whole: Mask = np.zeros(0, dtype=bool)
        self._fits: Scores = np.zeros((0, 3, len(asks)))

    @property
    def copies(self) -> Scores:
        """How many of each typical pod the cards hold."""
        return self._fits[:, 0]

    @property
    def small(self) -> Scores:
        """Thousandths on cards that are too full for one."""
        return self._fits[:, 1]

    @property
    def each(self) -> Scores:
        """Thousandths that one takes."""
        return self._fits[:, 2]

    def number(self, state: State) -> int:
        number = self._numbers.get(state)
        if number is None:
            number = self._numbers[state] = len(self._numbers)
            if number >= len(self.free):
                more = max(64, len(self.free))
                self.free, self.whole = np.pad(self.free, (0, more)), np.pad(self.whole, (0, more))
                self._fits = np.pad(self._fits, ((0, more), (0, 0), (0, 0)))
            self.free[number] = sum(_value(standing) for standing in state)
            self.whole[number] = all(not standing[1] for standing in state)
            fits = [self._fit(state, ask, known) for ask, known in zip(self._asks, self._slots, strict=True)]
            self._fits[number] = np.array(fits, dtype=np.float64)[self._columns].T
        return number

    def _fit(self, state: State, ask: Ask, known: dict[Standing, tuple[int, int]]) -> tuple[int, int, int]:
        """How many such pods the cards hold, the thousandths on cards that are too full for one, and how many each takes."""
        slots = small = each = cards = 0
        for standing in state:
            found = known.get(standing)
            if found is None:
                found = known[standing] = _slots(standing, ask)
            if found[0]:
                slots, cards, each = slots + found[0], cards + 1, max(each, found[1])
            else:
                small += _value(standing)
        wanted = ask.containers[0].cards
        return (slots // wanted if cards >= wanted else 0), small, each * wanted


@lru_cache(maxsize=STANDINGS_CACHED_MAX)
def _value(standing: Standing) -> int:
    """Thousandths of the card that are free; nothing where no further pod gets a slice."""
    card, parts, memory, cores, _ = standing
    if not card.healthy or parts >= card.slices or cores >= CORES or memory >= card.memory:
        return 0
    return int(CARD) * (card.memory - memory) // card.memory


def _slots(standing: Standing, ask: Ask) -> tuple[int, int]:
    """How many such pods get their part of the card, and how many thousandths of it each takes."""
    card, parts, memory, cores, _ = standing
    (wanted,) = ask.containers
    asked = wanted.memory_of(card)
    alone = wanted.cores == CORES and parts > 0
    if alone or not _value(standing) or not ask.suits(card) or memory + asked > card.memory:
        return 0, 0
    by_memory = (card.memory - memory) // asked if asked else card.slices
    by_cores = (CORES - cores) // wanted.cores if wanted.cores else card.slices
    return min(by_memory, by_cores, card.slices - parts), int(CARD) * asked // card.memory

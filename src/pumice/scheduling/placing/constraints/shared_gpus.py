"""The GPUs of one node as pods share them: who holds what of which card, and what the next pod would get.

Two ways of sharing. *Slices* (vGPU): each container gets slices of so many different cards, with memory and a share of the
cores. *Cards by number*: a pod gets memory of one card, or whole cards that no other pod uses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.cluster.cards import CORES, HAMI_CORE, Card, CardSet
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

BINPACK, SPREAD = "binpack", "spread"


class Part(Value):
    """Of one card, by its place on the board."""

    card: int
    memory: int
    cores: int = 0


Grant = tuple[tuple[Part, ...], ...]  # per container


class Wanted(Value):
    """What one container wants: slices of so many cards, each with that much memory (or percent of it) and cores."""

    cards: int
    memory: int = 0
    percent: int = 0
    cores: int = 0

    def memory_of(self, card: Card) -> int:
        return self.memory or card.memory * self.percent // 100


class Ask(Value):
    """What a pod wants of a node's cards, and which cards will not do. Equal asks get equal answers."""

    containers: tuple[Wanted, ...]
    types: tuple[str, ...] = ()  # only cards whose type contains one of these
    not_types: tuple[str, ...] = ()
    uuids: frozenset[str] = frozenset()  # only these cards
    not_uuids: frozenset[str] = frozenset()
    mode: str = ""
    avoid: frozenset[str] = frozenset()  # no card that holds a pod with one of these marks
    marks: frozenset[str] = frozenset()  # that the pod leaves on its cards, as far as other pods avoid them

    def suits(self, card: Card) -> bool:
        """Whether the card will do at all, whatever is used of it."""
        kind = card.type.upper()
        if not card.healthy or card.mode != HAMI_CORE or (self.mode and self.mode != card.mode):
            return False
        if self.types:
            wanted = any(part in kind for part in self.types)
        else:
            wanted = not any(part in kind for part in self.not_types)
        return wanted and card.uuid not in self.not_uuids and (not self.uuids or card.uuid in self.uuids)


class Usage:
    """What is used of one card, by how many parts of it that pods have."""

    __slots__ = ("cores", "marks", "memory", "parts")

    def __init__(self, parts: int = 0, memory: int = 0, cores: int = 0) -> None:
        self.parts = parts
        self.memory = memory
        self.cores = cores
        self.marks: dict[str, int] = {}

    def copy(self) -> Usage:
        twin = Usage(self.parts, self.memory, self.cores)
        twin.marks = self.marks.copy()
        return twin

    def add(self, part: Part, marks: Iterable[str], sign: int = 1) -> None:
        self.parts += sign
        self.memory += part.memory * sign
        self.cores += part.cores * sign
        for mark in marks:
            self.marks[mark] = self.marks.get(mark, 0) + sign

    def has(self, marks: Iterable[str]) -> bool:
        return any(self.marks.get(mark, 0) > 0 for mark in marks)


class Board:
    """The cards of one node. Adding and removing are exact inverses of one another."""

    def __init__(self, cards: CardSet) -> None:
        self.set = cards
        self.usage = [Usage() for _ in cards.cards]

    @property
    def cards(self) -> Sequence[Card]:
        return self.set.cards

    def add(self, grant: Grant, marks: Iterable[str], sign: int = 1) -> None:
        for container in grant:
            for part in container:
                self.usage[part.card].add(part, marks, sign)

    def state(self, avoid: Iterable[str], *, named: bool, in_order: bool) -> State:
        """All that decides what a pod gets that avoids these marks; `named` tells cards of one kind apart."""
        cards = self.set.cards if named else self.set.kinds
        found = [
            (card, each.parts, each.memory, each.cores, bool(avoid) and each.has(avoid))
            for card, each in zip(cards, self.usage, strict=True)
        ]
        return tuple(sorted(found, key=fullest_first) if in_order else found)


# Cards with what is used of them, and whether the pod avoids them. Boards in equal states answer alike.
Standing = tuple[Card, int, int, int, bool]
State = tuple[Standing, ...]


def fullest_first(standing: Standing) -> tuple[object, ...]:
    """Equal keys belong to cards that are alike, so it does not matter which of them is taken."""
    card, parts, memory, cores, _ = standing
    return (-memory, -cores, -parts, card[1:])


def slices(cards: Sequence[Card], usage: Sequence[Usage], ask: Ask, policy: str = "") -> Grant | None:
    """Slices for each container in turn; None where one of them finds too few cards."""
    usage = [each.copy() for each in usage]
    given: list[tuple[Part, ...]] = []
    for wanted in ask.containers:
        chosen: list[Part] = []
        for number in _in_order(cards, usage, policy):
            part = _slice_of(cards[number], usage[number], ask, wanted, number)
            if part is not None and len(chosen) < wanted.cards:
                chosen.append(part)
                usage[number].add(part, ())
        if len(chosen) < wanted.cards:
            return None
        given.append(tuple(chosen))
    return tuple(given)


def _in_order(cards: Sequence[Card], usage: Sequence[Usage], policy: str) -> list[int]:
    """Places of the cards in the order in which they are looked at."""
    places = range(len(usage))
    if policy == BINPACK:
        keys = [
            fullest_first((card, each.parts, each.memory, each.cores, False))
            for card, each in zip(cards, usage, strict=True)
        ]
        return sorted(places, key=keys.__getitem__)
    if policy == SPREAD:
        return sorted(places, key=lambda place: usage[place].parts)
    return list(reversed(places))


def _slice_of(card: Card, used: Usage, ask: Ask, wanted: Wanted, number: int) -> Part | None:
    memory = wanted.memory_of(card)
    full = used.parts >= card.slices or used.memory + memory > card.memory or used.cores + wanted.cores > CORES
    alone = wanted.cores == CORES and used.parts > 0  # all cores: the card for itself
    starved = wanted.cores == 0 and used.cores >= CORES  # they are all in use
    if full or alone or starved or not ask.suits(card) or used.has(ask.avoid):
        return None
    return Part(number, memory, wanted.cores)


def memory_of_a_card(cards: Sequence[Card], usage: Sequence[Usage], ask: Ask) -> Grant | None:
    """Memory of the first card that has enough."""
    (wanted,) = ask.containers
    for number, (card, used) in enumerate(zip(cards, usage, strict=True)):
        if card.healthy and used.memory + wanted.memory <= card.memory:
            return ((Part(number, wanted.memory),),)
    return None


def whole_cards(cards: Sequence[Card], usage: Sequence[Usage], ask: Ask) -> Grant | None:
    """The first so many cards that no pod uses."""
    (wanted,) = ask.containers
    free = [number for number, used in enumerate(usage) if cards[number].healthy and not used.parts]
    if len(free) < wanted.cards:
        return None
    return (tuple(Part(number, cards[number].memory) for number in free[: wanted.cards]),)


def score(cards: Sequence[Card], usage: Sequence[Usage], grant: Grant, policy: str) -> float:
    """By card, once the pod is there: how full its memory is, or whether the pod has it for itself."""
    parts = [part.card for container in grant for part in container]
    if policy == BINPACK:
        return sum(100.0 * usage[card].memory / max(cards[card].memory, 1) for card in parts)
    if policy == SPREAD:
        return sum(100.0 for card in parts if usage[card].parts == 1)
    return 0.0

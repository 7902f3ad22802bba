"""GPUs that several pods share, as device plugins register them on nodes and as schedulers write them onto pods.

A node's annotation lists its cards, `uuid,slices,memory,type,healthy,mode:` each; a pod's lists what it got, per container
`uuid,type,memory,cores:` for each card, containers separated by `;`. What cannot be read counts for nothing: any user may write
annotations.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from pumice.api import names
from pumice.cluster import amounts
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pumice.api.core import Node

CARDS_MAX = 256  # on one node
SLICES_MAX = 4096  # of one card
CORES = 100  # of a card, in percent
HAMI_CORE = "hami-core"  # cards shared in software; the other way, MIG, is not supported
REGISTERS_CACHED_MAX = 16_384
_NUMBER = re.compile("[0-9]{1,9}")
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})


class Card(NamedTuple):
    """One GPU; memory in the device plugin's unit, which is MiB."""

    uuid: str
    slices: int
    memory: int
    type: str
    healthy: bool
    mode: str = HAMI_CORE


class CardSet:
    """The cards of one node, in their order. Equal registrations are one object."""

    def __init__(self, cards: Iterable[Card]) -> None:
        self.cards: Sequence[Card] = tuple(cards)
        # Cards that are alike are equal.
        self.kinds: Sequence[Card] = tuple(card._replace(uuid="") for card in self.cards)
        self.index = {card.uuid: number for number, card in enumerate(self.cards)}


class Slice(Value):
    """A part of a card: so much of its memory, and so many percent of its cores."""

    uuid: str
    memory: int
    cores: int


def _number(text: str) -> int:
    return int(text) if _NUMBER.fullmatch(text) else 0


@lru_cache(maxsize=REGISTERS_CACHED_MAX)
def parse_register(text: str) -> CardSet:
    """The cards that a node's annotation lists."""
    found = []
    for part in text.split(":")[:CARDS_MAX]:
        fields = part.split(",")
        if len(fields) >= 5:
            uuid, slices, memory, kind, healthy = fields[:5]
            mode = fields[5] if len(fields) > 5 and fields[5] else HAMI_CORE
            found.append(Card(uuid, min(_number(slices), SLICES_MAX), _number(memory), kind, healthy in _TRUE, mode))
    return CardSet(found)


@lru_cache(maxsize=REGISTERS_CACHED_MAX)
def slices_of(text: str) -> tuple[tuple[Slice, ...], ...]:
    """What a pod's annotation says that its containers got."""
    return tuple(
        tuple(
            Slice(fields[0], _number(fields[2]), _number(fields[3]))
            for part in container.split(":")
            if len(fields := part.split(",")) >= 4
        )
        for container in text.split(";")
    )


def slices_text(containers: Iterable[Iterable[Slice]]) -> str:
    return ";".join(
        "".join(f"{each.uuid},NVIDIA,{each.memory},{each.cores}:" for each in container) for container in containers
    )


def register_totals(node: Node) -> amounts.MutableAmounts:
    """What a node's cards have together: counted where its status does not list it, so that quotas and fits can count on it."""
    text = node.metadata.annotations.get(names.VGPU_NODE_REGISTER)
    if not text:
        return {}
    cards = [card for card in parse_register(text).cards if card.healthy]
    totals = {
        names.VGPU_NUMBER: sum(card.slices for card in cards),
        names.VGPU_MEMORY: sum(card.memory for card in cards),
        names.VGPU_CORES: len(cards) * CORES,
        names.VGPU_MEMORY_PERCENTAGE: len(cards) * 100,
    }
    return {name: value * amounts.MILLI for name, value in totals.items()}

"""A change that would start a gang, as data, and the sentence made of it."""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from pumice.digits import counted


class Kind(enum.Enum):
    """What would have to be different; in the order in which changes are tried, cheapest first."""

    TOLERATION = "toleration"
    SELECTOR = "selector"
    TIER = "tier"
    RUN_TIME = "runTime"
    QUEUE = "queue"
    MINIMUM = "minimum"
    RESOURCE = "resource"
    GANG_ENDS = "gangEnds"
    PRIORITY = "priority"
    NODES = "nodes"


class Suggestion(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """One change with which the engine starts the gang; each kind uses a few of the fields."""

    kind: Kind
    number: int = 0  # of members, of a resource a pod, of nodes, of the tier; the priority that is to be exceeded
    instead_of: int = 0
    name: str = ""  # a queue, a resource, a node to take as a model, a selector, a taint, a gang, a PriorityClass
    victims: Mapping[str, int] = msgspec.field(default_factory=dict)  # pods by gang that would be evicted for it
    admits: bool = False  # the gang has no pods yet: it would be admitted, and the rest shows then

    @property
    def text(self) -> str:
        """The sentence for people: what to change, and whom it costs."""
        more_nodes = counted(self.number, "more node")
        words = _WORDS[self.kind].format_map({**msgspec.structs.asdict(self), "more_nodes": more_nodes})
        if self.kind is Kind.PRIORITY and self.name:
            words += f", such as that of PriorityClass {self.name}"
        if self.victims:
            pods = sum(self.victims.values())
            words += f" (evicts {counted(pods, 'pod')} of {', '.join(sorted(self.victims))})"
        return words + (" (it would be admitted; whether its pods fit shows then)" if self.admits else "")


_WORDS = {
    Kind.TOLERATION: "with a toleration of the taint {name}",
    Kind.SELECTOR: "without {name}",
    Kind.TIER: "with highestTierAllowed {number} instead of {instead_of}",
    Kind.RUN_TIME: "with a time limit of {name} (annotation pumice.dev/time-limit): it would end before others need the room",
    Kind.QUEUE: "in queue {name}",
    Kind.MINIMUM: "with {number} members that must start together instead of {instead_of}",
    Kind.RESOURCE: "with {number} {name} a pod instead of {instead_of}",
    Kind.GANG_ENDS: "when {name} has ended",
    Kind.PRIORITY: "with a priority above {number}",
    Kind.NODES: "with {more_nodes} like {name}",
}


class Suggestions(Struct, frozen=True, omit_defaults=True):
    """What would start a gang, cheapest first, each verified; `tried` plans were made for it, and no more than `limit`."""

    found: tuple[Suggestion, ...] = ()
    tried: int = 0
    limit: int = 0

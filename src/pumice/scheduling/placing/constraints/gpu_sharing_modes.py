"""The ways in which pods share GPUs: how nodes list their cards, what pods ask for, and how the choice is written down."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

from pumice import instant
from pumice.api import names
from pumice.cluster import amounts
from pumice.cluster import cards as registers
from pumice.cluster.cards import Card, CardSet, Slice
from pumice.scheduling.core.codes import Code
from pumice.scheduling.placing.constraints import shared_gpus
from pumice.scheduling.placing.constraints.shared_gpus import Ask, Part, Wanted
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pumice.api.core import Node
    from pumice.api.pods import Container
    from pumice.cluster.tasks import Task
    from pumice.scheduling.placing.constraints.shared_gpus import Grant, Usage

_NO_SLICE = Wanted(0)
HANDSHAKE_S_MAX = 60  # after which a device plugin that does not answer counts as gone


class Where(Value):
    """The node of a pod that gets cards."""

    node: str
    cards: Sequence[Card]
    now: instant.Instant


class ByNumber(Value):
    """Cards that a node's capacity counts: memory of one of them, or some of them whole."""

    whole: bool
    policy: str = ""

    lock: ClassVar[str] = "gpu"
    in_order: ClassVar[bool] = False  # the first card that will do is taken

    @property
    def too_full(self) -> Code:
        return Code.GPU_NUMBER if self.whole else Code.GPU_MEMORY

    @property
    def never(self) -> Code:
        return Code.GPU_NUMBER_NEVER if self.whole else Code.GPU_MEMORY_NEVER

    def names_cards(self, node: Node) -> bool:
        return names.GPU_NUMBER in (node.status.capacity or node.status.allocatable)

    def cards_of(self, node: Node, *, now: instant.Instant) -> CardSet | None:
        del now
        capacity = amounts.read(node.status.capacity or node.status.allocatable)
        number = int(capacity.get(names.GPU_NUMBER, 0)) // amounts.MILLI
        memory = int(capacity.get(names.GPU_MEMORY, 0)) // amounts.MILLI
        if number < 1:
            return None
        broken = {part.strip() for part in node.metadata.annotations.get(names.GPU_UNHEALTHY_IDS, "").split(",")}
        return _numbered_cards(min(number, registers.CARDS_MAX), memory // number, frozenset(broken))

    def ask_of(self, task: Task, rules: frozenset[str]) -> Ask | None:
        del rules
        amount = self._demand(task)
        if not amount:
            return None
        return Ask((Wanted(amount),) if self.whole else (Wanted(1, amount),))

    def _demand(self, task: Task) -> int:
        """Of all containers together, or of the hungriest init container if that is more."""
        name = names.GPU_NUMBER if self.whole else names.GPU_MEMORY
        spec = task.pod.spec
        at_once = sum(_limit(container, name) for container in spec.containers)
        return max(at_once, max((_limit(container, name) for container in spec.init_containers), default=0))

    def grant_of(self, task: Task, cards: CardSet) -> Grant | None:
        """Cards named by the pod's annotation; in either way of sharing, a pod that is on a card is on it."""
        text = task.pod.metadata.annotations.get(names.GPU_INDEX, "")
        numbers = sorted({cards.index[part] for part in text.split(",") if part in cards.index})
        memory = 0 if self.whole else self._demand(task)
        return (tuple(Part(number, memory) for number in numbers),) if numbers else None

    def choose(self, cards: Sequence[Card], usage: Sequence[Usage], ask: Ask) -> Grant | None:
        return (shared_gpus.whole_cards if self.whole else shared_gpus.memory_of_a_card)(cards, usage, ask)

    def annotations(self, grant: Grant, where: Where) -> dict[str, str]:
        numbers = ",".join(where.cards[part.card].uuid for container in grant for part in container)
        return {names.GPU_INDEX: numbers, names.PREDICATE_TIME: str(where.now)}


class Slices(Value):
    """Cards that a device plugin registers in an annotation, in slices."""

    policy: str

    lock: ClassVar[str] = "hamivgpu"
    too_full: ClassVar[Code] = Code.GPU_SLICES
    never: ClassVar[Code] = Code.GPU_SLICES_NEVER

    @property
    def in_order(self) -> bool:
        """Whether the fullest cards come first, wherever they are."""
        return self.policy == shared_gpus.BINPACK

    def names_cards(self, node: Node) -> bool:
        return bool(node.metadata.annotations.get(names.VGPU_NODE_REGISTER))

    def cards_of(self, node: Node, *, now: instant.Instant) -> CardSet | None:
        notes = node.metadata.annotations
        text = notes.get(names.VGPU_NODE_REGISTER)
        if not text or _is_gone(notes.get(names.VGPU_HANDSHAKE, ""), now):
            return None
        return registers.parse_register(text)

    def ask_of(self, task: Task, rules: frozenset[str]) -> Ask | None:
        containers = tuple(_wanted_slices(container) for container in task.pod.spec.containers)
        if not any(wanted.cards for wanted in containers):
            return None
        notes = task.pod.metadata.annotations
        gang = (
            frozenset({f"gang {task.gang}"})
            if notes.get(names.VGPU_POD_GROUP_POLICY) == shared_gpus.SPREAD
            else frozenset()
        )
        avoid = rules | gang
        return Ask(
            containers,
            types=tuple(part.upper() for part in _parts(notes.get(names.USE_GPU_TYPE, ""))),
            not_types=tuple(part.upper() for part in _parts(notes.get(names.NOT_USE_GPU_TYPE, ""))),
            uuids=frozenset(_parts(notes.get(names.VGPU_USE_UUID, ""))),
            not_uuids=frozenset(_parts(notes.get(names.VGPU_NOT_USE_UUID, ""))),
            mode=notes.get(names.VGPU_MODE, ""),
            avoid=avoid,
            marks=avoid,
        )

    def grant_of(self, task: Task, cards: CardSet) -> Grant | None:
        text = task.pod.metadata.annotations.get(names.VGPU_IDS, "")
        if not text:
            return None
        return tuple(
            tuple(
                Part(cards.index[each.uuid], each.memory, each.cores) for each in container if each.uuid in cards.index
            )
            for container in registers.slices_of(text)
        )

    def choose(self, cards: Sequence[Card], usage: Sequence[Usage], ask: Ask) -> Grant | None:
        return shared_gpus.slices(cards, usage, ask, self.policy)

    def annotations(self, grant: Grant, where: Where) -> dict[str, str]:
        """Containers that want nothing have no place in the text: the device plugin counts only those that do."""
        text = registers.slices_text(
            [Slice(where.cards[part.card].uuid, part.memory, part.cores) for part in container]
            for container in grant
            if container
        )
        seconds = str(where.now // instant.SECOND)
        return {
            names.VGPU_NODE: where.node,
            names.VGPU_TIME: seconds,
            names.VGPU_IDS: text,
            names.DEVICES_TO_ALLOCATE: text,
            names.BIND_PHASE: "allocating",
            names.BIND_TIME: seconds,
        }


@lru_cache(maxsize=registers.REGISTERS_CACHED_MAX)
def _numbered_cards(number: int, memory: int, broken: frozenset[str]) -> CardSet:
    """Equal sets of cards are one object, so that what is found out about one node holds for its likes."""
    cards = [Card(str(each), 1, memory, "", str(each) not in broken) for each in range(number)]
    return CardSet(cards)


def _limit(container: Container, name: str) -> int:
    return int(amounts.read(container.resources.limits).get(name, 0)) // amounts.MILLI


def _wanted_slices(container: Container) -> Wanted:
    resources = container.resources
    limits, requests = resources.limits, resources.requests
    number, memory = names.VGPU_NUMBER, names.VGPU_MEMORY
    if not (number in limits or number in requests or memory in limits or memory in requests):
        return _NO_SLICE  # as most pods: asked of every pod that waits
    asked = {**amounts.read(resources.requests), **amounts.read(resources.limits)}
    return wanted_slices({name: int(value) // amounts.MILLI for name, value in asked.items()})


def wanted_slices(of: Mapping[str, int]) -> Wanted:
    """Memory alone means a slice of one card; neither memory nor a share of it means all of it."""
    cards = of.get(names.VGPU_NUMBER, 1 if names.VGPU_MEMORY in of else 0)
    memory = of.get(names.VGPU_MEMORY, 0)
    percent = of.get(names.VGPU_MEMORY_PERCENTAGE, 0 if memory else 100)
    return Wanted(cards, memory, percent, of.get(names.VGPU_CORES, 0))


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _is_gone(handshake: str, now: instant.Instant) -> bool:
    """Whether the node's device plugin has left: it says so, or has not answered for too long."""
    word, _, since = handshake.partition("_")
    if word == "Deleted":
        return True
    try:
        asked = instant.parse_instant(since.replace(".", "-").replace(" ", "T") + "Z")
    except instant.InstantError:
        return False
    return word == "Requesting" and now - asked > HANDSHAKE_S_MAX * instant.SECOND

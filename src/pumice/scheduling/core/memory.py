"""What one cycle hands to the next: a frozen value of slots, one for each plugin or mechanism that has a past.

    plan(snapshot, policy, memory, now=now).memory      is the next cycle's memory

Nothing changes a Memory in place. A plugin or mechanism that has a past declares a Slot, reads its value from the session, and
returns the next value at the end of the cycle (`Plugin.learn`). A slot holds plain data only: it can be encoded, and a cycle
replayed from its encoded inputs gives the same bytes. Slots that are `persistent` are kept in the cluster and survive a restart
(`pumice.dispatch.memory_store`).
"""

from __future__ import annotations

import functools
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import msgspec

from pumice.api.decoding import UNREADABLE
from pumice.errors import PumiceError
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pumice.instant import Instant

SLOT_BYTES_MAX = 512 * 1024  # of one value as it is encoded; a ConfigMap may hold twice as much
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_ENCODER = msgspec.json.Encoder(order="sorted")

S = TypeVar("S", bound=msgspec.Struct)


class UnreadableSlot(PumiceError):
    """Bytes that are no value of the slot, or too many; its text says why."""


class _Envelope(msgspec.Struct, frozen=True):
    version: int
    value: msgspec.Raw


def object_name(prefix: str, slot: str) -> str:
    """What the ConfigMap of a persistent slot is called; the prefix is the scheduler's lease."""
    return f"{prefix}-memory-{slot}"


class Slot(Value, Generic[S]):
    """One part of the memory. `type()`, a frozen Struct without arguments, is what a cluster without a past begins with.

    Raise `version` when older values can no longer be understood: they are then set aside.
    """

    name: str  # lower-case letters, digits and hyphens: part of an object's name in the cluster
    type: type[S]
    version: int = 1
    persistent: bool = False
    bytes_max: int = SLOT_BYTES_MAX

    def __post_init__(self) -> None:
        assert _NAME.fullmatch(self.name), f"memory slot {self.name!r}: use lower-case letters, digits and hyphens"
        assert self.type.__struct_config__.frozen, f"memory slot {self.name}: {self.type.__name__} is not frozen"
        assert 0 < self.bytes_max <= SLOT_BYTES_MAX, f"memory slot {self.name}: at most {SLOT_BYTES_MAX} bytes"

    def encode(self, value: S) -> bytes:
        """The same bytes for equal values."""
        return _ENCODER.encode({"version": self.version, "value": value})

    def decode(self, data: bytes | str) -> S:
        """The value that was encoded, or UnreadableSlot."""
        if len(data) > self.bytes_max:
            raise UnreadableSlot(f"{len(data)} bytes are more than the {self.bytes_max} that it may have")
        try:
            envelope = msgspec.json.decode(data, type=_Envelope)
            if envelope.version != self.version:
                raise UnreadableSlot(f"it has version {envelope.version}, and this program reads {self.version}")
            return msgspec.json.decode(envelope.value, type=self.type)
        except UNREADABLE as error:
            raise UnreadableSlot(f"not what this slot holds: {error}") from error


@functools.cache
def _default(kind: type[S]) -> S:
    return kind()


class Memory(Value):
    """Values by the name of their slot; a slot without one has its type's default."""

    values: Mapping[str, msgspec.Struct] = msgspec.field(default_factory=lambda: MappingProxyType({}))

    def of(self, slot: Slot[S]) -> S:
        value = self.values.get(slot.name)
        return value if isinstance(value, slot.type) else _default(slot.type)

    def after(self, learned: Iterable[tuple[Slot[Any], msgspec.Struct]]) -> tuple[Memory, dict[str, str]]:
        """The memory with new values, and, by slot, why a value was refused: one that cannot be kept leaves the last one standing."""
        values, refused = dict(self.values), {}
        for slot, value in learned:
            if value == self.of(slot):
                continue
            try:
                size = len(slot.encode(value))
            except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as error:
                refused[slot.name] = f"the new value is no plain data: {error}; the last one stays"
                continue
            if size > slot.bytes_max:
                refused[slot.name] = f"the new value has {size} bytes and may have {slot.bytes_max}; the last one stays"
            else:
                values[slot.name] = value
        if values == self.values:
            return self, refused
        return Memory(
            MappingProxyType(dict(sorted(values.items())))
        ), refused  # equal memories look equal, whoever learnt first

    def without(self, slot: Slot[Any]) -> Memory:
        """As if nothing had been learnt for that slot."""
        if slot.name not in self.values:
            return self
        return Memory(MappingProxyType({name: value for name, value in self.values.items() if name != slot.name}))


EMPTY = Memory()


def past(when: Instant | None, now: Instant) -> Instant | None:
    """A time that a slot remembers. One that has not come was written by a machine whose clock was ahead, and counts as unknown."""
    return None if when is None or when > now else when


def encode(memory: Memory, slots: Iterable[Slot[Any]]) -> bytes:
    """All slots in one text, for a file from which a cycle can be replayed."""
    known = {slot.name: slot for slot in slots}
    return _ENCODER.encode({name: msgspec.Raw(known[name].encode(value)) for name, value in memory.values.items()})


def decode(data: bytes, slots: Iterable[Slot[Any]]) -> Memory:
    """What `encode` wrote; UnreadableSlot where a slot is unknown or its value cannot be read."""
    known = {slot.name: slot for slot in slots}
    try:
        parts = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    except UNREADABLE as error:
        raise UnreadableSlot(f"no memory: {error}") from error
    if strange := parts.keys() - known.keys():
        raise UnreadableSlot(f"no slot is called {', '.join(sorted(strange))}")
    return Memory(MappingProxyType({name: known[name].decode(bytes(part)) for name, part in parts.items()}))

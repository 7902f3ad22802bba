"""The file: a line that says what it is, and frames, each with its length and a checksum; JSON, compressed.

    PUMICE-FLIGHT 1
    length checksum bytes   Head     the program and its settings
    length checksum bytes   State    everything that is known, as Changes to an empty cluster
    length checksum bytes   Inputs   of one cycle, with the Changes since the last one
    length checksum bytes   Outcome  what it decided; missing where the process ended while it planned
    ...

It is read with a schema, never executed: a file from somebody else can do no harm.
"""

from __future__ import annotations

import io
import struct
import zlib
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import UNSET, UnsetType

from pumice.api import changes, decoding, kinds
from pumice.api.decoding import UNREADABLE
from pumice.errors import BadInput
from pumice.scheduling.core.policy import Policy
from pumice.scheduling.core.ports import NodeLoad, Resting
from pumice.scheduling.time.accuracy import Forecast
from pumice.scheduling.time.run_times import Remembered

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pumice.api.changes import Change
    from pumice.api.meta import Struct
    from pumice.cluster.intake import Intake

FORMAT = 1
MAGIC = b"PUMICE-FLIGHT "
FRAME_BYTES_MAX = 2**30  # of one frame, unpacked: a state of 100,000 pods has a tenth of it
_PREFIX = struct.Struct(">II")
_LEVEL = 1  # of zlib: three times smaller at 200 MB/s; more costs more than it saves

Row: TypeAlias = tuple[str, str, Any]  # a Change: its name, its kind where it has one, its body


class Head(msgspec.Struct, frozen=True, tag=True):
    """Who wrote the file."""

    version: str
    scheduler_names: tuple[str, ...]
    default_queue: str
    grace_s: int


class State(msgspec.Struct, frozen=True, tag=True):
    """Everything that is known before a cycle; queues, nodes and pods as rows, in an order that makes the same state of them."""

    revision: int
    shifts: int
    resources: tuple[str, ...]
    gone: tuple[str, ...]
    rows: tuple[tuple[str, str, msgspec.Raw], ...]


class Inputs(msgspec.Struct, frozen=True, tag=True):
    """What one cycle was planned from, beside the state; what is not set is as it was for the cycle before."""

    number: int
    at: int
    budget: int
    rows: tuple[tuple[str, str, msgspec.Raw], ...]
    resting: dict[str, Resting]
    forecasts: dict[str, Forecast]
    memory: msgspec.Raw | UnsetType = UNSET  # that which the cycle before has left
    policy: Policy | UnsetType = UNSET
    loads: dict[str, NodeLoad] | UnsetType = UNSET
    run_times: Remembered | UnsetType | None = UNSET


class Outcome(msgspec.Struct, frozen=True, tag=True):
    """What the cycle decided: a digest of each part, and the pods that it moved."""

    number: int
    seconds: float
    digests: dict[str, str]
    binds: dict[str, str]  # pod -> node
    evictions: tuple[str, ...]
    answers: tuple[dict[str, Any] | str, ...] = ()  # of an extender, in order; a text is why there was none


Frame: TypeAlias = Head | State | Inputs | Outcome
_DECODER: msgspec.json.Decoder[Frame] = msgspec.json.Decoder(Frame)
_OUTCOMES: dict[str, Any] = {
    each.__name__: each
    for each in (
        changes.Admitted, changes.Assumed, changes.AttemptSeen, changes.BindFailed, changes.BindUnknown, changes.Evicting,
        changes.Forgotten, changes.Claimed, changes.Unclaimed,
    )
}  # fmt: skip
OWN_KINDS: dict[str, type[Struct]] = {
    each.struct.__name__: each.struct for each in kinds.KINDS if each.struct is not None
}


class Broken(BadInput):
    """A frame is not what was written; its text says where."""


class Torn(Broken):
    """The file ends in the middle of a frame, as one does that is copied while it is written."""


# ------------------------------------------------------------------------------------------------- changes and states


def row_of(change: Change) -> Row:
    match change:
        case changes.Upserted(object=thing):
            return "+", type(thing).__name__, thing
        case changes.Deleted(object=thing):
            return "-", type(thing).__name__, thing
        case changes.Relisted(struct=kind, uids=uids):
            return "=", kind.__name__, sorted(uids)
    return type(change).__name__, "", change


def change_of(row: tuple[str, str, msgspec.Raw], known: Mapping[str, type[Struct]] = OWN_KINDS) -> Change:
    name = f"{row[0]} {row[1]}".strip()
    try:
        return _change_of(*row, known)
    except decoding.UNREADABLE as error:
        raise Broken(f"a row {name}: not what this program writes: {error}; use the Pumice that wrote it") from error


def _change_of(name: str, kind: str, body: msgspec.Raw, known: Mapping[str, type[Struct]]) -> Change:
    if name in _OUTCOMES:
        outcome: Change = msgspec.json.decode(body, type=_OUTCOMES[name])
        return outcome
    struct_ = known.get(kind)
    if struct_ is None:
        raise Broken(f"it tells of a {kind or name}, which this program does not know; use the version that wrote it")
    if name == "=":
        return changes.Relisted(struct=struct_, uids=frozenset(msgspec.json.decode(body, type=list[str])))
    thing = decoding.decode(struct_, body)
    return changes.Upserted(object=thing) if name == "+" else changes.Deleted(object=thing)


def changes_of(intake: Intake) -> list[Change]:
    """What an empty cluster has to be told to become this one; in the order that keeps the order of its pods."""
    cluster, held = intake.cluster, intake.held
    nodes = [slot.node for slot in cluster.nodes.values() if slot.node is not None]
    groups = [slot.group for slot in cluster.gangs.values() if slot.group is not None]
    others = [thing for table in cluster.others.values() for thing in table.values()]
    pods = [held.pods[uid] for uid in dict.fromkeys([*cluster.tasks, *held.pods])]
    admitted = [
        changes.Admitted(gang=key, uid=slot.group.metadata.uid)
        for key, slot in cluster.gangs.items()
        if slot.is_admitted and slot.group is not None
    ]
    evicting = [
        changes.Evicting(pod=changes.PodRef.of(held.pods[uid].metadata), node="", at=0)
        for uid in sorted(held.evicting)
        if uid in held.pods
    ]
    return [
        *(changes.Upserted(object=thing) for thing in (*others, *held.queues.values(), *nodes, *groups, *pods)),
        *held.assumed.values(),
        *evicting,
        *admitted,
        *(changes.Claimed(claim=claim) for claim in cluster.claims.values()),
        *(changes.AttemptSeen(attempt=attempt, at=at) for attempt, at in cluster.seen_at.items()),
    ]


# ------------------------------------------------------------------------------------------------- bytes


def first_line() -> bytes:
    return MAGIC + b"%d\n" % FORMAT


def pack(frame: Any) -> bytes:
    """A frame, or a mapping that reads as one, as it stands in the file."""
    body = zlib.compress(msgspec.json.encode(frame), _LEVEL)
    return _PREFIX.pack(len(body), zlib.crc32(body)) + body


def unpack(data: bytes, source: str) -> Iterator[Frame]:
    """The frames of a file, one after the other; raises Broken where they end without being whole."""
    if not data:
        raise BadInput(
            f"{source}: empty: no cycle was planned, as in a replica that never led; the leader's recording has what you look for"
        )
    line, _, rest = data.partition(b"\n")
    if not line.startswith(MAGIC):
        raise BadInput(f"{source}: no flight recording; give the file that `pumice scheduler --flight-recorder` writes")
    if line != first_line().rstrip():
        written = line.removeprefix(MAGIC)[:20].decode(errors="replace")
        raise BadInput(
            f"{source}: it has format {written}, and this program reads {FORMAT}; use the Pumice that wrote it"
        )
    stream = io.BytesIO(rest)
    number = 0
    while prefix := stream.read(_PREFIX.size):
        number += 1
        where = f"{source}: frame {number}"
        length, checksum = _PREFIX.unpack(prefix) if len(prefix) == _PREFIX.size else (0, 0)
        body = stream.read(length)
        if len(prefix) < _PREFIX.size or len(body) < length:
            raise _too_short(prefix + body, body, where)
        if zlib.crc32(body) != checksum:
            raise Broken(f"{where}: its checksum is wrong: the file was damaged; get another copy of it")
        yield _decode(body, where)


def _too_short(rest: bytes, body: bytes, where: str) -> Broken:
    """A file that was copied while it was written ends within a frame; where the whole frame is there and more, it is its length that is wrong."""
    if rest.startswith(MAGIC):
        return Broken(f"{where}: another recording begins here; replay each file for itself")
    unpacker = zlib.decompressobj()
    try:
        unpacker.decompress(body, FRAME_BYTES_MAX)
        is_torn = not unpacker.eof
    except zlib.error:
        is_torn = False
    if is_torn:
        return Torn(f"{where}: the file ends in the middle of it; what was being written when it was copied is lost")
    return Broken(f"{where}: its length is wrong: the file was damaged; get another copy of it")


def _decode(body: bytes, where: str) -> Frame:
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(body, FRAME_BYTES_MAX)
        if unpacker.unconsumed_tail:
            raise Broken(f"{where}: larger than {FRAME_BYTES_MAX} bytes; this is no recording of ours")
        return _DECODER.decode(text)
    except (*UNREADABLE, zlib.error) as error:
        raise Broken(f"{where}: not what this program writes: {error}; use the Pumice that wrote it") from error

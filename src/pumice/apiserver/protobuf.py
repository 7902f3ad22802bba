"""Bodies in Kubernetes' protobuf, which Go clients send for built-in kinds, read into the JSON that everything else speaks.

Only reading: answers are JSON, which the same clients accept. The field table comes from tools/apiserver/wire.py.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
import json
from importlib import resources as files
from typing import TYPE_CHECKING, Any

from pumice import instant
from pumice.apiserver.store import decode
from pumice.apiserver.structures import structures

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"
DEPTH_MAX = 64
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class ProtobufError(ValueError):
    """Bytes that are no object of a known kind."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Field:
    name: str
    notation: str
    keeps_zero: bool


@functools.cache
def _table() -> Mapping[str, Mapping[int, _Field]]:
    document = json.loads(files.files("pumice.apiserver").joinpath("wire.json").read_text("utf-8"))
    return {
        name: {row[0]: _Field(row[1], row[2], keeps_zero=len(row) > 3) for row in rows}
        for name, rows in document.items()
    }


def read_object(body: bytes, type_names: Mapping[tuple[str, str], str]) -> dict[str, Any]:
    """The object in an envelope; `type_names` maps (apiVersion, kind) to structures."""
    if not body.startswith(MAGIC):
        raise ProtobufError("the body does not begin as Kubernetes' protobuf does")
    api_version = kind = ""
    raw = b""
    for number, _, value in _fields(body[len(MAGIC) :]):
        if number == 1:
            for inner, _, text in _fields(value):
                if inner == 1:
                    api_version = text.decode()
                elif inner == 2:
                    kind = text.decode()
        elif number == 2:
            raw = value
    type_name = type_names.get((api_version, kind), "")
    if type_name not in _table():
        raise ProtobufError(f"{kind} of {api_version} is not known in protobuf; send JSON")
    return {"apiVersion": api_version, "kind": kind} | _message(type_name, raw, 0)


def _fields(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """Number, wire type and raw value of each field."""
    position, end = 0, len(data)
    while position < end:
        key, position = _varint(data, position)
        number, wire = key >> 3, key & 7
        if wire == _VARINT:
            value, position = _varint(data, position)
            yield number, wire, value
        elif wire == _BYTES:
            size, position = _varint(data, position)
            if position + size > end:
                raise ProtobufError("the body ends in the middle of a field")
            yield number, wire, data[position : position + size]
            position += size
        elif wire in {_FIXED64, _FIXED32}:
            size = 8 if wire == _FIXED64 else 4
            yield number, wire, data[position : position + size]
            position += size
        else:
            raise ProtobufError(f"field {number} has wire type {wire}, which Kubernetes does not use")


def _varint(data: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            raise ProtobufError("the body ends in the middle of a number")
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return result, position
        shift += 7


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number


def _message(type_name: str, data: bytes, depth: int) -> dict[str, Any]:
    if depth > DEPTH_MAX:
        raise ProtobufError("the body is nested too deeply")
    fields = _table()[type_name]
    obj: dict[str, Any] = {}
    structure = structures().get(type_name)
    for number, _, raw in _fields(data):
        field = fields.get(number)
        if field is None:
            continue  # newer than our table
        if field.notation.startswith("[]"):
            obj.setdefault(field.name, []).append(_value(field.notation[2:], raw, depth))
        elif field.notation.startswith("{}"):
            key, value = _map_entry(field.notation[2:], raw, depth)
            obj.setdefault(field.name, {})[key] = value
        else:
            value = _value(field.notation, raw, depth)
            if structure is not None and field.name not in structure.fields and isinstance(value, dict):
                obj |= value  # embedded in Go, and therefore not there in JSON
            elif value or field.keeps_zero or isinstance(value, dict):
                obj[field.name] = value
    return obj


def _map_entry(notation: str, raw: bytes, depth: int) -> tuple[str, Any]:
    key, value = "", _zero(notation)
    for number, _, inner in _fields(raw):
        if number == 1:
            key = inner.decode()
        else:
            value = _value(notation, inner, depth)
    return key, value


def _zero(notation: str) -> Any:
    return "" if notation in {"string", "bytes"} else {} if notation.startswith("@") else None


def _value(notation: str, raw: Any, depth: int) -> Any:
    if notation.startswith("@"):
        return _listed(notation[1:], raw, depth)
    match notation:
        case "string":
            return raw.decode()
        case "bytes":
            return base64.b64encode(raw).decode()
        case "boolean":
            return bool(raw)
        case "integer":
            return _signed(raw)
        case "json":
            return decode(next((value for number, _, value in _fields(raw) if number == 1), b"null"))
        case "quantity":
            return next((value.decode() for number, _, value in _fields(raw) if number == 1), "0")
    return _special(notation, {number: value for number, _, value in _fields(raw)})


def _special(notation: str, parts: dict[int, Any]) -> Any:
    if notation == "int-or-string":
        return parts[3].decode() if parts.get(1) else _signed(parts.get(2, 0))
    if notation == "duration":
        return instant.format_duration(_signed(parts.get(1, 0)))
    moment = _signed(parts.get(1, 0)) * instant.SECOND + parts.get(2, 0)
    if not parts:
        return None
    return instant.format_micro_instant(moment) if notation == "microtime" else instant.format_instant(moment)


def _listed(type_name: str, raw: bytes, depth: int) -> Any:
    """A message; one that only wraps `items` without being a kind's list is a list in JSON."""
    fields = _table().get(type_name)
    if fields is None:
        raise ProtobufError(f"{type_name} is not known in protobuf; send JSON")
    value = _message(type_name, raw, depth + 1)
    if type_name not in structures() and [field.name for field in fields.values()] == ["items"]:
        return value.get("items", [])
    return value

"""Bodies in Kubernetes' protobuf, which Go clients send for built-in kinds, read into the JSON that everything else speaks.

Only reading: answers are JSON, which the same clients accept. The field table comes from tools/apiserver/wire.py.
"""

from __future__ import annotations

import base64
import functools
import json
from importlib import resources as files
from typing import TYPE_CHECKING, Any

from pumice import instant
from pumice.local.apiserver.store import decode
from pumice.local.apiserver.structures import structures
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"
DEPTH_MAX = 64
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class ProtobufError(ValueError):
    """Bytes that are no object of a known kind."""


class _Field(Value):
    name: str
    notation: str
    keeps_zero: bool


@functools.cache
def _table() -> Mapping[str, Mapping[int, _Field]]:
    document = json.loads(files.files("pumice.local.apiserver").joinpath("wire.json").read_text("utf-8"))
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
            named = {inner: text for inner, _, text in _fields(_raw(value))}
            api_version, kind = _text(named.get(1, b"")), _text(named.get(2, b""))
        elif number == 2:
            raw = _raw(value)
    type_name = type_names.get((api_version, kind), "")
    if type_name not in _table():
        raise ProtobufError(f"{kind} of {api_version} is not known in protobuf; send JSON")
    return {"apiVersion": api_version, "kind": kind} | _message(type_name, raw, 0)


def _raw(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise ProtobufError("a number stands where a text or a message should")
    return value


def _text(value: Any) -> str:
    return _raw(value).decode()


def _number(value: Any) -> int:
    if not isinstance(value, int):
        raise ProtobufError("a text stands where a number should")
    return value - 2**64 if value >= 2**63 else value


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
    for number, _, inner in _fields(_raw(raw)):
        if number == 1:
            key = _text(inner)
        else:
            value = _value(notation, inner, depth)
    return key, value


def _zero(notation: str) -> Any:
    return "" if notation in {"string", "bytes"} else {} if notation.startswith("@") else None


def _value(notation: str, raw: Any, depth: int) -> Any:
    if notation.startswith("@"):
        return _message_or_list(notation[1:], _raw(raw), depth)
    match notation:
        case "string":
            return _text(raw)
        case "bytes":
            return base64.b64encode(_raw(raw)).decode()
        case "boolean":
            return bool(_number(raw))
        case "integer":
            return _number(raw)
    parts = {number: value for number, _, value in _fields(_raw(raw))}
    match notation:
        case "json":
            return decode(_raw(parts.get(1, b"null")))
        case "quantity":
            return _text(parts.get(1, b"0"))
        case "int-or-string":
            return _text(parts.get(3, b"")) if parts.get(1) else _number(parts.get(2, 0))
        case "duration":
            return instant.format_duration(_number(parts.get(1, 0)))
    return _time(notation, parts)


def _time(notation: str, parts: dict[int, Any]) -> str | None:
    if not parts:
        return None
    moment = _number(parts.get(1, 0)) * instant.SECOND + _number(parts.get(2, 0))
    try:
        return instant.format_micro_instant(moment) if notation == "microtime" else instant.format_instant(moment)
    except instant.InstantError as error:
        raise ProtobufError(str(error)) from error


def _message_or_list(type_name: str, raw: bytes, depth: int) -> Any:
    """A message; one that only wraps `items` without being a kind's list is a list in JSON."""
    fields = _table().get(type_name)
    if fields is None:
        raise ProtobufError(f"{type_name} is not known in protobuf; send JSON")
    value = _message(type_name, raw, depth + 1)
    if type_name not in structures() and [field.name for field in fields.values()] == ["items"]:
        return value.get("items", [])
    return value

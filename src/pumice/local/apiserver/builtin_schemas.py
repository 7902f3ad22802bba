"""Is a body what its built-in kind says? One fast question for the common case, a careful walk for the rest.

The fast way asks jsonschema-rs, which knows every field of the kind; an object that passes needs no second look. One that
does not is walked: nulls are dropped as Go's decoder drops them, unknown fields are removed and named, wrong types are
refused, missing required fields are named.
"""

from __future__ import annotations

import functools
from typing import Any

import jsonschema_rs
import msgspec

from pumice.local.apiserver.structures import Structure, structures
from pumice.values import Mutable

_SCALAR_SCHEMAS: dict[str, dict[str, Any]] = {
    "string": {"type": "string"},
    "bytes": {"type": "string"},
    "time": {"type": "string"},
    "integer": {"type": "integer"},
    "boolean": {"type": "boolean"},
    "number": {"type": "number"},
    "quantity": {"type": ["string", "number"]},
    "int-or-string": {"type": ["string", "integer"]},
    "any": {},
}
_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "bytes": (str,),
    "time": (str,),
    "integer": (int,),
    "boolean": (bool,),
    "number": (int, float),
    "quantity": (str, int, float),
    "int-or-string": (str, int),
}
_IN_STATUS = "~"
DEPTH_MAX = 100  # deeper objects exist in no schema but JSONSchemaProps, and a bomb must not exhaust the stack


class Findings(Mutable):
    """What a walk found, as paths such as `spec.containers[0].imagee`."""

    unknown: list[str] = msgspec.field(default_factory=list)
    mistyped: list[tuple[str, str]] = msgspec.field(default_factory=list)
    missing: list[str] = msgspec.field(default_factory=list)


def _schema_of(notation: str, mark: str) -> dict[str, Any]:
    if notation.startswith("[]"):
        return {"type": "array", "items": _schema_of(notation[2:], mark)}
    if notation.startswith("{}"):
        return {"type": "object", "additionalProperties": _schema_of(notation[2:], mark)}
    if notation.startswith("@"):
        return {"$ref": f"#/$defs/{notation[1:]}{mark}"}
    return _SCALAR_SCHEMAS[notation]


def _definition(structure: Structure, *, root: bool, mark: str) -> dict[str, Any]:
    """One structure; inside a status nothing is required, because a real server does not ask there either."""
    properties = {
        name: _schema_of(field.notation, _IN_STATUS if root and name == "status" else mark)
        for name, field in structure.fields.items()
    }
    required = [] if mark else list(structure.required)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def reachable(type_name: str) -> set[str]:
    found, waiting = set(), [type_name]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += [field.type_name for field in structures()[name].fields.values() if field.type_name]
    return found


@functools.cache
def _validator(type_name: str) -> jsonschema_rs.Draft202012Validator:
    definitions = {
        name + mark: _definition(structures()[name], root=name == type_name, mark=mark)
        for name in sorted(reachable(type_name))
        for mark in ("", _IN_STATUS)
    }
    return jsonschema_rs.Draft202012Validator({"$ref": f"#/$defs/{type_name}", "$defs": definitions})


def fits(type_name: str, obj: Any) -> bool:
    """True if every field is known, of its type, and none that is required is missing."""
    return bool(_validator(type_name).is_valid(obj))


def walk(type_name: str, obj: dict[str, Any]) -> tuple[dict[str, Any], Findings]:
    """The object without nulls and unknown fields, and what was wrong with it."""
    findings = Findings()
    cleaned = _walk("@" + type_name, obj, "", findings)
    return (cleaned if isinstance(cleaned, dict) else {}), findings


def _walk(notation: str, value: Any, path: str, findings: Findings) -> Any:
    if path.count(".") > DEPTH_MAX:
        findings.mistyped.append((path, "nested too deeply"))
        return None
    if notation.startswith("@"):
        return _walk_structure(notation[1:], value, path, findings)
    if notation.startswith("[]"):
        if not isinstance(value, list):
            findings.mistyped.append((path, f"expected a list, got {_name(value)}"))
            return []
        return [_walk(notation[2:], item, f"{path}[{index}]", findings) for index, item in enumerate(value)]
    if notation.startswith("{}"):
        if not isinstance(value, dict):
            findings.mistyped.append((path, f"expected a map, got {_name(value)}"))
            return {}
        return {
            key: _walk(notation[2:], item, f"{path}.{key}", findings)
            for key, item in value.items()
            if item is not None or notation == "{}any"
        }
    expected = _PYTHON_TYPES.get(notation)
    if expected is None:
        return value
    if not isinstance(value, expected) or (isinstance(value, bool) and bool not in expected):
        findings.mistyped.append((path, f"cannot unmarshal {_name(value)} into a field of type {notation}"))
    return value


def _walk_structure(type_name: str, value: Any, path: str, findings: Findings) -> Any:
    if not isinstance(value, dict):
        findings.mistyped.append((path, f"expected an object, got {_name(value)}"))
        return {}
    structure, cleaned = structures()[type_name], {}
    for key, item in value.items():
        inner = f"{path}.{key}" if path else key
        field = structure.fields.get(key)
        if field is None:
            findings.unknown.append(inner)
        elif item is not None:
            cleaned[key] = _walk(field.notation, item, inner, findings)
    if not path.startswith("status"):
        findings.missing += [f"{path}.{key}" if path else key for key in structure.required if key not in cleaned]
    return cleaned


def without_empties(type_name: str, obj: dict[str, Any]) -> dict[str, Any]:
    """The object without empty maps and lists, which a real server does not write out either; empty structures stay, and what is required:
    without it the object could not be written back.
    """
    structure, kept = structures()[type_name], {}
    fields = structure.fields
    for key, value in obj.items():
        field = fields.get(key)
        if (
            field is not None
            and not value
            and isinstance(value, dict | list)
            and key not in structure.required
            and not field.notation.startswith(("@", "any"))
        ):
            continue
        kept[key] = _inner_without_empties(field.notation, value) if field is not None and field.type_name else value
    return kept


def _inner_without_empties(notation: str, value: Any) -> Any:
    if notation.startswith("@"):
        return without_empties(notation[1:], value) if isinstance(value, dict) else value
    if isinstance(value, list):
        return [_inner_without_empties(notation[2:], item) for item in value]
    if isinstance(value, dict):
        return {key: _inner_without_empties(notation[2:], item) for key, item in value.items()}
    return value


def _name(value: Any) -> str:
    names = {dict: "object", list: "array", str: "string", bool: "bool", type(None): "null"}
    return names.get(type(value), "number")


def text_path(path: list[str | int]) -> str:
    """A path as Kubernetes writes it: `spec.tasks[0].name`; a key with dots or slashes goes into brackets."""
    text = ""
    for step in path:
        if isinstance(step, int) or any(sign in step for sign in "./"):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text

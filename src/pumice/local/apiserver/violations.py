"""What jsonschema-rs found, in the words in which a real server says it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

Cause = tuple[str, str, str]  # field, reason, message
BLOCKING = frozenset(
    {
        "FieldValueRequired",
        "FieldValueTypeInvalid",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueNotSupported",
    }
)
RULES_NOT_CHECKED = (
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)
_TEXT_ORDER = {"maxLength": 1, "minLength": 2, "pattern": 3}
_FORMATS = {-(2**31): "int32", 2**31 - 1: "int32", -(2**63): "int64", 2**63 - 1: "int64"}
VALUE_CHARS_MAX = 1_024  # a wrong value is shown, but not a megabyte of it


def value_text(value: Any) -> str:
    """A value as error messages print it."""
    if isinstance(value, dict):
        return '"object"' if not value else _shorten(json.dumps(value, separators=(",", ":")))
    if isinstance(value, list):
        return _shorten(json.dumps(value, separators=(",", ":")))
    return _shorten(json.dumps(value))


def _shorten(text: str) -> str:
    return text if len(text) <= VALUE_CHARS_MAX else text[:VALUE_CHARS_MAX] + "..."


def type_name(value: Any) -> str:
    names = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
    return names.get(type(value), "null")


def causes_of(errors: Iterable[Any], root: Any) -> list[Cause]:
    """All errors in order; of a text's length and pattern only the first is told, as a real server stops there."""
    causes: list[Cause] = []
    told: dict[str, str] = {}
    for error in sorted(errors, key=lambda error: _TEXT_ORDER.get(error.kind.name, 0)):
        path = path_in(root, error.instance_path)
        if error.kind.name in _TEXT_ORDER and told.setdefault(path, error.kind.name) != error.kind.name:
            continue
        causes.append(cause_of(error, path))
    return causes


def path_in(root: Any, steps: list[str | int]) -> str:
    """A path as Kubernetes writes it; whether a number is a key or an index only the object itself can tell."""
    text = ""
    for step in steps:
        if isinstance(root, list):
            text, root = f"{text}[{step}]", root[int(step)]
        else:
            text, root = (
                f"{text}.{step}" if text else str(step),
                root.get(str(step)) if isinstance(root, dict) else None,
            )
    return text


def cause_of(error: Any, path: str) -> Cause:
    kind, value = error.kind, error.instance
    if kind.name in {"minimum", "maximum"} and "allOf" in error.schema_path and kind.limit in _FORMATS:
        text = f'Invalid value: "": Checked value must be of type integer with format {_FORMATS[kind.limit]} in {path}'
        return "<nil>", "FieldValueInvalid", text
    match kind.name:
        case "required":
            return f"{path}.{kind.property}" if path else kind.property, "FieldValueRequired", "Required value"
        case "type":
            wanted = [name for name in kind.types if name != "null"] or list(kind.types)
            given = type_name(value)
            text = f'Invalid value: "{given}": {path} in body must be of type {",".join(wanted)}: "{given}"'
            return path, "FieldValueTypeInvalid", text
        case "enum":
            options = kind.options if isinstance(kind.options, list) else json.loads(kind.options)
            listed = ", ".join(json.dumps(option) for option in options if option is not None)
            return path, "FieldValueNotSupported", f"Unsupported value: {value_text(value)}: supported values: {listed}"
        case "maxLength":
            return path, "FieldValueTooLong", f"Too long: may not be more than {kind.limit} bytes"
        case "maxItems":
            return path, "FieldValueTooMany", f"Too many: {len(value)}: must have at most {kind.limit} items"
        case "maxProperties":
            return path, "FieldValueTooMany", f"Too many: {len(value)}: must have at most {kind.limit} items"
    return (
        path,
        "FieldValueInvalid",
        _bound(path, kind, value) or f"Invalid value: {value_text(value)}: {error.message}",
    )


def _bound(path: str, kind: Any, value: Any) -> str:
    where = f"{path} in body"
    match kind.name:
        case "minimum":
            return f"Invalid value: {value_text(value)}: {where} should be greater than or equal to {kind.limit}"
        case "maximum":
            return f"Invalid value: {value_text(value)}: {where} should be less than or equal to {kind.limit}"
        case "exclusiveMinimum":
            return f"Invalid value: {value_text(value)}: {where} should be greater than {kind.limit}"
        case "exclusiveMaximum":
            return f"Invalid value: {value_text(value)}: {where} should be less than {kind.limit}"
        case "pattern":
            return f"Invalid value: {value_text(value)}: {where} should match '{kind.pattern}'"
        case "minLength":
            return f"Invalid value: {value_text(value)}: {where} should be at least {kind.limit} chars long"
        case "minItems":
            return f"Invalid value: {len(value)}: {where} should have at least {kind.limit} items"
        case "minProperties":
            return f"Invalid value: {len(value)}: {where} should have at least {kind.limit} properties"
        case "format":
            return f"Invalid value: {value_text(value)}: {where} must be of type {kind.format}: {value_text(value)}"
    return ""

"""A CRD's structural schema at work: prune what it does not name, fill in defaults, check the rest.

JSON Schema itself is jsonschema-rs's business. Ours are the words that Kubernetes adds: nullable, int-or-string,
preserve-unknown-fields, embedded resources, list types, and CEL rules.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
from typing import Any

import jsonschema_rs

from pumice import cel
from pumice.local.apiserver.builtin_schemas import text_path, walk
from pumice.local.apiserver.violations import BLOCKING, RULES_NOT_CHECKED, Cause, causes_of, value_text

Schema = dict[str, Any]
_DROPPED = ("default", "example", "externalDocs", "description", "title", "nullable", "id")
_INT_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
ERRORS_MAX = 100  # a list of a million wrong items needs no million sentences


class StructuralSchema:
    """One version's schema. Objects passed in are changed in place by `prune` and `default`."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    @functools.cached_property
    def _ruled(self) -> bool:
        return _contains(self.schema, "x-kubernetes-validations")

    @functools.cached_property
    def _listed(self) -> bool:
        return _contains(self.schema, "x-kubernetes-list-type")

    @functools.cached_property
    def validator(self) -> jsonschema_rs.Draft202012Validator:
        """Compiled when it is first needed: most kinds of a cluster have no object. ValueError where the schema is wrong."""
        return jsonschema_rs.Draft202012Validator(translate(self.schema, root=True), validate_formats=True)

    def prune(self, obj: dict[str, Any]) -> list[str]:
        """Removes the fields that the schema does not name, and returns their paths."""
        unknown: list[str] = []
        _prune(self.schema, obj, [], unknown, resource=True)
        return unknown

    def default(self, obj: dict[str, Any]) -> None:
        _default(self.schema, obj)

    def validate(self, obj: dict[str, Any], old: dict[str, Any] | None) -> list[Cause]:
        """Everything that is wrong with the object, in the words of a real server."""
        causes: list[Cause] = []
        if not self.validator.is_valid(obj):
            causes = causes_of(itertools.islice(self.validator.iter_errors(obj), ERRORS_MAX), obj)
        if self._listed:
            _unique(self.schema, obj, [], causes)
        if self._ruled and any(reason in BLOCKING for _, reason, _ in causes):
            causes.append(("<nil>", "FieldValueInvalid", RULES_NOT_CHECKED))
        elif self._ruled:
            _rules(self.schema, obj, old, [], causes)
        return causes


def _contains(schema: Any, word: str) -> bool:
    if isinstance(schema, dict):
        return word in schema or any(_contains(value, word) for value in schema.values())
    return isinstance(schema, list) and any(_contains(value, word) for value in schema)


def translate(schema: Schema, *, root: bool = False) -> Schema:
    """The same schema in plain JSON Schema 2020-12."""
    plain = {key: value for key, value in schema.items() if key not in _DROPPED and not key.startswith("x-")}
    _translate_inner(plain)
    for name, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if plain.pop(name, False) is True and bound in plain:
            plain[name] = plain.pop(bound)
    if schema.get("x-kubernetes-int-or-string"):
        plain.pop("anyOf", None)
        plain["type"] = ["integer", "string"]
    if plain.get("type") == "integer" and plain.get("format") in _INT_RANGES:
        low, high = _INT_RANGES[plain.pop("format")]
        plain["allOf"] = [*plain.get("allOf", ()), {"minimum": low, "maximum": high}]
    if schema.get("nullable") and "type" in plain:
        types = plain["type"] if isinstance(plain["type"], list) else [plain["type"]]
        plain["type"] = [*types, "null"]
        if "enum" in plain:
            plain["enum"] = [*plain["enum"], None]
    if root:
        plain.setdefault("properties", {}).pop("metadata", None)
    return plain


def _translate_inner(plain: Schema) -> None:
    if "properties" in plain:
        plain["properties"] = {name: translate(inner) for name, inner in plain["properties"].items()}
    for key in ("items", "additionalProperties", "not"):
        if isinstance(plain.get(key), dict):
            plain[key] = translate(plain[key])
    for key in ("allOf", "anyOf", "oneOf"):
        if key in plain:
            plain[key] = [translate(inner) for inner in plain[key]]


def _prune(schema: Schema, value: Any, path: list[str | int], unknown: list[str], *, resource: bool) -> None:
    if isinstance(value, list):
        items = schema.get("items")
        for index, item in enumerate(value):
            _prune(items if isinstance(items, dict) else {}, item, [*path, index], unknown, resource=False)
        return
    if not isinstance(value, dict):
        return
    embedded = resource or schema.get("x-kubernetes-embedded-resource", False)
    keep_all = schema.get("x-kubernetes-preserve-unknown-fields", False)
    properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
    for key in list(value):
        inner = [*path, key]
        if embedded and key in {"apiVersion", "kind", "metadata"}:
            if key == "metadata" and not resource:
                value[key] = _pruned_metadata(value[key], inner, unknown)
        elif key in properties:
            _prune(properties[key], value[key], inner, unknown, resource=False)
        elif isinstance(additional, dict):
            _prune(additional, value[key], inner, unknown, resource=False)
        elif not keep_all and additional is not True:
            unknown.append(text_path(inner))
            del value[key]


def _pruned_metadata(metadata: Any, path: list[str | int], unknown: list[str]) -> Any:
    """The metadata of an embedded resource; the object's own has been looked at before."""
    if not isinstance(metadata, dict):
        return metadata
    cleaned, findings = walk("meta.v1.ObjectMeta", metadata)
    unknown += [text_path([*path, found]) for found in findings.unknown]
    return cleaned


def _default(schema: Schema, value: Any) -> None:
    if isinstance(value, list):
        items = schema.get("items")
        if isinstance(items, dict):
            for item in value:
                _default(items, item)
        return
    if not isinstance(value, dict):
        return
    properties = schema.get("properties") or {}
    for key, inner in properties.items():
        # A null where null is not allowed counts as absent once there is a default.
        if "default" in inner and (key not in value or (value[key] is None and not inner.get("nullable"))):
            value[key] = copy.deepcopy(inner["default"])
        if key in value:
            _default(inner, value[key])
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        for key in value.keys() - properties.keys():
            _default(additional, value[key])


def children(schema: Schema, value: Any) -> list[tuple[str | int, Schema, Any]]:
    """The parts of a value that the schema says something about."""
    if isinstance(value, list):
        items = schema.get("items")
        return [(index, items, item) for index, item in enumerate(value)] if isinstance(items, dict) else []
    if not isinstance(value, dict):
        return []
    properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
    found: list[tuple[str | int, Schema, Any]] = []
    for key, item in value.items():
        if key in properties:
            found.append((key, properties[key], item))
        elif isinstance(additional, dict):
            found.append((key, additional, item))
    return found


def list_key(item: Any, keys: list[str], items: Schema) -> tuple[Any, ...]:
    """What makes an item of a list-map one of its kind; a missing key counts with its default."""
    properties = items.get("properties") or {}
    return (
        tuple(item.get(key, properties.get(key, {}).get("default")) for key in keys) if isinstance(item, dict) else ()
    )


def _unique(schema: Schema, value: Any, path: list[str | int], causes: list[Cause]) -> None:
    kind = schema.get("x-kubernetes-list-type")
    if isinstance(value, list) and kind in {"map", "set"}:
        seen: list[Any] = []
        keys = schema.get("x-kubernetes-list-map-keys", [])
        for index, item in enumerate(value):
            mark = list_key(item, keys, schema.get("items") or {}) if kind == "map" else item
            if mark in seen:
                printed = dict(zip(keys, mark, strict=False)) if kind == "map" else item
                causes.append(
                    (text_path([*path, index]), "FieldValueDuplicate", f"Duplicate value: {value_text(printed)}")
                )
            seen.append(mark)
    for step, inner, item in children(schema, value):
        _unique(inner, item, [*path, step], causes)


def _rules(schema: Schema, value: Any, old: Any, path: list[str | int], causes: list[Cause]) -> None:
    if value is None:
        return
    for rule in schema.get("x-kubernetes-validations") or ():
        transition = "oldSelf" in rule["rule"]
        if transition and old is None and not rule.get("optionalOldSelf"):
            continue
        variables = {"self": value, "oldSelf": old} if transition else {"self": value}
        try:
            holds = cel.evaluate(rule["rule"], variables)
        except cel.CelError as error:
            causes.append(
                (
                    text_path(path),
                    "FieldValueInvalid",
                    f"Invalid value: {value_text(value)}: rule evaluation failed: {error}",
                )
            )
            continue
        if holds is not True:
            causes.append(_violation(rule, value, variables, path))
    for step, inner, item in children(schema, value):
        _rules(inner, item, _counterpart(schema, value, old, step), [*path, step], causes)


def _violation(rule: Schema, value: Any, variables: dict[str, Any], path: list[str | int]) -> Cause:
    message = rule.get("message") or f"failed rule: {rule['rule'].strip()}"
    if rule.get("messageExpression"):
        # As a real server does: the fixed message stands in for an expression that fails.
        with contextlib.suppress(cel.CelError):
            message = str(cel.evaluate(rule["messageExpression"], variables)) or message
    field = text_path(path) + (rule.get("fieldPath") or "")
    reason = rule.get("reason") or "FieldValueInvalid"
    if reason == "FieldValueRequired":
        return field, reason, f"Required value: {message}"
    if reason == "FieldValueForbidden":
        return field, reason, f"Forbidden: {message}"
    if isinstance(value, dict | list):
        return field, reason, f"Invalid value: {message}"
    return field, reason, f"Invalid value: {value_text(value)}: {message}"


def _counterpart(schema: Schema, value: Any, old: Any, step: str | int) -> Any:
    """The old value of one part: by name, and in list-maps by key; other lists have no counterparts."""
    if isinstance(step, str):
        return old.get(step) if isinstance(old, dict) else None
    if schema.get("x-kubernetes-list-type") != "map" or not isinstance(old, list):
        return None
    keys, items = schema.get("x-kubernetes-list-map-keys", []), schema.get("items") or {}
    wanted = list_key(value[step], keys, items)
    return next((item for item in old if list_key(item, keys, items) == wanted), None)

"""Strategic merge patch: like a merge patch, but lists of things with names merge by name.

Directives: `$patch: replace | delete | merge`, `$retainKeys`, `$deleteFromPrimitiveList/<field>`, `$setElementOrder/<field>`.
"""

from __future__ import annotations

from typing import Any

from pumice.local.apiserver import failures
from pumice.local.apiserver.structures import Field, structures

_PATCH, _RETAIN = "$patch", "$retainKeys"
_ORDER, _DELETE_FROM = "$setElementOrder/", "$deleteFromPrimitiveList/"
_UNKNOWN = Field("any")


def apply_strategic_patch(type_name: str, obj: dict[str, Any], patch: Any) -> dict[str, Any]:
    if not isinstance(patch, dict):
        raise failures.bad_request("a strategic merge patch must be an object")
    return _merge_map("@" + type_name, obj, patch)


def _field(notation: str, key: str) -> Field:
    if notation.startswith("@"):
        return structures()[notation[1:]].fields.get(key, _UNKNOWN)
    return Field(notation[2:]) if notation.startswith("{}") else _UNKNOWN


def _merge_map(notation: str, original: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    directive = patch.get(_PATCH)
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != _PATCH}
    if directive == "delete":
        return {}
    if directive is not None and directive != "merge":
        raise failures.Failure(500, "", f"unknown patch directive {directive!r}; use replace, delete or merge")
    merged = dict(original)
    if _RETAIN in patch:
        kept = _directive_list(patch, _RETAIN)
        merged = {key: value for key, value in merged.items() if key in kept}
    for key, change in patch.items():
        if key in {_PATCH, _RETAIN} or key.startswith((_ORDER, _DELETE_FROM)):
            continue
        if change is None:
            merged.pop(key, None)
        else:
            if key not in merged:
                _add_new(merged, key, change)
                continue
            order = _directive_list(patch, _ORDER + key) if _ORDER + key in patch else None
            merged[key] = _merge_value(_field(notation, key), merged.get(key), change, order)
    _delete_from_lists(merged, patch)
    _order_only(notation, merged, patch)
    return merged


def _add_new(merged: dict[str, Any], key: str, change: Any) -> None:
    """A field that was not there: directives about its parts have nothing to work on."""
    if isinstance(change, dict):
        if _PATCH not in change:
            merged[key] = _without_marks(change)
    elif isinstance(change, list):
        merged[key] = [_without_marks(item) for item in change if not (isinstance(item, dict) and _PATCH in item)]
    else:
        merged[key] = change


def _without_marks(value: Any) -> Any:
    """The value without the words of the patch; what they would have removed stays, as on a real server."""
    if isinstance(value, dict):
        return {k: _without_marks(v) for k, v in value.items() if not k.startswith("$") and v is not None}
    return [_without_marks(item) for item in value] if isinstance(value, list) else value


def _directive_list(patch: dict[str, Any], directive: str) -> list[Any]:
    found = patch[directive]
    if not isinstance(found, list):
        raise failures.bad_request(f"{directive} in a strategic merge patch must be a list, not {type(found).__name__}")
    return found


def _merge_value(field: Field, original: Any, change: Any, order: list[Any] | None) -> Any:
    if isinstance(change, dict):
        return _merge_map(field.notation, original if isinstance(original, dict) else {}, change)
    if isinstance(change, list) and field.merge_key is not None:
        return _merge_list(field, original if isinstance(original, list) else [], change, order)
    return change


def _delete_from_lists(merged: dict[str, Any], patch: dict[str, Any]) -> None:
    for key in patch:
        name = key.removeprefix(_DELETE_FROM)
        if key.startswith(_DELETE_FROM) and isinstance(merged.get(name), list):
            removed = _directive_list(patch, key)
            merged[name] = [item for item in merged[name] if item not in removed]


def _order_only(notation: str, merged: dict[str, Any], patch: dict[str, Any]) -> None:
    """An order may come without changes to the list itself."""
    for key in patch:
        name = key.removeprefix(_ORDER)
        if key.startswith(_ORDER) and name not in patch and isinstance(merged.get(name), list):
            key_field = _field(notation, name).merge_key or ""
            merged[name] = _order_items(key_field, merged[name], _directive_list(patch, key), merged[name])


def _merge_list(field: Field, original: list[Any], change: list[Any], order: list[Any] | None) -> list[Any]:
    if not field.merge_key:  # scalars
        merged = original + [item for item in change if item not in original]
        return _order_items("", merged, change if order is None else order, original)
    if any(isinstance(item, dict) and item.get(_PATCH) == "replace" for item in change):
        return [_plain(item) for item in change if not _is_marker(item)]
    merged = list(original)
    for item in change:
        _merge_item(field, merged, item)
    named = [item for item in change if item.get(_PATCH) != "delete"]
    return _order_items(field.merge_key, merged, named if order is None else order, original)


def _merge_item(field: Field, merged: list[Any], item: Any) -> None:
    key = field.merge_key or ""
    if not isinstance(item, dict) or key not in item:
        raise failures.Failure(500, "", f"map: {item} does not contain declared merge key: {key}")
    if item.get(_PATCH) == "delete":
        merged[:] = [old for old in merged if not (isinstance(old, dict) and old.get(key) == item[key])]
        return
    position = next((i for i, old in enumerate(merged) if isinstance(old, dict) and old.get(key) == item[key]), None)
    if position is None:
        merged.append(_without_marks(item))
    else:
        merged[position] = _merge_map(field.notation[2:], merged[position], item)


def _is_marker(item: Any) -> bool:
    return bool(item == {_PATCH: "replace"})


def _plain(item: Any) -> Any:
    return {key: value for key, value in item.items() if key != _PATCH} if isinstance(item, dict) else item


def _order_items(merge_key: str, items: list[Any], order: list[Any], original: list[Any]) -> list[Any]:
    """Items that the order names stand as it says; another one comes before them only if it did so originally."""

    def mark(item: Any) -> Any:
        return item.get(merge_key) if merge_key and isinstance(item, dict) else item

    wanted, before = [mark(item) for item in order], [mark(item) for item in original]
    named = sorted((item for item in items if mark(item) in wanted), key=lambda item: wanted.index(mark(item)))
    others = [item for item in items if mark(item) not in wanted]
    result = []
    while named and others:
        first, second = mark(others[0]), mark(named[0])
        keeps_place = first in before and second in before and before.index(first) < before.index(second)
        result.append(others.pop(0) if keeps_place else named.pop(0))
    return result + named + others

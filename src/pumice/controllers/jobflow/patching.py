"""A JobSpec with another laid over it: objects are merged, parts that have names are found by them, other lists are replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pumice.api.batch import DEFAULT_MAX_RETRY, DEFAULT_QUEUE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.api.meta import Json


# The schema fills these in wherever a patch is given, so that they say nothing about what its author wrote.
_FILLED_IN = {"queue": DEFAULT_QUEUE, "maxRetry": DEFAULT_MAX_RETRY}


def apply_patch(spec: Json, patch: Mapping[str, Any]) -> Json:
    """The spec as the patch wants it; null removes a field."""
    meant = {key: value for key, value in patch.items() if key not in _FILLED_IN or value != _FILLED_IN[key]}
    merged: Json = _merge(spec, meant)
    return merged


def _merge(base: Any, patch: Any) -> Any:
    if isinstance(patch, dict):
        result = dict(base) if isinstance(base, dict) else {}
        for key, value in patch.items():
            if value is None:
                result.pop(key, None)
            else:
                result[key] = _merge(result.get(key), value)
        return result
    if isinstance(patch, list) and isinstance(base, list) and _have_names(base) and _have_names(patch):
        changes = {item["name"]: item for item in patch}
        kept = [_merge(item, changes.pop(item["name"], {})) for item in base]
        return [*kept, *changes.values()]
    return patch


def _have_names(items: list[Any]) -> bool:
    return all(isinstance(item, dict) and isinstance(item.get("name"), str) for item in items)

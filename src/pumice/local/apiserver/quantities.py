"""Quantities: in one spelling, as a real server sends them (`1000m` becomes `1`, `0.5` becomes `500m`), and none that makes no sense.

Which fields hold quantities is known from the structures, so only branches that lead to one are walked.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from pumice import quantity
from pumice.api.validation.amounts import is_whole
from pumice.local.apiserver import failures
from pumice.local.apiserver.structures import structures

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.local.apiserver.violations import Cause


@functools.cache
def _leads_to_quantity(notation: str) -> bool:
    return _search(notation, frozenset())


def _search(notation: str, seen: frozenset[str]) -> bool:
    notation = notation.lstrip("[]{}")
    if not notation.startswith("@"):
        return notation == "quantity"
    name = notation[1:]
    if name in seen:
        return False
    fields = structures()[name].fields.values()
    return any(_search(field.notation, seen | {name}) for field in fields)


@functools.cache
def _branches(type_name: str) -> dict[str, str]:
    fields = structures()[type_name].fields
    return {name: field.notation for name, field in fields.items() if _leads_to_quantity(field.notation)}


def causes_of(amounts: Mapping[str, Any], where: str) -> list[Cause]:
    """What is wrong with amounts of resources: less than nothing, or a part of what is counted in whole numbers."""
    causes: list[Cause] = []
    for name, amount in amounts.items():
        milli = quantity.parse_milli(amount)
        if milli < 0:
            text = "must be greater than or equal to 0"
        elif milli % 1_000 and is_whole(name) and not name.startswith("requests."):
            text = "must be an integer"
        else:
            continue
        causes.append((f"{where}[{name}]", "FieldValueInvalid", f'Invalid value: "{amount}": {text}'))
    return causes


def canonicalise(type_name: str, obj: Any) -> None:
    """Rewrites every quantity inside `obj` in place; a text that is no quantity is a bad request."""
    for name, notation in _branches(type_name).items():
        value = obj.get(name)
        if value:
            obj[name] = _rewrite(notation, value, name)


def _rewrite(notation: str, value: Any, path: str) -> Any:
    if notation == "quantity":
        return _spelling(value, path)
    if notation.startswith("[]"):
        return [_rewrite(notation[2:], item, path) for item in value]
    if notation == "{}quantity":
        return {key: _spelling(item, path) for key, item in value.items()}
    if notation.startswith("{}"):
        return {key: _rewrite(notation[2:], item, path) for key, item in value.items()}
    canonicalise(notation[1:], value)
    return value


@functools.lru_cache(maxsize=4096)
def _spelling(text: str | float, path: str) -> str:
    try:
        return quantity.canonical(text)
    except quantity.QuantityError as error:
        raise failures.bad_request(f"quantity {text!r} in field {path!r} cannot be read: {error}") from error

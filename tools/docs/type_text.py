"""A type as the references name it: `list of text`, `[Queue](#queue) by name`."""

from __future__ import annotations

import enum
import typing
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_PLAIN = {str: "text", int: "number", float: "number", bool: "true or false"}


def type_text(hint: Any, link: Callable[[Any], str | None], *, nothing: str, key: str) -> str:
    """`link` gives the text of a type that has a place of its own; `nothing` is the word for None, `key` what mappings are by."""

    def text(inner: Any) -> str:
        return type_text(inner, link, nothing=nothing, key=key)

    own = link(hint)
    if own is not None:
        return own
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return ", ".join(f"`{each.value}`" for each in hint)
    arguments = typing.get_args(hint)
    if not arguments:
        return _PLAIN.get(hint, str(hint))
    if arguments[-1] is type(None):
        return f"{text(arguments[0])} or {nothing}"
    if arguments[-1] is Ellipsis:
        return f"list of {text(arguments[0])}"
    return f"{text(arguments[1])} by {key}"

"""Plugin arguments as Go's flag package reads them: what cannot be read ends the reading, and what was read before it counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})

Value: TypeAlias = str | int | bool


class Flags:
    """The flags of one plugin: defaults with what the arguments say laid over them; a default's type is the flag's."""

    def __init__(self, arguments: Sequence[str], defaults: Mapping[str, Value]) -> None:
        self._values = dict(defaults)
        self._read(list(arguments))

    def text(self, name: str) -> str:
        return str(self._values[name])

    def number(self, name: str) -> int:
        return int(self._values[name])

    def is_set(self, name: str) -> bool:
        return bool(self._values[name])

    def _read(self, left: list[str]) -> None:
        while left:
            word = left.pop(0)
            name, equals, text = word.lstrip("-").partition("=") if word[:3] != "---" else ("", "", "")
            if not word.startswith("-") or name not in self._values:
                return
            default = self._values[name]
            if not equals and not isinstance(default, bool):
                if not left:
                    return
                text = left.pop(0)
            value = _parse(text if equals or not isinstance(default, bool) else "true", default)
            if value is None:
                return
            self._values[name] = value


def _parse(text: str, default: Value) -> Value | None:
    if isinstance(default, bool):
        return True if text in _TRUE else False if text in _FALSE else None
    if isinstance(default, int):
        try:
            number = int(text, 0)
        except ValueError:
            return None
        return number if -(2**63) <= number < 2**63 else None
    return text

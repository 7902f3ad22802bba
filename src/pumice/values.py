"""What the engine makes and asks for by the thousand, where the standard library's way takes several times as long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, dataclass_transform, overload

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Value(msgspec.Struct, frozen=True):
    """As a frozen dataclass, which sets its fields one by one and takes half a millisecond to import; here all are set at once.

    Its annotations need not exist at run time, but for the few that are read from JSON: those of a recorded policy. With `eq=False` identity is equality.
    """


@dataclass_transform(field_specifiers=(msgspec.field,))
class Mutable(msgspec.Struct):
    """As a Value, but its fields may be set again."""


class once(Generic[T]):  # noqa: N801  used as a decorator
    """As functools.cached_property, which takes a lock: what is found out is the same whoever finds it, and may be found twice."""

    def __init__(self, find: Callable[[Any], T]) -> None:
        self._find = find
        self.__doc__ = find.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, owner: None, kind: type) -> Self: ...

    @overload
    def __get__(self, owner: object, kind: type | None = None) -> T: ...

    def __get__(self, owner: object | None, kind: type | None = None) -> Self | T:
        if owner is None:
            return self
        found = owner.__dict__[self._name] = self._find(owner)
        return found

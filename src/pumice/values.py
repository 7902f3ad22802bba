"""Frozen values that the engine makes by the thousand: the same as frozen dataclasses, and made several times faster."""

from typing import dataclass_transform

import msgspec


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Value(msgspec.Struct, frozen=True):
    """Fields are set in one go, where a frozen dataclass calls a function for each. With `eq=False` identity is equality."""

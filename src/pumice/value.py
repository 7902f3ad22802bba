"""Frozen values of a program's own: what a dataclass is, but that one takes half a millisecond to import, and this a fiftieth of that."""

from typing import dataclass_transform

import msgspec


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))
class Value(msgspec.Struct, frozen=True):
    """Never read from JSON or written as such, so that its annotations need not exist at run time."""

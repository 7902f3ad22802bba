"""Which of two versions of an object is older, as far as that can be known (docs/adr/0016).

Kubernetes promises since 1.35 that resource versions of one kind are decimal numbers that grow, and has made them so ever since it
stores in etcd. A server in between that makes something else of them is believed: of two versions that are no numbers it
can say which is older.
"""

from __future__ import annotations

VERSION_CHARS_MAX = 39  # as many digits as 128 bits have; whatever is longer is no version


def number_of(version: str) -> int | None:
    """A version as a number; None for one that is none."""
    is_number = len(version) <= VERSION_CHARS_MAX and version.isascii() and version.isdecimal()
    return int(version) if is_number else None


def is_older(version: str, *, than: str) -> bool:
    """Whether a version is certainly older than another one of the same kind."""
    own, other = number_of(version), number_of(than)
    return own is not None and other is not None and own < other

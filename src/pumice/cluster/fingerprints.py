"""Short texts that stand for content: equal content has the same one in every process, in every order of arrival.

What is remembered between cycles holds these instead of objects, so that it can be written down and compared after a restart.
"""

from __future__ import annotations

import hashlib

import msgspec

_BYTES = 8  # 64 bits: a user gains nothing by a collision, and by chance there is none among the few that are compared
_ENCODER = msgspec.json.Encoder(order="sorted", enc_hook=repr)


def fingerprint(*parts: object) -> str:
    """Of Structs and plain values; mappings count as equal in whatever order they were written."""
    return hashlib.blake2b(_ENCODER.encode(parts), digest_size=_BYTES).hexdigest()

"""What a PodGroup says of the room that is reserved for it: `pumice.dev/reservation`, a time and a number of nodes.

A reservation changes a little with almost every cycle. What is written stays while it is right within a tenth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pumice import instant
from pumice.api.decoding import UNREADABLE

if TYPE_CHECKING:
    from pumice.instant import Instant
    from pumice.scheduling.core.decisions import Reserved

PART = 10


class Note(msgspec.Struct):
    """As it stands on the group."""

    time: str
    nodes: int


def after(written: str | None, reserved: Reserved | None, now: Instant) -> str | None:
    """What should stand there now; None for nothing."""
    if reserved is None:
        return None
    if written is not None and _is_about_right(written, reserved, now):
        return written
    return msgspec.json.encode(Note(instant.format_instant(reserved.time), reserved.nodes)).decode()


def _is_about_right(written: str, reserved: Reserved, now: Instant) -> bool:
    """Off by no more than a tenth, of the time that was left to it and of the nodes; a second is no change at all."""
    try:
        note = msgspec.json.decode(written, type=Note)
        time = instant.parse_instant(note.time)
    except (*UNREADABLE, instant.InstantError):
        return False
    left = max(time - now, 0)
    is_off = abs(reserved.time - time) > left // PART + instant.SECOND
    return not is_off and abs(reserved.nodes - note.nodes) * PART <= note.nodes

"""Files that people name are read up to a limit: a device has no end, and a pipe does not say how long it is."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os
    from typing import BinaryIO

PART_BYTES = 2**25


def read(name: str | os.PathLike[str], most: int) -> bytes:
    """The whole file; an OSError that says so where it has more than `most` bytes."""
    with Path(name).open("rb") as file:
        return read_stream(file, str(name), most)


def read_stream(stream: BinaryIO, name: str, most: int) -> bytes:
    parts, left = [], most + 1
    # Python takes memory for as much as it is asked to read.
    while left and (part := stream.read(min(left, PART_BYTES))):
        parts.append(part)
        left -= len(part)
    data = b"".join(parts)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"larger than {most} bytes", name)
    return data

"""What commands are given to read: a file, or standard input."""

from __future__ import annotations

import errno
import sys
from typing import TYPE_CHECKING

from pumice import files
from pumice.errors import BadInput, NotFound

if TYPE_CHECKING:
    from pathlib import Path

DUMP_BYTES_MAX = 2**30  # a dump of 50,000 pods has about 300 MB
MANIFEST_BYTES_MAX = 2**24  # of what is submitted: an API server takes 3 MiB of each object
STDIN = "-"


def read_file(name: str | Path, most: int = DUMP_BYTES_MAX) -> bytes:
    """Its bytes; BadInput or NotFound where that cannot be."""
    try:
        return files.read(name, most)
    except FileNotFoundError as error:
        raise NotFound(f"{name}: no such file; check the name") from error
    except OSError as error:
        raise _unreadable(str(name), error, "check the name and your rights") from error


def read_file_or_stdin(name: str, most: int = DUMP_BYTES_MAX) -> bytes:
    """The same; `-` is standard input."""
    if name != STDIN:
        return read_file(name, most)
    if sys.stdin is None:  # as after `<&-`, and in some services
        raise BadInput("standard input: it is closed; name a file")
    try:
        return files.read_stream(sys.stdin.buffer, "standard input", most)
    except OSError as error:
        raise _unreadable("standard input", error, "name a file") from error


def _unreadable(name: str, error: OSError, hint: str) -> BadInput:
    hint = "split it into several files" if error.errno == errno.EFBIG else hint
    return BadInput(f"{name}: cannot be read: {error.strerror}; {hint}")

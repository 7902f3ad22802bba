"""Errors of the disk name their file."""

from __future__ import annotations

import contextlib
import errno
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

_OF_THE_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO})


@contextlib.contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """A write that a full or broken disk refuses does not say where: it gets this path."""
    try:
        yield
    except OSError as error:
        if error.errno in _OF_THE_DISK and error.filename is None:
            error.filename = str(path)
        raise

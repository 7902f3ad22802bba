"""A progress line while something takes long: on a terminal's stderr only, and gone when it is over."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextlib.contextmanager
def show(text: str) -> Iterator[Callable[[str], None]]:
    """A line that moves while the block runs; what is given may be called with another text for it."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield lambda _: None
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status(escape(text)) as status:
        yield lambda now: status.update(escape(now))

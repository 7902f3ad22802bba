"""Logs are events with fields: one JSON object a line in clusters, readable lines on terminals.

Nothing is set up by an import. A process calls configure() once, and all other code takes the log that it is given.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, TextIO, cast

import structlog

from pumice.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping
    from typing import Any

LEVELS: Mapping[str, int] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
VALUE_CHARS_MAX = 4_096  # a field's text; an answer of a strange server must not fill the disk


def configure(
    *, stream: TextIO | None = None, as_json: bool | None = None, level: str = "info"
) -> structlog.typing.FilteringBoundLogger:
    """Sets up this process's log and returns it; JSON unless the stream is a terminal, or as told."""
    if level not in LEVELS:
        raise BadInput(f"log level {level!r} is not known; choose one of {', '.join(LEVELS)}")
    stream = stream or sys.stderr
    is_terminal = stream.isatty()
    if as_json is None:
        as_json = not is_terminal
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _shorten_values,
            structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer(colors=is_terminal),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(stream),
        cache_logger_on_first_use=False,
    )
    return cast("structlog.typing.FilteringBoundLogger", structlog.get_logger())


def _shorten_values(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for key, value in event.items():
        if isinstance(value, str) and len(value) > VALUE_CHARS_MAX:
            event[key] = f"{value[:VALUE_CHARS_MAX]}..."
    return event

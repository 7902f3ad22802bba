"""A report that is shown again and again: on a terminal in place, into a pipe one after the other, until Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
from typing import TYPE_CHECKING

import click

from pumice.cli import colours
from pumice.errors import PumiceError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pumice.cli.printing import Form
    from pumice.cli.results import Live, Report

FAILURES_MAX = 5  # in a row, after the first answer: then the cluster is gone
_COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")
_HOME_AND_CLEAR = "\x1b[H\x1b[J"
_HIDE_CURSOR, _SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


async def follow(
    answer: Live, form: Form, show: Callable[[Report, Form], None], text: Callable[[Report, Form], str]
) -> None:
    """Show the report every few seconds; one that fails now and then is shown again when it no longer does."""
    in_place = form.is_table and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    failures, shown = 0, False
    if in_place:
        click.echo(_HIDE_CURSOR, nl=False, color=True)
    try:
        while True:
            try:
                report = await answer.report()
                failures = 0
            except PumiceError as error:
                failures += 1
                if not shown or failures >= FAILURES_MAX:
                    raise
                colours.error("pumice", error.plain)
            else:
                if in_place:
                    click.echo(f"{_HOME_AND_CLEAR}{fitting(text(report, form))}", color=True)
                else:
                    if shown and form.is_table:
                        click.echo()
                    show(report, form)
                    sys.stdout.flush()
                shown = True
            await asyncio.sleep(answer.again_s)
    finally:
        if in_place:
            click.echo(_SHOW_CURSOR, nl=False, color=True)


def fitting(text: str) -> str:
    """As many lines as the terminal has, less one for the prompt, and no longer than it is wide: a line that wraps would push others out."""
    size = shutil.get_terminal_size()
    most = max(size.lines - 2, 1)
    lines = [_cut(line, size.columns) for line in text.splitlines()]
    if len(lines) > most:
        lines[most - 1 :] = [f"... and {len(lines) - most + 1} more lines"]
    return "\n".join(lines)


def _cut(line: str, columns: int) -> str:
    """The line without what goes beyond the columns; colours take no room, and none is left on."""
    parts, room = [], columns
    for part in _COLOUR.split(line):
        if _COLOUR.fullmatch(part):
            parts.append(part)
        else:
            parts.append(part[:room])
            room -= len(parts[-1])
    return "".join(parts)

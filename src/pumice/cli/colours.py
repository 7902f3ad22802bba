"""Colour for people: on a terminal only, unless the environment says otherwise, and never the only sign of anything."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TextIO

_GOOD = ("Running", "Completed", "Succeed", "Succeeded", "Ready", "Open", "Inqueue")
_WAITING = ("Pending", "Restarting", "Completing", "Aborting", "Terminating", "Closing", "ContainerCreating", "Waiting")
_BAD = ("Failed", "Aborted", "Terminated", "Closed", "Unknown", "NotReady", "Error", "Evicted", "CrashLoopBackOff")
_COLOURS = {
    **dict.fromkeys(_GOOD, "green"),
    **dict.fromkeys(_WAITING, "yellow"),
    **dict.fromkeys(_BAD, "red"),
}
PAINTED = frozenset({"PHASE", "STATUS", "STATE"})  # columns whose cells are such words

_PHASE_LINE = re.compile(r"^((?:Phase|Queue):\s+(?:\S+ \()?)(\w+)", re.MULTILINE)
_WHY = re.compile(r"^Why it waits.*\n(?:  .*\n?)*", re.MULTILINE)
_REASON = re.compile(r"^(  (?! )[^:\n]+: )(.+)$", re.MULTILINE)


def should_colour(stream: TextIO, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether to colour what goes to the stream: NO_COLOR and CLICOLOR_FORCE decide, then whether it is a terminal."""
    if environment.get("NO_COLOR"):
        return False
    if environment.get("CLICOLOR_FORCE", "0") != "0":
        return True
    return environment.get("TERM") != "dumb" and stream.isatty()


def word(text: str) -> str:
    """A phase or a state in its colour; `Ready,SchedulingDisabled` has that of its first part, warned of its rest."""
    first, comma, _ = text.partition(",")
    colour = _COLOURS.get(first)
    if colour is None:
        return text
    return click.style(text, fg="yellow" if comma and colour == "green" else colour)


def report(text: str) -> str:
    """A report with its phase, and the reasons why something waits, in colour."""
    text = _WHY.sub(lambda part: _REASON.sub(lambda line: line[1] + click.style(line[2], fg="yellow"), part[0]), text)
    return _PHASE_LINE.sub(lambda line: line[1] + word(line[2]), text)


def error(name: str, text: str) -> None:
    """What went wrong, on stderr, behind the program's name."""
    red = should_colour(sys.stderr)
    click.echo(f"{click.style(f'{name}:', fg='red') if red else f'{name}:'} {text}", err=True, color=red)

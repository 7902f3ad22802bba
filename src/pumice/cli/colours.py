"""Colour for people: on a terminal only, unless the environment says otherwise, and never the only sign of anything."""

from __future__ import annotations

import os
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


class Paint:
    """Colours what a writer of text says is a phase, or a reason why something waits."""

    def phase(self, text: str) -> str:
        return word(text)

    def reason(self, text: str) -> str:
        return click.style(text, fg="yellow")


class Plain(Paint):
    """Leaves everything as it is."""

    def phase(self, text: str) -> str:
        return text

    def reason(self, text: str) -> str:
        return text


PAINT, PLAIN = Paint(), Plain()


def error(name: str, text: str) -> None:
    """What went wrong, on stderr, behind the program's name."""
    red = should_colour(sys.stderr)
    click.echo(f"{click.style(f'{name}:', fg='red') if red else f'{name}:'} {text}", err=True, color=red)

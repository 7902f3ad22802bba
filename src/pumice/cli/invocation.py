"""What holds for one run of the program, whatever command it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.errors import BadInput

if TYPE_CHECKING:
    import click


class Invocation:
    """Filled in while the words of the command line are read."""

    def __init__(self, *, volcano: bool = False) -> None:
        self.verbose = False  # errors name the request that failed
        self.volcano = volcano  # under the name of vcctl: its tables and sentences


def set_verbose(ctx: click.Context, _: click.Parameter, level: str) -> None:
    """`-v`, and Volcano's `-v 4`, where 0 is the silence that holds without it."""
    if not level:
        return
    if not (level.isascii() and level.isdecimal()):
        raise BadInput(f"-v {level}: expected a level such as -v 6; write a -v without one behind all names")
    found = ctx.find_object(Invocation)
    if found is not None and level.strip("0"):
        found.verbose = True

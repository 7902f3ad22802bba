"""The option of commands that run a scheduler which may record its cycles."""

from __future__ import annotations

import click


def _named(_ctx: click.Context, _param: click.Parameter, value: str | None) -> str | None:
    if value == "":
        raise click.BadParameter("it is empty, and nothing would be recorded; name a file, or leave the option out")
    return value


flight_option = click.option(
    "--flight-recorder",
    "flight_file",
    type=click.Path(dir_okay=False),
    callback=_named,
    metavar="FILE",
    help="Keep what every cycle was planned from and what it decided, for `pumice replay`; FILE.1 is what was kept before.",
)

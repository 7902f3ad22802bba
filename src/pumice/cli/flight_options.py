"""The option of commands that run a scheduler which may record its cycles."""

from __future__ import annotations

import click

flight_option = click.option(
    "--flight-recorder",
    "flight_file",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Keep what every cycle was planned from and what it decided, for `pumice replay`; FILE.1 is what was kept before.",
)

"""Numbers on a command line."""

from __future__ import annotations

import math
from typing import Any

import click


class Between(click.FloatRange):
    """A number within limits; click itself lets through what is no number (nan), because no limit is below or above it."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a valid float.", param, ctx)
        return number

"""How long pretend pods take: a fixed time, or one drawn anew for each pod.

90s                     always that
uniform:10s,60s         anything between the two
exponential:60s         mean; most are short and a few are long
lognormal:60s,1.5       median and spread (sigma): what training jobs really look like
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import TypeAlias

from pumice import instant
from pumice.errors import BadInput

SECONDS_MAX = instant.DURATION_MAX / instant.SECOND

Seconds: TypeAlias = Callable[[random.Random], float]

_NEXT_STEP = "write 90s, uniform:10s,60s, exponential:60s or lognormal:60s,1.5"


def parse(text: str) -> Seconds:
    """The distribution that a text describes."""
    shape, colon, rest = text.partition(":")
    parts = rest.split(",")
    match shape, len(parts):
        case _ if not colon:
            return constant(seconds(text))
        case "uniform", 2:
            low, high = map(seconds, parts)
            if low <= high:
                return lambda chance: chance.uniform(low, high)
        case "exponential", 1:
            mean = seconds(rest)
            return lambda chance: _clamp(-mean * math.log(1.0 - chance.random()))
        case "lognormal", 2:
            median, sigma = seconds(parts[0]), _number(parts[1], text)
            return lambda chance: _clamp(median * math.exp(min(700.0, sigma * chance.gauss(0.0, 1.0))))
    raise BadInput(f"distribution {text!r} is not known; {_NEXT_STEP}")


def constant(value: float) -> Seconds:
    return lambda _: value


def seconds(text: str) -> float:
    """A duration as Go writes it, in seconds, and never less than none."""
    duration = instant.parse_duration(text.strip())
    if duration < 0:
        raise BadInput(f"duration {text!r} is negative; {_NEXT_STEP}")
    return duration / instant.SECOND


def _number(text: str, whole: str) -> float:
    try:
        number = float(text)
    except ValueError as error:
        raise BadInput(f"distribution {whole!r}: {text!r} is no number; {_NEXT_STEP}") from error
    if not 0.0 <= number <= 100.0:
        raise BadInput(f"distribution {whole!r}: a spread of {text} is not between 0 and 100; {_NEXT_STEP}")
    return number


def _clamp(value: float) -> float:
    return min(value, SECONDS_MAX)

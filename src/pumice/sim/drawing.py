"""Parts of pictures for a page: frames with axes, lines, and how policies are told apart. Texts are HTML already.

Axes have marks at round numbers. A share of 0 is left or below, 1 is right or above.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from pumice.sim.spans import DAY, HOUR, MINUTE, span_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 860, 240, 64, 34, 12
MARKS_MAX = 6  # beside the one at 0
_LIGHT = ("#2563b8", "#c2571a", "#2c8a57", "#8250b4", "#a07a10", "#5a6372", "#b8325a", "#14858d")
_DARK = ("#6ea8f7", "#f0935a", "#62c48d", "#b692e6", "#d8b84a", "#a3adbd", "#f07a9c", "#4fc3cb")
_DASHES = ("", "7 3", "2 3", "9 3 2 3")  # where there are more policies than colours
_TIMES = (
    1, 2, 5, 10, 20, 30, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 20 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 4 * HOUR, 6 * HOUR, 12 * HOUR,
    DAY, 2 * DAY, 5 * DAY, 7 * DAY, 14 * DAY, 28 * DAY,
)  # fmt: skip
_ROUND = (1.0, 2.0, 2.5, 5.0, 10.0)


class Ink(NamedTuple):
    """What a policy is drawn with in all pictures."""

    colour: str
    dash: str = ""

    @staticmethod
    def of(number: int) -> Ink:
        return Ink(f"var(--p{number % len(_LIGHT)})", _DASHES[number // len(_LIGHT) % len(_DASHES)])

    @property
    def dashed(self) -> str:
        """An attribute of lines."""
        return f' stroke-dasharray="{self.dash}"' if self.dash else ""

    @property
    def swatch(self) -> str:
        """A small field beside the policy's name, striped as its lines are dashed."""
        if not self.dash:
            return f'<i style="background:{self.colour}"></i>'
        edges, stripes = [0.0], []
        for number, length in enumerate(map(float, self.dash.split())):
            edges.append(edges[-1] + length / 2)
            stripes.append(f"{'transparent' if number % 2 else self.colour} {edges[-2]}px {edges[-1]}px")
        return f'<i style="background:repeating-linear-gradient(90deg,{",".join(stripes)})"></i>'


def colours() -> tuple[str, str]:
    """The colours of a light and a dark page, as variables of a style sheet."""
    light, dark = ("".join(f"--p{n}:{colour};" for n, colour in enumerate(each)) for each in (_LIGHT, _DARK))
    return light, dark


# ------------------------------------------------------------------------------------------------- frames


def frame(
    inside: str, left: Iterable[tuple[float, str]], below: Iterable[tuple[float, str]], *, slanted: bool = False
) -> str:
    """What is drawn, within its axes; long names below stand slanted and have more room."""
    marks = []
    for share, text in left:
        y = up(share)
        marks.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH}" class="rule"/>')
        marks.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    for share, text in below:
        x = across(share)
        if slanted:
            y = HEIGHT - BOTTOM + 14
            marks.append(
                f'<text x="{x:.1f}" y="{y}" text-anchor="end" transform="rotate(-38 {x:.1f} {y})">{text}</text>'
            )
        else:
            marks.append(f'<text x="{x:.1f}" y="{HEIGHT - 12}" text-anchor="middle">{text}</text>')
    return svg("".join(marks) + inside, HEIGHT + (60 if slanted else 0))


def svg(inside: str, height: float) -> str:
    """A picture as wide as the page, and on a telephone so wide that it can be read."""
    return f'<div class="wide"><svg viewBox="0 0 {WIDTH + 20} {height}" aria-hidden="true">{inside}</svg></div>'


def line(points: Sequence[tuple[float, float]], ink: Ink) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke-width="1.7" stroke-linejoin="round"{ink.dashed} style="stroke:{ink.colour}"/>'


def across(share: float) -> float:
    return LEFT + share * (WIDTH - LEFT)


def up(share: float) -> float:
    return HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)


# ------------------------------------------------------------------------------------------------- marks of axes


def marks(most: float, text: Callable[[float], str]) -> list[tuple[float, str]]:
    """Round numbers from 0 to `most`."""
    return _every(_round_step(most / MARKS_MAX), most, text)


def marks_of_capacity(most: int, text: Callable[[float], str]) -> list[tuple[float, str]]:
    """From 0 to all of it: quarters, where those are whole."""
    if most % 4 == 0:
        return [(share, text(share * most)) for share in (0.0, 0.25, 0.5, 0.75, 1.0)]
    found = _every(max(1.0, _round_step(most / MARKS_MAX)), most, text)
    return [*(each for each in found if each[0] < 1 - 0.5 / MARKS_MAX), (1.0, text(most))]


def times(end_s: float) -> list[tuple[float, str]]:
    """From 0 to the end, at lengths of time that people count in."""
    step = next((each for each in _TIMES if each * MARKS_MAX >= end_s), None)
    return _every(_round_step(end_s / MARKS_MAX / DAY) * DAY if step is None else step, end_s, span_text)


def powers(top: float) -> list[tuple[float, str]]:
    """Of a logarithmic axis from 1 to 10 ** top: powers of ten, and where those are few, numbers between."""
    between = (1, 2, 5) if top < 2 else (1,)
    found = [number * 10**power for power in range(int(top) + 1) for number in between]
    return [(math.log10(each) / top, f"{each:,}") for each in found if math.log10(each) <= top]


def _every(step: float, most: float, text: Callable[[float], str]) -> list[tuple[float, str]]:
    return [(number * step / most, text(number * step)) for number in range(int(most / step + 1e-9) + 1)]


def _round_step(least: float) -> float:
    """The smallest round number that is no smaller."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(each * power for each in _ROUND if each * power >= least * (1 - 1e-9))

"""The bill as a page that needs nothing else: tables, and plots as SVG. Whatever people named is escaped by the template."""

from __future__ import annotations

import math
from importlib import resources
from typing import TYPE_CHECKING

from pumice import instant
from pumice.record.chargeback import SHOWN_MAX
from pumice.values import Value

if TYPE_CHECKING:
    from pumice.record.chargeback import Bill
    from pumice.record.model import Report

WIDTH, HEIGHT, MARGIN = 960, 260, 40
TICKS = 4  # above zero, on the axis of hours
DAY_S = 86_400
COLOURS = ("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#edc948", "#b07aa1", "#9c755f", "#bab0ac")
OTHERS = "others"


class Bar(Value):
    x: float
    y: float
    width: float
    height: float
    colour: str
    title: str


class Plot(Value):
    bars: list[Bar]
    ticks: list[tuple[float, str]]  # y, text
    days: list[tuple[float, str]]  # x, text
    legend: list[tuple[str, str]]  # colour, name


def html(report: Report, bill: Bill, *, title: str) -> str:
    from jinja2 import Environment

    text = (resources.files("pumice.record") / "templates" / "report.html.jinja").read_text()
    template = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(text)
    gaps = [(_when(since), _when(until), rows) for since, until, rows in report.gaps]
    size = {"width": WIDTH, "height": HEIGHT, "margin": MARGIN}
    return template.render(title=title, bill=bill, daily=daily(report, bill), gaps=gaps, size=size, money=_money)


def daily(report: Report, bill: Bill) -> Plot:
    """GPU hours of each day or hour, one colour an account; the small ones together."""
    each, is_hourly = report.step, report.step < DAY_S
    shown = [line.name for line in bill.lines[:SHOWN_MAX]]
    has_others = len(bill.lines) > SHOWN_MAX
    names = [*shown, *([OTHERS] if has_others else [])]
    colours = dict(zip(names, COLOURS, strict=False))
    heights: dict[int, dict[str, float]] = {}
    for first, name, hours in report.days:
        day = heights.setdefault(first, {})
        account = name if name in shown else OTHERS
        day[account] = day.get(account, 0.0) + hours
    count = max((report.until - report.since + each - 1) // each, 1)
    unit = _round_up(max((sum(day.values()) for day in heights.values()), default=0.0) / TICKS)
    most = TICKS * unit
    step, tall = (WIDTH - 2 * MARGIN) / count, HEIGHT - 2 * MARGIN
    bars = []
    for first, day in sorted(heights.items()):
        x, y = MARGIN + (first - report.since) // each * step, float(HEIGHT - MARGIN)
        for name in names:
            hours = day.get(name, 0.0)
            height = hours / most * tall
            if hours:
                y -= height
                at = _when(first)[:16].replace("T", " ") if is_hourly else _when(first)[:10]
                title = f"{at} {name}: {hours:,.2f} GPU-hours"
                bars.append(
                    Bar(
                        round(x + 1, 2), round(y, 2), round(max(step - 2, 1), 2), round(height, 2), colours[name], title
                    )
                )
    ticks = [
        (HEIGHT - MARGIN - tall * part / TICKS, f"{float(f'{unit * part:.6g}'):,}".removesuffix(".0"))
        for part in range(TICKS + 1)
    ]
    every = max(count // 10, 1)
    shown_of = slice(11, 16) if is_hourly else slice(8, 10)
    days = [
        (round(MARGIN + (n + 0.5) * step, 2), _when(report.since + n * each)[shown_of]) for n in range(0, count, every)
    ]
    return Plot(bars, ticks, days, [(colours[name], name) for name in names])


def _round_up(value: float) -> float:
    """The next of 1, 2, 2.5, 5 and 10, times a power of ten: what people read off an axis."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(each * power for each in (1, 2, 2.5, 5, 10) if each * power >= value)


def _when(seconds: int) -> str:
    return instant.format_instant(seconds * instant.SECOND)


def _money(dollars: float | None) -> str:
    return "–" if dollars is None else f"${dollars:,.2f}"  # noqa: RUF001  a dash stands for nothing in a table

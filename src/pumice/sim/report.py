"""One page with pictures of what policies did with a workload: HTML that holds everything it shows, and asks nobody for anything.

Colours follow the policy through all pictures; every picture has its numbers beside it or in the table on top.
"""

from __future__ import annotations

import heapq
import html
import math
from typing import TYPE_CHECKING

import numpy as np

from pumice import instant

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pumice.sim.outcome import Outcome, Run

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 860, 240, 64, 34, 12
STEPS = 240  # of the picture over time
GANTT_JOBS_MAX = 600  # those that held the most; smaller ones are left out of that picture, and it says so
GANTT_ROW = 3
_COLOURS = ("#2f6fb0", "#c4622d", "#3a8f5c", "#8a5aa8", "#a8892a", "#4b4f58", "#b03a5b", "#2b8c93")
_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:920px;margin:2rem auto;padding:0 1rem;color:#1d2430;background:#fff}
h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:2.2rem}table{border-collapse:collapse;width:100%}
td,th{padding:.3rem .6rem;text-align:right;border-bottom:1px solid #d5dae2}td:first-child,th:first-child{text-align:left}
svg{width:100%;height:auto}text{font:11px system-ui,sans-serif;fill:#4a5464}.key span{margin-right:1.2rem;white-space:nowrap}
.key i{display:inline-block;width:.8em;height:.8em;margin-right:.35em}p.note{color:#4a5464}
@media(prefers-color-scheme:dark){body{background:#14181f;color:#e4e8ee}td,th{border-color:#333b48}text{fill:#a9b3c2}p.note{color:#a9b3c2}}
"""


def page(outcomes: Mapping[str, Outcome], *, workload: str, cluster: str) -> str:
    """The whole report."""
    colours = {name: _COLOURS[number % len(_COLOURS)] for number, name in enumerate(outcomes)}
    title = f"{workload} on {cluster}"
    parts = [
        f"<h1>{html.escape(title)}</h1>",
        _figures(outcomes),
        _key(colours),
        "<h2>Slots in use over time</h2>",
        _over_time(outcomes, colours),
        "<h2>Wait by gang size</h2>",
        _waits(outcomes, colours),
        "<h2>Bounded slowdown</h2>",
        _slowdowns(outcomes, colours),
        *(
            f"<h2>Who ran when: {html.escape(name)}</h2>{_gantt(each, colours[name])}"
            for name, each in outcomes.items()
        ),
    ]
    head = (
        f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{html.escape(title)}</title>'
    )
    return f'<!doctype html><html lang="en"><head>{head}<style>{_STYLE}</style></head><body>{"".join(parts)}</body></html>\n'


def _figures(outcomes: Mapping[str, Outcome]) -> str:
    heads = ("policy", "mean wait", "slowdown", "utilisation", "makespan", "evictions", "lost GPU-h", "not started")
    rows = ["<tr>" + "".join(f"<th>{each}</th>" for each in heads) + "</tr>"]
    for name, outcome in outcomes.items():
        figures = outcome.figures
        cells = (
            html.escape(name),
            _duration(figures["mean_wait_s"]),
            _number(figures["bounded_slowdown"], 1),
            _number(figures["utilisation"], 3),
            _duration(figures["makespan_s"]),
            _number(figures["evictions"], 0),
            _number(figures["lost_gpu_h"], 1),
            _number(figures["never_started"], 0),
        )
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return f"<table>{''.join(rows)}</table>"


def _key(colours: Mapping[str, str]) -> str:
    marks = (f'<span><i style="background:{colour}"></i>{html.escape(name)}</span>' for name, colour in colours.items())
    return f'<p class="key">{"".join(marks)}</p>'


# ------------------------------------------------------------------------------------------------- pictures


def _over_time(outcomes: Mapping[str, Outcome], colours: Mapping[str, str]) -> str:
    end = max((at for each in outcomes.values() for at, _, _ in each.held), default=0.0)
    if end <= 0:
        return _nothing()
    slots = max(each.slots for each in outcomes.values())
    lines = []
    for name, outcome in outcomes.items():
        held = sum(outcome.usage("queue", step_s=end / STEPS, until_s=end).values())
        points = [(_across(number / STEPS), _up(value / slots)) for number, value in enumerate(np.atleast_1d(held))]
        lines.append(_line(points, colours[name]))
    days = [(at / end, _duration(at)) for at in np.linspace(0, end, 5)]
    return _frame("".join(lines), ((share, f"{share * slots:.0f}") for share in (0, 0.25, 0.5, 0.75, 1)), days)


def _slowdowns(outcomes: Mapping[str, Outcome], colours: Mapping[str, str]) -> str:
    """The share of jobs whose slowdown is at most so large, on a logarithmic scale."""
    found = {
        name: np.sort([each.slowdown for each in outcome.runs if each.slowdown is not None])
        for name, outcome in outcomes.items()
    }
    most = max((float(each[-1]) for each in found.values() if len(each)), default=0.0)
    if most <= 0:
        return _nothing()
    top = max(1.0, math.log10(most))
    lines = []
    for name, values in found.items():
        if len(values):
            chosen = np.linspace(0, len(values) - 1, min(len(values), STEPS)).astype(int)
            points = [
                (_across(math.log10(max(values[number], 1.0)) / top), _up((number + 1) / len(values)))
                for number in chosen
            ]
            lines.append(_line(points, colours[name]))
    below = [(power / top, f"{10**power:,}") for power in range(int(top) + 1)]
    return _frame("".join(lines), ((share, f"{share:.0%}") for share in (0, 0.25, 0.5, 0.75, 1)), below)


def _waits(outcomes: Mapping[str, Outcome], colours: Mapping[str, str]) -> str:
    """For each size and policy a bar from the 25th to the 75th percentile with the median, and a whisker to the 95th."""
    sizes = list(dict.fromkeys(size for each in outcomes.values() for size in each.wait_by_size()))
    own = {
        (size, name): [run.wait_s for run in _of_size(outcome.runs, size) if run.wait_s is not None]
        for size in sizes
        for name, outcome in outcomes.items()
    }
    most = max((float(np.percentile(waits, 95)) for waits in own.values() if waits), default=0.0)
    if most <= 0:
        return '<p class="note">Nobody waited.</p>'
    bars, slot = [], (WIDTH - LEFT) / max(1, len(sizes))
    width = min(26.0, slot / (len(outcomes) + 1))
    for place, size in enumerate(sizes):
        for number, name in enumerate(outcomes):
            waits = own[size, name]
            if waits:
                low, middle, high, far = (_up(float(each) / most) for each in np.percentile(waits, (25, 50, 75, 95)))
                x = LEFT + place * slot + (number + 0.5) * width
                centre = x + width * 0.4
                bars.append(
                    f'<path d="M{centre:.1f} {high:.1f}V{far:.1f}" stroke="{colours[name]}"/>'
                    f'<rect x="{x:.1f}" y="{high:.1f}" width="{width * 0.8:.1f}" height="{max(low - high, 1):.1f}" fill="{colours[name]}" fill-opacity=".45"/>'
                    f'<path d="M{x:.1f} {middle:.1f}h{width * 0.8:.1f}" stroke="{colours[name]}" stroke-width="2"/>'
                )
    below = [
        ((place + 0.5) * slot / (WIDTH - LEFT), f"{size} pod{'' if size == '1' else 's'}")
        for place, size in enumerate(sizes)
    ]
    return _frame("".join(bars), ((share, _duration(share * most)) for share in (0, 0.25, 0.5, 0.75, 1)), below)


def _gantt(outcome: Outcome, colour: str) -> str:
    """Each job a bar from its start to its end, packed into lanes; the stronger its colour, the more slots it held."""
    done = [each for each in outcome.runs if each.start_s is not None and each.end_s is not None]
    shown = sorted(done, key=lambda run: -run.slots * (run.end_s or 0.0))[:GANTT_JOBS_MAX]
    if not shown:
        return _nothing()
    end = max(run.end_s or 0.0 for run in shown)
    bars, lanes = [], _lanes(shown)
    for run, lane in lanes:
        assert run.start_s is not None
        assert run.end_s is not None
        x, width = _across(run.start_s / end), max(0.6, (run.end_s - run.start_s) / end * (WIDTH - LEFT))
        strength = 0.35 + 0.65 * min(1.0, math.log2(run.slots + 1) / 8)
        label = f"{run.slots} slots, waited {_duration(run.wait_s)}, ran {_duration(run.end_s - run.start_s)}"
        bars.append(
            f'<rect x="{x:.1f}" y="{TOP + lane * GANTT_ROW}" width="{width:.1f}" height="{GANTT_ROW - 0.6:.1f}" fill="{colour}" fill-opacity="{strength:.2f}"><title>{label}</title></rect>'
        )
    height = TOP + (max(lane for _, lane in lanes) + 1) * GANTT_ROW + BOTTOM
    marks = "".join(
        f'<text x="{_across(share):.0f}" y="{height - 12}" text-anchor="middle">{_duration(share * end)}</text>'
        for share in (0.0, 0.25, 0.5, 0.75, 1.0)
    )
    left_out = len(done) - len(shown)
    note = f'<p class="note">{left_out} smaller jobs are not drawn.</p>' if left_out else ""
    return f'<svg viewBox="0 0 {WIDTH + 20} {height}" role="img">{"".join(bars)}{marks}</svg>{note}'


def _lanes(runs: Sequence[Run]) -> list[tuple[Run, int]]:
    """The lowest lane that is free when a job starts."""
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    found, lanes = [], 0
    for run in sorted(runs, key=lambda each: each.start_s or 0.0):
        while busy and busy[0][0] <= (run.start_s or 0.0):
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            lane = heapq.heappop(free)
        else:
            lane, lanes = lanes, lanes + 1
        heapq.heappush(busy, (run.end_s or 0.0, lane))
        found.append((run, lane))
    return found


# ------------------------------------------------------------------------------------------------- parts of pictures


def _frame(inside: str, left: Iterable[tuple[float, str]], below: Iterable[tuple[float, str]]) -> str:
    marks = []
    for share, text in left:
        y = _up(share)
        marks.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH}" stroke="#8b95a5" stroke-opacity=".25"/>')
        marks.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    for share, text in below:
        marks.append(f'<text x="{_across(share):.1f}" y="{HEIGHT - 12}" text-anchor="middle">{text}</text>')
    return f'<svg viewBox="0 0 {WIDTH + 20} {HEIGHT}" role="img">{"".join(marks)}{inside}</svg>'


def _line(points: Sequence[tuple[float, float]], colour: str) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>'


def _across(share: float) -> float:
    return LEFT + share * (WIDTH - LEFT)


def _up(share: float) -> float:
    return HEIGHT - BOTTOM - share * (HEIGHT - BOTTOM - TOP)


def _of_size(runs: Sequence[Run], size: str) -> list[Run]:
    low, _, high = size.partition("-")
    if size.startswith(">"):
        return [run for run in runs if run.job.size > int(size[1:])]
    return [run for run in runs if int(low) <= run.job.size <= int(high or low)]


def _nothing() -> str:
    return '<p class="note">Nothing ran.</p>'


def _duration(seconds: float | None) -> str:
    return "-" if seconds is None else instant.human_duration(round(seconds) * instant.SECOND)


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"

"""One page with pictures of what policies did with a workload: HTML that holds everything it shows, and asks nobody for anything.

Colours follow the policy through all pictures. Their numbers are in the table on top and, of waits, in one below the picture.
"""

from __future__ import annotations

import heapq
import html
import math
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from pumice import instant
from pumice.sim.outcome import mean_levels
from pumice.sim.workload import left_out_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pumice.sim.outcome import Outcome, Run

WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 860, 240, 64, 34, 12
STEPS = 240  # of the picture over time
GANTT_JOBS_MAX = 600  # those that held the most; smaller ones are left out of that picture, and it says so
GANTT_ROW = 4
_LIGHT = ("#2563b8", "#c2571a", "#2c8a57", "#8250b4", "#a07a10", "#5a6372", "#b8325a", "#14858d")
_DARK = ("#6ea8f7", "#f0935a", "#62c48d", "#b692e6", "#d8b84a", "#a3adbd", "#f07a9c", "#4fc3cb")
USERS_SHOWN_MAX = 20


def _variables(colours: Sequence[str]) -> str:
    return "".join(f"--p{number}:{colour};" for number, colour in enumerate(colours))


_STYLE = """
:root{color-scheme:light dark;--ink:#1b2330;--soft:#5b6676;--line:#dde2ea;--paper:#fff;--card:#f7f8fa;LIGHT}
@media(prefers-color-scheme:dark){:root{--ink:#e6eaf0;--soft:#9aa5b5;--line:#2c3441;--paper:#12161d;--card:#191f28;DARK}}
body{font:15px/1.55 system-ui,sans-serif;max-width:1060px;margin:2.5rem auto 5rem;padding:0 1.2rem;color:var(--ink);background:var(--paper)}
h1{font-size:1.6rem;line-height:1.25;margin:0 0 .2rem}h2{font-size:1.08rem;margin:2.6rem 0 .2rem}p.note{color:var(--soft);margin:.1rem 0 .6rem;font-size:.92rem}
details{margin:.6rem 0}summary{color:var(--soft);cursor:pointer;font-size:.92rem}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;font-size:.93rem}
td,th{padding:.42rem .45rem;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}th{color:var(--soft);font-weight:500;white-space:normal;vertical-align:bottom;line-height:1.25}
td:first-child,th:first-child{text-align:left}td.best{font-weight:650}
svg{display:block;width:100%;height:auto;background:var(--card);border-radius:8px}text{font:11px system-ui,sans-serif;fill:var(--soft)}.rule{stroke:var(--line)}
.key{position:sticky;top:0;background:var(--paper);padding:.5rem 0;margin:.8rem 0 0}.key span{margin-right:1.3rem;white-space:nowrap}
@media(max-width:700px){svg{min-width:620px}text{font-size:14px}body{margin-top:1.4rem;padding:0 .9rem}}
.key i,td i{display:inline-block;width:.72em;height:.72em;border-radius:2px;margin-right:.42em}
""".replace("LIGHT", _variables(_LIGHT)).replace("DARK", _variables(_DARK))


def page(
    outcomes: Mapping[str, Outcome],
    *,
    workload: str,
    cluster: str,
    left_out: Mapping[str, int] | None = None,
    gpu_price: float | None = None,
) -> str:
    """The whole report; with a price of a GPU hour, also what idle ones cost."""
    colours = {name: f"var(--p{number % len(_LIGHT)})" for number, name in enumerate(outcomes)}
    title = f"{workload} on {cluster}"
    some = next(iter(outcomes.values()), None)
    about = f"{len(some.runs):,} jobs, {some.slots:,} slots" if some is not None else ""
    if left_out:
        about += f" ({left_out_text(left_out)})"
    parts = [
        f'<h1>{html.escape(title)}</h1><p class="note">{about}; simulated by Pumice. The best figure of each column is bold.</p>',
        *(
            f'<p class="note"><b>{html.escape(name)} was cut short</b> after {_duration(each.cut_short_s)}: its figures are of the jobs that had started or ended by then.</p>'
            for name, each in outcomes.items()
            if each.cut_short_s is not None
        ),
        _figures(outcomes, colours, gpu_price),
        _key(colours),
        "<h2>Slots in use</h2>",
        _over_time(outcomes, colours),
        '<h2>Free while somebody waits who needs no more</h2><p class="note">Slots that are free in number, and of no use to those who wait: scattered, kept for another gang, or held up by the order.</p>',
        _stranded(outcomes, colours),
        _blocked(outcomes, colours),
        '<h2>Wait by gang size</h2><p class="note">A bar from the 25th to the 75th percentile with the median, a whisker up to the 95th; the scale is logarithmic.</p>',
        _waits(outcomes, colours),
        _wait_numbers(outcomes, colours),
        '<h2>Bounded slowdown</h2><p class="note">The share of jobs whose slowdown is at most so large.</p>',
        _slowdowns(outcomes, colours),
        _by_user(outcomes, colours),
        _losses(outcomes, colours),
        *(
            f'<h2>Who ran when: {html.escape(name)}</h2><p class="note">Each bar is a job; the stronger its colour, the more slots.</p>{_gantt(each, colours[name], _end(outcomes))}'
            for name, each in outcomes.items()
        ),
    ]
    head = (
        f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{html.escape(title)}</title>'
    )
    return f'<!doctype html><html lang="en"><head>{head}<style>{_STYLE}</style></head><body>{"".join(parts)}</body></html>\n'


def _figures(outcomes: Mapping[str, Outcome], colours: Mapping[str, str], gpu_price: float | None) -> str:
    """A table; the best of each column, where policies differ, is marked."""
    columns: list[tuple[str, str, bool, Callable[[float | None], str]]] = [
        ("mean wait", "mean_wait_s", False, _duration),
        ("slowdown", "bounded_slowdown", False, _tenths),
        ("utilisation", "utilisation", True, _percent),
        ("makespan", "makespan_s", False, _duration),
        ("fairness", "fairness", True, _hundredths),
        ("evictions", "evictions", False, _whole),
        ("lost GPU-h", "lost_gpu_h", False, _tenths),
        ("idle GPU-h", "idle_gpu_h", False, _whole),
        ("blocked GPU-h", "blocked_gpu_h", False, _whole),
        ("not started", "never_started", False, _whole),
    ]
    figures: dict[str, dict[str, float | None]] = {name: outcome.figures for name, outcome in outcomes.items()}
    if gpu_price is not None:
        columns.insert(-1, ("idle $", "idle_dollars", False, _whole))
        for each in figures.values():
            each["idle_dollars"] = idle_dollars(each, gpu_price)
    rows = [_heads("policy", *(column[0] for column in columns))]
    for name, own in figures.items():
        cells = [_policy_cell(name, colours)]
        for _, field, more_is_better, text in columns:
            known = [value for each in figures.values() if (value := each[field]) is not None]
            best = max(known, default=None) if more_is_better else min(known, default=None)
            mark = ' class="best"' if own[field] == best and len(set(known)) > 1 else ""
            cells.append(f"<td{mark}>{text(own[field])}</td>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return _table(rows)


def _wait_numbers(outcomes: Mapping[str, Outcome], colours: Mapping[str, str]) -> str:
    """The same as the picture in numbers, policies below one another for each size."""
    own = {name: outcome.wait_by_size() for name, outcome in outcomes.items()}
    rows = [_heads("policy", "pods", "jobs", "median wait", "mean", "95 %", "longest")]
    for size in dict.fromkeys(size for each in own.values() for size in each):
        for name, by_size in own.items():
            figures = by_size[size]
            waits = (figures[each] for each in ("median_wait_s", "mean_wait_s", "p95_wait_s", "max_wait_s"))
            cells = (html.escape(size), f"{figures['jobs']:,}", *map(_duration, waits))
            rows.append(f"<tr>{_policy_cell(name, colours)}{''.join(f'<td>{each}</td>' for each in cells)}</tr>")
    return f"<details><summary>In numbers</summary>{_table(rows)}</details>"


def _heads(*texts: str) -> str:
    """Narrow columns break between words, and `GPU-h` nowhere."""
    return f"<tr>{''.join(f'<th>{text}</th>' for text in texts)}</tr>".replace("-", "&#8209;")


def _policy_cell(name: str, colours: Mapping[str, str]) -> str:
    return f'<td><i style="background:{colours[name]}"></i>{html.escape(name)}</td>'


def _table(rows: Sequence[str]) -> str:
    return f'<div class="wide"><table>{"".join(rows)}</table></div>'


def idle_dollars(figures: Mapping[str, float | None], gpu_price: float) -> float:
    """What GPUs cost that did no work: nobody held them, or gangs that could not start."""
    return ((figures["idle_gpu_h"] or 0.0) + (figures["blocked_gpu_h"] or 0.0)) * gpu_price


def _key(colours: Mapping[str, str]) -> str:
    marks = (f'<span><i style="background:{colour}"></i>{html.escape(name)}</span>' for name, colour in colours.items())
    return f'<p class="key">{"".join(marks)}</p>'


# ------------------------------------------------------------------------------------------------- pictures


def _over_time(outcomes: Mapping[str, Outcome], colours: Mapping[str, str]) -> str:
    end = _end(outcomes)
    if end <= 0:
        return _nothing()
    slots = max(each.slots for each in outcomes.values())
    lines = []
    for name, outcome in outcomes.items():
        held = sum(outcome.usage("queue", step_s=end / STEPS, until_s=end).values())
        points = [(_across(number / STEPS), _up(value / slots)) for number, value in enumerate(np.atleast_1d(held))]
        lines.append(_line(points, colours[name]))
    return _frame("".join(lines), _scale(slots, _whole), _times(end))


def _stranded(outcomes: Mapping[str, Outcome], colours: Mapping[str, str]) -> str:
    end = _end(outcomes)
    if end <= 0:
        return _nothing()
    edges = np.linspace(0.0, end, STEPS + 1)
    found = {}
    for name, outcome in outcomes.items():
        levels = outcome.stranded()
        before = [0, *(level for _, level in levels)]
        found[name] = mean_levels([(at, level - was) for (at, level), was in zip(levels, before, strict=False)], edges)
    most = max((float(each.max()) for each in found.values()), default=0.0)
    if most <= 0:
        return '<p class="note">At no time.</p>'
    lines = [
        _line([(_across((n + 0.5) / STEPS), _up(v / most)) for n, v in enumerate(values)], colours[name])
        for name, values in found.items()
    ]
    return _frame("".join(lines), _scale(most, _whole), _times(end))


def _blocked(outcomes: Mapping[str, Outcome], colours: Mapping[str, str]) -> str:
    """What gangs held that could not start; nothing where all gangs are whole."""
    end = _end(outcomes)
    if end <= 0 or not any(each.blocked for each in outcomes.values()):
        return ""
    edges = np.linspace(0.0, end, STEPS + 1)
    found = {
        name: mean_levels([(at, slots) for at, _, slots in each.blocked], edges)
        for name, each in outcomes.items()
        if each.blocked
    }
    most = max(float(each.max()) for each in found.values())
    lines = [
        _line([(_across((n + 0.5) / STEPS), _up(v / most)) for n, v in enumerate(values)], colours[name])
        for name, values in found.items()
    ]
    told = "; ".join(
        f"{html.escape(name)}: {_whole(figures['blocked_gpu_h'])} GPU hours, deadlocked for {_duration(figures['deadlocked_s'])}, given back {outcomes[name].give_backs:,} times"
        for name in found
        for figures in [outcomes[name].figures]
    )
    note = f'<p class="note">Slots of gangs of which some pods have a place and too many have none: they burn power and do no work. {told}. Deadlocked: none of them could have started even if all that ran had ended.</p>'
    return f"<h2>Held by gangs that cannot start</h2>{note}{_frame(''.join(lines), _scale(most, _whole), _times(end))}"


def _losses(outcomes: Mapping[str, Outcome], colours: Mapping[str, str]) -> str:
    """What evictions threw away, as it adds up; nothing where nobody was evicted."""
    most, end = max((each.lost_slot_s for each in outcomes.values()), default=0.0), _end(outcomes)
    if most <= 0 or end <= 0:
        return ""
    lines = []
    for name, outcome in outcomes.items():
        points, lost = [(_across(0.0), _up(0.0))], 0.0
        for at, more in outcome.losses:
            points.append((_across(at / end), _up(lost / most)))
            lost += more
            points.append((_across(at / end), _up(lost / most)))
        lines.append(_line([*points, (_across(1.0), _up(lost / most))], colours[name]))
    return "<h2>Work lost to evictions, GPU hours</h2>" + _frame(
        "".join(lines), _scale(most / 3600, _tenths), _times(end)
    )


def _by_user(outcomes: Mapping[str, Outcome], colours: Mapping[str, str]) -> str:
    """Users side by side: who suffers more than others shows."""
    own = {name: outcome.slowdown_by("user") for name, outcome in outcomes.items()}
    jobs = Counter(run.job.user for outcome in outcomes.values() for run in outcome.runs)
    users = [user for user, _ in jobs.most_common(USERS_SHOWN_MAX) if any(user in each for each in own.values())]
    if len(users) < 2:
        return ""
    top = max(math.log10(max(each.values(), default=1.0)) for each in own.values()) or 1.0
    slot, dots = (WIDTH - LEFT) / len(users), []
    for place, user in enumerate(users):
        for name, each in own.items():
            if user in each:
                x, y = LEFT + (place + 0.5) * slot, _up(math.log10(each[user]) / top)
                label = f"{html.escape(user or 'nobody')}, {html.escape(name)}: {each[user]:,.1f}"
                dots.append(
                    f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill-opacity=".85" style="fill:{colours[name]}"><title>{label}</title></circle>'
                )
    below = [
        ((place + 0.5) / len(users), html.escape((user or "nobody").removeprefix("user-")[:9]))
        for place, user in enumerate(users)
    ]
    left = [(power / top, f"{10**power:,}") for power in range(int(top) + 1)]
    note = f'<p class="note">Mean slowdown of each user, the {len(users)} with the most jobs; the closer the dots of one colour, the fairer.</p>'
    return f"<h2>Fairness between users</h2>{note}{_frame(''.join(dots), left, below)}"


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
    top = math.log10(max(most, 10.0) + 1)
    bars, slot = [], (WIDTH - LEFT) / max(1, len(sizes))
    width = min(30.0, 0.8 * slot / len(outcomes))
    for place, size in enumerate(sizes):
        for number, name in enumerate(outcomes):
            waits = own[size, name]
            if waits:
                low, middle, high, far = (
                    _up(math.log10(float(each) + 1) / top) for each in np.percentile(waits, (25, 50, 75, 95))
                )
                x = LEFT + (place + 0.5) * slot + (number - len(outcomes) / 2) * width
                bars.append(_box(x + 0.1 * width, 0.8 * width, (low, middle, high, far), colours[name]))
    below = [
        ((place + 0.5) / len(sizes), f"{size} pod{'' if size == '1' else 's'}") for place, size in enumerate(sizes)
    ]
    marks = [
        (math.log10(at + 1) / top, _duration(at))
        for at in (0, 10, 60, 600, 3600, 21_600, 86_400, 604_800)
        if at <= most
    ]
    return _frame("".join(bars), marks, below)


def _box(x: float, width: float, heights: tuple[float, float, float, float], colour: str) -> str:
    low, middle, high, far = heights
    return (
        f'<g style="stroke:{colour};fill:{colour}"><path d="M{x + width / 2:.1f} {high:.1f}V{far:.1f}"/>'
        f'<rect x="{x:.1f}" y="{high:.1f}" width="{width:.1f}" height="{max(low - high, 1):.1f}" rx="2" fill-opacity=".35" stroke="none"/>'
        f'<path d="M{x:.1f} {middle:.1f}h{width:.1f}" stroke-width="2.5"/></g>'
    )


def _gantt(outcome: Outcome, colour: str, end: float) -> str:
    """Each job a bar from its start to its end, packed into lanes; the stronger its colour, the more slots it held."""
    done = [each for each in outcome.runs if each.start_s is not None and each.end_s is not None]
    shown = sorted(done, key=lambda run: -run.slots * (run.end_s or 0.0))[:GANTT_JOBS_MAX]
    if not shown:
        return _nothing()
    bars, lanes = [], _lanes(shown)
    for run, lane in lanes:
        assert run.start_s is not None
        assert run.end_s is not None
        x, width = _across(run.start_s / end), max(0.6, (run.end_s - run.start_s) / end * (WIDTH - LEFT))
        strength = 0.35 + 0.65 * min(1.0, math.log2(run.slots + 1) / 8)
        label = f"{run.slots} slots, waited {_duration(run.wait_s)}, ran {_duration(run.end_s - run.start_s)}"
        bars.append(
            f'<rect x="{x:.1f}" y="{TOP + lane * GANTT_ROW}" width="{width:.1f}" height="{GANTT_ROW - 0.6:.1f}" fill-opacity="{strength:.2f}" style="fill:{colour}"><title>{label}</title></rect>'
        )
    height = TOP + (max(lane for _, lane in lanes) + 1) * GANTT_ROW + BOTTOM
    marks = "".join(
        f'<text x="{_across(share):.0f}" y="{height - 12}" text-anchor="middle">{_duration(share * end)}</text>'
        for share in (0.0, 0.25, 0.5, 0.75, 1.0)
    )
    left_out = len(done) - len(shown)
    note = f'<p class="note">{left_out} smaller jobs are not drawn.</p>' if left_out else ""
    return _svg("".join(bars) + marks, height) + note


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
        marks.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH}" class="rule"/>')
        marks.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
    for share, text in below:
        marks.append(f'<text x="{_across(share):.1f}" y="{HEIGHT - 12}" text-anchor="middle">{text}</text>')
    return _svg("".join(marks) + inside, HEIGHT)


def _svg(inside: str, height: float) -> str:
    """A picture as wide as the page, and on a telephone so wide that it can be read."""
    return f'<div class="wide"><svg viewBox="0 0 {WIDTH + 20} {height}" aria-hidden="true">{inside}</svg></div>'


def _line(points: Sequence[tuple[float, float]], colour: str) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke-width="1.7" stroke-linejoin="round" style="stroke:{colour}"/>'


def _scale(most: float, text: Callable[[float], str]) -> list[tuple[float, str]]:
    return [(share, text(share * most)) for share in (0.0, 0.25, 0.5, 0.75, 1.0)]


def _times(end: float) -> list[tuple[float, str]]:
    return [(share, _duration(share * end)) for share in (0.0, 0.25, 0.5, 0.75, 1.0)]


def _end(outcomes: Mapping[str, Outcome]) -> float:
    return max((at for each in outcomes.values() for at, _, _ in (*each.held, *each.blocked)), default=0.0)


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


def _whole(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _tenths(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


def _hundredths(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"

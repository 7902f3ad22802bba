"""One page with pictures of what policies did with a workload: HTML that holds everything it shows, and asks nobody for anything.

Colours follow the policy through all pictures. Their numbers are in the table on top and, of waits, in one below the picture.
"""

from __future__ import annotations

import heapq
import html
import math
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pumice.digits import counted
from pumice.sim.drawing import (
    BOTTOM,
    LEFT,
    TOP,
    WIDTH,
    Ink,
    across,
    colours,
    frame,
    line,
    marks,
    marks_of_capacity,
    powers,
    svg,
    times,
    up,
)
from pumice.sim.outcome import mean_levels
from pumice.sim.spans import DAY, HOUR, MINUTE, span_text
from pumice.sim.workload import left_out_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from pumice.sim.outcome import Outcome, Run

STEPS = 240  # of the picture over time
GANTT_JOBS_MAX = 600  # those that held the most; smaller ones are left out of that picture, and it says so
GANTT_ROW = 4
USERS_SHOWN_MAX = 20
LABEL_CHARS_MAX = 16  # of a user's name below a picture; the whole name is told where the pointer rests
CHAR = 7.0  # how wide a character is at most, on average
_LIGHT, _DARK = colours()

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
@media(max-width:700px){svg{min-width:620px}text{font-size:14px}body{margin-top:1.4rem;padding:0 .9rem}.key{max-height:5.6rem;overflow-y:auto}}
.key i,td i{display:inline-block;width:1.1em;height:.72em;border-radius:2px;margin-right:.42em}
""".replace("LIGHT", _LIGHT).replace("DARK", _DARK)


def page(
    outcomes: Mapping[str, Outcome],
    *,
    workload: str,
    cluster: str,
    left_out: Mapping[str, int] | None = None,
    gpu_price: float | None = None,
) -> str:
    """The whole report; with a price of a GPU hour, also what idle ones cost."""
    inks = {name: Ink.of(number) for number, name in enumerate(outcomes)}
    title = f"{workload} on {cluster}"
    some = next(iter(outcomes.values()), None)
    about = f"{_many(len(some.runs), 'job')}, {_many(some.slots, 'slot')}" if some is not None else ""
    if left_out:
        about += f" ({left_out_text(left_out)})"
    parts = [
        f'<h1>{html.escape(title)}</h1><p class="note">{about}; simulated by Pumice. The best figure of each column is bold.</p>',
        *(_missing(name, each) for name, each in outcomes.items()),
        _figures(outcomes, inks, gpu_price),
        _key(inks),
        "<h2>Slots in use</h2>",
        _over_time(outcomes, inks),
        '<h2>Free while somebody waits who needs no more</h2><p class="note">Slots that are free in number, and of no use to those who wait: scattered, kept for another gang, or held up by the order.</p>',
        _stranded(outcomes, inks),
        _blocked(outcomes, inks),
        '<h2>Wait by gang size</h2><p class="note">A bar from the 25th to the 75th percentile with the median, a whisker up to the 95th; the scale is logarithmic.</p>',
        _waits(outcomes, inks),
        _wait_numbers(outcomes, inks),
        '<h2>Bounded slowdown</h2><p class="note">The share of jobs whose slowdown is at most so large.</p>',
        _slowdowns(outcomes, inks),
        _by_user(outcomes, inks),
        _losses(outcomes, inks),
        *(
            f'<h2>Who ran when: {html.escape(name)}</h2><p class="note">Each bar is a job, or an attempt of one that was evicted; the stronger its colour, the more slots.</p>{_gantt(each, inks[name], _end(outcomes))}'
            for name, each in outcomes.items()
        ),
    ]
    head = (
        f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{html.escape(title)}</title>'
    )
    return f'<!doctype html><html lang="en"><head>{head}<style>{_STYLE}</style></head><body>{"".join(parts)}</body></html>\n'


def _missing(name: str, outcome: Outcome) -> str:
    """Of which jobs the figures are, where not of all."""
    if outcome.cut_short_s is not None:
        said = f"<b>{html.escape(name)} was cut short</b> after {span_text(outcome.cut_short_s)}: its figures are of the jobs that had started or ended by then."
    elif never := int(outcome.figures["never_started"] or 0):
        said = f"<b>{html.escape(name)}: {counted(never, 'job')} never started</b>: waits and slowdowns are those of the others."
    else:
        return ""
    return f'<p class="note">{said}</p>'


def _figures(outcomes: Mapping[str, Outcome], inks: Mapping[str, Ink], gpu_price: float | None) -> str:
    """A table; the best of each column, where policies differ, is marked."""
    columns: list[tuple[str, str, bool, Callable[[float | None], str]]] = [
        ("mean wait", "mean_wait_s", False, span_text),
        ("slowdown", "bounded_slowdown", False, _tenths),
        ("utilisation", "utilisation", True, _percent),
        ("makespan", "makespan_s", False, span_text),
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
        cells = [_policy_cell(name, inks)]
        for _, field, more_is_better, text in columns:
            mark = ' class="best"' if _is_best(own, figures.values(), field, more_is_better=more_is_better) else ""
            cells.append(f"<td{mark}>{text(own[field])}</td>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    return _table(rows)


def _is_best(
    own: Mapping[str, float | None], figures: Iterable[Mapping[str, float | None]], field: str, *, more_is_better: bool
) -> bool:
    """Who leaves jobs waiting for ever has short waits and an early end: it is compared with those that leave as many."""
    all_known = [(each["never_started"] or 0, value) for each in figures if (value := each[field]) is not None]
    fewest = min((never for never, _ in all_known), default=0)
    known = [value for never, value in all_known if never == fewest]
    if own[field] is None or (own["never_started"] or 0) > fewest or len({value for _, value in all_known}) < 2:
        return False
    return own[field] == (max(known) if more_is_better else min(known))


def _wait_numbers(outcomes: Mapping[str, Outcome], inks: Mapping[str, Ink]) -> str:
    """The same as the picture in numbers, policies below one another for each size."""
    own = {name: outcome.wait_by_size() for name, outcome in outcomes.items()}
    rows = [_heads("policy", "pods", "jobs", "median wait", "mean", "95 %", "longest")]
    for size in dict.fromkeys(size for each in own.values() for size in each):
        for name, by_size in own.items():
            figures = by_size[size]
            waits = (figures[each] for each in ("median_wait_s", "mean_wait_s", "p95_wait_s", "max_wait_s"))
            cells = (html.escape(size), f"{figures['jobs']:,}", *map(span_text, waits))
            rows.append(f"<tr>{_policy_cell(name, inks)}{''.join(f'<td>{each}</td>' for each in cells)}</tr>")
    return f"<details><summary>In numbers</summary>{_table(rows)}</details>"


def _heads(*texts: str) -> str:
    """Narrow columns break between words, and `GPU-h` nowhere."""
    return f"<tr>{''.join(f'<th>{text}</th>' for text in texts)}</tr>".replace("-", "&#8209;")


def _policy_cell(name: str, inks: Mapping[str, Ink]) -> str:
    return f"<td>{inks[name].swatch}{html.escape(name)}</td>"


def _table(rows: Sequence[str]) -> str:
    return f'<div class="wide"><table>{"".join(rows)}</table></div>'


def idle_dollars(figures: Mapping[str, float | None], gpu_price: float) -> float:
    """What GPUs cost that did no work: nobody held them, or gangs that could not start."""
    return ((figures["idle_gpu_h"] or 0.0) + (figures["blocked_gpu_h"] or 0.0)) * gpu_price


def _key(inks: Mapping[str, Ink]) -> str:
    marks = (f"<span>{ink.swatch}{html.escape(name)}</span>" for name, ink in inks.items())
    return f'<p class="key">{"".join(marks)}</p>'


# ------------------------------------------------------------------------------------------------- pictures


def _over_time(outcomes: Mapping[str, Outcome], inks: Mapping[str, Ink]) -> str:
    end = _end(outcomes)
    if end <= 0:
        return _nothing()
    slots = max(each.slots for each in outcomes.values())
    held = {name: [(at, delta) for at, _, delta in each.held] for name, each in outcomes.items()}
    return frame(_curves(_means(held, end), slots, inks), marks_of_capacity(slots, _whole), times(end))


def _stranded(outcomes: Mapping[str, Outcome], inks: Mapping[str, Ink]) -> str:
    end = _end(outcomes)
    if end <= 0:
        return _nothing()
    free = {}
    for name, outcome in outcomes.items():
        levels = outcome.stranded()
        before = [0, *(level for _, level in levels)]
        free[name] = [(at, level - was) for (at, level), was in zip(levels, before, strict=False)]
    found = _means(free, end)
    most = max((float(each.max()) for each in found.values()), default=0.0)
    if most <= 0:
        return '<p class="note">At no time.</p>'
    return frame(_curves(found, most, inks), marks(most, _short), times(end))


def _blocked(outcomes: Mapping[str, Outcome], inks: Mapping[str, Ink]) -> str:
    """What gangs held that could not start; nothing where all gangs are whole."""
    end = _end(outcomes)
    held = {name: [(at, slots) for at, _, slots in each.blocked] for name, each in outcomes.items() if each.blocked}
    found = _means(held, end) if end > 0 else {}
    most = max((float(each.max()) for each in found.values()), default=0.0)
    if most <= 0:
        return ""
    told = "; ".join(
        f"{html.escape(name)}: {_whole(figures['blocked_gpu_h'])} GPU hours, deadlocked for {span_text(figures['deadlocked_s'])}, given back {counted(outcomes[name].give_backs, 'time')}"
        for name in found
        for figures in [outcomes[name].figures]
    )
    note = f'<p class="note">Slots of gangs of which some pods have a place and too many have none: they burn power and do no work. {told}. Deadlocked: none of them could have started even if all that ran had ended.</p>'
    picture = frame(_curves(found, most, inks), marks(most, _short), times(end))
    return f"<h2>Held by gangs that cannot start</h2>{note}{picture}"


def _means(changes: Mapping[str, Sequence[tuple[float, int]]], end: float) -> dict[str, NDArray[np.float64]]:
    """Of what rises and falls, the mean of each step from 0 to the end."""
    edges = np.linspace(0.0, end, STEPS + 1)
    return {name: mean_levels(each, edges) for name, each in changes.items()}


def _curves(found: Mapping[str, NDArray[np.float64]], most: float, inks: Mapping[str, Ink]) -> str:
    return "".join(
        line([(across((n + 0.5) / STEPS), up(value / most)) for n, value in enumerate(values)], inks[name])
        for name, values in found.items()
    )


def _losses(outcomes: Mapping[str, Outcome], inks: Mapping[str, Ink]) -> str:
    """What evictions threw away, as it adds up; nothing where nobody was evicted."""
    most, end = max((each.lost_slot_s for each in outcomes.values()), default=0.0), _end(outcomes)
    if most <= 0 or end <= 0:
        return ""
    lines = []
    for name, outcome in outcomes.items():
        points, lost = [(across(0.0), up(0.0))], 0.0
        for at, more in outcome.losses:
            points.append((across(at / end), up(lost / most)))
            lost += more
            points.append((across(at / end), up(lost / most)))
        lines.append(line([*points, (across(1.0), up(lost / most))], inks[name]))
    return "<h2>Work lost to evictions, GPU hours</h2>" + frame("".join(lines), marks(most / 3600, _short), times(end))


def _by_user(outcomes: Mapping[str, Outcome], inks: Mapping[str, Ink]) -> str:
    """Users side by side: who suffers more than others shows."""
    own = {name: outcome.slowdown_by("user") for name, outcome in outcomes.items()}
    jobs = Counter(run.job.user for outcome in outcomes.values() for run in outcome.runs)
    users = [user for user, _ in jobs.most_common(USERS_SHOWN_MAX) if any(user in each for each in own.values())]
    if len(users) < 2:
        return ""
    top = max(math.log10(max(each.values(), default=1.0)) for each in own.values())
    top = max(top, math.log10(2))  # where nobody suffers, dots stay together
    slot, dots = (WIDTH - LEFT) / len(users), []
    for place, user in enumerate(users):
        for name, each in own.items():
            if user in each:
                x, y = LEFT + (place + 0.5) * slot, up(math.log10(each[user]) / top)
                label = f"{html.escape(user or 'nobody')}, {html.escape(name)}: {each[user]:,.1f}"
                dots.append(_dot(x, y, inks[name], label))
    names = [_cut((user or "nobody").removeprefix("user-")) for user in users]
    below = [((place + 0.5) / len(users), html.escape(name)) for place, name in enumerate(names)]
    slanted = max(map(len, names)) * CHAR > slot
    note = f'<p class="note">Mean slowdown of each user, the {len(users)} with the most jobs; the closer the dots of one colour, the fairer.</p>'
    return f"<h2>Fairness between users</h2>{note}{frame(''.join(dots), powers(top), below, slanted=slanted)}"


def _cut(name: str) -> str:
    return name if len(name) <= LABEL_CHARS_MAX else f"{name[: LABEL_CHARS_MAX - 1]}…"


def _dot(x: float, y: float, ink: Ink, label: str) -> str:
    """A ring where the policy's lines are dashed."""
    inside = (
        f'fill="none" stroke-width="2" style="stroke:{ink.colour}"'
        if ink.dash
        else f'fill-opacity=".85" style="fill:{ink.colour}"'
    )
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" {inside}><title>{label}</title></circle>'


def _slowdowns(outcomes: Mapping[str, Outcome], inks: Mapping[str, Ink]) -> str:
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
                (across(math.log10(max(values[number], 1.0)) / top), up((number + 1) / len(values)))
                for number in chosen
            ]
            points = [(points[0][0], up(0.0)), *points, (across(1.0), up(1.0))]  # also where all suffer alike
            lines.append(line(points, inks[name]))
    return frame("".join(lines), ((share, f"{share:.0%}") for share in (0, 0.25, 0.5, 0.75, 1)), powers(top))


def _waits(outcomes: Mapping[str, Outcome], inks: Mapping[str, Ink]) -> str:
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
                    up(math.log10(float(each) + 1) / top) for each in np.percentile(waits, (25, 50, 75, 95))
                )
                x = LEFT + (place + 0.5) * slot + (number - len(outcomes) / 2) * width
                bars.append(_box(x + 0.1 * width, 0.8 * width, (low, middle, high, far), inks[name]))
    below = [
        ((place + 0.5) / len(sizes), f"{size} pod{'' if size == '1' else 's'}") for place, size in enumerate(sizes)
    ]
    left = [
        (math.log10(at + 1) / top, span_text(at))
        for at in (0, 10, MINUTE, 10 * MINUTE, HOUR, 6 * HOUR, DAY, 7 * DAY, 28 * DAY, 365 * DAY)
        if at <= most
    ]
    return frame("".join(bars), left, below)


def _box(x: float, width: float, heights: tuple[float, float, float, float], ink: Ink) -> str:
    low, middle, high, far = heights
    edge = f'stroke-width="1.2"{ink.dashed}' if ink.dash else 'stroke="none"'
    return (
        f'<g style="stroke:{ink.colour};fill:{ink.colour}"><path d="M{x + width / 2:.1f} {high:.1f}V{far:.1f}"/>'
        f'<rect x="{x:.1f}" y="{high:.1f}" width="{width:.1f}" height="{max(low - high, 1):.1f}" rx="2" fill-opacity=".35" {edge}/>'
        f'<path d="M{x:.1f} {middle:.1f}h{width:.1f}" stroke-width="2.5"/></g>'
    )


class _Attempt(NamedTuple):
    """A job from a start to its end, to its eviction, or to where the simulation was cut short."""

    run: Run
    start_s: float
    end_s: float

    @property
    def label(self) -> str:
        run, ran = self.run, span_text(self.end_s - self.start_s)
        waited = f", waited {span_text(run.wait_s)}" if self.start_s == run.start_s else ", begun anew"
        how = "" if self.end_s == run.end_s else " and was evicted" if run.end_s is not None else " until then"
        return f"{counted(run.slots, 'slot')}{waited}, ran {ran}{how}"


def _attempts(outcome: Outcome, end: float) -> list[_Attempt]:
    since, found = dict[int, float](), list[_Attempt]()
    for at, run, _ in outcome.held:
        if run.number in since:
            found.append(_Attempt(run, since.pop(run.number), at))
        else:
            since[run.number] = at
    return [*found, *(_Attempt(outcome.runs[number], at, end) for number, at in since.items())]


def _gantt(outcome: Outcome, ink: Ink, end: float) -> str:
    """Each attempt of a job a bar, packed into lanes; the stronger its colour, the more slots it held."""
    done = _attempts(outcome, min(end, outcome.until_s))
    shown = sorted(done, key=lambda each: -each.run.slots * (each.end_s - each.start_s))[:GANTT_JOBS_MAX]
    if not shown or end <= 0:
        return _nothing()
    bars, lanes = [], _lanes(shown)
    for each, lane in lanes:
        x, width = across(each.start_s / end), max(0.6, (each.end_s - each.start_s) / end * (WIDTH - LEFT))
        strength = 0.35 + 0.65 * min(1.0, math.log2(each.run.slots + 1) / 8)
        bars.append(
            f'<rect x="{x:.1f}" y="{TOP + lane * GANTT_ROW}" width="{width:.1f}" height="{GANTT_ROW - 0.6:.1f}" fill-opacity="{strength:.2f}" style="fill:{ink.colour}"><title>{each.label}</title></rect>'
        )
    height = TOP + (max(lane for _, lane in lanes) + 1) * GANTT_ROW + BOTTOM
    below = "".join(
        f'<text x="{across(share):.0f}" y="{height - 12}" text-anchor="middle">{text}</text>'
        for share, text in times(end)
    )
    left_out = len(done) - len(shown)
    note = f'<p class="note">{left_out:,} smaller ones are not drawn.</p>' if left_out else ""
    return svg("".join(bars) + below, height) + note


def _lanes(attempts: Sequence[_Attempt]) -> list[tuple[_Attempt, int]]:
    """The lowest lane that is free when one begins."""
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    found, lanes = [], 0
    for each in sorted(attempts, key=lambda each: each.start_s):
        while busy and busy[0][0] <= each.start_s:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            lane = heapq.heappop(free)
        else:
            lane, lanes = lanes, lanes + 1
        heapq.heappush(busy, (each.end_s, lane))
        found.append((each, lane))
    return found


def _end(outcomes: Mapping[str, Outcome]) -> float:
    return max((each.until_s for each in outcomes.values()), default=0.0)


def _of_size(runs: Sequence[Run], size: str) -> list[Run]:
    low, _, high = size.partition("-")
    if size.startswith(">"):
        return [run for run in runs if run.job.size > int(size[1:])]
    return [run for run in runs if int(low) <= run.job.size <= int(high or low)]


def _nothing() -> str:
    return '<p class="note">Nothing ran.</p>'


def _many(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _whole(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _tenths(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


def _short(value: float) -> str:
    """Beside an axis: no digit more than it needs."""
    return f"{value:,.4g}" if value < 1000 else _whole(value)


def _hundredths(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"

"""A gantt of gangs: what runs and until when, what is reserved and forecast, what waits; in rows by queue."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from pumice import instant
from pumice.dashboard import figures
from pumice.dashboard.pages import queues

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pumice.dashboard.pages.looking import Looking
    from pumice.instant import Instant
    from pumice.readmodel import model

ROWS_MAX = 60
WIDTH, LEFT, LANE, TOP = 1200, 230, 30, 30  # in the drawing's own units
TICKS = 6
BACK_MAX = 24 * instant.HOUR  # how far one looks back and ahead, at most
AHEAD_MAX = 7 * 24 * instant.HOUR


@dataclasses.dataclass(frozen=True, slots=True)
class Span:
    kind: str  # running, open (no end is known), reserved, forecast or waiting
    x: float
    width: float
    title: str


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    gang: model.Gang
    colour: int
    y: int
    spans: tuple[Span, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Drawing:
    rows: tuple[Row, ...]
    ticks: tuple[tuple[float, str], ...]
    now: float
    height: int


async def data(looking: Looking) -> Mapping[str, Any]:
    queue = looking.text("queue")
    gangs = [each for each in looking.state.gangs if queue in {"", each.queue}]
    shown = in_order(gangs)[:ROWS_MAX]
    return {
        "drawing": draw(shown, looking.now, queues.colours_of(looking.state)) if shown else None,
        "queue": queue,
        "queues": sorted({each.queue for each in looking.state.gangs}),
        "left_out": len(in_order(gangs)) - len(shown),
        "size": {"width": WIDTH, "left": LEFT, "lane": LANE, "top": TOP},
    }


def in_order(gangs: list[model.Gang]) -> list[model.Gang]:
    """By queue; what runs first, the earliest end first, then what waits in its order."""
    alive = [each for each in gangs if figures.standing(each) != figures.FINISHED]
    return sorted(alive, key=lambda each: (each.queue, each.position or 0, _end(each) or "~", each.key))


def _end(gang: model.Gang) -> str:
    return gang.expected.end if gang.expected is not None else ""


def draw(gangs: list[model.Gang], now: Instant, colours: Mapping[str, int]) -> Drawing:
    found = [(gang, list(_spans(gang, now))) for gang in gangs]
    starts = [start for _, spans in found for _, start, _, _ in spans]
    ends = [end for _, spans in found for _, _, end, _ in spans if end is not None]
    begin = max(min(starts, default=now), now - BACK_MAX)
    end = min(max([*ends, now + instant.HOUR // 4]), now + AHEAD_MAX)
    begin = min(begin, now - (end - now) // 8)
    scale = (WIDTH - LEFT) / (end - begin)

    def place(at: Instant) -> float:
        return round(LEFT + (min(max(at, begin), end) - begin) * scale, 1)

    rows = tuple(
        Row(
            gang=gang,
            colour=colours.get(gang.queue, 0),
            y=TOP + number * LANE,
            spans=tuple(
                Span(
                    kind,
                    place(start),
                    round(max(place(stop if stop is not None else end) - place(start), 3.0), 1),
                    title,
                )
                for kind, start, stop, title in spans
            ),
        )
        for number, (gang, spans) in enumerate(found)
    )
    ticks = [begin + (end - begin) * step // TICKS for step in range(TICKS + 1)]
    words = tuple((place(at), _tick(at, end - begin)) for at in ticks)
    return Drawing(rows, words, place(now), TOP + len(rows) * LANE + 8)


def _tick(at: Instant, whole: int) -> str:
    text = instant.format_instant(at)
    return f"{text[5:10]} {text[11:16]}" if whole > 20 * instant.HOUR else text[11:16]


def _spans(gang: model.Gang, now: Instant) -> Iterator[tuple[str, Instant, Instant | None, str]]:
    """Kind, from, to (None: nobody knows), and words."""
    since = figures.moment(gang.since) or now
    if figures.standing(gang) == figures.RUNNING:
        end = figures.moment(_end(gang))
        until = f"until about {_end(gang)}" if end is not None else "nobody says until when"
        yield ("running" if end is not None else "open"), since, end, f"runs since {gang.since}, {until}"
        return
    yield "waiting", figures.moment(gang.created) or now, now, f"waits since {gang.created}"
    length = instant.parse_duration(gang.expected.length) if gang.expected is not None else None
    if gang.forecast is not None and (start := figures.moment(gang.forecast.p50)):
        words = f"starts about {gang.forecast.p50}, nine times in ten by {gang.forecast.p90 or 'a week'}"
        yield "forecast", start, start + length if length else None, words
    elif gang.reservation is not None and (start := figures.moment(gang.reservation.time)):
        words = f"room on {gang.reservation.nodes} nodes is reserved from {gang.reservation.time} on"
        yield "reserved", start, start + length if length else None, words

"""A gantt of gangs: what runs and until when, what is reserved and forecast, what waits; in rows by queue, or by node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

import msgspec

from pumice import instant
from pumice.dashboard import figures
from pumice.dashboard.pages import nodes, queues
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pumice.dashboard.pages.page import PageRequest
    from pumice.instant import Instant
    from pumice.readmodel import model

ROWS_MAX = 60
LANES_MAX = 6  # gangs beside each other on one node; more are told in the node's words
WIDTH, LEFT, LANE, TOP, PAD = 1200, 230, 30, 30, 5  # in the drawing's own units
TICKS = 7
BACK_MAX = 24 * instant.HOUR  # how far one looks back and ahead, at most
AHEAD_MAX = 7 * 24 * instant.HOUR


class Span(Value):
    """A time of a gang; `end` None: nobody knows."""

    kind: str  # running, open (no end is known), reserved, forecast, waiting or others
    start: Instant
    end: Instant | None
    title: str
    look: str = ""
    lane: int = 0
    lanes: int = 1  # beside each other in the row


class Line(Value):
    """A row before it is drawn; without spans it is a heading, with the look of what is below."""

    label: str
    href: str
    spans: Sequence[Span] = ()
    look: str = ""


class Bar(Value):
    kind: str
    x: float
    y: float
    width: float
    height: float
    title: str


class Row(Value):
    line: Line
    y: int
    bars: tuple[Bar, ...]

    @property
    def is_open(self) -> bool:
        """It waits, and nobody knows until when."""
        return bool(self.line.spans) and self.line.spans[-1].kind == "waiting"


class Drawing(Value):
    rows: tuple[Row, ...]
    ticks: tuple[tuple[float, str], ...]
    now: float
    height: int


async def data(request: PageRequest) -> Mapping[str, Any]:
    state, queue, inside = request.state, request.text("queue"), request.text("in")
    by = request.choice("by", "queue", "node")
    looks = queues.looks_of(state)
    groups = nodes.grouped(state.nodes) if by == "node" else {}
    if by == "queue":
        gangs = in_order([each for each in state.gangs if queue in {"", each.queue}])
        shown, found = list(by_queue(gangs[:ROWS_MAX], request.now, looks)), len(gangs)
    else:
        own = [each for name, some in groups.items() if inside in {"", name} for each in some]
        shown, found = list(by_node(own[:ROWS_MAX], state.gangs, request.now, looks)), len(own)
    kept = {"by": by if by != "queue" else "", "queue": queue, "in": inside}
    return {
        "drawing": draw(shown, request.now) if shown else None,
        "by": by,
        "queue": queue,
        "queues": sorted({each.queue for each in state.gangs}),
        "inside": inside,
        "groups": list(groups) if len(groups) > 1 else [],
        "may_see": request.sees.nodes,
        "left_out": found - min(found, ROWS_MAX),
        "size": {"width": WIDTH, "left": LEFT, "lane": LANE, "top": TOP},
        "link": lambda **changed: _link(kept, **changed),
        "legend": _legend(shown, looks) if by == "node" else [],
    }


def _legend(lines: Iterable[Line], looks: Mapping[str, str]) -> list[tuple[str, str]]:
    """The queues that are seen, by name; those that share a look are one."""
    seen = {span.look for line in lines for span in line.spans}
    named = [(name, look) for name, look in looks.items() if look in seen and look != figures.REST]
    return [*named, *([("further queues", figures.REST)] if figures.REST in seen else [])]


def _link(kept: Mapping[str, str], **changed: str) -> str:
    query = {name: value for name, value in {**kept, **changed}.items() if value}
    return f"/timeline?{urlencode(query)}" if query else "/timeline"


# ------------------------------------------------------------------------------------------------------ rows


def in_order(gangs: list[model.Gang]) -> list[model.Gang]:
    """By queue; what runs first, the earliest end first, then what waits in its order."""
    alive = [each for each in gangs if figures.stage_of(each) != figures.FINISHED]
    return sorted(alive, key=lambda each: (each.queue, each.position or 0, _end(each) or "~", each.key))


def by_queue(gangs: Iterable[model.Gang], now: Instant, looks: Mapping[str, str]) -> Iterator[Line]:
    """A row for each gang, under the name of its queue."""
    queue = ""
    for gang in gangs:
        if gang.queue != queue:
            queue = gang.queue
            yield Line(queue, f"/gangs?queue={quote(queue, safe='')}", look=looks.get(queue, figures.REST))
        href = f"/gangs/{quote(gang.namespace, safe='')}/{quote(gang.name, safe='')}"
        yield Line(gang.job or gang.name, href, tuple(_spans(gang, now, looks.get(queue, figures.REST))))


def by_node(
    shown: Iterable[model.Node], gangs: Iterable[model.Gang], now: Instant, looks: Mapping[str, str]
) -> Iterator[Line]:
    """A row for each node: the gangs on it beside each other, and those that are expected there.

    Reservations are promises of a time and not of nodes, so they have no row here.
    """
    known = {each.key: each for each in gangs}
    coming: dict[str, list[model.Gang]] = {}
    for gang in known.values():
        for name in gang.forecast.nodes if gang.forecast is not None else ():
            coming.setdefault(name, []).append(gang)
    for node in shown:
        there: list[Span] = []
        for key in node.gangs:
            if (own := known.get(key)) is not None:
                there += _spans(own, now, looks.get(own.queue, figures.REST), told=f"{key}: ")
            elif key:
                there.append(Span("others", now, None, "gangs that you may not see"))
        count = min(len(there), LANES_MAX) or 1
        spans = [msgspec.structs.replace(each, lane=place, lanes=count) for place, each in enumerate(there[:LANES_MAX])]
        for gang in coming.get(node.name, ()):
            planned = (each for each in _spans(gang, now, looks.get(gang.queue, figures.REST), told=f"{gang.key}: "))
            spans += [each for each in planned if each.kind == "forecast"]
        yield Line(node.name, f"/nodes?node={quote(node.name, safe='')}#node", spans or (_idle(node, now),))


def _idle(node: model.Node, now: Instant) -> Span:
    return Span("nobody", now, now, f"{node.name}: {'closed' if node.closed else 'nobody is on it'}")


def _end(gang: model.Gang) -> str:
    return gang.expected.end if gang.expected is not None else ""


def _spans(gang: model.Gang, now: Instant, look: str, told: str = "") -> Iterator[Span]:
    since = figures.moment(gang.since) or now
    if figures.stage_of(gang) == figures.RUNNING:
        end = figures.moment(_end(gang))
        until = f"until about {_end(gang)}" if end is not None else "nobody says until when"
        kind = "running" if end is not None else "open"
        yield Span(kind, since, end, f"{told}runs since {gang.since}, {until}", look)
        return
    waits = figures.moment(gang.created) or now
    yield Span("waiting", waits, now, f"{told}waits since {gang.created}", look)
    length = instant.parse_duration(gang.expected.length) if gang.expected is not None else None
    if gang.forecast is not None and (start := figures.moment(gang.forecast.p50)):
        words = f"{told}starts about {gang.forecast.p50}, nine times in ten by {gang.forecast.p90 or 'a week'}"
        yield Span("forecast", start, start + length if length else None, words, look)
    elif gang.reservation is not None and (start := figures.moment(gang.reservation.time)):
        room = figures.counted(gang.reservation.nodes, "node")
        words = f"{told}room on {room} is reserved from {gang.reservation.time} on"
        yield Span("reserved", start, start + length if length else None, words, look)


# ------------------------------------------------------------------------------------------------------ drawing


def draw(lines: Sequence[Line], now: Instant) -> Drawing:
    spans = [span for line in lines for span in line.spans]
    begin = max(min((span.start for span in spans), default=now), now - BACK_MAX)
    end = min(max([*(span.end for span in spans if span.end), now + instant.HOUR // 4]), now + AHEAD_MAX)
    begin = min(begin, now - (end - now) // 8)
    scale = (WIDTH - LEFT) / (end - begin)

    def place(at: Instant) -> float:
        return round(LEFT + (min(max(at, begin), end) - begin) * scale, 1)

    def bar(span: Span, y: int) -> Bar:
        x, stop = place(span.start), place(span.end if span.end is not None else end)
        tall = (LANE - 2 * PAD) / span.lanes
        return Bar(
            f"{span.kind} {span.look}".rstrip(),
            x,
            round(y + PAD + span.lane * tall + (tall / 4 if span.kind == "waiting" else 0), 1),
            round(max(stop - x, 3.0), 1),
            round((tall / 2 if span.kind == "waiting" else tall) - (1 if span.lanes > 1 else 0), 1),
            span.title,
        )

    rows = []
    for number, line in enumerate(lines):
        y = TOP + number * LANE
        rows.append(Row(line, y, tuple(bar(span, y) for span in line.spans)))
    ticks = tuple((place(at), text) for at, text in figures.ticks(begin, end, TICKS))
    return Drawing(tuple(rows), ticks, place(now), TOP + len(rows) * LANE + 8)

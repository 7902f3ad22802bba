"""Queues as a tree, each with a bar: what it holds, against what is kept for it, what it deserves and what it may have at most."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pumice import instant
from pumice.dashboard import actions, figures
from pumice.dashboard.pages import last_day
from pumice.record.facts import is_gpu
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pumice.dashboard.pages.page import PageRequest
    from pumice.readmodel import model
    from pumice.record.model import Report

ROOT = "root"
DEPTH_MAX = 32  # a ring of parents ends too
SPARK = {"width": 72, "height": 22, "step": 3}  # a bar for each hour of a day


class Past(Value):
    """GPUs on average, by hour of the last day: bars with their place, height and words."""

    mean: float
    bars: tuple[tuple[int, float, str], ...]


class Row(Value):
    """Units of the main resource; None where the policy or the owner says nothing."""

    queue: model.Queue
    depth: int
    look: str
    held: float
    guarantee: float | None
    deserved: float | None
    limit: float | None
    borrowed: float
    left: float
    promised: float
    bars: tuple[figures.Bar, ...]
    marks: tuple[tuple[str, float], ...]  # kind and place in percent

    @property
    def usage_ratio(self) -> float | None:
        """How much of its fair part it has used, recent use counting most."""
        return self.queue.usage / self.queue.fair_usage if self.queue.fair_usage else None


async def data(request: PageRequest) -> Mapping[str, Any]:
    state = request.state
    resource = request.text("resource") or figures.main_resource(state.totals)
    names = sorted(state.totals.allocatable, key=lambda name: (name != figures.main_resource(state.totals), name))
    found = rows(state, resource)
    usage = await last_day.usage(request) if is_gpu(resource) else None
    return {
        "resource": resource,
        "resources": names,
        "noun": figures.noun(resource),
        "rows": found,
        "buttons": {
            each.queue.name: await actions.of_queue(request.person, each.queue.name, each.queue.state)
            for each in found
            if request.writes
        },
        "pasts": pasts(found, usage.report) if usage is not None else {},
        "spark": SPARK,
        "has_memory": any(each.queue.fair_usage for each in found),
        "scale": scale(state, resource),
    }


def rows(state: model.State, resource: str) -> list[Row]:
    """Children behind their parents, by name; the root itself says nothing of its own."""
    looks, width = looks_of(state), scale(state, resource)
    return [_row(queue, depth, looks[queue.name], resource, width) for queue, depth in _tree(state.queues)]


def scale(state: model.State, resource: str) -> float:
    """What the longest bar stands for: the most that any queue holds, is promised or deserves, so that small queues are seen, too."""
    own = [each for each in state.queues if each.name != ROOT]
    most = max(
        (figures.part(each.allocated, resource) + figures.part(each.promised, resource) for each in own), default=0.0
    )
    most = max([most, *(figures.part(held, resource) for each in own for held in (each.entitled, each.guarantee))])
    limits = (figures.part(each.limit, resource) for each in own if resource in each.limit)
    whole = figures.part(state.totals.allocatable, resource)
    return max([most, *(each for each in limits if each < whole)]) or whole


def pasts(found: list[Row], report: Report) -> dict[str, Past]:
    """What queues held in the last day, those above with what is below them; on one scale, so that they can be compared."""
    hours: dict[str, list[float]] = {each.queue.name: [0.0] * last_day.HOURS for each in found}
    parents = {each.queue.name: each.queue.parent for each in found}
    for at, queue, held in report.days:
        place, name = (at - report.since) // last_day.HOUR_S, queue
        for _ in range(DEPTH_MAX):
            if name not in hours or not 0 <= place < last_day.HOURS:
                break
            hours[name][place] += held
            name = parents[name]
    most = max((max(own) for own in hours.values()), default=0.0) or 1.0
    return {name: _past(own, report.since, most) for name, own in hours.items() if any(own)}


def _past(hours: list[float], since: int, most: float) -> Past:
    bars = []
    for place, held in enumerate(hours):
        if held:
            at = instant.format_instant((since + place * last_day.HOUR_S) * instant.SECOND)[11:16]
            tall = max(held / most * SPARK["height"], 1.0)
            bars.append((place * SPARK["step"], round(tall, 1), f"{at} UTC: {figures.number(held)} on average"))
    return Past(sum(hours) / last_day.HOURS, tuple(bars))


def looks_of(state: model.State) -> dict[str, str]:
    """The same on every page."""
    resource = figures.main_resource(state.totals)
    return figures.looks_of(
        {each.name: figures.part(each.allocated, resource) for each in state.queues if each.name != ROOT}
    )


def _tree(queues: tuple[model.Queue, ...]) -> Iterator[tuple[model.Queue, int]]:
    known = {each.name for each in queues}
    children: dict[str, list[model.Queue]] = {}
    for each in sorted(queues, key=lambda queue: queue.name):
        if each.name != ROOT:
            children.setdefault(each.parent if each.parent in known else ROOT, []).append(each)

    def below(name: str, depth: int) -> Iterator[tuple[model.Queue, int]]:
        for child in children.get(name, ()) if depth < DEPTH_MAX else ():
            yield child, depth
            yield from below(child.name, depth + 1)

    return below(ROOT, 0)


def _row(queue: model.Queue, depth: int, look: str, resource: str, width: float) -> Row:
    def told(held: Mapping[str, str]) -> float | None:
        return figures.units(resource, held[resource]) if resource in held else None

    held = told(queue.allocated) or 0.0
    guarantee, deserved, limit = told(queue.guarantee), told(queue.entitled), told(queue.limit)
    borrowed, promised = told(queue.borrowed) or 0.0, told(queue.promised) or 0.0
    pieces = ((look, held - borrowed), (f"{look} borrowed", borrowed), ("promised", promised))
    marks = [("guarantee", guarantee), ("deserved", deserved), ("limit", limit)]
    return Row(
        queue=queue,
        depth=depth,
        look=look,
        held=held,
        guarantee=guarantee,
        deserved=deserved,
        limit=limit,
        borrowed=borrowed,
        left=told(queue.left) or 0.0,
        promised=promised,
        bars=figures.bar(pieces, width),
        marks=tuple((kind, round(at / width * 100, 2)) for kind, at in marks if at is not None and 0 < width >= at),
    )

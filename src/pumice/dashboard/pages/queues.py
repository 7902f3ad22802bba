"""Queues as a tree, each with a bar: what it holds, against what is kept for it, what it deserves and what it may have at most."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from pumice.dashboard import actions, figures

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pumice.dashboard.pages.looking import Looking
    from pumice.readmodel import model

ROOT = "root"
DEPTH_MAX = 32  # a ring of parents ends too


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """Units of the main resource; None where the policy or the owner says nothing."""

    queue: model.Queue
    depth: int
    colour: int
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


async def data(looking: Looking) -> Mapping[str, Any]:
    state = looking.state
    resource = looking.text("resource") or figures.main_resource(state.totals)
    names = sorted(state.totals.allocatable, key=lambda name: (name != figures.main_resource(state.totals), name))
    found = rows(state, resource)
    return {
        "resource": resource,
        "resources": names,
        "noun": figures.noun(resource),
        "rows": found,
        "buttons": {
            each.queue.name: await actions.of_queue(looking.person, each.queue.name, each.queue.state)
            for each in found
            if looking.writes
        },
        "has_memory": any(each.queue.fair_usage for each in found),
        "whole": figures.part(state.totals.allocatable, resource),
    }


def rows(state: model.State, resource: str) -> list[Row]:
    """Children behind their parents, by name; the root itself says nothing of its own."""
    whole = figures.part(state.totals.allocatable, resource)
    colours = colours_of(state)
    return [_row(queue, depth, colours[queue.name], resource, whole) for queue, depth in _tree(state.queues)]


def colours_of(state: model.State) -> dict[str, int]:
    """The same on every page."""
    return figures.colour_of(each.name for each in state.queues if each.name != ROOT)


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


def _row(queue: model.Queue, depth: int, colour: int, resource: str, whole: float) -> Row:
    def told(held: Mapping[str, str]) -> float | None:
        return figures.units(resource, held[resource]) if resource in held else None

    held = told(queue.allocated) or 0.0
    guarantee, deserved, limit = told(queue.guarantee), told(queue.entitled), told(queue.limit)
    borrowed, promised = told(queue.borrowed) or 0.0, told(queue.promised) or 0.0
    width = max(whole, held + promised, deserved or 0.0)
    pieces = ((f"c{colour}", held - borrowed), (f"c{colour} borrowed", borrowed), ("promised", promised))
    marks = [("guarantee", guarantee), ("deserved", deserved), ("limit", limit)]
    return Row(
        queue=queue,
        depth=depth,
        colour=colour,
        held=held,
        guarantee=guarantee,
        deserved=deserved,
        limit=limit,
        borrowed=borrowed,
        left=told(queue.left) or 0.0,
        promised=promised,
        bars=figures.bar(pieces, width),
        marks=tuple((kind, round(min(at / width, 1.0) * 100, 2)) for kind, at in marks if at is not None and width),
    )

"""The node map: each node a tile, each GPU a square in the colour of its queue or gang, hyper nodes as frames.

Up to NODES_DRAWN_MAX nodes are drawn one by one; above that a frame is one tile with sums, and opening it shows its nodes, so that a page
has what is looked at and no more.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from pumice.dashboard import figures
from pumice.dashboard.pages import queues
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pumice.dashboard.pages.page import PageRequest
    from pumice.readmodel import model

NODES_DRAWN_MAX = 300
GROUP_NODES = 50  # of a frame where there are no hyper nodes
SQUARE, GAP, ROW_SQUARES = 14, 3, 8
SQUARES_MAX = 64  # of one node; more are drawn as one bar


class Piece(Value):
    """A part of a square that somebody holds."""

    x: float
    y: float
    width: float
    look: str
    title: str


class Tile(Value):
    """One node."""

    node: model.Node
    used: float
    total: float
    squares: tuple[tuple[int, int], ...]  # corners
    pieces: tuple[Piece, ...]
    width: int
    height: int
    cpu: float  # percent used
    link: str
    title: str


class Frame(Value):
    """Nodes of one hyper node, or some in a row; `tiles` are empty where it is drawn as sums."""

    name: str
    nodes: int
    used: float
    total: float
    closed: int
    bars: tuple[figures.Bar, ...]
    tiles: tuple[Tile, ...]
    link: str


async def data(request: PageRequest) -> Mapping[str, Any]:
    state = request.state
    by, inside, chosen = request.choice("by", "queue", "gang"), request.text("in"), request.text("node")
    resource = figures.main_resource(state.totals)
    groups = grouped(state.nodes)
    gangs = _GangLooks(state, resource, by)
    kept = {"by": by if by != "queue" else "", "in": inside}
    found = [
        _frame(name, nodes, gangs, kept, drawn=name == inside or len(state.nodes) <= NODES_DRAWN_MAX)
        for name, nodes in groups.items()
        if not inside or name == inside
    ]
    node = next((each for each in state.nodes if each.name == chosen), None)
    return {
        "frames": found,
        "by": by,
        "inside": inside,
        "noun": figures.noun(resource),
        "may_see": request.sees.nodes,
        "legend": gangs.legend(),
        "unnamed": sum(look == figures.REST for look in gangs.looks.values()),
        "node": node,
        "there": gangs.there(node) if node is not None else (),
        "square": SQUARE,
        "link": lambda **changed: _link(kept, **changed),
        "nodes": len(state.nodes),
        "is_aggregated": len(state.nodes) > NODES_DRAWN_MAX and not inside,
    }


def grouped(nodes: Sequence[model.Node]) -> Mapping[str, list[model.Node]]:
    """By hyper node; where there is none, by names, so many at a time."""
    found: dict[str, list[model.Node]] = {}
    alone = sorted((each for each in nodes if not each.hyper_node), key=lambda each: figures.natural(each.name))
    for each in sorted(nodes, key=lambda node: (figures.natural(node.hyper_node), figures.natural(node.name))):
        if each.hyper_node:
            found.setdefault(each.hyper_node, []).append(each)
    if len(alone) <= GROUP_NODES or len(nodes) <= NODES_DRAWN_MAX:
        if alone:
            found["" if not found else "in no hyper node"] = alone
        return found
    for start in range(0, len(alone), GROUP_NODES):
        some = alone[start : start + GROUP_NODES]
        found[f"{some[0].name} to {some[-1].name}"] = some
    return found


def _link(kept: Mapping[str, str], **changed: str) -> str:
    query = {name: value for name, value in {**kept, **changed}.items() if value}
    return f"/nodes?{urlencode(query)}" if query else "/nodes"


class _GangLooks:
    """Knows the gangs, and how they look."""

    def __init__(self, state: model.State, resource: str, by: str) -> None:
        self.resource = resource
        self._gangs = {each.key: each for each in state.gangs}
        self._by = by
        if by == "queue":
            self.looks = queues.looks_of(state)
        else:
            held: dict[str, float] = collections.defaultdict(float)
            for node in state.nodes:
                for gang, own in node.devices.items():
                    if gang in self._gangs:
                        held[gang] += figures.part(own, resource)
            self.looks = figures.looks_of(held)

    def look(self, gang: str) -> str:
        known = self._gangs.get(gang)
        name = gang if self._by == "gang" else known.queue if known is not None else ""
        return self.looks.get(name, "other")

    def legend(self) -> list[tuple[str, str]]:
        return [
            (look, self._gangs[name].job or name if name in self._gangs else name)
            for name, look in self.looks.items()
            if look != figures.REST
        ]

    def title(self, gang: str) -> str:
        known = self._gangs.get(gang)
        if known is None:
            return gang or "pods of no gang"
        until = f", until about {known.expected.end}" if known.expected is not None and known.expected.end else ""
        return f"{gang}, queue {known.queue}, since {known.since}{until}"

    def there(self, node: model.Node) -> list[tuple[str, model.Gang | None, int, float]]:
        """Who is on a node: gang, pods, units held."""
        return [
            (name, self._gangs.get(name), pods, figures.part(node.devices.get(name, {}), self.resource))
            for name, pods in node.gangs.items()
        ]


def _frame(name: str, nodes: Sequence[model.Node], gangs: _GangLooks, kept: Mapping[str, str], *, drawn: bool) -> Frame:
    used = sum(figures.part(each.used, gangs.resource) for each in nodes)
    total = sum(figures.part(each.allocatable, gangs.resource) for each in nodes)
    return Frame(
        name=name,
        nodes=len(nodes),
        used=used,
        total=total,
        closed=sum(each.closed for each in nodes),
        bars=figures.bar(_shares(nodes, gangs), total),
        tiles=tuple(_tile(each, gangs, kept) for each in nodes) if drawn else (),
        link=_link(kept, **{"in": name}),
    )


def _shares(nodes: Iterable[model.Node], gangs: _GangLooks) -> list[tuple[str, float]]:
    sums: dict[str, float] = collections.defaultdict(float)
    for node in nodes:
        for gang, held in node.devices.items():
            sums[gangs.look(gang)] += figures.part(held, gangs.resource)
        known = sum(figures.part(held, gangs.resource) for held in node.devices.values())
        sums["other"] += max(figures.part(node.used, gangs.resource) - known, 0.0)
    return sorted(sums.items(), key=lambda item: (item[0] == "other", item[0]))


def _tile(node: model.Node, gangs: _GangLooks, kept: Mapping[str, str]) -> Tile:
    used, total = (figures.part(held, gangs.resource) for held in (node.used, node.allocatable))
    count = min(-(-int(total * 1000) // 1000), SQUARES_MAX) if gangs.resource != "cpu" else 0
    step = SQUARE + GAP
    corners = tuple((place % ROW_SQUARES * step, place // ROW_SQUARES * step) for place in range(count))
    cores, busy = figures.part(node.allocatable, "cpu"), figures.part(node.used, "cpu")
    words = f"{node.name}: {figures.number(used)} of {figures.number(total)} {figures.noun(gangs.resource)} used"
    return Tile(
        node=node,
        used=used,
        total=total,
        squares=corners,
        pieces=tuple(_pieces(node, used, corners, gangs)),
        width=ROW_SQUARES * step - GAP,
        height=max(-(-count // ROW_SQUARES), 1) * step - GAP,
        cpu=round(min(busy / cores, 1.0) * 100, 1) if cores else 0.0,
        link=_link(kept, node=node.name),
        title=words + (", closed to new pods" if node.closed else ""),
    )


def _pieces(node: model.Node, used: float, corners: Sequence[tuple[int, int]], gangs: _GangLooks) -> Iterable[Piece]:
    """Each holder's units laid over the squares one after the other; a fraction fills a part of a square."""
    holders = [(gang, figures.part(held, gangs.resource)) for gang, held in node.devices.items()]
    known = sum(held for _, held in holders)
    if used > known:
        holders.append(("others", used - known))
    at = 0.0
    for gang, held in holders:
        end = min(at + held, len(corners))
        while at < end - 1e-9:
            place = int(at + 1e-9)
            stop = min(end, place + 1)
            x, y = corners[place]
            yield Piece(
                x=round(x + (at - place) * SQUARE, 2),
                y=y,
                width=round((stop - at) * SQUARE, 2),
                look=gangs.look(gang),
                title=gangs.title(gang),
            )
            at = stop

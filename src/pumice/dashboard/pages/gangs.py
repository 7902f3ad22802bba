"""All gangs: filtered, sorted and in pages, and the URL keeps how."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from pumice.dashboard import figures
from pumice.digits import whole_number
from pumice.processes.access import Denied
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pumice.dashboard.pages.page import PageRequest
    from pumice.readmodel import model

ROWS = 100  # on one page
PAGES_MAX = 10_000
STAGES = ("", figures.WAITING, figures.RUNNING, figures.FINISHED)

SORTS: Mapping[str, tuple[str, Callable[[model.Gang, str], Any]]] = {
    "name": ("Gang", lambda gang, _: gang.key),
    "queue": ("Queue", lambda gang, _: gang.queue),
    "user": ("User", lambda gang, _: gang.user),
    "state": ("State", lambda gang, _: (figures.stage_of(gang), gang.phase)),
    "size": ("Holds", lambda gang, resource: -max(_held(gang, resource), _asked(gang, resource))),
    "position": ("Place", lambda gang, _: (gang.position or 10**9, gang.queue)),
    "priority": ("Priority", lambda gang, _: -gang.priority),
    "since": ("Since", lambda gang, _: gang.since),
}


class Row(Value):
    gang: model.Gang
    stage: str
    holds: float
    asks: float
    why: str
    start: str  # expected
    end: str


async def data(request: PageRequest) -> Mapping[str, Any]:
    state = request.state
    resource = figures.main_resource(state.totals)
    stage = request.choice("state", *STAGES)
    sort = request.choice("sort", "since", *SORTS)
    backwards = request.choice("order", "", "down") == "down"
    filters = {name: request.text(name) for name in ("q", "queue", "namespace", "user", "reason")}
    wanted = [each for each in state.gangs if _fits(each, stage, filters)]
    wanted.sort(key=lambda gang: (SORTS[sort][1](gang, resource), gang.key), reverse=backwards)
    page = whole_number(request.query.get("page", "1"), most=PAGES_MAX)
    if not page:
        raise Denied(400, f"page={request.query['page'][:40]!r}: not a whole number from 1 to {PAGES_MAX}")
    short = figures.by_job(state.gangs)
    kept = {"state": stage, "sort": sort if sort != "since" else "", "order": "down" if backwards else "", **filters}
    return {
        "rows": [row(each, resource, short) for each in wanted[(page - 1) * ROWS : page * ROWS]],
        "found": len(wanted),
        "all": len(state.gangs),
        "noun": figures.noun(resource),
        "filters": filters,
        "stage": stage,
        "stages": STAGES,
        "counts": _counts(state.gangs),
        "queues": sorted({each.queue for each in state.gangs}),
        "namespaces": sorted({each.namespace for each in state.gangs}),
        "sorts": [(name, SORTS[name][0], name == sort, backwards) for name in SORTS],
        "sort": sort,
        "backwards": backwards,
        "page": page,
        "pages": max(-(-len(wanted) // ROWS), 1),
        "link": lambda **changed: link(kept, **changed),
    }


def link(kept: Mapping[str, str], **changed: str) -> str:
    """The same list with something different; what is empty is left out."""
    query = {name: value for name, value in {**kept, **changed}.items() if value}
    return f"/gangs?{urlencode(query)}" if query else "/gangs"


def row(gang: model.Gang, resource: str, short: Callable[[str], str]) -> Row:
    start = gang.forecast.p50 if gang.forecast is not None else ""
    if not start and gang.reservation is not None:
        start = gang.reservation.time
    return Row(
        gang=gang,
        stage=figures.stage_of(gang),
        holds=_held(gang, resource),
        asks=_asked(gang, resource),
        why=short(gang.reasons[0].reason) if gang.reasons else gang.rests,
        start=start,
        end=gang.expected.end if gang.expected is not None else "",
    )


def _fits(gang: model.Gang, stage: str, filters: Mapping[str, str]) -> bool:
    return (
        stage in {"", figures.stage_of(gang)}
        and filters["queue"] in {"", gang.queue}
        and filters["namespace"] in {"", gang.namespace}
        and filters["user"] in {"", gang.user}
        and (not filters["reason"] or any(each.code == filters["reason"] for each in gang.reasons[:1]))
        and filters["q"].lower() in f"{gang.key} {gang.job} {gang.user}".lower()
    )


def _counts(gangs: Sequence[model.Gang]) -> Mapping[str, int]:
    counts = dict.fromkeys(STAGES, 0)
    for each in gangs:
        counts[figures.stage_of(each)] += 1
    return {**counts, "": len(gangs)}


def _held(gang: model.Gang, resource: str) -> float:
    return figures.part(gang.holds, resource)


def _asked(gang: model.Gang, resource: str) -> float:
    return figures.part(gang.asks, resource)

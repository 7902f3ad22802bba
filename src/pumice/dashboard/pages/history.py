"""What happened and what it cost: finished gangs, and the bill by team, user, queue or namespace; both as CSV, too."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from pumice import instant
from pumice.dashboard import figures, rendering
from pumice.dashboard.pages import last_day, queues
from pumice.digits import whole_number
from pumice.errors import PumiceError
from pumice.processes.access import PODGROUPS, Denied
from pumice.record import chargeback, page, rows
from pumice.record.model import BY, dollars

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pumice.dashboard.pages.page import PageRequest
    from pumice.record.model import GangRow, History, Usage

ROWS = 50
CSV_ROWS_MAX = 10_000
DAYS = ("7", "1", "30", "90")
HEADS = (
    "namespace", "name", "user", "queue", "team", "state", "submitted", "started", "ended", "waitSeconds", "runSeconds", "attempts",
    "evictions", "lostSeconds", "gpuHours", "dollars",
)  # fmt: skip


async def data(request: PageRequest) -> Mapping[str, Any]:
    try:
        usage, found = await _bill(request), await _gangs(request, ROWS)
    except Denied:
        raise
    except PumiceError as error:
        return {"cause": str(error), "plot": None, **_asked(request)}
    bill = chargeback.bill(usage.report, usage.prices)
    plot = page.daily(usage.report, bill)
    last = found.gangs[-1] if len(found.gangs) == ROWS else None
    return {
        **_asked(request),
        "cause": "",
        "bill": bill,
        "plot": plot,
        "looks": _looks(request, plot),
        "size": {"width": page.WIDTH, "height": page.HEIGHT, "margin": page.MARGIN},
        "gaps": usage.report.gaps,
        "gangs": [(each, dollars(each.held, found.prices)) for each in found.gangs],
        "more": f"{last.ended},{last.uid}" if last is not None else "",
    }


def _looks(request: PageRequest, plot: page.Plot) -> dict[str, str]:
    """Classes of the stylesheet by the plot's own colours; queues look as they do on every page."""
    own = figures.looks_of({name: -place for place, (_, name) in enumerate(plot.legend)})
    known = queues.looks_of(request.state) if request.choice("by", *BY) == "queue" else {}
    return {colour: known.get(name, own[name]) for colour, name in plot.legend}


async def table(request: PageRequest) -> str:
    """The finished gangs as CSV, or the bill."""
    if request.choice("what", "gangs", "bill") == "bill":
        usage = await _bill(request)
        return csv_text(_bill_lines(usage))
    found = await _gangs(request, CSV_ROWS_MAX)
    return csv_text([HEADS, *(_cells(each, dollars(each.held, found.prices)) for each in found.gangs)])


def _bill_lines(usage: Usage) -> Iterator[Iterable[object]]:
    bill = chargeback.bill(usage.report, usage.prices)
    yield (bill.by, "gpuHours", "lostGpuHours", "dollars", "lostDollars")
    for each in (*bill.lines, bill.total):
        yield [
            each.name,
            *(_rounded(value) for value in (each.gpu_hours, each.lost_gpu_hours, each.dollars, each.lost_dollars)),
        ]


def _rounded(value: float | None) -> object:
    return "" if value is None else round(value, 4)


def csv_text(lines: Iterable[Iterable[object]]) -> str:
    """A cell that a spreadsheet would take for a formula becomes text."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    for line in lines:
        writer.writerow([f"'{each}" if str(each)[:1] in "=+-@\t\r" and not _is_number(each) else each for each in line])
    return out.getvalue()


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def _cells(gang: GangRow, cost: float | None) -> list[object]:
    times = [rendering.when(each) for each in (gang.submitted, gang.started, gang.ended)]
    names = [gang.namespace, gang.name, gang.user, gang.queue, gang.team, gang.state]
    numbers = [gang.wait_s, gang.run_s, gang.attempts, gang.evictions, gang.lost_s, round(gang.gpu_hours, 4)]
    return [*names, *times, *numbers, _rounded(cost)]


def _asked(request: PageRequest) -> dict[str, Any]:
    kept = {name: request.text(name) for name in ("namespace", "user", "queue", "name", "state")}
    by, days = request.choice("by", *BY), request.choice("days", *DAYS)
    kept |= {"by": by if by != BY[0] else "", "days": days if days != DAYS[0] else ""}
    spaces = sorted({each.namespace for each in request.state.gangs})
    return {
        "filters": kept,
        "by": by,
        "bys": BY,
        "days": days,
        "all_days": sorted(DAYS, key=int),
        "states": rows.FINISHED,
        "namespace": _namespace(request),
        "namespaces": spaces if request.sees_all else sorted(request.sees.namespaces or ()),
        "link": lambda path="/history", **changed: _link(kept, path, **changed),
    }


def _link(kept: Mapping[str, str], path: str, **changed: str) -> str:
    query = {name: value for name, value in {**kept, **changed}.items() if value}
    return f"{path}?{urlencode(query)}" if query else path


def _namespace(request: PageRequest) -> str:
    """The one that is asked about; who may not see all is told of the first of their own."""
    named = request.text("namespace")
    return named if named or request.sees_all else min(request.sees.namespaces or (), default="")


async def _gangs(request: PageRequest, limit: int) -> History:
    namespace = _namespace(request)
    await request.person.demand("list", {**PODGROUPS, "namespace": namespace})
    query = {name: request.text(name) for name in ("user", "queue", "name", "state", "before")}
    since, _, _ = _period(request)
    wanted = {**query, "namespace": namespace, "limit": str(limit), "since": str(since)}
    return await request.answers.history({name: value for name, value in wanted.items() if value})


async def _bill(request: PageRequest) -> Usage:
    namespace = _namespace(request)
    await request.person.demand("list", {**PODGROUPS, "namespace": namespace})
    since, until, step = _period(request)
    period = {"by": request.choice("by", *BY), "since": str(since), "until": str(until), "step": step}
    return await request.answers.report({**period, **({"namespace": namespace} if namespace else {})})


def _period(request: PageRequest) -> tuple[int, int, str]:
    """From, to and by what: whole days, or the hours of the last one; so everybody asks the same question."""
    days = whole_number(request.choice("days", *DAYS), most=366) or 1
    now = request.now // instant.SECOND
    if days == 1:
        return last_day.period(now)
    until = (now // last_day.DAY_S + 1) * last_day.DAY_S
    return until - days * last_day.DAY_S, until, "day"

"""The first page: what the cluster's GPUs do and cost, who has how much, who waits for what, who starts next, who was evicted."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING, Any

from pumice import instant
from pumice.dashboard import figures
from pumice.dashboard.pages import last_day, queues
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.dashboard.pages.page import PageRequest
    from pumice.readmodel import model
    from pumice.record.model import Report

ROWS = 6  # of each list
QUEUES_SHOWN = 12


class Totals(Value):
    """Units of the main resource."""

    resource: str
    noun: str
    nodes: int
    total: float
    used: float
    idle: float
    fragmented: float  # idle, and of no use to workers of this many each
    each: int
    bars: tuple[figures.Bar, ...]

    @property
    def percent(self) -> float:
        return self.used / self.total * 100 if self.total else 0.0


class Why(Value):
    """Gangs that wait for the same reason."""

    code: str
    sentence: str
    cure: str
    gangs: int
    asks: float
    share: float  # of the largest group


class Day(Value):
    """The last day, by the record."""

    percent: float | None
    used_hours: float
    lost_hours: float
    used_dollars: float | None
    idle_dollars: float | None
    lost_dollars: float | None


async def data(request: PageRequest) -> Mapping[str, Any]:
    state = request.state
    own = totals(state.totals)
    usage = await last_day.usage(request)
    price = usage.prices.get(own.resource) if usage is not None else None
    evictions = evictions_of_the_day(state, request.now)
    return {
        "totals": own,
        "price": price,
        "day": day(usage.report, own.resource, price) if usage is not None else None,
        "queues": queues.rows(state, own.resource)[:QUEUES_SHOWN],
        "more_queues": max(len(state.queues) - QUEUES_SHOWN, 0),
        "running": sum(figures.stage_of(each) == figures.RUNNING for each in state.gangs),
        "waiting": sum(figures.stage_of(each) == figures.WAITING for each in state.gangs),
        "held_for_nothing": held_for_nothing(state, own.resource),
        "reasons": reasons(state, own.resource),
        "starts": starts(state)[:ROWS],
        "score": state.forecasts,
        "evictions": evictions[:ROWS],
        "evicted": len(evictions),
        "lost_s": sum(each.lost_seconds for each in evictions),
        "short": figures.by_job(state.gangs),
    }


def totals(own: model.Totals) -> Totals:
    resource = figures.main_resource(own)
    total, used = figures.part(own.allocatable, resource), figures.part(own.used, resource)
    idle = max(total - used, 0.0)
    sizes = [each for each in own.stranded if each.resource == resource]
    worst = max(sizes, key=lambda each: (each.waiting, each.each), default=None)
    fragmented = min(float(worst.free - worst.usable), idle) if worst is not None else 0.0
    pieces = (("used", used), ("fragmented", fragmented), ("idle", idle - fragmented))
    return Totals(
        resource=resource,
        noun=figures.noun(resource),
        nodes=own.nodes,
        total=total,
        used=used,
        idle=idle,
        fragmented=fragmented,
        each=worst.each if worst is not None else 0,
        bars=figures.bar(pieces, total),
    )


def held_for_nothing(state: model.State, resource: str) -> tuple[int, float]:
    """Gangs that do next to nothing with what they hold, as far as that is measured, and how much it is."""
    held = [each for each in state.gangs if each.gpu_use is not None and each.gpu_use.idle]
    return len(held), sum(figures.part(each.holds, resource) for each in held)


def reasons(state: model.State, resource: str) -> list[Why]:
    """Waiting gangs by the first thing that they wait for, the most frequent first."""
    groups: dict[str, list[model.Gang]] = collections.defaultdict(list)
    for gang in state.gangs:
        if figures.stage_of(gang) == figures.WAITING:
            groups[gang.reasons[0].code if gang.reasons else ""].append(gang)
    most = max(map(len, groups.values()), default=0)
    found = []
    for code, gangs in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        first = gangs[0].reasons[0] if gangs[0].reasons else None
        found.append(
            Why(
                code=code,
                sentence=first.reason if first is not None else "not looked at yet",
                cure=first.cure if first is not None else "",
                gangs=len(gangs),
                asks=sum(figures.part(each.asks, resource) for each in gangs),
                share=round(len(gangs) / most * 100, 1),
            )
        )
    return found


def starts(state: model.State) -> list[tuple[str, model.Gang]]:
    """When waiting gangs will start, as far as is known: the forecast's median, else the latest time of a reservation."""
    found = []
    for gang in state.gangs:
        if figures.stage_of(gang) != figures.WAITING:
            continue
        if gang.forecast is not None and gang.forecast.p50:
            found.append((gang.forecast.p50, gang))
        elif gang.reservation is not None:
            found.append((gang.reservation.time, gang))
    return sorted(found, key=lambda item: (item[0], item[1].key))


def evictions_of_the_day(state: model.State, now: int) -> list[model.Eviction]:
    """Evictions, the newest first."""
    since = instant.format_instant(now - last_day.DAY_S * instant.SECOND)
    return [each for each in reversed(state.evictions) if each.at >= since]


def day(report: Report, resource: str, price: float | None) -> Day:
    own = [each for each in report.rows if each.resource == resource]
    used, lost = sum(each.used_hours for each in own), sum(each.lost_hours for each in own)
    capacity = report.capacity.get(resource)
    idle = max(capacity - used, 0.0) if capacity is not None else None
    return Day(
        percent=min(used / capacity * 100, 100.0) if capacity else None,
        used_hours=used,
        lost_hours=lost,
        used_dollars=used * price if price is not None else None,
        idle_dollars=idle * price if price is not None and idle is not None else None,
        lost_dollars=lost * price if price is not None else None,
    )

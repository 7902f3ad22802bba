"""A month's bill from usage: by account the hours that were used and lost, what nobody used, and dollars. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pumice.record.facts import is_gpu

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pumice.record.model import Report

SHOWN_MAX = 8  # accounts with a colour of their own in the plot; the rest is one


class Line(msgspec.Struct, frozen=True, rename="camel"):
    """One account; dollars are None where nothing of it has a price."""

    name: str
    gpu_hours: float
    lost_gpu_hours: float
    dollars: float | None
    lost_dollars: float | None


class Bill(msgspec.Struct, frozen=True, rename="camel"):
    by: str
    lines: list[Line]  # the largest first
    total: Line
    capacity_gpu_hours: float | None  # None where nobody has counted
    idle_gpu_hours: float | None
    idle_dollars: float | None


def bill(report: Report, prices: Mapping[str, float]) -> Bill:
    """What a cluster's idle time cost is the whole cluster's: no account pays for it."""
    accounts: dict[str, list[tuple[str, float, float]]] = {}
    for row in report.rows:
        accounts.setdefault(row.name, []).append((row.resource, row.used_hours, row.lost_hours))
    lines = [_line(name, found, prices) for name, found in accounts.items()]
    lines.sort(key=lambda line: (-(line.dollars or 0.0), -line.gpu_hours, line.name))
    used: dict[str, float] = {}
    for row in report.rows:
        used[row.resource] = used.get(row.resource, 0.0) + row.used_hours
    idle = {name: max(hours - used.get(name, 0.0), 0.0) for name, hours in report.capacity.items()}
    everything = [(row.resource, row.used_hours, row.lost_hours) for row in report.rows]
    return Bill(
        by=report.by,
        lines=lines,
        total=_line("total", everything, prices),
        capacity_gpu_hours=_gpus(report.capacity) if report.capacity else None,
        idle_gpu_hours=_gpus(idle) if report.capacity else None,
        idle_dollars=_dollars(idle.items(), prices) if report.capacity else None,
    )


def _line(name: str, found: list[tuple[str, float, float]], prices: Mapping[str, float]) -> Line:
    return Line(
        name=name,
        gpu_hours=sum(used for resource, used, _ in found if is_gpu(resource)),
        lost_gpu_hours=sum(lost for resource, _, lost in found if is_gpu(resource)),
        dollars=_dollars(((resource, used) for resource, used, _ in found), prices),
        lost_dollars=_dollars(((resource, lost) for resource, _, lost in found), prices),
    )


def _gpus(hours: Mapping[str, float]) -> float:
    return sum(value for name, value in hours.items() if is_gpu(name))


def _dollars(hours: Iterable[tuple[str, float]], prices: Mapping[str, float]) -> float | None:
    priced = [value * prices[name] for name, value in hours if name in prices]
    return sum(priced) if priced else None

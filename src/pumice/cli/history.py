"""`pumice history`: gangs that have ended, what they waited for and what they cost."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from pumice import instant
from pumice.cli import record_access
from pumice.cli.cluster_command import Target, targets
from pumice.cli.record_options import price_option, prices_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pumice.record.model import GangRow

LIMIT_MAX = 10_000
STATES = ("Completed", "Failed", "Aborted", "Terminated", "Evicted", "Deleted", "Gone")
_FORMS = ("table", "wide", "csv", "json", "yaml")


@click.command()
@click.argument("name", required=False, default="")
@targets(everywhere=True)
@click.option("-u", "--user", default="", help="Only of this user.")
@click.option("-q", "--queue", default="", help="Only of this queue.")
@click.option("--state", type=click.Choice(STATES, case_sensitive=False), help="Only those that ended so.")
@click.option("-S", "--since", default="", metavar="TIME", help="Ended since: 7d, 12h, 2026-11-01 or RFC 3339.")
@click.option("-E", "--until", default="", metavar="TIME", help="Ended before.")
@click.option("--limit", type=click.IntRange(1, LIMIT_MAX), default=50, show_default=True, help="The last ones.")
@click.option("-o", "--output", type=click.Choice(_FORMS), default="table", show_default=True)
@click.option("--no-headers", "headers", is_flag=True, flag_value=False, default=True, help="No head line.")
@record_access.record_option
@price_option
def history(
    target: Target,
    name: str,
    user: str,
    queue: str,
    state: str | None,
    since: str,
    until: str,
    limit: int,
    output: str,
    headers: bool,
    record: str,
    prices: tuple[str, ...],
) -> None:
    """List finished gangs, the last first; with a NAME all those of that name.

    WAIT is from submission to start, RUN from start to end. LOST is run time that evictions threw away, over all pods; COST is at
    the prices of the controllers (--price).
    """
    from pumice.record import model

    now = int(time.time())
    namespace = target.namespace if record and not target.everywhere else record_access.namespace_of(target)
    query = {
        "namespace": namespace,
        "user": user,
        "queue": queue,
        "name": name,
        "state": state or "",
        "since": record_access.moment(since, "--since", now),
        "until": record_access.moment(until, "--until", now),
        "limit": limit,
    }
    texts = {key: str(value) for key, value in query.items() if value not in {None, ""}}
    own = prices_of(prices)
    found = record_access.read(
        target,
        record,
        "/v1/history",
        query,
        lambda answers, store: answers.history(store, model.filter_of(texts), own),
        model.History,
    )
    _show(found.gangs, {**found.prices, **own}, output, headers=headers, namespace=namespace, now=now)


def _show(
    gangs: Sequence[GangRow], prices: Mapping[str, float], output: str, *, headers: bool, namespace: str, now: int
) -> None:
    from pumice.cli import cells, printing

    if output in {"json", "yaml"}:
        data = {"prices": dict(prices), "gangs": [_data(each, prices) for each in gangs]}
        click.echo(printing.document(data, printing.Form(output)))
        return
    if not gangs and output != "csv":
        where = "" if not namespace else f" in namespace {namespace}; -A looks in all"
        click.echo(f"No finished gangs found{where}.", err=True)
        return
    if output == "csv":
        rows = [list(map(_csv_cell, _data(each, prices).values())) for each in gangs]
        heads = list(_CSV_HEADS)
        click.echo(cells.csv_text([heads, *rows] if headers else rows), nl=False)
        return
    wide = output == "wide"
    rows = [_row(each, prices, wide=wide, everywhere=not namespace, now=now) for each in gangs]
    heads = [
        *([] if namespace else ["NAMESPACE"]),
        "NAME",
        "USER",
        "QUEUE",
        "STATE",
        "WAIT",
        "RUN",
        "ATTEMPTS",
        "EVICTIONS",
    ]
    heads += [
        "LOST",
        "GPU-HOURS",
        "COST",
        "ENDED",
        *(["SUBMITTED", "STARTED", "LOST-GPU-HOURS", "REASON"] if wide else []),
    ]
    shown = [[cells.clean(cell) for cell in row] for row in rows]
    click.echo(printing.align([heads, *shown] if headers else shown), nl=False)


def _row(gang: GangRow, prices: Mapping[str, float], *, wide: bool, everywhere: bool, now: int) -> list[str]:
    from pumice.cli import cells
    from pumice.record.model import dollars

    row = [gang.namespace] if everywhere else []
    row += [
        gang.name,
        gang.user,
        gang.queue,
        gang.state,
        _span(gang.wait_s),
        _span(gang.run_s) if gang.started is not None else "-",
        str(gang.attempts),
        str(gang.evictions),
        _span(gang.lost_s) if gang.lost_s else "-",
        f"{gang.gpu_hours:.2f}",
        cells.money(dollars(gang.held, prices)),
        f"{_span(max(now - gang.ended, 0))} ago",
    ]
    if wide:
        row += [_when(gang.submitted), _when(gang.started), f"{gang.lost_gpu_hours:.2f}", gang.reason or "-"]
    return row


def _data(gang: GangRow, prices: Mapping[str, float]) -> dict[str, Any]:
    """A gang under the names that programs may rely on; times are RFC 3339."""
    from pumice.record.model import dollars

    cost = dollars(gang.held, prices)
    return {
        "namespace": gang.namespace,
        "name": gang.name,
        "kind": gang.kind,
        "uid": gang.uid,
        "user": gang.user,
        "queue": gang.queue,
        "team": gang.team,
        "state": gang.state,
        "reason": gang.reason,
        "submitted": _when(gang.submitted),
        "admitted": _when(gang.admitted),
        "started": _when(gang.started),
        "ended": _when(gang.ended),
        "waitSeconds": gang.wait_s,
        "runSeconds": gang.run_s,
        "attempts": gang.attempts,
        "evictions": gang.evictions,
        "lostSeconds": gang.lost_s,
        "gpuHours": round(gang.gpu_hours, 6),
        "lostGpuHours": round(gang.lost_gpu_hours, 6),
        "dollars": None if cost is None else round(cost, 4),
        "held": {name: round(value, 6) for name, value in sorted(gang.held.items())},
        "shapes": gang.shapes,
    }


_CSV_HEADS = (
    "namespace", "name", "kind", "uid", "user", "queue", "team", "state", "reason", "submitted", "admitted", "started", "ended",
    "waitSeconds", "runSeconds", "attempts", "evictions", "lostSeconds", "gpuHours", "lostGpuHours", "dollars", "held", "shapes",
)  # fmt: skip


def _csv_cell(value: object) -> str:
    import json

    return json.dumps(value) if isinstance(value, dict | list) else "" if value is None else str(value)


def _span(seconds: int) -> str:
    return instant.human_duration(seconds * instant.SECOND)


def _when(seconds: int | None) -> str:
    return instant.format_instant(seconds * instant.SECOND) if seconds is not None else ""

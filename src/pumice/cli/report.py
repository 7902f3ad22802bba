"""`pumice report`: who used what in a month, and what it cost."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from pumice.cli import record_access
from pumice.cli.cluster_command import Target, targets
from pumice.cli.record_options import price_option, prices_of
from pumice.digits import counted
from pumice.errors import BadInput

if TYPE_CHECKING:
    from pumice.record.chargeback import Bill
    from pumice.record.model import Report

_MONTH = re.compile(r"([0-9]{4})-(0[1-9]|1[0-2])")
_HEADS = ("GPU-HOURS", "LOST", "COST", "COST-LOST")


@click.command()
@targets()
@click.option(
    "--by", type=click.Choice(("team", "user", "queue", "namespace")), default="team", show_default=True,
    help="Whose use is summed up; a team is the queue below root and all queues under it.",
)  # fmt: skip
@click.option("--month", default="", metavar="YYYY-MM", help="The month, in UTC; without it the current one.")
@click.option(
    "-o",
    "--output",
    "--format",
    "form",
    type=click.Choice(("table", "text", "csv", "html", "json", "yaml")),
    default="table",
    show_default=True,
    help="text is another word for table.",
)
@record_access.record_option
@price_option
def report(target: Target, by: str, month: str, form: str, record: str, prices: tuple[str, ...]) -> None:
    """Say who used what in a month: GPU-hours, those that evictions threw away, those that nobody used, and dollars.

    Without -n for the whole cluster, which needs the right to list PodGroups everywhere.
    """
    from pumice.record import chargeback, model

    now = int(time.time())
    since, until, name = _period(month, now)
    query = {"by": by, "since": since, "until": until, "namespace": target.namespace}
    own = prices_of(prices)
    wanted = model.Period(by, since, until, target.namespace)
    found = record_access.read(
        target, record, "/v1/report", query, lambda answers, store: answers.report(store, wanted, own, now), model.Usage
    )
    bill = chargeback.bill(found.report, {**found.prices, **own})
    where = f" in namespace {target.namespace}" if target.namespace else ""
    _show(found.report, bill, form, title=f"GPU use by {by}{where}, {name}")


def _period(month: str, now: int) -> tuple[int, int, str]:
    """The first second of a month and that of the next, and its name."""
    text = month or datetime.fromtimestamp(now, UTC).strftime("%Y-%m")
    found = _MONTH.fullmatch(text)
    if found is None or found[1] == "0000":
        raise BadInput(f"--month {text!r}: write a month such as 2026-11")
    year, number = int(found[1]), int(found[2])
    first = datetime(year, number, 1, tzinfo=UTC)
    after = (
        datetime(year + number // 12, number % 12 + 1, 1, tzinfo=UTC)
        if year < 9999
        else datetime.max.replace(tzinfo=UTC)
    )
    return int(first.timestamp()), int(after.timestamp()), text


def _show(report: Report, bill: Bill, form: str, *, title: str) -> None:
    from pumice.cli import cells, printing

    if form == "html":
        from pumice.record import page

        click.echo(page.html(report, bill, title=title))
    elif form in {"json", "yaml"}:
        printing.echo_data({"title": title, "bill": bill, "gaps": report.gaps}, form)
    elif form == "csv":
        rows = [[bill.by, "gpuHours", "lostGpuHours", "dollars", "lostDollars"]]
        rows += [
            _numbers(line.name, line.gpu_hours, line.lost_gpu_hours, line.dollars, line.lost_dollars)
            for line in bill.lines
        ]
        if bill.idle_gpu_hours is not None:
            rows.append(_numbers("(idle)", bill.idle_gpu_hours, None, bill.idle_dollars, None))
        click.echo(cells.csv_text(rows), nl=False)
    else:
        click.echo(title)
        if not bill.lines:
            click.echo("nothing was used", err=True)
        texts = [[bill.by.upper(), *_HEADS]]
        for line in (*bill.lines, bill.total):
            hours = f"{line.gpu_hours:.2f}", f"{line.lost_gpu_hours:.2f}"
            texts.append([cells.clean(line.name), *hours, cells.money(line.dollars), cells.money(line.lost_dollars)])
        if bill.idle_gpu_hours is not None:
            texts.append(["idle", f"{bill.idle_gpu_hours:.2f}", "", cells.money(bill.idle_dollars), ""])
        click.echo(printing.align(texts), nl=False)
        for _, _, rows_lost in report.gaps:
            click.echo(f"pumice: the record has a gap: {counted(rows_lost, 'row')} given up in this time", err=True)


def _numbers(name: str, *values: float | None) -> list[str]:
    return [name, *("" if value is None else f"{value:.4f}" for value in values)]

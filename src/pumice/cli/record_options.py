"""Options about the record that several commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pumice.api import names
from pumice.errors import BadInput
from pumice.record import settings
from pumice.record.settings import RecordSettings

if TYPE_CHECKING:
    from collections.abc import Callable

NONE = "none"
DAYS_MAX = 36_500
_DAYS = click.IntRange(1, DAYS_MAX)


def keeps_record(body: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a process that keeps the record."""
    options = (
        click.option(
            "--record-keep-days", type=_DAYS, default=settings.KEEP_DAYS, show_default=True,
            help="How long gangs and usage stay in the record.",
        ),
        click.option(
            "--record-keep-detail-days", type=_DAYS, default=settings.KEEP_DETAIL_DAYS, show_default=True,
            help="How long single pods and their last lines stay.",
        ),
        click.option(
            "--record-logs/--no-record-logs", default=True, show_default=True,
            help="Keep the last 64 KiB of each container that has ended.",
        ),
        click.option(
            "--record-user-label", is_flag=True,
            help="Charge by the label pumice.dev/user where admission recorded no submitter.",
        ),
        click.option(
            "--record-scheduler", default=names.SCHEDULER_LEASE, show_default=True, metavar="LEASE",
            help="The scheduler's lease, beside whose memory forecasts are found and run times are left.",
        ),
        price_option,
    )  # fmt: skip
    for option in reversed(options):
        body = option(body)
    return body


def record_settings(
    url: str, options: dict[str, Any], *, namespace: str = settings.NAMESPACE, adopts: bool = False
) -> RecordSettings | None:
    """The settings that `keeps_record` asked for, taken out of the options; None for no record."""
    found = RecordSettings(
        url=url,
        keep_days=options.pop("record_keep_days"),
        keep_detail_days=options.pop("record_keep_detail_days"),
        keeps_logs=options.pop("record_logs"),
        trusts_label=options.pop("record_user_label"),
        scheduler=options.pop("record_scheduler"),
        namespace=namespace,
        adopts=adopts,
    )
    if url in {"", NONE}:
        return None
    settings.check(url)
    return found


price_option = click.option(
    "--price", "prices", multiple=True, metavar="RESOURCE=DOLLARS", help="Dollars per hour of one card, core or GiB."
)


def prices_of(texts: tuple[str, ...]) -> dict[str, float]:
    return dict(_price(text) for text in texts)


def _price(text: str) -> tuple[str, float]:
    name, _, dollars = text.rpartition("=")
    try:
        price = float(dollars)
    except ValueError:
        price = -1.0
    if not name or not 0 <= price < float("inf"):
        raise BadInput(f"--price {text!r}: expected RESOURCE=DOLLARS, such as nvidia.com/gpu=2.50")
    return name, price

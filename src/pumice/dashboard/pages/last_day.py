"""What the record tells of the last day, hour by hour and by queue: one question for all pages that show it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice import instant
from pumice.errors import PumiceError

if TYPE_CHECKING:
    from pumice.dashboard.pages.page import PageRequest
    from pumice.record.model import Usage

DAY_S, HOUR_S = 86_400, 3_600
HOURS = DAY_S // HOUR_S


def period(now: int) -> tuple[int, int, str]:
    """The hour that is now and the 23 before it, in seconds, and the step."""
    until = (now // HOUR_S + 1) * HOUR_S
    return until - DAY_S, until, "hour"


async def usage(request: PageRequest) -> Usage | None:
    """None where there is no record, and for those who may not see all gangs: it counts those of all."""
    if not request.sees_all:
        return None
    since, until, step = period(request.now // instant.SECOND)
    try:
        return await request.answers.report({"by": "queue", "since": str(since), "until": str(until), "step": step})
    except PumiceError:
        return None

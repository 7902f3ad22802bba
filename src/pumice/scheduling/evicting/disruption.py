"""How many members of a gang may be taken at once: its disruption budget, written into the group's annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.api import names
from pumice.cluster.tasks import Status

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.session import Session

WITHOUT_BUDGET = 1  # one at a time


def disruptions_allowed(gang: GangState) -> int:
    """Members that may go now: by `jdb-min-available`, else by `jdb-max-unavailable`, else one."""
    notes = gang.spec.annotations
    size, running = len(gang.tasks), gang.tally[Status.RUNNING]
    least = _number(notes.get(names.JDB_MIN_AVAILABLE), size)
    if least is not None:
        return max(running - least, 0)
    most = _number(notes.get(names.JDB_MAX_UNAVAILABLE), size)
    if most is None:
        return WITHOUT_BUDGET
    finished = gang.tally[Status.SUCCEEDED] + gang.tally[Status.FAILED]
    return max(most - (size - finished - running), 0)


def within_budgets(session: Session, candidates: Iterable[Task]) -> list[Task]:
    """Of each gang the first ones, as many as its budget tolerates."""
    left: dict[str, int] = {}
    chosen = []
    for task in candidates:
        gang = session.gangs.get(task.gang)
        if gang is None:
            continue
        if left.setdefault(gang.key, disruptions_allowed(gang)) > 0:
            left[gang.key] -= 1
            chosen.append(task)
    return chosen


def _number(text: str | None, size: int) -> int | None:
    """`3`, or `20%` of all members, rounded up; nonsense is as good as nothing."""
    digits = (text or "").removesuffix("%")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 9:
        return None
    return -(-int(digits) * size // 100) if text and text.endswith("%") else int(digits)

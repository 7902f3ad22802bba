"""Whether a user may submit one more gang to a queue: the limit of submitted ones, as far as informers know. Pure.

What is submitted faster than the informers hear of it passes, and waits in the scheduler, which counts again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.api import names
from pumice.api.scheduling import ROOT_QUEUE, PodGroupPhase
from pumice.api.user_limits import UserLimitsError, parse_user_limits
from pumice.digits import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pumice.api.scheduling import PodGroup, Queue

DEPTH_MAX = 32  # of a queue below the root, as far as limits are looked for: parents may form a ring


class SubmissionLimits:
    """Counts only where a queue, or one above it, has such a limit."""

    def __init__(self, queue: Callable[[str], Queue | None], pod_groups: Callable[[], Iterable[PodGroup]]) -> None:
        self._queue = queue
        self._pod_groups = pod_groups

    def problem(self, user: str, queue: str) -> str:
        """Why the user may not submit another gang; empty where it may."""
        for name in self._path(queue):
            limit = self._limit(name)
            if limit is not None and (count := self._count(user, name)) >= limit:
                has = counted(count, "gang")
                return (
                    f'user "{user}" has {has} in queue "{name}" and may have {limit} '
                    f"(its annotation {names.USER_LIMITS}); wait until one has ended, or delete some"
                )
        return ""

    def _path(self, queue: str) -> list[str]:
        found: list[str] = []
        while queue and queue not in found and len(found) < DEPTH_MAX:
            found.append(queue)
            known = self._queue(queue)
            queue = "" if known is None or queue == ROOT_QUEUE else known.spec.parent or ROOT_QUEUE
        return found

    def _limit(self, queue: str) -> int | None:
        known = self._queue(queue)
        text = known.metadata.annotations.get(names.USER_LIMITS) if known is not None else None
        try:
            return None if text is None else parse_user_limits(text).submitted
        except UserLimitsError:
            return None  # the scheduler says so to whoever waits there

    def _count(self, user: str, queue: str) -> int:
        return sum(
            group.metadata.annotations.get(names.SUBMITTED_BY) == user
            and group.status.phase != PodGroupPhase.COMPLETED.value
            and queue in self._path(group.spec.queue)
            for group in self._pod_groups()
        )

"""Whether a gang's members are still being created: then nothing is said of it, because what is missing is on its way."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice import instant

if TYPE_CHECKING:
    from pumice.api.scheduling import PodGroup
    from pumice.cluster.tasks import Task
    from pumice.instant import Instant

FORMING_S = 4.0  # with a second until the next look, five; so long after its last pod a gang with too few is still being created
FORMING_S_MAX = 300.0  # after that its group says what is missing, however many pods still come


def forms_until(group: PodGroup, tasks: dict[str, Task], now: Instant, *, were_missing: bool = False) -> Instant | None:
    """Until when the gang counts as being created if no more members come; None if it has enough, or none has come for a while.

    `tasks` are in the order of their arrival. With `were_missing`, there were too few when the cycle was planned: its report is out
    of date even if there are enough now.
    """
    created = group.metadata.creation_timestamp
    too_few = were_missing or len(tasks) < group.spec.min_member
    if not too_few or not is_new(created, now, FORMING_S_MAX):
        return None
    latest = next((task.created for task in reversed(tasks.values())), None)
    fresh = [instant.parse_instant(each) for each in (created, latest) if each and is_new(each, now)]
    return max(fresh) + round(FORMING_S * instant.SECOND) if fresh else None


def is_new(created: str | None, now: Instant, seconds: float = FORMING_S) -> bool:
    """Whether an object was created just now; one that is stamped far in the future was not."""
    age = None if not created else now - instant.parse_instant(created)
    return age is not None and abs(age) < seconds * instant.SECOND

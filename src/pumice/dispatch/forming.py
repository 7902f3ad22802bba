"""Whether a gang's members are still being created: then nothing is said of it, because what is missing is on its way."""

from __future__ import annotations

import bisect
import itertools
from typing import TYPE_CHECKING

from pumice import instant

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pumice.api.scheduling import PodGroup
    from pumice.instant import Instant

FORMING_S = 4.0  # with a second until the next look, five; so long after its last pod a gang with too few is still being created
FORMING = round(FORMING_S * instant.SECOND)
FORMING_S_MAX = 300.0  # after that its group says what is missing, however many pods still come


class Arrivals:
    """When members were last seen to come, by our own clock: a watch may be late by more than a gang takes to be created.

    Who makes pods for groups makes them for one after the other, so those behind it in the line have to wait.
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, Instant]] = {}  # group's uid -> how many members it had, and when it got more
        self._lately: list[tuple[str, Instant]] = []  # when a group was made, and when it got a member
        self._groups: list[str] = []  # those in order
        self._came: list[Instant] = []  # the last member of all groups up to there

    def note(self, gangs: Iterable[tuple[PodGroup, int]], now: Instant) -> None:
        """Takes in how many members gangs have, of all that may be asked about; those of before count for a while."""
        seen = {}
        for group, members in gangs:
            uid, made = group.metadata.uid, group.metadata.creation_timestamp
            before, came = self._seen.get(uid, (0, now))
            seen[uid] = members, now if members > before else came
            if members > before and made and group.metadata.controller is not None:
                self._lately.append((made, now))
        self._seen = seen
        self._lately = sorted(each for each in self._lately if now - each[1] < FORMING)
        self._groups = [made for made, _ in self._lately]
        self._came = list(itertools.accumulate((came for _, came in self._lately), max))

    def forms_until(self, group: PodGroup, members: int, now: Instant, *, were_missing: bool = False) -> Instant | None:
        """There are too few members, and the last of them, the group, or, where somebody makes them for it, one of a gang before it has
        only just come: how long that is so if no more come. None where they are enough, or nobody comes any more.

        Or there were too few when the cycle was planned (`were_missing`): what it says of the others is out of date.
        """
        made = group.metadata.creation_timestamp
        too_few = were_missing or members < group.spec.min_member
        if not too_few or not is_new(made, now, FORMING_S_MAX):
            return None
        _, came = self._seen.get(group.metadata.uid, (0, now))
        before = bisect.bisect_right(self._groups, made or "") if group.metadata.controller is not None else 0
        until = max(came, self._came[before - 1] if before else came) + FORMING
        return until if until > now else None


def is_new(created: str | None, now: Instant, seconds: float = FORMING_S) -> bool:
    """Whether an object was created just now; one that is stamped far in the future was not."""
    age = None if not created else now - instant.parse_instant(created)
    return age is not None and abs(age) < seconds * instant.SECOND

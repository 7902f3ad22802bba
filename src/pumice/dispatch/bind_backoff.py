"""Gangs whose attempts fail: the first failure is mended at once, each further one within a while costs a longer rest.

Without a rest, a gang that the API server refuses for good would be planned and refused again as fast as both can.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from pumice import instant
from pumice.scheduling.core.ports import Resting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.clock import Clock

REST_S_FIRST = 0.5
REST_S_MAX = 30.0
FORGOTTEN_S = 2 * REST_S_MAX  # a gang that did not fail for so long begins anew


class _Failures(NamedTuple):
    number: int
    why: str
    until: float  # of the monotonic clock


class BindBackoff:
    """What failed last, by gang."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failures: dict[str, _Failures] = {}

    def note(self, gang: str, why: str) -> None:
        """An attempt of the gang has failed."""
        known = self._failures.get(gang)
        count = known.number + 1 if known is not None else 1
        rest_s = min(REST_S_FIRST * 2.0 ** min(count - 2, 10), REST_S_MAX) if count > 1 else 0.0
        self._failures[gang] = _Failures(count, why, self._clock.monotonic() + rest_s)

    def resting(self) -> Mapping[str, Resting]:
        """Gangs that are not to be tried yet, until when, and why their last attempt failed."""
        now = self._clock.monotonic()
        self._failures = {gang: each for gang, each in self._failures.items() if now < each.until + FORGOTTEN_S}
        day = self._clock.now()
        return {
            gang: Resting(each.why, day + math.ceil((each.until - now) * instant.SECOND))
            for gang, each in self._failures.items()
            if now < each.until
        }

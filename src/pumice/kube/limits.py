"""How much one client may ask of an API server: calls at once, and calls a second."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from pumice.clock import Clock

CALLS_IN_FLIGHT_MAX = (
    128  # beyond it an API server only queues; half of the transport's connections stay free for watches
)
CALLS_PER_S = 2_000.0  # Volcano's own default (kube-api-qps, kube-api-burst)
CALLS_BURST = 2_000


class TokenBucket:
    """`rate` tokens a second, at most `burst` of them saved up."""

    def __init__(self, *, rate: float, burst: int, monotonic: Callable[[], float]) -> None:
        assert rate > 0, "a bucket that never fills is not a limit but a wall"
        assert burst >= 1, "a bucket must be able to hold one token"
        self._rate = rate
        self._burst = float(burst)
        self._monotonic = monotonic
        self._tokens = float(burst)
        self._filled_at = monotonic()

    def reserve(self) -> float:
        """Takes a token, on credit if need be; returns for how many seconds its owner must wait. First come, first served."""
        self._fill()
        self._tokens -= 1.0
        return max(0.0, -self._tokens / self._rate)

    def try_take(self) -> bool:
        """Takes a token if there is one."""
        self._fill()
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def _fill(self) -> None:
        now = self._monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._rate)
        self._filled_at = now


class Limits:
    """`async with limits:` waits for a place among the calls in flight, then for its turn by rate."""

    def __init__(
        self,
        clock: Clock,
        *,
        in_flight: int = CALLS_IN_FLIGHT_MAX,
        calls_per_s: float = CALLS_PER_S,
        burst: int = CALLS_BURST,
    ) -> None:
        self._clock = clock
        self._places = asyncio.Semaphore(in_flight)
        self._bucket = TokenBucket(rate=calls_per_s, burst=burst, monotonic=clock.monotonic)

    async def __aenter__(self) -> None:
        await self._places.acquire()
        try:
            if wait := self._bucket.reserve():
                await self._clock.sleep(wait)
        except BaseException:
            self._places.release()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._places.release()

"""Real and virtual time. Only processes hold a clock; the pure packages take instants as arguments.

Virtual time is the event loop's own: under a VirtualClock every timer of asyncio (sleep, timeout, call_later) runs on it,
and it jumps to the next timer whenever all tasks sleep. A month passes in seconds, in the order in which it would have
passed, and twice in the same way.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pumice import instant

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from pumice.instant import Instant

T = TypeVar("T")


class Clock(Protocol):
    """What time it is, and the means to let some pass."""

    def now(self) -> Instant:
        """The time of day, which may be set back: for timestamps, never for measuring."""
        ...

    def monotonic(self) -> float:
        """Seconds since some moment, never set back: for deadlines and measuring."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class RealClock:
    """The machine's clock."""

    def now(self) -> Instant:
        return time.time_ns()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Deadlock(RuntimeError):
    """Under virtual time every task waits for another one, and no timer is set: nothing can ever happen again."""


class VirtualClock:
    """A clock that begins at `start` and passes only while all tasks sleep; run() is its world.

    What waits for the outside (sockets, threads, other processes) does not hold it back: such things have no place in a
    world under virtual time.
    """

    def __init__(self, start: Instant = 0) -> None:
        self._start = start
        self._passed_s = 0.0

    def now(self) -> Instant:
        return self._start + round(self._passed_s * instant.SECOND)

    def monotonic(self) -> float:
        return self._passed_s

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Runs `main` to its end under this clock, as asyncio.run does under the real one."""
        with asyncio.Runner(loop_factory=lambda: VirtualLoop(self)) as runner:
            return runner.run(main)

    def jump(self, seconds: float) -> None:
        self._passed_s += seconds


class VirtualLoop(asyncio.SelectorEventLoop):
    """asyncio's loop, told another time and never made to wait for it."""

    def __init__(self, clock: VirtualClock) -> None:
        self._virtual = clock
        super().__init__(_JumpingSelector(clock))

    def time(self) -> float:
        return self._virtual.monotonic()


class _JumpingSelector(selectors.SelectSelector):
    """Where asyncio would wait for its next timer, the clock jumps there."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout == 0:
            return []  # there is work left: what comes from outside is looked for before the clock jumps
        happened = super().select(0)
        if happened:
            return happened
        if timeout is None:
            raise Deadlock("everyone waits, and no timer is set: look for a future that nobody completes")
        self._clock.jump(timeout)
        return []

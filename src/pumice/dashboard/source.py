"""What the leading scheduler tells, followed: the newest view, and a way to wait for the next one."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Protocol

import msgspec

from pumice.errors import PumiceError
from pumice.readmodel import changes, model

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from pumice.clock import Clock

AGAIN_S = 1.0  # after a stream has ended or could not be opened, doubled with each failure
AGAIN_S_MAX = 15.0
HISTORY_KEPT = 1_000  # attempts and evictions, as many as the leader keeps
STREAM = ("/v1/changes", {"watch": "true"})  # the word that tells a client that the answer goes on
_LINES = msgspec.json.Decoder(model.Changes)


class Asked(Protocol):
    """Whoever answers GET with a path and a query."""

    async def ask(self, question: tuple[str, Mapping[str, str]], /) -> bytes: ...


class Upstream(Asked, Protocol):
    """A leader, found by its lease and asked with a token."""

    def lines(self, question: tuple[str, Mapping[str, str]], /) -> AsyncGenerator[bytes, None]: ...


class Source:
    """`state` is the newest view, None before the first; `version` rises whenever a page may look different."""

    def __init__(self, leader: Upstream, clock: Clock) -> None:
        self._leader = leader
        self._clock = clock
        self._news = asyncio.Event()
        self.state: model.State | None = None
        self.problem = "the scheduler has not been asked yet"  # why the view may be old; empty: it is not
        self.version = 0

    async def run(self) -> None:
        """Follow until cancelled; a stream that breaks is opened again."""
        failures = 0
        while True:
            try:
                await self._follow()
                failures = 0
            except (PumiceError, msgspec.MsgspecError) as error:
                failures += 1
                self.problem = str(error)
                self.wake()
            await self._clock.sleep(min(AGAIN_S * 2 ** max(failures - 1, 0), AGAIN_S_MAX) if failures else 0)

    async def _follow(self) -> None:
        former = None  # a new stream begins with everything
        async with contextlib.aclosing(self._leader.lines(STREAM)) as lines:
            async for line in lines:
                if line.strip():
                    former = changes.apply(former, _LINES.decode(line), kept=HISTORY_KEPT)
                    self.state, self.problem = former, ""
                    self.wake()

    def wake(self) -> None:
        """Pages may look different now."""
        self.version += 1
        former, self._news = self._news, asyncio.Event()
        former.set()

    async def newer_than(self, version: int, *, within_s: float) -> bool:
        """Waits until there is something newer; False where there was not within the time."""
        try:
            async with asyncio.timeout(within_s):
                while self.version <= version:
                    await self._news.wait()
        except TimeoutError:
            return False
        return True

"""Work by key: what is asked for many times is done once, and never by two at a time for the same key.

A key is *waiting* (it will be handed out), *at work*, or *at work and asked for again*. A handler that fails has its key
come back after a delay that doubles, so one broken object cannot occupy the workers. State is never carried in the
queue: a handler looks at the world as it is when its turn comes.

    add -> waiting -> at work -> done
              ^          |  add meanwhile: waiting again when done
              +--delay---+  failed
"""

from __future__ import annotations

import asyncio
import collections
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable, Hashable

RETRY_S_FIRST = 0.05  # a lost race is over by then
RETRY_S_MAX = 60.0  # long enough to cost nothing, short enough that a mended world is noticed
KEYS_MAX = 1_000_000  # keys are names of objects: more than a cluster holds is a bug, not load

K = TypeVar("K", bound="Hashable")


class WorkQueueFull(RuntimeError):
    """More keys than a cluster has objects: something makes keys up."""


class WorkQueue(Generic[K]):
    """Hands each key to one worker at a time; belongs to the event loop in which it is used."""

    def __init__(self, chance: random.Random, *, retry_s_max: float = RETRY_S_MAX) -> None:
        self._chance = chance
        self._retry_s_max = retry_s_max
        self._waiting: collections.OrderedDict[K, None] = collections.OrderedDict()
        self._at_work: set[K] = set()
        self._again: set[K] = set()
        self._failures: dict[K, int] = {}
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._handouts = asyncio.Semaphore(0)  # as many as keys wait: each key wakes one worker, not all of them

    def __len__(self) -> int:
        """How many keys wait for a worker now, those that wait for their time not counted."""
        return len(self._waiting)

    def remembered(self) -> int:
        """How many keys anything is known of: those that wait, also for their time, are at work or have failed."""
        return len({*self._waiting, *self._at_work, *self._again, *self._failures, *self._timers})

    def add(self, key: K) -> None:
        """The key is handled once more, from now on; a delay that it was waiting for is over."""
        if timer := self._timers.pop(key, None):
            timer.cancel()
        if key in self._at_work:
            self._again.add(key)
            return
        if key not in self._waiting:
            if len(self._waiting) >= KEYS_MAX:
                raise WorkQueueFull(
                    f"more than {KEYS_MAX} keys wait, the last one {key!r}; look for what makes them up"
                )
            self._waiting[key] = None
            self._handouts.release()

    def add_after(self, key: K, delay_s: float) -> None:
        """The key is handled in `delay_s` seconds, or earlier if it is added."""
        if key in self._waiting:
            return
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        due = loop.time() + delay_s
        if timer is None or timer.when() > due:
            if timer is not None:
                timer.cancel()
            self._timers[key] = loop.call_at(due, self.add, key)

    async def run(
        self, handle: Callable[[K], Awaitable[None]], *, failed: Callable[[K, Exception, float], None], workers: int = 4
    ) -> None:
        """Works until cancelled. `failed` is told of the key, the error and the delay in seconds until it is tried again."""
        async with asyncio.TaskGroup() as crew:
            for _ in range(workers):
                crew.create_task(self._work(handle, failed))

    async def _work(
        self, handle: Callable[[K], Awaitable[None]], failed: Callable[[K, Exception, float], None]
    ) -> None:
        while True:
            key = await self._take()
            try:
                await handle(key)
            except Exception as error:  # noqa: BLE001 - whatever a handler raises, its key is tried again and the others go on
                delay = self._delay(key)
                self._done(key)
                self.add_after(key, delay)
                failed(key, error, delay)
            else:
                self._failures.pop(key, None)
                self._done(key)

    async def _take(self) -> K:
        await self._handouts.acquire()
        key, _ = self._waiting.popitem(last=False)
        self._at_work.add(key)
        return key

    def _done(self, key: K) -> None:
        self._at_work.discard(key)
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def _delay(self, key: K) -> float:
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        # 2**30 times the first delay is beyond any maximum; larger powers only cost memory.
        delay = min(self._retry_s_max, RETRY_S_FIRST * 2.0 ** min(failures - 1, 30))
        return delay * (1.0 + 0.25 * self._chance.random())

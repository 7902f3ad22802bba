"""One event loop for a whole cluster: virtual time, no threads, and processes that can be stopped in the middle of an await.

Everything that a process starts, tasks, timers and callbacks, carries its Replica in the context. The loop asks the Replica before it
runs any of it: what belongs to a dead one never runs again, not even its `finally`; what belongs to a paused one waits until it wakes.
That is what `kill -9` and a machine that sleeps look like from outside.
"""

from __future__ import annotations

import asyncio
import contextvars
import enum
import itertools
from typing import TYPE_CHECKING, Any

from pumice.clock import VirtualClock, VirtualLoop

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Coroutine, Generator
    from concurrent.futures import Executor

PLAN_S_MAX = 0.05  # what runs in a thread takes up to so long, by the virtual clock


class State(enum.Enum):
    RUNNING = "running"
    PAUSED = "paused"
    DEAD = "dead"


class Replica:
    """One life of one process: from its start until it ends, is killed, or the world is over."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = State.RUNNING
        self._held: list[tuple[Callable[..., object], tuple[Any, ...], contextvars.Context]] = []
        self._steps_left: int | None = None
        self._kill: Callable[[], None] | None = None

    def run(self, callback: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context) -> None:
        """Called by the loop in place of the callback, within its context."""
        if self.state is State.RUNNING and (self._steps_left is None or self._goes_on()):
            callback(*args)
            return
        self._held.append((callback, args, context))

    def dies_after(self, steps: int, kill: Callable[[], None]) -> None:
        """It is killed after so many steps of the loop: at some await or other."""
        self._steps_left, self._kill = steps, kill

    def spare(self) -> None:
        """It is not killed after all."""
        self._steps_left = None

    def _goes_on(self) -> bool:
        assert self._steps_left is not None
        self._steps_left -= 1
        if self._steps_left > 0 or self._kill is None:
            return True
        self._steps_left = None
        self._kill()
        return self.state is State.RUNNING

    def pause(self) -> None:
        if self.state is State.RUNNING:
            self.state = State.PAUSED

    def wake(self, loop: asyncio.AbstractEventLoop) -> None:
        """All that came due meanwhile happens now, in the order in which it came due."""
        if self.state is State.PAUSED:
            self.rise(loop)

    def die(self) -> None:
        self.state = State.DEAD

    def rise(self, loop: asyncio.AbstractEventLoop) -> None:
        """All that was held back goes on: of the dead only for the end of the world, so that their tasks can be cancelled."""
        self.state, self._steps_left = State.RUNNING, None
        held, self._held = self._held, []
        for callback, args, context in held:
            loop.call_soon(callback, *args, context=context)


_REPLICA: contextvars.ContextVar[Replica | None] = contextvars.ContextVar("replica", default=None)


def is_dead() -> bool:
    """Whether whoever asks belongs to a process that is no more."""
    replica = _REPLICA.get()
    return replica is not None and replica.state is State.DEAD


class _Numbered:
    """Hashed by number and not by address, so that sets of tasks have the same order in every run."""

    numbers = itertools.count()

    def __hash__(self) -> int:
        try:
            return self._number
        except AttributeError:
            self._number = next(_Numbered.numbers)
            return self._number

    _number: int


class _Future(_Numbered, asyncio.Future[Any]):
    pass


class _Task(_Numbered, asyncio.Task[Any]):
    pass


class WorldLoop(VirtualLoop):
    """The loop of one world; `chance` says how long threads take."""

    def __init__(self, clock: VirtualClock, chance: random.Random) -> None:
        super().__init__(clock)
        _Numbered.numbers = itertools.count()
        self._chance = chance
        self.tasks: list[asyncio.Task[Any]] = []  # kept: collecting a dead one would run its `finally`
        self.set_task_factory(self._make_task)
        self.set_exception_handler(lambda _loop, _context: None)  # of tasks whose process died before it could look

    def start(self, replica: Replica, main: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs `main` as that process."""
        context = contextvars.copy_context()
        context.run(_REPLICA.set, replica)
        return self.create_task(main, context=context)

    def _make_task(
        self,
        loop: asyncio.AbstractEventLoop,
        coro: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
        context: contextvars.Context | None = None,
        **more: Any,
    ) -> asyncio.Task[Any]:
        task = _Task(coro, loop=loop, context=context, **more)
        self.tasks.append(task)
        return task

    def unfinished(self) -> set[asyncio.Task[Any]]:
        """asyncio.all_tasks() without a look at every task that there ever was in this process."""
        self.tasks = [task for task in self.tasks if not task.done()]
        return set(self.tasks)

    def create_future(self) -> asyncio.Future[Any]:
        return _Future(loop=self)

    def call_soon(  # type: ignore[override]  # asyncio's own types are for callers, not for wrappers
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        """As asyncio's, without its checks: a world calls it thousands of times."""
        context = context if context is not None else contextvars.copy_context()
        replica = context.get(_REPLICA)
        if replica is None:
            handle = asyncio.Handle(callback, args, self, context)
        else:
            handle = asyncio.Handle(replica.run, (callback, args, context), self, context)
        self._ready.append(handle)  # type: ignore[attr-defined]  # where BaseEventLoop has what runs next
        return handle

    def call_at(  # type: ignore[override]  # as above
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        context = context if context is not None else contextvars.copy_context()
        replica = context.get(_REPLICA)
        if replica is None:
            return super().call_at(when, callback, *args, context=context)
        return super().call_at(when, replica.run, callback, args, context, context=context)

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """The work is done at once, and its outcome known after as long as chance says it took."""
        del executor
        future = self.create_future()
        try:
            result, error = func(*args), None
        except Exception as raised:  # noqa: BLE001  whoever awaits it gets it
            result, error = None, raised
        self.call_later(self._chance.uniform(0.0, PLAN_S_MAX), _settle, future, result, error)
        return future


def _settle(future: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    if future.cancelled():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)

"""One event loop for a whole cluster: virtual time, no threads, and processes that can be stopped in the middle of an await.

Everything that a process starts, tasks, timers and callbacks, carries its Replica in the context. The loop asks the Replica before it
runs any of it: what belongs to a dead one never runs again, not even its `finally`; what belongs to a paused one waits until it wakes.
That is what `kill -9` and a machine that sleeps look like from outside.
"""

from __future__ import annotations

import asyncio
import contextvars
import enum
import heapq
import itertools
from typing import TYPE_CHECKING, Any

from pumice.clock import Deadlock, VirtualClock, VirtualLoop

if TYPE_CHECKING:
    import collections
    import random
    from collections.abc import Callable, Coroutine, Generator
    from concurrent.futures import Executor

PLAN_S_MAX = 0.05  # what runs in a thread takes up to so long, by the virtual clock
MOMENT_S = 1e-9  # what is due within it is due now: times are sums of floats
CANCELLED_MAX = 200  # timers that were cancelled and still wait for their time: then they are swept out


class State(enum.Enum):
    RUNNING = "running"
    PAUSED = "paused"
    DEAD = "dead"


class Replica:
    """One life of one process: from its start until it ends, is killed, or the world is over."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = State.RUNNING
        self._held: list[Step] = []
        self._steps_left: int | None = None
        self._kill: Callable[[], None] | None = None

    def admits(self, step: Step) -> bool:
        """Whether it lives to see this; if not, it is held back."""
        if self.state is State.RUNNING and (self._steps_left is None or self._goes_on()):
            return True
        self._held.append(step)
        return False

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

    def wake(self, loop: WorldLoop) -> None:
        """All that came due meanwhile happens now, in the order in which it came due."""
        if self.state is State.PAUSED:
            self.rise(loop)

    def die(self) -> None:
        self.state = State.DEAD

    def rise(self, loop: WorldLoop) -> None:
        """All that was held back goes on: of the dead only for the end of the world, so that their tasks can be cancelled."""
        self.state, self._steps_left = State.RUNNING, None
        held, self._held = self._held, []
        loop.go_on(held)


_REPLICA: contextvars.ContextVar[Replica | None] = contextvars.ContextVar("replica", default=None)


def is_dead() -> bool:
    """Whether whoever asks belongs to a process that is no more."""
    replica = _REPLICA.get()
    return replica is not None and replica.state is State.DEAD


class Step:
    """What the loop runs next, or at its time: as asyncio's handles, without all that a world has no use for and makes hundreds of thousands of."""

    __slots__ = ("args", "at", "callback", "context", "loop")

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context | None
    ) -> None:
        self.callback: Callable[..., object] | None = callback
        self.args = args
        self.context = context if context is not None else contextvars.copy_context()
        self.loop: WorldLoop | None = None  # of a timer that has not come due
        self.at = 0.0

    def cancel(self) -> None:
        if self.callback is not None:
            self.callback, self.args = None, ()
            if self.loop is not None:
                self.loop.timer_cancelled()

    def cancelled(self) -> bool:
        return self.callback is None

    def when(self) -> float:
        return self.at


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
        self._ready: collections.deque[Step]  # BaseEventLoop's: what runs next
        self._timers: list[tuple[float, int, Step]] = []  # a heap; at one moment, in the order of their making
        self._timers_made = itertools.count()
        self._cancelled = 0
        self.tasks: list[asyncio.Task[Any]] = []  # kept: collecting a dead one would run its `finally`
        self.set_exception_handler(lambda _loop, _context: None)  # of tasks whose process died before it could look

    def start(self, replica: Replica, main: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs `main` as that process."""
        context = contextvars.copy_context()
        context.run(_REPLICA.set, replica)
        return self.create_task(main, context=context)

    def create_task(  # type: ignore[override]  # asyncio's own types are for callers, not for wrappers
        self,
        coro: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
        **more: Any,
    ) -> asyncio.Task[Any]:
        task = _Task(coro, loop=self, name=name, context=context, **more)
        self.tasks.append(task)
        return task

    def unfinished(self) -> set[asyncio.Task[Any]]:
        """asyncio.all_tasks() without a look at every task that there ever was in this process."""
        self.tasks = [task for task in self.tasks if not task.done()]
        return set(self.tasks)

    def create_future(self) -> asyncio.Future[Any]:
        return _Future(loop=self)

    def go_on(self, held: list[Step]) -> None:
        self._ready.extend(held)

    def call_soon(  # type: ignore[override]  # as above
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Step:
        step = Step(callback, args, context)
        self._ready.append(step)
        return step

    call_soon_threadsafe = call_soon  # type: ignore[assignment]  # there are no threads

    def call_later(  # type: ignore[override]  # as above
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Step:
        return self.call_at(self._virtual.monotonic() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]  # as above
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Step:
        timer = Step(callback, args, context)
        timer.loop, timer.at = self, when
        heapq.heappush(self._timers, (when, next(self._timers_made), timer))
        return timer

    def timer_cancelled(self) -> None:
        self._cancelled += 1
        if self._cancelled > CANCELLED_MAX:
            self._timers = [each for each in self._timers if each[2].callback is not None]
            heapq.heapify(self._timers)
            self._cancelled = 0

    def _run_once(self) -> None:
        """As asyncio's, for a world that nothing reaches from outside: without a look for sockets and threads at every step."""
        timers, ready = self._timers, self._ready
        while timers and timers[0][2].callback is None:
            heapq.heappop(timers)
            self._cancelled -= 1
        if not ready:
            if not timers:
                raise Deadlock("everyone waits, and no timer is set: look for a future that nobody completes")
            self._virtual.jump(max(0.0, timers[0][0] - self._virtual.monotonic()))
        due = self._virtual.monotonic() + MOMENT_S
        while timers and timers[0][0] < due:
            timer = heapq.heappop(timers)[2]
            timer.loop = None
            ready.append(timer)
        for _ in range(len(ready)):
            step = ready.popleft()
            callback, context = step.callback, step.context
            if callback is None:
                continue
            replica = context.get(_REPLICA)
            if replica is None or replica.admits(step):
                try:
                    context.run(callback, *step.args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException:  # noqa: BLE001, S110  as asyncio, which tells whoever handles such; here nobody does
                    pass

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

"""The loop of every controller: news makes keys, a key is planned from the world as it is, the plan is carried out, and again.

    news --wakes--> key --plan--> operations --carry out--> own writes are cache at once --> the same key again
                     ^                                                                          |
                     +-------- time (`again_at`), failure (back-off), a plan that wrote --------+

It rests when a plan asks for nothing. A key is never planned by two at a time, and one that takes long to plan may use a fiftieth of the
time at most: a Job of 2,000 pods is not planned 2,000 times because its pods start one by one.
"""

from __future__ import annotations

import asyncio
import collections
import traceback
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from pumice import instant
from pumice.controllers.cache import everything
from pumice.controllers.executor import Stale
from pumice.controllers.operations import Emit, Patch, Plan
from pumice.errors import PumiceError
from pumice.kube.informer import Key
from pumice.kube.workqueue import WorkQueue
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Sequence

    from pumice.api.meta import Struct
    from pumice.controllers.cache import Cache
    from pumice.controllers.executor import Executor
    from pumice.controllers.operations import Operation
    from pumice.instant import Instant
    from pumice.runtime import Runtime

WORKERS = 8
# What may wait, and keeps changing, waits for longer each time, up to this: a gang of thousands starts for a minute.
UNHURRIED_S_MAX = 16.0
TIMER_S = 1e-3  # a timer may fire early by less than this, and a difference of floats may be less than it should be
REST_SHARE = 49.0  # a key that takes long rests so many times as long as it was planned
SHORT_S = 0.001  # less than this is not long: a small gang is never held up
REST_S_MAX = 1.0  # and no longer than this, however busy the machine
SWEEP_S = 10.0  # how often writes that no watch has shown are looked for
AGAIN_S_MAX = 3600.0  # no key waits for a timer longer than this without a look


class Wake(Value):
    """A kind whose news concerns this controller: to which keys, how long to gather more of it first, and which changes of an object."""

    struct: type[Struct]
    keys: Callable[[Any], Iterable[Key]]
    gather_s: float = 0.0
    concerns: Callable[[Any, Any], bool] = everything


class PlanFailed(PumiceError):
    """A plan could not be made, by a fault of ours."""


# Work that runs beside the loop for as long as it does, such as asking the outside; it is given the way to wake a key.
Beside: TypeAlias = "Callable[[Callable[[Key], None]], Coroutine[Any, Any, None]]"


class Controller(Value):
    """What sets one controller apart: `plan` gathers what it needs from the cache, and is pure otherwise.

    The first of `wakes` is the kind that keys name.
    """

    name: str
    plan: Callable[[Cache, Key, Instant], Plan]
    wakes: tuple[Wake, ...]
    workers: int = WORKERS
    beside: Beside | None = None


def itself(each: Any) -> tuple[Key]:
    """An object's own key: what a controller's main kind wakes."""
    return (Key(each.metadata.namespace, each.metadata.name),)


def _no_observer(controller: str, seconds: float) -> None:
    """For a driver whose work is not measured."""
    del controller, seconds


class Driver:
    """Runs one controller; `observe` hears how long each look at a key took, with what it led to."""

    def __init__(
        self,
        controller: Controller,
        cache: Cache,
        executor: Executor,
        runtime: Runtime,
        *,
        observe: Callable[[str, float], None] = _no_observer,
    ) -> None:
        self._observe = observe
        self._controller = controller
        self._cache = cache
        self._executor = executor
        self._clock = runtime.clock
        self._log = runtime.log
        self._queue: WorkQueue[Key] = WorkQueue(runtime.chance)
        self._unhurried: dict[Key, float] = {}  # since when something that may wait is wanted for a key
        self._paces: dict[
            Key, tuple[float, float]
        ] = {}  # when such a thing was last written, and how long the next waits
        # Until when a key that takes long is not planned again, and how long its last plan took.
        self._rests: dict[Key, tuple[float, float]] = {}
        self._told: dict[Key, frozenset[tuple[str, str]]] = {}  # what the last plan for a key told people
        for wake in controller.wakes:
            cache.of(wake.struct)  # so that its informer starts with the others
        self.plans = 0
        self.retries: collections.Counter[str] = collections.Counter()  # by why: the world had changed, or an error

    @property
    def name(self) -> str:
        return self._controller.name

    @property
    def waiting(self) -> int:
        """Keys that wait for a worker."""
        return len(self._queue)

    def remembered(self) -> int:
        """How many keys anything is kept for, paces and rests aside: these are swept."""
        return self._queue.remembered() + len({*self._unhurried, *self._told})

    async def run(self) -> None:
        """Controls until cancelled. Informers must be running."""
        await self._cache.synced()
        for wake in self._controller.wakes:
            self._cache.of(wake.struct).subscribe(self._receiver(wake), wake.concerns)
        async with asyncio.TaskGroup() as crew:
            crew.create_task(self._sweep())
            if self._controller.beside is not None:
                crew.create_task(self._controller.beside(self._queue.add))
            crew.create_task(
                self._queue.run(self._handle, failed=self._record_failure, workers=self._controller.workers)
            )

    def _receiver(self, wake: Wake) -> Callable[[Sequence[Any]], None]:
        def receive(changed: Sequence[Any]) -> None:
            for key in dict.fromkeys(key for each in changed for key in self._keys(wake, each)):
                if wake.gather_s:
                    self._queue.add_after(key, wake.gather_s)
                else:
                    self._queue.add(key)

        return receive

    def _keys(self, wake: Wake, each: Any) -> Iterable[Key]:
        """What the object wakes; one that the controller cannot read wakes nothing, and the others are served."""
        try:
            return tuple(wake.keys(each))
        except Exception as error:  # noqa: BLE001  a fault of ours that one object has brought to light
            self.retries["wake"] += 1
            subject = each.metadata.key
            self._log("wake_failed", controller=self.name, kind=wake.struct.__name__, name=subject, error=repr(error))
            return ()

    async def _handle(self, key: Key) -> None:
        began = self._clock.monotonic()
        until, took_s = self._rests.get(key, (began, 0.0))
        if until - began > TIMER_S:
            self._queue.add_after(key, until - began)
            return
        now = self._clock.now()
        plan = self._news(key, self._without_unhurried(key, self._plan(key, now)))
        planned_s = self._clock.monotonic() - began
        long_s = min(planned_s, took_s)  # twice in a row: once, the process may just have been busy with something else
        rest_s = min(long_s * REST_SHARE, REST_S_MAX) if long_s > SHORT_S else 0.0
        self._rests[key] = began + planned_s + rest_s, planned_s
        self.plans += 1
        if await self._executor.carry_out(plan):
            self._queue.add(key)
        if plan.again_at is not None:
            self._queue.add_after(key, min(max((plan.again_at - now) / instant.SECOND, 0.0), AGAIN_S_MAX))
        self._observe(self._controller.name, self._clock.monotonic() - began)
        await self._clock.sleep(0.0)  # others have their turn, though nothing had to be done

    def _plan(self, key: Key, now: Instant) -> Plan:
        try:
            return self._controller.plan(self._cache, key, now)
        except Exception as error:
            # A fault of ours that one object has brought to light: the others are served, and its owner hears of it.
            regarding = self._cache.of(self._controller.wakes[0].struct).get(key.namespace, key.name)
            if regarding is not None:
                text = f"the {self.name} controller cannot plan it: {error!r}; it is tried again ever more rarely, please report it"
                self._executor.tell(Emit(regarding, "Warning", "PlanFailed", text))
            raise PlanFailed(repr(error)) from error

    def _without_unhurried(self, key: Key, plan: Plan) -> Plan:
        """The plan without what may still wait."""
        patience_s = max((each.patience_s for each in plan if _may_wait(each)), default=None)
        if patience_s is None:
            self._unhurried.pop(key, None)
            return plan
        at = self._clock.monotonic()
        since = self._unhurried.setdefault(key, at)
        last, pace = self._paces.get(key, (float("-inf"), patience_s))
        if at - last > 2 * pace:
            pace = patience_s  # it had come to rest
        if at - since >= pace - TIMER_S:
            del self._unhurried[key]
            self._paces[key] = at, min(2 * pace, UNHURRIED_S_MAX)
            return plan
        self._queue.add_after(key, since + pace - at)
        return _only(plan, lambda each: not _may_wait(each))

    def _news(self, key: Key, plan: Plan) -> Plan:
        """The plan without the events that the plan before it has emitted already."""
        told = self._told.pop(key, frozenset())
        telling = frozenset((each.reason, each.message) for each in plan if isinstance(each, Emit))
        if not telling:
            return plan
        self._told[key] = telling
        return _only(plan, lambda each: not isinstance(each, Emit) or (each.reason, each.message) not in told)

    def _record_failure(self, key: Key, error: Exception, retry_s: float) -> None:
        self.retries[_why(error)] += 1
        if isinstance(error, Stale):
            return  # the news that made it so is on its way
        self._log(
            "controller_failed",
            controller=self._controller.name,
            namespace=key.namespace,
            name=key.name,
            error=str(error) or repr(error),
            where=_where(error),
            retry_s=round(retry_s, 3),
        )

    async def _sweep(self) -> None:
        while True:
            await self._clock.sleep(SWEEP_S)
            for wake in self._controller.wakes:
                self._cache.of(wake.struct).forget_unseen()
            at = self._clock.monotonic()
            self._rests = {key: rest for key, rest in self._rests.items() if rest[0] > at}
            self._paces = {key: each for key, each in self._paces.items() if at - each[0] <= 2 * each[1]}


def _why(error: Exception) -> str:
    return "stale" if isinstance(error, Stale) else "plan" if isinstance(error, PlanFailed) else "error"


def _where(error: Exception) -> str:
    """Where in our code a plan failed; nothing for other errors, which say enough themselves."""
    cause = error.__cause__ if isinstance(error, PlanFailed) else None
    frames = traceback.extract_tb(cause.__traceback__) if cause is not None else []
    return f"{frames[-1].name}, line {frames[-1].lineno}" if frames else ""


def _only(plan: Plan, test: Callable[[Operation], bool]) -> Plan:
    stages = tuple(tuple(each for each in stage if test(each)) for stage in plan.stages)
    return Plan(tuple(stage for stage in stages if stage), plan.again_at)


def _may_wait(operation: object) -> TypeGuard[Patch]:
    return isinstance(operation, Patch) and not operation.hurry

"""What runs beside a test, and ends with the block that it was started for."""

import asyncio
import contextlib
import random

from pumice.clock import RealClock
from pumice.kube.informer import Informers
from pumice.processes.scheduler import Scheduler, Served
from pumice.runtime import Runtime
from pumice.scheduling.core import builtin


@contextlib.asynccontextmanager
async def beside(*works):
    """Runs these coroutines inside the block; then ends them, the last one first, each before the next. Yields their tasks.

    What one of them died of fails the test.
    """
    tasks = [asyncio.create_task(work) for work in works]
    try:
        yield tasks
    finally:
        for task in reversed(tasks):
            await end(task)


async def end(task):
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def a_scheduler(client, policy=None, *, seed=1, served=None, **runtime):
    """A scheduler with the built-in policy unless another is given, and its informers; neither runs yet."""
    clock, chance = RealClock(), random.Random(seed)
    informers = Informers(client, clock=clock, chance=chance)
    policy = policy or builtin.parse(builtin.TEXT, "built-in policy")
    runtime = Runtime(clock=clock, chance=chance, **runtime)
    return Scheduler(client, informers, lambda: policy, runtime, served or Served()), informers


@contextlib.asynccontextmanager
async def scheduler_beside(client, policy=None, **how):
    """A scheduler, as `a_scheduler` makes it, that runs inside the block."""
    scheduler, informers = a_scheduler(client, policy, **how)
    async with beside(informers.run(), scheduler.run()):
        yield scheduler

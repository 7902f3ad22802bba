"""Forecasts for the first gangs in line, made every minute in a child process, so that no cycle waits for them."""

from __future__ import annotations

import functools
import time
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from pumice.errors import PumiceError
from pumice.processes import fork
from pumice.scheduling.time.accuracy import Forecast
from pumice.scheduling.time.forecast import Effort, first_in_line, forecast
from pumice.scheduling.time.stand_ins import with_stand_ins

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pumice.clock import Clock
    from pumice.runtime import Log
    from pumice.scheduling.time.forecast import World

EVERY_S = 60.0
GANGS = 20  # the first in line
CPU_S = 4.0  # of one core; what was found by then counts
LIMIT_S = 60.0  # by the clock on the wall, on a machine that is busy
EFFORT = Effort(runs=10, cycles=600, blur=0.1)
_DECODER = msgspec.json.Decoder(list[Forecast])


class Forecasting:
    """`current` are the newest forecasts by gang; a cycle that takes the fresh ones remembers them, to be judged."""

    def __init__(self, world: Callable[[], World | None], *, clock: Clock, log: Log) -> None:
        self._world = world
        self._clock = clock
        self._log = log
        self.current: Mapping[str, Forecast] = {}
        self._fresh: Mapping[str, Forecast] = {}

    def take_fresh(self) -> Mapping[str, Forecast]:
        """What was made since it was last asked for."""
        fresh, self._fresh = self._fresh, {}
        return fresh

    async def run(self) -> None:
        while True:
            await self._clock.sleep(EVERY_S)
            await self.update()

    async def update(self) -> None:
        """Make forecasts now; what goes wrong is logged, and those of before stay no longer than that."""
        world = self._world()
        found: list[Forecast] = []
        if world is not None:
            try:
                found = _DECODER.decode(await fork.answer(functools.partial(answer, world), limit_s=LIMIT_S))
            except (PumiceError, msgspec.MsgspecError) as error:
                self._log("forecast_failed", error=str(error))
        self.current = self._fresh = {each.gang: each for each in found}


def answer(world: World) -> bytes:
    """In the child: the first gangs in line, within its share of a core."""
    until = time.process_time() + CPU_S
    whole = with_stand_ins(world)
    wanted = first_in_line(whole, GANGS)
    chance = np.random.default_rng(world.now)
    found = forecast(whole, wanted, chance=chance, effort=EFFORT, go_on=lambda: time.process_time() < until)
    return msgspec.json.encode(list(found.values()))

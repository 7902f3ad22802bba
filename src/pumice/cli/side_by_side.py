"""Several simulations at the same time, each in a process of its own, as many at once as there are cores.

Each process is a fork: it has the workload without a copy of it. What its simulation has come to lies in memory that it shares with the command,
and its outcome is handed over when it ends.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import ctypes
import functools
import multiprocessing
import os
import signal
import sys
import time
from concurrent.futures.process import BrokenProcessPool, ProcessPoolExecutor
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeAlias

import msgspec

from pumice import instant
from pumice.cli import progress
from pumice.errors import PumiceError
from pumice.sim.simulation import rare_collections

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pumice.sim.one_by_one import OneByOne
    from pumice.sim.outcome import Outcome
    from pumice.sim.simulation import Simulation

    Trials: TypeAlias = Mapping[str, Callable[[], Simulation | OneByOne]]

BAR_CHARS = 12  # the whole line has room in 80 columns
LOOK_S = 0.2  # how often the command looks how far they are
NAMES_MAX = 2  # of those that are under way, in one line
_PR_SET_PDEATHSIG = 1


class Reached(ctypes.Structure):
    """How far a simulation has come, as its process writes it and the command reads it."""

    ended: int
    now_s: float
    begun: bool
    _fields_: ClassVar = [("ended", ctypes.c_long), ("now_s", ctypes.c_double), ("begun", ctypes.c_bool)]


class Shared(NamedTuple):
    """What the command and its processes have in common."""

    trials: Sequence[Callable[[], Simulation | OneByOne]]
    reached: ctypes.Array[Reached]
    stop: ctypes.c_bool


def outcomes_of(trials: Trials, jobs: int) -> dict[str, Outcome]:
    """What becomes of each, by name and in the order given. After Ctrl-C: of those that were under way, cut short, and of those before."""
    if len(trials) == 1:
        return _alone(trials, jobs)
    return _at_once(trials, jobs)


def _alone(trials: Trials, jobs: int) -> dict[str, Outcome]:
    [(name, make)] = trials.items()
    simulation, began = make(), time.monotonic()
    with progress.show("") as tell, rare_collections():
        try:
            for _ in simulation.steps():
                tell(_line([name], simulation.ended, jobs, began, simulation.now_s))
        except KeyboardInterrupt:
            simulation.outcome.cut_short_s = simulation.now_s
    return {name: simulation.outcome}


def _at_once(trials: Trials, jobs: int) -> dict[str, Outcome]:
    fork = multiprocessing.get_context("fork")
    names, began = list(trials), time.monotonic()
    reached, stop = fork.RawArray(Reached, len(names)), fork.RawValue(ctypes.c_bool)
    begin = functools.partial(
        _begin, Shared(list(trials.values()), reached, stop)
    )  # inherited by the forks, and not sent
    pool = ProcessPoolExecutor(min(len(names), _cores()), fork, initializer=begin)
    with pool:
        waiting = [
            pool.submit(_simulate, number) for number in range(len(names))
        ]  # forks, before progress has a thread
        with progress.show("") as tell, _stopping(stop):
            while concurrent.futures.wait(waiting, LOOK_S).not_done:
                stop.value |= any(each.done() and each.exception() is not None for each in waiting)
                busy = [
                    name for name, at, each in zip(names, reached, waiting, strict=True) if at.begun and not each.done()
                ]
                ended = sum(each.ended for each in reached)
                tell(_line(busy, ended, jobs * len(names), began, max(each.now_s for each in reached)))
        try:
            found = dict(zip(names, [each.result() for each in waiting], strict=True))
        except BrokenProcessPool as error:
            raise PumiceError(
                "a process that simulated has died, maybe for want of memory; give fewer policies in one call"
            ) from error
    return {name: outcome for name, outcome in found.items() if outcome is not None}


@contextlib.contextmanager
def _stopping(stop: ctypes.c_bool) -> Iterator[None]:
    """Ctrl-C lets all processes hand over what they have; a second one ends the command."""

    def note(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGINT, usual)
        stop.value = True

    usual = signal.getsignal(signal.SIGINT)
    if usual is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, usual)


def _cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


# ------------------------------------------------------------------------------------------------- in a process of its own

_shared: Shared


def _begin(shared: Shared) -> None:
    global _shared  # noqa: PLW0603  a pool has no other way to give its tasks what a fork inherits
    _shared = shared
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all; `stop` says it once
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(
            _PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0
        )  # nobody simulates for a command that is gone


def _simulate(number: int) -> Outcome | None:
    """None where Ctrl-C came before it began."""
    if _is_stopped():
        return None
    simulation, at = _shared.trials[number](), _shared.reached[number]
    at.begun = True
    with rare_collections():
        for _ in simulation.steps():
            at.ended, at.now_s = simulation.ended, simulation.now_s
            if _is_stopped():
                simulation.outcome.cut_short_s = simulation.now_s
                break
    for run in simulation.outcome.runs:
        run.job = msgspec.structs.replace(run.job, objects=())  # nobody reads them any more, and not all can be sent
    return simulation.outcome


def _is_stopped() -> bool:
    return _shared.stop.value


# ------------------------------------------------------------------------------------------------- the progress line


def _line(busy: Sequence[str], ended: int, jobs: int, began: float, now_s: float) -> str:
    left_s = (time.monotonic() - began) / ended * (jobs - ended) if ended else None
    more = f" and {len(busy) - NAMES_MAX} more" if len(busy) > NAMES_MAX else ""
    left = "-" if left_s is None else instant.human_duration(round(left_s) * instant.SECOND)
    day = f"day {now_s / 86_400:.1f}, {ended} of {jobs} ended, {left} to go"
    return f"{', '.join(busy[:NAMES_MAX])}{more} {_bar(ended / jobs)} {day}"


def _bar(share: float) -> str:
    done = int(share * BAR_CHARS)
    return f"{'━' * done}{'─' * (BAR_CHARS - done)} {share:.0%}"

"""What became of a workload: each gang's start and end, and the figures that schedulers are compared by."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from pumice.values import Mutable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from pumice.sim.workload import Submission

FLOOR_S = 10  # of the run time in the bounded slowdown: a second's job that waits a minute is no catastrophe


class Run(Mutable, eq=False):
    """One gang: when it started for the first time, when it ended, and how often it lost its work to an eviction."""

    number: int
    job: Submission
    start_s: float | None = None
    end_s: float | None = None
    restarts: int = 0
    began_s: float = 0.0  # the present attempt

    @property
    def wait_s(self) -> float | None:
        return None if self.start_s is None else self.start_s - self.job.at_s

    @property
    def slots(self) -> int:
        return self.job.all_slots

    @property
    def slowdown(self) -> float | None:
        """From submission to end, in run times of at least FLOOR_S; never below 1."""
        if self.end_s is None:
            return None
        return max(1.0, (self.end_s - self.job.at_s) / max(self.job.run_s, FLOOR_S))


class Outcome(Mutable, eq=False):
    """All gangs in the order in which they were given, and who held how many slots when."""

    slots: int
    runs: list[Run]
    evictions: int = 0
    cycles: int = 0
    lost_slot_s: float = 0.0  # work that was done and thrown away
    held: list[tuple[float, Run, int]] = msgspec.field(default_factory=list)  # (when, who, slots more or less)
    losses: list[tuple[float, float]] = msgspec.field(default_factory=list)  # (when, slot seconds that were lost)
    blocked: list[tuple[float, Run, int]] = msgspec.field(default_factory=list)  # as `held`, by gangs that do not run
    give_backs: int = 0  # how often a gang that could not start gave back what it held
    cut_short_s: float | None = None  # somebody ended the simulation here

    def started(self, run: Run, at_s: float) -> None:
        run.start_s = at_s if run.start_s is None else run.start_s
        run.began_s = at_s
        self.held.append((at_s, run, run.slots))

    def ended(self, run: Run, at_s: float) -> None:
        run.end_s = at_s
        self.held.append((at_s, run, -run.slots))

    def restarted(self, run: Run, at_s: float) -> None:
        run.restarts += 1
        lost = (at_s - run.began_s) * run.slots
        self.lost_slot_s += lost
        self.losses.append((at_s, lost))
        self.held.append((at_s, run, -run.slots))

    def blocks(self, run: Run, at_s: float, slots: int) -> None:
        """A gang that does not run holds so many slots more, or less: its first pods wait for the last."""
        if slots:
            self.blocked.append((at_s, run, slots))

    # ------------------------------------------------------------------------------------------------- figures

    @property
    def figures(self) -> dict[str, float | None]:
        """Means over gangs that have started (wait) or ended (slowdown); None where there is none of them."""
        waits = [run.wait_s for run in self.runs if run.wait_s is not None]
        slowdowns = [run.slowdown for run in self.runs if run.slowdown is not None]
        ends = [run.end_s for run in self.runs if run.end_s is not None]
        first = min((run.job.at_s for run in self.runs), default=0.0)
        makespan = max(ends) - first if ends else 0.0
        done = sum((run.job.run_s - _before(run)) * run.slots for run in self.runs if run.end_s is not None)
        until_s = self.until_s
        return {
            "mean_wait_s": _mean(waits),
            "bounded_slowdown": _mean(slowdowns),
            "utilisation": done / (self.slots * makespan) if makespan else None,
            "makespan_s": makespan,
            "evictions": self.evictions,
            "lost_gpu_h": self.lost_slot_s / 3600,
            "idle_gpu_h": (self.slots * makespan - _slot_s([*self.held, *self.blocked], first + makespan)) / 3600,
            "blocked_gpu_h": _slot_s(self.blocked, until_s) / 3600,
            "deadlocked_s": self._deadlocked_s(until_s),
            "give_backs": self.give_backs,
            "stranded_gpu_h": self._stranded_slot_s() / 3600,
            "fairness": self._fairness(),
            "jobs": len(self.runs),
            "never_started": len(self.runs) - len(waits),
            "never_ended": len(self.runs) - len(ends),
            "cycles": self.cycles,
        }

    @property
    def until_s(self) -> float:
        """The last end, or when the last gang came that never started: it may try for ever, and what it blocks then says nothing of the rest."""
        if self.cut_short_s is not None:
            return self.cut_short_s
        ends = (run.end_s for run in self.runs if run.end_s is not None)
        in_vain = (run.job.at_s for run in self.runs if run.start_s is None)
        return max((0.0, *ends, *in_vain))

    def slowdown_by(self, by: str) -> dict[str, float]:
        """The mean bounded slowdown of each "user" or "queue" of whose gangs one has ended."""
        own: dict[str, list[float]] = {}
        for run in self.runs:
            if run.slowdown is not None:
                own.setdefault(getattr(run.job, by), []).append(run.slowdown)
        return {name: sum(values) / len(values) for name, values in own.items()}

    def _fairness(self) -> float | None:
        """Jain's index over users' slowdowns: 1 where all suffer alike, 1/n where one of n does; None for fewer than two."""
        values = list(self.slowdown_by("user").values())
        return sum(values) ** 2 / (len(values) * sum(each * each for each in values)) if len(values) > 1 else None

    def _deadlocked_s(self, until_s: float) -> float:
        """For how long no gang that holds part of what it needs could have got the rest, even if everything had ended that ran."""
        held, total_s, since = dict[int, int](), 0.0, None
        for number, (at, run, slots) in enumerate(self.blocked):
            held[run.number] = held.get(run.number, 0) + slots
            if not held[run.number]:
                del held[run.number]
            if number + 1 < len(self.blocked) and self.blocked[number + 1][0] == at:
                continue
            left = self.slots - sum(held.values())
            stuck = bool(held) and all(_needs(self.runs[each]) - own > left for each, own in held.items())
            if since is not None:
                total_s += max(min(at, until_s) - since, 0.0)
            since = at if stuck else None
        return total_s + (max(until_s - since, 0.0) if since is not None else 0.0)

    def stranded(self) -> list[tuple[float, int]]:
        """From when on how many slots were free although a gang waited that asks for no more: by fragmentation, or by the order of things."""
        happened = [(run.job.at_s, 1, run, 0) for run in self.runs]
        happened += [(run.start_s, 2, run, 0) for run in self.runs if run.start_s is not None]
        happened += [(at, 0, run, delta) for at, run, delta in (*self.held, *self.blocked)]
        happened.sort(key=lambda each: each[:2])
        free, waiting, levels = self.slots, Counter[int](), list[tuple[float, int]]()
        for number, (at, kind, run, delta) in enumerate(happened):
            free -= delta
            if kind:
                waiting[run.slots] += 1 if kind == 1 else -1
            is_last = number + 1 == len(happened) or happened[number + 1][0] > at
            if is_last:
                usable = any(count > 0 and size <= free for size, count in waiting.items())
                level = free if usable else 0
                if not levels or levels[-1][1] != level:
                    levels.append((at, level))
        return levels

    def _stranded_slot_s(self) -> float:
        levels, end = self.stranded(), self.until_s
        ends = [*(min(at, end) for at, _ in levels[1:]), end]
        return sum(level * max(until - at, 0.0) for (at, level), until in zip(levels, ends, strict=False))

    def wait_by_size(self, edges: tuple[int, ...] = (1, 8, 32, 128)) -> dict[str, dict[str, Any]]:
        """Waits of gangs by their size: "1", "2-8", ... and beyond the last edge."""
        found: dict[str, dict[str, Any]] = {}
        lows = (1, *(edge + 1 for edge in edges))
        for low, high in zip(lows, (*edges, None), strict=True):
            own = [run for run in self.runs if low <= run.job.size and (high is None or run.job.size <= high)]
            name = f"{low}" if low == high else f"{low}-{high}" if high is not None else f">{low - 1}"
            if own:
                waits = [run.wait_s for run in own if run.wait_s is not None]
                median, late = np.percentile(waits, (50, 95)).tolist() if waits else (None, None)
                found[name] = {
                    "jobs": len(own),
                    "mean_wait_s": _mean(waits),
                    "median_wait_s": median,
                    "p95_wait_s": late,
                    "max_wait_s": max(waits, default=None),
                }
        return found

    def usage(
        self, by: str = "queue", *, step_s: float, until_s: float | None = None
    ) -> Mapping[str, NDArray[np.float64]]:
        """Mean slots held in each step since second 0, by "queue" or "user"."""
        end = until_s if until_s is not None else max((at for at, _, _ in self.held), default=0.0)
        edges = np.arange(0.0, end + step_s, step_s)
        names = dict.fromkeys(getattr(run.job, by) for run in self.runs)
        own: dict[str, list[tuple[float, int]]] = {name: [] for name in names}
        for at, run, delta in self.held:
            own[getattr(run.job, by)].append((at, delta))
        return {name: mean_levels(changes, edges) for name, changes in own.items()}


def mean_levels(changes: Sequence[tuple[float, int]], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean between edges of what rises and falls at these times, which are in order."""
    times = np.array([at for at, _ in changes] or [0.0])
    deltas = np.array([delta for _, delta in changes] or [0])
    order = np.searchsorted(times, edges)
    level = np.concatenate([[0], np.cumsum(deltas)])
    moment = np.concatenate([[0.0], np.cumsum(deltas * times)])
    area = level[order] * edges - moment[order]
    means: NDArray[np.float64] = np.diff(area) / np.diff(edges)
    return means


def _slot_s(changes: Sequence[tuple[float, Run, int]], until_s: float) -> float:
    """The area under what rises and falls at these times."""
    return sum(slots * (until_s - min(at, until_s)) for at, _, slots in changes)


def _before(run: Run) -> float:
    """How much of its run lies before second 0."""
    return 0.0 if run.restarts else run.job.ran_s or 0.0


def _needs(run: Run) -> int:
    """Slots without which it does not start."""
    minimum = run.job.size if run.job.minimum is None else run.job.minimum
    return run.slots * minimum // run.job.size


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None

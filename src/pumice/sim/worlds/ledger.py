"""What queues have used, as the store tells it: what a scheduler remembers of it, and writes down, is held against this."""

from __future__ import annotations

import bisect
import collections
import itertools
from typing import TYPE_CHECKING

from pumice.instant import SECOND
from pumice.sim.worlds.apiserver import START

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pumice.instant import Instant
    from pumice.scheduling.sharing.decayed_usage import Usage

BOUND_S = 0.5  # seconds of the whole cluster, for what is charged from the plan on and not from the bind
BOUND_PART = 0.05  # and this part of it
ROUNDED_S = 1.0  # ends are told in whole seconds, rounded down


class Ledger:
    """The part of the cluster's GPUs that each queue holds, times seconds."""

    def __init__(self) -> None:
        self.is_whole = True  # nothing has happened that may take use with it that nobody wrote down
        self.hears_at_once = True  # no watch lags or ends
        self._total = 0  # now
        self._steps: list[tuple[float, dict[str, float]]] = []  # since when which queue holds which share
        self._plans: list[Instant] = []  # when each began, in order
        # What was kept for pods until the store had their binds, by queue.
        self._before_binds: dict[str, float] = collections.defaultdict(float)
        self._asked: dict[str, float] = {}  # pods, and since when
        # What pods had held no more when the store was told so, by queue: because they had ended, or had to leave. Whoever plans seldom counts a pod to its own end, and whoever
        # plans often until that is heard of (`decayed_usage.usage_at`): both are right. Long only where a node cannot write, to a full disk.
        self._after_ends: dict[str, float] = collections.defaultdict(float)

    def put(self, now: float, held: Mapping[str, int], total: int) -> None:
        """From now on the queues hold so much of that total."""
        self._total = total
        self._steps.append((now, {queue: gpus / total for queue, gpus in held.items()} if total else {}))

    def plan(self, began: Instant) -> None:
        """Somebody plans: what is decided by it counts from here on, however long it takes."""
        bisect.insort(self._plans, began)

    def bind(self, now: float, queue: str, gpus: int, decided: Instant) -> None:
        """The store has the bind of a pod only now: whoever decided it keeps its room, and counts it, since the plan for it began."""
        until = bisect.bisect_right(self._plans, decided)
        since = self._plans[until - 1] if until else decided
        if self._total:
            self._before_binds[queue] += gpus / self._total * max(now - (since - START) / SECOND, 0.0)

    def end(self, now: float, queue: str, gpus: int, at: Instant | None) -> None:
        """The store is told that a pod has ended, and when."""
        if at is not None and self._total:
            late_s = now - (at - START) / SECOND - ROUNDED_S
            self._after_ends[queue] += gpus / self._total * max(late_s, 0.0)

    def ask(self, now: float, pod: str) -> None:
        """A pod is asked to go, or that is said of it: whoever decided that counts it no more."""
        self._asked.setdefault(pod, now)

    def leave(self, now: float, queue: str, gpus: int, pod: str) -> None:
        """The store is told only now that it has to go."""
        since = self._asked.pop(pod, now)
        if self._total:
            self._after_ends[queue] += gpus / self._total * (now - since)

    def used(self, until: float) -> dict[str, float]:
        """By queue, what was used until then."""
        found: dict[str, float] = collections.defaultdict(float)
        for (since, shares), (end, _) in itertools.pairwise([*self._steps, (until, {})]):
            for queue, share in shares.items():
                found[queue] += share * max(min(end, until) - since, 0.0)
        return found

    def doubts(self, told: Usage, at: float) -> Iterator[str]:
        """Where what is told of use at a time is not what was used; nothing where it cannot be."""
        for queue, used in self.used(at).items() if self.is_whole else ():
            usage, _ = told.queues.get(queue, (0.0, 0.0))
            too_little = used - self._after_ends[queue] - usage
            too_much = usage - used - self._before_binds[queue]
            # Who hears late that a pod ended counts too much.
            off = max(too_little, too_much) if self.hears_at_once else too_little
            if queue and off > BOUND_S + BOUND_PART * used:
                yield f"queue {queue} has used {used:.2f} s of the cluster, and the scheduler remembers {usage:.2f} s"

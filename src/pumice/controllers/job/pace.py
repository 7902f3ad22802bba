"""How far the making of pods may be ahead of their binding.

Pods are made faster than they are bound, and both take the API server's time: of a burst of Jobs nearly all pods would be made before
half of the gangs are bound. So a Job begins with its pods when most of those of the Jobs before it are bound, and stands in line until
then. Queues take turns: of the one with the fewest pods under way the Job of highest priority is next, and of those the one that came first.

    in line --few are under way--> under way --its last pod is bound, or gone--> started
                                       |
                                       +--a Job that began later has started--> no longer counted

Nobody is held up for long by a gang that cannot be bound (the cluster is full, its nodes are gone) or is not seen to be (a watch is
late, a cycle takes long). One that others pass is no longer counted. With each look at which nothing was made or bound, so many more may be
under way as may always be; and after LOOKS_OPEN such looks nobody stands in line until a Job has started again: two seconds in all.
"""

from __future__ import annotations

import asyncio
import bisect
import collections
import itertools
from typing import TYPE_CHECKING

from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from pumice.kube.informer import Key

GANGS_MIN = 2  # may always be under way, however large: one is made while the other is bound
PODS_MIN = 128  # may always be under way: enough to keep an API server busy
LOOK_S = 0.25  # between two looks at what has moved, while somebody stands in line
LOOKS_AHEAD = 2  # as many pods may be under way as were bound in so many looks, where these are more
LOOKS_OPEN = 8
MOVES_MIN = 4  # pods made or bound between two looks; with fewer, nothing moves


class _Gang(Value):
    queue: str
    place: tuple[int, int]  # in the line of its queue: its priority, highest first, and when it came
    unbound: set[str]  # names of its pods, whether they exist yet or not


def _wake_nobody(key: Key) -> None:
    """Until the controller runs."""
    del key


class Pace:
    """Who is under way and who stands in line; belongs to one event loop."""

    def __init__(self) -> None:
        self._under_way: dict[Key, _Gang] = {}  # in the order in which they began
        self._pods: collections.Counter[str] = collections.Counter()  # unbound ones of those, by queue
        self._line: dict[Key, _Gang] = {}
        self._by_queue: dict[str, list[tuple[tuple[int, int], Key]]] = {}  # those in line, by place
        self._arrivals = itertools.count()
        self._has_line = asyncio.Event()
        self._wake: Callable[[Key], None] = _wake_nobody
        self._made = self._bound = 0  # since the last look
        self._pods_max = PODS_MIN
        self._still = 0  # looks in a row at which nothing had moved

    def __len__(self) -> int:
        """How many Jobs anything is kept for."""
        return len(self._under_way) + len(self._line)

    async def run(self, wake: Callable[[Key], None], sleep: Callable[[float], Awaitable[None]]) -> None:
        """Looks until cancelled, for as long as somebody stands in line; `wake` is told of a Job that may begin."""
        self._wake = wake
        while True:
            await self._has_line.wait()
            await sleep(LOOK_S)
            self.look()

    def may_make(self, key: Key, queue: str, priority: int, pods: Iterable[str], *, has_some: bool) -> bool:
        """Whether a Job may make these pods now; else it is woken when it may. One that has some already is never held up."""
        names = set(pods)
        if key not in self._under_way:
            self._join(key, queue, priority, names)
            if has_some:
                self._begin(key)
            self._call(asks=key)
        if key in self._under_way:
            gang = self._under_way[key]
            self._pods[gang.queue] += len(names - gang.unbound)
            gang.unbound.update(names)
        return key in self._under_way

    def wants_none(self, key: Key) -> None:
        """A Job has no pods to make now."""
        self._leave(key)

    def forget(self, key: Key) -> None:
        """A Job is gone."""
        self._leave(key)
        self._drop(key)
        self._call()

    def saw(self, key: Key, pod: str, *, waits: bool) -> None:
        """A pod of a Job waits for its node; or it is bound, or gone."""
        gang = self._under_way.get(key)
        if gang is None or pod not in gang.unbound:
            return
        if waits:
            self._made += 1
            return
        self._bound += 1
        self._pods[gang.queue] -= 1
        gang.unbound.remove(pod)
        if not gang.unbound:
            self._note_start(key)
        self._call()

    def look(self) -> None:
        """Takes in what has moved since the last look."""
        self._pods_max = max(PODS_MIN, self._bound * LOOKS_AHEAD)
        if self._bound >= MOVES_MIN:
            self._still = 0
        elif self._made < MOVES_MIN:
            self._still += 1
            self._pods_max = self._pods.total() + PODS_MIN
        self._made = self._bound = 0
        self._call()

    def _note_start(self, started: Key) -> None:
        """All pods of a Job are bound: those that began before it, and have not started, wait for something else."""
        if self._still:
            self._still, self._pods_max = 0, PODS_MIN
        for key in list(self._under_way):
            self._drop(key)
            if key == started:
                return

    def _call(self, asks: Key | None = None) -> None:
        """Lets Jobs begin until enough pods are under way, and wakes them, but for the one that asks."""
        while self._line and self._has_room():
            _, key = self._by_queue[min(self._by_queue, key=self._pods.__getitem__)][0]
            self._begin(key)
            if key != asks:
                self._wake(key)
        if self._line:
            self._has_line.set()
        else:
            self._has_line.clear()

    def _has_room(self) -> bool:
        few = len(self._under_way) < GANGS_MIN or self._pods.total() < self._pods_max
        return few or self._still >= LOOKS_OPEN

    def _begin(self, key: Key) -> None:
        gang = self._leave(key)
        if gang is not None:
            self._under_way[key] = gang
            self._pods[gang.queue] += len(gang.unbound)

    def _join(self, key: Key, queue: str, priority: int, pods: set[str]) -> None:
        """A Job that asks again keeps its place, unless its queue or its priority has changed."""
        known = self._leave(key)
        keeps = known is not None and known.queue == queue and known.place[0] == -priority
        place = known.place if known is not None and keeps else (-priority, next(self._arrivals))
        self._line[key] = _Gang(queue, place, pods)
        bisect.insort(self._by_queue.setdefault(queue, []), (place, key))

    def _leave(self, key: Key) -> _Gang | None:
        gang = self._line.pop(key, None)
        if gang is not None:
            line = self._by_queue[gang.queue]
            del line[bisect.bisect_left(line, (gang.place,))]
            if not line:
                del self._by_queue[gang.queue]
        return gang

    def _drop(self, key: Key) -> None:
        gang = self._under_way.pop(key, None)
        if gang is not None:
            self._pods[gang.queue] -= len(gang.unbound)
            if not self._pods[gang.queue]:
                del self._pods[gang.queue]  # queues come and go

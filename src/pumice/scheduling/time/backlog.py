"""Gangs that have come and that a cycle need not see, because it could do nothing for them: by thousands, they would cost most of its time.

Of one queue, in the order of turns, let those before a gang ask for so many slots. The gang cannot start where these and its own are more than
are free in all, if nobody passes; and if gangs may pass, where its own are. One reservation is for the first gang that finds no room: that is
one of those before which no more is asked for than is free. All others are held back, and handed over as soon as this is no longer so. Those
that were seen while more was free, and found no room, have no turn until it is so again.
"""

from __future__ import annotations

import bisect
from collections import defaultdict
from typing import TYPE_CHECKING, TypeAlias

from pumice.scheduling.time import reservations
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterable

    from pumice.api.meta import Struct
    from pumice.instant import Duration
    from pumice.scheduling.core.memory import Memory

Objects: TypeAlias = "Callable[[], Iterable[Struct]]"
Place: TypeAlias = tuple[int, str]
Entry: TypeAlias = "tuple[Place, Ask, Objects]"
Asking: TypeAlias = "tuple[Ask, Objects]"  # a gang that comes


class Ask(Value):
    """What decides when a gang of equal pods is seen: of two in a queue, the one with the lower `place` has its turn first."""

    gang: str
    queue: str
    place: Place
    least: int  # slots without which it does not start
    each: int  # slots of one pod
    pods: int
    kind: Hashable = ()  # pods of gangs of one kind are alike but for their names
    estimate: Duration = 0  # how long its owner says that it runs; 0: nothing

    @property
    def is_whole(self) -> bool:
        """Whether it starts with all of its pods or not at all."""
        return self.pods * self.each == self.least


class Backlog:
    """Gangs of a strict queue each or, with `may_pass`, of the only queue, in which the first that finds no room has a reservation.

    `slots` are all there are, `largest` those of one node. Who can never start for want of them is not held back, and holds up nobody here:
    the engine says what that means for others. The first of those that do not fit is seen: it holds up gangs that are not of the backlog, and
    those that run and could do with more members; but not where there are none of either (`all_alike`).
    """

    def __init__(self, slots: int, largest: int, *, may_pass: bool, all_alike: bool = False) -> None:
        self.may_pass = may_pass
        self._shows_first = may_pass or not all_alike
        self._slots, self._largest = slots, largest
        self._free = slots  # at most: what others hold is not counted
        self._held: defaultdict[str, list[Entry]] = defaultdict(list)
        self._shown: defaultdict[str, dict[Place, Entry]] = defaultdict(dict)  # that have not started
        self._asks: dict[str, Ask] = {}
        self._taken: dict[str, int] = {}

    def __len__(self) -> int:
        return sum(map(len, self._held.values()))

    def add(self, ask: Ask, objects: Objects) -> bool:
        """Whether the gang is taken in; else it is to be seen at once."""
        if ask.least > self._slots or ask.each > self._largest:
            return False
        self._asks[ask.gang] = ask
        bisect.insort(self._held[ask.queue], (ask.place, ask, objects), key=lambda each: each[0])
        return True

    def runs(self, ask: Ask) -> None:
        """A gang that has started without being held back or seen."""
        self._asks[ask.gang] = ask
        self.placed(ask.gang, ask.pods)

    def placed(self, gang: str, pods: int) -> None:
        """A gang starts, or gets more members."""
        ask = self._asks.get(gang)
        if ask is not None:
            self._shown[ask.queue].pop(ask.place, None)
            self._taken[gang] = self._taken.get(gang, 0) + pods * ask.each
            self._free -= pods * ask.each

    def ended(self, gang: str) -> None:
        self._asks.pop(gang, None)
        self._free += self._taken.pop(gang, 0)

    def due(self) -> list[Objects]:
        """Those that a cycle has to see now, in the order of their turns."""
        return [objects for queue, held in self._held.items() if held for objects in self._due(queue, held)]

    def all(self) -> list[Objects]:
        """Hold back nobody."""
        return [objects for queue, held in self._held.items() for objects in self._show(queue, held, len(held))]

    def forget(self, ask: Ask) -> None:
        """One that waits, whether it is held back or has been seen, is no longer its business."""
        if self._asks.pop(ask.gang, None) is not None:
            self._shown[ask.queue].pop(ask.place, None)
            self._held[ask.queue] = [entry for entry in self._held[ask.queue] if entry[1].gang != ask.gang]

    def is_reserved_ahead(self, memory: Memory) -> bool:
        """Whether, where gangs may pass, the reservation is that of a gang whose turn is before that of all who are held back or have none."""
        without = [*(held[0][0] for held in self._held.values() if held), *self._without_turn().values()]
        if not self.may_pass or not without:
            return True
        kept = memory.of(reservations.SLOT).kept
        ask = self._asks.get(kept[0].gang) if kept else None
        return ask is not None and ask.place < min(without)

    def passed_over(self) -> Collection[str]:
        """Gangs that have been seen, and that a cycle can do nothing for now."""
        return self._without_turn().keys()

    def _without_turn(self) -> dict[str, Place]:
        found: dict[str, Place] = {}
        for shown in self._shown.values() if self.may_pass else ():
            before = 0
            for place, ask, _ in sorted(shown.values(), key=lambda each: each[0]):
                if before > self._free < ask.least:
                    found[ask.gang] = place
                before += ask.least
        return found

    def _due(self, queue: str, held: list[Entry]) -> list[Objects]:
        shown, found = self._shown[queue], list[Objects]()
        while held:
            place, ask, *_ = held[0]
            before = sum(each.least for other, each, *_ in shown.values() if other < place)
            if before + (0 if self._shows_first else ask.least) > self._free:
                break
            found += self._show(queue, held, 1)
        if self.may_pass and self._free:
            fitting = [entry for entry in held if entry[1].least <= self._free]
            if fitting:
                held[:] = [*fitting, *(entry for entry in held if entry[1].least > self._free)]
                found += self._show(queue, held, len(fitting))
        return found

    def _show(self, queue: str, held: list[Entry], count: int) -> list[Objects]:
        """The first so many are seen from now on."""
        first = held[:count]
        del held[:count]
        self._shown[queue].update((entry[0], entry) for entry in first)
        return [objects for *_, objects in first]

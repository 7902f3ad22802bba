"""How gangs pass from a cluster to where they run and wait without cycles (`direct_starts`), and back when somebody needs a cycle."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from pumice.api.changes import Upserted
from pumice.api.scheduling import PodGroup, PodGroupPhase
from pumice.scheduling.time import run_objects
from pumice.scheduling.time.crowd import Standing

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from collections.abc import Set as AbstractSet
    from typing import Any

    import msgspec

    from pumice.cluster.intake import Intake
    from pumice.instant import Instant
    from pumice.scheduling.core.memory import Memory, Slot
    from pumice.scheduling.time.backlog import Ask, Asking, Backlog, Objects
    from pumice.scheduling.time.direct_starts import DirectStarts, Started

# When gangs that waited without cycles have needed one, so many decide before they may wait so again: to tell the cluster of all that run, and to open
# a session, takes as long. Twice as many where that was in vain.
CYCLES_BETWEEN, CYCLES_BETWEEN_MAX = 20, 5_000


class Passage:
    """Between a cluster and `direct`, if there is one."""

    def __init__(self, intake: Intake, backlog: Backlog, direct: DirectStarts | None) -> None:
        self.direct = direct
        self._intake = intake
        self._backlog = backlog
        self._asked: dict[str, Asking] = {}  # that have come with an ask, to the cluster, and have not started since
        self._cycles_between = CYCLES_BETWEEN
        self._cycles_left = 0  # until those that wait may do so without cycles
        self._instants = 0  # without cycles, since there was one
        self._gathered: list[Asking] = []  # that come to those that wait without cycles when these are looked at again

    # ------------------------------------------------------------------------------------------------- what the cluster sees

    def comes(self, ask: Ask, objects: Objects) -> None:
        """To the cluster, or to be held back from it."""
        if self.direct is not None:
            self._asked.setdefault(ask.gang, (ask, objects))  # as it came, whatever has become of it since

    def starts(self, gang: str) -> None:
        self._asked.pop(gang, None)

    def ends(self, gang: str) -> None:
        """One that the cluster knows, and that had not changed before."""
        if self.direct is not None:
            self.direct.ended(gang)

    def has_cycle(self) -> None:
        self._cycles_left -= 1

    # ------------------------------------------------------------------------------------------------- there

    @property
    def is_open(self) -> bool:
        """Whether gangs start without cycles."""
        return self.direct is not None and self.direct.is_open

    @property
    def waits(self) -> bool:
        """Whether somebody does, without cycles."""
        return self.direct is not None and self.direct.waits

    @property
    def has_rhythm(self) -> bool:
        """Whether somebody waits for whom it costs something to be looked at. To look at the first of a line does not."""
        return self.direct is not None and self.direct.waits and not self.direct.is_line

    def ended(self, gang: str) -> bool:
        """Whether a gang that has ended is one that the cluster does not know."""
        return self.direct is not None and self.direct.end(gang)

    def that_may_wait(self, waiting: AbstractSet[str]) -> list[Asking]:
        """All that wait in the cluster, if they may do so without cycles from now on, for all we know."""
        if self.direct is None or self.is_open or not self.direct.lets_wait or self._cycles_left > 0:
            return []
        cluster = self._intake.cluster
        leaves = bool(cluster.claims) or any(True for _ in self._intake.held.evicting)
        is_known = waiting <= self._asked.keys() and all(ask.is_whole for ask, _ in self._asked.values())
        if not is_known or leaves or any(run_objects.holds_places(cluster.gangs[key]) for key in waiting):
            return []
        return list(self._asked.values())

    def start(
        self, coming: Sequence[Asking], now: Instant, memory: Memory, standing: Iterable[Asking]
    ) -> list[Started] | None:
        """Those that start at this instant without a cycle, where those that stood in the cluster wait here from now on; None where there has to be one."""
        coming = [*self._gathered, *coming]
        if self.direct is None or not all(ask.is_whole for ask, _ in coming):
            return None
        self._instants += 1
        started = self.direct.start(coming, now, memory, [self._withdrawn(*each) for each in standing])
        if started is not None:
            self._gathered = []
        return started

    def gather(self, coming: Sequence[Asking], now: Instant) -> None:
        """Nobody starts at this instant; who comes is looked at with those that wait."""
        assert self.direct is not None, "they wait there"
        self._gathered += coming
        self.direct.settle((), now)

    @property
    def next_change(self) -> Instant | None:
        return None if self.direct is None else self.direct.next_change

    def _withdrawn(self, ask: Ask, objects: Objects) -> Standing:
        """From the cluster, which knows nothing of those that wait without cycles."""
        del self._asked[ask.gang]
        self._backlog.forget(ask)
        slot = self._intake.cluster.gangs.get(ask.gang)
        if slot is None:
            return Standing(ask, objects, is_admitted=False)
        group = slot.group
        assert isinstance(group, PodGroup), f"{ask.gang} came with a group"
        for task in list(slot.tasks.values()):
            self._intake.withdraw(task.pod)
        self._intake.withdraw(group)
        return Standing(ask, objects, is_admitted=group.status.phase == PodGroupPhase.INQUEUE.value)

    # ------------------------------------------------------------------------------------------------- and back

    def come_back(self, now: Instant) -> tuple[list[Asking], Sequence[tuple[Slot[Any], msgspec.Struct]]]:
        """The cluster learns of gangs that run; those that wait are to come to it. And what plugins have learned."""
        if self.direct is None or not self.is_open:
            return [], ()
        left = self.direct.close(now)
        is_in_vain = bool(left.waiting) and self._instants < CYCLES_BETWEEN
        self._cycles_between = min(2 * self._cycles_between, CYCLES_BETWEEN_MAX) if is_in_vain else CYCLES_BETWEEN
        self._cycles_left, self._instants = self._cycles_between if left.waiting else 0, 0
        for each in left.running:
            for thing in run_objects.in_phases(each.objects, PodGroupPhase.RUNNING):
                self._intake.apply(Upserted(object=thing))
            pods = [task.pod for task in self._intake.cluster.gangs[each.ask.gang].tasks.values()]
            self._intake.get_on(run_objects.bound(zip(pods, each.nodes, strict=True), each.at))
            self._backlog.runs(each.ask)
        gathered, self._gathered = self._gathered, []
        return [*(self._coming_back(each) for each in left.waiting), *gathered], left.learned

    def _coming_back(self, standing: Standing) -> Asking:
        ask, objects, phase = standing.ask, standing.objects, PodGroupPhase.INQUEUE
        self._asked[ask.gang] = ask, objects
        return ask, functools.partial(run_objects.in_phases, objects, phase) if standing.is_admitted else objects

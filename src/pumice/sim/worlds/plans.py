"""Hears of every plan of every scheduler, where a flight recorder would, and says what none may promise."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING

from pumice.flight.unrecorded import Unrecorded
from pumice.scheduling.time import reservations

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.cluster.intake import Intake
    from pumice.flight.unrecorded import Planned
    from pumice.instant import Instant
    from pumice.scheduling.core.decisions import Decisions
    from pumice.scheduling.time.reservations import Kept
    from pumice.sim.worlds.witness import Witness

Places = collections.Counter[str]  # GPUs by node


class Plans(Unrecorded):
    """Holds what is reserved and promised against what the store says that nodes have and pods want."""

    def __init__(self, witness: Witness) -> None:
        self._witness = witness
        self._now: Instant = 0

    def begins(self, intake: Intake, planned: Planned) -> None:
        del intake
        self._now = planned.now
        self._witness.ledger.plan(planned.now)

    def ends(self, decisions: Decisions, *, seconds: float) -> None:
        del seconds
        promised = self._promised(decisions.pipelined)
        if promised:
            self._check(promised, "promised")
        kept = decisions.memory.of(reservations.SLOT).kept
        told = [each for each in kept if _is_told(decisions, each.gang)]
        # Who is promised room that others leave is told no time, and keeps its own only in case the promise comes to nothing: until then
        # others may have that room, but not the one that it is promised.
        better = [each for each in kept if not _is_told(decisions, each.gang)]
        for each in better:
            if each.gang not in promised:
                self._witness.complain(f"gang {each.gang} has a reservation that it is not told of, and nothing better")
        for first in told:
            together = {each.gang: self._reserved(each) for each in told if _is_active(each, first.time)}
            starting = (each for each in better if first.time < self._now + each.length)
            together |= {each.gang: promised[each.gang] for each in starting if each.gang in promised}
            self._check(together, "reserved")

    def _promised(self, pipelined: Mapping[str, str]) -> dict[str, Places]:
        """By gang, the places that its members have got and others must leave first."""
        found: dict[str, Places] = {}
        if pipelined:
            for pod in self._witness.pods.values():
                if pod.key in pipelined and not pod.node and not pod.is_leaving:
                    found.setdefault(pod.group, Places())[pipelined[pod.key]] += pod.gpus
        return found

    def _reserved(self, kept: Kept) -> Places:
        places = Places()
        for part in kept.parts:
            pod = self._witness.pods.get(part.pod)
            if pod is not None:  # else it is gone, and the scheduler will hear of it
                for node, count in part.nodes.items():
                    places[node] += count * pod.gpus
        return places

    def _check(self, places: Mapping[str, Places], how: str) -> None:
        """All that is given away for one moment has room on its nodes, side by side."""
        held = sum(places.values(), Places())
        for node, gpus in held.items():
            room = self._witness.known_room(node)
            if gpus > room:
                gangs = ", ".join(places)
                self._witness.complain(
                    f"{gpus} GPUs of node {node}, which has {room}, are {how} at one time for {gangs}"
                )


def _is_told(decisions: Decisions, gang: str) -> bool:
    report = decisions.gangs.get(gang)
    return report is not None and report.reservation is not None


def _is_active(kept: Kept, at: Instant) -> bool:
    return kept.time <= at < kept.time + kept.length

"""Hears of every plan of every scheduler, where a flight recorder would, and says what none may promise."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING

from pumice.flight.unrecorded import Unrecorded
from pumice.scheduling.time import reservations

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.scheduling.core.decisions import Decisions
    from pumice.scheduling.time.reservations import Kept
    from pumice.sim.worlds.witness import Witness


class Plans(Unrecorded):
    """Holds what is reserved against what the store says that nodes have and pods want."""

    def __init__(self, witness: Witness) -> None:
        self._witness = witness

    def ends(self, decisions: Decisions, *, seconds: float) -> None:
        del seconds
        # Who is promised room that others leave keeps its reservation only in case the promise comes to nothing.
        promised = {each.group for each in self._witness.pods.values() if each.key in decisions.pipelined}
        kept = [each for each in decisions.memory.of(reservations.SLOT).kept if each.gang not in promised]
        for first in kept:
            self._check([each for each in kept if each.time <= first.time < each.time + each.length])

    def _check(self, together: Sequence[Kept]) -> None:
        """All that is reserved at the moment at which one of the reservations begins has room on its nodes, side by side."""
        held: collections.Counter[str] = collections.Counter()
        for part in (part for each in together for part in each.parts):
            pod = self._witness.pods.get(part.pod)
            if pod is None:
                continue  # gone, and the scheduler will hear of it
            for node, count in part.nodes.items():
                held[node] += count * pod.gpus
        for node, gpus in held.items():
            room = self._witness.known_room(node)
            if gpus > room:
                gangs = ", ".join(each.gang for each in together)
                self._witness.complain(
                    f"{gpus} GPUs of node {node}, which has {room}, are reserved at one time for {gangs}"
                )

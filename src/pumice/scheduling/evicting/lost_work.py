"""Work that an eviction destroys: run time since the start or the last checkpoint, times GPUs.

It is counted in card-seconds. Eight CPUs count as one GPU for pods that have none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice import instant
from pumice.api import names, run_time
from pumice.cluster import amounts
from pumice.cluster.amounts import is_gpu
from pumice.cluster.tasks import OCCUPYING
from pumice.scheduling.placing import annotation_values

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pumice.cluster.tasks import Task
    from pumice.instant import Duration, Instant
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.session import Session

CPUS_PER_CARD = 8


def cards(task: Task) -> float:
    """GPUs that the pod asks for, or what its CPUs count for."""
    asked = task.request.amounts
    gpus = sum(value for name, value in asked.items() if is_gpu(name))
    return float(gpus or asked.get(amounts.CPU, 0) / CPUS_PER_CARD) / amounts.MILLI


def lost(task: Task, now: Instant) -> Duration:
    """Run time of a pod that would be lost with it now; one that has not started loses nothing."""
    return run_time.lost(started(task), now, checkpointed(task))


def started(task: Task) -> Instant | None:
    """Since when the pod does any work; None while its node has not started it, however long ago it was created."""
    return annotation_values.instant_of(run_time.start_time(task.pod))


def checkpointed(task: Task) -> Instant | None:
    """Up to when the pod says that its work is safe."""
    return annotation_values.instant_of(task.pod.metadata.annotations.get(names.CHECKPOINTED_AT))


def card_seconds(tasks: Iterable[Task], now: Instant) -> int:
    """What losing all of these pods costs."""
    return int(sum(of_pod(task, now) for task in tasks))


def of_pod(task: Task, now: Instant) -> float:
    """The same of one."""
    return cards(task) * lost(task, now) / instant.SECOND


class LostWork:
    """What it costs each gang to lose one more member, in card-seconds; `session.shared(LostWork)`.

    A gang that can spare a member loses what that member has done. One at its minimum loses everything, and one that is broken has
    nothing left to lose: whoever breaks a gang takes the rest of it before breaking the next one.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[str, tuple[int, float]] = {}  # by gang: its version, and what was found for it
        self._of_pods: dict[str, float] = {}  # by uid: what its own loss costs, which no move changes

    def of(self, gang: GangState) -> float:
        known = self._known.get(gang.key)
        if known is None or known[0] != gang.version:
            known = self._known[gang.key] = (gang.version, self._of(gang))
        return known[1]

    def _of(self, gang: GangState) -> float:
        ready, members = gang.tally.ready, gang.tasks_in(*OCCUPYING)
        if ready < gang.minimum or not members:
            return 0.0
        whole = int(sum([self._of_pod(task) for task in members]))
        return float(whole) if ready == gang.minimum else whole / len(members)

    def _of_pod(self, task: Task) -> float:
        known = self._of_pods.get(task.uid)
        if known is None:
            known = self._of_pods[task.uid] = of_pod(task, self._session.now)
        return known

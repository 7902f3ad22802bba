"""cdp: cool-down protection. A pod that has only just started is left alone for as long as it asked for.

Without it, elastic pods that are preempted as soon as they run never get anything done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.api import names
from pumice.cluster.tasks import Status
from pumice.scheduling.core.plugin import Plugin
from pumice.scheduling.core.points import Bound
from pumice.scheduling.placing import annotation_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.cluster.columns import Mask
    from pumice.cluster.tasks import Task
    from pumice.instant import Instant
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.points import EvictionKind
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.evicting.victim_columns import View


class Cdp(Plugin):
    """`volcano.sh/cooldown-time: 10m` on a pod, as a label or an annotation, counted from when it got its node.

    It holds whichever tier chooses the victims.
    """

    essential = True

    def open(self, session: Session) -> None:
        self.now = session.now
        self.next_end: Instant | None = None
        on = session.on
        bound = Bound(lambda _claimant, _columns: None, self.have_cooled_down, exact=True)
        for point in (on.preemptable, on.reclaimable):
            point(lambda _, candidates: self.cooled_down(candidates), bound)
            point.shield(lambda _, candidates: self.cooled_down(candidates), bound)
        on.evictable(self.of_gangs)
        on.evictable.shield(self.of_gangs)
        on.shuffled.guard(self.cooled_down)

    def of_gangs(self, kind: EvictionKind, claimant: GangState, candidates: Sequence[Task]) -> Sequence[Task]:
        del kind, claimant
        return self.cooled_down(candidates)

    def cooled_down(self, victims: Sequence[Task]) -> list[Task]:
        """Those that may go; when the first of the others may is kept for the end of the cycle."""
        ends = [(task, self.protection_ends(task)) for task in victims]
        known = [end for _, end in ends if end is not None]
        self.next_end = min(known if self.next_end is None else [*known, self.next_end], default=None)
        return [task for task, end in ends if end is None]

    def have_cooled_down(self, key: None, view: View) -> Mask:
        """As `cooled_down`, in columns."""
        del key
        ends = view.of_tasks(self._protected_until)
        waiting = ends[view.asked & (ends > self.now)]
        if len(waiting):
            first = int(waiting.min())
            self.next_end = first if self.next_end is None else min(first, self.next_end)
        return ends <= self.now

    def _protected_until(self, task: Task) -> Instant:
        end = self.protection_ends(task)
        return self.now if end is None else end

    def next_change(self, session: Session) -> Instant | None:
        """Only pods that this cycle would have evicted otherwise make a difference."""
        del session
        return self.next_end

    def protection_ends(self, task: Task) -> Instant | None:
        """None for a pod that is not protected, or no longer."""
        meta = task.pod.metadata
        cooldown = annotation_values.positive_duration(meta.labels, names.COOLDOWN_TIME)
        if cooldown is None:
            cooldown = annotation_values.positive_duration(meta.annotations, names.COOLDOWN_TIME)
        if cooldown is None or task.status is not Status.RUNNING:
            return None
        scheduled = next((each for each in task.pod.status.conditions if each.type == "PodScheduled"), None)
        since = annotation_values.instant_of(scheduled.last_transition_time) if scheduled is not None else None
        return since + cooldown if since is not None and self.now < since + cooldown else None

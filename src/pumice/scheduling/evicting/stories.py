"""The story of each eviction as data: victim, claimant, rule, what both queues held before and hold after, and what is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice import instant
from pumice.api.disruptions import Party, Story
from pumice.cluster import amounts
from pumice.cluster.tasks import Status
from pumice.scheduling.evicting import lost_work
from pumice.scheduling.sharing import holdings

if TYPE_CHECKING:
    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.verdict import Cause


class Stories:
    """Tells the evictions of one session, once all of them are decided."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._after = {queue: held.total() for queue, held in holdings.as_of_now(session)}
        self._held: dict[tuple[str, str], tuple[float, float]] = {}  # by queue and resource: before, after

    def story(self, task: Task, rule: str, cause: Cause, claimant: GangState | None) -> Story:
        victim = self._session.gangs.get(task.gang)
        resource = contested(task.request.amounts)
        return Story(
            rule=rule,
            code=cause.code.value,
            why=cause.text,
            victim=self._party(victim, resource),
            claimant=self._party(claimant, resource),
            resource=resource,
            lost_seconds=lost_work.lost(task, self._session.now) // instant.SECOND,
        )

    def _party(self, gang: GangState | None, resource: str) -> Party:
        if gang is None:
            return Party()
        before, after = self._holdings(gang.queue, resource)
        figures = self._session.figures.get(gang.queue)
        deserved = None if figures is None else figures.deserved.get(resource)
        return Party(
            gang=gang.key,
            uid=gang.uid,
            job=gang.spec.job,
            queue=gang.queue,
            user=gang.spec.user,
            priority=gang.spec.priority,
            held_before=amounts.quantity_text(resource, before),
            held_after=amounts.quantity_text(resource, after),
            deserved=""
            if deserved is None or deserved == amounts.UNLIMITED
            else amounts.quantity_text(resource, deserved),
        )

    def _holdings(self, queue: str, resource: str) -> tuple[float, float]:
        """What a queue holds, and what it will once victims have left and claimants have started."""
        known = self._held.get((queue, resource))
        if known is None:
            own = [gang for gang in self._session.restless if gang.queue == queue]
            steady = holdings.by_queue(self._session).get(queue)
            before = sum(gang.gang.occupied.get(resource, 0) for gang in own)
            before += steady.occupied.total().get(resource, 0) if steady is not None else 0
            promised = sum(
                task.request.amounts.get(resource, 0)
                for gang in own
                if gang.key in self._session.made_room_for
                for task in gang.places
                if gang.places[task][0] is Status.PIPELINED
            )
            after = self._after.get(queue, {}).get(resource, 0) + promised
            known = self._held[queue, resource] = (before, after)
        return known


def contested(request: amounts.Amounts) -> str:
    """The resource that a pod is evicted for, most likely: its cards, else its cores."""
    cards = sorted(name for name, value in request.items() if value and "/" in name)
    return cards[0] if cards else amounts.CPU

"""Room that was made by evictions belongs to the gang it was made for, across cycles, until it has it or time is up.

At the start of a cycle each live claim is held: its members are pipelined where they were promised, so that no other pod is
placed there and no pod is evicted for them a second time. When the gang's turn comes, the hold is lifted for it alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice import instant
from pumice.api import disruptions
from pumice.api.changes import Claim
from pumice.cluster.tasks import Status
from pumice.scheduling.core.statement import Placement

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pumice.cluster.state import Snapshot
    from pumice.cluster.tasks import Task
    from pumice.instant import Duration, Instant
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.statement import Statement


class ReservedRoom:
    """The claims of one session: held, lifted, and (`ended`) over."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.held: dict[str, Statement] = {}
        self.ended: dict[str, str] = {}  # gang -> why its claim is over
        for key, claim in sorted(session.snapshot.claims.items()):
            self._hold(key, claim)

    def _hold(self, key: str, claim: Claim) -> None:
        session = self.session
        gang = session.gangs.get(key)
        if gang is None or not gang.tally[Status.PENDING]:
            self.ended[key] = "the gang no longer waits"
            return
        if claim.until <= session.now:
            self.ended[key] = "its time is up"
            return
        places, index = dict(claim.places), session.room.table.index
        promised = [(task, index.get(places.get(task.uid, ""))) for task in gang.tasks_in(Status.PENDING)]
        self._place(
            gang,
            [
                Placement(gang, session.shape(task), [task], [node], Status.PIPELINED, after_eviction=True)
                for task, node in promised
                if node is not None
            ],
        )

    def _place(self, gang: GangState, places: Iterable[Placement]) -> None:
        """Hold those places that are still to be had, each for one task."""
        statement = self.session.statement(gang)
        for place in places:
            future = self.session.room.future[:, place.nodes[0]]
            if all(future[row] >= place.shape.demand[row] for row in place.shape.rows):
                statement.place(place)
        if statement.operations:
            self.held[gang.key] = statement
        else:
            self.ended[gang.key] = "nothing is left of its room"

    def lift(self, gang: GangState) -> list[Placement]:
        """Give the gang its own room back to work with; what `put_back` needs if it finds no better use."""
        statement = self.held.pop(gang.key, None)
        if statement is None:
            return []
        places = statement.placements
        statement.rollback()
        return places

    def put_back(self, gang: GangState, places: Sequence[Placement]) -> None:
        """Hold the room again, as far as it is still there: the gang could not use it yet."""
        if places:
            self._place(gang, places)

    def refuse(self, gang: GangState, places: Sequence[Placement]) -> None:
        """The gang had its turn, and found no way to start. Where nobody has to leave any more and it is refused for something else than room
        (its queue's share has become smaller, a node was cordoned), or somebody has taken a part of that, it would keep out others for nothing:
        its claim is over.
        """
        if not places:
            return
        is_of_no_use = gang.reasons or self._is_closed(places) or self._falls_short(gang, places)
        if is_of_no_use and not self._is_being_left(gang):
            self.ended[gang.key] = "its room is there, and the gang is refused all the same"
            self.session.made_room_for.discard(gang.key)
        else:
            self.put_back(gang, places)

    def _is_closed(self, places: Iterable[Placement]) -> bool:
        """Whether a node of them takes no such pods any more."""
        return not all(self.session.placer.allowed(place.shape)[place.nodes[0]] for place in places)

    def _falls_short(self, gang: GangState, places: Sequence[Placement]) -> bool:
        """Whether not all that was promised could be held any more."""
        waiting = {task.uid for task in gang.tasks_in(Status.PENDING)}
        return len(places) < sum(uid in waiting for uid, _ in self.session.snapshot.claims[gang.key].places)

    def _is_being_left(self, gang: GangState) -> bool:
        """Whether victims of its claim, or others that have to leave, are still where it is to go."""
        claim, table = self.session.snapshot.claims[gang.key], self.session.room.table
        nodes = {table.index[node] for _, node in claim.places if node in table.index}
        there = (task for node in nodes for task in table.tasks[node])
        return any(task.uid in claim.victims or task.status is Status.RELEASING for task in there)

    def settle(self, gang: GangState, places: Sequence[Placement]) -> None:
        """The gang has started: hold the room of members that have not, or end the claim."""
        left = [place for place in places if gang.status(place.tasks[0]) is Status.PENDING]
        if left:
            self._place(gang, left)
        elif places:
            self.ended[gang.key] = "used"

    def lift_below(self, gang: GangState) -> dict[str, list[Placement]]:
        """Lift the room of gangs of strictly lower priority: a claim protects from equal and lower ranks, not from higher ones.

        That is a matter between gangs of one queue. Between queues shares decide, and a queue that had to give room back by them
        must not take it again by its rank, or the two would take turns for ever.
        """
        holders = [self.session.gangs[key] for key in self.held]
        lower = [other for other in holders if other.queue == gang.queue and other.priority < gang.priority]
        return {other.key: self.lift(other) for other in lower}


def rebuilt(snapshot: Snapshot, now: Instant, lasts: Duration) -> list[Claim]:
    """The claims of a former leader, which kept them in memory: pods' nominated nodes tell which room was promised to which pod.

    Only where a pod is leaving such a node: a nomination outlives its claim, and proves nothing once all victims have left.
    Each claim `lasts` for so long, from when its victims have to leave on.
    """
    leaving: dict[str, list[Task]] = {}
    for gang in snapshot.gangs.values():
        for task in gang.tasks:
            if task.status is Status.RELEASING:
                leaving.setdefault(task.node, []).append(task)
    claims = []
    for key, gang in snapshot.gangs.items():
        waiting = (task for task in gang.tasks if task.status is Status.PENDING)
        places = tuple((task.uid, task.nominated_node) for task in waiting if task.nominated_node)
        victims = [each for node in dict.fromkeys(node for _, node in places) for each in leaving.get(node, ())]
        if victims:
            begins = max([now, *(_has_to_leave_at(task) for task in victims)])
            uids = tuple(task.uid for task in victims)
            claims.append(Claim(gang=key, places=places, victims=uids, until=begins + lasts))
    return claims


def _has_to_leave_at(task: Task) -> Instant:
    notice = disruptions.notice_of(task.pod)
    return 0 if notice is None else instant.parse_instant(notice.until)

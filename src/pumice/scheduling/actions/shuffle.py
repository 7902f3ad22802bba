"""shuffle: evicts running pods that plugins want to be elsewhere, for no gang in particular.

tdm empties nodes whose time is over, rescheduling relieves nodes that are too busy; pdb and cdp say who has to be left alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.cluster.tasks import Status
from pumice.scheduling.evicting import eviction

if TYPE_CHECKING:
    from pumice.scheduling.core.session import Session

NAME = "shuffle"


def run(session: Session) -> None:
    everywhere = (task for gang in session.gangs.values() for task in gang.tasks_in(Status.RUNNING))
    running = [task for task, _ in session.on_nodes(everywhere)]
    statement = session.statement()
    for victim in session.points.shuffled.of(running):
        statement.evict(victim, NAME, eviction.cost(session, victim))
    statement.commit()

"""Placing gangs that want to be close together, or that consist of sub gangs: hyper node by hyper node, closest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.scheduling import filling

if TYPE_CHECKING:
    from pumice.scheduling.actions.allocate import Worksheet
    from pumice.scheduling.gangstate import GangState
    from pumice.scheduling.session import Session
    from pumice.scheduling.statement import Statement


def allocate_close(session: Session, gang: GangState, sheet: Worksheet) -> Statement | None:
    statement = session.statement()
    for sub in sorted(gang.subs, key=session.sub_key):
        waiting = sheet.waiting.get(sub.sub.key)
        if waiting:
            mark = statement.checkpoint()
            filling.place_tasks(session, statement, sub, waiting)
            if not (session.sub_is_ready(sub) or session.sub_is_pipelined(sub)):
                statement.rollback(mark, remember=True)
        if session.is_ready(gang):
            break
    if session.is_ready(gang) or session.is_pipelined(gang):
        return statement
    statement.rollback(remember=True)
    return None

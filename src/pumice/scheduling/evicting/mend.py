"""The first step of every cycle: attempts that were cut short are finished, or given up whole.

An attempt is one gang's commit. Its id stands on every pod that it bound, and on the group once the gang has started. A gang with
bound members but no recorded start was cut short: by a crash, a refused bind, a node that vanished. Its missing members are
placed before other gangs may take their room; if that fails for longer than the grace time, its members are released.

A gang that has started is never touched here, whatever it lost since; nor are pods that another scheduler bound, nor pods without
a controller that would make them anew.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pumice import instant
from pumice.api import names
from pumice.api.scheduling import PodGroupPhase
from pumice.cluster.tasks import OCCUPYING, Status
from pumice.scheduling.core.codes import Code, Facts
from pumice.scheduling.core.decisions import Release
from pumice.scheduling.core.verdict import Cause

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from pumice.cluster.gangs import GangSpec
    from pumice.cluster.tasks import Task
    from pumice.instant import Instant
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.session import Session

LAST_CALL = 2  # grace times: a gang that is unfinished for so long is given up, whatever it waits for
REFUSAL_S = 30  # a node looks at a pod as soon as it is bound; a refusal that comes later is about something else
_STARTED = frozenset({PodGroupPhase.RUNNING.value, PodGroupPhase.UNKNOWN.value, PodGroupPhase.COMPLETED.value})
_ATTEMPT = re.compile(r"([0-9]{1,19})-[0-9a-z]+")


def attempt_id(now: Instant, nonce: str) -> str:
    """The id of a commit: when it was made, so that a new leader knows its age, and something unique."""
    return f"{now}-{nonce}"


def next_stamp(now: Instant, attempts: Iterable[str]) -> Instant:
    """The stamp of a gang's next attempt: later than that of all before, also where another leader's clock was ahead."""
    return max([now, *((attempt_started(attempt) or 0) + 1 for attempt in attempts)])


def attempt_started(attempt: str) -> Instant | None:
    """When an attempt was made; None for an id that is not ours."""
    match = _ATTEMPT.fullmatch(attempt)
    return int(match[1]) if match else None


def is_refused(task: Task) -> bool:
    """Whether its node found no room for a pod that we had bound there, and its controller may make it anew."""
    return (
        task.status is Status.FAILED
        and task.pod.is_refused
        and names.ATTEMPT in task.pod.metadata.annotations
        and task.pod.metadata.controller is not None
    )


def belies(recorded: str, tasks: Collection[Task], now: Instant) -> bool:
    """Whether the recorded start was none, because a node refused one of its members as soon as it was bound.

    Later a refusal means something else: an agent that was restarted looks at pods that have run for long as if they were new.
    Nor is it about the start where members of a much older attempt are there: the record is then that of a lost member's return.
    """
    run = attempt_started(recorded) or 0
    if not 0 <= now - run < REFUSAL_S * instant.SECOND:
        return False  # also where the stamp is of a clock that was ahead: its age is unknown
    has_veterans = any(
        task.status in OCCUPYING and 0 < (attempt_started(_note(task)) or 0) <= run - REFUSAL_S * instant.SECOND
        for task in tasks
    )
    return not has_veterans and any(is_refused(task) and _note(task) == recorded for task in tasks)


def has_started(spec: GangSpec, tasks: Sequence[Task], now: Instant) -> bool:
    """True once the gang has run as a whole; what its group has recorded of that outlives later changes of phase.

    A job that is restarted keeps its group, and with it the record of its former run: that counts only while a pod of that
    run is there.
    """
    recorded = spec.annotations.get(names.ATTEMPT)
    if recorded is not None and belies(recorded, tasks, now):
        return False
    if spec.phase in _STARTED:
        return True
    if recorded is None:
        return False
    run = attempt_started(recorded) or 0
    attempts = (_note(task) for task in tasks)
    return any(attempt == recorded or 0 < (attempt_started(attempt) or 0) <= run for attempt in attempts if attempt)


def _note(task: Task) -> str:
    return task.pod.metadata.annotations.get(names.ATTEMPT, "")


def members_to_mend(gang: GangState, now: Instant) -> list[Task]:
    """Members bound by an attempt of ours that never made the gang start; empty where there is nothing to mend."""
    if not gang.tally.occupying or has_started(gang.spec, gang.tasks, now):
        return []
    bound = gang.tasks_in(Status.BOUND, Status.RUNNING, Status.BINDING)
    return [task for task in bound if names.ATTEMPT in task.pod.metadata.annotations]


def gangs_to_mend(session: Session) -> list[GangState]:
    """Gangs to be mended, oldest attempt first."""
    found = [
        (min(_began(session, task) for task in members), gang.key)
        for gang in session.in_question
        if (members := members_to_mend(gang, session.now)) and not session.is_ready(gang)
    ]
    return [session.gangs[key] for _, key in sorted(found)]


def _began(session: Session, task: Task) -> Instant:
    """When its attempt was made; one from the future, by the clock of another machine, began when we first saw it."""
    attempt = _note(task)
    started = attempt_started(attempt) or 0
    return min(started, session.snapshot.seen_at.get(attempt, started))


def releases(session: Session, left: Sequence[GangState], *, grace_s: int) -> list[Release]:
    """Who of the gangs that could not be finished is given up now; they stand in the order of their attempts.

    One in a cycle, and that of the youngest attempt: its room may be all that the older ones lack. A gang whose missing members
    wait only for room that others are leaving is not given up at all. Both have an end: LAST_CALL.
    """
    chosen: list[Release] = []
    for gang in reversed(left):
        late = session.now - max(_began(session, task) for task in members_to_mend(gang, session.now))
        if late < grace_s * instant.SECOND:
            continue
        is_last_call = late >= LAST_CALL * grace_s * instant.SECOND
        if not is_last_call and (chosen or session.is_pipelined(gang)):
            continue
        release = _release(session, gang, grace_s)
        if release is not None:
            chosen.append(release)
    return chosen


def deadlines(session: Session, left: Sequence[GangState], *, grace_s: int) -> list[Instant]:
    """When the clock alone may change what `releases` and `belies` answer."""
    grace, now = grace_s * instant.SECOND, session.now
    youngest = [max(_began(session, task) for task in members_to_mend(gang, now)) for gang in left]
    refused = [
        attempt_started(gang.spec.annotations.get(names.ATTEMPT, "")) or 0
        for gang in session.restless
        if gang.tally[Status.FAILED] and any(is_refused(task) for task in gang.tasks)
    ]
    ends = [*(age + grace for age in youngest), *(age + LAST_CALL * grace for age in youngest)]
    return [end for end in (*ends, *(run + REFUSAL_S * instant.SECOND for run in refused)) if end > now]


def _release(session: Session, gang: GangState, grace_s: int) -> Release | None:
    """All members that can be released; None where there is none."""
    bound = tuple(
        task
        for task in members_to_mend(gang, session.now)
        if gang.status(task) in {Status.BOUND, Status.RUNNING} and task.pod.metadata.controller is not None
    )
    if not bound:
        return None
    facts = Facts(gang=gang.key, free=gang.tally.ready, wanted=gang.spec.min_member, seconds=grace_s)
    return Release(gang.key, bound, Cause(Code.RELEASED_INCOMPLETE, facts))


def releases_of_lost_members(session: Session) -> list[Release]:
    """Members that will never run where we have bound them, given back to their controllers so that these make new ones.

    A node refused them, or is no more. What a refusal has belied is first struck from the record (the report does that): without
    the refused pod it could not be seen any more that the gang had never been whole.
    """
    found = []
    for gang in session.restless:
        if not gang.tally[Status.FAILED] and not gang.tally[Status.UNKNOWN]:
            continue
        recorded, now = gang.spec.annotations.get(names.ATTEMPT, ""), session.now
        is_belied = belies(recorded, gang.tasks, now)
        refused = [task for task in gang.tasks if is_refused(task) and not (is_belied and _note(task) == recorded)]
        nowhere = [] if has_started(gang.spec, gang.tasks, now) else [task for task in gang.tasks if _is_nowhere(task)]
        if refused:
            found.append(Release(gang.key, tuple(refused), Cause(Code.RELEASED_NODE_FULL, Facts(gang=gang.key))))
        if nowhere:
            cause = Cause(Code.RELEASED_NODE_GONE, Facts(gang=gang.key))
            found.append(Release(gang.key, tuple(nowhere), cause, at_once=True))
    return found


def _is_nowhere(task: Task) -> bool:
    """Bound by us to a node that is gone; one that had run there is another matter."""
    is_bound = task.status is Status.UNKNOWN and task.pod.status.phase in {"", "Pending"}
    return is_bound and task.pod.metadata.controller is not None

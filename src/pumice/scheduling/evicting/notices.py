"""Notice: a victim that asks for it is told first, makes its work safe, and leaves then, or when its time is over.

    evict --> told (its room counts as leaving, and is held for the claimant) --answered, or time is over--> evicted
                    `------- the claimant needs it no longer -------> withdrawn: it stays

All victims of a plan go together: until the last of them has answered, the room is no use to the claimant. The notice stands on the pods
(`pumice.dev/eviction-notice`), so a scheduler that starts anew goes on where the last one stopped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pumice import instant
from pumice.api import disruptions, names
from pumice.cluster.tasks import OCCUPYING, Status
from pumice.scheduling.core.codes import Code, Facts
from pumice.scheduling.core.decisions import Evict, Notice
from pumice.scheduling.core.verdict import Cause
from pumice.scheduling.evicting import lost_work
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pumice.cluster.tasks import Task
    from pumice.instant import Duration, Instant
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.session import Session


class Outcome(Value):
    """Which pods go now, which are told that they will have to, and which stay after all."""

    evictions: tuple[Evict, ...]
    notices: tuple[Notice, ...]
    withdrawn: tuple[Task, ...]
    waits: Mapping[str, Duration]  # claimant -> how long its victims may stay


def settle(session: Session, decided: Sequence[Evict]) -> Outcome:
    """The evictions of this cycle, each plan at once or after notice, and what has become of earlier notices."""
    plans: dict[str, list[Evict]] = {}
    for each in decided:
        plans.setdefault(each.claimant or each.task.gang, []).append(each)
    now: list[Evict] = []
    told: list[Notice] = []
    waits: dict[str, Duration] = {}
    for key, plan in plans.items():
        gangs = {each.task.gang: session.gangs[each.task.gang] for each in plan}
        wait = max(session.points.notice.of(gang) or 0 for gang in gangs.values())
        if wait:
            waits[key] = wait
            told += _tell(session, plan, gangs.values(), session.now + wait)
        else:
            now += plan
    due, withdrawn = _earlier(session, {each.claimant for each in decided})
    return Outcome((*now, *due), tuple(told), tuple(withdrawn), waits)


def _tell(session: Session, plan: Sequence[Evict], gangs: Iterable[GangState], until: Instant) -> list[Notice]:
    """To the victims; and to the others of a gang that falls below its minimum, which loses all that it has done."""
    since, end = instant.format_instant(session.now), instant.format_instant(until + instant.SECOND - 1)
    found = [Notice(each.task, disruptions.Notice(since, end, each.story)) for each in plan]
    by_gang = {each.task.gang: each.story for each in plan}
    for gang in gangs:
        if gang.tally.ready < gang.minimum:
            about = disruptions.Notice(since, end, by_gang[gang.key], leaves=False)
            found += [Notice(task, about) for task in gang.tasks_in(*OCCUPYING) if _asks(task)]
    return found


# ------------------------------------------------------------------------------------------------- earlier notices


def claimants(session: Session) -> frozenset[str]:
    """Gangs for which others were told to leave, and have not been sent away yet."""
    return frozenset(
        notice.story.claimant.gang for task, notice in _noticed(session) if notice.leaves and _may_go(task)
    )


def _earlier(session: Session, claimants_now: set[str]) -> tuple[list[Evict], list[Task]]:
    """Who has to go now because it has answered or its time is over, and who may stay."""
    standing: dict[str, list[tuple[Task, disruptions.Notice]]] = {}
    withdrawn: list[Task] = []
    for task, notice in _noticed(session):
        claimant = notice.story.claimant.gang
        if claimant and claimant not in claimants_now and not _has_claim(session, claimant):
            withdrawn.append(task)
        else:
            standing.setdefault(claimant or task.gang, []).append((task, notice))
    due: list[Evict] = []
    for those in standing.values():
        leaving = [(task, notice) for task, notice in those if notice.leaves and _may_go(task)]
        end = max((instant.parse_instant(notice.until) for _, notice in leaving), default=0)
        if session.now >= end or all(_has_answered(task, notice) for task, notice in those if _asks(task)):
            due += [_evict(session, task, notice) for task, notice in leaving]
        else:
            session.changes_at.append(end)
    return due, withdrawn


def _noticed(session: Session) -> Iterable[tuple[Task, disruptions.Notice]]:
    for gang in session.restless:
        # Who has to leave counts as leaving; a gang that is all there, or all waiting, has no such member.
        placed = gang.gang.counts[Status.RELEASING] + sum(gang.gang.counts[status] for status in OCCUPYING)
        if not placed or gang.gang.counts[Status.RELEASING] == 0 == len(gang.tasks) - placed:
            continue
        for task in gang.tasks:
            if names.EVICTION_NOTICE in task.pod.metadata.annotations and task.status in {*OCCUPYING, Status.RELEASING}:
                notice = disruptions.notice_of(task.pod)
                if notice is not None:
                    yield task, _with_claimant(session, notice)


def _with_claimant(session: Session, notice: disruptions.Notice) -> disruptions.Notice:
    """A pod of another namespace knows it by its uid alone; one that is gone has that for a name, and no claim."""
    party = notice.story.claimant
    if party.gang or not party.uid:
        return notice
    gang = next((each for each in session.gangs.values() if each.uid == party.uid), None)
    if gang is None:
        whole = msgspec.structs.replace(party, gang=party.uid)
    else:
        whole = msgspec.structs.replace(party, gang=gang.key, job=gang.spec.job, user=gang.spec.user)
    return msgspec.structs.replace(notice, story=msgspec.structs.replace(notice.story, claimant=whole))


def _has_claim(session: Session, claimant: str) -> bool:
    return claimant in session.snapshot.claims and claimant not in session.reserved_room.ended


def _may_go(task: Task) -> bool:
    """Whether it has not been deleted yet."""
    return task.status is Status.RELEASING and task.pod.metadata.deletion_timestamp is None


def _asks(task: Task) -> bool:
    return names.CHECKPOINT_SIGNAL in task.pod.metadata.annotations


def _has_answered(task: Task, notice: disruptions.Notice) -> bool:
    """Whether it has made its work safe since it was told."""
    at = lost_work.checkpointed(task)
    return at is not None and at >= instant.parse_instant(notice.since)


def _evict(session: Session, task: Task, notice: disruptions.Notice) -> Evict:
    gang = session.gangs[task.gang]
    left, least = gang.tally.ready, gang.minimum
    code = Code.VICTIM_BREAKS_GANG if left < least else Code.VICTIM_SPARED_BY_GANG
    cause = Cause(code, Facts(gang=gang.key, free=left, wanted=least))
    lost = lost_work.lost(task, session.now) // instant.SECOND
    story = msgspec.structs.replace(notice.story, code=code.value, why=cause.text, lost_seconds=lost)
    return Evict(task, story.rule, story.claimant.gang, cause, story, after_notice=True)

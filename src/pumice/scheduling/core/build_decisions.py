"""The end of a cycle: operations become decisions, and every gang gets its phase, conditions and reasons."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from pumice import instant
from pumice.api.changes import Claim
from pumice.api.scheduling import ROOT_QUEUE, PodGroupConditionType, PodGroupPhase
from pumice.cluster import amounts
from pumice.cluster.tasks import Status
from pumice.scheduling.core import idle, messages, verdict
from pumice.scheduling.core.codes import DEADLOCKS, Code, Facts
from pumice.scheduling.core.decisions import (
    Bind,
    Condition,
    Decisions,
    Evict,
    GangCommit,
    GangReport,
    GangSummary,
    ShapeRoom,
    Shortage,
)
from pumice.scheduling.core.failures import BadAnswer
from pumice.scheduling.core.statement import Eviction, Placement
from pumice.scheduling.evicting import backoff, deadlocks, history, mend, moving, notices
from pumice.scheduling.evicting.stories import Stories
from pumice.scheduling.placing import feasibility
from pumice.scheduling.sharing import holdings
from pumice.scheduling.time import accuracy, run_times

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from pumice.cluster.amounts import Amounts
    from pumice.cluster.gangs import Gang, GangSpec
    from pumice.instant import Instant
    from pumice.scheduling.core.decisions import Expected
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.memory import Slot
    from pumice.scheduling.core.plugin import Plugin
    from pumice.scheduling.core.session import Session

# Memory of the engine itself, and how each slot's next value is found; plugins declare their own.
OWN_MEMORY: tuple[tuple[Slot[Any], Callable[[Session], msgspec.Struct]], ...] = (
    (backoff.SLOT, backoff.next_value),
    (run_times.SLOT, run_times.next_value),
    (accuracy.SLOT, accuracy.next_errors),
    (accuracy.SCORE, accuracy.next_score),
    (moving.SLOT, moving.next_value),
    (history.SLOT, history.next_value),
    (deadlocks.SLOT, deadlocks.next_value),
)
CLAIM_SECONDS = 300  # the longest that evicted pods may take to leave before their room is free for all gangs again
_RUNNING = PodGroupPhase.RUNNING.value
_RUNS = frozenset({_RUNNING, PodGroupPhase.UNKNOWN.value})
_READY = (Condition(PodGroupConditionType.SCHEDULED.value, True, "tasks in gang are ready to be scheduled"),)


def close(session: Session) -> Decisions:
    session.points.close.tell()
    names = session.room.table.names
    pipelined = {
        task.key: names[node]
        for gang in session.restless
        for task, (status, node) in gang.places.items()
        if status is Status.PIPELINED
    }
    _give_up_hopes(session)
    outcome = notices.settle(session, _evictions(session))
    claims = _claims(session, outcome)
    memory, refused = session.memory.after(_learned(session))
    reports = _reports(session)
    return Decisions(
        commits=_commits(session),
        evictions=outcome.evictions,
        notices=outcome.notices,
        withdrawn=outcome.withdrawn,
        rings=history.rings_of(session),
        claims=claims,
        unclaims=dict(session.reserved_room.ended),
        admitted=_admitted(session, reports),
        releases=tuple(session.releases),
        ungated=tuple(session.ungated),
        pipelined=pipelined,
        gangs=reports,
        queues=_allocated_by_queue(session) if session.explain else {},
        figures=dict(session.figures),
        shares=dict(session.shares),
        factors=dict(session.factors),
        factor_weights=dict(session.factor_weights),
        usage=dict(session.usage),
        stranded=idle.stranded(session, (room for gang in session.restless for room in reports[gang.key].room))
        if session.explain
        else (),
        unfinished=session.budget <= 0,
        next_change=_next_change(session, claims),
        memory=memory,
        refused_memory=refused,
        metrics={
            metric.name: session.published.get(metric.name, {})
            for plugin in session.plugins
            for metric in plugin.metrics
        },
        failures=session.aside.failures,
        orphans=messages.orphan_verdicts(session.snapshot.orphans),
    )


def _learned(session: Session) -> list[tuple[Slot[Any], msgspec.Struct]]:
    """What the next cycle is to know, slot by slot."""
    learned = [(slot, next_value(session)) for slot, next_value in OWN_MEMORY]
    for plugin in session.plugins:
        value = plugin.learn(session)
        if value is not None:
            if plugin.memory is None:
                raise BadAnswer(plugin, "learns something and declares no memory")
            learned.append((plugin.memory, value))
    return learned


def _next_change(session: Session, claims: Sequence[Claim]) -> Instant | None:
    """When the clock alone may change a decision; None where only news can. What the budget cut off is told by `unfinished`."""
    times = [
        *session.changes_at,
        *(claim.until for claim in claims),
        *(claim.until for gang, claim in session.snapshot.claims.items() if gang not in session.reserved_room.ended),
        *(resting.until for gang, resting in session.ports.resting.items() if gang in session.gangs),
        *(when for plugin in session.plugins if (when := _changes_next(session, plugin)) is not None),
    ]
    return min(times, default=None)


def _changes_next(session: Session, plugin: Plugin) -> Instant | None:
    when: object = plugin.next_change(session)
    if when is None or isinstance(when, int):
        return when
    raise BadAnswer(plugin, f"says {when!r} where an Instant tells when it changes its mind")


def _give_up_hopes(session: Session) -> None:
    """Places of gangs that cannot start as a whole are no promises: their pods wait, and are told so."""
    for statement in session.hopes():
        statement.rollback(remember=True)


def _commits(session: Session) -> tuple[GangCommit, ...]:
    binds: dict[str, list[Bind]] = {}
    names, points = session.room.table.names, session.points
    for operation, _ in session.accepted:
        if isinstance(operation, Placement) and operation.status is Status.ALLOCATED:
            own = binds.setdefault(operation.gang.key, [])
            own += [
                Bind(
                    task,
                    names[node],
                    points.prebind.of(task),
                    points.annotate.of(task),
                    points.node_lock.of(task) or "",
                )
                for task, node in zip(operation.tasks, operation.nodes, strict=True)
            ]
    return tuple(
        GangCommit(key, tuple(own), session.gangs[key].spec.min_member, mends=key in session.mended)
        for key, own in binds.items()
    )


def _evictions(session: Session) -> tuple[Evict, ...]:
    evictions = [(each, claimant) for each, claimant in session.accepted if isinstance(each, Eviction)]
    if not evictions:
        return ()
    stories, found = Stories(session), []
    for operation, claimant in evictions:
        assert operation.cause is not None, f"nothing says why {operation.task.key} has to go"
        key = claimant.key if claimant is not None else ""
        story = stories.story(operation.task, operation.rule, operation.cause, claimant)
        found.append(Evict(operation.task, operation.rule, key, operation.cause, story))
    return tuple(found)


def _claims(session: Session, outcome: notices.Outcome) -> tuple[Claim, ...]:
    """Room that evictions make belongs to the gangs that it was made for, until they have it or time is up."""
    victims: dict[str, list[str]] = {}
    for operation, claimant in session.accepted:
        if isinstance(operation, Eviction) and claimant is not None:
            victims.setdefault(claimant.key, []).append(operation.task.uid)
    names = session.room.table.names
    claims = []
    for key, uids in victims.items():
        places = session.gangs[key].places.items()
        own = tuple((task.uid, names[node]) for task, (status, node) in places if status is Status.PIPELINED)
        until = session.now + outcome.waits.get(key, 0) + CLAIM_SECONDS * instant.SECOND
        claims.append(Claim(gang=key, places=own, victims=tuple(uids), until=until))
    return tuple(claims)


def _admitted(session: Session, reports: Mapping[str, GangReport]) -> dict[str, str]:
    """Gangs that waited for their admission before this cycle, and do so no longer."""
    waited = PodGroupPhase.PENDING.value
    return {
        gang.key: gang.spec.uid
        for gang in session.restless
        if gang.spec.phase == waited and reports[gang.key].phase != waited
    }


def _reports(session: Session) -> dict[str, GangReport]:
    """Of all gangs in the snapshot's order. Steady ones of which nobody has spoken have the report that they had, which is left out
    where nobody reads it.
    """
    positions = _positions(session) if session.explain else {}
    found = {}
    for key, gang in _to_report(session).items():
        if (failure := session.aside.gangs.get(key) or session.closed_by) is not None:
            found[key] = _report_aside(gang, failure.reason)
        elif not session.explain and (not gang.tally[Status.RUNNING] or _is_ready(session, gang)):
            found[key] = _report_phase(session, gang)
        elif not (gang.gang.is_steady and _goes_on(session, gang)):
            with session.turn_of(gang):
                found[key] = _report(session, gang, positions.get(key, 0))
    if not session.explain:
        news = session.steady.sum(_NewlySteady).gangs
        return {**{key: _report_steady(gang, None) for key, gang in news.items()}, **found}
    return session.steady.sum(_SteadyReports).beside(found, session.snapshot.gangs, session.expected)


def _to_report(session: Session) -> dict[str, GangState]:
    """Gangs of which there may be something to say."""
    if session.closed_by is not None or not session.points.ready.holds_of_steady:
        return {**session.gangs, **session.stranded}
    aside = (session.gangs[key] for key in session.aside.gangs if key in session.gangs)
    told = (session.gangs[key] for key in session.reservations if key in session.gangs)
    return {gang.key: gang for gang in (*session.gangs.spoken_of, *aside, *told, *session.stranded.values())}


def _goes_on(session: Session, gang: GangState) -> bool:
    """Whether there is nothing to say of the gang but that it runs, as it did when the cycle began."""
    if gang.version or gang.reasons or gang.fit_errors or gang.key not in session.gangs:
        return False
    if gang.key in session.reservations or not session.points.ready.hooks:
        return False
    with session.turn_of(gang):
        return session.is_ready(gang)


class _NewlySteady:
    """Gangs that run and are whole, and whose groups do not say so yet."""

    def __init__(self) -> None:
        self.gangs: dict[str, Gang] = {}

    def add(self, gang: Gang, sign: int) -> None:
        if sign < 0:
            self.gangs.pop(gang.key, None)
        elif gang.spec.phase != PodGroupPhase.RUNNING.value:
            self.gangs[gang.key] = gang


class _SteadyReports:
    """Reports of gangs that run and are whole (core/steady.py): each follows from the gang and what is expected of it."""

    def __init__(self) -> None:
        self._reports: dict[str, GangReport] = {}
        self._unreported: dict[str, Gang] = {}
        self._expected: tuple[list[str], list[Expected]] = ([], [])  # as of the last time
        self._told: dict[str, GangReport] = {}  # the last time, of all gangs
        self._others: Collection[str] = ()  # of these by others

    def add(self, gang: Gang, sign: int) -> None:
        self._reports.pop(gang.key, None)
        self._unreported.pop(gang.key, None)
        if sign > 0:
            self._unreported[gang.key] = gang

    def beside(
        self, others: Mapping[str, GangReport], gangs: Iterable[str], expected: Mapping[str, Expected]
    ) -> dict[str, GangReport]:
        """These and the others, in the order of the gangs. What was told the last time is copied, and only what is new is put into it."""
        news, reports, order = self._bring_up_to_date(expected), self._reports, list(gangs)
        if order == list(self._told):
            told = self._told.copy()
            told.update({key: reports[key] for key in (*self._others, *news) if key in reports})
            told.update(others)
        else:
            told = {key: others[key] if key in others else reports[key] for key in order}
        self._told, self._others = told, others.keys()
        return told

    def _bring_up_to_date(self, expected: Mapping[str, Expected]) -> list[str]:
        """Whose reports are new. What is expected of gangs that outlive it moves with the clock, and nothing else is said anew of them."""
        reports, news = self._reports, list(self._unreported)
        for key, gang in self._unreported.items():
            reports[key] = _report_steady(gang, expected.get(key))
        self._unreported.clear()
        for key in self._moved_ends(expected):
            report, now = reports.get(key), expected.get(key)
            if report is not None and report.expected is not now and report.expected != now:
                reports[key] = msgspec.structs.replace(report, expected=now)
                news.append(key)
        return news

    def _moved_ends(self, expected: Mapping[str, Expected]) -> Collection[str]:
        """Gangs of which something else may be expected than the last time."""
        keys, ends = list(expected), list(expected.values())
        (former_keys, former_ends), self._expected = self._expected, (keys, ends)
        if keys != former_keys:
            return list(self._reports)
        if ends == former_ends:
            return ()
        return [key for key, former, end in zip(keys, former_ends, ends, strict=True) if former is not end]


def _report_steady(gang: Gang, expected: Expected | None) -> GangReport:
    """As `_report`, of a gang that goes on."""
    return GangReport(
        gang=gang.key,
        phase=_RUNNING,
        running=gang.counts[Status.RUNNING],
        succeeded=0,
        failed=0,
        conditions=(*_conditions_of_ready(gang.spec), *_deadlocked(gang.spec, ())) if gang.spec.conditions else _READY,
        why=None,
        reasons=(),
        pods=(),
        uid=gang.spec.uid,
        expected=expected,
    )


def _report_aside(gang: GangState, why: verdict.Reason) -> GangReport:
    """What can be said of a gang on which a plugin failed, without asking any plugin about it."""
    waits = gang.tally[Status.PENDING] > 0 or gang.is_waiting_for_admission
    shortage = Shortage(gang.tally[Status.PENDING], len(gang.tasks), why)
    unschedulable = Condition(PodGroupConditionType.UNSCHEDULABLE.value, True, "NotEnoughResources", shortage)
    return GangReport(
        gang=gang.key,
        phase=gang.phase or PodGroupPhase.PENDING.value,
        running=gang.tally[Status.RUNNING],
        succeeded=gang.tally[Status.SUCCEEDED],
        failed=gang.tally[Status.FAILED],
        conditions=(unschedulable,) if waits else (),
        why=shortage,
        reasons=(why,),
        pods=(),
        uid=gang.spec.uid,
    )


def _report_phase(session: Session, gang: GangState) -> GangReport:
    """As far as the next cycle depends on it, for a gang that does not run, or is ready: whether it waits for admission or for room.

    Of a gang that holds nothing and that nothing has moved it is the same in every cycle; thousands may wait.
    """
    if gang.version or gang.tally.occupying:
        return _phase_told(session, gang)
    known, key = gang.gang.known, (_report_phase, gang.key in session.made_room_for)
    if key not in known:
        known[key] = _phase_told(session, gang)
    report: GangReport = known[key]
    return report


def _phase_told(session: Session, gang: GangState) -> GangReport:
    phase = _phase(gang, unschedulable=False, promised=gang.key in session.made_room_for, now=session.now)
    tally = gang.tally
    return GangReport(
        gang=gang.key,
        phase=phase,
        running=tally[Status.RUNNING],
        succeeded=tally[Status.SUCCEEDED],
        failed=tally[Status.FAILED],
        conditions=(),
        why=None,
        reasons=(),
        pods=(),
        uid=gang.spec.uid,
    )


def _report(session: Session, gang: GangState, position: int) -> GangReport:
    has_queue = gang.key in session.gangs
    ready = has_queue and session.is_ready(gang)
    hopeless = feasibility.never(session, gang) if has_queue and not ready else None
    if hopeless is not None:
        gang.reasons.insert(0, hopeless)
    if not gang.tasks and gang.phase == PodGroupPhase.INQUEUE.value and gang.minimum > 0:
        facts = Facts(wanted=gang.minimum)
        gang.reasons.append(verdict.Reason(Code.NO_PODS, "gang", facts, cure=verdict.Cure.WAITING))
    room = feasibility.room_for(session, gang) if has_queue and gang.gang.counts[Status.PENDING] else ()
    if not _is_untouched(session, gang):
        return _written(session, gang, position, room, ready=ready, hopeless=hopeless is not None)
    exceeds = has_queue and feasibility.exceeds_queue(session, gang)
    said = (
        tuple(gang.reasons),
        dict(gang.fit_errors),
        session.reservations.get(gang.key),
        session.expected.get(gang.key),
    )
    basis = *said, room, has_queue, ready, hopeless, exceeds, bool(session.points.ready.hooks)
    known: object
    report: GangReport | None
    known, report = gang.gang.known.get(_report, (None, None))
    if report is None or known != basis:
        report = _written(session, gang, position, room, ready=ready, hopeless=hopeless is not None)
    elif report.position != position:
        report = msgspec.structs.replace(report, position=position)
    gang.gang.known[_report] = (basis, report)
    return report


def _is_ready(session: Session, gang: GangState) -> bool:
    with session.turn_of(gang):
        return gang.key in session.gangs and session.is_ready(gang)


def _is_untouched(session: Session, gang: GangState) -> bool:
    """Whether the gang waits as it did when the cycle began, and holds nothing: its report follows from what was said of it."""
    is_idle = not gang.version and not gang.last_tries and not gang.tally.occupying
    return is_idle and gang.key not in session.made_room_for


def _written(
    session: Session, gang: GangState, position: int, room: tuple[ShapeRoom, ...], *, ready: bool, hopeless: bool
) -> GangReport:
    has_queue = gang.key in session.gangs
    why: GangSummary | verdict.Reason | None = next(iter(gang.reasons), None)
    if gang.tasks and not ready and has_queue:
        why = messages.summary(session, gang)
    conditions = (*_conditions(session, gang, why, ready=ready), *_deadlocked(gang.spec, gang.reasons))
    return GangReport(
        gang=gang.key,
        phase=_phase(
            gang,
            unschedulable=any(each.type == "Unschedulable" and each.status for each in conditions),
            promised=gang.key in session.made_room_for,
            now=session.now,
        ),
        running=gang.tally[Status.RUNNING],
        succeeded=gang.tally[Status.SUCCEEDED],
        failed=gang.tally[Status.FAILED],
        conditions=conditions,
        why=Shortage(gang.tally[Status.PENDING], len(gang.tasks), why) if why is not None else None,
        reasons=_reasons(session, gang, hopeless=hopeless),
        pods=tuple(messages.pod_verdicts(session, gang, why)) if has_queue else (),
        uid=gang.spec.uid,
        room=room,
        position=position,
        reservation=session.reservations.get(gang.key),
        expected=session.expected.get(gang.key),
    )


def _positions(session: Session) -> dict[str, int]:
    """Where each waiting gang stands in its queue, from 1, in the order in which actions ask."""
    lines: dict[str, list[GangState]] = {}
    for gang in session.restless:
        waits = gang.tally[Status.PENDING] or gang.tally[Status.PIPELINED] or gang.is_waiting_for_admission
        if waits and gang.key not in session.aside.gangs:
            lines.setdefault(gang.queue, []).append(gang)
            with session.turn_of(gang):
                session.gang_key(gang)
    found = {}
    for line in lines.values():
        line.sort(key=lambda gang: (session.gang_key(gang), gang.spec.created, gang.key))
        found.update({gang.key: number for number, gang in enumerate(line, start=1)})
    return found


def _reasons(session: Session, gang: GangState, *, hopeless: bool) -> tuple[verdict.Reason, ...]:
    own = [reason for error in gang.fit_errors.values() for reason in error.reasons]
    said = list(verdict.merge_reasons([*gang.reasons, *own]))
    placed = gang.tally[Status.PIPELINED]
    if placed and (not said or gang.key in session.made_room_for):  # what was said before room was made no longer holds
        facts = Facts(free=placed, wanted=len(gang.tasks))
        said = [verdict.Reason(Code.PLACES_PROMISED, "claims", facts, cure=verdict.Cure.WAITING)]
    found = [*_gates(gang), *said]
    if found and (hopeless or (gang.key in session.gangs and feasibility.exceeds_queue(session, gang))):
        # Neither time nor evictions help.
        found = [msgspec.structs.replace(each, cure=verdict.Cure.CHANGE) for each in found]
    return tuple(found)


def _gates(gang: GangState) -> list[verdict.Reason]:
    """Members that wait behind a gate, which plugins are never asked about."""
    if not gang.tally[Status.PENDING]:
        return []
    gates = Counter(name for task in gang.tasks_in(Status.PENDING) for name in task.gates)
    return [
        verdict.Reason(Code.GATED, "gates", Facts(name=name, free=count, wanted=len(gang.tasks)))
        for name, count in gates.items()
    ]


def _conditions(
    session: Session, gang: GangState, why: GangSummary | verdict.Reason | None, *, ready: bool
) -> tuple[Condition, ...]:
    """What holds now, both ways: a gang that became ready is told so by Unschedulable=False as well."""
    if not gang.tasks:
        return _conditions_before_pods(gang, why)
    if not session.points.ready.hooks and gang.key in session.gangs:
        return ()
    if ready:
        return _conditions_of_ready(gang.spec)
    unschedulable, scheduled = PodGroupConditionType.UNSCHEDULABLE.value, PodGroupConditionType.SCHEDULED.value
    was = {condition.type for condition in gang.spec.conditions}
    tally = gang.tally
    leaving = tally[Status.RELEASING] and not tally[Status.PENDING] and not tally[Status.PIPELINED]
    if leaving and _scheduled_count(gang) >= gang.spec.min_member:
        return ()  # it is only on its way out
    assert why is not None, f"nothing is said of {gang.key}, which cannot start"
    shortage = Shortage(messages.unschedulable(gang), len(gang.tasks), why)
    found = [Condition(unschedulable, True, "NotEnoughResources", shortage)]
    if scheduled in was:
        found.append(Condition(scheduled, False, "NotEnoughResources", shortage))
    return tuple(found)


def _deadlocked(spec: GangSpec, reasons: Sequence[verdict.Reason]) -> tuple[Condition, ...]:
    """Whether the gang holds what others could start with while it waits itself, or did; both ways, once it was told."""
    kind = PodGroupConditionType.DEADLOCKED.value
    why = next((each for each in reasons if each.code in DEADLOCKS or each.code is Code.QUOTA_GIVEN_BACK), None)
    if why is not None:
        return (Condition(kind, why.code in DEADLOCKS, why.code.value, Shortage(0, 0, why)),)
    was = any(each.type == kind for each in spec.conditions)
    return (Condition(kind, False, "Resolved"),) if was else ()


def _conditions_of_ready(spec: GangSpec) -> tuple[Condition, ...]:
    unschedulable = PodGroupConditionType.UNSCHEDULABLE.value
    if any(condition.type == unschedulable for condition in spec.conditions):
        return (*_READY, Condition(unschedulable, False, _READY[0].reason))
    return _READY


def _conditions_before_pods(gang: GangState, why: GangSummary | verdict.Reason | None) -> tuple[Condition, ...]:
    """A group that waits for its admission, or for its members, has nothing but its reason to show."""
    is_admitted = gang.phase == PodGroupPhase.INQUEUE.value
    if why is None or not (is_admitted or gang.is_waiting_for_admission):
        return ()
    reason = "NotEnoughTasks" if is_admitted else "NotEnoughResources"
    return (Condition(PodGroupConditionType.UNSCHEDULABLE.value, True, reason, Shortage(0, 0, why)),)


def _scheduled_count(gang: GangState) -> int:
    tally = gang.tally
    leaving = sum(bool(task.node) for task in gang.tasks_in(Status.RELEASING))
    counted = (Status.RUNNING, Status.BOUND, Status.FAILED, Status.SUCCEEDED)
    refused = sum(mend.is_refused(task) for task in gang.tasks_in(Status.FAILED))  # they are to be made anew
    return sum(tally[status] for status in counted) + leaving - refused


def _phase(gang: GangState, *, unschedulable: bool, promised: bool, now: Instant) -> str:
    """`promised`: others leave for this gang, so it need not ask for admission again."""
    tally = gang.tally
    finished = tally[Status.SUCCEEDED] + tally[Status.FAILED]
    if gang.phase == PodGroupPhase.COMPLETED.value and finished == len(gang.tasks):
        return gang.phase  # finished stays finished, also while its pods are cleaned up
    # What was cut short has never started: to call it Unknown would be to say that it had, and it would not be mended.
    if tally[Status.RUNNING] and unschedulable and not mend.members_to_mend(gang, now):
        return PodGroupPhase.UNKNOWN.value
    scheduled = _scheduled_count(gang)
    if not gang.tasks and gang.spec.min_member == 0:
        return PodGroupPhase.COMPLETED.value  # it asks for nothing; with its first pod it waits like any other
    if scheduled >= max(gang.spec.min_member, 1):  # with minMember 0 nothing at all would do, and look completed
        return PodGroupPhase.COMPLETED.value if scheduled == finished else PodGroupPhase.RUNNING.value
    is_whole_again = tally[Status.RUNNING] and tally.ready >= gang.spec.min_member and gang.phase in _RUNS
    if is_whole_again and not mend.members_to_mend(gang, now):
        return gang.phase  # a lost member is on its way back: a gang that runs need not be admitted a second time
    # What was begun has been admitted: controllers make members anew only of what is.
    is_admitted = gang.phase == PodGroupPhase.INQUEUE.value or promised or mend.members_to_mend(gang, now)
    return PodGroupPhase.INQUEUE.value if is_admitted else PodGroupPhase.PENDING.value


def _allocated_by_queue(session: Session) -> dict[str, Amounts]:
    """What each queue holds, with all that its descendants hold; room that is only kept for a gang does not count yet."""
    totals: dict[str, amounts.MutableAmounts] = {name: {} for name in session.queues}
    own_of = {queue: held.total() for queue, held in holdings.as_of_now(session)}
    for placement in (each for statement in session.kept for each in statement.placements):
        if placement.status is Status.ALLOCATED:
            amounts.add(own_of[placement.gang.queue], placement.shape.request.amounts, -len(placement.tasks))
    for queue, held in own_of.items():
        name, seen = queue, set[str]()
        while name in totals and name not in seen:
            amounts.add(totals[name], held)
            seen.add(name)
            name = session.queues[name].parent or (ROOT_QUEUE if name != ROOT_QUEUE else "")
    return dict(totals)

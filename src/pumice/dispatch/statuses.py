"""What users read: phases, conditions and reasons on groups, conditions on pods, holdings on queues; written once per change.

Everything is compared with what stands in the API server, so that nothing is written twice; what it answers is known at once, however late the
watch is. A gang whose members are still being created is left alone until no more of them come, and numbers alone are written when they have come to rest. Reasons are compared as data, by their
topics: what stays equal while only numbers change. The PodGroup's verdict tells what was written before a restart.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from pumice import instant
from pumice.api import changes, names
from pumice.api.scheduling import PodGroup, PodGroupConditionType, PodGroupPhase
from pumice.cluster.tasks import Status
from pumice.dispatch import discretion, forming, reservation_note
from pumice.dispatch.pod_conditions import PodConditions
from pumice.dispatch.queue_holdings import QueueHoldings
from pumice.dispatch.topics import Topics, verdict_of
from pumice.kube import errors
from pumice.kube.requests import PatchType
from pumice.scheduling.core.codes import Code
from pumice.scheduling.core.verdict import encode
from pumice.scheduling.evicting import mend

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from pumice.cluster.state import Cluster
    from pumice.cluster.tasks import Task
    from pumice.instant import Instant
    from pumice.kube.client import Client
    from pumice.kube.recorder import Recorder
    from pumice.runtime import Runtime
    from pumice.scheduling.core.decisions import Decisions, GangReport, PodVerdict

# Members of a gang that get an event when its reason changes (ADR 0026); all of them get the condition.
POD_EVENTS_MAX = 3
QUIET_S = 2.0  # numbers that have not changed for so long have come to rest
NUMBERS_S_MAX = 30.0  # how long they may be out of date while they never rest: thousands of pods start for so long
WRITES_AT_ONCE = 32
_WAITING = frozenset({PodGroupPhase.PENDING.value, PodGroupPhase.INQUEUE.value})
_STARTING = frozenset({Status.BINDING, Status.BOUND})
_MISSING = frozenset({Code.NO_PODS, Code.PODS_MISSING, Code.TASK_PODS_MISSING, Code.SUB_GROUPS_MISSING})


class _Unrest(NamedTuple):
    """Numbers that differ from what is written: since when some have, and when they last changed."""

    numbers: tuple[object, ...]
    since: float
    changed: float


class Statuses:
    """Writes what differs; belongs to one event loop."""

    def __init__(
        self,
        client: Client,
        cluster: Cluster,
        learn: Callable[[changes.Change], None],
        recorder: Recorder,
        runtime: Runtime,
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._learn = learn
        self._recorder = recorder
        self._clock = runtime.clock
        self._log = runtime.log
        self._fail_point = runtime.fail_point
        self._window = asyncio.Semaphore(WRITES_AT_ONCE)
        self.unwritten = False  # something could not be written yet, or not so soon again: ask once more
        self._forms_until: Instant | None = None  # when something is to be said of a gang whose members do not come
        self._queues = QueueHoldings(client, cluster, runtime)
        self._unrest: dict[str, _Unrest] = {}  # gang -> numbers that are not written yet
        self._told: dict[str, Hashable] = {}  # gang -> the topic of the event that was last recorded for it
        self._topics = Topics()
        self._arrivals = forming.Arrivals()
        # Gangs that run, whose group says what the report says.
        self._settled: dict[str, tuple[GangReport, PodGroup]] = {}
        self._pods = PodConditions(client, cluster, learn, self._topics, runtime)

    @property
    def remembered_pods(self) -> int:
        """How many pods are known to have been told why they wait."""
        return self._pods.remembered

    @property
    def again_at(self) -> Instant | None:
        """When there will be something to say that is not said yet."""
        return min(filter(None, (self._forms_until, self._pods.again_at)), default=None)

    async def write(self, decisions: Decisions) -> None:
        """Bring the API server in step with the decisions' reports."""
        self.unwritten = self._queues.postponed = self._pods.failed = False
        self._forms_until = self._pods.again_at = None
        live = {*decisions.gangs, *decisions.orphans}
        self._topics.begin(live)
        for known in (self._told, self._unrest, self._settled):
            for forgotten in [key for key in known if key not in live]:
                del known[forgotten]
        self._pods.forget(decisions)
        self._note_arrivals(decisions)
        async with asyncio.TaskGroup() as group:
            for report in decisions.gangs.values():
                await self._write_gang(group, report)
            for key, verdicts in decisions.orphans.items():
                await self._write_orphans(group, key, verdicts)
            for name, allocated in decisions.queues.items():
                status = self._queues.due(name, allocated)
                if status is not None:
                    await self._window.acquire()
                    group.create_task(self._write_queue(name, status))
        self.unwritten |= self._queues.postponed or self._pods.failed

    async def _write_gang(self, group: asyncio.TaskGroup, whole: GangReport) -> None:
        is_settled = self._is_settled(whole)
        if is_settled and not whole.pods:
            return
        report = discretion.of_gang(whole.gang).report(whole)
        patch = None if is_settled else self._group_patch(report)
        if patch is not None:
            await self._window.acquire()
            group.create_task(self._write_group(report, patch))
        for verdict in report.pods if report.pods and not self._is_forming(report) else ():
            if self._pods.differs(verdict, report):
                await self._window.acquire()
                group.create_task(self._write_pod(verdict))

    # ------------------------------------------------------------------------------------------------- groups

    def _is_settled(self, report: GangReport) -> bool:
        """Whether this very report was compared with the group as it stands: of gangs that run most are as they were."""
        known, group = self._settled.get(report.gang), self._cluster.group_of(report.gang)
        return known is not None and known[0] is report and known[1] is group

    def _group_patch(self, report: GangReport) -> dict[str, Any] | None:
        """The merge patch that makes the PodGroup say what the report says; None where it does already."""
        group = self._cluster.group_of(report.gang)
        if group is None:
            return None
        if report.uid != group.metadata.uid:
            self.unwritten = True  # what was true of the group before it would admit this one unasked
            return None
        status = group.status
        is_admitted = report.phase == PodGroupPhase.INQUEUE.value
        if is_admitted and self._is_forming(report):
            # its admission alone is worth a word
            admission = {"metadata": _as_looked_at(group), "status": {"phase": report.phase}}
            return admission if status.phase != report.phase else None
        patch: dict[str, Any] = {}
        # A gang whose binds are under way says that it no longer waits together with Running: one write instead of two.
        is_starting = is_admitted and _is_scheduled(report)
        conditions = None if is_starting else self._merged_conditions(group, report)
        if conditions is not None:
            patch["conditions"] = conditions
        wanted = {name: getattr(report, name) for name in ("phase", "running", "succeeded", "failed")}
        changed = {name: value for name, value in wanted.items() if getattr(status, name) != value}
        # A group that has a controller is mostly deleted by it when all is done.
        waits = "phase" not in changed or (
            report.phase == PodGroupPhase.COMPLETED.value and group.metadata.controller is not None
        )
        annotations = {} if is_starting else self._annotations(group, report)
        if changed and (patch or annotations or not waits or self._are_at_rest(report.gang, tuple(wanted.values()))):
            patch.update(changed)
            self._unrest.pop(report.gang, None)
        if not patch and not annotations:
            if not changed and report.phase == PodGroupPhase.RUNNING.value:
                self._settled[report.gang] = report, group
            return None
        return {
            "metadata": {**_as_looked_at(group), **({"annotations": annotations} if annotations else {})},
            **({"status": patch} if patch else {}),
        }

    def _are_at_rest(self, gang: str, numbers: tuple[object, ...]) -> bool:
        """Whether numbers have stayed the same for a while, or have been out of date for too long; else they are asked for again."""
        now = self._clock.monotonic()
        known = self._unrest.get(gang)
        if known is None or known.numbers != numbers:
            since = now if known is None else known.since
            known = self._unrest[gang] = _Unrest(numbers, since, now)
        # While members are bound and do not run yet, the numbers will change, however long that takes.
        is_quiet = now - known.changed >= QUIET_S and not self._is_starting(gang)
        rested = is_quiet or now - known.since >= NUMBERS_S_MAX
        self.unwritten |= not rested
        return rested

    def _is_starting(self, gang: str) -> bool:
        return any(task.status in _STARTING for task in self._cluster.gangs[gang].tasks.values())

    def _note_arrivals(self, decisions: Decisions) -> None:
        waiting = (each.gang for each in decisions.gangs.values() if each.phase in _WAITING or each.pods)
        slots = (self._cluster.gangs[gang] for gang in waiting if gang in self._cluster.gangs)
        self._arrivals.note(
            ((slot.group, len(slot.tasks)) for slot in slots if isinstance(slot.group, PodGroup)), self._clock.now()
        )

    def _is_forming(self, report: GangReport) -> bool:
        group = self._cluster.group_of(report.gang)
        if group is None:
            return False
        were_missing = any(reason.code in _MISSING for reason in report.reasons)
        members = len(self._cluster.gangs[report.gang].tasks)
        until = self._arrivals.forms_until(group, members, self._clock.now(), were_missing=were_missing)
        if until is not None:
            self._forms_until = until if self._forms_until is None else min(self._forms_until, until)
        return until is not None

    def _merged_conditions(self, group: PodGroup, report: GangReport) -> list[dict[str, Any]] | None:
        """All conditions with the wanted ones in place; None where nothing but a number in a text would change."""
        have = {condition.type: condition for condition in group.status.conditions}
        fresh: dict[str, Any] = {}
        is_said = self._topics.is_said(report, group)
        for condition in report.conditions:
            status = "True" if condition.status else "False"
            old = have.get(condition.type)
            is_same = old is not None and (old.status, old.reason) == (status, condition.reason)
            if old is not None and is_same and (is_said or old.message == condition.message):
                continue
            moved = old is None or old.status != status
            now = instant.format_instant(self._clock.now())
            fresh[condition.type] = {
                "type": condition.type,
                "status": status,
                "reason": condition.reason,
                "message": condition.message,
                "transitionID": group.metadata.uid,
                "lastTransitionTime": now if moved or old is None else old.last_transition_time,
            }
        merged = {kind: msgspec.to_builtins(condition) for kind, condition in have.items()} | fresh
        return [merged[kind] for kind in sorted(merged)] if fresh else None

    def _annotations(self, group: PodGroup, report: GangReport) -> dict[str, str | None]:
        """The verdict and the reservation while the gang waits, and the attempt once it has started."""
        found: dict[str, str | None] = {}
        have = group.metadata.annotations
        waits = report.phase in _WAITING and report.reasons
        if not waits and names.VERDICT in have:
            found[names.VERDICT] = None
        elif waits and self._topics.on(report.gang, group) != self._topics.of(report):
            found[names.VERDICT] = encode(verdict_of(report, instant.format_instant(self._clock.now())))
        reserved = report.reservation if report.phase in _WAITING else None
        note = reservation_note.after(have.get(names.RESERVATION), reserved, self._clock.now())
        if note != have.get(names.RESERVATION):
            found[names.RESERVATION] = note
        starts = names.ATTEMPT not in have or group.status.phase != report.phase
        if report.phase == PodGroupPhase.RUNNING.value and starts:
            attempt = self._attempt(report.gang)
            if attempt and attempt != have.get(names.ATTEMPT):
                found[names.ATTEMPT] = attempt  # a gang that runs again is as safe from recovery as the first time
        elif report.phase in _WAITING and names.ATTEMPT in have:
            members = self._cluster.gangs[report.gang].tasks.values()
            if mend.belies(have[names.ATTEMPT], members, self._clock.now()):
                found[names.ATTEMPT] = None
        return found

    def _attempt(self, gang: str) -> str:
        tasks = self._cluster.gangs[gang].tasks.values()
        return max((task.pod.metadata.annotations.get(names.ATTEMPT, "") for task in tasks), default="")

    async def _write_group(self, report: GangReport, patch: dict[str, Any]) -> None:
        namespace, _, name = report.gang.partition("/")
        deadlock = self._news_of_deadlock(report)
        try:
            self._fail_point("status")
            reply = await self._client.patch(PodGroup, name, patch, how=PatchType.MERGE, namespace=namespace)
            self._learn_group(report, reply.into(PodGroup))
            if "conditions" in patch.get("status", {}):
                self._topics.note(report)
            if "annotations" in patch["metadata"] or "conditions" in patch.get("status", {}):
                self._tell(report)
            if deadlock is not None and "conditions" in patch.get("status", {}):
                self._recorder.record(*deadlock)
        except errors.KubeError as error:
            self.unwritten = True
            self._log("group_status_failed", gang=report.gang, reason=str(error))
        finally:
            self._window.release()

    def _learn_group(self, report: GangReport, written: PodGroup) -> None:
        known = self._cluster.group_of(report.gang)
        # Else the group's end was heard of before the answer to our write.
        if known is not None and known.metadata.uid == written.metadata.uid:
            self._learn(changes.Upserted(object=written))

    def _news_of_deadlock(self, report: GangReport) -> tuple[PodGroup, Literal["Warning"], str, str] | None:
        """The event for a gang that is in a deadlock, or gave its admission back, where its group does not say so yet."""
        kind, group = PodGroupConditionType.DEADLOCKED.value, self._cluster.group_of(report.gang)
        told = next((each for each in report.conditions if each.type == kind and each.why is not None), None)
        if told is None or group is None:
            return None
        status = "True" if told.status else "False"
        same = any(
            (each.type, each.status, each.reason) == (kind, status, told.reason) for each in group.status.conditions
        )
        return None if same else (group, "Warning", kind if told.status else told.reason, told.message)

    def _tell(self, report: GangReport) -> None:
        """One event per change of what a person would call the reason."""
        slot = self._cluster.gangs.get(report.gang)
        if slot is None or slot.group is None:
            return
        waits = report.phase in {PodGroupPhase.PENDING.value, PodGroupPhase.INQUEUE.value, PodGroupPhase.UNKNOWN.value}
        if waits and report.why is None:
            return
        if not waits and report.gang not in self._told and names.VERDICT not in slot.group.metadata.annotations:
            return  # it never waited: its conditions say all there is to say
        topic = self._topics.of(report.why.why) if waits and report.why is not None else True
        if self._told.get(report.gang) != topic:
            self._told[report.gang] = topic
            kind, reason = ("Warning", "Unschedulable") if waits else ("Normal", "Scheduled")
            text = report.message if waits else "pod group is ready"
            self._recorder.record(slot.group, kind, reason, text)  # type: ignore[arg-type]
            for task in _first_members(report.pods) if waits else ():
                self._recorder.record(task.pod, "Warning", "FailedScheduling", text)

    # ------------------------------------------------------------------------------------------------- others

    async def _write_orphans(self, group: asyncio.TaskGroup, key: str, verdicts: Sequence[PodVerdict]) -> None:
        """A condition on each pod whose group does not exist, and one event about all of them."""
        for verdict in verdicts:
            if forming.is_new(verdict.task.created, self._clock.now()):
                self.unwritten = True  # groups are made a moment after their pods, too
            elif self._pods.differs(verdict, None):
                await self._window.acquire()
                group.create_task(self._write_pod(verdict))
                if key not in self._told:
                    self._told[key] = verdict.reason
                    self._recorder.record(verdict.task.pod, "Warning", verdict.reason, verdict.message)

    async def _write_pod(self, verdict: PodVerdict) -> None:
        try:
            await self._pods.write(verdict)
        finally:
            self._window.release()

    async def _write_queue(self, name: str, allocated: dict[str, str]) -> None:
        try:
            if not await self._queues.write(name, allocated):
                self.unwritten = True
        finally:
            self._window.release()


def _as_looked_at(group: PodGroup) -> dict[str, str]:
    """A word that was long on its way must not land on what was written since."""
    version = group.metadata.resource_version
    return {"uid": group.metadata.uid, **({"resourceVersion": version} if version else {})}


def _first_members(verdicts: Sequence[PodVerdict]) -> list[Task]:
    """Whom people look at first: the first member of each role, then the next ones; a few, because all would say the same."""
    tasks = sorted((each.task for each in verdicts), key=lambda task: (task.index or 0, task.role, task.name))
    firsts = {task.role: task for task in reversed(tasks)}
    return sorted(tasks, key=lambda task: firsts[task.role] is not task)[:POD_EVENTS_MAX]


def _is_scheduled(report: GangReport) -> bool:
    return any(each.type == PodGroupConditionType.SCHEDULED.value and each.status for each in report.conditions)

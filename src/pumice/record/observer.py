"""How objects become rows: takes the latest state of whatever has changed, and says which rows follow. Pure.

A gang is known by the uid of its Job, or of its group where no Job owns it: Volcano's PodGroup, or Kubernetes' own. News comes in any order: pods may be seen before their
group. What is gone is forgotten as soon as its last rows have been told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec

from pumice.api import names
from pumice.api.batch import Job, JobPhase
from pumice.api.core import Node
from pumice.api.native import NativePodGroup, minimum_of
from pumice.api.pods import Pod
from pumice.api.scheduling import PodGroup, PodGroupPhase, Queue
from pumice.cluster.gangs import user_of
from pumice.record import facts
from pumice.record.rows import Attempt, Capacity, Gang, State, cut
from pumice.values import Mutable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pumice.api.meta import ObjectMeta
    from pumice.record.rows import Forecast, Row, Run

KINDS = (Job, PodGroup, NativePodGroup, Pod, Queue, Node)
GROUP, NATIVE_GROUP = "PodGroup", "PodGroup.scheduling.k8s.io"  # kinds of gangs, beside Job
DEFAULT_QUEUE = "default"  # of groups that name none
FORMER_RUNS_MAX = 1_024  # of pods that are gone, of one gang that lives on
SAMPLE_S = 60  # how often the capacity is looked at

_FINAL = {
    JobPhase.COMPLETED.value: State.COMPLETED,
    JobPhase.FAILED.value: State.FAILED,
    JobPhase.ABORTED.value: State.ABORTED,
    JobPhase.TERMINATED.value: State.TERMINATED,
}
_WAITS = frozenset({"", JobPhase.PENDING.value})


Place: TypeAlias = tuple[str, str, bool]  # namespace and name of a group, and whether it is Kubernetes' own


class News(NamedTuple):
    """The latest state of an object; `gone_at` is when it was found to be deleted, in seconds."""

    object: Job | PodGroup | NativePodGroup | Pod | Queue | Node
    gone_at: int | None = None


class _Gang(Mutable):
    """What is known of a gang; `row` is missing while only its pods have been seen."""

    row: Gang | None = None
    runs: dict[str, Run] = msgspec.field(default_factory=dict)
    living: set[str] = msgspec.field(default_factory=set)  # uids of pods that have an object
    admitted: int | None = None
    started: int | None = None
    seen: int = 0
    is_gone: bool = False
    told: Gang | None = None
    attempts: dict[int, Attempt] = msgspec.field(default_factory=dict)  # as last told


class Observer:
    """Fold news into rows; belongs to one thread at a time."""

    def __init__(self, *, trusts_label: bool = False) -> None:
        self._trusts_label = trusts_label
        self._gangs: dict[str, _Gang] = {}
        self._groups: dict[Place, str] = {}  # groups -> their gangs
        self._group_uids: dict[str, str] = {}  # uids of groups -> their gang
        self._group_keys: dict[str, str] = {}  # uids of groups -> namespace/name
        self._members: dict[str, str] = {}  # uids of pods that no Job owns -> their gang
        self._orphans: dict[Place, dict[str, News]] = {}  # pods whose group has not been seen
        self._parents: dict[str, str] = {}
        self._nodes: dict[str, Node] = {}
        self._capacity: dict[str, float] = {}
        self._sampled = 0

    def known(self) -> tuple[frozenset[str], frozenset[str]]:
        """Uids of gangs and of pods that have objects."""
        pods = (uid for gang in self._gangs.values() for uid in gang.living)
        return frozenset(uid for uid, gang in self._gangs.items() if not gang.is_gone), frozenset(pods)

    def of_gangs(self, forecasts: Sequence[Forecast]) -> list[Forecast]:
        """Forecasts by the uids of groups, as rows of the gangs that these belong to; of others nothing is kept."""
        return [
            msgspec.structs.replace(each, gang=self._group_uids[each.gang])
            for each in forecasts
            if each.gang in self._group_uids
        ]

    def remembered(self) -> int:
        """How many gangs, groups and pods anything is kept for."""
        runs = sum(len(gang.runs) for gang in self._gangs.values())
        return (
            len(self._gangs)
            + len(self._groups)
            + len(self._group_uids)
            + len(self._group_keys)
            + len(self._members)
            + len(self._orphans)
            + runs
        )

    def fold(self, news: Iterable[News], now: int) -> list[Row]:
        """The rows that follow from the news, each once."""
        by_kind: dict[type, list[News]] = {kind: [] for kind in KINDS}
        for each in news:
            by_kind[type(each.object)].append(each)
        rows: list[Row] = []
        touched: dict[str, set[int]] = {}  # gangs, and which of their attempts
        for each in by_kind[Queue]:
            self._see_queue(each)
        for each in by_kind[Node]:
            self._see_node(each)
        for each in by_kind[Job]:
            touched.setdefault(self._see_job(each, now), set())
        groups = [*by_kind[PodGroup], *by_kind[NativePodGroup]]
        for each in groups:
            touched.setdefault(self._see_group(each, now), set())
        found = [*by_kind[Pod], *self._adopted(groups)]
        for each in found:
            self._see_pod(each, touched, rows)
        for uid, attempts in touched.items():
            rows += self._tell(uid, attempts)
        rows += self._sample(now)
        return rows

    # ------------------------------------------------------------------------------------------------- objects

    def _see_queue(self, news: News) -> None:
        queue = news.object
        assert isinstance(queue, Queue)
        if news.gone_at is None:
            self._parents[queue.metadata.name] = queue.spec.parent
        else:
            self._parents.pop(queue.metadata.name, None)

    def _see_node(self, news: News) -> None:
        node = news.object
        assert isinstance(node, Node)
        if news.gone_at is None:
            self._nodes[node.metadata.name] = node
        else:
            self._nodes.pop(node.metadata.name, None)

    def _see_job(self, news: News, now: int) -> str:
        job = news.object
        assert isinstance(job, Job)
        metadata, state = job.metadata, job.status.state
        gang = self._gangs.setdefault(metadata.uid, _Gang())
        gang.seen = max(gang.seen, facts.version_of(metadata))
        gang.is_gone = news.gone_at is not None
        final = _FINAL.get(state.phase)
        gang.row = self._row(
            metadata,
            kind="Job",
            queue=job.spec.queue,
            shapes=facts.shapes_of_job(job),
            minimum=job.spec.min_available,
            ended=(facts.at(state.last_transition_time) or now) if final else news.gone_at,
            state=final
            or (State.DELETED if gang.is_gone else State.PENDING if state.phase in _WAITS else State.RUNNING),
            reason=state.message or state.reason,
        )
        return metadata.uid

    def _see_group(self, news: News, now: int) -> str:
        group = news.object
        assert isinstance(group, PodGroup | NativePodGroup)
        metadata, place = group.metadata, _place(group)
        uid = facts.owning_job(metadata) or metadata.uid
        if news.gone_at is None:
            self._groups[place] = uid
            self._group_uids[metadata.uid] = uid
            self._group_keys[metadata.uid] = metadata.key
        elif self._groups.get(place) == uid:
            del self._groups[place]
        if news.gone_at is not None:
            self._group_uids.pop(metadata.uid, None)
            self._group_keys.pop(metadata.uid, None)
        gang = self._gangs.setdefault(uid, _Gang())
        gang.seen = max(gang.seen, facts.version_of(metadata))
        if uid != metadata.uid:
            return uid  # its Job tells the rest
        gang.is_gone = news.gone_at is not None
        is_complete, queue = False, metadata.annotations.get(names.QUEUE_NAME, DEFAULT_QUEUE)
        if isinstance(group, PodGroup):
            if group.status.phase not in {"", PodGroupPhase.PENDING.value}:
                gang.admitted = min(gang.admitted or now, now)
            is_complete, queue = group.status.phase == PodGroupPhase.COMPLETED, group.spec.queue
        else:  # it needs no admission, and only its pods say how it is doing
            gang.admitted = facts.at(metadata.creation_timestamp)
        gang.row = self._row(
            metadata,
            kind=GROUP if isinstance(group, PodGroup) else NATIVE_GROUP,
            queue=queue,
            shapes=facts.shapes_of_group(group),
            minimum=minimum_of(group),
            ended=now if is_complete else news.gone_at,
            state=State.COMPLETED if is_complete else State.DELETED if gang.is_gone else State.PENDING,
            reason="",
        )
        return uid

    def _row(
        self,
        metadata: ObjectMeta,
        *,
        kind: str,
        queue: str,
        shapes: str,
        minimum: int,
        ended: int | None,
        state: str,
        reason: str,
    ) -> Gang:
        return Gang(
            uid=metadata.uid,
            kind=kind,
            namespace=metadata.namespace,
            name=metadata.name,
            user_name=user_of(metadata, trusts_label=self._trusts_label),
            queue=queue,
            team=facts.team_of(queue, self._parents),
            shapes=shapes,
            minimum=minimum,
            submitted=facts.at(metadata.creation_timestamp) or 0,
            admitted=None,
            started=None,
            ended=ended,
            state=state,
            reason=cut(reason),
            seen=0,
        )

    def _adopted(self, groups: Iterable[News]) -> Iterator[News]:
        """Pods that have waited for one of these groups to be seen."""
        for each in groups:
            assert isinstance(each.object, PodGroup | NativePodGroup)
            place = _place(each.object)
            if place in self._groups:
                yield from self._orphans.pop(place, {}).values()

    def _see_pod(self, news: News, touched: dict[str, set[int]], rows: list[Row]) -> None:
        pod = news.object
        assert isinstance(pod, Pod)
        uid, member = pod.metadata.uid, facts.membership(pod)
        place = (pod.metadata.namespace, member.group.name, member.group.is_native)
        gang_uid = member.job or self._members.get(uid) or self._groups.get(place, "")
        if not gang_uid:
            self._wait(place, uid, news)
            return
        gang = self._gangs.setdefault(gang_uid, _Gang())
        if news.gone_at is not None:
            gang.living.discard(uid)
            self._members.pop(uid, None)
        else:
            gang.living.add(uid)
            if not member.job:
                self._members[uid] = gang_uid
        gang.seen = max(gang.seen, facts.version_of(pod.metadata))
        attempts = touched.setdefault(gang_uid, set())
        if member.job:  # its pods are made when it is admitted
            created = facts.at(pod.metadata.creation_timestamp)
            gang.admitted = min(filter(None, (gang.admitted, created)), default=None)
        run = facts.run_of(pod, gang_uid, member.attempt, gone_at=news.gone_at)
        if run is None or _is_same(run, gang.runs.get(uid)):
            return
        gang.runs[uid] = run
        gang.started = min(gang.started or run.bound, run.bound)
        attempts.add(member.attempt)
        rows.append(run)
        if (eviction := facts.eviction_of(pod, run, self._group_keys)) is not None:
            rows.append(eviction)

    def _wait(self, place: Place, uid: str, news: News) -> None:
        if news.gone_at is None and place[1]:
            self._orphans.setdefault(place, {})[uid] = news
        elif place in self._orphans:
            self._orphans[place].pop(uid, None)
            if not self._orphans[place]:
                del self._orphans[place]

    # ------------------------------------------------------------------------------------------------- telling

    def _tell(self, uid: str, attempts: set[int]) -> Iterator[Row]:
        gang = self._gangs[uid]
        row = None if gang.row is None else _complete(gang.row, gang)
        if row is not None and not _is_same(row, gang.told):
            gang.told = row
            yield row
        if row is not None and row.ended is not None:
            attempts |= gang.attempts.keys()  # how the last one ended is how the gang did
        last = max((run.attempt for run in gang.runs.values()), default=0)
        for number in sorted(attempts):
            attempt = _attempt(uid, number, gang, row if number == last else None)
            if attempt is not None and not _is_same(attempt, gang.attempts.get(number)):
                gang.attempts[number] = attempt
                yield attempt
        self._forget(uid, gang, last)

    def _forget(self, uid: str, gang: _Gang, last: int) -> None:
        if not gang.living and (gang.is_gone or gang.row is None):
            del self._gangs[uid]
            return
        if gang.runs.keys() <= gang.living and len(gang.attempts) <= 1:
            return
        former = [key for key in gang.runs if key not in gang.living]
        past = [key for key in former if gang.runs[key].attempt != last]
        for key in {*past, *former[:-FORMER_RUNS_MAX]}:
            del gang.runs[key]
        for number in [each for each in gang.attempts if each != last]:
            del gang.attempts[number]

    def _sample(self, now: int) -> Iterator[Capacity]:
        if now - self._sampled < SAMPLE_S or not (self._nodes or self._capacity):
            return
        self._sampled = now
        fresh = facts.capacity_of(self._nodes.values())
        for resource in sorted({*fresh, *self._capacity}):
            amount = fresh.get(resource, 0.0)
            if amount != self._capacity.get(resource):
                yield Capacity(at=now, resource=resource, amount=amount)
        self._capacity = fresh


def _place(group: PodGroup | NativePodGroup) -> Place:
    return group.metadata.namespace, group.metadata.name, isinstance(group, NativePodGroup)


def _is_same(fresh: Row, known: Row | None) -> bool:
    """True where nothing but the version differs: that is no news."""
    return known is not None and msgspec.structs.replace(fresh, seen=known.seen) == known  # type: ignore[union-attr]


def _complete(row: Gang, gang: _Gang) -> Gang:
    """The gang's row with what its pods tell."""
    state, ended, seen = row.state, row.ended, gang.seen
    runs = list(gang.runs.values())
    if row.kind == NATIVE_GROUP and ended is None:
        seen = seen if runs else 0  # its pods are gone, or are yet to come: whatever the record has of it says more
        if len(runs) >= row.minimum and all(run.ended is not None for run in runs):
            ended = max((run.ended for run in runs if run.ended is not None), default=None)
            state = _outcome([run.state for run in runs], State.DELETED)
        elif runs:
            state = State.RUNNING
    elif row.kind != "Job":
        if state == State.COMPLETED:
            ended = max((run.ended for run in runs if run.ended is not None), default=ended)
            seen = seen if runs else 0  # its pods are gone: whatever the record has of it says more
            states = [run.state for uid, run in gang.runs.items() if uid in gang.living]
            state = State.FAILED if State.FAILED in states else state
        elif ended is not None:
            state = _outcome([run.state for run in runs], state)
        elif any(run.ended is None for run in runs):
            state = State.RUNNING
    return msgspec.structs.replace(
        row, admitted=gang.admitted, started=gang.started, ended=ended, state=state, seen=seen
    )


def _outcome(states: list[str], otherwise: str) -> str:
    if State.EVICTED in states:
        return State.EVICTED
    if State.FAILED in states:
        return State.FAILED
    return State.COMPLETED if states and all(state == State.SUCCEEDED for state in states) else otherwise


def _attempt(uid: str, number: int, gang: _Gang, row: Gang | None) -> Attempt | None:
    """What the pods of one attempt have in common; `row` is the gang's where it is the last attempt."""
    runs = [run for run in gang.runs.values() if run.attempt == number]
    if not runs:
        return None
    ends = [run.ended for run in runs]
    ended = None if None in ends else max(end for end in ends if end is not None)
    state = State.RUNNING if ended is None else _outcome([run.state for run in runs], State.DELETED)
    if row is not None and row.ended is not None and ended is not None:
        state = row.state
    starts = [run.started if run.started is not None else run.bound for run in runs]
    return Attempt(
        gang=uid,
        number=number,
        pods=len(runs),
        started=min(starts),
        ended=ended,
        state=state,
        seen=max(run.seen for run in runs),
    )

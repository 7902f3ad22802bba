"""A snapshot and its decisions become the view. Nothing is built before it is asked for, and what has not changed is shared."""

from __future__ import annotations

import collections
import functools
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from pumice import instant
from pumice.api.core import PersistentVolumeClaim
from pumice.api.scheduling import PodGroupConditionType, PodGroupPhase
from pumice.cluster import amounts
from pumice.cluster.columns import SCORED_CPU_ROW, SCORED_MEMORY_ROW
from pumice.cluster.tasks import FINISHED, ON_A_NODE, Status
from pumice.cluster.topology import ROOT
from pumice.readmodel import model
from pumice.scheduling.core.memory import EMPTY, Memory
from pumice.scheduling.sharing.limits import queue_limits
from pumice.scheduling.time import accuracy
from pumice.scheduling.whatif.trial import Question
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pumice.api.changes import Claim
    from pumice.cluster.gangs import Gang
    from pumice.cluster.state import Snapshot
    from pumice.cluster.tasks import Task
    from pumice.instant import Instant
    from pumice.scheduling.core.decisions import Decisions, Expected, Factors, GangReport, Reserved, ShapeRoom
    from pumice.scheduling.core.gpu_use import GangGpuUse
    from pumice.scheduling.core.plugin import Plugin
    from pumice.scheduling.core.policy import Policy
    from pumice.scheduling.core.ports import Ports
    from pumice.scheduling.core.verdict import Reason
    from pumice.scheduling.time.accuracy import Forecast
    from pumice.scheduling.time.forecast import World

ATTEMPTS_KEPT_MAX = 1_000  # newest; the oldest are forgotten
EVICTIONS_KEPT_MAX = 1_000
TRUST_USER_LABEL = "trust-user-label"  # the argument of plugins that look at users
REASONS_TOLD_MAX = 10  # of one gang
_TURNING_POINTS = frozenset({PodGroupConditionType.UNSCHEDULABLE.value, PodGroupConditionType.SCHEDULED.value})


class Cycle(Value, kw_only=True, dict=True):
    """One cycle, as it was planned."""

    number: int
    at: Instant
    snapshot: Snapshot
    decisions: Decisions
    policy: Policy
    leader: str = ""
    refused: str = ""  # why a newer policy is not in force
    resting: Mapping[str, str] = msgspec.field(default_factory=dict)  # what failed in gangs' last attempts
    memory: Memory = EMPTY  # that it was planned with
    ports: Ports | None = None
    forecasts: Mapping[str, Forecast] = msgspec.field(default_factory=dict)  # the newest, by gang
    extra_plugins: Mapping[str, type[Plugin]] = msgspec.field(default_factory=dict)
    gpu_uses: Mapping[str, GangGpuUse] = msgspec.field(default_factory=dict)  # by gang, as last measured
    world: World | None = None  # what the next one will be planned from; goes on changing

    @functools.cached_property
    def question(self) -> Question:
        """What it was planned from, to plan again with something changed."""
        return Question(self.snapshot, self.policy, self.at, self.memory, self.ports, self.extra_plugins)

    @functools.cached_property
    def trusts_label(self) -> bool:
        """Whether the policy takes the owners' word for who uses the room, where admission has recorded nothing."""
        return any(option.arguments.get(TRUST_USER_LABEL) is True for option in self.policy.options)

    @functools.cached_property
    def bound(self) -> Mapping[str, int]:
        """How many pods of each gang this cycle binds."""
        return collections.Counter(commit.gang for commit in self.decisions.commits for _ in commit.binds)

    @functools.cached_property
    def taken(self) -> Mapping[str, amounts.Amounts]:
        """What the pods of each gang that this cycle binds ask for."""
        found: dict[str, amounts.MutableAmounts] = {}
        for commit in self.decisions.commits:
            for bind in commit.binds:
                amounts.add(found.setdefault(commit.gang, {}), bind.task.request.amounts)
        return dict(found)

    @functools.cached_property
    def placed(self) -> Mapping[str, tuple[Task, ...]]:
        """What this cycle sends to each node."""
        found: dict[str, list[Task]] = {}
        for commit in self.decisions.commits:
            for bind in commit.binds:
                found.setdefault(bind.node, []).append(bind.task)
        return {node: tuple(tasks) for node, tasks in found.items()}


class Views:
    """The view of the last cycle, built when it is first asked for: by one thread at a time, beside the one that publishes."""

    def __init__(self) -> None:
        self.cycle: Cycle | None = None  # the last one
        self._built: tuple[Cycle, model.State] | None = None
        self._attempts: tuple[model.Attempt, ...] = ()
        self._evictions: tuple[model.Eviction, ...] = ()
        self._nodes: dict[str, tuple[object, model.Node]] = {}
        self._gangs: dict[str, tuple[object, model.Gang]] = {}

    def publish(self, cycle: Cycle) -> None:
        """Make this the last cycle, and add it to the histories."""
        if cycle.decisions.commits:
            self._attempts = (*self._attempts, *_attempts(cycle))[-ATTEMPTS_KEPT_MAX:]
        if cycle.decisions.evictions:
            self._evictions = (*self._evictions, *_evictions(cycle))[-EVICTIONS_KEPT_MAX:]
        self.cycle = cycle

    def state(self) -> model.State | None:
        """Everything; None before the first cycle."""
        return self._of(self.cycle) if self.cycle is not None else None

    def gang(self, key: str) -> model.GangDetail | None:
        """One gang and what it waits for; None where the last cycle did not know it."""
        cycle = self.cycle
        if cycle is None or key not in cycle.decisions.gangs:
            return None
        is_built = self._built is not None and self._built[0] is cycle
        return _Detail(cycle, self._of(cycle) if is_built else self._build(cycle, only=key)).of(key)

    def _of(self, cycle: Cycle) -> model.State:
        if self._built is None or self._built[0] is not cycle:
            self._built = (cycle, self._build(cycle))
        return self._built[1]

    def _build(self, cycle: Cycle, only: str = "") -> model.State:
        """Everything, or what is needed to tell of one gang: on a large cluster nodes and gangs are most of it."""
        snapshot, decisions = cycle.snapshot, cycle.decisions
        promised = _admitted_by_queue(cycle)
        nodes = () if only else self._all_nodes(cycle)
        return model.State(
            version=model.VERSION,
            leader=cycle.leader,
            cycle=cycle.number,
            at=instant.format_instant(cycle.at),
            policy=model.Policy(
                source=cycle.policy.source,
                actions=cycle.policy.actions,
                plugins=tuple(option.name for option in cycle.policy.options),
                refused=cycle.refused,
                factors=decisions.factor_weights,
            ),
            totals=_totals(cycle, promised),
            nodes=nodes,
            queues=_queues(cycle, promised),
            gangs=(_known_gang(cycle, only)[1],) if only else self._all_gangs(cycle),
            claims=tuple(
                _claim(snapshot, claim)
                for key, claim in sorted({**snapshot.claims, **{each.gang: each for each in decisions.claims}}.items())
                if key not in decisions.unclaims
            ),
            attempts=self._attempts,
            evictions=self._evictions,
            forecasts=_score(decisions.memory.of(accuracy.SCORE)),
        )

    def _all_nodes(self, cycle: Cycle) -> tuple[model.Node, ...]:
        table, placed, tree = cycle.snapshot.nodes, cycle.placed, cycle.snapshot.tree
        former, self._nodes = self._nodes, {}
        rows = [
            (row, name) for row, name in enumerate(table.axis.names) if row not in {SCORED_CPU_ROW, SCORED_MEMORY_ROW}
        ]
        found = []
        for index, name in enumerate(table.names):
            own = placed.get(name, ())
            home = "" if tree.is_flat or (found_home := tree.home(index)) == ROOT else found_home
            basis = (table.tasks[index], table.objects[index], own, home)
            known = former.get(name)
            if known is None or not _same(known[0], basis):
                allocatable = {each: int(table.allocatable[row, index]) for row, each in rows}
                held = {each: int(table.used[row, index]) for row, each in rows}
                for task in own:
                    amounts.add(held, task.request.amounts)  # type: ignore[arg-type]
                there = (*table.tasks[index], *own)
                made = _node(name, allocatable, held, there)
                closed = table.objects[index].spec.unschedulable
                known = (basis, msgspec.structs.replace(made, hyper_node=home, closed=closed))
            self._nodes[name] = known
            found.append(known[1])
        return tuple(found)

    def _all_gangs(self, cycle: Cycle) -> tuple[model.Gang, ...]:
        former = self._gangs
        self._gangs = {key: _known_gang(cycle, key, former.get(key)) for key in cycle.decisions.gangs}
        return tuple(gang for _, gang in self._gangs.values())


def _known_gang(cycle: Cycle, key: str, known: tuple[object, model.Gang] | None = None) -> tuple[object, model.Gang]:
    """A gang, and what it was made from: as long as that is the same, what is known of it holds."""
    report, gang, rests = cycle.decisions.gangs[key], cycle.snapshot.gangs[key], cycle.resting.get(key, "")
    factors, user = cycle.decisions.factors.get(key), gang.spec.user_by(trusts_label=cycle.trusts_label)
    bound = cycle.bound.get(key, 0)
    told = report.phase, report.position, report.reasons, report.reservation, report.expected
    forecast, use = cycle.forecasts.get(key), cycle.gpu_uses.get(key)
    basis = (gang, told, rests, bound, factors, user, forecast, use)
    if known is not None and known[0] == basis:
        return known
    holds = amounts.sum_of([gang.occupied, cycle.taken.get(key, {})])
    more = {
        "user": user,
        "factors": _factors(factors),
        "forecast": _forecast(forecast),
        "gpu_use": None if use is None else model.GpuUse(*use),
    }
    return basis, msgspec.structs.replace(_gang(gang, report, rests, bound, holds), **more)


def _attempts(cycle: Cycle) -> Iterable[model.Attempt]:
    for commit in cycle.decisions.commits:
        yield model.Attempt(
            cycle=cycle.number,
            at=instant.format_instant(cycle.at),
            gang=commit.gang,
            pods=len(commit.binds),
            nodes=len({bind.node for bind in commit.binds}),
            mends=commit.mends,
        )


def _evictions(cycle: Cycle) -> Iterable[model.Eviction]:
    for each in cycle.decisions.evictions:
        yield model.Eviction(
            cycle=cycle.number,
            at=instant.format_instant(cycle.at),
            pod=each.task.key,
            node=each.task.node,
            gang=each.task.gang,
            action=each.rule,
            claimant=each.claimant,
            code=each.cause.code.value,
            facts=each.cause.facts,
            why=each.cause.text,
            resource=each.story.resource,
            victim=each.story.victim,
            room_for=each.story.claimant,
            lost_seconds=each.story.lost_seconds,
        )


def _same(left: object, right: tuple[object, ...]) -> bool:
    return isinstance(left, tuple) and all(one is other or one == other for one, other in zip(left, right, strict=True))


def quantities(values: Mapping[str, float], *, pods: bool = False) -> model.Amounts:
    """Amounts as quantities; the number of pods is told elsewhere more often than not."""
    return {
        name: amounts.quantity_text(name, value)
        for name, value in sorted(values.items())
        if (pods or name != amounts.PODS) and np.isfinite(value)
    }


def _node(name: str, allocatable: Mapping[str, float], held: Mapping[str, float], there: Iterable[Task]) -> model.Node:
    gangs: collections.Counter[str] = collections.Counter()
    devices: dict[str, amounts.MutableAmounts] = {}
    for task in there:
        gangs[task.gang] += 1
        asked = {each: value for each, value in task.request.amounts.items() if value and "/" in each}
        if asked:
            amounts.add(devices.setdefault(task.gang, {}), asked)
    names = {each for each, value in allocatable.items() if value or held.get(each)}
    free = {each: max(allocatable[each] - held.get(each, 0), 0) for each in names}
    return model.Node(
        name=name,
        allocatable=quantities({each: allocatable[each] for each in names}, pods=True),
        used=quantities({each: held.get(each, 0) for each in names}, pods=True),
        free=quantities(free, pods=True),
        gangs=dict(sorted(gangs.items())),
        devices={gang: quantities(own) for gang, own in sorted(devices.items())},
    )


def reason(own: Reason) -> model.Reason:
    return model.Reason(
        code=own.code.value, plugin=own.plugin, reason=own.text, facts=own.facts, nodes=own.nodes, cure=own.cure.value
    )


def _gang(gang: Gang, report: GangReport, rests: str, bound: int, holds: amounts.Amounts) -> model.Gang:
    spec = gang.spec
    return model.Gang(
        key=spec.key,
        namespace=spec.namespace,
        name=spec.name,
        uid=spec.uid,
        job=spec.job,
        queue=spec.queue,
        phase=report.phase,
        members=_members(gang, bound),
        priority=spec.priority,
        created=spec.created,
        since=_since(gang),
        position=report.position,
        asks=quantities(spec.minimum or {}),
        holds=quantities(holds),
        reasons=tuple(reason(each) for each in report.reasons[:REASONS_TOLD_MAX]),
        rests=rests,
        reservation=_reservation(report.reservation),
        expected=_expected(report.expected),
    )


def _reservation(own: Reserved | None) -> model.Reservation | None:
    if own is None:
        return None
    return model.Reservation(instant.format_instant(own.time), own.nodes, instant.format_instant(own.since))


def _expected(own: Expected | None) -> model.Expected | None:
    if own is None:
        return None
    end = "" if own.end is None else instant.format_instant(own.end)
    return model.Expected(instant.format_duration(own.length), own.source, own.right, end)


def _forecast(own: Forecast | None) -> model.Forecast | None:
    if own is None:
        return None
    p50, p90 = ("" if each is None else instant.format_instant(each) for each in (own.p50, own.p90))
    return model.Forecast(instant.format_instant(own.made), p50, p90, own.ahead, own.unknown, own.nodes)


def _score(own: accuracy.Score) -> model.ForecastScore | None:
    return None if own.held is None else model.ForecastScore(len(own.recent), round(own.held, 3))


def _factors(own: Factors | None) -> model.Factors | None:
    return None if own is None else model.Factors(**msgspec.structs.asdict(own))


def _members(gang: Gang, bound: int) -> model.Members:
    counts = gang.counts
    return model.Members(
        minimum=gang.spec.min_member,
        pods=len(gang.tasks),
        running=counts[Status.RUNNING],
        waiting=counts[Status.PENDING] - bound,
        gated=sum(bool(task.gates) for task in gang.tasks if task.status is Status.PENDING),
        leaving=counts[Status.RELEASING],
        finished=sum(counts[status] for status in FINISHED),
    )


def _since(gang: Gang) -> str:
    """When it last became schedulable, or stopped being so; else its beginning."""
    turns = [each.last_transition_time or "" for each in gang.spec.conditions if each.type in _TURNING_POINTS]
    return max([gang.spec.created, *turns])


def _admitted_by_queue(cycle: Cycle) -> dict[str, amounts.MutableAmounts]:
    """What gangs that were admitted and have not started will take, by queue."""
    found: dict[str, amounts.MutableAmounts] = {}
    for key, report in cycle.decisions.gangs.items():
        spec = cycle.snapshot.gangs[key].spec
        if report.phase == PodGroupPhase.INQUEUE.value and spec.minimum and not cycle.bound.get(key, 0):
            amounts.add(found.setdefault(spec.queue, {}), spec.minimum)
    return found


def _totals(cycle: Cycle, promised: Mapping[str, amounts.Amounts]) -> model.Totals:
    table = cycle.snapshot.nodes
    total = table.total()
    used: amounts.MutableAmounts = {name: sum(table.used[table.axis.rows[name]].tolist()) for name in total}
    for tasks in cycle.placed.values():
        for task in tasks:
            amounts.add(used, {name: value for name, value in task.request.amounts.items() if name in total})
    return model.Totals(
        nodes=len(table),
        allocatable=quantities(total),
        used=quantities(used),
        promised=quantities(amounts.sum_of(promised.values())),
        stranded=tuple(
            model.Stranded(each.resource, each.each, each.free, each.usable, each.waiting)
            for each in cycle.decisions.stranded
        ),
    )


def _queues(cycle: Cycle, promised: Mapping[str, amounts.Amounts]) -> tuple[model.Queue, ...]:
    decisions, found = cycle.decisions, []
    waiting = collections.Counter(
        cycle.snapshot.gangs[key].spec.queue for key, report in decisions.gangs.items() if report.position
    )
    running = collections.Counter(
        cycle.snapshot.gangs[key].spec.queue
        for key, report in decisions.gangs.items()
        if report.phase == PodGroupPhase.RUNNING.value
    )
    limits = queue_limits(cycle.snapshot, cycle.policy, decisions)
    for name, spec in cycle.snapshot.queues.items():
        figures, held, own = decisions.figures.get(name), decisions.queues.get(name, {}), limits[name]
        used = decisions.usage.get(name)
        beyond = {each: held[each] - limit for each, limit in own.deserved.items() if held.get(each, 0) > limit}
        found.append(
            model.Queue(
                name=name,
                state=spec.state or "Open",
                weight=spec.weight,
                parent=spec.parent,
                reclaimable=spec.reclaimable,
                allocated=quantities(held),
                promised=quantities(promised.get(name, {})),
                deserved=quantities(spec.deserved),
                guarantee=quantities(spec.guarantee),
                capability=quantities(spec.capability),
                entitled=quantities(own.deserved),
                limit=quantities(own.limit),
                left=quantities(own.left),
                fair=quantities(figures.deserved) if figures is not None else {},
                borrowed=quantities(beyond),
                overused=figures is not None and figures.overused,
                usage=used.usage if used is not None else 0.0,
                fair_usage=used.fair if used is not None else 0.0,
                running=running[name],
                waiting=waiting[name],
            )
        )
    return tuple(found)


def _claim(snapshot: Snapshot, claim: Claim) -> model.Claim:
    gang = snapshot.gangs.get(claim.gang)
    asked = {task.uid: task.request.amounts for task in gang.tasks} if gang is not None else {}
    want: dict[str, amounts.MutableAmounts] = {}
    for uid, node in claim.places:
        amounts.add(want.setdefault(node, {}), asked.get(uid, {}))
    places = collections.Counter(node for _, node in claim.places)
    return model.Claim(
        gang=claim.gang,
        until=instant.format_instant(claim.until),
        places=dict(sorted(places.items())),
        want={node: quantities(values) for node, values in sorted(want.items())},
        leaving=tuple(_leaving(snapshot, claim, node, count) for node, count in sorted(places.items())),
    )


def _leaving(snapshot: Snapshot, claim: Claim, node: str, count: int) -> model.Leaving:
    """The victims on one node that are still there."""
    index = snapshot.nodes.index.get(node)
    there = snapshot.nodes.tasks[index] if index is not None else ()
    ending = [task for task in there if task.uid in claim.victims]
    ends = [task.pod.metadata.deletion_timestamp or "" for task in ending]
    return model.Leaving(
        node=node,
        for_pods=count,
        pods=len(ending),
        hold=quantities(amounts.sum_of(task.request.amounts for task in ending)),
        until=max(ends, default=""),
    )


class _Detail:
    """Finds what one gang waits for."""

    def __init__(self, cycle: Cycle, state: model.State) -> None:
        self._cycle = cycle
        self._state = state

    def of(self, key: str) -> model.GangDetail:
        state = self._state
        gang, report = self._cycle.snapshot.gangs[key], self._cycle.decisions.gangs[key]
        own = next(each for each in state.gangs if each.key == key)
        room = tuple(_room(each) for each in report.room)
        has_claim = any(each.gang == key for each in state.claims)
        is_hopeless = bool(own.reasons) and all(each.cure == "change" for each in own.reasons)
        return model.GangDetail(
            **state.head,
            gang=own,
            queue=next((each for each in state.queues if each.name == own.queue), None),
            pods=tuple(self._pods(gang, report)),
            room=room,
            volumes=tuple(self._volumes(gang)),
            claims=state.claims,
            evictable=() if has_claim or is_hopeless else tuple(self._evictable(gang, room)),
        )

    def _pods(self, gang: Gang, report: GangReport) -> Iterable[model.Pod]:
        said = {verdict.task.uid: verdict for verdict in report.pods}
        commits = (each for each in self._cycle.decisions.commits if each.gang == gang.key)
        bound = {bind.task.uid: bind.node for commit in commits for bind in commit.binds}
        for task in gang.tasks:
            verdict = said.get(task.uid)
            yield model.Pod(
                name=task.name,
                status=Status.BINDING.text if task.uid in bound else task.status.text,
                node=bound.get(task.uid, task.node),
                nominated_node=(verdict.nominated_node if verdict is not None else "") or task.nominated_node,
                gates=task.gates,
                message=verdict.message if verdict is not None and not verdict.of_gang else "",
            )

    def _volumes(self, gang: Gang) -> Iterable[model.Volume]:
        claims = self._cycle.snapshot.objects(PersistentVolumeClaim)
        wanted = {
            volume.persistent_volume_claim.claim_name
            for task in gang.tasks
            if task.status is Status.PENDING
            for volume in task.pod.spec.volumes
            if volume.persistent_volume_claim is not None
        }
        for name in sorted(wanted):
            claim = claims.get(f"{gang.spec.namespace}/{name}")
            phase = (claim.status.phase or "Pending") if claim is not None else "does not exist"
            if phase != "Bound":
                of = claim.spec.storage_class_name if claim is not None else None
                yield model.Volume(claim=name, phase=phase, storage_class=of or "")

    def _evictable(self, gang: Gang, room: Iterable[model.Room]) -> Iterable[model.Evictable]:
        rank = max((task.priority for task in gang.tasks), default=0)
        others = [each for each in self._cycle.snapshot.gangs.values() if each.spec.queue == gang.spec.queue]
        lower = [
            task
            for other in others
            if other.key != gang.key
            for task in other.tasks
            if task.priority < rank and task.status in ON_A_NODE
        ]
        for name in dict.fromkeys(short.resource for each in room for short in each.short):
            held = [value for task in lower if (value := task.request.amounts.get(name, 0)) > 0]
            beyond = {
                queue.name: queue.borrowed[name]
                for queue in self._state.queues
                if name in queue.borrowed and queue.reclaimable and queue.name != gang.spec.queue
            }
            yield model.Evictable(
                resource=name,
                lower_priority_pods=len(held),
                held_by_them=amounts.quantity_text(name, sum(held)),
                beyond_deserved=beyond,
            )


def _room(own: ShapeRoom) -> model.Room:
    return model.Room(
        each=quantities(own.each),
        waiting=own.waiting,
        fit=own.fit,
        nodes=own.nodes,
        may_take=own.may_take,
        short=tuple(
            model.Shortage(
                resource=each.resource,
                free=amounts.quantity_text(each.resource, each.free),
                most_on_one_node=amounts.quantity_text(each.resource, each.most_on_one_node),
            )
            for each in own.short
        ),
        within=model.HyperNodeRoom(tier=own.within.tier, hyper_node=own.within.hyper_node, fit=own.within.fit)
        if own.within is not None
        else None,
    )

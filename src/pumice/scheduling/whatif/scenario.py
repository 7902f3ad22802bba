"""A cluster that is different in some way: which gangs would start, wait or be evicted there that are not now, and when the others start."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from pumice import instant
from pumice.api.changes import Deleted, Unclaimed, Upserted
from pumice.api.scheduling import WEIGHT_MAX, Guarantee, PodGroup, PodGroupPhase
from pumice.cluster import amounts, edits
from pumice.cluster.tasks import ON_A_NODE, Status
from pumice.digits import whole_number
from pumice.errors import BadInput, NotFound
from pumice.quantity import QuantityError
from pumice.scheduling.time.forecast import Effort, first_in_line, forecast
from pumice.scheduling.time.stand_ins import with_stand_ins
from pumice.scheduling.whatif.outcome import Outcome, StartTimes, When
from pumice.scheduling.whatif.trial import Question
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from pumice.api.scheduling import Queue
    from pumice.cluster.gangs import Gang
    from pumice.cluster.intake import Intake
    from pumice.cluster.state import Snapshot
    from pumice.scheduling.core.decisions import Decisions
    from pumice.scheduling.core.policy import Policy
    from pumice.scheduling.time.accuracy import Forecast
    from pumice.scheduling.time.forecast import World

NODES_ADDED_MAX = 10_000
FORECASTS_MAX = 20  # gangs; those first for which the change makes a difference, then the first in line
FORECAST_CPU_S = 2.0  # for each of the two clusters; what was found by then counts
EFFORT = Effort(runs=10, cycles=600, blur=0.1)
_QUEUE_CHANGE = re.compile(r"([^.=,]+)\.([^=,]+)=([^=,]+)")
QUEUE_FIELDS = ("weight", "priority", "capability", "deserved", "guarantee")


class Scenario(Value):
    """What is different; each queue change is `name`, one of QUEUE_FIELDS with a resource behind a dot, and the value."""

    add_nodes: int = 0
    like: str = ""
    drain: tuple[str, ...] = ()
    queues: tuple[tuple[str, str, str], ...] = ()
    without: tuple[str, ...] = ()  # gangs, by namespace and name of the group or of its Job
    policy: Policy | None = None


def queue_change(text: str) -> tuple[str, str, str]:
    """`research.weight=3` as its three parts."""
    match = _QUEUE_CHANGE.fullmatch(text)
    if match is None:
        raise BadInput(f"queue change {text!r}: expected QUEUE.FIELD=VALUE, such as research.weight=3")
    return match[1], match[2], match[3]


def compare(world: World, scenario: Scenario, *, cpu: Callable[[], float]) -> Outcome:
    """One cycle as things are and one where they are different, and for those who wait a look ahead from both.

    `cpu` tells the processor seconds that were spent so far: where they do not suffice, a time is said to be unknown.
    """
    there, displaced = edited(world, scenario)
    snapshot = there.intake.cluster.snapshot()
    before, after = _plan(world, world.intake.copy().cluster.snapshot()), _plan(there, snapshot)
    bound_before, bound_after = _bound(before), _bound(after)
    evicted_before, evicted_after = _evicted(before), _evicted(after)
    let_in, new = _let_in(snapshot, after), _let_in(snapshot, before)
    moved = {gang: gang in bound_after for gang in sorted(displaced)}
    found = Outcome(
        starts=_more(bound_after, bound_before, moved),
        admitted=_more(let_in, new),
        starts_no_more={
            gang: pods for gang, pods in _more(bound_before, bound_after).items() if gang in snapshot.gangs
        },
        evicted=_more(evicted_after, evicted_before),
        evicted_no_more=_more(evicted_before, evicted_after),
        displaced=moved,
        waiting=sum(
            _waits(gang) and key not in bound_after and key not in let_in for key, gang in snapshot.gangs.items()
        ),
        at=instant.format_instant(world.now),
    )
    return _with_forecasts(found, world, there, cpu)


def edited(world: World, scenario: Scenario) -> tuple[World, set[str]]:
    """The world with all changes made, and the gangs that had to leave drained nodes."""
    displaced: set[str] = set()
    intake = world.intake.copy()
    snapshot = intake.cluster.snapshot()
    for key in {_gang_of(snapshot, name) for name in scenario.without}:
        _end(intake, key)
    for name, field, value in scenario.queues:
        queue = intake.held.queues[_known(name, intake.held.queues, "queue")]
        intake.apply(Upserted(object=_changed(queue, field, value)))
    if scenario.add_nodes:
        like = snapshot.nodes.objects[snapshot.nodes.index[_known(scenario.like, snapshot.nodes.index, "node")]]
        if not 1 <= scenario.add_nodes <= NODES_ADDED_MAX:
            raise BadInput(f"{scenario.add_nodes} more nodes: expected 1 to {NODES_ADDED_MAX}")
        for number in range(scenario.add_nodes):
            intake.apply(Upserted(object=edits.another_node(like, number)))
    for node in scenario.drain:
        displaced.update(_drain(intake, _known(node, snapshot.nodes.index, "node")))
    return msgspec.structs.replace(world, intake=intake, policy=scenario.policy or world.policy), displaced


# ----------------------------------------------------------------------------------------------------- changes


def _end(intake: Intake, key: str) -> None:
    """The gang is over: it waits for nothing, and its pods have left their nodes."""
    slot = intake.cluster.gangs[key]
    group = slot.group
    for task in list(slot.tasks.values()):
        intake.apply(Deleted(object=task.pod))
    if group is not None:
        intake.apply(Deleted(object=group))
    intake.apply(Unclaimed(gang=key))


def _drain(intake: Intake, name: str) -> set[str]:
    """The node takes no pods any more, and gangs that had members there wait again as a whole: returns those."""
    slot = intake.cluster.nodes[name]
    node = slot.node
    assert node is not None, f"{name} is in the table of nodes"
    displaced = {task.gang for task in slot.tasks.values() if task.gang}
    closed = msgspec.structs.replace(node.spec, unschedulable=True)
    intake.apply(Upserted(object=msgspec.structs.replace(node, spec=closed)))
    for key in displaced:
        _restart(intake, key)
    return displaced


def _restart(intake: Intake, key: str) -> None:
    """All of its members wait, as after a restart; it was admitted before, and need not ask again."""
    slot = intake.cluster.gangs[key]
    for task in [each for each in slot.tasks.values() if each.status in ON_A_NODE]:
        intake.apply(Deleted(object=task.pod))
        intake.apply(Upserted(object=edits.made_anew(task.pod, f"{task.uid}+")))
    if isinstance(slot.group, PodGroup):
        status = msgspec.structs.replace(slot.group.status, phase=PodGroupPhase.INQUEUE.value)
        intake.apply(Upserted(object=msgspec.structs.replace(slot.group, status=status)))


def _changed(queue: Queue, field: str, value: str) -> Queue:
    what, _, resource = field.partition(".")
    subject = f"queue {queue.metadata.name}: {field}={value:.40}"
    if what not in QUEUE_FIELDS or bool(resource) != (what not in {"weight", "priority"}):
        raise BadInput(f"{subject}: expected weight, priority, or capability, deserved or guarantee with .RESOURCE")
    spec = queue.spec
    new: dict[str, Any] = {what: value}
    if resource:
        try:
            amount = amounts.amount(resource, value)
        except QuantityError as error:
            raise BadInput(f"{subject}: {error}") from error
        if amount < 0:
            raise BadInput(f"{subject}: an amount is at least 0")
        if what == "guarantee":
            new = {what: Guarantee(resource={**spec.guarantee.resource, resource: value})}
        else:
            new = {what: {**getattr(spec, what), resource: value}}
    elif whole_number(value.removeprefix("-")) is None:
        raise BadInput(f"{subject}: expected a whole number")
    elif what == "weight" and not 1 <= int(value) <= WEIGHT_MAX:
        raise BadInput(f"{subject}: a weight is at least 1 and at most {WEIGHT_MAX}")
    else:
        new = {what: int(value)}
    return msgspec.structs.replace(queue, spec=msgspec.structs.replace(spec, **new))


def _known(name: str, table: Mapping[str, object], kind: str) -> str:
    if name not in table:
        see = "pumice queue list" if kind == "queue" else "pumice nodes"
        raise NotFound(f"{kind} {name!r} does not exist in the cluster; see `{see}`")
    return name


def _gang_of(snapshot: Snapshot, name: str) -> str:
    if name in snapshot.gangs:
        return name
    for key, gang in snapshot.gangs.items():
        if gang.spec.job and name == f"{gang.spec.namespace}/{gang.spec.job}":
            return key
    raise NotFound(f"job {name}: no gang of that name in the cluster; see `pumice job list`")


# ----------------------------------------------------------------------------------------------------- one cycle


def _plan(world: World, snapshot: Snapshot) -> Decisions:
    question = Question(snapshot, world.policy, world.now, world.memory, world.ports, world.extra_plugins)
    return question.plan(snapshot, explain=False)


def _waits(gang: Gang) -> bool:
    is_over = gang.spec.phase == PodGroupPhase.COMPLETED.value
    return bool(gang.counts[Status.PENDING]) or (not gang.tasks and not is_over)


def _bound(decisions: Decisions) -> Counter[str]:
    return Counter(commit.gang for commit in decisions.commits for _ in commit.binds)


def _let_in(snapshot: Snapshot, decisions: Decisions) -> dict[str, int]:
    """Gangs whose pods are made once they are admitted, which they are; whether those find room shows then."""
    known = {key: snapshot.gangs[key] for key in decisions.admitted if key in snapshot.gangs}
    return {key: gang.spec.min_member for key, gang in known.items() if not gang.tasks}


def _evicted(decisions: Decisions) -> Counter[str]:
    return Counter(eviction.task.gang for eviction in decisions.evictions)


def _more(one: Mapping[str, int], other: Mapping[str, int], but: object = ()) -> dict[str, int]:
    """What is in the one and not in the other."""
    assert isinstance(but, (tuple, dict))
    return {gang: count for gang, count in sorted(one.items()) if count > other.get(gang, 0) and gang not in but}


# ----------------------------------------------------------------------------------------------------- when


def _with_forecasts(found: Outcome, world: World, there: World, cpu: Callable[[], float]) -> Outcome:
    """When gangs that wait would start: as things are, and there; and when those that are evicted there would start again."""
    if any(each.policy.option("extender") is not None for each in (world, there)):
        return msgspec.structs.replace(found, no_forecast="an extender has its say, who is not asked about the future")
    here, there = with_stand_ins(world), with_stand_ins(there)
    told = [*found.starts, *found.admitted, *found.starts_no_more, *found.displaced]
    line = first_in_line(there, len(there.intake.cluster.gangs))
    behind = set(line).difference(told)
    wanted = sorted([*line, *found.evicted], key=behind.__contains__)[:FORECASTS_MAX]
    waiting = {key for key, gang in here.intake.cluster.snapshot().gangs.items() if gang.counts[Status.PENDING]}
    before = _looked_ahead(here, [key for key in wanted if key in waiting and key not in found.displaced], cpu)
    after = _looked_ahead(there, wanted, cpu)
    both = {key: StartTimes(_when(before.get(key)), _when(after.get(key))) for key in wanted if key in after}
    return msgspec.structs.replace(found, forecasts=both, not_forecast=len(set(line).difference(wanted)))


def _looked_ahead(world: World, wanted: Collection[str], cpu: Callable[[], float]) -> Mapping[str, Forecast]:
    """Both times with the same luck: what differs is due to the change."""
    until = cpu() + FORECAST_CPU_S
    chance = np.random.default_rng(world.now)
    return forecast(world, wanted, chance=chance, effort=EFFORT, go_on=lambda: cpu() < until)


def _when(told: Forecast | None) -> When | None:
    if told is None:
        return None
    p50, p90 = (None if at is None else instant.format_instant(at) for at in (told.p50, told.p90))
    return When(p50, p90, told.ahead, told.unknown, not told.cut_short)

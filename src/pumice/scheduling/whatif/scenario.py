"""A cluster that is different in some way, and which gangs would start, wait or be evicted there that are not now."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from pumice.api.scheduling import PodGroupPhase
from pumice.cluster import amounts, edits
from pumice.cluster.tasks import Status
from pumice.digits import whole_number
from pumice.errors import BadInput, NotFound
from pumice.quantity import QuantityError
from pumice.scheduling.whatif.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.cluster.gangs import Gang
    from pumice.cluster.queues import QueueInfo
    from pumice.cluster.state import Snapshot
    from pumice.scheduling.core.decisions import Decisions
    from pumice.scheduling.core.policy import Policy
    from pumice.scheduling.whatif.trial import Question

NODES_ADDED_MAX = 10_000
_QUEUE_CHANGE = re.compile(r"([^.=,]+)\.([^=,]+)=([^=,]+)")
QUEUE_FIELDS = ("weight", "priority", "capability", "deserved", "guarantee")


@dataclasses.dataclass(frozen=True, slots=True)
class Scenario:
    """What is different; each queue change is `name`, one of QUEUE_FIELDS with a resource behind a dot, and the value."""

    add_nodes: int = 0
    like: str = ""
    drain: tuple[str, ...] = ()
    queues: tuple[tuple[str, str, str], ...] = ()
    without: tuple[str, ...] = ()  # gangs, by namespace and name of the group or of its Job


def queue_change(text: str) -> tuple[str, str, str]:
    """`research.weight=3` as its three parts."""
    match = _QUEUE_CHANGE.fullmatch(text)
    if match is None:
        raise BadInput(f"queue change {text!r}: expected QUEUE.FIELD=VALUE, such as research.weight=3")
    return match[1], match[2], match[3]


def compare(question: Question, scenario: Scenario, policy: Policy | None = None) -> Outcome:
    """One cycle as things are, one where they are different."""
    snapshot, displaced = edited(question.snapshot, scenario)
    before = question.plan(question.snapshot, explain=False)
    after = question.plan(snapshot, policy=policy, explain=False)
    bound_before, bound_after = _bound(before), _bound(after)
    evicted_before, evicted_after = _evicted(before), _evicted(after)
    let_in, new = _let_in(snapshot, after), _let_in(snapshot, before)
    moved = {gang: gang in bound_after for gang in sorted(displaced)}
    return Outcome(
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
    )


def edited(snapshot: Snapshot, scenario: Scenario) -> tuple[Snapshot, set[str]]:
    """The snapshot with all changes made, and the gangs that had to leave drained nodes."""
    displaced: set[str] = set()
    if scenario.without:
        snapshot = edits.without_gangs(snapshot, {_gang_of(snapshot, name) for name in scenario.without})
    for name, field, value in scenario.queues:
        queue = snapshot.queues[_known(name, snapshot.queues, "queue")]
        snapshot = edits.with_queue(snapshot, _changed(queue, field, value))
    if scenario.add_nodes:
        like = _known(scenario.like, snapshot.nodes.index, "node")
        if not 1 <= scenario.add_nodes <= NODES_ADDED_MAX:
            raise BadInput(f"{scenario.add_nodes} more nodes: expected 1 to {NODES_ADDED_MAX}")
        snapshot = edits.with_nodes(snapshot, like, scenario.add_nodes)
    for node in scenario.drain:
        snapshot, gangs = edits.without_node(snapshot, _known(node, snapshot.nodes.index, "node"))
        displaced.update(gangs)
    return snapshot, displaced


def _waits(gang: Gang) -> bool:
    is_over = gang.spec.phase == PodGroupPhase.COMPLETED.value
    return bool(gang.counts[Status.PENDING]) or (not gang.tasks and not is_over)


def _known(name: str, table: Mapping[str, object], kind: str) -> str:
    if name not in table:
        raise NotFound(
            f"{kind} {name!r} does not exist in the cluster; see `pumice {kind}{'' if kind == 'queue' else 's'}`"
        )
    return name


def _gang_of(snapshot: Snapshot, name: str) -> str:
    if name in snapshot.gangs:
        return name
    for key, gang in snapshot.gangs.items():
        if gang.spec.job and name == f"{gang.spec.namespace}/{gang.spec.job}":
            return key
    raise NotFound(f"job {name}: no gang of that name in the cluster; see `pumice job list`")


def _changed(queue: QueueInfo, field: str, value: str) -> QueueInfo:
    what, _, resource = field.partition(".")
    subject = f"queue {queue.name}: {field}={value}"
    if what not in QUEUE_FIELDS or bool(resource) != (what not in {"weight", "priority"}):
        raise BadInput(f"{subject}: expected weight, priority, or capability, deserved or guarantee with .RESOURCE")
    if resource:
        try:
            amount = amounts.amount(resource, value)
        except QuantityError as error:
            raise BadInput(f"{subject}: {error}") from error
        new: dict[str, Any] = {what: {**getattr(queue, what), resource: amount}}
        return dataclasses.replace(queue, **new)
    if whole_number(value.removeprefix("-")) is None:
        raise BadInput(f"{subject}: expected a whole number")
    if what == "weight" and int(value) < 1:
        raise BadInput(f"{subject}: a weight is at least 1")
    new = {what: int(value)}
    return dataclasses.replace(queue, **new)


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

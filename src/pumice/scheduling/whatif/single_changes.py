"""Single changes with which a waiting gang would start, cheapest first. Each is made to a snapshot and planned by the real engine.

Which change is worth a plan is worked out from the reasons that the last cycle gave and from plain arithmetic over the columns;
only what the engine then starts is told. The number of plans is bounded, because each takes as long as a cycle.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from pumice import instant
from pumice.api import names, tolerations
from pumice.api.pods import Toleration
from pumice.api.priority import PriorityClass
from pumice.cluster import amounts, edits
from pumice.cluster.tasks import OCCUPYING, Status
from pumice.scheduling.core.codes import Code
from pumice.scheduling.core.shapes import copies
from pumice.scheduling.core.shortcuts import Shortcuts
from pumice.scheduling.whatif.bystanders import Bystanders
from pumice.scheduling.whatif.suggestion import Kind, Suggestion, Suggestions
from pumice.scheduling.whatif.trial import start_of
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pumice.api.core import Taint
    from pumice.api.pods import Pod
    from pumice.cluster.amounts import Amounts
    from pumice.cluster.columns import Column
    from pumice.cluster.gangs import Gang, GangSpec
    from pumice.cluster.state import Snapshot
    from pumice.scheduling.core.decisions import Decisions, GangReport
    from pumice.scheduling.core.verdict import Reason
    from pumice.scheduling.whatif.trial import Question, Start

PLANS_MAX = 16  # for one gang; each takes as long as a cycle without evictions
CANDIDATES_MAX = 3  # of one kind: the likeliest
LONG_LINE = 100  # whoever stands behind so many is seldom the one who gets what becomes free: that is tried once
NODES_MAX = 1_000  # that are thought of as added
ON_A_NODE_MAX = 64  # of GPUs and the like that a pod asks for, where fewer are tried
_SYSTEM_TAINTS = "node.kubernetes.io/"  # not ready, under pressure: no toleration makes such a node work
_OF_QUEUES = frozenset(
    {
        Code.QUEUE_MISSING, Code.QUEUE_NOT_OPEN, Code.QUEUE_PARENT_MISSING, Code.QUEUE_RING, Code.QUEUE_HAS_CHILDREN,
        Code.QUEUE_QUOTA_USED, Code.QUEUE_SHARE_USED, Code.QUEUE_SHARE_TOO_SMALL, Code.QUEUE_QUOTA_INSUFFICIENT,
        Code.QUEUE_DEVICES_USED, Code.QUEUE_DEVICES_INSUFFICIENT,
    }
)  # fmt: skip


class Candidate(Value):
    """A change that may help: what to say if it does, and the snapshot in which it was made."""

    suggestion: Suggestion
    snapshot: Snapshot
    evicts: bool = False  # it helps by evictions, or not at all


def suggestions(question: Question, decisions: Decisions, key: str, *, plans: int = PLANS_MAX) -> Suggestions:
    """What would start a gang that waits after these decisions; at most one change of each kind, the smallest that was found.

    None for a gang that has started already: for its further members nobody needs to change anything.
    """
    subject = _Subject(question, decisions.gangs[key])
    trials = _Trials(question, Bystanders(question.snapshot, decisions, key), key, plans)
    found = []
    if subject.held < subject.spec.min_member or not subject.gang.tasks:
        for candidates in subject.kinds():
            starts = (trials.follow(candidate) for candidate in candidates)
            found.append(next((each for each in starts if each is not None), None))
    return Suggestions(tuple(each for each in found if each is not None), trials.made, plans)


class _Trials:
    """Plans for one gang, counted; once the limit is reached, nothing is found any more."""

    def __init__(self, question: Question, bystanders: Bystanders, key: str, limit: int) -> None:
        self._question = question
        self._bystanders = bystanders
        self._key = key
        self._limit = limit
        self.made = 0

    def follow(self, candidate: Candidate) -> Suggestion | None:
        """What is suggested, if the engine starts the gang by it; a plan without evictions is quick, and says no for most."""
        start = None if candidate.evicts else self._plan(candidate, evicts=False)
        if candidate.evicts or start is not None:
            start = self._plan(candidate, evicts=True)
        if start is None:
            return None
        admits = not candidate.snapshot.gangs[self._key].tasks
        return msgspec.structs.replace(candidate.suggestion, victims=start.victims, admits=admits)

    def _plan(self, candidate: Candidate, *, evicts: bool) -> Start | None:
        if self.made == self._limit:
            return None
        self.made += 1
        # Only what is rejected is rejected without them: what is told has been planned with the turn of everybody before it.
        without = frozenset[str]() if evicts else self._bystanders.in_(candidate.snapshot)
        shortcuts = Shortcuts(without, until=self._key)
        decisions = self._question.plan(candidate.snapshot, evicts=evicts, explain=False, shortcuts=shortcuts)
        return start_of(candidate.snapshot, decisions, self._key)


class _Subject:
    """The gang that waits, what was said of it, and the changes that may help it."""

    def __init__(self, question: Question, report: GangReport) -> None:
        self.snapshot = question.snapshot
        self.key = report.gang
        self.gang: Gang = question.snapshot.gangs[report.gang]
        self.spec: GangSpec = self.gang.spec
        self.now = question.now
        self.reasons = report.reasons
        self.codes = {reason.code for reason in report.reasons}
        self.room = report.room
        # Changes that those ahead may profit from.
        self.of_others = 1 if report.position > LONG_LINE else CANDIDATES_MAX
        self.waiting = [task for task in self.gang.tasks if task.status is Status.PENDING]
        self.held = sum(self.gang.counts[status] for status in OCCUPYING)
        self.short = [each.resource for shape in report.room for each in shape.short]

    def kinds(self) -> Iterator[Iterator[Candidate]]:
        yield self._tolerations()
        yield self._selectors()
        yield self._tiers()
        yield self._run_times()
        yield self._queues()
        yield self._minimums()
        yield self._resources()
        yield self._ends()
        yield self._priorities()
        yield self._nodes()

    def _edited(self, suggestion: Suggestion, spec: GangSpec, change: Callable[[Pod], Pod] | None = None) -> Candidate:
        return Candidate(suggestion, edits.with_gang(self.snapshot, spec, change), suggestion.kind is Kind.PRIORITY)

    # ------------------------------------------------------------------------------------------------- the pods

    def _tolerations(self) -> Iterator[Candidate]:
        if Code.TAINT not in self.codes:
            return
        counts: dict[Taint, int] = {}
        own = [each for task in self.waiting for each in task.pod.spec.tolerations]
        for node in self.snapshot.nodes.objects:
            for taint in node.spec.taints:
                refuses = taint.effect != "PreferNoSchedule" and not taint.key.startswith(_SYSTEM_TAINTS)
                if refuses and not any(tolerations.tolerates(each, taint) for each in own):
                    same = msgspec.structs.replace(taint, time_added=None)
                    counts[same] = counts.get(same, 0) + 1
        for taint in sorted(counts, key=lambda each: (-counts[each], each.key, each.value))[:CANDIDATES_MAX]:
            name = f"{taint.key}{'=' + taint.value if taint.value else ''}:{taint.effect}"
            toleration = Toleration(taint.key, "Equal", taint.value, taint.effect)
            yield self._edited(Suggestion(Kind.TOLERATION, name=name), self.spec, _tolerating(toleration))

    def _selectors(self) -> Iterator[Candidate]:
        if Code.NODE_AFFINITY not in self.codes:
            return
        pairs = {pair for task in self.waiting for pair in task.pod.spec.node_selector.items()}
        for key, value in sorted(pairs)[:CANDIDATES_MAX]:
            suggestion = Suggestion(Kind.SELECTOR, name=f"the node selector {key}={value}")
            yield self._edited(suggestion, self.spec, _unselecting(key, value))
        if any(_has_affinity(task.pod) for task in self.waiting):
            suggestion = Suggestion(Kind.SELECTOR, name="the required node affinity")
            yield self._edited(suggestion, self.spec, _without_affinity)

    def _tiers(self) -> Iterator[Candidate]:
        close = self.spec.closeness
        if close is None or not close.hard or close.tier is None:
            return
        for tier in [each for each in self.snapshot.tree.tiers if each > close.tier][:CANDIDATES_MAX]:
            looser = msgspec.structs.replace(self.spec, closeness=msgspec.structs.replace(close, tier=tier))
            yield self._edited(Suggestion(Kind.TIER, number=tier, instead_of=close.tier), looser)

    def _run_times(self) -> Iterator[Candidate]:
        """Short enough to be over before the room is needed that is reserved for others, in whole minutes."""
        until = [instant.parse_instant(reason.facts.until) for reason in self.reasons if _is_in_the_way(reason)]
        left = (min(until) - self.now) // instant.MINUTE * instant.MINUTE if until else 0
        if left > 0 and (self.spec.time_limit is None or self.spec.time_limit > left):
            text = instant.format_duration(left)
            limited = msgspec.structs.replace(self.spec, annotations={**self.spec.annotations, names.TIME_LIMIT: text})
            yield self._edited(Suggestion(Kind.RUN_TIME, name=text), limited)

    def _resources(self) -> Iterator[Candidate]:
        """Fewer of what is short: pods are often written for whole nodes and would run on less, above all of GPUs."""
        # Not only where they are short alone: gangs that started after its turn may have taken the cpu as well.
        counted = [name for name in self.short if "/" in name][:1]
        if len({task.request.amounts.get(name, 0) for task in self.waiting for name in counted}) != 1:
            return  # nothing is short, or pods differ: one number would not do
        name, each = counted[0], self.waiting[0].request.amounts
        asked = int(each[name]) // amounts.MILLI
        if not 2 <= asked <= ON_A_NODE_MAX:
            return
        needed = self.spec.min_member - self.held
        sizes = ({**each, name: less * amounts.MILLI} for less in range(asked - 1, 0, -1))
        fitting = (size for size in sizes if self._fit(size) >= needed)
        for size in itertools.islice(fitting, CANDIDATES_MAX):
            less = int(size[name]) // amounts.MILLI
            suggestion = Suggestion(Kind.RESOURCE, number=less, instead_of=asked, name=name)
            spec = self._with_minimum(self.spec.min_member, {name: less / asked})
            yield self._edited(suggestion, spec, _with_less(name, asked - less))

    # ------------------------------------------------------------------------------------------------- the gang

    def _queues(self) -> Iterator[Candidate]:
        if not self.codes & _OF_QUEUES:
            return
        parents = {queue.parent for queue in self.snapshot.queues.values()}
        others = [
            queue.name
            for queue in self.snapshot.queues.values()
            if queue.is_open and queue.name not in {*parents, self.spec.queue}
        ]
        for name in others[:CANDIDATES_MAX]:
            yield self._edited(Suggestion(Kind.QUEUE, name=name), msgspec.structs.replace(self.spec, queue=name))

    def _minimums(self) -> Iterator[Candidate]:
        """The room tells how many would fit, shape by shape; where shapes share it that is too many, so the search goes down."""
        least = max(1, self.held + 1, sum(self.spec.role_minimums.values()))
        most = min(self.held + sum(min(shape.fit, shape.waiting) for shape in self.room), self.spec.min_member - 1)
        for _ in range(CANDIDATES_MAX):
            if most < least or self.spec.policies:
                return
            suggestion = Suggestion(Kind.MINIMUM, number=most, instead_of=self.spec.min_member)
            yield self._edited(suggestion, self._with_minimum(most))
            most = least if most - least < CANDIDATES_MAX else (most + least) // 2

    def _priorities(self) -> Iterator[Candidate]:
        own = max([self.spec.priority, *(task.priority for task in self.waiting)])
        above = {
            task.priority
            for gang in self.snapshot.gangs.values()
            if gang.spec.queue == self.spec.queue
            for task in gang.tasks
            if task.priority >= own and task.status in OCCUPYING
        }
        classes = sorted((each.value, name) for name, each in self.snapshot.objects(PriorityClass).items())
        for priority in sorted(above)[:CANDIDATES_MAX]:
            # Tried with the value of the class that is named: a higher rank than is needed may have other victims, or none.
            value, name = next((each for each in classes if each[0] > priority), (priority + 1, ""))
            spec = msgspec.structs.replace(self.spec, priority=value)
            suggestion = Suggestion(Kind.PRIORITY, number=priority, name=name)
            yield self._edited(suggestion, spec, _with_priority(value))

    # ------------------------------------------------------------------------------------------------- the others

    def _ends(self) -> Iterator[Candidate]:
        """Gangs that hold enough of what is short, the smallest of them first."""
        lacking = self._lacking()
        holders = [
            (sum(gang.occupied.get(name, 0) for name in lacking), key)
            for key, gang in self.snapshot.gangs.items()
            if key != self.key and any(gang.occupied.get(name, 0) > 0 for name in lacking)
        ]
        holders.sort(key=lambda pair: (pair[0] < sum(lacking.values()), abs(pair[0] - sum(lacking.values())), pair[1]))
        for _, key in holders[: self.of_others]:
            yield Candidate(Suggestion(Kind.GANG_ENDS, name=key), edits.without_gangs(self.snapshot, {key}))

    def _nodes(self) -> Iterator[Candidate]:
        """As many of the nodes that take most of its pods as the missing members need; twice that where others take the first."""
        if not self.waiting:
            return
        table = self.snapshot.nodes
        per_node = _copies(table.allocatable, table.axis.vector(self.waiting[0].request.amounts))
        kinds = {table.allocatable[:, place].tobytes(): place for place in reversed(range(len(table)))}
        for place in sorted(kinds.values(), key=lambda each: (-per_node[each], each))[: self.of_others]:
            count = math.ceil(self._missing() / int(per_node[place])) if per_node[place] else NODES_MAX
            for number in (count, 2 * count)[: self.of_others]:
                if number < NODES_MAX:
                    suggestion = Suggestion(Kind.NODES, number=number, name=table.names[place])
                    yield Candidate(suggestion, edits.with_nodes(self.snapshot, table.names[place], number))

    # ------------------------------------------------------------------------------------------------- arithmetic

    def _missing(self) -> int:
        """Members that must start together and for which there is no room now."""
        fit = sum(min(shape.fit, shape.waiting) for shape in self.room)
        return max(self.spec.min_member - self.held - fit, 1)

    def _lacking(self) -> Amounts:
        """What the missing members ask for, of what is short; of everything where nothing is known to be."""
        each: Amounts = self.waiting[0].request.amounts if self.waiting else self.spec.minimum or {}
        count = self._missing() if self.waiting else 1
        named = self.short or [name for name in each if name != amounts.PODS]
        return {name: each[name] * count for name in named if each.get(name)}

    def _fit(self, each: Amounts) -> int:
        """How many pods of this size the free room of all nodes takes; filters are left to the engine."""
        table = self.snapshot.nodes
        return int(_copies(table.allocatable - table.used, table.axis.vector(each)).sum())

    def _with_minimum(self, members: int, parts: Amounts | None = None) -> GangSpec:
        """The spec with another minimum, and minResources in proportion; `parts`: of some resources only so much of it."""
        minimum = self.spec.minimum
        if minimum is not None:
            share = members / self.spec.min_member
            minimum = {name: math.ceil(value * share * (parts or {}).get(name, 1)) for name, value in minimum.items()}
        return msgspec.structs.replace(self.spec, min_member=members, minimum=minimum)


def _is_in_the_way(reason: Reason) -> bool:
    return reason.code is Code.WOULD_DELAY and bool(reason.facts.until)


def _copies(free: Column, demand: Column) -> Column:
    """How many pods of a size each node takes; every pod asks for its place among the node's pods at least."""
    return copies(free, demand, np.flatnonzero(demand).tolist())


# ----------------------------------------------------------------------------------------------------- changed pods


def _respec(pod: Pod, **fields: object) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, **fields))


def _tolerating(toleration: Toleration) -> Callable[[Pod], Pod]:
    return lambda pod: _respec(pod, tolerations=(*pod.spec.tolerations, toleration))


def _unselecting(key: str, value: str) -> Callable[[Pod], Pod]:
    def change(pod: Pod) -> Pod:
        left = {each: text for each, text in pod.spec.node_selector.items() if (each, text) != (key, value)}
        return _respec(pod, node_selector=left)

    return change


def _has_affinity(pod: Pod) -> bool:
    affinity = pod.spec.affinity
    return affinity is not None and affinity.node_affinity is not None and affinity.node_affinity.required is not None


def _without_affinity(pod: Pod) -> Pod:
    affinity = pod.spec.affinity
    if affinity is None or affinity.node_affinity is None:
        return pod
    nodes = msgspec.structs.replace(affinity.node_affinity, required=None)
    return _respec(pod, affinity=msgspec.structs.replace(affinity, node_affinity=nodes))


def _with_priority(priority: int) -> Callable[[Pod], Pod]:
    return lambda pod: _respec(pod, priority=priority)


def _with_less(name: str, less: int) -> Callable[[Pod], Pod]:
    """So many fewer of a resource, taken from the first container that has as many."""

    def change(pod: Pod) -> Pod:
        containers = list(pod.spec.containers)
        for place, container in enumerate(containers):
            asked = amounts.read({**container.resources.limits, **container.resources.requests}).get(name, 0)
            if asked > less * amounts.MILLI:
                text = amounts.quantity_text(name, asked - less * amounts.MILLI)
                parts = container.resources
                resources = msgspec.structs.replace(
                    parts,
                    limits={**parts.limits, name: text} if name in parts.limits else parts.limits,
                    requests={**parts.requests, name: text},
                )
                containers[place] = msgspec.structs.replace(container, resources=resources)
                break
        return _respec(pod, containers=tuple(containers))

    return change

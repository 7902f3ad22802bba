"""numa-aware: pods that get CPUs of their own go where these come from as few NUMA nodes as they ask for.

Nodes are known from Numatopology objects, which an exporter writes: how CPUs hang together, which are free, and the kubelet's
policies. What is chosen here leaves with the bind, as an annotation, and counts as taken until the exporter reports it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np

from pumice import quantity
from pumice.api import names
from pumice.api.decoding import UNREADABLE
from pumice.api.nodeinfo import Numatopology
from pumice.cluster import amounts
from pumice.cluster.requests import is_guaranteed
from pumice.cluster.tasks import Status
from pumice.scheduling.core import arguments
from pumice.scheduling.core.codes import NO_FACTS, Code, Facts
from pumice.scheduling.core.plugin import Plugin, Watch
from pumice.scheduling.core.shapes import Reads
from pumice.scheduling.core.verdict import Cure, Denial
from pumice.scheduling.placing.constraints import cpus as cpu_sets
from pumice.scheduling.placing.constraints.cpus import Layout, cpuset, cpuset_text, layout_of
from pumice.scheduling.placing.node_cache import NodeCache, NodeLog
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pumice.api.pods import Container
    from pumice.cluster.columns import Mask
    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.points import Indexes, Scores
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape
    from pumice.scheduling.placing.constraints.cpus import Assignment

NAME = "numa-aware"
_STATIC = "static"
_CPU_MANAGER, _TOPOLOGY_MANAGER = "CPUManagerPolicy", "TopologyManagerPolicy"
_OURS = frozenset({Status.PENDING, Status.ALLOCATED, Status.PIPELINED})  # placed by this session, or just taken back
_ACTIVE = frozenset({cpu_sets.BEST_EFFORT, cpu_sets.RESTRICTED, cpu_sets.SINGLE})


class Args(arguments.Args, frozen=True, kw_only=True):
    weight: Annotated[int, msgspec.Meta(description="weight of the score")] = 1


class Ask(Value):
    """What a pod wants of a node's CPUs: whole ones for each container (0: shared), under the policy that it names, if any."""

    policy: str
    wanted: tuple[int, ...]


class NumaAware(Plugin):
    """Filters by what the kubelet would refuse, scores by how few NUMA nodes are needed, and remembers what it gave away."""

    args_type = Args
    args: Args
    watches = (Watch(Numatopology),)

    def open(self, session: Session) -> None:
        self.session = session
        self.log = NodeLog()
        table = session.room.table
        objects = session.snapshot.objects(Numatopology)
        self.nodes = {
            table.index[name]: _Node(each, table.tasks[table.index[name]])
            for name, each in objects.items()
            if name in table.index
        }
        self.managed = [index for index, node in self.nodes.items() if node.is_managed]
        self.answers: dict[tuple[int, ...], _Answers] = {}
        self.given: dict[str, Assignment] = {}
        self.asks: dict[str, Ask | None] = {}
        on = session.on
        on.declare(Reads.NOTHING, ask_of, lasts=True)
        on.filter(self.policies)
        if self.managed:
            on.live_filter(self.filter, concerns=self._concerns)
            on.live_score(self.score, concerns=self._names_a_policy)
            on.moved(self.moved)
            on.annotate(self.annotate)

    def ask(self, task: Task) -> Ask | None:
        """As `ask_of`, looked at once."""
        if task.uid not in self.asks:
            self.asks[task.uid] = ask_of(task)
        return self.asks[task.uid]

    def _concerns(self, shape: Shape) -> bool:
        ask = self.ask(shape.example)
        return ask is not None and any(ask.wanted)

    def _names_a_policy(self, shape: Shape) -> bool:
        ask = self.ask(shape.example)
        return ask is not None and bool(ask.policy) and any(ask.wanted)

    # ------------------------------------------------------------------------------------------------- filters

    def policies(self, shape: Shape) -> list[Denial]:
        """A pod that names a policy runs only on nodes whose kubelet keeps that policy."""
        ask = self.ask(shape.example)
        if ask is None or not ask.policy:
            return []
        refused: dict[tuple[Code, Facts], list[int]] = {}
        unknown = [index for index in range(len(self.session.room.table)) if index not in self.nodes]
        refused[Code.NUMA_UNKNOWN, NO_FACTS] = unknown
        for index, node in self.nodes.items():
            why = node.why_not(ask.policy)
            if why is not None:
                refused.setdefault(why, []).append(index)
        return [Denial(code, NAME, self._mask(nodes), facts=facts) for (code, facts), nodes in refused.items() if nodes]

    def filter(self, shape: Shape) -> list[Denial]:
        """Nodes on which some container would find no CPUs that the kubelet's policy lets it have."""
        answers = self._answers(shape)
        containers = shape.example.pod.spec.containers
        denials = []
        for number in np.unique(answers.failed[answers.failed >= 0]).tolist():
            facts = Facts(name=containers[number].name)
            nodes = answers.failed == number
            for those, cure in ((nodes & ~answers.hopeless, Cure.EVICTION), (nodes & answers.hopeless, Cure.CHANGE)):
                if those.any():
                    denials.append(Denial(Code.NUMA_CONTAINER, NAME, those, cure, facts))
        return denials

    def _answers(self, shape: Shape) -> _Answers:
        ask = self.ask(shape.example)
        assert ask is not None
        answers = self.answers.get(ask.wanted)
        if answers is None:
            answers = self.answers[ask.wanted] = _Answers(self, ask.wanted)
        answers.standing.refresh()
        return answers

    def _mask(self, nodes: Iterable[int]) -> Mask:
        mask = np.zeros(len(self.session.room.table), dtype=bool)
        mask[list(nodes)] = True
        return mask

    # ------------------------------------------------------------------------------------------------- scores

    def score(self, shape: Shape, task: Task, nodes: Indexes) -> Scores:
        """The fewer NUMA nodes the better, against the worst candidate."""
        del task
        spread = self._answers(shape).spread[nodes]
        worst = int(spread.max())
        share = 100 * spread // worst if worst else np.zeros_like(spread)
        return np.asarray((100 - share) * self.args.weight, dtype=np.float64)

    # ------------------------------------------------------------------------------------------------- bookkeeping

    def moved(self, gang: GangState, shape: Shape, tasks: Sequence[Task], nodes: Sequence[int], sign: int) -> None:
        del shape
        for task, index in zip(tasks, nodes, strict=True):
            node = self.nodes.get(index)
            if node is None or not node.is_managed:
                continue
            if gang.status(task) in _OURS:
                self._place(task, node, sign)
            else:
                node.evict(task.uid, sign)
            self.log.note(index)

    def _place(self, task: Task, node: _Node, sign: int) -> None:
        if sign < 0:
            if self.given.pop(task.uid, None) is not None:
                node.give_back(task.uid)
            return
        ask = self.ask(task)
        if ask is not None and any(ask.wanted):
            assignment = node.assign(ask.wanted)
            if assignment.failed is None:
                self.given[task.uid] = assignment
                node.give(task.uid, _union(assignment.cpus))

    def annotate(self, task: Task) -> Mapping[str, str]:
        assignment = self.given.get(task.uid)
        if assignment is None:
            return {}
        node = self.nodes[self.session.node_index(task)]
        union = _union(assignment.cpus)
        counts = {str(key): (own & union).bit_count() for key, own in sorted(node.layout.numa.items())}
        decision = {"numa": {key: {"cpu": str(count)} for key, count in counts.items() if count}}
        containers = zip(task.pod.spec.containers, assignment.cpus, strict=True)
        sets = {container.name: cpuset_text(cpus) for container, cpus in containers if cpus}
        return {names.TOPOLOGY_DECISION: _json(decision), names.CPUSETS: _json(sets)}


def _union(sets: Iterable[int]) -> int:
    union = 0
    for cpus in sets:
        union |= cpus
    return union


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


# ------------------------------------------------------------------------------------------------- pods


def ask_of(task: Task) -> Ask | None:
    """None for a pod that shares CPUs with all others: only Guaranteed ones get CPUs of their own."""
    pod = task.pod
    if not is_guaranteed(pod):
        return None
    policy = pod.metadata.annotations.get(names.NUMA_TOPOLOGY_POLICY, "")
    return Ask("" if policy == cpu_sets.NONE else policy, tuple(_whole_cpus(each) for each in pod.spec.containers))


def _whole_cpus(container: Container) -> int:
    milli = int(amounts.read(container.resources.limits)[amounts.CPU])
    return milli // amounts.MILLI if milli % amounts.MILLI == 0 else 0


# ------------------------------------------------------------------------------------------------- nodes


class _Node:
    """The CPUs of one node: what the exporter calls free, less what was given away since."""

    def __init__(self, numatopology: Numatopology, tasks: Sequence[Task]) -> None:
        spec = numatopology.spec
        self.policy = spec.policies.get(_TOPOLOGY_MANAGER, "") or cpu_sets.NONE
        self.is_static = spec.policies.get(_CPU_MANAGER) == _STATIC
        self.layout: Layout = layout_of(spec.cpu_detail)
        reserved = self.layout.take(self.layout.all, _reserved_cpus(spec.res_reserved.get("cpu", "0")))
        self.own: int = self.layout.all & ~(reserved or 0)
        cpu = spec.numares.get("cpu")
        self.reported = self.own & cpuset(cpu.allocatable) if cpu is not None else 0
        self.exported = {
            each.uid: _union(cpuset(one.allocations.get("cpu", "")) for one in each.container_allocations)
            for each in spec.pod_allocations
        }
        self.taken: dict[str, int] = {}
        self.freed: dict[str, int] = {}
        for task in tasks:
            if task.uid not in self.exported and (cpus := _annotated_cpus(task)):
                self.taken[task.uid] = cpus
        self._settle()

    @property
    def is_managed(self) -> bool:
        """Whether its kubelet refuses pods whose CPUs are badly spread."""
        return self.is_static and self.policy in _ACTIVE

    def why_not(self, policy: str) -> tuple[Code, Facts] | None:
        if not self.is_static:
            return Code.NUMA_NOT_STATIC, NO_FACTS
        if self.policy != policy:
            return Code.NUMA_POLICY, Facts(names=(policy, self.policy))
        return None if self.own else (Code.NUMA_NO_CPUS, NO_FACTS)

    def assign(self, wanted: tuple[int, ...]) -> Assignment:
        return cpu_sets.assign(self.layout, self.policy, self.free, wanted)

    def is_hopeless(self, wanted: tuple[int, ...]) -> bool:
        """Whether not even an empty node would do."""
        return cpu_sets.assign(self.layout, self.policy, self.own, wanted).failed is not None

    def give(self, uid: str, cpus: int) -> None:
        self.taken[uid] = cpus
        self._settle()

    def give_back(self, uid: str) -> None:
        self.taken.pop(uid, None)
        self._settle()

    def evict(self, uid: str, sign: int) -> None:
        """The CPUs of a pod that has to go become free (-1), or are its own again (+1)."""
        if sign < 0:
            self.freed[uid] = self.taken.get(uid, self.exported.get(uid, 0))
        else:
            self.freed.pop(uid, None)
        self._settle()

    def _settle(self) -> None:
        held = _union(cpus for uid, cpus in self.taken.items() if uid not in self.freed)
        self.free = (self.reported | (self.own & _union(self.freed.values()))) & ~held


def _reserved_cpus(text: str) -> int:
    """Whole CPUs that the kubelet keeps for the system; the schema lets anything pass, and what is no quantity reserves none."""
    try:
        return max(math.ceil(quantity.parse_milli(text) / amounts.MILLI), 0)
    except quantity.QuantityError:
        return 0


def _annotated_cpus(task: Task) -> int:
    """CPUs that an earlier cycle chose for the pod; what it wrote is read with care, because any user may write annotations."""
    try:
        sets = msgspec.json.decode(task.pod.metadata.annotations.get(names.CPUSETS, "{}"), type=dict[str, str])
    except UNREADABLE:
        return 0
    return _union(cpuset(text) for text in sets.values())


class _Answers:
    """What each managed node says to pods that want so many CPUs, as columns."""

    def __init__(self, plugin: NumaAware, wanted: tuple[int, ...]) -> None:
        count = len(plugin.session.room.table)
        self.failed = np.full(count, -1, dtype=np.int64)  # number of the container that gets no CPUs
        self.spread = np.zeros(count, dtype=np.int64)
        self.hopeless = np.zeros(count, dtype=bool)
        nodes = plugin.nodes

        def look(index: int) -> None:
            answer = nodes[index].assign(wanted)
            self.failed[index] = -1 if answer.failed is None else answer.failed
            self.spread[index] = answer.spread
            self.hopeless[index] = answer.failed is not None and nodes[index].is_hopeless(wanted)

        self.standing = NodeCache(plugin.log, plugin.managed, look)

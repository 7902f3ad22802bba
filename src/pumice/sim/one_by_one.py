"""kube-scheduler in place of the engine: pod by pod, whatever becomes of the rest of a gang.

What it does and the engine does not, in the words and with the numbers of Kubernetes:

- Pods of a gang come one after the other, as fast as controllers are allowed to make them, and each is tried for itself. It goes to the node with
  the most free CPU and memory (LeastAllocated), and holds its room from then on. The gang runs when the last pod that it needs has a place.
- A pod that found no room is tried again when room has become free, but not before its back-off is over: a second, doubled with each attempt,
  ten at most. In between, pods that have just come are tried before it. So two gangs may each hold what the other one needs.
- A gang that holds some of its pods' room and cannot start gives all back after a while, as training jobs end that wait for their last worker in
  vain; it is made anew after a pause that doubles. Without that, a deadlock would last for ever.

A gang's pods that wait are tried together here: they are alike in all that decides. Nobody is evicted, queues have no meaning, and of what a pod
may ask for, requests, node selectors, node affinity, taints and cordons count.
"""

from __future__ import annotations

import enum
import heapq
import math
import random
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np

from pumice.api.pods import Pod
from pumice.api.priority import PriorityClass
from pumice.api.tolerations import NO_EXECUTE, NO_SCHEDULE, tolerates
from pumice.cluster import amounts
from pumice.cluster.intake import allocatable_of
from pumice.cluster.matching import compile_terms
from pumice.cluster.requests import request_of
from pumice.sim.outcome import Outcome, Run
from pumice.sim.simulation import gang_objects, gpus_of
from pumice.sim.workload import Submission
from pumice.values import Mutable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from pumice.api.core import Node
    from pumice.api.meta import Struct

PODS_PER_S = 20  # that a controller may make: kube-controller-manager's --kube-api-qps
BACKOFF_S, BACKOFF_MAX_S = 1.0, 10.0  # kube-scheduler's podInitialBackoffSeconds and podMaxBackoffSeconds
GIVE_BACK_S = 600.0  # PyTorch's workers wait so long for each other
GIVE_BACK_SPREAD = (
    0.1  # more or less: no two gangs have the same patience, or two could deadlock each other again and again
)
PAUSE_S, PAUSE_MAX_S = 10.0, 360.0  # before pods are made again: the Job controller's back-off
GIVE_BACKS_MAX = 1_000  # of one gang; then it is given up


class _Kind(enum.IntEnum):
    """What happens at one instant happens in this order: room becomes free before pods look for it."""

    END = 0
    GIVE_BACK = 1
    COME = 2
    TRY = 3


class _Shape(Mutable, eq=False):
    """Pods that are alike: what each asks for, and which nodes it may go to."""

    demand: NDArray[np.float64]
    nodes: NDArray[np.bool_]
    gpus: int
    full_since: int = -1  # the number of the last release of room after which none was found


class _Gang(Mutable, eq=False):
    """A gang, where its pods are, and what is left to do for it."""

    run: Run
    priority: int
    wants: Mapping[_Shape, int]  # all its pods
    needs: int  # of them, to start
    pending: dict[_Shape, int] = msgspec.field(default_factory=dict)  # pods that have come, and have no place
    placed: list[tuple[_Shape, int]] = msgspec.field(default_factory=list)  # of each pod its shape and its node
    runs: bool = False
    life: int = 0  # events of an earlier one are void
    gave_back: int = 0  # how often
    tries: int = 0
    tried_s: float = 0.0
    is_due: bool = False  # it is going to be tried

    def again_s(self, now_s: float) -> float:
        """When its pods may be tried again: now, or when their back-off is over."""
        backoff = min(BACKOFF_S * 2.0 ** min(self.tries - 1, 10), BACKOFF_MAX_S) if self.tries else 0.0
        return max(now_s, self.tried_s + backoff)


class _Event(NamedTuple):
    """In the order in which they happen; pods that are tried at one instant go by priority, then by their last attempt."""

    at_s: float
    what: _Kind
    rank: tuple[int, float]
    order: int
    life: int
    gang: _Gang
    pods: tuple[_Shape, int] | None = None


class OneByOne:
    """A workload on its way through a cluster; `outcome` is what has become of it so far."""

    def __init__(
        self,
        work: Sequence[Submission],
        machines: Sequence[Node],
        *,
        others: Iterable[Struct] = (),
        give_back_s: float | None = GIVE_BACK_S,  # None: never
        seed: int = 1,
    ) -> None:
        others = list(others)
        self._room = _Room(machines)
        self._priorities = {each.metadata.name: each.value for each in others if isinstance(each, PriorityClass)}
        self._give_back_s = give_back_s
        self._chance = random.Random(seed)  # noqa: S311  drawn for a simulation
        self._events: list[_Event] = []
        self._order = 0
        self._waiting: dict[int, _Gang] = {}  # with pods that have no place
        runs = [Run(number, each) for number, each in enumerate(work)]
        self.outcome = Outcome(sum(map(gpus_of, machines)), runs)
        self.ended, self.now_s = 0, 0.0
        for pod in others:
            if isinstance(pod, Pod):
                self._room.stand(pod)
        for run in runs:
            self._submit(run)

    def steps(self) -> Iterator[None]:
        """One instant after the other, until all has ended, or nothing happens any more."""
        while self._events and self.ended < len(self.outcome.runs):
            self.now_s = self._events[0].at_s
            while self._events and self._events[0].at_s == self.now_s:
                event = heapq.heappop(self._events)
                if event.life == event.gang.life:
                    self._happen(event)
            self.outcome.cycles += 1
            yield

    # ------------------------------------------------------------------------------------------------- gangs

    def _submit(self, run: Run) -> None:
        job, pods = run.job, [thing for thing in run.job.objects if isinstance(thing, Pod)]
        if pods:
            wants: Mapping[_Shape, int] = Counter(map(self._room.shape, pods))
            priority = max(pod.spec.priority or 0 for pod in pods)
        else:
            wants, priority = {self._room.shape_of_slots(job): job.size}, self._priorities.get(job.priority_class, 0)
        gang = _Gang(run, priority, wants, job.size if job.minimum is None else job.minimum)
        if job.ran_s is None:
            self._make(gang, job.at_s)
            return
        gang.placed = [each for pod in pods if (each := self._room.stand(pod)) is not None]
        self._start(gang, job.run_s - job.ran_s)
        run.began_s = job.at_s - job.ran_s

    def _make(self, gang: _Gang, at_s: float) -> None:
        """Its pods come, so many each second."""
        made = 0
        for shape, count in gang.wants.items():
            for first in range(0, count, PODS_PER_S):
                now = min(PODS_PER_S, count - first)
                self._foresee(at_s + made // PODS_PER_S, _Kind.COME, gang, (shape, now))
                made += now

    def _foresee(self, at_s: float, what: _Kind, gang: _Gang, pods: tuple[_Shape, int] | None = None) -> None:
        self._order += 1
        rank = (-gang.priority, gang.tried_s)
        heapq.heappush(self._events, _Event(at_s, what, rank, self._order, gang.life, gang, pods))

    def _happen(self, event: _Event) -> None:
        gang = event.gang
        match event.what:
            case _Kind.COME:
                assert event.pods is not None
                shape, count = event.pods
                gang.pending[shape] = gang.pending.get(shape, 0) + count
                self._waiting[gang.run.number] = gang
                if not gang.is_due:
                    self._foresee(self.now_s, _Kind.TRY, gang)
                    gang.is_due = True
            case _Kind.TRY:
                self._try(gang)
            case _Kind.GIVE_BACK if not gang.runs:
                self._give_back(gang)
            case _Kind.END:
                self.outcome.ended(gang.run, self.now_s)
                self.ended += 1
                self._leave(gang)

    def _try(self, gang: _Gang) -> None:
        """Each of its pods takes the best place that there is."""
        held, gang.is_due = _slots(gang.placed), False
        had_any = bool(gang.placed)
        for shape, count in list(gang.pending.items()):
            nodes = self._room.place(shape, count)
            gang.placed += [(shape, node) for node in nodes]
            gang.pending[shape] -= len(nodes)
            if not gang.pending[shape]:
                del gang.pending[shape]
        gang.tried_s, gang.tries = self.now_s, gang.tries + 1
        if not gang.pending:
            self._waiting.pop(gang.run.number, None)
        if gang.runs:
            return
        if len(gang.placed) >= gang.needs:
            self.outcome.blocks(gang.run, self.now_s, -held)
            self._start(gang, gang.run.job.run_s)
        elif gang.placed:
            self.outcome.blocks(gang.run, self.now_s, _slots(gang.placed) - held)
            if not had_any and self._give_back_s is not None:
                patience_s = self._give_back_s * self._chance.uniform(1 - GIVE_BACK_SPREAD, 1 + GIVE_BACK_SPREAD)
                self._foresee(self.now_s + round(patience_s, 1), _Kind.GIVE_BACK, gang)

    def _start(self, gang: _Gang, run_s: float) -> None:
        gang.runs = True
        self.outcome.started(gang.run, self.now_s)
        self._foresee(self.now_s + run_s, _Kind.END, gang)

    def _give_back(self, gang: _Gang) -> None:
        """All that it holds; its pods are made again after a pause."""
        self.outcome.blocks(gang.run, self.now_s, -_slots(gang.placed))
        self.outcome.give_backs += 1
        gang.gave_back += 1
        self._leave(gang)
        if gang.gave_back < GIVE_BACKS_MAX:
            self._make(gang, self.now_s + min(PAUSE_S * 2.0 ** min(gang.gave_back - 1, 10), PAUSE_MAX_S))

    def _leave(self, gang: _Gang) -> None:
        """Its room is free, and whoever waits is tried again."""
        self._room.release(gang.placed)
        self._waiting.pop(gang.run.number, None)
        gang.pending, gang.placed, gang.life, gang.tries, gang.is_due = {}, [], gang.life + 1, 0, False
        for each in self._waiting.values():
            if not each.is_due:
                self._foresee(each.again_s(self.now_s), _Kind.TRY, each)
                each.is_due = True


class _Room:
    """What is free on the nodes."""

    def __init__(self, machines: Sequence[Node]) -> None:
        self._nodes = machines
        self._index = {node.metadata.name: place for place, node in enumerate(machines)}
        rooms = [allocatable_of(node) for node in machines]
        self._axis = sorted({name for room in rooms for name in room})
        offered = np.array([[float(room.get(name, 0)) for room in rooms] for name in self._axis])
        self._free = offered
        scored = [self._axis.index(name) for name in (amounts.CPU, amounts.MEMORY) if name in self._axis]
        self._scored = scored
        self._scale = 1.0 / np.maximum(offered[scored], 1.0)
        self._releases = 0  # how often room has become free
        self._shapes: dict[bytes, _Shape] = {}
        self._of_slots: dict[int, _Shape] = {}

    def shape_of_slots(self, job: Submission) -> _Shape:
        """Of the pods of a job that has no objects."""
        found = self._of_slots.get(job.slots)
        if found is None:
            _, pod = gang_objects("job", Submission(at_s=0, run_s=1, slots=job.slots), None)
            assert isinstance(pod, Pod)
            found = self._of_slots[job.slots] = self.shape(pod)
        return found

    def shape(self, pod: Pod) -> _Shape:
        asked, spec = request_of(pod).amounts, pod.spec
        affinity = spec.affinity.node_affinity if spec.affinity is not None else None
        key = msgspec.msgpack.encode(
            (sorted(asked.items()), dict(spec.node_selector), affinity, spec.tolerations), enc_hook=dict
        )
        found = self._shapes.get(key)
        if found is None:
            fits = [_admits(pod, node) and set(asked) <= set(self._axis) for node in self._nodes]
            demand = np.array([[float(asked.get(name, 0))] for name in self._axis])
            gpus = math.ceil(sum(value for name, value in asked.items() if amounts.is_gpu(name)) / amounts.MILLI)
            found = self._shapes[key] = _Shape(demand, np.array(fits), gpus)
        return found

    def stand(self, pod: Pod) -> tuple[_Shape, int] | None:
        """A pod that is on its node already."""
        node = self._index.get(pod.spec.node_name)
        if node is None:
            return None
        shape = self.shape(pod)
        self._free[:, node] -= shape.demand[:, 0]
        return shape, node

    def place(self, shape: _Shape, count: int) -> list[int]:
        """The nodes of as many such pods as there is room for, each the one with the most free CPU and memory."""
        nodes = list[int]()
        while len(nodes) < count and shape.full_since != self._releases:
            fits = shape.nodes & (self._free >= shape.demand).all(axis=0)
            places = np.flatnonzero(fits)
            if not len(places):
                shape.full_since = self._releases
                break
            scores = (self._free[self._scored][:, places] * self._scale[:, places]).sum(axis=0)
            node = int(places[scores.argmax()])
            self._free[:, node] -= shape.demand[:, 0]
            nodes.append(node)
        return nodes

    def release(self, pods: Iterable[tuple[_Shape, int]]) -> None:
        self._releases += 1
        for shape, node in pods:
            self._free[:, node] += shape.demand[:, 0]


def _admits(pod: Pod, node: Node) -> bool:
    """Whether the node takes such a pod, room aside."""
    labels, spec, name = node.metadata.labels, pod.spec, node.metadata.name
    if node.spec.unschedulable or any(labels.get(key) != value for key, value in spec.node_selector.items()):
        return False
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    wanted = affinity.required if affinity is not None else None
    if wanted is not None and not compile_terms(wanted).matches(labels, node_name=name):
        return False
    repelling = [taint for taint in node.spec.taints if taint.effect in {NO_SCHEDULE, NO_EXECUTE}]
    return all(any(tolerates(each, taint) for each in spec.tolerations) for taint in repelling)


def _slots(pods: Iterable[tuple[_Shape, int]]) -> int:
    return sum(shape.gpus for shape, _ in pods)

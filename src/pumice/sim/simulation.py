"""A workload on a cluster under a policy, from the first submission to the last end."""

from __future__ import annotations

import contextlib
import functools
import gc
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypedDict

import msgspec

from pumice import instant
from pumice.api import changes, names
from pumice.api.core import Node, NodeStatus
from pumice.api.meta import ObjectMeta
from pumice.api.pods import Container, Pod, PodSpec, PodStatus, ResourceRequirements
from pumice.api.priority import PriorityClass
from pumice.api.scheduling import (
    PodGroup,
    PodGroupSpec,
    PodGroupStatus,
    Queue,
    QueueSpec,
    QueueStatus,
)
from pumice.cluster import amounts
from pumice.cluster.intake import Intake, allocatable_of
from pumice.cluster.state import Cluster
from pumice.errors import BadInput
from pumice.scheduling.core import builtin, cycle
from pumice.scheduling.time import direct_starts, run_times
from pumice.scheduling.time.backlog import Ask, Backlog
from pumice.scheduling.time.direct_starts import DirectStarts
from pumice.scheduling.time.estimates import LENGTH_MAX
from pumice.scheduling.time.forward import LEAVING, Forward
from pumice.sim import policies
from pumice.sim.outcome import Outcome, Run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Unpack

    from pumice.api.meta import Struct
    from pumice.instant import Duration, Instant
    from pumice.scheduling.core.plugin import Plugin
    from pumice.scheduling.core.policy import Policy
    from pumice.scheduling.time.forward import Step
    from pumice.sim.workload import Submission

NODES_MAX = 20_000
SLOTS_MAX = 1_000  # of one node
LAST = (
    2**63 - 1 - LENGTH_MAX
)  # instant that is looked at, in the year 2162: the end of whoever starts then is still a number of 64 bits
START = instant.parse_instant("2026-01-01T00:00:00Z")  # second 0 of every workload
_DAY_ONE = instant.format_instant(START)
SLOT = "nvidia.com/gpu"  # what a slot is called in the cluster
_CLUSTER = re.compile(r"([0-9]{1,9})x([0-9]{1,9})(?:x([A-Za-z][A-Za-z0-9._-]{0,62}))?")
MODEL = "nvidia.com/gpu.product"
NAMESPACE = "sim"
GARBAGE = (
    100_000,
    50,
    100,
)  # objects before the young are collected, how often that is done before the older are, and those before all


def nodes(text: str) -> list[Node]:
    """Equal nodes: "32x8" are 32 with 8 slots each, "32x8xH100" the same with the model of their GPUs as a label."""
    match = _CLUSTER.fullmatch(text)
    count, slots = (int(match[1]), int(match[2])) if match else (0, 0)
    if not (1 <= count <= NODES_MAX and 1 <= slots <= SLOTS_MAX):
        raise BadInput(
            f"cluster {text!r}: write NODESxSLOTS, such as 32x8, or NODESxSLOTSxMODEL, such as 32x8xH100, with 1 to {NODES_MAX} nodes of 1 to {SLOTS_MAX} slots"
        )
    model = {MODEL: match[3]} if match and match[3] else {}
    return [node_of(f"node-{number:05}", slots, model) for number in range(count)]


def node_of(name: str, slots: int, labels: Mapping[str, str]) -> Node:
    """A node with so many slots, each with a CPU and 4 GiB beside it."""
    room = {"cpu": str(slots), "memory": f"{4 * slots}Gi", "pods": str(max(110, slots)), SLOT: str(slots)}
    meta = ObjectMeta(name=name, uid=name, creation_timestamp=_DAY_ONE, labels={names.HOSTNAME: name, **labels})
    return Node(metadata=meta, status=NodeStatus(allocatable=room, capacity=room))


def more_nodes(machines: Sequence[Node], count: int) -> list[Node]:
    """The same, and so many more like the largest of them."""
    if not 1 <= count <= NODES_MAX - len(machines):
        raise BadInput(f"--add-nodes {count}: 1 to {NODES_MAX - len(machines)}, which makes {NODES_MAX} in all")
    like = max(machines, key=gpus_of)
    return [*machines, *(_another(like, f"added-{number:05}") for number in range(count))]


def _another(like: Node, name: str) -> Node:
    labels = {**like.metadata.labels, names.HOSTNAME: name}
    metadata = msgspec.structs.replace(like.metadata, name=name, uid=name, labels=labels)
    spec = msgspec.structs.replace(like.spec, unschedulable=False)
    return msgspec.structs.replace(like, metadata=metadata, spec=spec)


def gpus_of(node: Node) -> int:
    """How many GPUs it has, of whatever kind."""
    return int(sum(value for name, value in allocatable_of(node).items() if amounts.is_gpu(name))) // amounts.MILLI


def simulate(
    work: Sequence[Submission],
    machines: Sequence[Node],
    *,
    until_s: float | None = None,
    progress: Callable[[float, int], None] = lambda _at_s, _ended: None,
    **settings: Unpack[Settings],
) -> Outcome:
    """What becomes of the work; `Settings` says what else may be given. Gangs that have not ended by `until_s`, or that nothing can
    start any more, stay without an end. `progress` is told the second and how many gangs have ended.
    """
    simulation = Simulation(work, machines, **settings)
    with rare_collections():
        for _ in simulation.steps(until_s):
            progress(simulation.now_s, simulation.ended)
    return simulation.outcome


@contextlib.contextmanager
def rare_collections() -> Iterator[None]:
    """Inside, garbage is collected after a hundred thousand objects: each cycle leaves some thousand, and looking for them as often as Python does takes a tenth of the time."""
    usual = gc.get_threshold()
    gc.set_threshold(*GARBAGE)
    try:
        yield
    finally:
        gc.set_threshold(*usual)


class Settings(TypedDict, total=False):
    """What a simulation may be told beside its work and its nodes."""

    policy: str | bytes  # its text; else the built-in policy
    source: str  # what it is called in messages
    queues: (
        Mapping[str, int] | Sequence[Queue]
    )  # weights by name, or Queue objects; others that the work names have weight 1
    strict: bool  # of queues that are no objects: a gang that does not fit holds up those behind it
    others: Iterable[Struct]  # what stands from the beginning: priority classes, hyper nodes, pods of others
    leaving: Duration  # how long victims hold their room
    rhythm: Duration  # while somebody waits, the engine decides once in so long; else at every instant at which anything happens
    begin: Instant  # second 0; where the work is a dump, the moment that it shows
    extra_plugins: Mapping[str, type[Plugin]]
    shows_all: (
        bool  # to the engine, also gangs that no cycle could do anything for: for those who look at `ahead` on the way
    )


class Simulation:
    """A workload on its way through a cluster; `ahead` is the engine, `outcome` what has become of the work so far."""

    def __init__(self, work: Sequence[Submission], machines: Sequence[Node], **settings: Unpack[Settings]) -> None:
        intake = Intake(Cluster())
        strict = settings.get("strict", False)
        running = [thing for each in work if each.ran_s is not None for thing in each.objects]
        queues = _queues(settings.get("queues", ()), work, strict=strict)
        others = tuple(settings.get("others", ()))
        standing = (*queues, *machines, *others, *running)
        for thing in standing:
            intake.apply(changes.Upserted(object=thing))
        priorities = {each.metadata.name: each.value for each in standing if isinstance(each, PriorityClass)}
        self.begin = settings.get("begin", START)
        extra = settings.get("extra_plugins", cycle.NO_PLUGINS)
        source = settings.get("source", "built-in policy")
        self.runs = {gang_key(number, each): Run(number, each) for number, each in enumerate(work)}
        self.outcome = Outcome(sum(map(gpus_of, machines)), list(self.runs.values()))
        self.ended = 0
        self._blocked: dict[str, int] = {}  # slots that gangs hold which do not run
        policy = builtin.parse(settings.get("policy", builtin.TEXT), source, extra)
        self.ahead = Forward(
            intake,
            policy,
            now=self.begin + min((_span(each.at_s) for each in work), default=0),
            run_time=lambda gang: _span(self.runs[gang].job.run_s),
            leaving=settings.get("leaving", LEAVING),
            rhythm=settings.get("rhythm", 0),
            backs_off=False,  # virtual time would stop at the end of every pause
            extra_plugins=extra,
            backlog=_backlog(work, machines, standing, settings),
            direct=DirectStarts(intake.cluster, policy, strict=strict)
            if _starts_directly(work, policy, others, settings)
            else None,
        )
        for key, run in self.runs.items():
            self._submit(key, run, priorities.get(run.job.priority_class))

    def _submit(self, key: str, run: Run, priority: int | None) -> None:
        job, at = run.job, self.begin + _span(run.job.at_s)
        if job.ran_s is not None:
            self.ahead.is_running(key, until=at + _span(job.run_s - job.ran_s))
            self.outcome.started(run, job.at_s)
            run.began_s = job.at_s - job.ran_s
        elif job.objects:
            self.ahead.submit(at, lambda: job.objects)
        else:
            objects = functools.partial(gang_objects, _name(run.number), job, priority)
            self.ahead.submit(at, objects, _ask(key, job))

    def steps(self, until_s: float | None = None) -> Iterator[Step]:
        """One instant after the other, until all work has ended, or nothing happens any more."""
        until = LAST if until_s is None else self.begin + _span(until_s)
        for step in self.ahead.run(until):
            self._count(step)
            yield step
            if self.ended == len(self.runs):
                return  # plugins may go on looking at the clock

    @property
    def now_s(self) -> float:
        return (self.ahead.now - self.begin) / instant.SECOND

    def waiting(self) -> list[str]:
        """Gangs that have come, and have not started."""
        return [key for key, run in self.runs.items() if run.start_s is None and run.job.at_s <= self.now_s]

    def _count(self, step: Step) -> None:
        at_s, outcome, runs = (step.at - self.begin) / instant.SECOND, self.outcome, self.runs
        for gang in step.restarted:
            outcome.restarted(runs[gang], at_s)
        for gang in step.ended:
            outcome.ended(runs[gang], at_s)
        for gang in step.started:
            outcome.started(runs[gang], at_s)
        self._count_blocked(step, at_s)
        outcome.evictions += len(step.decisions.evictions)
        outcome.cycles = self.ahead.cycles
        self.ended += len(step.ended)

    def _count_blocked(self, step: Step, at_s: float) -> None:
        """Under a policy without gangs, first pods are bound, and hold their slots until the last has its own."""
        for commit in step.decisions.commits:
            run = self.runs[commit.gang]
            held = self._blocked.pop(commit.gang, 0)
            if commit.gang not in self.ahead.running:
                more = len(commit.binds) * run.job.slots if run.job.gpus is None else 0
                self._blocked[commit.gang] = held + more
                self.outcome.blocks(run, at_s, more)
            elif held:
                self.outcome.blocks(run, at_s, -held)


def _backlog(
    work: Sequence[Submission], machines: Sequence[Node], standing: Iterable[Struct], settings: Settings
) -> Backlog | None:
    """Under `fifo` and `easy`, and nothing beside them that decides who goes first, most of those that wait need not be seen."""
    strict, policy = settings.get("strict", False), settings.get("policy", builtin.TEXT)
    queues = {each.queue for each in work}
    is_known = (
        policy == policies.NAMED["fifo"].text if strict else policy == policies.NAMED["easy"].text and len(queues) == 1
    )
    of_others = not isinstance(settings.get("queues") or {}, Mapping) or bool(settings.get("extra_plugins"))
    if settings.get("shows_all") or not is_known or of_others:
        return None
    if any(isinstance(each, PriorityClass) and each.global_default for each in standing):
        return None
    slots = [gpus_of(each) for each in machines]
    all_alike = all(_ask("", each) is not None and each.minimum in {None, each.size} for each in work)
    return Backlog(sum(slots), max(slots, default=0), may_pass=not strict, all_alike=all_alike)


def _starts_directly(work: Sequence[Submission], policy: Policy, others: Iterable[Struct], settings: Settings) -> bool:
    """Where room, and the order in which gangs come, decide alone; with reservations, nothing that is learned from gangs that have ended, either."""
    of_others = not isinstance(settings.get("queues") or {}, Mapping) or bool(settings.get("extra_plugins"))
    if settings.get("shows_all") or of_others or not direct_starts.may_start(policy):
        return False
    if any(each.objects for each in work) or not all(isinstance(each, PriorityClass) for each in others):
        return False
    return policy.option(run_times.ASKED_FOR_BY) is None or all(each.estimate_s is not None for each in work)


def _ask(key: str, job: Submission) -> Ask | None:
    """What a gang asks for that is like any other but for its size; None where more than that decides when it starts."""
    if job.objects or job.priority_class or job.annotations or job.slots < 1:
        return None
    least = job.slots * (job.size if job.minimum is None else job.minimum)
    place = ((START + _span(job.at_s)) // instant.SECOND, key)
    estimate = 0 if job.estimate_s is None else min(round(job.estimate_s * instant.SECOND), LENGTH_MAX)
    return Ask(key, job.queue, place, least, job.slots, job.size, (job.slots, job.user), estimate)


def _queues(given: Mapping[str, int] | Sequence[Queue], work: Sequence[Submission], *, strict: bool) -> list[Queue]:
    made = [_queue(*each, strict=strict) for each in given.items()] if isinstance(given, Mapping) else [*given]
    known = {queue.metadata.name for queue in made}
    named = {"default": None, **{each.queue: None for each in work}}
    return [*made, *(_queue(name, 1, strict=strict) for name in named if name not in known)]


def _queue(name: str, weight: int, *, strict: bool) -> Queue:
    notes = {names.STRICT_ORDER: "true"} if strict else {}
    return Queue(
        metadata=ObjectMeta(name=name, uid=name, creation_timestamp=_DAY_ONE, annotations=notes),
        spec=QueueSpec(weight=weight),
        status=QueueStatus(state="Open"),
    )


def _span(seconds: float) -> Duration:
    """In whole microseconds, as pods tell when they start and end."""
    return round(seconds * instant.SECOND / instant.MICROSECOND) * instant.MICROSECOND


def gang_key(number: int, job: Submission) -> str:
    """What a job of a workload is called in the cluster."""
    return job.key or f"{NAMESPACE}/{_name(number)}"


def _name(number: int) -> str:
    return f"job-{number:07}"  # sorts as it was submitted, also among those of one second


def gang_objects(name: str, job: Submission, priority: int | None) -> list[Struct]:
    """The group and its pods, as a controller would make them at the moment of submission."""
    created = instant.format_instant(START + _span(job.at_s))
    notes, labels = dict(job.annotations), dict[str, str]()
    if job.estimate_s is not None:
        notes[names.RUNNING_ESTIMATE] = instant.format_duration(round(job.estimate_s * instant.SECOND))
    if job.user:
        notes[names.SUBMITTED_BY] = labels[names.USER] = job.user
    asks = {"cpu": str(job.slots), "memory": f"{4 * job.slots}Gi", SLOT: str(job.slots)}
    minimum = job.size if job.minimum is None else job.minimum
    group = PodGroup(
        metadata=ObjectMeta(
            namespace=NAMESPACE, name=name, uid=name, creation_timestamp=created, labels=labels, annotations=notes
        ),
        spec=PodGroupSpec(
            min_member=minimum,
            queue=job.queue,
            priority_class_name=job.priority_class,
            min_resources={key: _times(value, minimum) for key, value in asks.items()},
        ),
        status=PodGroupStatus(phase="Pending"),
    )
    spec = PodSpec(
        containers=(Container(name="main", resources=ResourceRequirements(requests=asks, limits=asks)),),
        scheduler_name="volcano",
        priority_class_name=job.priority_class,
        priority=priority,  # as an API server would fill it in
    )
    status, own = PodStatus(phase="Pending"), {**notes, names.GROUP_NAME: name}
    members = (
        ObjectMeta(
            namespace=NAMESPACE,
            name=f"{name}-w-{number}",
            uid=f"{name}-w-{number}",
            creation_timestamp=created,
            labels=labels,
            annotations=own,
        )
        for number in range(job.size)
    )
    return [group, *(Pod(metadata=meta, spec=spec, status=status) for meta in members)]


def _times(amount: str, count: int) -> str:
    unit = "Gi" if amount.endswith("Gi") else ""
    return f"{int(amount.removesuffix('Gi')) * count}{unit}"

"""extender: asks a program of the user's over HTTP, wherever a verb is configured; without a verb it is not asked.

The call itself is a port: the process that runs the engine bounds its time and its answer. An answer that never comes is read by
`extender.ignorable`: true means as if the extender had no opinion, false means no. A verb that has failed a few times is not asked
again in this cycle, so that a dead extender cannot hold up the cycle for long.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np

from pumice import instant
from pumice.cluster.tasks import Status
from pumice.scheduling.core import arguments
from pumice.scheduling.core.codes import Code, Facts
from pumice.scheduling.core.plugin import Plugin
from pumice.scheduling.core.points import Vote
from pumice.scheduling.core.ports import ExtenderFailed
from pumice.scheduling.core.shapes import Reads
from pumice.scheduling.core.verdict import Cure, Denial, Reason
from pumice.scheduling.placing import extender_wire

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pumice.cluster.columns import Mask
    from pumice.cluster.queues import QueueInfo
    from pumice.cluster.tasks import Task
    from pumice.instant import Instant
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.points import Indexes, Scores
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape

NAME = "extender"
FAILURES_MAX = 3  # of one verb in one cycle; then it counts as dead until the next one
REASON_CHARS_MAX = 256  # of what an extender may add to a message
UNSCHEDULABLE = 2  # of Volcano's codes the one that evictions may cure; 0 is success, all others are final

_Refusal = tuple[Code, Facts, Cure]  # what it says of one node
Verb = Annotated[str, msgspec.Meta(description="path below the prefix; empty: not asked")]


ASK_AGAIN = instant.SECOND


class Args(arguments.Args, frozen=True, kw_only=True):
    url_prefix: Annotated[str, msgspec.Meta(description="where the extender listens, http or https")] = msgspec.field(
        name="extender.urlPrefix", default=""
    )
    timeout: Annotated[str, msgspec.Meta(description="longest wait for one answer")] = msgspec.field(
        name="extender.httpTimeout", default="1s"
    )
    ignorable: Annotated[bool, msgspec.Meta(description="whether a failed call counts as no opinion instead of no")] = (
        msgspec.field(name="extender.ignorable", default=False)
    )
    managed: Annotated[
        tuple[str, ...],
        msgspec.Meta(description="only pods that request one of these are its business; empty: all are"),
    ] = msgspec.field(name="extender.managedResources", default=())
    on_open: Verb = msgspec.field(name="extender.onSessionOpenVerb", default="")
    on_close: Verb = msgspec.field(name="extender.onSessionCloseVerb", default="")
    predicate: Verb = msgspec.field(name="extender.predicateVerb", default="")
    prioritize: Verb = msgspec.field(name="extender.prioritizeVerb", default="")
    preemptable: Verb = msgspec.field(name="extender.preemptableVerb", default="")
    reclaimable: Verb = msgspec.field(name="extender.reclaimableVerb", default="")
    overused: Verb = msgspec.field(name="extender.queueOverusedVerb", default="")
    enqueueable: Verb = msgspec.field(name="extender.jobEnqueueableVerb", default="")
    enqueued: Verb = msgspec.field(name="extender.jobEnqueuedVerb", default="")
    ready: Verb = msgspec.field(name="extender.jobReadyVerb", default="")
    allocate: Verb = msgspec.field(name="extender.allocateFuncVerb", default="")
    deallocate: Verb = msgspec.field(name="extender.deallocateFuncVerb", default="")

    def __post_init__(self) -> None:
        arguments.duration("extender.httpTimeout", self.timeout)
        if not self.url_prefix.startswith(("http://", "https://")):
            raise ValueError(
                f"extender.urlPrefix: {self.url_prefix!r} is no address; write for example http://127.0.0.1:8713"
            )


class Extender(Plugin):
    """One call per question; what it said about a node holds until something on that node changes."""

    args_type = Args
    args: Args

    def open(self, session: Session) -> None:
        self.session = session
        self.failures: Counter[str] = Counter()
        self.is_lost = False  # it did not hear of this cycle, so its answers would be about another one
        self.asked: dict[Shape, dict[int, _Refusal | None]] = {}
        self.readiness: dict[str, tuple[int, bool]] = {}  # by gang, with the version of it that was asked about
        args, on = self.args, session.on
        if args.on_open:
            self._open_session()
        on.declare(Reads.NOTHING, trait=lambda task: (task.gang, task.role) if self.concerns(task) else None)
        self._register_nodes()
        if args.preemptable:
            on.preemptable(lambda claimant, candidates: self.victims(args.preemptable, claimant, candidates))
        if args.reclaimable:
            on.reclaimable(lambda claimant, candidates: self.victims(args.reclaimable, claimant, candidates))
        if args.enqueueable:
            on.enqueueable(self.vote)
        if args.enqueued:
            on.enqueued(lambda gang: self._tell(args.enqueued, {"job": extender_wire.gang(session, gang)}))
        if args.overused:
            on.overused(self.is_overused)
        if args.ready:
            on.ready(self.is_ready)
        if args.on_close:
            on.close(lambda: self._tell(args.on_close, {}))

    def next_change(self, session: Session) -> Instant | None:
        """A program may change its mind at any time, and sends no news: while a gang waits, it is asked again."""
        waits = any(gang.is_waiting_for_admission or gang.tally[Status.PENDING] for gang in session.restless)
        return session.now + ASK_AGAIN if waits else None

    def _register_nodes(self) -> None:
        args, on = self.args, self.session.on
        if args.predicate:
            on.live_filter(self.filter, concerns=lambda shape: self.concerns(shape.example))
        if args.prioritize:
            on.live_score(self.score, concerns=lambda shape: self.concerns(shape.example))
        if args.predicate or args.allocate or args.deallocate:
            on.moved(self.moved)

    def concerns(self, task: Task) -> bool:
        managed = self.args.managed
        return not managed or any(task.request.amounts.get(name, 0) > 0 for name in managed)

    # ------------------------------------------------------------------------------------------------- asking

    def ask(self, verb: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        port = self.session.ports.extender
        if port is None:
            raise ExtenderFailed("nobody here can call an extender")
        if self.is_lost:
            raise ExtenderFailed("it did not hear of this cycle")
        if self.failures[verb] >= FAILURES_MAX:
            raise ExtenderFailed(f"it failed {FAILURES_MAX} times in this cycle")
        try:
            return port(verb, body)
        except ExtenderFailed:
            self.failures[verb] += 1
            raise

    def _tell(self, verb: str, body: Mapping[str, Any]) -> None:
        """News whose answer is not waited for."""
        try:
            self.ask(verb, body)
        except ExtenderFailed:
            return

    def _open_session(self) -> None:
        session = self.session
        body = {
            "Jobs": {key: extender_wire.gang(session, gang) for key, gang in session.gangs.items()},
            "Nodes": {name: extender_wire.node(session, index) for index, name in enumerate(session.room.table.names)},
            "Queues": {name: extender_wire.queue(queue) for name, queue in session.queues.items()},
        }
        try:
            self.ask(self.args.on_open, body)
        except ExtenderFailed:
            self.is_lost = not self.args.ignorable

    # ------------------------------------------------------------------------------------------------- nodes

    def filter(self, shape: Shape) -> Sequence[Denial]:
        known = self.asked.setdefault(shape, {})
        table = self.session.room.table
        asked = self.session.placer.allowed(shape) & shape.fits(table.allocatable)
        refused: dict[_Refusal, Mask] = {}
        for index in np.flatnonzero(asked).tolist():
            if index not in known:
                known[index] = self._predicate(shape.example, index)
            answer = known[index]
            if answer is not None:
                refused.setdefault(answer, np.zeros(len(table), dtype=bool))[index] = True
        return [Denial(code, NAME, nodes, cure, facts) for (code, facts, cure), nodes in refused.items()]

    def _predicate(self, task: Task, index: int) -> _Refusal | None:
        """Why the node is refused, or None."""
        session = self.session
        body = {"task": extender_wire.task(session, task), "node": extender_wire.node(session, index)}
        try:
            answer = self.ask(self.args.predicate, body)
        except ExtenderFailed as failure:
            return None if self.args.ignorable else (Code.EXTENDER_FAILED, Facts(text=_short(failure)), Cure.WAITING)
        text = _short(answer.get("status") or "")
        cure = Cure.EVICTION if answer.get("code") == UNSCHEDULABLE else Cure.CHANGE
        return (Code.EXTENDER, Facts(text=text), cure) if text else None

    def score(self, shape: Shape, task: Task, nodes: Indexes) -> Scores | None:
        del shape
        session = self.session
        told = [extender_wire.node(session, index) for index in nodes.tolist()]
        try:
            answer = self.ask(self.args.prioritize, {"task": extender_wire.task(session, task), "nodes": told})
        except ExtenderFailed:
            return None  # a score is a preference: without it the others decide
        scores = answer.get("nodeScore")
        if answer.get("errorMessage") or not isinstance(scores, dict):
            return None
        return np.array([_number(scores.get(node["Name"])) for node in told])

    def moved(self, gang: GangState, shape: Shape, tasks: Sequence[Task], nodes: Sequence[int], sign: int) -> None:
        del gang, shape
        for known in self.asked.values():
            for index in nodes:
                known.pop(index, None)
        verb = self.args.allocate if sign > 0 else self.args.deallocate
        for task in tasks if verb else ():
            if self.concerns(task):
                self._tell(verb, {"task": extender_wire.task(self.session, task)})

    # ------------------------------------------------------------------------------------------------- victims

    def victims(self, verb: str, claimant: Task, candidates: Sequence[Task]) -> Sequence[Task] | None:
        """The victims that it chooses; None, which is no opinion, where the pod is not its business or an ignorable call failed."""
        if not self.concerns(claimant):
            return None
        session = self.session
        evictees = [extender_wire.task(session, task) for task in candidates]
        try:
            answer = self.ask(verb, {"evictor": extender_wire.task(session, claimant), "evictees": evictees})
        except ExtenderFailed:
            return None if self.args.ignorable else []
        if not answer.get("status"):
            return None
        chosen = {victim.get("UID") for victim in answer.get("victims") or () if isinstance(victim, dict)}
        return [task for task in candidates if task.uid in chosen]

    # ------------------------------------------------------------------------------------------------- gangs and queues

    def vote(self, gang: GangState) -> Vote | Reason:
        try:
            answer = self.ask(self.args.enqueueable, {"job": extender_wire.gang(self.session, gang)})
        except ExtenderFailed as failure:
            if self.args.ignorable:
                return Vote.ABSTAIN
            return Reason(Code.EXTENDER_FAILED, NAME, Facts(text=_short(failure)), cure=Cure.WAITING)
        status = _number(answer.get("status"))
        if status < 0:
            return Reason(Code.EXTENDER_NOT_ADMITTED, NAME, cure=Cure.WAITING)
        return Vote.PERMIT if status > 0 else Vote.ABSTAIN

    def is_overused(self, queue: QueueInfo) -> bool:
        return self._yes(
            self.args.overused, {"queue": extender_wire.queue(queue)}, "overused", failed=not self.args.ignorable
        )

    def is_ready(self, gang: GangState) -> bool:
        known = self.readiness.get(gang.key)
        if known is None or known[0] != gang.version:
            body = {"job": extender_wire.gang(self.session, gang)}
            answer = self._yes(self.args.ready, body, "status", failed=self.args.ignorable)
            known = self.readiness[gang.key] = gang.version, answer
        return known[1]

    def _yes(self, verb: str, body: Mapping[str, Any], field: str, *, failed: bool) -> bool:
        try:
            return self.ask(verb, body).get(field) is True
        except ExtenderFailed:
            return failed


def _short(text: object) -> str:
    return str(text)[:REASON_CHARS_MAX]


def _number(value: Any) -> float:
    """A finite number, or nothing at all."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and abs(value) < float("inf") else 0.0

"""One pretend pod's life, without a clock or a network: what it is, and when it will be something else.

    starting --> running --> over (Succeeded or Failed)
       |          |   ^
       |          |   +-- backing off (the restart policy wants it again)
       |          +--deleted--> stopping --> gone
       +--deleted--> gone

What a pod's annotations say wins over what the agent was told; see names.PRETEND_*.
"""

from __future__ import annotations

import enum
import signal
from typing import TYPE_CHECKING

import msgspec

from pumice import instant
from pumice.api import names
from pumice.api.pods import ENDED
from pumice.digits import whole_number
from pumice.errors import BadInput
from pumice.local.nodes import distributions
from pumice.local.nodes.containers import BACK_OFF_RESET_S, KILLED, PodReport, Role, back_off_s, records_of, restarts
from pumice.values import Value

if TYPE_CHECKING:
    import random

    from pumice.api.meta import Json
    from pumice.api.pods import Pod
    from pumice.instant import Instant
    from pumice.local.nodes.admission import Rejection
    from pumice.local.nodes.distributions import Seconds

NEVER = float("inf")
EXIT_CODE_MAX = 255
AT_ONCE = distributions.constant(0.0)
_TERMINATED = KILLED + signal.SIGTERM


class Stage(enum.Enum):
    STARTING = "starting"
    RUNNING = "running"
    BACKING_OFF = "backing off"
    OVER = "over"
    STOPPING = "stopping"
    GONE = "gone"


class Behaviour(Value, kw_only=True):
    """What pods do that say nothing themselves: by default they start at once, run for ever and stop at once."""

    start: Seconds = AT_ONCE
    run: Seconds | None = None  # None: for ever
    stop: Seconds = AT_ONCE
    failure_rate: float = 0.0  # the share of those that end which end with exit code 1


class Plan(Value):
    """How long this pod takes to start, to run and to stop, and how it ends."""

    start_s: float
    run_s: float
    exit_code: int
    stop_s: float
    complaint: str = ""  # an annotation that cannot be read, in words for its owner


def plan_of(pod: Pod, behaviour: Behaviour, chance: random.Random) -> Plan:
    """Draws the pod's plan; what its annotations say is not left to chance."""
    plan = Plan(
        start_s=behaviour.start(chance),
        run_s=behaviour.run(chance) if behaviour.run is not None else NEVER,
        exit_code=1 if chance.random() < behaviour.failure_rate else 0,
        stop_s=behaviour.stop(chance),
    )
    return with_annotations(pod, plan)


def with_annotations(pod: Pod, plan: Plan) -> Plan:
    """The plan with the pod's own wishes laid over it."""
    wishes = pod.metadata.annotations
    try:
        if names.PRETEND_RUN in wishes:
            plan = msgspec.structs.replace(plan, run_s=distributions.seconds(wishes[names.PRETEND_RUN]), exit_code=0)
        if names.PRETEND_EXIT_CODE in wishes:
            plan = msgspec.structs.replace(plan, exit_code=_exit_code(wishes[names.PRETEND_EXIT_CODE]))
        if names.PRETEND_STOP in wishes:
            plan = msgspec.structs.replace(plan, stop_s=distributions.seconds(wishes[names.PRETEND_STOP]))
    except BadInput as error:
        return msgspec.structs.replace(plan, complaint=str(error))
    return plan


def _exit_code(text: str) -> int:
    code = whole_number(text, most=EXIT_CODE_MAX)
    if code is None:
        raise BadInput(f"exit code {text[:32]!r} is not a number from 0 to 255; correct {names.PRETEND_EXIT_CODE}")
    return code


class Life:
    """What a pod is, and `due`: when, by a monotonic clock, it will be something else."""

    def __init__(self, pod: Pod, plan: Plan, *, address: str, host: str, at: float, now: Instant) -> None:
        self.pod = pod
        self.plan = plan
        self.stage = Stage.STARTING
        self.due = at + plan.start_s
        self.version = 0  # rises with everything that others should be told
        self._ends = 0  # in a row, for the back-off
        self._stopping_since: float | None = None
        self._rejection: Json | None = None
        self.report = PodReport(
            records=records_of(pod.spec),
            restart_policy=pod.spec.restart_policy,
            host_ip=host,
            pod_ip=host if pod.spec.host_network else address,
            generation=pod.metadata.generation,
            started_at=now,
        )
        if pod.status.phase in ENDED:
            self.stage, self.due = Stage.OVER, NEVER
        elif pod.status.phase == "Running":
            self._resume(at, now)

    def _resume(self, at: float, now: Instant) -> None:
        """Goes on where a former agent stopped: the pod runs since it was last started."""
        known = {each.name: each for each in self.pod.status.container_statuses}
        running = [each.state.running.started_at for each in known.values() if each.state.running is not None]
        since = max(map(instant.parse_instant, filter(None, running)), default=now)
        self.report.pod_ip = self.pod.status.pod_ip or self.report.pod_ip
        self.report.started_at = (
            instant.parse_instant(self.pod.status.start_time) if self.pod.status.start_time else now
        )
        self.report.adopt([(c.type, c.status, c.last_transition_time or "") for c in self.pod.status.conditions])
        self._run(since)
        for record in self.report.records:
            record.restarts = known[record.name].restart_count if record.name in known else 0
        self.version = 0  # what was written before is not written again
        self.due = at + max(0.0, self.plan.run_s - (now - since) / instant.SECOND)

    def reject(self, rejection: Rejection) -> None:
        """The node does not take the pod: it has failed before it began."""
        self._rejection = rejection.status
        self.stage, self.due = Stage.OVER, NEVER
        self.version += 1

    def status(self, now: Instant) -> Json:
        """The pod's status as the API server should have it."""
        return self._rejection or self.report.as_json(now)

    def see(self, pod: Pod, at: float) -> None:
        """Takes note of a newer state of the pod: its wishes may have changed, or it is to go."""
        self.pod = pod
        before, self.plan = self.plan, with_annotations(pod, self.plan)
        self.report.generation = pod.metadata.generation
        if self.stage is Stage.RUNNING and self.plan.run_s != before.run_s:
            started_at = self.due - before.run_s if before.run_s != NEVER else at
            self.due = started_at + self.plan.run_s
        if pod.metadata.deletion_timestamp is None or self.stage is Stage.GONE:
            return
        if self.stage in {Stage.STARTING, Stage.OVER}:
            self.stage, self.due = Stage.GONE, at
            return
        if self._stopping_since is None:
            self._stopping_since = at
        grace_s = pod.metadata.deletion_grace_period_seconds or 0
        self.stage, self.due = Stage.STOPPING, self._stopping_since + min(self.plan.stop_s, float(grace_s))

    def advance(self, at: float, now: Instant) -> None:
        """Becomes all that is due by now."""
        while self.due <= at and self.stage is not Stage.GONE:
            match self.stage:
                case Stage.STARTING | Stage.BACKING_OFF:
                    self._run(now)
                    self.due = at + self.plan.run_s
                case Stage.RUNNING:
                    self._end(at, now)
                case Stage.STOPPING:
                    self._stop(now)
                case Stage.OVER | Stage.GONE:
                    self.due = NEVER

    def _run(self, now: Instant) -> None:
        for record in self.report.records:
            if record.role is Role.INIT:
                if self._ends == 0:
                    record.start(now)
                    record.end(0, now)
            elif not record.is_ready:
                record.start(now)
        self.report.has_network = True
        self.stage = Stage.RUNNING
        self.version += 1

    def _end(self, at: float, now: Instant) -> None:
        for record in self.report.records:
            if record.role is Role.MAIN:
                record.end(self.plan.exit_code, now)
        self.version += 1
        if not restarts(Role.MAIN, self.pod.spec.restart_policy, self.plan.exit_code):
            self._end_sidecars(now)
            self.stage, self.due = Stage.OVER, NEVER
            return
        self._ends = 1 if self.plan.run_s >= BACK_OFF_RESET_S else self._ends + 1
        delay = back_off_s(self._ends)
        self.stage, self.due = Stage.BACKING_OFF, at + delay
        if delay:
            for record in self.report.records:
                if record.role is Role.MAIN:
                    record.wait("CrashLoopBackOff", f"back-off {delay:g}s restarting failed container")

    def _stop(self, now: Instant) -> None:
        for record in self.report.records:
            if record.role is Role.MAIN and record.is_ready:
                record.end(_TERMINATED, now)
        self._end_sidecars(now)
        self.report.is_over = True
        self.stage = Stage.GONE
        self.version += 1

    def _end_sidecars(self, now: Instant) -> None:
        for record in self.report.records:
            if record.role is Role.SIDECAR and record.is_ready:
                record.end(0, now)

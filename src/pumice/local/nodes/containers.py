"""What became of a pod's containers, and the pod's status that follows from it, by a kubelet's rules.

    Waiting --started--> Running --ended--> Ended --restarted--> Waiting (back-off) --> Running ...

An init container runs to its end before the next one starts; a sidecar is an init container that keeps running; the
main containers start once all of those have been seen to. A pod's phase is a summary of these states and of whether an
end is final.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from pumice import instant
from pumice.api.pods import ENDED
from pumice.values import Mutable, Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.api.meta import Json
    from pumice.api.pods import Container, PodSpec
    from pumice.instant import Instant

BACK_OFF_S_FIRST = 10.0
BACK_OFF_S_MAX = 300.0
BACK_OFF_RESET_S = 600.0  # a container that ran this long begins its back-off anew
KILLED = 128  # a process that a signal ended has this plus the signal's number as its exit code
MESSAGE_CHARS_MAX = 4_096  # of a termination message, as in a kubelet


class Role(enum.Enum):
    INIT = "init"
    SIDECAR = "sidecar"
    MAIN = "main"


class Waiting(Value):
    reason: str
    message: str = ""


class Running(Value):
    started_at: Instant


class Ended(Value):
    exit_code: int
    started_at: Instant
    finished_at: Instant
    reason: str = ""  # empty: Completed or Error, by the exit code
    message: str = ""


State: TypeAlias = Waiting | Running | Ended


class ContainerRecord(Mutable):
    """What happened to one container so far; whatever runs it writes it."""

    name: str
    image: str
    role: Role
    state: State = Waiting("ContainerCreating")
    last: Ended | None = None
    restarts: int = 0
    id: str = ""

    def start(self, now: Instant) -> None:
        if isinstance(self.state, Ended):
            self.last = self.state
        if self.last is not None:
            self.restarts += 1
        self.state = Running(now)

    def wait(self, reason: str, message: str = "") -> None:
        if isinstance(self.state, Ended):
            self.last = self.state
        self.state = Waiting(reason, message)

    def end(self, exit_code: int, now: Instant, *, reason: str = "", message: str = "") -> None:
        started_at = self.state.started_at if isinstance(self.state, Running) else now
        self.state = Ended(exit_code, started_at, now, reason, message[:MESSAGE_CHARS_MAX])

    @property
    def is_ready(self) -> bool:
        if self.role is Role.INIT:
            return isinstance(self.state, Ended) and self.state.exit_code == 0
        return isinstance(self.state, Running)

    def as_json(self) -> Json:
        status = {
            "name": self.name,
            "image": self.image,
            "imageID": "",
            "containerID": self.id,
            "ready": self.is_ready,
            "started": isinstance(self.state, Running),
            "restartCount": self.restarts,
            "state": _state_json(self.state),
        }
        if self.last is not None:
            status["lastState"] = _state_json(self.last)
        return status


def records_of(spec: PodSpec) -> list[ContainerRecord]:
    """Fresh records of all containers, in the order in which they start."""
    first = "PodInitializing" if spec.init_containers else "ContainerCreating"
    return [
        *(
            _record(each, Role.SIDECAR if each.is_sidecar else Role.INIT, "PodInitializing")
            for each in spec.init_containers
        ),
        *(_record(each, Role.MAIN, first) for each in spec.containers),
    ]


def _record(container: Container, role: Role, reason: str) -> ContainerRecord:
    return ContainerRecord(container.name, container.image, role, Waiting(reason))


def restarts(role: Role, restart_policy: str, exit_code: int) -> bool:
    """Whether a container that ended so is started again. An init container that did its work never is."""
    if role is Role.SIDECAR:
        return True
    if role is Role.INIT:
        return exit_code != 0 and restart_policy != "Never"
    return restart_policy == "Always" or (restart_policy == "OnFailure" and exit_code != 0)


def back_off_s(ends: int, *, first_s: float = BACK_OFF_S_FIRST) -> float:
    """How long a container waits after its `ends`-th end in a row: not at all the first time, then longer and longer."""
    return 0.0 if ends <= 1 else min(BACK_OFF_S_MAX, first_s * 2.0 ** min(ends - 2, 30))


# ---------------------------------------------------------------------------------------------------- the pod's status


def phase_of(records: Sequence[ContainerRecord], restart_policy: str, *, is_over: bool = False) -> str:
    """The pod's phase; `is_over` says that nothing is started again, whatever the restart policy."""
    inits = [record for record in records if record.role is Role.INIT]
    mains = [record for record in records if record.role is Role.MAIN]
    ends = [_end(record) for record in inits]
    if any(end is not None and end.exit_code and (is_over or restart_policy == "Never") for end in ends):
        return "Failed"
    has_begun = any(isinstance(record.state, Running) or _end(record) is not None for record in mains)
    is_initialized = all(end is not None and end.exit_code == 0 for end in ends) and _sidecars_begun(records, has_begun)
    if not is_over and (not is_initialized or any(_is_fresh(record) for record in mains)):
        return "Pending"
    if any(isinstance(record.state, Running) for record in records if record.role is not Role.INIT):
        return "Running"
    codes = [end.exit_code for end in map(_end, mains) if end is not None]
    if not is_over and any(restarts(Role.MAIN, restart_policy, code) for code in codes):
        return "Running"
    return "Succeeded" if len(codes) == len(mains) and not any(codes) else "Failed"


def _end(record: ContainerRecord) -> Ended | None:
    """How the container last ended, if it does not run now."""
    if isinstance(record.state, Ended):
        return record.state
    return record.last if isinstance(record.state, Waiting) else None


def _is_fresh(record: ContainerRecord) -> bool:
    return isinstance(record.state, Waiting) and record.last is None


def _sidecars_begun(records: Sequence[ContainerRecord], has_begun: bool) -> bool:  # noqa: FBT001 - one caller
    return has_begun or not any(_is_fresh(record) for record in records if record.role is Role.SIDECAR)


class PodReport(Mutable, kw_only=True):
    """What a node says of one pod; times of transition are kept from report to report."""

    records: list[ContainerRecord]
    restart_policy: str
    host_ip: str
    pod_ip: str = ""
    generation: int = 0
    started_at: Instant = 0
    has_network: bool = False
    is_over: bool = False
    reason: str = ""
    message: str = ""
    failed: bool = False  # whatever its containers say: killed by a deadline, or lost
    is_settled: bool = True  # False: the pod still holds what others wait for, so its end is not told yet
    _transitions: dict[str, tuple[str, str]] = msgspec.field(default_factory=dict)  # type -> status, since when

    @property
    def phase(self) -> str:
        phase = "Failed" if self.failed else phase_of(self.records, self.restart_policy, is_over=self.is_over)
        if self.is_settled or phase not in ENDED:
            return phase
        has_begun = any(record.role is Role.MAIN and not _is_fresh(record) for record in self.records)
        return "Running" if has_begun else "Pending"

    def adopt(self, conditions: Sequence[tuple[str, str, str]]) -> None:
        """Takes over what was reported before this process began: type, status and since when."""
        self._transitions.update({kind: (status, since) for kind, status, since in conditions})

    def as_json(self, now: Instant) -> Json:
        phase = self.phase
        status: Json = {
            "phase": phase,
            "conditions": self._conditions(phase, instant.format_instant(now)),
            "hostIP": self.host_ip,
            "hostIPs": [{"ip": self.host_ip}],
            "startTime": instant.format_instant(self.started_at),
            "containerStatuses": [each.as_json() for each in self.records if each.role is Role.MAIN],
        }
        inits = [each.as_json() for each in self.records if each.role is not Role.MAIN]
        optional = {
            "initContainerStatuses": inits,
            "podIP": self.pod_ip,
            "podIPs": [{"ip": self.pod_ip}] if self.pod_ip else [],
            "reason": self.reason,
            "message": self.message,
            "observedGeneration": self.generation,
        }
        return status | {key: value for key, value in optional.items() if value}

    def _conditions(self, phase: str, now: str) -> list[Json]:
        ready = self._ready(phase)
        wanted = {
            "PodReadyToStartContainers": (self.has_network, "", ""),
            "Initialized": self._initialized_condition(phase),
            "ContainersReady": ready,
            "Ready": ready,
        }
        return [self._condition(kind, now, *wanted[kind]) for kind in wanted]

    def _condition(self, kind: str, now: str, is_true: bool, reason: str, message: str) -> Json:  # noqa: FBT001
        status = "True" if is_true else "False"
        before = self._transitions.get(kind)
        since = before[1] if before is not None and before[0] == status else now
        self._transitions[kind] = (status, since)
        condition: Json = {"type": kind, "status": status, "lastTransitionTime": since}
        # What a condition no longer says must be taken back: a patch leaves alone what it does not mention.
        condition |= {"reason": reason or None, "message": message or None}
        return condition | ({"observedGeneration": self.generation} if self.generation else {})

    def _ready(self, phase: str) -> tuple[bool, str, str]:
        if phase in ENDED:
            return False, "PodCompleted" if phase == "Succeeded" else "PodFailed", ""
        unready = [each.name for each in self.records if each.role is not Role.INIT and not each.is_ready]
        if unready:
            return False, "ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]"
        return True, "", ""

    def _initialized_condition(self, phase: str) -> tuple[bool, str, str]:
        if phase == "Succeeded":
            return True, "PodCompleted", ""
        if any(isinstance(each.state, Running) or each.last for each in self.records if each.role is Role.MAIN):
            return True, "", ""
        missing = [each.name for each in self.records if each.role is not Role.MAIN and not each.is_ready]
        if missing:
            return False, "ContainersNotInitialized", f"containers with incomplete status: [{' '.join(missing)}]"
        return True, "", ""


def _state_json(state: State) -> Json:
    if isinstance(state, Waiting):
        return {"waiting": _non_empty(reason=state.reason, message=state.message)}
    started_at = instant.format_instant(state.started_at)
    if isinstance(state, Running):
        return {"running": {"startedAt": started_at}}
    reason = state.reason or ("Completed" if state.exit_code == 0 else "Error")
    finished_at = instant.format_instant(state.finished_at)
    ended: Json = {"exitCode": state.exit_code, "startedAt": started_at, "finishedAt": finished_at}
    return {"terminated": ended | _non_empty(reason=reason, message=state.message)}


def _non_empty(**texts: str) -> Json:
    return {key: text for key, text in texts.items() if text}

"""JobFlow and JobTemplate (flow.volcano.sh/v1alpha1): jobs that wait for one another."""

import enum
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec

from pumice.api.batch import ABSENT, NO_JSON, NO_TASK_STATES, TaskState
from pumice.api.meta import NO_METADATA, ObjectMeta, Struct


class JobFlowPhase(enum.StrEnum):
    SUCCEED = "Succeed"
    TERMINATING = "Terminating"
    FAILED = "Failed"
    RUNNING = "Running"
    PENDING = "Pending"


class JobRetainPolicy(enum.StrEnum):
    RETAIN = "retain"
    DELETE = "delete"


class HttpHeader(Struct):
    name: str = ""
    value: str = ""


class HttpGetProbe(Struct):
    task_name: str = ""
    path: str = ""
    port: int = 0
    http_header: HttpHeader | None = None


class TcpSocketProbe(Struct):
    port: int = 0
    task_name: str = ""


class TaskStatusProbe(Struct):
    task_name: str = ""
    phase: str = ""


class FlowProbe(Struct):
    http_get_list: tuple[HttpGetProbe, ...] = ()
    tcp_socket_list: tuple[TcpSocketProbe, ...] = ()
    task_status_list: tuple[TaskStatusProbe, ...] = ()


class FlowDependency(Struct):
    targets: tuple[str, ...] = ()
    probe: FlowProbe | None = None


class FlowPatch(Struct):
    job_spec: msgspec.Raw = ABSENT


class Flow(Struct):
    """One job of the flow; its name is also its JobTemplate's."""

    name: str = ""
    depends_on: FlowDependency | None = None
    patch: FlowPatch | None = None


def dependencies(parts: Sequence[Flow]) -> dict[str, tuple[str, ...]]:
    """Which parts each of them waits for, by name."""
    return {part.name: part.depends_on.targets if part.depends_on is not None else () for part in parts}


class JobFlowSpec(Struct):
    flows: tuple[Flow, ...] = ()
    job_retain_policy: str = ""


class RunningHistory(Struct):
    start_timestamp: str | None = None
    end_timestamp: str | None = None
    state: str = ""


class FlowJobStatus(Struct):
    name: str = ""
    state: str = ""
    start_timestamp: str | None = None
    end_timestamp: str | None = None
    restart_count: int = 0
    running_histories: tuple[RunningHistory, ...] = ()


class FlowCondition(Struct):
    phase: str = ""
    create_time: str | None = None
    running_duration: str | None = None
    task_status_count: Mapping[str, TaskState] = NO_TASK_STATES


NO_FLOW_CONDITIONS: Mapping[str, FlowCondition] = MappingProxyType({})


class JobFlowState(Struct):
    phase: str = ""


class JobFlowStatus(Struct):
    pending_jobs: tuple[str, ...] = ()
    running_jobs: tuple[str, ...] = ()
    failed_jobs: tuple[str, ...] = ()
    completed_jobs: tuple[str, ...] = ()
    terminated_jobs: tuple[str, ...] = ()
    unknown_jobs: tuple[str, ...] = msgspec.field(name="unKnowJobs", default=())  # Volcano's spelling
    job_status_list: tuple[FlowJobStatus, ...] = ()
    conditions: Mapping[str, FlowCondition] = NO_FLOW_CONDITIONS
    state: JobFlowState = JobFlowState()


class JobFlow(Struct):
    metadata: ObjectMeta = NO_METADATA
    spec: JobFlowSpec = JobFlowSpec()
    status: JobFlowStatus = JobFlowStatus()


class JobTemplateStatus(Struct):
    job_depends_on_list: tuple[str, ...] = ()


class JobTemplate(Struct):
    """A job to be made by flows; its spec goes into the jobs as it stands, and decodes as a JobSpec where it must be read."""

    metadata: ObjectMeta = NO_METADATA
    spec: msgspec.Raw = NO_JSON
    status: JobTemplateStatus = JobTemplateStatus()

"""Flows, templates and Jobs as literals."""

import msgspec

from pumice.api.batch import Job, JobSpec, JobState, JobStatus, Task, TaskState
from pumice.api.flow import Flow, FlowDependency, FlowPatch, JobFlow, JobFlowSpec, JobTemplate
from pumice.api.meta import ObjectMeta
from pumice.api.pods import Pod, PodStatus

TASK = "volcano.sh/task-spec"


def a_flow(*parts, retain="", name="f", status=None, **metadata):
    flow = JobFlow(
        metadata=ObjectMeta(name=name, namespace="team", uid="u-flow", **metadata),
        spec=JobFlowSpec(flows=parts, job_retain_policy=retain),
    )
    return flow if status is None else msgspec.structs.replace(flow, status=status)


def a_part(name, *targets, probe=None, patch=None):
    depends_on = FlowDependency(targets=targets, probe=probe) if targets else None
    changes = None if patch is None else FlowPatch(job_spec=msgspec.Raw(msgspec.json.encode(patch)))
    return Flow(name=name, depends_on=depends_on, patch=changes)


def templates(*names):
    return {
        name: JobTemplate(
            metadata=ObjectMeta(name=name, namespace="team"),
            spec=msgspec.Raw(b'{"minAvailable":1,"queue":"research","unheard":["of"]}'),
        )
        for name in names
    }


def a_job(name, phase="Running", *, tasks=(), counts=None, created="2026-03-28T12:00:00Z", duration=None, **metadata):
    counted = {task: TaskState(phase=phases) for task, phases in (counts or {}).items()}
    return Job(
        metadata=ObjectMeta(name=name, namespace="team", uid=f"u-{name}", creation_timestamp=created, **metadata),
        spec=JobSpec(tasks=tuple(Task(name=task, replicas=number) for task, number in tasks)),
        status=JobStatus(state=JobState(phase=phase), task_status_count=counted, running_duration=duration),
    )


def jobs(**phases):
    return {f"f-{name}": a_job(f"f-{name}", phase) for name, phase in phases.items()}


def a_pod(name, task, ip="10.0.0.1", phase="Running", **metadata):
    return Pod(
        metadata=ObjectMeta(name=name, namespace="team", annotations={TASK: task}, **metadata),
        status=PodStatus(phase=phase, pod_ip=ip),
    )

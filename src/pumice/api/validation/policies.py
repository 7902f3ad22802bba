"""Life-cycle policies: which are refused, and which will never do anything."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from pumice.api.batch import Action, JobEvent, JobSpec, LifecyclePolicy, Task
from pumice.api.validation.field_errors import Findings, did_you_mean
from pumice.api.validation.pod_shapes import PodTemplate
from pumice.instant import DurationError, parse_duration

EVENTS: Final = (
    JobEvent.ANY.value,
    JobEvent.POD_FAILED.value,
    JobEvent.POD_EVICTED.value,
    JobEvent.POD_PENDING.value,
    JobEvent.UNKNOWN.value,
    JobEvent.TASK_COMPLETED.value,
    JobEvent.TASK_FAILED.value,
    JobEvent.JOB_UPDATED.value,
    JobEvent.TIME_LIMIT_EXCEEDED.value,
)
ACTIONS: Final = (
    Action.ABORT_JOB.value,
    Action.RESTART_JOB.value,
    Action.RESTART_TASK.value,
    Action.RESTART_POD.value,
    Action.RESTART_PARTITION.value,
    Action.TERMINATE_JOB.value,
    Action.COMPLETE_JOB.value,
    Action.RESUME_JOB.value,
)
# What ends all pods of a Job: single ones say nothing about a gang whose time is up.
ENDS_A_GANG: Final = frozenset({Action.ABORT_JOB, Action.RESTART_JOB, Action.TERMINATE_JOB, Action.COMPLETE_JOB})
EXIT_CODE_MAX: Final = 255

_OF_PODS: Final = (JobEvent.POD_FAILED, JobEvent.POD_EVICTED, JobEvent.TASK_COMPLETED, JobEvent.TASK_FAILED)
_LOSSES: Final = frozenset({JobEvent.ANY, JobEvent.POD_FAILED, JobEvent.POD_EVICTED, JobEvent.TASK_FAILED})
_ELASTIC: Final = {
    "torchrun": re.compile(r"--nnodes[= ]\d+:\d+"),
    "Horovod": re.compile(r"horovodrun.*(--min-np|--host-discovery-script)", re.DOTALL),
    "Ray": re.compile(r"\bray start\b"),
}


def events_of(policy: LifecyclePolicy) -> list[str]:
    """What the policy waits for, each event once."""
    return list(dict.fromkeys([*filter(None, [policy.event]), *policy.events]))


def _places(policy: LifecyclePolicy, path: str) -> Iterator[tuple[str, str]]:
    """Each event and where it is written."""
    if policy.event:
        yield f"{path}.event", policy.event
    for index, event in enumerate(policy.events):
        yield f"{path}.events[{index}]", event


def check_policies(findings: Findings, path: str, policies: Sequence[LifecyclePolicy]) -> None:
    events: set[str] = set()
    exit_codes: set[int] = set()
    for index, policy in enumerate(policies):
        where = f"{path}[{index}]"
        _check_trigger(findings, where, policy)
        _check_action(findings, f"{where}.action", policy.action)
        for event in events_of(policy):
            if event in events:
                findings.refuse(where, f"duplicate event {event} across different policy", "keep one policy for it")
            events.add(event)
        if policy.exit_code is not None:
            if policy.exit_code in exit_codes:
                cause = f"duplicate exitCode {policy.exit_code} in the list of policies"
                findings.refuse(f"{where}.exitCode", cause, "keep one policy for it")
            exit_codes.add(policy.exit_code)
        if policy.timeout is not None:
            try:
                parse_duration(policy.timeout)
            except DurationError as error:
                findings.refuse_as(f"{where}.timeout", error)
    if JobEvent.ANY in events and len(events) > 1:
        findings.refuse(path, "if there's * here, no other policy should be here", "remove * or the others")


def _check_trigger(findings: Findings, path: str, policy: LifecyclePolicy) -> None:
    events = list(_places(policy, path))
    if events and policy.exit_code is not None:
        findings.refuse(path, "must not specify event and exitCode simultaneously", "make two policies of it")
    if not events and policy.exit_code is None:
        findings.refuse(
            path, "either event and exitCode should be specified", f"set event to one of {', '.join(EVENTS)}"
        )
    if policy.exit_code == 0:
        findings.refuse(
            f"{path}.exitCode", "0 is not a valid error code: it means success", "use the event TaskCompleted"
        )
    for where, event in events:
        if event not in EVENTS:
            findings.refuse(where, "invalid policy event", did_you_mean(event, EVENTS), event)


def _check_action(findings: Findings, path: str, action: str) -> None:
    if action not in ACTIONS:
        next_step = did_you_mean(action, ACTIONS)
        findings.refuse(
            path,
            "invalid policy action" if action else "invalid policy action: required, but missing",
            next_step,
            action or None,
        )


# ----------------------------------------------------------------------------------------------------------- warnings


def warn_about_policies(findings: Findings, path: str, spec: JobSpec, templates: Sequence[PodTemplate]) -> None:
    """Policies that never fire, that do nothing when they do, or that throw away what a framework would have kept."""
    _warn_about_list(findings, f"{path}.policies", spec.policies, templates)
    _warn_about_job_level(findings, f"{path}.policies", spec)
    for index, (task, template) in enumerate(zip(spec.tasks, templates, strict=True)):
        where = f"{path}.tasks[{index}].policies"
        _warn_about_list(findings, where, task.policies, [template])
        for number, policy in enumerate(task.policies):
            if JobEvent.TIME_LIMIT_EXCEEDED in events_of(policy):
                text = "TimeLimitExceeded concerns the whole gang and never fires for a task; move it to the job's policies"
                findings.warn(f"{where}[{number}]", text)
        _warn_about_partitions(findings, where, task.policies, [task])
    if framework := elastic_framework(spec, templates):
        lists = [("policies", spec.policies)]
        lists += [(f"tasks[{index}].policies", task.policies) for index, task in enumerate(spec.tasks)]
        for field, policies in lists:
            for index, policy in enumerate(policies):
                if policy.action == Action.RESTART_JOB and _LOSSES & set(events_of(policy)):
                    findings.warn(
                        f"{path}.{field}[{index}]",
                        f"RestartJob restarts every pod, though {framework} goes on without lost workers; "
                        "consider RestartPod",
                    )


def _warn_about_list(
    findings: Findings, path: str, policies: Sequence[LifecyclePolicy], templates: Sequence[PodTemplate]
) -> None:
    restarts = {template.spec.restart_policy for template in templates}
    covered = False  # an earlier policy takes every failed pod
    for index, policy in enumerate(policies):
        where = f"{path}[{index}]"
        events = events_of(policy)
        if JobEvent.POD_PENDING in events and (policy.timeout or "0") in {"0", "0s"}:
            findings.warn(where, "PodPending never fires without a timeout; set how long a pod may be pending")
        if JobEvent.JOB_UPDATED in events:
            findings.warn(where, "JobUpdated is never raised; the policy never fires")
        if JobEvent.TASK_COMPLETED in events and restarts == {"Always"}:
            findings.warn(where, "TaskCompleted never fires with restartPolicy Always; use OnFailure or Never")
        if policy.exit_code is not None:
            if not 0 < policy.exit_code <= EXIT_CODE_MAX:
                findings.warn(
                    where, f"no container can end with exit code {policy.exit_code}; use 1 to {EXIT_CODE_MAX}"
                )
            if covered:
                findings.warn(where, "never fires: an earlier policy takes every failed pod; put exit codes first")
            if templates and "Never" not in restarts:
                findings.warn(
                    where, "fires for failed pods only, and containers are restarted in place; use restartPolicy Never"
                )
        covered |= JobEvent.POD_FAILED in events or JobEvent.ANY in events


def _warn_about_job_level(findings: Findings, path: str, spec: JobSpec) -> None:
    _warn_about_partitions(findings, path, spec.policies, spec.tasks)
    for index, policy in enumerate(spec.policies):
        where = f"{path}[{index}]"
        events = events_of(policy)
        if JobEvent.TIME_LIMIT_EXCEEDED in events and policy.action not in ENDS_A_GANG:
            text = (
                f"TimeLimitExceeded concerns the whole gang: {policy.action} does not end it, so the job is terminated"
            )
            findings.warn(where, f"{text}; use one of {', '.join(sorted(ENDS_A_GANG))}")
        if JobEvent.UNKNOWN in events and policy.action in {Action.RESTART_TASK, Action.RESTART_POD}:
            findings.warn(
                where, f"Unknown concerns no single pod: {policy.action} would only use up a retry; use RestartJob"
            )
        for event in _OF_PODS:
            if event in events and spec.tasks and all(_takes(task, event) for task in spec.tasks):
                findings.warn(where, f"never fires for {event.value}: every task has a policy of its own for it")


def _takes(task: Task, event: JobEvent) -> bool:
    return any(event in events or JobEvent.ANY in events for events in map(events_of, task.policies))


def _warn_about_partitions(
    findings: Findings, path: str, policies: Sequence[LifecyclePolicy], tasks: Sequence[Task]
) -> None:
    if any(task.partition_policy is not None for task in tasks):
        return
    for index, policy in enumerate(policies):
        if policy.action == Action.RESTART_PARTITION:
            findings.warn(
                f"{path}[{index}]", "RestartPartition does nothing without a partitionPolicy; use RestartTask"
            )


def elastic_framework(spec: JobSpec, templates: Sequence[PodTemplate]) -> str:
    """The framework of the job that replaces lost workers itself; empty where none is recognised."""
    if spec.plugins and "ray" in spec.plugins:
        return "Ray"
    for template in templates:
        for container in template.spec.containers:
            words = " ".join((*container.command, *container.args))
            for name, sign in _ELASTIC.items():
                if sign.search(words):
                    return name
    return ""

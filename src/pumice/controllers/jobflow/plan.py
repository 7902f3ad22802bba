"""Which Jobs of a flow may start, what has to be asked before others may, and how the flow is doing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pumice import instant, selectors
from pumice.api import names
from pumice.api.batch import ABSENT, Job, JobPhase
from pumice.api.flow import JobRetainPolicy, dependencies
from pumice.api.kinds import type_meta
from pumice.api.run_time import HANDED_ON
from pumice.api.validation.graphs import cycle, unknown_targets
from pumice.controllers.jobflow import probes, status
from pumice.controllers.jobflow.patching import apply_patch
from pumice.controllers.operations import NOTHING_TO_DO, Blame, Create, Delete, Emit, Plan, target_of
from pumice.controllers.ownership import owned_metadata, with_owners_submitter
from pumice.kube.requests import Propagation
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pumice.api.flow import Flow, JobFlow, JobTemplate
    from pumice.api.meta import Json
    from pumice.api.pods import Pod
    from pumice.controllers.jobflow.probes import Question
    from pumice.controllers.operations import Operation
    from pumice.instant import Instant

AGAIN_S = 1  # how often a flow that waits for pods to answer is looked at
PROBLEM = "SyncJobFlow"  # Volcano's reason for whatever keeps a flow from going on


class View(Value):
    """A flow and what its Jobs are made from and made of; Jobs and pods by the Job's name."""

    flow: JobFlow
    templates: Mapping[str, JobTemplate] = msgspec.field(default_factory=dict)
    jobs: Mapping[str, Job] = msgspec.field(default_factory=dict)
    pods: Mapping[str, Sequence[Pod]] = msgspec.field(default_factory=dict)
    answers: Mapping[Question, bool] = msgspec.field(default_factory=dict)


class FlowPlan(Value):
    plan: Plan
    questions: tuple[Question, ...] = ()


def plan(view: View, now: Instant) -> FlowPlan:
    """The status is true, and every Job that may start exists; once all have succeeded they go, if so wanted."""
    flow = view.flow
    if flow.metadata.deletion_timestamp is not None:
        return FlowPlan(NOTHING_TO_DO)
    if flow.status.state.phase == status.SUCCEED:
        return FlowPlan(_plan_succeeded(view))
    parts = {part.name: part for part in reversed(flow.spec.flows)}  # of two with one name the first counts
    ordered = [part for part in flow.spec.flows if parts[part.name] is part]
    wanted = status.status_of(flow, [job_name(flow, part) for part in ordered], view.jobs, now)
    goes_on = wanted.state.phase in {status.PENDING, status.RUNNING}
    starts, questions = _starts(view, ordered) if goes_on else ([], None)
    stages: list[tuple[Operation, ...]] = []
    patch = status.status_patch(flow, wanted)
    if patch is not None and not _is_untouched(view, starts):
        stages.append((patch,))
    if wanted.state.phase == status.FAILED and status.is_open(flow):
        stages.append((_failure_event(flow, wanted.failed_jobs + wanted.terminated_jobs),))
    again_at = now + AGAIN_S * instant.SECOND if questions is not None else None
    return FlowPlan(Plan((*stages, *starts), again_at), questions or ())


def _is_untouched(view: View, starts: Sequence[tuple[Operation, ...]]) -> bool:
    """True for a flow of which nothing was started and nothing can be, such as one that is made before its templates.

    It has no status yet, as with Volcano: its creator may still change it without a conflict.
    """
    flow = view.flow
    begins = any(isinstance(operation, Create) for stage in starts for operation in stage)
    return bool(flow.spec.flows) and not (flow.status.state.phase or view.jobs or begins)


def job_name(flow: JobFlow, part: Flow) -> str:
    return f"{flow.metadata.name}-{part.name}"


def _failure_event(flow: JobFlow, jobs: Sequence[str]) -> Emit:
    return Emit(flow, "Warning", status.FAILED, f"{', '.join(jobs)} did not complete: no further job is started")


def _plan_succeeded(view: View) -> Plan:
    if view.flow.spec.job_retain_policy != JobRetainPolicy.DELETE:
        return NOTHING_TO_DO
    deletes = tuple(
        Delete(**target_of(job), propagation=Propagation.BACKGROUND, blame=Blame(view.flow, PROBLEM))
        for job in view.jobs.values()
        if job.metadata.deletion_timestamp is None
    )
    return Plan((deletes,) if deletes else ())


# ------------------------------------------------------------------------------------------------------------- starts


def _starts(view: View, parts: Sequence[Flow]) -> tuple[list[tuple[Operation, ...]], tuple[Question, ...] | None]:
    """What to make now, and what to ask before the rest may start; None where nothing has to be asked."""
    flow = view.flow
    recorded = status.recorded_phases(flow)
    creates: list[Operation] = []
    words: list[Operation] = []
    questions: list[Question] = []
    asks = False
    problems = _unstartable(parts)
    for part in parts:
        name = job_name(flow, part)
        if name in view.jobs or recorded.get(name) == JobPhase.COMPLETED.value:
            continue
        verdict = _may_start(view, part)
        questions += verdict.questions
        if not verdict.passed:
            asks |= verdict.concerned and _asks_pods(part)
            problems += _lost_probes(view, part)
            continue
        template = view.templates.get(part.name)
        if template is None:
            problems.append(f"there is no JobTemplate {part.name}: create it, and the job is started")
            continue
        creates.append(Create(kind=Job, body=_job(flow, part, template), blame=Blame(flow, PROBLEM)))
        words.append(Emit(flow, "Normal", "Created", f"Created job {name}"))
    stages = [tuple(creates), tuple(words)] if creates else []
    if problems:
        stages.append(tuple(Emit(flow, "Warning", PROBLEM, problem) for problem in problems))
    return stages, tuple(dict.fromkeys(questions)) if asks else None


def _asks_pods(part: Flow) -> bool:
    probe = part.depends_on.probe if part.depends_on is not None else None
    return probe is not None and bool(probe.http_get_list or probe.tcp_socket_list)


def _may_start(view: View, part: Flow) -> probes.Verdict:
    """Passed where each target has completed, or has not ended and passes the probes that concern it."""
    verdict = probes.NOT_CONCERNED
    recorded = status.recorded_phases(view.flow)
    depends_on = part.depends_on
    for target in depends_on.targets if depends_on is not None else ():
        name = f"{view.flow.metadata.name}-{target}"
        job = view.jobs.get(name)
        phase = recorded.get(name, "") if job is None else status.phase_of(job)
        if phase == JobPhase.COMPLETED.value:
            continue
        own = probes.NOT_CONCERNED
        if job is not None and depends_on is not None and depends_on.probe is not None:
            own = probes.examine(depends_on.probe, job, view.pods.get(name, ()), view.answers)
        verdict &= msgspec.structs.replace(own, passed=own.concerned and own.passed)
    return verdict


def _unstartable(parts: Sequence[Flow]) -> list[str]:
    """Why some Jobs can never start, where no webhook has said so."""
    graph = dependencies(parts)
    found = [f"{name} waits for {target}, which is no part of the flow" for name, target in unknown_targets(graph)]
    if circle := cycle(graph):
        found.append(f"these wait for one another: {' -> '.join(circle)}; remove one of the dependencies")
    return found


def _lost_probes(view: View, part: Flow) -> list[str]:
    """Probes that concern no target, reported once all targets are there."""
    depends_on = part.depends_on
    if depends_on is None or depends_on.probe is None:
        return []
    jobs = [view.jobs.get(f"{view.flow.metadata.name}-{target}") for target in depends_on.targets]
    if None in jobs:
        return []
    tasks = {task.name for job in jobs if job is not None for task in job.spec.tasks}
    lost = sorted(probes.tasks_named(depends_on.probe) - tasks)
    return [f"{part.name} probes task {name}, which none of its targets has: correct its name" for name in lost]


def _job(flow: JobFlow, part: Flow, template: JobTemplate) -> Json:
    namespace = flow.metadata.namespace
    origin = {
        names.CREATED_BY_JOB_TEMPLATE: f"{namespace}.{part.name}",
        names.CREATED_BY_JOB_FLOW: f"{namespace}.{flow.metadata.name}",
    }
    spec: Json = msgspec.json.decode(template.spec)
    if part.patch is not None and bytes(part.patch.job_spec) != bytes(ABSENT):
        spec = apply_patch(spec, msgspec.json.decode(part.patch.job_spec))
    metadata = owned_metadata(flow, job_name(flow, part))
    times = {key: value for key, value in template.metadata.annotations.items() if key in HANDED_ON}
    metadata["annotations"] = with_owners_submitter(flow, {**times, **origin})
    # A label has 63 characters at most; we find our Jobs by their owner.
    metadata["labels"] = {key: value for key, value in origin.items() if not selectors.label_value_problem(value)}
    return {**type_meta(Job), "metadata": metadata, "spec": spec}

"""Jobs that are allowed and will hurt: they wait forever, lose their gang, or waste GPUs."""

from collections.abc import Sequence
from typing import NamedTuple

from pumice.api.batch import JobSpec
from pumice.api.run_time import TIMES
from pumice.api.validation.amounts import quantity_text, units
from pumice.api.validation.container_resources import asks_for_cards, pod_requests, requests_of
from pumice.api.validation.field_errors import Findings
from pumice.api.validation.job_plugins import warn_about_plugins
from pumice.api.validation.pod_shapes import PodSpec, PodTemplate
from pumice.api.validation.policies import warn_about_policies
from pumice.api.validation.queue_entry import warn_if_too_large
from pumice.api.validation.request import ClusterSize, Lookup


def warn_about_job(
    findings: Findings,
    path: str,
    job_name: str,
    spec: JobSpec,
    templates: Sequence[PodTemplate],
    *,
    lookup: Lookup | None,
) -> None:
    """All warnings about a job that has no errors."""
    _warn_about_numbers(findings, path, spec)
    warn_about_policies(findings, path, spec, templates)
    warn_about_plugins(findings, f"{path}.plugins", job_name, spec)
    for index, template in enumerate(templates):
        where = f"{path}.tasks[{index}].template.spec"
        _warn_about_pods(findings, where, template.spec, spec.scheduler_name)
        for key in sorted(set(TIMES) & template.metadata.annotations.keys()):
            place = f"{path}.tasks[{index}].template.metadata.annotations[{key}]"
            findings.warn(place, "is not read from the pods of a job: it is about the gang; set it on the job")
    if lookup is not None:
        _warn_about_room(findings, path, spec, templates, lookup)
        if spec.priority_class_name and lookup.priority_class(spec.priority_class_name) is None:
            text = f"there is no priority class {spec.priority_class_name!r}: pods cannot be made before it exists"
            findings.warn(f"{path}.priorityClassName", text)


def _warn_about_room(
    findings: Findings, path: str, spec: JobSpec, templates: Sequence[PodTemplate], lookup: Lookup
) -> None:
    minimum = minimum_of(spec, templates)
    size = lookup.cluster_size()
    if size is not None:
        for index, template in enumerate(templates):
            for name in _warn_about_node_size(findings, f"{path}.tasks[{index}].template.spec", template.spec, size):
                minimum.pop(name, None)  # where one pod is too large, a warning that several are too large adds nothing
    warn_if_too_large(findings, f"{path}.minAvailable", minimum, spec.queue, lookup)


def _warn_about_numbers(findings: Findings, path: str, spec: JobSpec) -> None:
    total = sum(task.replicas for task in spec.tasks)
    if total == 0:
        findings.warn(f"{path}.tasks", "no task has replicas: no pod will be made")
    if spec.min_success is not None and spec.min_success > total:
        findings.warn(f"{path}.minSuccess", f"{spec.min_success} pods can never succeed: there are {total} replicas")
    first = sum(task.replicas for task in spec.tasks if not (task.depends_on and task.depends_on.name))
    if first < spec.min_available:
        findings.warn(
            f"{path}.minAvailable",
            f"{spec.min_available} pods must start at once, but only {first} exist before tasks with dependsOn get theirs: "
            f"deadlock; use {first} or less",
        )


def _warn_about_pods(findings: Findings, path: str, spec: PodSpec, scheduler_name: str) -> None:
    if spec.node_name:
        findings.warn(f"{path}.nodeName", "the pods skip the scheduler, and with it gang and queue; use nodeSelector")
    if spec.scheduler_name and scheduler_name and spec.scheduler_name != scheduler_name:
        text = f"these pods are scheduled by {spec.scheduler_name!r} and do not join the gang of {scheduler_name!r}"
        findings.warn(f"{path}.schedulerName", text)
    for index, container in enumerate(spec.containers):
        cards = asks_for_cards(container)
        if cards and "memory" not in requests_of(container.resources) and spec.resources is None:
            findings.warn(
                f"{path}.containers[{index}].resources",
                f"{cards[0]} without a limit or request of memory: first to be killed when a node runs short of it",
            )


def _warn_about_node_size(findings: Findings, path: str, spec: PodSpec, size: ClusterSize) -> list[str]:
    """The resources of which one pod needs more than any node has."""
    too_large = []
    for name, amount in pod_requests(spec).items():
        most = size.largest_node.get(name, 0)
        if amount > units(name, most):
            too_large.append(name)
            findings.warn(
                path,
                f"one pod needs {quantity_text(name, amount)} {name}, but no node has more than {most}: it will wait",
            )
    return too_large


class _Share(NamedTuple):
    """Pods of one task that cost the same."""

    cost: int
    minimum: int
    replicas: int


def minimum_of(spec: JobSpec, templates: Sequence[PodTemplate]) -> dict[str, int]:
    """The least, in units, that the job's smallest gang takes of each resource; whichever pods it consists of."""
    costs = [pod_requests(template.spec) for template in templates]
    result: dict[str, int] = {}
    for name in {name for cost in costs for name in cost}:
        shares = [
            _Share(
                cost.get(name, 0), task.replicas if task.min_available is None else task.min_available, task.replicas
            )
            for cost, task in zip(costs, spec.tasks, strict=True)
        ]
        result[name] = _cheapest(shares, spec.min_available)
    return {name: amount for name, amount in result.items() if amount}


def _cheapest(shares: Sequence[_Share], pods: int) -> int:
    """The cost of so many pods: every task's minimum first, unless that is more than the job asks for."""
    total = 0
    if sum(share.minimum for share in shares) <= pods:
        total = sum(share.cost * share.minimum for share in shares)
        pods -= sum(share.minimum for share in shares)
        shares = [_Share(share.cost, 0, share.replicas - share.minimum) for share in shares]
    for share in sorted(shares):
        taken = min(pods, share.replicas)
        total += share.cost * taken
        pods -= taken
    return total

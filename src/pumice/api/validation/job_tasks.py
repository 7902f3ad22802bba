"""Tasks of a job: numbers that fit together, names that make pods, templates that make containers."""

from collections.abc import Sequence
from typing import Final

from pumice import quantity
from pumice.api.batch import JobSpec, NetworkTopology, NumaPolicy, PartitionPolicy, Task
from pumice.api.validation.container_resources import requests_of
from pumice.api.validation.field_errors import Findings
from pumice.api.validation.graphs import cycle, unknown_targets
from pumice.api.validation.names import dns_label_problem, qualified_name_problem
from pumice.api.validation.pod_shapes import PodTemplate
from pumice.api.validation.pod_templates import check_template
from pumice.api.validation.policies import check_policies

_NO_DAG: Final = "job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG)"


def check_tasks(findings: Findings, path: str, job_name: str, spec: JobSpec) -> list[PodTemplate]:
    """Everything about the tasks of a job that is to be created; the templates as far as they could be read."""
    templates: list[PodTemplate] = []
    seen: set[str] = set()
    for index, task in enumerate(spec.tasks):
        where = f"{path}[{index}]"
        _check_name(findings, where, job_name, task, index)
        if task.name in seen:
            findings.refuse(f"{where}.name", f"duplicated task name {task.name}", "give each task a name of its own")
        seen.add(task.name)
        check_task_numbers(findings, where, task)
        check_policies(findings, f"{where}.policies", task.policies)
        template = check_template(findings, f"{where}.template", task.template)
        if template is not None:
            check_numa_policy(findings, where, task, template)
        templates.append(template or PodTemplate())
    _check_dependencies(findings, path, spec.tasks)
    return templates


def _check_name(findings: Findings, path: str, job_name: str, task: Task, index: int) -> None:
    if not findings.name(f"{path}.name", task.name, dns_label_problem):
        return
    if job_name and (cause := qualified_name_problem(pod := f"{job_name}-{task.name}-{index}")):
        findings.refuse(
            f"{path}.name", f"create pod with name {pod} validate failed: {cause}", "shorten job or task name"
        )


def check_task_numbers(findings: Findings, path: str, task: Task, *, is_new: bool = True) -> None:
    """Replicas, the minimum of them, and their partitions."""
    if not findings.within(f"{path}.replicas", task.replicas, 0):
        return
    minimum = task.min_available
    if findings.within(f"{path}.minAvailable", minimum, 0) and minimum is not None and minimum > task.replicas:
        words = "is greater than" if is_new else "must be <="
        cause = f"'minAvailable' {words} 'replicas' in task: {task.name}, which has {task.replicas}"
        findings.refuse(f"{path}.minAvailable", cause, "lower it or raise replicas", minimum)
    if task.partition_policy is not None:
        _check_partitions(findings, f"{path}.partitionPolicy", task, task.partition_policy)


def _check_partitions(findings: Findings, path: str, task: Task, policy: PartitionPolicy) -> None:
    check_network_topology(findings, f"{path}.networkTopology", policy.network_topology)
    total, size = policy.total_partitions, policy.partition_size
    positive = findings.within(f"{path}.totalPartitions", total, 1)
    positive &= findings.within(f"{path}.partitionSize", size, 1)
    if not positive:
        return
    if total * size != task.replicas:
        cause = (
            f"{total} partitions of {size} pods are {total * size}, but task {task.name!r} has {task.replicas} replicas"
        )
        findings.refuse(path, cause, "make totalPartitions * partitionSize equal to replicas")
    together = policy.min_partitions * size
    if together > 0 and task.min_available is not None and together != task.min_available:
        cause = f"{policy.min_partitions} partitions of {size} pods are {together}, but minAvailable is {task.min_available}"
        findings.refuse(f"{path}.minPartitions", cause, "make minPartitions * partitionSize equal to minAvailable")


def check_network_topology(findings: Findings, path: str, topology: NetworkTopology | None) -> None:
    if topology is not None and topology.highest_tier_allowed is not None and topology.highest_tier_name:
        cause = "must not specify both highestTierAllowed and highestTierName"
        findings.refuse(path, cause, "keep one of them")


def check_numa_policy(findings: Findings, path: str, task: Task, template: PodTemplate) -> None:
    """CPUs can be pinned in whole cores only."""
    if task.topology_policy in {"", NumaPolicy.NONE.value}:
        return
    for field, containers in (
        ("containers", template.spec.containers),
        ("initContainers", template.spec.init_containers),
    ):
        for index, container in enumerate(containers):
            cpu = requests_of(container.resources).get("cpu", 0)
            try:
                milli = quantity.parse_milli(cpu)
            except quantity.QuantityError:
                continue  # refused as an amount already
            if milli < 1000 or milli % 1000:
                where = f"{path}.template.spec.{field}[{index}].resources.requests[cpu]"
                cause = f"the cpu request isn't an integer, and topologyPolicy {task.topology_policy} needs whole CPUs"
                findings.refuse(where, cause, "request 1 or more whole CPUs", cpu)


def _check_dependencies(findings: Findings, path: str, tasks: Sequence[Task]) -> None:
    graph = {task.name: task.depends_on.name if task.depends_on else () for task in tasks}
    position = {task.name: index for index, task in enumerate(tasks)}
    for name, target in unknown_targets(graph):
        where = f"{path}[{position[name]}].dependsOn.name"
        findings.refuse(where, f"{_NO_DAG}: no such task", "name a task of this job", target)
    if circle := cycle(graph):
        where = f"{path}[{position[circle[0]]}].dependsOn.name"
        cause = f"{_NO_DAG}: {' -> '.join(circle)}"
        findings.refuse(where, cause, "remove one of these dependencies")

"""PodGroups: looked at when they are created, and never again, because they have no status subresource: each change of status is an update."""

from pumice.api.scheduling import PodGroup
from pumice.api.validation.amounts import check_amounts, units
from pumice.api.validation.field_errors import Findings
from pumice.api.validation.job_tasks import check_network_topology
from pumice.api.validation.placement import check_selector
from pumice.api.validation.queue_entry import check_queue_is_open, warn_if_too_large
from pumice.api.validation.request import Lookup, Operation, Request
from pumice.api.validation.time_limits import check_times


def review_pod_group(request: Request) -> Findings:
    """What is wrong with a PodGroup that is created."""
    findings = Findings()
    if request.operation != Operation.CREATE:
        return findings
    group = findings.decode("", PodGroup, request.new)
    if group is None:
        return findings
    spec = group.spec
    findings.within("spec.minMember", spec.min_member, 0)
    check_network_topology(findings, "spec.networkTopology", spec.network_topology)
    for index, policy in enumerate(spec.sub_group_policy):
        where = f"spec.subGroupPolicy[{index}]"
        check_network_topology(findings, f"{where}.networkTopology", policy.network_topology)
        check_selector(findings, f"{where}.labelSelector", policy.label_selector)
    if group.metadata.controller is None:
        check_times(findings, "metadata.annotations", group.metadata.annotations)
    check_amounts(findings, "spec.minResources", spec.min_resources or {})
    if request.lookup is not None and spec.queue:
        check_queue_is_open(findings, "spec.queue", spec.queue, request.lookup)
    # What a controller writes for a job is the controller's business; the job has been warned about.
    if not findings.errors and group.metadata.controller is None:
        _warn(findings, group, request.lookup)
    return findings


def _warn(findings: Findings, group: PodGroup, lookup: Lookup | None) -> None:
    spec = group.spec
    together = sum(spec.min_task_member.values())
    if together > spec.min_member:
        findings.warn(
            "spec.minTaskMember",
            f"asks for {together} pods, minMember for {spec.min_member} only: the minimums of tasks are ignored; "
            f"set minMember to {together}",
        )
    for index, policy in enumerate(spec.sub_group_policy):
        needed = policy.sub_group_size * policy.min_sub_groups
        if needed > spec.min_member:
            text = f"needs {needed} pods at once, more than minMember ({spec.min_member}); raise minMember"
            findings.warn(f"spec.subGroupPolicy[{index}].minSubGroups", text)
    if lookup is None:
        return
    if spec.queue and (children := lookup.children(spec.queue)):
        text = (
            f"{spec.queue!r} has {len(children)} queues below it: groups belong into those, here they may never start"
        )
        findings.warn("spec.queue", text)
    minimum = {
        name.removeprefix("requests."): units(name.removeprefix("requests."), amount)
        for name, amount in (spec.min_resources or {}).items()
        if not name.startswith(("limits.", "count/"))
    }
    warn_if_too_large(findings, "spec.minResources", minimum, spec.queue, lookup)

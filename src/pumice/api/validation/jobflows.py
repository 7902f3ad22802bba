"""JobFlows: every dependency is declared, and none waits for itself."""

from typing import Final

from pumice.api.flow import JobFlow, dependencies
from pumice.api.validation.field_errors import Findings
from pumice.api.validation.graphs import cycle, unknown_targets
from pumice.api.validation.jobs import name_of
from pumice.api.validation.names import qualified_name_problem
from pumice.api.validation.request import Lookup, Operation, Request

NO_DAG: Final = "jobflow Flow is not DAG"


def review_job_flow(request: Request) -> Findings:
    """What is wrong with a JobFlow that is created, or whose spec changes."""
    findings = Findings()
    flow = findings.decode("", JobFlow, request.new)
    if flow is None:
        return findings
    old = Findings().decode("", JobFlow, request.old) if request.operation == Operation.UPDATE else None
    if old is not None and old.spec == flow.spec:
        return findings
    _check_graph(findings, flow)
    name = name_of(flow.metadata)
    for index, part in enumerate(flow.spec.flows):
        job = f"{name}-{part.name}"
        if name and (cause := qualified_name_problem(job)):
            findings.refuse(f"spec.flows[{index}].name", f"invalid job name: {cause}", "shorten one of the names", job)
    _warn(findings, flow, request.lookup)
    return findings


def _check_graph(findings: Findings, flow: JobFlow) -> None:
    flows = flow.spec.flows
    graph = dependencies(flows)
    position = {part.name: index for index, part in enumerate(flows)}
    for name, target in unknown_targets(graph):
        where = f"spec.flows[{position[name]}].dependsOn.targets"
        findings.refuse(
            where, f"{NO_DAG}: vertex is not defined: {target}", "declare a flow of this name, or name another"
        )
    if circle := cycle(graph):
        where = f"spec.flows[{position[circle[0]]}].dependsOn.targets"
        findings.refuse(where, f"{NO_DAG}: {' -> '.join(circle)}", "remove one of these dependencies")


def _warn(findings: Findings, flow: JobFlow, lookup: Lookup | None) -> None:
    seen: set[str] = set()
    for index, part in enumerate(flow.spec.flows):
        where = f"spec.flows[{index}]"
        if part.name in seen:
            findings.warn(f"{where}.name", f"{part.name!r} occurs a second time, but runs once")
        seen.add(part.name)
        if lookup is not None and lookup.job_template(flow.metadata.namespace, part.name) is None:
            findings.warn(f"{where}.name", f"there is no JobTemplate {part.name!r} yet; the flow waits for it")

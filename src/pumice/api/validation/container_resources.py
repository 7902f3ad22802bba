"""What containers and pods ask for: amounts that Kubernetes accepts, and what they come to."""

from typing import Final

from pumice import quantity
from pumice.api.meta import ResourceList
from pumice.api.pods import ResourceRequirements
from pumice.api.validation.amounts import HUGE_PAGES, STANDARD, check_amount, exceeds, is_native, sums, units
from pumice.api.validation.field_errors import Findings
from pumice.api.validation.names import qualified_name_problem
from pumice.api.validation.pod_shapes import Container, PodSpec

POD_LEVEL: Final = frozenset({"cpu", "memory"})


def requests_of(resources: ResourceRequirements) -> ResourceList:
    """The requests after defaulting: a limit stands in for a missing request."""
    if not resources.limits:
        return resources.requests
    return {**resources.limits, **resources.requests}


def check_requirements(findings: Findings, path: str, resources: ResourceRequirements) -> None:
    """Requests and limits of one container."""
    before = len(findings.errors)
    for field, amounts in (("limits", resources.limits), ("requests", resources.requests)):
        for name, amount in amounts.items():
            where = f"{path}.{field}[{name}]"
            if cause := _resource_problem(name):
                findings.refuse(where, cause, "correct the resource's name", name)
            else:
                check_amount(findings, where, name, amount)
    if len(findings.errors) == before:  # what is no quantity cannot be compared
        _check_limits(findings, path, resources)


def _check_limits(findings: Findings, path: str, resources: ResourceRequirements) -> None:
    requests, limits = requests_of(resources), resources.limits
    for name in exceeds(requests, limits):
        cause = f"must be less than or equal to {name} limit of {limits[name]}"
        findings.refuse(f"{path}.requests", cause, "raise the limit", requests[name])
    devices = [name for name in requests if not is_native(name) or name.startswith(HUGE_PAGES)]
    for name in devices:
        if name not in limits:
            cause = f"{name} cannot be overcommitted: limit must be set"
            findings.refuse(f"{path}.limits", cause, "set it to the request as well")
        elif quantity.compare(requests[name], limits[name]) < 0:
            cause = f"must be equal to {name} limit of {limits[name]}"
            findings.refuse(f"{path}.requests", cause, "request what the limit says", requests[name])
    if any(name.startswith(HUGE_PAGES) for name in devices) and not requests.keys() & POD_LEVEL:
        findings.refuse(path, "huge pages require cpu or memory", "request cpu or memory as well")


def _resource_problem(name: str) -> str:
    if "/" not in name:
        standard = name in STANDARD or name.startswith(HUGE_PAGES)
        return "" if standard else "not a resource of containers: cpu, memory, ephemeral-storage, or domain/name"
    if name.startswith("requests."):
        return "a name of ResourceQuotas, not of a resource"
    return qualified_name_problem(name)


def check_pod_requirements(findings: Findings, path: str, spec: PodSpec) -> None:
    """Requests and limits of the pod as a whole, which hold its containers' together."""
    resources = spec.resources
    if resources is None:
        return
    for field, amounts in (("limits", resources.limits), ("requests", resources.requests)):
        for name, amount in amounts.items():
            where = f"{path}.{field}[{name}]"
            if name not in POD_LEVEL and not name.startswith(HUGE_PAGES):
                findings.refuse(
                    where, "a pod as a whole has cpu, memory and huge pages only", "set it on a container", name
                )
            else:
                check_amount(findings, where, name, amount)
    for name in exceeds(resources.requests, resources.limits):
        limit = resources.limits[name]
        findings.refuse(
            f"{path}.requests",
            f"must be less than or equal to {name} limit of {limit}",
            "raise the limit",
            resources.requests[name],
        )
    together = sums(requests_of(container.resources) for container in spec.containers)
    for name, amount in resources.requests.items():
        if units(name, amount) < together.get(name, 0):
            findings.refuse(f"{path}.requests[{name}]", "less than the containers request together", "raise it", amount)


def pod_requests(spec: PodSpec) -> dict[str, int]:
    """What one pod takes from a node, in units: its containers, or an init container if that needs more, and overhead."""
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.init_containers:
        needs = sums([requests_of(container.resources)])
        if container.is_sidecar:
            sidecars = _sum(sidecars, needs)
            needs = sidecars
        else:
            needs = _sum(sidecars, needs)
        peak = _larger(peak, needs)
    running = _sum(sums(requests_of(container.resources) for container in spec.containers), sidecars)
    total = _larger(peak, running)
    if spec.resources is not None:
        total |= sums([requests_of(spec.resources)])
    return _sum(total, sums([spec.overhead]))


def _sum(left: dict[str, int], right: dict[str, int]) -> dict[str, int]:
    return {name: left.get(name, 0) + right.get(name, 0) for name in left | right}


def _larger(left: dict[str, int], right: dict[str, int]) -> dict[str, int]:
    return {name: max(left.get(name, 0), right.get(name, 0)) for name in left | right}


def asks_for_cards(container: Container) -> list[str]:
    """The devices that the container asks for."""
    requests = requests_of(container.resources)
    return [name for name, amount in requests.items() if not is_native(name) and units(name, amount) > 0]

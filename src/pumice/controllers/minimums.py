"""minResources of a gang in ResourceQuota's words, as Volcano writes it: `pods`, `requests.cpu` beside `cpu`, `limits.cpu`.

Limits count where requests are absent, as they do for pods: a gang that only sets limits for its GPUs asks for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from pumice import quantity
from pumice.api.pods import NO_REQUIREMENTS, Pod, ResourceRequirements
from pumice.cluster import amounts, requests

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.api.meta import ResourceList
    from pumice.api.pods import Container, PodSpec

# What ResourceQuota counts by requests and by limits; of everything else, requests alone.
_COMPUTE = (amounts.CPU, amounts.MEMORY, amounts.EPHEMERAL_STORAGE)


def usage(spec: PodSpec) -> Mapping[str, int]:
    """What one pod counts in quotas, in the units of its resources."""
    counted = {"pods": amounts.MILLI, "count/pods": amounts.MILLI}
    for name, value in _requests(spec).items():
        counted[name] = value
        counted[f"requests.{name}"] = value
    for name, value in _requests(_with_limits_as_requests(spec)).items():
        if name in _COMPUTE:
            counted[f"limits.{name}"] = value
    return counted


def resource_list(total: Mapping[str, int]) -> dict[str, str]:
    """Usage as quantities, by name."""
    return {name: amounts.quantity_text(_plain(name), total[name]) for name in sorted(total)}


def same(left: ResourceList, right: ResourceList) -> bool:
    """True where both say the same, however they write it."""
    return left.keys() == right.keys() and all(
        left[name] == right[name] or quantity.compare(left[name], right[name]) == 0 for name in right
    )


def _requests(spec: PodSpec) -> dict[str, int]:
    asked = requests.request_of(Pod(spec=spec)).amounts
    return {name: int(value) for name, value in asked.items() if name != amounts.PODS}


def _with_limits_as_requests(spec: PodSpec) -> PodSpec:
    """The same pod as though its limits were its requests; overhead counts where there is a limit."""
    containers = (*spec.containers, *spec.init_containers)
    whole = spec.resources.limits if spec.resources is not None else {}
    limited = {*whole, *(name for each in containers for name in each.resources.limits)}
    return replace(
        spec,
        containers=tuple(map(_limits_only, spec.containers)),
        init_containers=tuple(map(_limits_only, spec.init_containers)),
        overhead={name: value for name, value in spec.overhead.items() if name in limited},
        resources=ResourceRequirements(requests=whole) if whole else None,
    )


def _limits_only(container: Container) -> Container:
    limits = container.resources.limits
    return replace(container, resources=ResourceRequirements(requests=limits) if limits else NO_REQUIREMENTS)


def _plain(name: str) -> str:
    return name.removeprefix("requests.").removeprefix("limits.")

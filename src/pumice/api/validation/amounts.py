"""Resource lists: what Kubernetes accepts in them, and how much they are.

Units are whole bytes for what is counted in bytes and thousandths for the rest, so that sums of a large cluster's memory
stay within 64 bits; sums here are Python's and never overflow.
"""

from collections.abc import Iterable
from typing import Final

from pumice import quantity
from pumice.api.meta import Quantity, ResourceList
from pumice.api.validation.field_errors import Findings
from pumice.api.validation.names import qualified_name_problem

HUGE_PAGES: Final = "hugepages-"
STANDARD: Final = frozenset({"cpu", "memory", "ephemeral-storage"})

_IN_BYTES: Final = frozenset({"memory", "ephemeral-storage", "storage"})
_COUNTS: Final = frozenset({"pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps"})


def is_native(name: str) -> bool:
    """True for Kubernetes' own resources, which may be overcommitted; False for those of devices."""
    return "/" not in name or "kubernetes.io/" in name


def is_whole(name: str) -> bool:
    """True for what cannot be divided: devices, and objects that are counted."""
    return name in _COUNTS or not is_native(name)


def units(name: str, amount: Quantity) -> int:
    """The amount in the resource's unit; 0 for what is no quantity, which another rule refuses."""
    try:
        in_bytes = name in _IN_BYTES or name.startswith(HUGE_PAGES)
        return quantity.parse_value(amount) if in_bytes else quantity.parse_milli(amount)
    except quantity.QuantityError:
        return 0


def sums(lists: Iterable[ResourceList]) -> dict[str, int]:
    """What several lists are together, in units."""
    total: dict[str, int] = {}
    for resources in lists:
        for name, amount in resources.items():
            total[name] = total.get(name, 0) + units(name, amount)
    return total


def quantity_text(name: str, amount: int) -> str:
    """Units as a quantity."""
    in_bytes = name in _IN_BYTES or name.startswith(HUGE_PAGES)
    return quantity.format_bytes(amount) if in_bytes else quantity.format_milli(amount)


def check_amounts(findings: Findings, path: str, resources: ResourceList) -> bool:
    """Every name is a resource's, and every amount is a quantity of it; True if so."""
    before = len(findings.errors)
    for name, amount in resources.items():
        where = f"{path}[{name}]"
        if cause := qualified_name_problem(name):
            findings.refuse(where, cause, "correct the resource's name", name)
        check_amount(findings, where, name, amount)
    return len(findings.errors) == before


def check_amount(findings: Findings, path: str, name: str, amount: Quantity) -> bool:
    try:
        if quantity.compare(amount, 0) < 0:
            findings.refuse(path, "must not be negative", "use 0 or more", amount)
            return False
        if is_whole(name) and quantity.compare(quantity.parse_value(amount), amount) != 0:
            findings.refuse(path, f"{name} can only be had in whole numbers: must be an integer", "round it", amount)
            return False
    except quantity.QuantityError as error:
        findings.refuse_as(path, error)
        return False
    return True


def exceeds(resources: ResourceList, limits: ResourceList) -> list[str]:
    """The resources of which the first list has more than the second; absence in the second is no limit."""
    return [name for name, amount in resources.items() if name in limits and quantity.compare(amount, limits[name]) > 0]


def alike(left: ResourceList, right: ResourceList) -> bool:
    """The same amounts, however they are written."""
    return left.keys() == right.keys() and all(quantity.compare(left[name], right[name]) == 0 for name in left)

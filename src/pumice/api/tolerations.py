"""Taints and tolerations: which pods a node repels. One rule for the scheduler and for nodes."""

from pumice.api.core import Taint
from pumice.api.pods import Toleration

NO_SCHEDULE = "NoSchedule"
NO_EXECUTE = "NoExecute"
PREFER_NO_SCHEDULE = "PreferNoSchedule"


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """An empty key or effect of the toleration stands for every key or effect."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case "Exists":
            return True
        case "" | "Equal":
            return toleration.value == taint.value
        case "Lt" | "Gt":
            return _compares(toleration, taint)
        case _:
            return False


def _compares(toleration: Toleration, taint: Taint) -> bool:
    """Numeric tolerations: the taint's value lies below or above the toleration's; anything but integers is no match."""
    try:
        bound, value = int(toleration.value), int(taint.value)
    except ValueError:
        return False
    return value < bound if toleration.operator == "Lt" else value > bound

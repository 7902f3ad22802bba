"""Amounts of resources as quotas, shares and minimums count them: exact integers by resource name.

Units: bytes for memory, ephemeral storage and huge pages; thousandths for cpu and everything else, pods included.
An absent name is not the same as zero: a queue that does not mention GPUs neither limits nor deserves them, and each
comparison below says what absence means to it. Shares and deserved amounts may be fractions, hence `float`.
"""

import functools
from collections.abc import Iterable, Mapping

from pumice import quantity

Amounts = Mapping[str, float]
MutableAmounts = dict[str, float]

CPU = "cpu"
MEMORY = "memory"
PODS = "pods"
EPHEMERAL_STORAGE = "ephemeral-storage"
MILLI = 1000  # thousandths of one core, card or pod

# Differences below a tenth of a unit are noise of fractional shares, not room (Volcano parity: minResource).
EPSILON = 0.1
UNLIMITED = float("inf")
# A user who may create pods may ask for 16 EiB. In the columns that stays more than any node may have, and small enough for the sum
# of 2,000 such pods on one node.
ASKED_MAX = 2**52
OFFERED_MAX = ASKED_MAX - 1
TIMES_MAX = 2**52  # as many as anybody could count
TEXTS_KEPT_MAX = 8_192  # of amounts as people read them

_IN_BYTES = frozenset({MEMORY, EPHEMERAL_STORAGE, "storage"})
_HUGE_PAGES = "hugepages-"


def in_bytes(name: str) -> bool:
    """True where one unit of the resource is one byte, False where it is a thousandth."""
    return name in _IN_BYTES or name.startswith(_HUGE_PAGES)


def is_gpu(name: str) -> bool:
    """Whether a resource is GPUs that nodes count, or partitions of them."""
    return name.endswith("/gpu") or "/mig-" in name


def amount(name: str, text: str | float, *, unreadable: int | None = None) -> int:
    """One quantity in the unit of its resource; what is none counts as `unreadable`, where the caller has a number for it.

    API servers read quantities of built-in kinds, but compare those of custom kinds with a pattern only, and that lets `1e1.5` pass.
    """
    try:
        return quantity.parse_value(text) if in_bytes(name) else quantity.parse_milli(text)
    except quantity.QuantityError:
        if unreadable is None:
            raise
        return unreadable


def is_counted(name: str) -> bool:
    """True for resources that nodes hand out and queues count; quota-style names (`limits.cpu`, `count/pods`) are not."""
    if name in {CPU, MEMORY, PODS, EPHEMERAL_STORAGE} or name.startswith((_HUGE_PAGES, "attachable-volumes-")):
        return True
    domain, slash, _ = name.partition("/")
    return bool(slash) and not name.startswith("requests.") and domain != "count"


def read(resources: Mapping[str, str | float], *, unreadable: int | None = None) -> MutableAmounts:
    """A Kubernetes resource list as amounts; names that are not counted are left out."""
    return {name: amount(name, text, unreadable=unreadable) for name, text in resources.items() if is_counted(name)}


def read_minimum(resources: Mapping[str, str | float]) -> MutableAmounts:
    """A group's minResources; extended resources written in ResourceQuota style (`requests.nvidia.com/gpu`) count as themselves.

    The Job controllers of Volcano write minResources in quota style, so that GPUs appear only under that name. A quantity that cannot
    be read counts as more than any cluster has: the group waits and says so.
    """
    minimum = read(resources, unreadable=ASKED_MAX)
    for name, text in resources.items():
        plain = name.removeprefix("requests.")
        if plain != name and "/" in plain and plain not in minimum:
            minimum[plain] = amount(plain, text, unreadable=ASKED_MAX)
    return minimum


_NOTHING: Amounts = {}


def add(total: MutableAmounts, more: Amounts, times: int = 1) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value * times


def sum_of(parts: Iterable[Amounts]) -> MutableAmounts:
    total: MutableAmounts = {}
    last, times = _NOTHING, 0
    for part in parts:  # members of a gang mostly ask for the same: equal requests are one object, and are counted
        if part is last:
            times += 1
            continue
        add(total, last, times)
        last, times = part, 1
    add(total, last, times)
    return total


def surplus(left: Amounts, right: Amounts) -> MutableAmounts:
    """What of `left` lies beyond `right`, never below zero; absent on the right is zero."""
    return {name: max(value - right.get(name, 0), 0) for name, value in left.items()}


def at_least(left: Amounts, right: Amounts) -> MutableAmounts:
    """The larger of both by name, over the names of either."""
    return {name: max(left.get(name, 0), right.get(name, 0)) for name in {**left, **right}}


def at_most(left: Amounts, right: Amounts, *, absent: float) -> MutableAmounts:
    """The smaller of both over the names of `left`; `absent` stands for a name that `right` lacks."""
    return {name: min(value, right.get(name, absent)) for name, value in left.items()}


def is_empty(amounts: Amounts) -> bool:
    """True where nothing but pods is asked for: such a task is best effort."""
    return all(value < EPSILON for name, value in amounts.items() if name != PODS)


def within(left: Amounts, right: Amounts) -> bool:
    """True where every amount of `left` is at most that of `right`; absent on the right is zero."""
    return all(value <= right.get(name, 0) + EPSILON for name, value in left.items() if value > 0) and (
        left.get(CPU, 0) <= right.get(CPU, 0) + EPSILON and left.get(MEMORY, 0) <= right.get(MEMORY, 0) + EPSILON
    )


def beyond(total: Amounts, limit: Amounts, *, asked: Amounts) -> list[str]:
    """The names in which `total` exceeds `limit`, of those that are asked for; cpu and memory first. Pods are not a quota.

    Strict, as quotas are: a thousandth too much is too much. Absent in the limit is zero.
    """
    over = [
        name for name, value in asked.items() if value > 0 and name != PODS and total.get(name, 0) > limit.get(name, 0)
    ]
    return in_reading_order(over)


def too_much(held: Amounts, more: Amounts, limit: Amounts) -> list[str]:
    """The names of `more` in which it, beside what is held, exceeds the limit: as `beyond` says it of both together."""
    over = [
        name
        for name, value in more.items()
        if value > 0 and name != PODS and held.get(name, 0) + value > limit.get(name, 0)
    ]
    return in_reading_order(over) if over else over


def times_within(limit: Amounts, held: Amounts, each: Amounts) -> int:
    """How many times as much as `each`, beside what is held, `too_much` does not find too much; of whole numbers."""
    left = [
        (limit.get(name, 0) - held.get(name, 0)) // value for name, value in each.items() if value > 0 and name != PODS
    ]
    return int(min(left, default=TIMES_MAX))


def in_reading_order(names: Iterable[str]) -> list[str]:
    """CPU and memory first, then by name."""
    return sorted(names, key=lambda name: ({CPU: 0, MEMORY: 1}.get(name, 2), name))


def share(part: float, whole: float) -> float:
    """`part / whole`, where something of nothing is everything."""
    if whole == 0:
        return 0.0 if part == 0 else 1.0
    return part / whole


def dominant_share(part: Amounts, whole: Amounts) -> float:
    """The largest share over the resources that the whole has."""
    if not part:
        return 0.0
    return max([part.get(name, 0) / total for name, total in whole.items() if total >= EPSILON], default=0.0)


def names(amounts: Amounts) -> set[str]:
    """The resources of which there is something."""
    return {name for name, value in amounts.items() if value >= EPSILON}


def units(name: str, value: float) -> float:
    """An amount as people count: bytes stay bytes, thousandths become cores, cards and pods."""
    return value if in_bytes(name) else value / MILLI


def text(amounts: Amounts) -> str:
    """Amounts for people: `cpu 4, memory 8Gi, nvidia.com/gpu 2`."""
    return ", ".join(f"{name} {quantity_text(name, amounts[name])}" for name in in_reading_order(amounts))


@functools.lru_cache(maxsize=TEXTS_KEPT_MAX)
def quantity_text(name: str, value: float) -> str:
    """One amount as a Kubernetes quantity."""
    whole = round(value)
    return quantity.format_bytes(whole) if in_bytes(name) else quantity.format_milli(whole)

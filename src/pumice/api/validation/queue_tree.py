"""Queues in a tree: a queue is no larger than what it is a part of.

A resource that a parent does not mention is not limited by it. (To Volcano it counts as 0 in guarantee and deserved, so that
a child can have none of it before every queue above it lists it.)
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from pumice.api.meta import ResourceList
from pumice.api.scheduling import ROOT_QUEUE, Queue
from pumice.api.validation.amounts import quantity_text, sums, units
from pumice.api.validation.field_errors import Findings
from pumice.api.validation.queue_entry import ancestors
from pumice.api.validation.request import Lookup

Amounts: TypeAlias = Callable[[Queue], ResourceList]

CAPABILITY: Final[Mapping[str, Amounts]] = {"spec.capability": lambda queue: queue.spec.capability}
SHARES: Final[Mapping[str, Amounts]] = {
    "spec.deserved": lambda queue: queue.spec.deserved,
    "spec.guarantee.resource": lambda queue: queue.spec.guarantee.resource,
}


def check_parent(findings: Findings, queue: Queue, lookup: Lookup, depth_max: int) -> None:
    """The queue's new place: below queues that exist, not below itself, not too deep, not in the way of running pods."""
    name, parent = queue.metadata.name, queue.spec.parent
    if parent in {"", ROOT_QUEUE}:
        return
    if parent == name:
        findings.refuse("spec.parent", "queue cannot use itself as parent", "name another queue, or root", parent)
        return
    above = list(ancestors(queue, lookup))
    last = above[-1] if above else queue
    if last.spec.parent == name:
        cause = f"queue {parent!r} is below queue {name!r} itself"
        findings.refuse("spec.parent", cause, "name a queue that is not below this one", parent)
        return
    if last.spec.parent not in {"", ROOT_QUEUE} and lookup.queue(last.spec.parent) is None:
        cause = f"failed to get parent queue: there is no queue {last.spec.parent!r}"
        findings.refuse("spec.parent", cause, "create it first, or name another", parent)
        return
    depth = 1 + len(above) + _height(name, lookup, depth_max)
    if depth > depth_max:
        cause = f"queue hierarchy depth exceeds the maximum of {depth_max}: it would be {depth}"
        findings.refuse("spec.parent", cause, "name a queue closer to the root", parent)
    pods = above[0].status.allocated.get("pods", 0)
    if not lookup.children(parent) and units("pods", pods) > 0:
        cause = f"queue {parent!r} cannot be the parent queue of {name!r} because it has allocated Pods: {pods}"
        findings.refuse("spec.parent", cause, "wait until they are done, or name another queue", parent)


def _height(name: str, lookup: Lookup, limit: int) -> int:
    """How many levels there are below the queue; counting stops beyond the limit."""
    if limit < 0:
        return 0
    return max((1 + _height(child.metadata.name, lookup, limit - 1) for child in lookup.children(name)), default=0)


def check_amounts_in_tree(findings: Findings, queue: Queue, lookup: Lookup) -> None:
    """The queue's amounts against those above it and those below it."""
    above = list(ancestors(queue, lookup))
    _check_capability(findings, queue, above)
    if above:
        siblings = [child for child in lookup.children(queue.spec.parent) if child.metadata.name != queue.metadata.name]
        _check_shares(findings, parent=above[0], children=[*siblings, queue], changed=queue)
        _warn_about_hollow_guarantee(findings, queue, above[0])
    children = lookup.children(queue.metadata.name)
    if children:
        _check_shares(findings, parent=queue, children=children, changed=queue)
        _check_capability_below(findings, queue, lookup)


def _check_capability(findings: Findings, queue: Queue, above: Sequence[Queue]) -> None:
    for name, amount in queue.spec.capability.items():
        owner = next((other for other in above if _limits(other, name)), None)
        if owner is not None and units(name, amount) > units(name, owner.spec.capability[name]):
            cause = f"capability exceeds that of its ancestor {owner.metadata.name!r}, which is {owner.spec.capability[name]}"
            findings.refuse(f"spec.capability[{name}]", cause, "lower it, or raise the ancestor's first", amount)


def _limits(queue: Queue, name: str) -> bool:
    return name in queue.spec.capability and units(name, queue.spec.capability[name]) > 0


def _check_shares(findings: Findings, *, parent: Queue, children: Sequence[Queue], changed: Queue) -> None:
    """What the children are promised is not more than their parent is, for what the parent mentions."""
    for path, amounts in SHARES.items():
        limits = amounts(parent)
        for name, total in sums(amounts(child) for child in children).items():
            if name not in limits or total <= units(name, limits[name]):
                continue
            field = path.split(".")[1]
            cause = f"the sum of {field} of the queues below {parent.metadata.name!r} is {quantity_text(name, total)}, its own {limits[name]}"
            next_step = (
                "raise it" if parent is changed else f"lower it, or raise that of {parent.metadata.name!r} first"
            )
            findings.refuse(f"{path}[{name}]", cause, next_step, amounts(changed).get(name))


def _check_capability_below(findings: Findings, queue: Queue, lookup: Lookup) -> None:
    for name, amount in queue.spec.capability.items():
        for child in lookup.children(queue.metadata.name):
            owner = _largest(child, name, lookup, {queue.metadata.name})
            if owner is not None and units(name, owner.spec.capability[name]) > units(name, amount):
                cause = f"capability is less than that of {owner.metadata.name!r} below it, which is {owner.spec.capability[name]}"
                findings.refuse(f"spec.capability[{name}]", cause, "raise it, or lower the other first", amount)
                break


def _largest(queue: Queue, name: str, lookup: Lookup, seen: set[str]) -> Queue | None:
    """The queue with the largest capability among the nearest ones in this branch that have one."""
    if queue.metadata.name in seen:
        return None
    if name in queue.spec.capability:
        return queue
    found = (
        _largest(child, name, lookup, seen | {queue.metadata.name}) for child in lookup.children(queue.metadata.name)
    )
    owners = [owner for owner in found if owner is not None]
    return max(owners, key=lambda owner: units(name, owner.spec.capability[name]), default=None)


def _warn_about_hollow_guarantee(findings: Findings, queue: Queue, parent: Queue) -> None:
    for name in queue.spec.guarantee.resource:
        if name not in parent.spec.guarantee.resource:
            text = f"parent {parent.metadata.name!r} guarantees no {name}: this holds against its other children only"
            findings.warn(f"spec.guarantee.resource[{name}]", text)

"""Queues: amounts that fit together, within one queue and along the tree."""

from typing import Final

from pumice import quantity
from pumice.api import names
from pumice.api.batch import DEFAULT_QUEUE
from pumice.api.meta import ResourceList
from pumice.api.scheduling import ROOT_QUEUE, Queue, QueueState
from pumice.api.user_limits import UserLimitsError, parse_user_limits
from pumice.api.validation.amounts import alike, check_amounts, units
from pumice.api.validation.field_errors import Findings
from pumice.api.validation.queue_entry import warn_if_too_large
from pumice.api.validation.queue_tree import CAPABILITY, SHARES, check_amounts_in_tree, check_parent
from pumice.api.validation.request import Lookup, Operation, Request
from pumice.digits import counted, is_number
from pumice.instant import DurationError, parse_duration

PROTECTED: Final = (DEFAULT_QUEUE, ROOT_QUEUE)
STATES: Final = ("", QueueState.OPEN.value, QueueState.CLOSED.value)

AMOUNTS: Final = {**CAPABILITY, **SHARES}


def review_queue(request: Request) -> Findings:
    """What is wrong with a Queue that is created, updated or deleted."""
    findings = Findings()
    old = Findings().decode("", Queue, request.old) if request.old is not None else None
    if request.operation == Operation.DELETE:
        if old is not None:
            _check_deletion(findings, old, request)
        return findings
    new = findings.decode("", Queue, request.new)
    if new is None:
        return findings
    _check_state(findings, new, old)
    if old is None or _hierarchy(old) != _hierarchy(new):
        _check_hierarchy(findings, new, request.lookup)
    limits = new.metadata.annotations.get(names.USER_LIMITS)
    if limits is not None and (old is None or old.metadata.annotations.get(names.USER_LIMITS) != limits):
        _check_user_limits(findings, limits)
    runtime = new.metadata.annotations.get(names.MIN_RUNTIME)
    if runtime is not None and (old is None or old.metadata.annotations.get(names.MIN_RUNTIME) != runtime):
        _check_min_runtime(findings, runtime)
    resized = old is None or not all(_alike(amounts(new), amounts(old)) for amounts in AMOUNTS.values())
    if resized:
        _check_own_amounts(findings, new)
    if new.metadata.name == ROOT_QUEUE:
        _check_root(findings, new, old, request)
    elif request.lookup is not None and not findings.errors:
        _check_place(findings, new, old, request, resized=resized)
    return findings


def _check_user_limits(findings: Findings, limits: str) -> None:
    try:
        parse_user_limits(limits)
    except UserLimitsError as error:
        findings.refuse(
            f"metadata.annotations[{names.USER_LIMITS}]", str(error), "correct it, or remove it", limits[:100]
        )


def _check_min_runtime(findings: Findings, runtime: str) -> None:
    path = f"metadata.annotations[{names.MIN_RUNTIME}]"
    try:
        is_negative = parse_duration(runtime) < 0
    except DurationError as error:
        findings.refuse_as(path, error)
    else:
        if is_negative:
            findings.refuse(path, "must not be negative", "write for example 30m, or 0s for none", runtime[:100])


def _check_place(findings: Findings, new: Queue, old: Queue | None, request: Request, *, resized: bool) -> None:
    """The queue in its tree, as far as the change concerns that; what was wrong before the change does not hinder it."""
    assert request.lookup is not None
    moved = old is None or old.spec.parent != new.spec.parent
    if moved:
        check_parent(findings, new, request.lookup, request.settings.queue_depth_max)
    if (moved or resized) and not findings.errors:
        check_amounts_in_tree(findings, new, request.lookup)
    if resized and not findings.errors:
        guarantee = {name: units(name, amount) for name, amount in new.spec.guarantee.resource.items()}
        warn_if_too_large(findings, "spec.guarantee.resource", guarantee, "", request.lookup)


def _alike(new: ResourceList, old: ResourceList) -> bool:
    """The same amounts; what is no quantity equals nothing."""
    try:
        return alike(new, old)
    except quantity.QuantityError:
        return False


def _check_state(findings: Findings, new: Queue, old: Queue | None) -> None:
    """Closing and Unknown are the controller's to say; a queue that is in such a state can be changed all the same."""
    state = new.status.state
    if state not in STATES and (old is None or old.status.state != state):
        cause = "queue state must be in `Open` or `Closed`"
        findings.refuse("status.state", cause, "leave it out; open and close queues with commands", state)


def _check_own_amounts(findings: Findings, queue: Queue) -> None:
    fine = [check_amounts(findings, path, amounts(queue)) for path, amounts in AMOUNTS.items()]
    if not all(fine):
        return
    capability, deserved, guarantee = (amounts(queue) for amounts in AMOUNTS.values())
    for name, amount in guarantee.items():
        if quantity.compare(deserved.get(name, 0), amount) < 0:
            cause = f"guarantee should less equal than deserved: deserved must be at least {amount}"
            if name in capability and quantity.compare(amount, capability[name]) > 0:
                cause += f", and guarantee should less equal than capability, which is {capability[name]}"
            findings.refuse(f"spec.deserved[{name}]", cause, "raise deserved", deserved.get(name, 0))
    for name, amount in deserved.items():
        if name in capability and quantity.compare(amount, capability[name]) > 0:
            cause = f"deserved should less equal than capability, which is {capability[name]}"
            findings.refuse(f"spec.deserved[{name}]", cause, "lower deserved or raise capability", amount)


def _check_root(findings: Findings, new: Queue, old: Queue | None, request: Request) -> None:
    if new.spec.parent and (old is None or old.spec.parent != new.spec.parent):
        findings.refuse("spec.parent", "the root queue has no parent", "remove it", new.spec.parent)
    if old is None or not request.settings.protect_root_queue:
        return
    for path, amounts in AMOUNTS.items():
        if not _alike(amounts(new), amounts(old)):
            cause = "root queue resources cannot be modified: it stands for the whole cluster"
            findings.refuse(path, cause, "set it on a queue below the root")


# ------------------------------------------------------------------------------------- hierarchy by annotations


def _hierarchy(queue: Queue) -> tuple[str, str]:
    annotations = queue.metadata.annotations
    return annotations.get(names.HIERARCHY, ""), annotations.get(names.HIERARCHY_WEIGHTS, "")


def _check_hierarchy(findings: Findings, queue: Queue, lookup: Lookup | None) -> None:
    path, weights = _hierarchy(queue)
    where = f"metadata.annotations[{names.HIERARCHY_WEIGHTS}]"
    if not path and not weights:
        return
    if path.count("/") != weights.count("/") or not (path and weights):
        cause = f"{names.HIERARCHY} must have the same length with {names.HIERARCHY_WEIGHTS}: {path!r} and {weights!r}"
        findings.refuse(where, cause, "give a weight for each part")
        return
    for weight in weights.split("/"):
        if not _is_positive(weight):
            problem = "must be larger than 0" if is_number(weight) else "is invalid number"
            findings.refuse(where, f"{weight} in the {weights} {problem}", "use a number above 0")
    for other in lookup.queues() if lookup is not None else ():
        if other.metadata.name != queue.metadata.name and _hierarchy(other)[0].startswith(f"{path}/"):
            cause = (
                f"{path} is not allowed to be in the sub path of {_hierarchy(other)[0]} of queue {other.metadata.name}"
            )
            findings.refuse(f"metadata.annotations[{names.HIERARCHY}]", cause, "choose a path that ends there", path)


def _is_positive(text: str) -> bool:
    return is_number(text) and 0 < float(text) < float("inf")


# ----------------------------------------------------------------------------------------------------------- deletion


def _check_deletion(findings: Findings, queue: Queue, request: Request) -> None:
    name = queue.metadata.name
    if name in PROTECTED:
        findings.refuse("metadata.name", f"`{name}` queue can not be deleted", "close it instead, if you must", name)
        return
    pods = queue.status.allocated.get("pods", 0)
    if request.settings.check_allocated_pods and units("pods", pods) > 0:
        cause = f"queue {name} cannot be deleted: pods are running in it"
        findings.refuse("status.allocated[pods]", cause, "close it and wait until they are done", pods)
    children = sorted(child.metadata.name for child in request.lookup.children(name)) if request.lookup else []
    if children:
        cause = f"queue {name} can not be deleted because it has {counted(len(children), 'child queue')}: {', '.join(children[:10])}"
        findings.refuse("metadata.name", cause, "delete them first, or give them another parent", name)

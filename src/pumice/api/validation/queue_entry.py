"""May something be submitted to a queue? And could the queue ever hold it?"""

from collections.abc import Iterator, Mapping

from pumice.api.meta import ResourceList
from pumice.api.scheduling import ROOT_QUEUE, Queue, QueueState
from pumice.api.validation.amounts import quantity_text, units
from pumice.api.validation.field_errors import Findings
from pumice.api.validation.request import Lookup

# A queue that its controller has not seen yet has no state; it is open, so that queue and job can be applied together.
OPEN = frozenset({"", QueueState.OPEN.value})


def check_queue_is_open(findings: Findings, path: str, name: str, lookup: Lookup) -> None:
    queue = lookup.queue(name)
    if queue is None:
        findings.refuse(path, "unable to find job queue", f"create queue {name!r} or name an existing one", name)
    elif queue.status.state not in OPEN:
        cause = f"can only submit job to queue with state `Open`, queue `{name}` status is `{queue.status.state}`"
        findings.refuse(path, cause, f"open it with `pumice queue operate {name} --action open` or use another", name)


def check_queue_is_leaf(findings: Findings, path: str, name: str, lookup: Lookup) -> None:
    if name == ROOT_QUEUE:
        findings.refuse(path, "can not submit job to root queue", "use one of the queues below it", name)
    elif children := lookup.children(name):
        some = ", ".join(sorted(child.metadata.name for child in children)[:5])
        cause = "can only submit job to leaf queue, and this one has queues below it"
        findings.refuse(path, cause, f"use one of them: {some}", name)


def ancestors(queue: Queue, lookup: Lookup) -> Iterator[Queue]:
    """The queues above, from the parent up to the last one below the root; stops where one is missing or met again."""
    seen = {queue.metadata.name}
    current: Queue | None = queue
    while current is not None:
        parent = current.spec.parent
        if parent in {"", ROOT_QUEUE} or parent in seen:
            return
        seen.add(parent)
        current = lookup.queue(parent)
        if current is not None:
            yield current


IN_TREES = ", where the policy's plugin capacity has enableHierarchy"  # no other plugin knows limits of queues above


def warn_if_too_large(findings: Findings, path: str, minimum: Mapping[str, int], queue: str, lookup: Lookup) -> None:
    """The minimum, in units, that must be placed at once is more than the queue or the cluster holds even when empty."""
    size = lookup.cluster_size()
    if size is not None:
        total = {name: size.total.get(name, 0) for name in minimum}
        _warn(findings, path, minimum, total, "all nodes together have")
    start = lookup.queue(queue)
    for owner in [start, *ancestors(start, lookup)] if start else []:
        whose = f"the capability of queue {owner.metadata.name!r} is"
        _warn(findings, path, minimum, owner.spec.capability, whose, "" if owner is start else IN_TREES)


def _warn(
    findings: Findings, path: str, minimum: Mapping[str, int], limits: ResourceList, whose: str, where: str = ""
) -> None:
    for name, amount in minimum.items():
        if name in limits and amount > units(name, limits[name]):
            findings.warn(
                path,
                f"at least {quantity_text(name, amount)} {name} must start at once, but {whose} {limits[name]}: it will wait{where}",
            )

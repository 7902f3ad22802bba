"""Who uses what: the view of a cluster as rows by queue, user and job, of one resource. The names here are what `-o json` prints.

Numbers are units of the resource: cards, cores, bytes. A share is of all that the nodes have.
"""

from __future__ import annotations

import collections
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from pumice.api import names
from pumice.api.meta import Struct
from pumice.cluster import amounts
from pumice.errors import NotFound
from pumice.readmodel import model
from pumice.scheduling.core.gpu_use import gpus_of
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

GPU_SUFFIX = "/gpu"
NO_PRICES: Mapping[str, float] = MappingProxyType({})
_BYTES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def _said(description: str) -> Meta:
    return Meta(description=description)


HELD = _said("held, in units of the resource")
SHARE = _said("part of all that the nodes have, 0 to 1")
RUNNING = _said("gangs that run")
WAITING = _said("gangs that wait")


class QueueUsage(Struct, omit_defaults=False):
    """A queue, with what the queues below it hold."""

    name: str
    parent: str
    state: str
    weight: int
    held: Annotated[float, HELD]
    share: Annotated[float, SHARE]
    deserved: Annotated[
        float | None, _said("what it deserves under the policy in force; null: the policy gives no shares")
    ]
    guarantee: Annotated[float | None, _said("what is kept for it, as written; null: nothing of this resource")]
    borrowed: Annotated[float, _said("held beyond deserved")]
    limit: Annotated[float | None, _said("the most that it may hold now; null: the policy sets no limit")]
    left: Annotated[float, _said("what its gangs may still start, by the rules of sharing")]
    running: Annotated[int, RUNNING]
    waiting: Annotated[int, WAITING]


class UserUsage(Struct, omit_defaults=False):
    """A user, over all queues."""

    name: Annotated[str, _said("who submitted, as admission recorded it; else the namespace")]
    held: Annotated[float, HELD]
    share: Annotated[float, SHARE]
    running: Annotated[int, RUNNING]
    waiting: Annotated[int, WAITING]
    queues: Annotated[tuple[str, ...], _said("the queues that its gangs are in")]


class JobUsage(Struct, omit_defaults=False):
    """A gang that holds something or waits."""

    name: Annotated[str, _said("of its Job, where it has one; else of its PodGroup")]
    namespace: str
    gang: Annotated[str, _said("namespace/name of the PodGroup")]
    user: str
    queue: str
    phase: Annotated[str, _said("of the PodGroup")]
    held: Annotated[float, HELD]
    share: Annotated[float, SHARE]
    asks: Annotated[float, _said("its minimum, as admission counts it")]
    running: Annotated[int, _said("pods that run")]
    waiting: Annotated[int, _said("pods that wait")]
    position: Annotated[int, _said("place in its queue, from 1; 0: it does not wait")]
    created: Annotated[str, _said("time, RFC 3339")]
    gpu_percent: Annotated[float | None, _said("what it uses of its GPUs, the mean; null: not measured")]
    gpu_memory_mib: Annotated[int | None, _said("memory of its GPUs that is in use; null: not measured")]
    idle: Annotated[bool, _said("it has used less than 5 % of its GPUs for ten minutes")]
    dollars_per_hour: Annotated[
        float | None, _said("what the GPUs that it holds cost, at the prices given; null: no price is known")
    ]


class Others(Struct, omit_defaults=False):
    """What is used beside the users and jobs that are listed."""

    gangs: Annotated[float, _said("held by gangs that the asker may not see, or did not ask for")]
    pods: Annotated[float, _said("held by pods of no queue, such as other schedulers'")]


class Usage(Struct, omit_defaults=False):
    """What `pumice top` shows; `--by` leaves out two of the three lists."""

    resource: Annotated[str, _said("what is counted: cards, cores, or bytes")]
    total: Annotated[float, _said("on all nodes")]
    used: Annotated[float, _said("by all pods")]
    free: Annotated[float, _said("by none")]
    source: Annotated[str, _said("leader, or listing where no leader answers or a policy file is given")]
    at: Annotated[str, _said("time of the cycle, RFC 3339")]
    namespace: Annotated[str, _said("whose users and jobs are listed; empty: of all")]
    policy: Annotated[str, _said("file of the policy, or `built-in policy`")]
    queues: tuple[QueueUsage, ...]
    users: tuple[UserUsage, ...]
    jobs: tuple[JobUsage, ...]
    others: Others


class QueueShare(Struct, omit_defaults=False):
    """`share` of a queue that `pumice queue list`, `get` and `view` print, beside the object as it stands in the API server."""

    used: Annotated[model.Amounts, _said("held, with what the queues below it hold; a quantity for each resource")]
    deserved: Annotated[
        model.Amounts, _said("what it deserves under the policy in force; empty: the policy gives no shares")
    ]
    borrowed: Annotated[model.Amounts, _said("used beyond deserved")]
    limit: Annotated[model.Amounts, _said("the most that it may hold now; a resource that is not named has no limit")]
    left: Annotated[model.Amounts, _said("what its gangs may still start, by the rules of sharing")]
    running: Annotated[int, RUNNING]
    waiting: Annotated[int, WAITING]


class ResourceTotal(Value):
    """One resource, and how much of it all nodes have; reads it out of amounts by name."""

    resource: str
    total: float

    def number(self, values: Mapping[str, str]) -> float:
        return self.optional(values) or 0

    def optional(self, values: Mapping[str, str]) -> float | None:
        """None where the resource is not named."""
        text = values.get(self.resource)
        return None if text is None else _units(self.resource, amounts.amount(self.resource, text))

    def share(self, held: float) -> float:
        return round(held / self.total, 4) if self.total else 0.0


def _units(name: str, value: float) -> float:
    """As `amounts.units`, and whole numbers where they are."""
    number = amounts.units(name, value)
    return int(number) if number == int(number) else number


def number(value: float | None) -> str:
    """At most two digits behind the point; `-` where there is none."""
    return "-" if value is None else f"{value:.2f}".rstrip("0").rstrip(".")


def shown(resource: str, value: float | None) -> str:
    """A number of units as tables show it; bytes in the largest unit of which there is one."""
    if value is None or not amounts.in_bytes(resource):
        return number(value)
    power = max(min(int(value).bit_length() - 1, 60) // 10, 0) if value >= 1 else 0
    return f"{number(round(value / 2 ** (10 * power), 1))}{_BYTES[power]}"


def quantity_text(name: str, quantity: str) -> str:
    """A quantity as tables show it."""
    return quantity if quantity == "-" else shown(name, _units(name, amounts.amount(name, quantity)))


def share_of(queue: model.Queue) -> dict[str, Any]:
    """What is added to a listed queue."""
    share = QueueShare(
        used=queue.allocated,
        deserved=queue.entitled,
        borrowed=queue.borrowed,
        limit=queue.limit,
        left=queue.left,
        running=queue.running,
        waiting=queue.waiting,
    )
    found: dict[str, Any] = msgspec.to_builtins(share)
    return found


def resource_of(totals: model.Totals, wanted: str = "") -> ResourceTotal:
    """The resource that is wanted, else the GPU that there is most of, else memory of shared GPUs, else cpu."""
    have = amounts.read(totals.allocatable)
    if wanted and not have.get(wanted):
        known = ", ".join(sorted(name for name, value in have.items() if value)) or "nothing at all"
        raise NotFound(f"--resource {wanted}: no node has any; the nodes have {known}")
    gpus = [name for name, value in have.items() if name.endswith(GPU_SUFFIX) and value]
    otherwise = names.VGPU_MEMORY if have.get(names.VGPU_MEMORY) else amounts.CPU
    name = wanted or max(gpus, key=lambda each: (have[each], each), default=otherwise)
    return ResourceTotal(name, _units(name, have.get(name, 0)))


def queue_usage(queue: model.Queue, of: ResourceTotal) -> QueueUsage:
    held = of.number(queue.allocated)
    return QueueUsage(
        name=queue.name,
        parent=queue.parent,
        state=queue.state,
        weight=queue.weight,
        held=held,
        share=of.share(held),
        deserved=of.optional(queue.entitled) if queue.entitled else None,
        guarantee=of.optional(queue.guarantee),
        borrowed=of.number(queue.borrowed),
        limit=of.optional(queue.limit),
        left=of.number(queue.left),
        running=queue.running,
        waiting=queue.waiting,
    )


def usage(
    state: model.State,
    source: str,
    *,
    resource: str = "",
    queue: str = "",
    user: str = "",
    namespace: str = "",
    prices: Mapping[str, float] = NO_PRICES,
) -> Usage:
    """Rows by queue, user and job, the largest first; `queue` and `user` leave out all others."""
    of = resource_of(state.totals, resource)
    gangs = [
        each
        for each in state.gangs
        if queue in {"", each.queue} and user in {"", each.user} and namespace in {"", each.namespace}
    ]
    used = of.number(state.totals.used)
    top = _top(state)
    seen = sum(of.number(each.holds) for each in state.gangs if namespace in {"", each.namespace})
    return Usage(
        resource=of.resource,
        total=of.total,
        used=used,
        free=max(of.total - used, 0),
        source=source,
        at=state.at,
        namespace=state.namespace or namespace,
        policy=state.policy.source,
        queues=tuple(sorted((queue_usage(each, of) for each in state.queues if queue in {"", each.name}), key=_rank)),
        users=tuple(sorted(_users(gangs, of), key=_rank)),
        jobs=tuple(
            sorted(_jobs(gangs, of, prices), key=lambda each: (-each.held, each.queue, each.position, each.gang))
        ),
        others=Others(
            gangs=max(sum(of.number(each.allocated) for each in top) - seen, 0),
            pods=max(used - sum(of.number(each.allocated) for each in top), 0),
        ),
    )


def _top(state: model.State) -> list[model.Queue]:
    """Queues that are below no other one: together they hold what all queues hold."""
    names = {each.name for each in state.queues}
    return [each for each in state.queues if each.parent not in names]


def _rank(row: QueueUsage | UserUsage) -> tuple[float, str]:
    return -row.held, row.name


def _users(gangs: Iterable[model.Gang], of: ResourceTotal) -> Iterable[UserUsage]:
    own: dict[str, list[model.Gang]] = collections.defaultdict(list)
    for gang in gangs:
        own[gang.user].append(gang)
    for name, theirs in own.items():
        held = sum(of.number(each.holds) for each in theirs)
        yield UserUsage(
            name=name,
            held=held,
            share=of.share(held),
            running=sum(each.phase == "Running" for each in theirs),
            waiting=sum(bool(each.position) for each in theirs),
            queues=tuple(sorted({each.queue for each in theirs})),
        )


def _dollars(gang: model.Gang, prices: Mapping[str, float]) -> float | None:
    """Of the GPUs that a gang holds, however they are counted."""
    costs = [
        value / amounts.MILLI * prices[name]
        for name, value in gpus_of(amounts.read(gang.holds)).items()
        if name in prices
    ]
    return round(sum(costs), 2) if costs else None


def _jobs(gangs: Iterable[model.Gang], of: ResourceTotal, prices: Mapping[str, float]) -> Iterable[JobUsage]:
    for gang in gangs:
        held, use = of.number(gang.holds), gang.gpu_use
        if not gang.holds and not gang.position:
            continue
        yield JobUsage(
            name=gang.job or gang.name,
            namespace=gang.namespace,
            gang=gang.key,
            user=gang.user,
            queue=gang.queue,
            phase=gang.phase,
            held=held,
            share=of.share(held),
            asks=of.number(gang.asks),
            running=gang.members.running,
            waiting=gang.members.waiting,
            position=gang.position,
            created=gang.created,
            gpu_percent=use.percent if use is not None else None,
            gpu_memory_mib=use.memory_mib if use is not None else None,
            idle=use is not None and use.idle,
            dollars_per_hour=_dollars(gang, prices),
        )


def idle(found: Usage) -> Usage:
    """Only jobs that hold GPUs for nothing, the most expensive first."""
    jobs = [each for each in found.jobs if each.idle]
    return msgspec.structs.replace(
        found, jobs=tuple(sorted(jobs, key=lambda each: (-(each.dollars_per_hour or 0), -each.held, each.gang)))
    )


def data(found: Usage, by: str = "") -> dict[str, Any]:
    """As JSON prints it; `by` leaves out the other two tables."""
    whole: dict[str, Any] = msgspec.to_builtins(found)
    left_out = {"queue": ("users", "jobs"), "user": ("queues", "jobs"), "job": ("queues", "users")}.get(by, ())
    return {name: value for name, value in whole.items() if name not in left_out}

"""Quotas of devices that pods get through resource claims: a queue's `deviceclass/<class>` and `<dimension>.deviceclass/<class>`.

The first counts devices of a class, the second sums up a dimension of devices that claims share (memory, say). A claim that
several pods use is charged once to each queue on their path. Amounts are in thousandths, like those of other named resources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.cluster import amounts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pumice.api.resource import DeviceRequest, DeviceSubRequest, ResourceClaim
    from pumice.cluster.amounts import Amounts, MutableAmounts
    from pumice.cluster.queues import QueueInfo
    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.gangstate import GangState

_CLASS = "deviceclass/"


def device_limits(queue: QueueInfo) -> dict[str, float]:
    """The part of a queue's capability that limits devices."""
    return {name: value for name, value in queue.capability.items() if name.startswith(_CLASS) or f".{_CLASS}" in name}


class Claims:
    """The resource claims of one cycle: which ones a pod uses, and what each asks for."""

    def __init__(self, claims: Mapping[str, ResourceClaim]) -> None:
        self._claims = claims
        self._demands: dict[str, Amounts] = {}

    def of(self, task: Task) -> tuple[str, ...]:
        """Keys of the claims that exist for the pod: named in its spec, or made for it from a template."""
        used = task.pod.spec.resource_claims
        if not used:
            return ()
        made = {status.name: status.resource_claim_name for status in task.pod.status.resource_claim_statuses}
        names = (claim.resource_claim_name or made.get(claim.name) for claim in used)
        keys = {f"{task.namespace}/{name}" for name in names if name}
        return tuple(sorted(key for key in keys if key in self._claims))

    def demand(self, key: str) -> Amounts:
        if key not in self._demands:
            self._demands[key] = _demand(self._claims[key])
        return self._demands[key]

    def total(self, keys: Iterable[str]) -> MutableAmounts:
        return amounts.sum_of(self.demand(key) for key in keys)

    def of_minimum(self, gang: GangState) -> set[str]:
        """Claims of as many members as the gang needs to start: of each role its minimum, else the first ones by name."""
        with_claims = sorted((task for task in gang.tasks if self.of(task)), key=lambda task: (task.name, task.uid))
        minimums = gang.spec.role_minimums
        if minimums:
            needed = [
                task
                for role, least in minimums.items()
                for task in [each for each in with_claims if each.role == role][:least]
            ]
        else:
            needed = with_claims[: gang.spec.min_member]
        return {key for task in needed for key in self.of(task)}


class DeviceAccount:
    """What one queue holds of devices, and how much it may."""

    def __init__(self, limits: Amounts, claims: Claims, *, dimensions: bool) -> None:
        self.limits = limits
        self.claims = claims
        self.dimensions = dimensions  # whether shared devices' dimensions count as well as their number
        self.classes = {name.partition(_CLASS)[2] for name in limits}
        self.allocated: MutableAmounts = {}
        self.admitted: MutableAmounts = {}
        self._users: dict[str, int] = {}  # claim -> pods that use it

    def move(self, keys: Sequence[str], pods: int) -> None:
        """Pods come (a positive number) or go; the first user of a claim pays for it, the last one gives it back."""
        for key in keys:
            before = self._users.get(key, 0)
            after = self._users[key] = before + pods
            if bool(before) != bool(after):
                amounts.add(self.allocated, self.claims.demand(key), 1 if after else -1)

    def promise(self, keys: Iterable[str]) -> None:
        """A gang is admitted that waits for these claims; those that the queue pays for already are counted as such."""
        amounts.add(self.admitted, self.claims.total(key for key in keys if not self._users.get(key)))

    def lacking(self, keys: Iterable[str], *, with_admitted: bool = False) -> list[str]:
        """The limits that these claims would break, leaving out those that the queue pays for already."""
        asked = self.claims.total(key for key in keys if not self._users.get(key))
        held = amounts.sum_of([self.allocated, self.admitted]) if with_admitted else self.allocated
        return sorted(name for name, value in asked.items() if self._exceeds(name, held.get(name, 0) + value))

    def _exceeds(self, name: str, wanted: float) -> bool:
        if name.partition(_CLASS)[2] not in self.classes:
            return False  # a class that the queue does not mention is not limited
        limit = self.limits.get(name, 0)
        if name.startswith(_CLASS):
            return 0 < limit < wanted  # a zero means "not set" (Volcano parity)
        return self.dimensions and wanted > limit


def _demand(claim: ResourceClaim) -> MutableAmounts:
    allocation = claim.status.allocation
    given = [] if allocation is None else [result.request for result in allocation.devices.results]
    demand: MutableAmounts = {}
    for request in claim.spec.devices.requests:
        chosen, count = _chosen_request(request, given)
        if chosen is None:
            continue
        amounts.add(demand, {f"{_CLASS}{chosen.device_class_name}": amounts.MILLI}, count)
        for dimension, quantity in chosen.capacity.requests.items():
            name = f"{dimension}.{_CLASS}{chosen.device_class_name}"
            amounts.add(demand, {name: amounts.amount(name, quantity)}, count)
    return demand


def _chosen_request(request: DeviceRequest, given: Sequence[str]) -> tuple[DeviceSubRequest | None, int]:
    """What the request became, and of how many devices; before it is met, its first wish and the number written there."""
    if request.exactly is not None:
        return request.exactly, given.count(request.name) or request.exactly.count
    for wish in request.first_available:
        count = given.count(f"{request.name}/{wish.name}")
        if count:
            return wish, count
    if not request.first_available:
        return None, 0
    return request.first_available[0], request.first_available[0].count

"""Resource claims of pods: devices are chosen together with the node, and reserved until the placement is undone.

A claim that was made for one pod alone is its own affair: equal pods ask for equal devices, and a node takes as many of them as
it has devices for. A claim that several pods may share is decided by the first of them, and the others follow.
"""

from __future__ import annotations

import collections
import functools
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from pumice.api import names
from pumice.api.decoding import UNREADABLE
from pumice.cluster.matching import compile_terms
from pumice.cluster.tasks import ON_A_NODE, Status
from pumice.scheduling.core.codes import Code, Facts
from pumice.scheduling.core.decisions import DeviceChoice
from pumice.scheduling.core.points import Reach, Shared
from pumice.scheduling.core.verdict import Cure, Denial, Reason
from pumice.scheduling.placing.constraints.allocation import Given, Search, parent_of
from pumice.scheduling.placing.constraints.devices import EVERYWHERE, PLUGIN, DeviceId, Inventory, Offered, Wish
from pumice.scheduling.placing.constraints.labels import NodeLabels

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from pumice.api.resource import ResourceClaim
    from pumice.cluster.columns import Column, Mask
    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape
    from pumice.scheduling.placing.constraints.devices import Ask

CONSUMERS_MAX = 256  # pods that may use one claim, by the API


class PodClaims:
    """Filters and reservations of devices; one for all plugins of a session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._labels = session.shared(NodeLabels)
        self._size = len(session.room.table)
        self._claims: dict[Shape, list[ResourceClaim]] = {}
        self._countable: dict[Shape, bool] = {}
        self._room: dict[Shape, Column] = {}  # how many such pods each node has devices for; negative: to be found out
        self._loaded = False
        self._taken: dict[DeviceId, int] = {}
        self._left: dict[tuple[str, str, str, str], int] = {}
        self._given: dict[str, tuple[list[Given], int]] = {}  # claim -> devices and node, by this session
        self._decided_by: dict[str, list[str]] = {}  # pod -> claims
        session.on.moved(self.moved)

    @property
    def _inventory(self) -> Inventory:
        return self._session.shared(Inventory)

    def _load(self) -> None:
        """Look at devices only once a pod asks for some."""
        if not self._loaded:
            self._loaded = True
            self._left = dict(self._inventory.counters)
            for offered in self._inventory.in_use():
                self._mark(offered, 1)
            self._remember()

    def _remember(self) -> None:
        """What earlier cycles chose for pods that are still being bound, and that their claims may not show yet."""
        index = self._session.room.table.index
        for task in self._as_of_the_snapshot(Status.BINDING):
            chosen = _annotated_devices(task)
            for claim in self._open(self._claims_of(task)) if chosen and task.node in index else ():
                written = chosen.get(claim.metadata.name, [])
                offers = [(self._inventory.by_id.get((each[1], each[2], each[3])), each) for each in written]
                given = [Given(each[0], offered, each[4]) for offered, each in offers if offered is not None]
                self._given[claim.metadata.key] = (given, index[task.node])
                for one in given:
                    if not one.only_looks:
                        self._mark(one.offered, 1)

    def _as_of_the_snapshot(self, status: Status) -> Iterator[Task]:
        """Devices may be asked for first where a plan tries out who could leave: what is being bound is so all the same."""
        return (task for gang in self._session.restless for task in gang.tasks if task.status is status)

    # ------------------------------------------------------------------------------------------------- shapes

    def trait(self, task: Task) -> Hashable:
        """Pods are alike if they use the same claims, or claims of their own that ask alike."""
        if not task.pod.spec.resource_claims:
            return None
        found: list[Hashable] = []
        for key in claim_keys(task):
            claim = self._inventory.claim(key) if key is not None else None
            if claim is not None and claim.status.allocation is None and _is_own(claim, task):
                found.append(self._inventory.wish(claim))
            else:
                found.append(key or task.uid)
        return tuple(found)

    def _of(self, shape: Shape) -> list[ResourceClaim]:
        found = self._claims.get(shape)
        if found is None:
            found = self._claims[shape] = self._claims_of(shape.example)
        return found

    def _claims_of(self, task: Task) -> list[ResourceClaim]:
        claims = (self._inventory.claim(key) for key in claim_keys(task) if key)
        return [claim for claim in claims if claim is not None]

    def _open(self, claims: Sequence[ResourceClaim]) -> list[ResourceClaim]:
        """Those without devices so far."""
        return [each for each in claims if each.status.allocation is None and each.metadata.key not in self._given]

    def _open_for(self, shape: Shape) -> list[ResourceClaim]:
        """Claims that the next pod of the shape brings without devices: shared ones that are open, and its own in any case."""
        return [
            each
            for each in self._of(shape)
            if each.status.allocation is None and (_is_own(each, shape.example) or each.metadata.key not in self._given)
        ]

    def _is_countable(self, shape: Shape) -> bool:
        """Whether a node's free devices, divided by what a pod asks for, say how many such pods it takes."""
        countable = self._countable.get(shape)
        if countable is None:
            countable = self._countable[shape] = self._count_devices(shape)
        return countable

    def _count_devices(self, shape: Shape) -> bool:
        """All of the pod's open claims are its own and ask for a number of equal devices, each of one node and no part of a card."""
        claims = [each for each in self._of(shape) if each.status.allocation is None]
        wishes = self._wishes(claims)
        asks = [ask for wish in wishes for request in wish.requests for ask in request]
        return (
            bool(asks)
            and all(_is_own(each, shape.example) for each in claims)
            and not any(wish.constraints for wish in wishes)
            and all(len(request) == 1 for wish in wishes for request in wish.requests)
            and all(ask.count and not ask.only_looks and _alike(ask, asks[0]) for ask in asks)
            and not any(ask.matches(offered) for ask in asks[:1] for offered in self._inventory.shared)
        )

    # ------------------------------------------------------------------------------------------------- filters

    def stuck(self, shape: Shape) -> Reason | None:
        """Why the pod cannot run anywhere yet."""
        task = shape.example
        if not task.pod.spec.resource_claims:
            return None
        for key in claim_keys(task):
            if key is None:
                return Reason(Code.DEVICE_CLAIM_AWAITED, PLUGIN, Facts(pod=task.key), cure=Cure.WAITING)
            claim = self._inventory.claim(key)
            if claim is None:
                return Reason(Code.DEVICE_CLAIM_MISSING, PLUGIN, Facts(name=key))
            obstacle = self._obstacle(claim, task)
            if obstacle is not None:
                return obstacle
        return None

    def _obstacle(self, claim: ResourceClaim, task: Task) -> Reason | None:
        users, facts = claim.status.reserved_for, Facts(name=claim.metadata.key)
        if claim.metadata.deletion_timestamp is not None:
            return Reason(Code.DEVICE_CLAIM_DELETED, PLUGIN, facts)
        if claim.status.allocation is None:
            wish = self._inventory.wish(claim)
            return wish if isinstance(wish, Reason) else None
        is_user = any(each.uid == task.uid for each in users)
        is_full = len(users) >= CONSUMERS_MAX and not is_user
        return Reason(Code.DEVICE_CLAIM_FULL, PLUGIN, facts) if is_full else None

    def elsewhere(self, plugin: str, shape: Shape) -> list[Denial]:
        """Nodes from which devices that were allocated earlier cannot be used."""
        found = []
        for claim in self._of(shape) if shape.example.pod.spec.resource_claims else ():
            allocation = claim.status.allocation
            if allocation is not None and allocation.node_selector is not None:
                selected = self._labels.selected(compile_terms(allocation.node_selector))
                found.append(Denial(Code.DEVICES_ELSEWHERE, plugin, ~selected))
        return found

    def shared(self, task: Task) -> list[Shared]:
        """Claims without devices that others may use, too: these are of one node, unless there are such as several nodes can use."""
        if not task.pod.spec.resource_claims or self._inventory.roaming:
            return []
        self._load()
        there = [Reach(np.ones(self._size, dtype=bool), None)]
        keys = [each.metadata.key for each in self._open(self._claims_of(task))]
        return [Shared(key, lambda: there) for key in keys if self._sharers[key] > 1]

    @functools.cached_property
    def _sharers(self) -> collections.Counter[str | None]:
        """How many pods that wait use each claim."""
        return collections.Counter(key for task in self._as_of_the_snapshot(Status.PENDING) for key in claim_keys(task))

    def room(self, shape: Shape) -> Column | None:
        """How many such pods each node has devices for; None for pods whose devices are settled, or cannot be counted."""
        if not shape.example.pod.spec.resource_claims or not self._is_countable(shape):
            return None
        return self._enough(shape) if self._open_for(shape) else None

    def is_searched(self, shape: Shape) -> bool:
        """Whether devices have to be found for each such pod anew."""
        return bool(shape.example.pod.spec.resource_claims) and not self._is_countable(shape)

    def lacking(self, plugin: str, shape: Shape) -> list[Denial]:
        """Nodes that lack devices for the pod's open claims; those decided meanwhile bind the rest."""
        self._load()
        reachable = np.ones(self._size, dtype=bool)
        for claim in self._of(shape):
            if claim.metadata.key in self._given and not _is_own(claim, shape.example):
                reachable &= self._usable_from(*self._given[claim.metadata.key])
        enough = np.ones(self._size, dtype=bool)
        if self._open_for(shape):
            self._room.pop(shape, None)  # which claims are open may have changed
            enough = self._enough(shape) > 0
        return [
            Denial(Code.DEVICES_ELSEWHERE, plugin, ~reachable),
            Denial(Code.DEVICES_MISSING, plugin, reachable & ~enough),
        ]

    def _usable_from(self, given: Sequence[Given], node: int) -> Mask:
        mask = np.ones(self._size, dtype=bool)
        for each in given:
            if each.offered.nodes is not None:
                mask &= each.offered.nodes
            elif each.offered.node != EVERYWHERE:
                mask &= np.arange(self._size) == node
        return mask

    def _enough(self, shape: Shape) -> Column:
        self._load()
        room = self._room.get(shape)
        if room is None:
            room = self._room[shape] = np.full(self._size, -1, dtype=np.int64)
        unknown = np.flatnonzero(room < 0)
        if len(unknown):
            wishes = self._wishes(self._open_for(shape))
            countable = self._is_countable(shape)
            for node in unknown.tolist():
                devices = list(self._inventory.within_reach(node))
                if countable:
                    room[node] = self._copies(wishes, devices)
                else:
                    room[node] = self._search(devices).find(wishes) is not None
        return room

    def _wishes(self, claims: Sequence[ResourceClaim]) -> list[Wish]:
        return [wish for claim in claims if isinstance(wish := self._inventory.wish(claim), Wish)]

    def _copies(self, wishes: Sequence[Wish], devices: Sequence[Offered]) -> int:
        """How many times countable wishes can be met."""
        asks = [ask for wish in wishes for request in wish.requests for ask in request]
        free = sum(not self._taken.get(offered.id) and asks[0].matches(offered) for offered in devices)
        return free // sum(ask.count for ask in asks)

    def _search(self, devices: Sequence[Offered]) -> Search:
        return Search(devices, lambda identity: bool(self._taken.get(identity)), self._left)

    # ------------------------------------------------------------------------------------------------- reservations

    def moved(self, gang: GangState, shape: Shape, tasks: Sequence[Task], nodes: Sequence[int], sign: int) -> None:
        del gang
        if not shape.example.pod.spec.resource_claims:
            return
        for task, node in zip(tasks, nodes, strict=True):
            if task.status in ON_A_NODE:
                continue  # an evicted pod keeps its devices until it is gone and its claim with it
            if sign > 0:
                self._reserve(task, node)
            else:
                self._release(task)

    def _reserve(self, task: Task, node: int) -> None:
        claims = self._open(self._claims_of(task))
        if not claims:
            return
        self._load()
        found = self._search(list(self._inventory.within_reach(node))).find(self._wishes(claims))
        # Of room that is held from an earlier cycle a gang of higher rank may have taken the devices since.
        if found is None:
            return
        for claim, given in zip(claims, found, strict=True):
            self._given[claim.metadata.key] = (given, node)
            for each in given:
                if not each.only_looks:
                    self._mark(each.offered, 1)
        self._decided_by[task.uid] = [claim.metadata.key for claim in claims]

    def _release(self, task: Task) -> None:
        for key in self._decided_by.pop(task.uid, ()):
            for each in self._given.pop(key)[0]:
                if not each.only_looks:
                    self._mark(each.offered, -1)

    def _mark(self, offered: Offered, sign: int) -> None:
        """Count a device as taken or free, and forget what was found out about the nodes that could use it."""
        self._taken[offered.id] = self._taken.get(offered.id, 0) + sign
        for key, amount in offered.takes.items():
            self._left[key] = self._left.get(key, 0) - sign * amount
        where: Any = offered.node if offered.node != EVERYWHERE else offered.nodes
        for column in self._room.values():
            column[where] = -1

    def choices(self, task: Task) -> list[DeviceChoice]:
        """What has to be written into the pod's claims before it is bound: devices, or only that the pod uses them."""
        found = []
        for claim in self._claims_of(task) if task.pod.spec.resource_claims else ():
            key = claim.metadata.key
            if key in self._given:
                given, node = self._given[key]
                wish = self._inventory.wish(claim)
                assert isinstance(wish, Wish)
                found.append(DeviceChoice(key, allocation_json(wish, given, self._session.room.table.names[node])))
            else:
                found.append(DeviceChoice(key, None))
        return found

    def notes(self, task: Task) -> dict[str, str]:
        """The devices as an annotation: the next cycle reads it from the pod that is being bound."""
        chosen = {
            key.partition("/")[2]: [(each.request, *each.offered.id, each.only_looks) for each in self._given[key][0]]
            for key in (claim_keys(task) if task.pod.spec.resource_claims else ())
            if key in self._given
        }
        return {names.DEVICES: msgspec.json.encode(chosen, order="sorted").decode()} if chosen else {}


def _annotated_devices(task: Task) -> dict[str, list[tuple[str, str, str, str, bool]]]:
    """Claim -> devices by the pod's annotation; any user may write one, so it may be anything."""
    text = task.pod.metadata.annotations.get(names.DEVICES, "{}")
    try:
        return msgspec.json.decode(text, type=dict[str, list[tuple[str, str, str, str, bool]]])
    except UNREADABLE:
        return {}


def claim_keys(task: Task) -> list[str | None]:
    """The pod's claims, each once; None for those that are still to be made from their templates. A template may come to nothing at all."""
    made = {status.name: status.resource_claim_name for status in task.pod.status.resource_claim_statuses}
    found: list[str | None] = []
    for each in task.pod.spec.resource_claims:
        if each.resource_claim_name is not None:
            found.append(f"{task.namespace}/{each.resource_claim_name}")
        elif each.name not in made:
            found.append(None)
        elif made[each.name] is not None:
            found.append(f"{task.namespace}/{made[each.name]}")
    return list(dict.fromkeys(found))  # a pod may name one claim twice


def _is_own(claim: ResourceClaim, task: Task) -> bool:
    """Made from a template for this pod."""
    return any(owner.uid == task.uid and owner.kind == "Pod" for owner in claim.metadata.owner_references)


def _alike(one: Ask, other: Ask) -> bool:
    return one.selectors == other.selectors and one.tolerations == other.tolerations


def allocation_json(wish: Wish, given: Sequence[Given], node: str) -> dict[str, Any]:
    """The allocation as it is written into the claim's status."""
    results = [
        {
            "request": each.request,
            **dict(zip(("driver", "pool", "device"), each.offered.id, strict=True)),
            **({"adminAccess": True} if each.only_looks else {}),
        }
        for each in given
    ]
    asked = {name for each in given for name in (each.request, parent_of(each.request))}
    config = [each for each in wish.config if not each["requests"] or asked & set(each["requests"])]
    allocation: dict[str, Any] = {"devices": {"results": results, **({"config": config} if config else {})}}
    if any(each.offered.node != EVERYWHERE for each in given):
        named = {"key": "metadata.name", "operator": "In", "values": [node]}
        allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [named]}]}
    else:
        expressions = [
            {"key": expression.key, "operator": expression.operator, "values": list(expression.values)}
            for each in given
            if each.offered.selector is not None
            for term in each.offered.selector.node_selector_terms
            for expression in term.match_expressions
        ]
        if expressions:
            allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchExpressions": expressions}]}
    return allocation

"""Devices that nodes offer (ResourceSlices) and what claims ask of them: which device is where, free, and good enough.

The newest generation of a pool counts, and only if all of its slices are there. A device belongs to one node, or to all nodes
that a selector names, as network-attached ones do.
"""

from __future__ import annotations

import collections
import contextlib
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from pumice import cel, quantity
from pumice.api.resource import DeviceClass, ResourceClaim, ResourceSlice
from pumice.api.tolerations import NO_EXECUTE, NO_SCHEDULE, tolerates
from pumice.cluster.matching import compile_terms
from pumice.scheduling.core.codes import Code, Facts
from pumice.scheduling.core.verdict import Reason
from pumice.scheduling.placing.constraints import device_cel
from pumice.scheduling.placing.constraints.labels import NodeLabels
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pumice.api.pods import NodeSelector, Toleration
    from pumice.api.resource import Device, DeviceClaim, DeviceConstraint, DeviceSubRequest
    from pumice.cluster.columns import Mask
    from pumice.scheduling.core.session import Session

PLUGIN = "predicates"  # under this name reasons are counted
ALL = "All"
EVERYWHERE = -1  # the node of a device that several nodes can use

DeviceId = tuple[str, str, str]  # driver, pool, name


class Offered(Value, eq=False):
    """One device: which nodes can use it, and what it takes of counters that others share."""

    id: DeviceId
    device: Device
    node: int
    nodes: Mask | None  # for one that several nodes can use
    selector: NodeSelector | None
    takes: Mapping[tuple[str, str, str, str], int]  # (driver, pool, set, counter) -> thousandths


class Ask(Value, eq=False):
    """Devices of one kind: the class's selectors and the request's own."""

    name: str
    selectors: tuple[device_cel.Selector, ...]
    tolerations: tuple[Toleration, ...]
    count: int  # 0: all that there are
    only_looks: bool
    matched: dict[Offered, bool] = msgspec.field(default_factory=dict)

    def matches(self, offered: Offered) -> bool:
        answer = self.matched.get(offered)
        if answer is None:
            answer = self.matched[offered] = self._judge(offered)
        return answer

    def _judge(self, offered: Offered) -> bool:
        for taint in offered.device.taints:
            if taint.effect in {NO_SCHEDULE, NO_EXECUTE} and not any(
                tolerates(each, taint) for each in self.tolerations
            ):
                return False
        return all(selector.selects(offered.id[0], offered.device) for selector in self.selectors)


class Wish(Value, eq=False):
    """One claim's requests, each with its alternatives in order of preference, and what their devices must have in common."""

    requests: tuple[tuple[Ask, ...], ...]
    constraints: tuple[DeviceConstraint, ...]
    config: tuple[Any, ...]  # for the drivers, as it is written into the allocation


class Inventory:
    """All devices by node, and the wishes of claims; answers do not change within a cycle."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._labels = session.shared(NodeLabels)
        self._classes = session.snapshot.objects(DeviceClass)
        self._claims = session.snapshot.objects(ResourceClaim)
        self._wishes: dict[bytes, Wish | Reason] = {}
        self.on_node: dict[int, list[Offered]] = collections.defaultdict(list)
        self.roaming: list[Offered] = []
        self.shared: list[Offered] = []  # those that several nodes can use, and those that are parts of one card
        self.counters: dict[tuple[str, str, str, str], int] = {}
        self.by_id: dict[DeviceId, Offered] = {}
        for driver, slices in self._pools():
            # Whoever wrote such a slice must not cost others their devices.
            with contextlib.suppress(quantity.QuantityError):
                self._offer(driver, slices)

    def claim(self, key: str) -> ResourceClaim | None:
        return self._claims.get(key)

    def within_reach(self, node: int) -> Iterator[Offered]:
        yield from self.on_node.get(node, ())
        for offered in self.roaming:
            if offered.nodes is not None and offered.nodes[node]:
                yield offered

    def in_use(self) -> Iterator[Offered]:
        """Devices that claims have already; a request for admin access takes nothing."""
        for claim in self._claims.values():
            allocation = claim.status.allocation
            for result in allocation.devices.results if allocation is not None else ():
                offered = self.by_id.get((result.driver, result.pool, result.device))
                if offered is not None and not result.admin_access:
                    yield offered

    # ------------------------------------------------------------------------------------------------- slices

    def _pools(self) -> Iterator[tuple[str, list[ResourceSlice]]]:
        pools: dict[tuple[str, str], list[ResourceSlice]] = {}
        for each in self._session.snapshot.objects(ResourceSlice).values():
            pools.setdefault((each.spec.driver, each.spec.pool.name), []).append(each)
        for (driver, _), slices in sorted(pools.items()):
            newest = max(each.spec.pool.generation for each in slices)
            current = [each for each in slices if each.spec.pool.generation == newest]
            if len(current) >= current[0].spec.pool.resource_slice_count:
                yield driver, current

    def _offer(self, driver: str, slices: Sequence[ResourceSlice]) -> None:
        pool = slices[0].spec.pool.name
        for each in slices:
            for counters in each.spec.shared_counters:
                for name, counter in counters.counters.items():
                    self.counters[driver, pool, counters.name, name] = quantity.parse_milli(counter.value)
        for each in slices:
            spec = each.spec
            for device in spec.devices:
                where: Any = device if spec.per_device_node_selection else spec
                self._add((driver, pool, device.name), device, where)

    def _add(self, identity: DeviceId, device: Device, where: Any) -> None:
        """`where` is what names the nodes: the slice, or the device itself."""
        index = self._session.room.table.index
        node, nodes, selector = EVERYWHERE, None, None
        if where.node_name:
            if where.node_name not in index:
                return
            node = index[where.node_name]
        elif where.all_nodes:
            nodes = np.ones(len(index), dtype=bool)
        elif where.node_selector is not None:
            selector = where.node_selector
            nodes = self._labels.selected(compile_terms(selector))
        driver, pool, _ = identity
        takes = {
            (driver, pool, use.counter_set, name): quantity.parse_milli(counter.value)
            for use in device.consumes_counters
            for name, counter in use.counters.items()
        }
        offered = Offered(identity, device, node, nodes, selector, takes)
        self.by_id[identity] = offered
        if node == EVERYWHERE or takes:
            self.shared.append(offered)
        if node == EVERYWHERE:
            self.roaming.append(offered)
        else:
            self.on_node[node].append(offered)

    # ------------------------------------------------------------------------------------------------- wishes

    def wish(self, claim: ResourceClaim) -> Wish | Reason:
        """What the claim asks for; a Reason says why that can never be had. Claims that ask alike have the same wish."""
        key = msgspec.msgpack.encode(claim.spec.devices)
        wish = self._wishes.get(key)
        if wish is None:
            wish = self._wishes[key] = self._read(claim.spec.devices)
        return wish

    def _read(self, asked: DeviceClaim) -> Wish | Reason:
        requests = []
        config: list[Any] = []
        for request in asked.requests:
            alternatives = []
            written = [request.exactly] if request.exactly is not None else request.first_available
            for each in written:
                assert each is not None
                name = request.name if request.exactly is not None else f"{request.name}/{each.name}"
                kind = self._classes.get(each.device_class_name)
                if kind is None:
                    facts = Facts(name=name, resource=each.device_class_name)
                    return Reason(Code.DEVICE_CLASS_MISSING, PLUGIN, facts)
                try:
                    alternatives.append(_ask(name, kind, each))
                except cel.CelError as error:
                    return Reason(Code.DEVICE_SELECTOR_UNUSABLE, PLUGIN, Facts(name=name, text=str(error)))
                config += [_config("FromClass", (name,), each.opaque) for each in kind.spec.config]
            requests.append(tuple(alternatives))
        config += [_config("FromClaim", each.requests, each.opaque) for each in asked.config]
        return Wish(tuple(requests), asked.constraints, tuple(config))


def _ask(name: str, kind: DeviceClass, asked: DeviceSubRequest) -> Ask:
    selectors = [each.cel.expression for each in (*kind.spec.selectors, *asked.selectors) if each.cel is not None]
    return Ask(
        name=name,
        selectors=tuple(device_cel.compile_selector(expression) for expression in selectors),
        tolerations=asked.tolerations,
        count=0 if asked.allocation_mode == ALL else max(asked.count, 1),
        only_looks=asked.admin_access,
    )


def _config(source: str, requests: tuple[str, ...], opaque: Any) -> dict[str, Any]:
    return {"source": source, "requests": list(requests), "opaque": opaque}


def attribute(offered: Offered, name: str) -> Any:
    """The value of an attribute by its full name; None where the device has none."""
    domain, slash, local = name.partition("/")
    own = offered.device.attributes
    found = own.get(name)
    if found is None and slash and domain == offered.id[0]:
        found = own.get(local)
    return None if found is None else msgspec.structs.astuple(found)

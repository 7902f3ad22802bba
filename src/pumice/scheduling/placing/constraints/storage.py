"""What is known about volumes at the start of a cycle: which claims are bound to what, what else could be bound or provisioned.

bound       the claim has its volume: its pods go where the volume can be reached
wanting     the claim waits for its first consumer: a free volume that fits, or a new one, near the chosen node
stuck       nothing that this scheduler does can help: missing, lost, being deleted, or waiting for another component
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from pumice import quantity
from pumice.api import names
from pumice.api.core import PersistentVolume, PersistentVolumeClaim, storage_class_of
from pumice.api.meta import LabelSelector
from pumice.api.storage import CSIDriver, CSIStorageCapacity, StorageClass
from pumice.cluster.matching import compile_selector, compile_terms
from pumice.scheduling.core.codes import Code, Facts
from pumice.scheduling.core.points import Reach
from pumice.scheduling.core.verdict import Cure, Reason
from pumice.scheduling.placing.constraints.labels import ABSENT, NodeLabels
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from pumice.cluster.columns import Mask
    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.session import Session

PLUGIN = "predicates"  # under this name reasons are counted
STORAGE = "storage"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
ONE_POD_ONLY = "ReadWriteOncePod"
# A zone label of the old spelling on a volume is met by a node's label of either spelling.
ZONE_LABELS = {
    "topology.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region": "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
ZONES_SEPARATOR = "__"


class Need(Value):
    """What a claim asks of a volume; claims that ask alike are alike."""

    storage_class: str
    size: int  # bytes
    modes: frozenset[str]
    volume_mode: str
    selector: bytes  # the encoded label selector, empty for none


class Wanting(Value, eq=False):
    """A claim that waits for its first consumer."""

    key: str
    need: Need
    prebound: str  # a volume that was reserved for this very claim
    node: str  # a node that was chosen for it in an earlier cycle


class Bound(Value, eq=False):
    """A claim with its volume, which may have vanished."""

    key: str
    volume: PersistentVolume | None


class Storage:
    """Claims, volumes and classes of a snapshot; answers never change within a cycle."""

    def __init__(self, session: Session) -> None:
        snapshot = session.snapshot
        self._labels = session.shared(NodeLabels)
        self._claims = snapshot.objects(PersistentVolumeClaim)
        self._volumes = snapshot.objects(PersistentVolume)
        self._classes = snapshot.objects(StorageClass)
        self._drivers = snapshot.objects(CSIDriver)
        self._capacities = snapshot.objects(CSIStorageCapacity)
        self._states: dict[str, Bound | Wanting | Reason] = {}
        self._fitting: dict[Need, list[PersistentVolume]] = {}
        self._reach: dict[str, Mask] = {}

    # ------------------------------------------------------------------------------------------------- claims

    def claim(self, key: str) -> PersistentVolumeClaim | None:
        return self._claims.get(key)

    def volume(self, name: str) -> PersistentVolume | None:
        return self._volumes.get(name)

    def volume_of(self, key: str) -> PersistentVolume | None:
        """What the claim has, whatever becomes of it."""
        claim = self._claims.get(key)
        return self._volumes.get(claim.spec.volume_name) if claim is not None else None

    def state(self, key: str, task: Task) -> Bound | Wanting | Reason:
        """How a claim of the task stands; a Reason says what it is stuck on."""
        if task.mounts is not None and key in task.mounts.ephemeral:
            claim = self._claims.get(key)
            owner = claim.metadata.controller if claim is not None else None
            if owner is None or owner.uid != task.uid:  # that of a former pod of this name is on its way out
                facts = Facts(name=key.partition("/")[2])
                return Reason(Code.VOLUME_CLAIM_AWAITED, PLUGIN, facts, cure=Cure.WAITING)
        found = self._states.get(key)
        if found is None:
            found = self._states[key] = self._judge(key)
        return found

    def _judge(self, key: str) -> Bound | Wanting | Reason:
        """Whoever uses it."""
        claim = self._claims.get(key)
        name = key.partition("/")[2]
        if claim is None:
            return Reason(Code.VOLUME_CLAIM_MISSING, PLUGIN, Facts(name=name))
        if claim.status.phase == "Lost":
            return Reason(Code.VOLUME_CLAIM_LOST, PLUGIN, Facts(name=name, volume=claim.spec.volume_name))
        if claim.metadata.deletion_timestamp is not None:
            return Reason(Code.VOLUME_CLAIM_DELETED, PLUGIN, Facts(name=name))
        if claim.spec.volume_name and (
            names.BIND_COMPLETED in claim.metadata.annotations or claim.status.phase == "Bound"
        ):
            return Bound(key, self._volumes.get(claim.spec.volume_name))
        kind = self._classes.get(storage_class_of(claim))
        if claim.spec.volume_name or kind is None or kind.volume_binding_mode != "WaitForFirstConsumer":
            return Reason(Code.VOLUME_CLAIM_UNBOUND, PLUGIN, cure=Cure.WAITING)
        return Wanting(
            key,
            need_of(claim),
            self._reserved_for.get(key, ""),
            claim.metadata.annotations.get(names.SELECTED_NODE, ""),
        )

    @functools.cached_property
    def _reserved_for(self) -> dict[str, str]:
        """Claim -> volume that names it, before the claim has heard of it."""
        found: dict[str, str] = {}
        for name in sorted(self._volumes):
            reference = self._volumes[name].spec.claim_ref
            if reference is not None and self._volumes[name].status.phase != "Bound":
                key = f"{reference.namespace}/{reference.name}"
                claim = self._claims.get(key)
                if claim is not None and reference.uid in {"", claim.metadata.uid}:
                    found.setdefault(key, name)
        return found

    # ------------------------------------------------------------------------------------------------- volumes

    def fitting(self, need: Need) -> list[PersistentVolume]:
        """Free volumes that would do, smallest first, wherever they are."""
        found = self._fitting.get(need)
        if found is None:
            selector = (
                compile_selector(msgspec.msgpack.decode(need.selector, type=LabelSelector)) if need.selector else None
            )
            fits = [
                volume
                for volume in self._free.get(need.storage_class, ())
                if capacity_of(volume) >= need.size
                and volume.spec.volume_mode == need.volume_mode
                and need.modes <= set(volume.spec.access_modes)
                and (selector is None or selector.matches(volume.metadata.labels))
            ]
            found = self._fitting[need] = sorted(fits, key=lambda volume: (capacity_of(volume), volume.metadata.name))
        return found

    @functools.cached_property
    def _free(self) -> dict[str, list[PersistentVolume]]:
        """Volumes that no claim has, by class."""
        found: dict[str, list[PersistentVolume]] = {}
        for volume in self._volumes.values():
            is_free = volume.spec.claim_ref is None and volume.status.phase == "Available"
            if is_free and volume.metadata.deletion_timestamp is None:
                found.setdefault(volume_class_of(volume), []).append(volume)
        return found

    def has_free_volumes(self, storage_class: str) -> bool:
        return storage_class in self._free

    def serves(self, volume: PersistentVolume, need: Need) -> bool:
        """Whether a volume that is reserved for the claim is large enough, and of the right kind."""
        return (
            capacity_of(volume) >= need.size
            and volume.spec.volume_mode == need.volume_mode
            and volume_class_of(volume) == need.storage_class
            and volume.metadata.deletion_timestamp is None
        )

    def nodes_reaching(self, volume: PersistentVolume) -> Mask:
        """Nodes from which the volume can be reached by its own node affinity."""
        name = volume.metadata.name
        mask = self._reach.get(name)
        if mask is None:
            affinity = volume.spec.node_affinity
            if affinity is None or affinity.required is None:
                mask = np.ones(len(self._labels), dtype=bool)
            else:
                mask = self._labels.selected(compile_terms(affinity.required))
            self._reach[name] = mask
        return mask

    def reaches(self, volumes: Iterable[PersistentVolume]) -> list[Reach]:
        """Where each would be used, the first that can be: from all nodes that reach it; one that is made anew only from its own."""
        left, found = np.ones(len(self._labels), dtype=bool), []
        for volume in volumes:
            reach = self.nodes_reaching(volume)
            found.append(Reach(left & reach, reach))
            left &= ~reach
        return [*found, Reach(left, None)]

    def matched_together(self, claims: Iterable[Wanting], taken: Container[str]) -> Iterable[tuple[Wanting, Mask]]:
        """For claims that ask for different things, smallest first: on which nodes each finds a volume that is left."""
        gone: dict[str, Mask] = {}
        for wanting in claims:
            matched = np.zeros(len(self._labels), dtype=bool)
            for volume in self.fitting(wanting.need):
                name = volume.metadata.name
                if name not in taken:
                    used = gone.setdefault(name, np.zeros(len(self._labels), dtype=bool))
                    here = self.nodes_reaching(volume) & ~matched & ~used
                    matched |= here
                    used |= here
            yield wanting, matched

    def zones(self, volume: PersistentVolume) -> Mask:
        """Nodes in the volume's zone and region by its labels; nodes without any such label are not asked."""
        good = np.ones(len(self._labels), dtype=bool)
        for key, modern in ZONE_LABELS.items():
            written = volume.metadata.labels.get(key)
            if written is None:
                continue
            values = set(written.split(ZONES_SEPARATOR))
            own, other = (self._among(label, values) for label in (key, modern))
            has_own = self._labels.column(key).codes != ABSENT
            good &= np.where(has_own, own, other)
        return good | ~self._nodes_with_zones

    def _among(self, key: str, values: set[str]) -> Mask:
        column = self._labels.column(key)
        wanted = np.array([value in values for value in column.values], dtype=bool)
        mask: Mask = wanted[column.codes]
        return mask

    @functools.cached_property
    def _nodes_with_zones(self) -> Mask:
        zoned = np.zeros(len(self._labels), dtype=bool)
        for key in ZONE_LABELS:
            zoned |= self._labels.column(key).codes != ABSENT
        return zoned

    # ------------------------------------------------------------------------------------------------- provisioning

    def driver(self, claim: str) -> str:
        """What would provide a volume for the claim."""
        wanted = self._claims.get(claim)
        kind = self._classes.get(storage_class_of(wanted)) if wanted is not None else None
        return kind.provisioner if kind is not None else ""

    def provisionable(self, need: Need) -> tuple[Mask, Mask]:
        """Nodes near which a class makes volumes at all, and nodes near which it has room for this one."""
        nowhere = np.zeros(len(self._labels), dtype=bool)
        kind = self._classes.get(need.storage_class)
        if kind is None or kind.provisioner in {"", NO_PROVISIONER}:
            return nowhere, ~nowhere
        return self._allowed_topology(kind), self._with_room(kind, need)

    def _allowed_topology(self, kind: StorageClass) -> Mask:
        if not kind.allowed_topologies:
            return np.ones(len(self._labels), dtype=bool)
        allowed = np.zeros(len(self._labels), dtype=bool)
        for term in kind.allowed_topologies:
            if term.match_label_expressions:
                met = np.ones(len(self._labels), dtype=bool)
                for each in term.match_label_expressions:
                    met &= self._among(each.key, set(each.values))
                allowed |= met
        return allowed

    def _with_room(self, kind: StorageClass, need: Need) -> Mask:
        driver = self._drivers.get(kind.provisioner)
        if driver is None or not driver.spec.storage_capacity or not need.size:
            return np.ones(len(self._labels), dtype=bool)
        roomy = np.zeros(len(self._labels), dtype=bool)
        for each in self._capacities.values():
            limit = each.capacity if each.maximum_volume_size is None else each.maximum_volume_size
            enough = limit is not None and quantity.parse_value(limit) >= need.size
            if each.storage_class_name == kind.metadata.name and enough and each.node_topology is not None:
                roomy |= self._labels.matching(compile_selector(each.node_topology))
        return roomy


def need_of(claim: PersistentVolumeClaim) -> Need:
    spec = claim.spec
    return Need(
        storage_class=storage_class_of(claim),
        size=quantity.parse_value(spec.resources.requests.get(STORAGE, 0)),
        modes=frozenset(spec.access_modes),
        volume_mode=spec.volume_mode,
        selector=b"" if spec.selector is None else msgspec.msgpack.encode(spec.selector),
    )


def volume_class_of(volume: PersistentVolume) -> str:
    return volume.metadata.annotations.get(names.STORAGE_CLASS) or volume.spec.storage_class_name


def capacity_of(volume: PersistentVolume) -> int:
    return quantity.parse_value(volume.spec.capacity.get(STORAGE, 0))

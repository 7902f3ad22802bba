"""Volumes in worlds: a disk of a node, or else one that is made anew and can be used from any node.

A Job that keeps data has one for all of its pods; in others each pod has one of its own, which goes with it.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from pumice.api.core import PersistentVolume, PersistentVolumeClaim
from pumice.api.pods import Pod
from pumice.api.storage import CSINode, StorageClass
from pumice.kube import errors
from pumice.local.nodes.claims import PROVISIONER
from pumice.values import Mutable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.kube.client import Client
    from pumice.kube.informer import Informers, News
    from pumice.sim.worlds.witness import PodSeen, Witness

DISKS = 1  # of a node
ATTACHED_MAX = 1  # so many volumes a node can use at a time
CLASS = "disk"
# As a Job asks for one, which all of its pods share.
CLAIM = {"accessModes": ["ReadWriteOnce"], "storageClassName": CLASS, "resources": {"requests": {"storage": "1Gi"}}}


async def furnish(client: Client, nodes: Sequence[str]) -> None:
    """What an administrator has put into the nodes; who asks for a volume gets one where the first pod that uses it goes."""
    waits = {"provisioner": PROVISIONER, "volumeBindingMode": "WaitForFirstConsumer"}
    await client.create(StorageClass, {"metadata": {"name": CLASS}, **waits})
    for node in nodes:
        driver = {"name": PROVISIONER, "nodeID": node, "allocatable": {"count": ATTACHED_MAX}}
        await client.create(CSINode, {"metadata": {"name": node}, "spec": {"drivers": [driver]}})
        for name in (f"{node}-disk-{number}" for number in range(DISKS)):
            here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
            spec = {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": CLASS,
                "csi": {"driver": PROVISIONER, "volumeHandle": name},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [here]}},
            }
            await client.create(PersistentVolume, {"metadata": {"name": name}, "spec": spec})


class ScratchKeeper:
    """As kube-controller-manager: a pod with an ephemeral volume gets a claim for it, which goes with the pod."""

    def __init__(self, client: Client, informers: Informers) -> None:
        self._client = client
        self._pods = informers.of(Pod)
        self._claims = informers.of(PersistentVolumeClaim)
        self._news = asyncio.Event()

    async def run(self) -> None:
        for each in (
            self._pods,
            self._claims,
        ):  # a pod of the same name may have to wait until the former claim is gone
            each.subscribe(self._see)
            await each.synced.wait()
        while True:
            await self._news.wait()
            self._news.clear()
            for pod in tuple(self._pods.objects.values()):
                for name in scratch_of(pod):
                    if (
                        pod.metadata.deletion_timestamp is None
                        and self._claims.get(pod.metadata.namespace, name) is None
                    ):
                        with contextlib.suppress(errors.KubeError):  # its next news brings another try
                            await self._make(pod, name)

    def _see(self, news: Sequence[News]) -> None:
        del news
        self._news.set()

    async def _make(self, pod: Pod, name: str) -> None:
        own = {"apiVersion": "v1", "kind": "Pod", "name": pod.metadata.name, "uid": pod.metadata.uid}
        metadata = {"name": name, "ownerReferences": [{**own, "controller": True, "blockOwnerDeletion": True}]}
        await self._client.create(
            PersistentVolumeClaim, {"metadata": metadata, "spec": CLAIM}, namespace=pod.metadata.namespace
        )


def scratch_of(pod: Pod) -> list[str]:
    """The claims of its ephemeral volumes, which are named after it."""
    return [f"{pod.metadata.name}-{each.name}" for each in pod.spec.volumes if each.ephemeral is not None]


class DiskSeen(Mutable, eq=False):
    node: str  # nothing: it can be used from any
    claim: str = ""  # uid of the claim that it belongs to


class Volumes:
    """Sees every disk, and every claim for one."""

    def __init__(self, witness: Witness) -> None:
        self._witness = witness
        self.disks: dict[str, DiskSeen] = {}
        self.claims: dict[str, str] = {}  # namespace/name -> the disk that it is bound to
        self.owners: dict[str, str] = {}  # uid of the pod that it goes with

    def see_disk(self, key: str, volume: PersistentVolume) -> None:
        owner = volume.spec.claim_ref.uid if volume.spec.claim_ref is not None else ""
        node, is_fixed, _ = key.partition("-disk-")
        seen = self.disks.setdefault(key, DiskSeen(node if is_fixed else ""))
        if seen.claim and owner != seen.claim:
            self._witness.complain(f"volume {key} belongs to claim {seen.claim}, and was given to {owner or 'nobody'}")
        seen.claim = owner
        self._witness.truth.is_stale = True

    def see_claim(self, key: str, claim: PersistentVolumeClaim) -> None:
        self.claims[key] = claim.spec.volume_name
        owner = claim.metadata.controller
        self.owners[key] = owner.uid if owner is not None and owner.kind == "Pod" else ""
        self._witness.truth.is_stale = True

    def forget_claim(self, key: str) -> None:
        """It may be made again, for another pod of the same name."""
        self.claims.pop(key, None)
        self.owners.pop(key, None)

    def check_bound(self, pod: PodSeen) -> None:
        """A pod comes to where its disk is, and no more disks are used there than can be."""
        for claim in pod.volumes:
            disk = self.disks.get(self.claims.get(claim, ""))
            if pod.has_scratch and self.owners.get(claim, pod.uid) != pod.uid:
                self._witness.complain(f"pod {pod.key} came to a node, and {claim} goes with another pod")
            if disk is None or disk.node not in {"", pod.node}:
                where = disk.node if disk is not None else "nowhere"
                self._witness.complain(
                    f"pod {pod.key} came to node {pod.node}, and the volume of {claim} is on {where}"
                )
        used = self.attached(pod.node) if pod.volumes else set()
        if len(used) > ATTACHED_MAX:
            self._witness.complain(f"node {pod.node} has {sorted(used)} attached, and takes {ATTACHED_MAX}")

    def attached(self, node: str) -> set[str]:
        """Claims whose disks pods use there."""
        pods = (each for each in self._witness.pods.values() if each.node == node and not each.is_over)
        return {claim for pod in pods for claim in pod.volumes}

    def node_of(self, claims: Sequence[str]) -> str:
        """Where a disk was chosen for one of them."""
        found = (self.disks.get(self.claims.get(claim, "")) for claim in claims)
        return next((disk.node for disk in found if disk is not None), "")

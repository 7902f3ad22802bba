"""A stand-in for volume controller and provisioner: claims of the embedded cluster get their volumes.

The embedded cluster has no kube-controller-manager, and a pod whose claim is not bound waits for ever. What a volume is made of
is the node's business: a process node keeps a folder for each claim, a pretend node nothing. So a volume here is a name.

    claim --promised an existing volume-----------------------> Bound to it
      `-----of no class, or of one whose provisioner is ours--> a new volume, Bound; gone with its claim
      `-----of another class----------------------------------> left to others

As in Kubernetes, a claim that is deleted stays until no pod on a node uses it any more.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from pumice.api.core import PersistentVolume, PersistentVolumeClaim, claim_reference, storage_class_of
from pumice.api.names import BIND_COMPLETED, SELECTED_NODE
from pumice.api.pods import ENDED, Pod
from pumice.api.storage import StorageClass
from pumice.kube import errors

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from pumice.kube.client import Client
    from pumice.kube.informer import Informers, News
    from pumice.runtime import Runtime

PROVISIONER = "folder.pumice.dev"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
PROTECTION = "kubernetes.io/pvc-protection"
WAITS_FOR_A_POD = "WaitForFirstConsumer"
RETRY_S = 1.0  # after a call that failed for reasons that may pass


class FolderClaims:
    """Binds claims until cancelled. The caller runs the informers."""

    def __init__(self, client: Client, informers: Informers, runtime: Runtime) -> None:
        self._client = client
        self._claims = informers.of(PersistentVolumeClaim)
        self._volumes = informers.of(PersistentVolume)
        self._classes = informers.of(StorageClass)
        self._pods = informers.of(Pod)
        self._clock = runtime.clock
        self._log = runtime.log
        self._news = asyncio.Event()

    async def run(self) -> None:
        watched = (self._claims, self._volumes, self._classes, self._pods)
        leave = [each.subscribe(self._see) for each in watched]
        try:
            for each in watched:
                await each.synced.wait()
            while True:
                await self._news.wait()
                self._news.clear()
                await self._look()
        finally:
            for unsubscribe in leave:
                unsubscribe()

    def _see(self, news: Sequence[News]) -> None:
        del news
        self._news.set()

    async def _look(self) -> None:
        for claim in tuple(self._claims.objects.values()):
            if claim.status.phase != "Bound" and claim.metadata.deletion_timestamp is None:
                await self._try(self._settle(claim), claim.metadata.key)
            elif PROTECTION in claim.metadata.finalizers and claim.metadata.deletion_timestamp is not None:
                await self._try(self._let_go(claim), claim.metadata.key)
        claims = {claim.metadata.uid for claim in self._claims.objects.values()}
        for volume in tuple(self._volumes.objects.values()):
            if PROVISIONED_BY in volume.metadata.annotations and _owner(volume) not in claims:
                await self._try(self._remove(volume), volume.metadata.name)

    async def _try(self, work: Coroutine[Any, Any, None], subject: str) -> None:
        try:
            await work
        except (errors.NotFound, errors.Conflict):
            pass  # it changed under our hands; the watch will tell
        except errors.KubeError as error:
            self._log("claim_not_settled", subject=subject, error=str(error))
            await self._clock.sleep(RETRY_S)
            self._news.set()

    # ------------------------------------------------------------------------------------------------------ binding

    async def _settle(self, claim: PersistentVolumeClaim) -> None:
        volume = self._agreed_volume(claim)
        if volume is not None:
            name, capacity = volume.metadata.name, dict(volume.spec.capacity)
        elif self._is_ours_to_make(claim):
            name, capacity = f"pvc-{claim.metadata.uid}", dict(claim.spec.resources.requests)
            await self._make(name, claim)
        else:
            return
        namespace = claim.metadata.namespace
        finalizers = [*claim.metadata.finalizers, *({PROTECTION} - {*claim.metadata.finalizers})]
        metadata = {
            "uid": claim.metadata.uid,
            "annotations": {BIND_COMPLETED: "yes"},
            "finalizers": finalizers,
        }
        body: dict[str, Any] = {"metadata": metadata, "spec": {"volumeName": name}}
        status = {"phase": "Bound", "accessModes": list(claim.spec.access_modes), "capacity": capacity}
        patch, key = self._client.patch, claim.metadata.name
        await patch(PersistentVolume, name, {"spec": {"claimRef": claim_reference(claim)}})
        await patch(PersistentVolume, name, {"status": {"phase": "Bound"}}, subresource="status")
        await patch(PersistentVolumeClaim, key, body, namespace=namespace)
        await patch(PersistentVolumeClaim, key, {"status": status}, namespace=namespace, subresource="status")
        self._log("claim_bound", claim=claim.metadata.key, volume=name)

    async def _let_go(self, claim: PersistentVolumeClaim) -> None:
        """A claim that is being deleted is gone once nobody uses it."""
        key, name, namespace = claim.metadata.key, claim.metadata.name, claim.metadata.namespace
        if any(key in _claims_of(pod) for pod in self._pods.objects.values()):
            return
        pods = await self._client.list(Pod, namespace=namespace)  # the watch may be late
        if any(key in _claims_of(pod) for pod in pods.items):
            return
        left = [each for each in claim.metadata.finalizers if each != PROTECTION]
        metadata = {"resourceVersion": claim.metadata.resource_version, "finalizers": left}
        await self._client.patch(PersistentVolumeClaim, name, {"metadata": metadata}, namespace=namespace)

    def _agreed_volume(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        """The volume that claim and volume agree upon: one of them names the other, and no third object is named."""
        for volume in self._volumes.objects.values():
            reference = volume.spec.claim_ref
            if reference is None:
                is_it = volume.metadata.name == claim.spec.volume_name
            else:
                is_it = (reference.namespace, reference.name) == (claim.metadata.namespace, claim.metadata.name)
                is_it = is_it and reference.uid in {"", claim.metadata.uid}
            if is_it and claim.spec.volume_name in {"", volume.metadata.name}:
                return volume
        return None

    def _is_ours_to_make(self, claim: PersistentVolumeClaim) -> bool:
        if claim.spec.volume_name:
            return False
        name = storage_class_of(claim)
        if not name:
            return True
        kind = self._classes.get("", name)
        if kind is None or kind.provisioner != PROVISIONER:
            return False
        return kind.volume_binding_mode != WAITS_FOR_A_POD or SELECTED_NODE in claim.metadata.annotations

    async def _make(self, name: str, claim: PersistentVolumeClaim) -> None:
        spec = {
            "capacity": dict(claim.spec.resources.requests),
            "accessModes": list(claim.spec.access_modes),
            "volumeMode": claim.spec.volume_mode,
            "storageClassName": storage_class_of(claim),
            "persistentVolumeReclaimPolicy": "Delete",
            "claimRef": claim_reference(claim),
            "csi": {"driver": PROVISIONER, "volumeHandle": claim.metadata.uid},
        }
        metadata = {"name": name, "annotations": {PROVISIONED_BY: PROVISIONER}}
        with contextlib.suppress(errors.AlreadyExists):  # a predecessor made it, and did not live to bind it
            await self._client.create(PersistentVolume, {"metadata": metadata, "spec": spec})

    async def _remove(self, volume: PersistentVolume) -> None:
        await self._client.delete(PersistentVolume, volume.metadata.name, uid=volume.metadata.uid)
        self._log("volume_deleted", volume=volume.metadata.name)


def _claims_of(pod: Pod) -> list[str]:
    """Those that it uses on its node."""
    if not pod.spec.node_name or pod.status.phase in ENDED:
        return []
    namespace, name = pod.metadata.namespace, pod.metadata.name
    named = (each.persistent_volume_claim for each in pod.spec.volumes)
    own = (each.name for each in pod.spec.volumes if each.ephemeral is not None)
    return [
        *(f"{namespace}/{each.claim_name}" for each in named if each is not None),
        *(f"{namespace}/{name}-{each}" for each in own),
    ]


def _owner(volume: PersistentVolume) -> str:
    return volume.spec.claim_ref.uid if volume.spec.claim_ref is not None else ""

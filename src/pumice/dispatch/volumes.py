"""Volumes, before the pods that use them: a pod that is bound cannot look for another node.

As kube-scheduler does it: a volume that exists is promised to the claim by its claimRef, one that has to be made is asked for by
the claim's annotation; the volume controller does the rest, and we wait until the claim says Bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.api.core import PersistentVolume, PersistentVolumeClaim, claim_reference
from pumice.api.names import SELECTED_NODE
from pumice.dispatch.errors import PreparationFailed
from pumice.errors import PumiceError
from pumice.kube import errors

if TYPE_CHECKING:
    from pumice.kube.client import Client
    from pumice.runtime import Runtime
    from pumice.scheduling.core.decisions import VolumeChoice

ASK_S_FIRST = 0.1
ASK_S_MAX = 5.0
BOUND_BY_US = "pv.kubernetes.io/bound-by-controller"


class Volumes:
    """Makes claims bound."""

    def __init__(self, client: Client, runtime: Runtime) -> None:
        self._client = client
        self._runtime = runtime

    async def ask(self, choice: VolumeChoice) -> None:
        """Write what makes the claim get its volume; raises PreparationFailed or KubeError where that cannot be."""
        namespace, _, name = choice.claim.partition("/")
        claim = await self._claim(namespace, name)
        if claim.spec.volume_name:
            return
        if choice.volume:
            await self._promise(choice.volume, claim)
        else:
            annotation = {"metadata": {"annotations": {SELECTED_NODE: choice.node}}}
            await self._client.patch(PersistentVolumeClaim, name, annotation, namespace=namespace)

    async def give_back(self, choice: VolumeChoice) -> None:
        """A volume that is not made yet may be made near another node; one that is bound stays, as under kube-scheduler: it may have data."""
        namespace, _, name = choice.claim.partition("/")
        try:
            claim = await self._claim(namespace, name)
            if choice.volume or claim.spec.volume_name or claim.metadata.annotations.get(SELECTED_NODE) != choice.node:
                return
            metadata = {"resourceVersion": claim.metadata.resource_version, "annotations": {SELECTED_NODE: None}}
            await self._client.patch(PersistentVolumeClaim, name, {"metadata": metadata}, namespace=namespace)
        except PumiceError as error:  # the node stays chosen, and the next attempt asks for the same
            self._runtime.log("volume_not_given_back", claim=choice.claim, reason=str(error))

    async def _promise(self, name: str, claim: PersistentVolumeClaim) -> None:
        """Write the claim into the volume, unless another claim is there; the version keeps us from overwriting one."""
        volume = (await self._client.get(PersistentVolume, name)).into(PersistentVolume)
        taken = volume.spec.claim_ref
        if taken is not None and taken.uid != claim.metadata.uid and taken.uid:
            raise PreparationFailed(f"volume {name} belongs to claim {taken.namespace}/{taken.name} by now")
        metadata = {"annotations": {BOUND_BY_US: "yes"}, "resourceVersion": volume.metadata.resource_version}
        await self._client.patch(
            PersistentVolume, name, {"metadata": metadata, "spec": {"claimRef": claim_reference(claim)}}
        )

    async def until_bound(self, choice: VolumeChoice) -> None:
        """Returns once the claim has the volume that was chosen; raises PreparationFailed where it never will."""
        namespace, _, name = choice.claim.partition("/")
        delay = ASK_S_FIRST
        while True:
            claim = await self._claim(namespace, name)
            # A provisioner takes its annotation away when the node it was given cannot have the volume.
            if not choice.volume and claim.metadata.annotations.get(SELECTED_NODE) != choice.node:
                raise PreparationFailed(f"claim {choice.claim}: no volume can be made for node {choice.node}")
            if choice.volume and claim.spec.volume_name not in {"", choice.volume}:
                raise PreparationFailed(f"claim {choice.claim} was given volume {claim.spec.volume_name} meanwhile")
            if claim.spec.volume_name and claim.status.phase == "Bound":
                return
            await self._runtime.clock.sleep(delay)
            delay = min(delay * 2, ASK_S_MAX)

    async def _claim(self, namespace: str, name: str) -> PersistentVolumeClaim:
        try:
            return (await self._client.get(PersistentVolumeClaim, name, namespace=namespace)).into(
                PersistentVolumeClaim
            )
        except errors.NotFound as error:
            raise PreparationFailed(f"claim {namespace}/{name} is gone") from error

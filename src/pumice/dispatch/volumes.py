"""Volumes of a whole gang are ready before its first pod is bound: a pod that is bound cannot look for another node.

As kube-scheduler does it: a volume that exists is promised to the claim by its claimRef, one that has to be made is asked for by
the claim's annotation; the volume controller does the rest, and we wait until the claim says Bound.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pumice.api.core import PersistentVolume, PersistentVolumeClaim
from pumice.errors import PumiceError
from pumice.kube import errors

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pumice.dispatch.rim import Rim
    from pumice.kube.client import Client
    from pumice.scheduling.decisions import VolumeChoice

BOUND_S_MAX = 600.0  # as kube-scheduler: making a volume takes minutes on some clouds
ASK_S_FIRST = 0.1
ASK_S_MAX = 5.0
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BOUND_BY_US = "pv.kubernetes.io/bound-by-controller"


class VolumesFailed(PumiceError):
    """A claim of the gang got no volume; nobody of it was bound."""


class Volumes:
    """Makes claims bound; belongs to one event loop."""

    def __init__(self, client: Client, rim: Rim) -> None:
        self._client = client
        self._rim = rim

    async def prepare(self, choices: Iterable[VolumeChoice]) -> None:
        """Returns once every claim is bound; raises VolumesFailed where one cannot be."""
        try:
            async with asyncio.timeout(BOUND_S_MAX), asyncio.TaskGroup() as group:
                for choice in choices:
                    group.create_task(self._bind(choice))
        except TimeoutError as error:
            raise VolumesFailed(f"volumes were not bound within {BOUND_S_MAX:.0f} s") from error
        except BaseExceptionGroup as failed:
            first = failed.exceptions[0]
            if isinstance(first, PumiceError):
                raise VolumesFailed(str(first)) from failed
            raise

    async def _bind(self, choice: VolumeChoice) -> None:
        namespace, _, name = choice.claim.partition("/")
        claim = await self._claim(namespace, name)
        if claim.spec.volume_name:
            return
        self._rim.guard()
        if choice.volume:
            reference = {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": namespace,
                "name": name,
                "uid": claim.metadata.uid,
            }
            body = {"metadata": {"annotations": {BOUND_BY_US: "yes"}}, "spec": {"claimRef": reference}}
            await self._client.patch(PersistentVolume, choice.volume, body)
        else:
            annotation = {"metadata": {"annotations": {SELECTED_NODE: choice.node}}}
            await self._client.patch(PersistentVolumeClaim, name, annotation, namespace=namespace)
        await self._until_bound(namespace, name, choice)

    async def _until_bound(self, namespace: str, name: str, choice: VolumeChoice) -> None:
        delay = ASK_S_FIRST
        while True:
            claim = await self._claim(namespace, name)
            if claim.spec.volume_name and claim.status.phase == "Bound":
                return
            # A provisioner takes its annotation away when the node it was given cannot have the volume.
            if not choice.volume and claim.metadata.annotations.get(SELECTED_NODE) != choice.node:
                raise VolumesFailed(f"claim {choice.claim}: no volume can be made for node {choice.node}")
            await self._rim.clock.sleep(delay)
            delay = min(delay * 2, ASK_S_MAX)

    async def _claim(self, namespace: str, name: str) -> PersistentVolumeClaim:
        try:
            return (await self._client.get(PersistentVolumeClaim, name, namespace=namespace)).into(
                PersistentVolumeClaim
            )
        except errors.NotFound as error:
            raise VolumesFailed(f"claim {namespace}/{name} is gone") from error

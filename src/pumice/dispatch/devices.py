"""Devices of a claim are written into it before its pod is bound: the kubelet reads from there what to hand out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from pumice.api import kinds
from pumice.api.resource import ResourceClaim
from pumice.dispatch.errors import PreparationFailed
from pumice.kube import errors

if TYPE_CHECKING:
    from pumice.cluster.tasks import Task
    from pumice.kube.client import Client
    from pumice.runtime import Runtime
    from pumice.scheduling.core.decisions import DeviceChoice

DELETE_PROTECTION = "resource.kubernetes.io/delete-protection"
CONFLICTS_MAX = 5  # several pods of a gang may share a claim, and each writes itself into it


class Devices:
    """Writes allocations and users into claims."""

    def __init__(self, client: Client, runtime: Runtime) -> None:
        self._client = client
        self._runtime = runtime

    async def reserve(self, choice: DeviceChoice, task: Task) -> None:
        """The claim has its devices, and the pod among its users; raises PreparationFailed where another writer was faster."""
        namespace, _, name = choice.claim.partition("/")
        user = {"resource": "pods", "name": task.name, "uid": task.uid}
        for _ in range(CONFLICTS_MAX):
            try:
                if await self._write(namespace, name, choice, user):
                    return
            except errors.Conflict:
                continue
            except errors.NotFound as error:
                raise PreparationFailed(f"claim {choice.claim} is gone") from error
        raise PreparationFailed(f"claim {choice.claim} changes faster than it can be written")

    async def _write(self, namespace: str, name: str, choice: DeviceChoice, user: dict[str, str]) -> bool:
        claim = (await self._client.get(ResourceClaim, name, namespace=namespace)).json()
        status: dict[str, Any] = claim.setdefault("status", {})
        allocated, users = status.get("allocation"), status.get("reservedFor") or []
        if choice.allocation is not None and allocated is not None and not _covers(allocated, choice.allocation):
            raise PreparationFailed(f"claim {choice.claim} was given other devices meanwhile")
        if allocated is not None:
            if user in users:
                return True
            choice = msgspec.structs.replace(choice, allocation=None)  # it has its devices; only the user is missing
        if choice.allocation is not None:
            claim = await self._protect(namespace, name, claim)
            status = claim.setdefault("status", {})
            status["allocation"] = choice.allocation
        status["reservedFor"] = [*users, *([] if user in users else [user])]
        kind = kinds.by_struct(ResourceClaim)
        body = {"apiVersion": kind.api_version, "kind": kind.kind, **claim}
        await self._client.update(ResourceClaim, name, body, namespace=namespace, subresource="status")
        return True

    async def _protect(self, namespace: str, name: str, claim: dict[str, Any]) -> dict[str, Any]:
        """The claim with the finalizer that keeps it while its devices are given out."""
        metadata = claim["metadata"]
        finalizers = metadata.get("finalizers") or []
        if DELETE_PROTECTION in finalizers:
            return claim
        body = {
            "metadata": {"finalizers": [*finalizers, DELETE_PROTECTION], "resourceVersion": metadata["resourceVersion"]}
        }
        return (await self._client.patch(ResourceClaim, name, body, namespace=namespace)).json()


def _covers(written: Any, wanted: Any) -> bool:
    """Whether everything that was wanted stands there; a server may have added defaults."""
    if isinstance(wanted, dict):
        return isinstance(written, dict) and all(_covers(written.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list | tuple):
        same_length = isinstance(written, list | tuple) and len(written) == len(wanted)
        return same_length and all(_covers(left, right) for left, right in zip(written, wanted, strict=True))
    return bool(written == wanted)

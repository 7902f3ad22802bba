"""Devices of a claim are written into it before its pod is bound: the kubelet reads from there what to hand out.

Who is told that a write has failed can rely on it: what may still be on its way is waited for, because devices count as free from
then on. And what no pod came for is given back, so that its gang can go elsewhere.
"""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING, Any, TypeAlias

from pumice.api import changes, kinds
from pumice.api.resource import ResourceClaim
from pumice.dispatch.errors import PreparationFailed
from pumice.kube import errors
from pumice.values import Mutable

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet

    from pumice.cluster.state import Cluster
    from pumice.cluster.tasks import Task
    from pumice.kube.client import Client, Reply
    from pumice.runtime import Runtime
    from pumice.scheduling.core.decisions import DeviceChoice

DELETE_PROTECTION = "resource.kubernetes.io/delete-protection"
CONFLICTS_MAX = 5  # another writer may be faster so often
RESEND_S_FIRST = 0.1
RESEND_S_MAX = 5.0

# From a claim to its status as it should be; None: it is.
Change: TypeAlias = "Callable[[dict[str, Any]], dict[str, Any] | None]"


class _Gone(PreparationFailed):
    """There is no claim of that name any more."""


class _Sent(Mutable):
    """The version of the claim for which a write may still arrive; empty: none is on its way."""

    version: str = ""


class Devices:
    """Writes allocations and users into claims; belongs to one event loop."""

    def __init__(
        self, client: Client, cluster: Cluster, learn: Callable[[changes.Change], None], runtime: Runtime
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._learn = learn
        self._runtime = runtime
        # Pods that share a claim write themselves into it one after the other.
        self._turns: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()

    async def reserve(self, choice: DeviceChoice, task: Task) -> None:
        """The claim has its devices, and the pod among its users; raises PreparationFailed where that cannot be, and has not happened."""
        user = {"resource": "pods", "name": task.name, "uid": task.uid}
        await self._write(choice.claim, lambda claim: _reserved(claim, choice, user), insists=False)

    async def give_back(self, claim: str, pods: AbstractSet[str]) -> None:
        """None of these pods, by uid, uses the claim any more, and where nobody else does its devices are free; returns once that is so."""
        try:
            await self._write(claim, lambda found: _freed(found, pods), insists=True)
        except _Gone:
            pass
        except PreparationFailed as error:
            self._runtime.log("devices_not_given_back", claim=claim, reason=str(error))

    async def _write(self, key: str, change: Change, *, insists: bool) -> None:
        """Write the claim's status as `change` wants it, until it is known how that ended; `insists`: nothing but a refusal is an end."""
        sent, delay, tries = _Sent(), RESEND_S_FIRST, 0
        turn = self._turns.setdefault(key, asyncio.Lock())
        async with turn:
            while True:
                try:
                    await self._try(key, change, sent)
                except errors.NotFound as error:
                    raise _Gone(f"claim {key} is gone") from error
                except errors.KubeError as error:
                    tries += 1
                    if not sent.version and not _is_worth_another_try(error, tries, insists=insists):
                        raise PreparationFailed(f"claim {key}: {error}") from error
                else:
                    return
                await self._runtime.clock.sleep(delay)
                delay = min(delay * 2, RESEND_S_MAX)

    async def _try(self, key: str, change: Change, sent: _Sent) -> None:
        """Each write names the version that was read: one without an answer is void once the claim has another version."""
        claim = await self._read(key)
        if _version(claim) != sent.version:
            sent.version = ""
        status = change(claim)
        if status is None:
            return
        if "allocation" in status and not _has_devices(claim):
            claim = await self._protect(key, claim)
        try:
            await self._put(key, {**claim, "status": status})
        except errors.KubeError as error:
            if errors.is_open(error):
                sent.version = _version(claim)
            raise

    async def _read(self, key: str) -> dict[str, Any]:
        namespace, _, name = key.partition("/")
        return self._known(await self._client.get(ResourceClaim, name, namespace=namespace))

    async def _put(self, key: str, claim: dict[str, Any]) -> None:
        namespace, _, name = key.partition("/")
        kind = kinds.by_struct(ResourceClaim)
        body = {"apiVersion": kind.api_version, "kind": kind.kind, **claim}
        self._known(await self._client.update(ResourceClaim, name, body, namespace=namespace, subresource="status"))

    async def _protect(self, key: str, claim: dict[str, Any]) -> dict[str, Any]:
        """The claim with the finalizer that keeps it while its devices are given out."""
        namespace, _, name = key.partition("/")
        finalizers = claim["metadata"].get("finalizers") or []
        if DELETE_PROTECTION in finalizers:
            return claim
        metadata = {"finalizers": [*finalizers, DELETE_PROTECTION], "resourceVersion": _version(claim)}
        return self._known(await self._client.patch(ResourceClaim, name, {"metadata": metadata}, namespace=namespace))

    def _known(self, reply: Reply) -> dict[str, Any]:
        """What an answer says counts before the watch shows it; of a claim whose end the watch has shown it is too late."""
        claim = reply.into(ResourceClaim)
        if claim.metadata.key in self._cluster.others.get(ResourceClaim, {}):
            self._learn(changes.Upserted(object=claim))
        return reply.json()


def _reserved(claim: dict[str, Any], choice: DeviceChoice, user: dict[str, str]) -> dict[str, Any] | None:
    """The claim's status with the devices and the user; None where it is so already."""
    status: dict[str, Any] = claim.get("status") or {}
    allocated, users = status.get("allocation"), status.get("reservedFor") or []
    if claim["metadata"].get("deletionTimestamp"):
        raise PreparationFailed(f"claim {choice.claim} is being deleted")
    if allocated is None and choice.allocation is None:
        raise PreparationFailed(f"claim {choice.claim} has lost its devices meanwhile")
    if allocated is not None and choice.allocation is not None and not _covers(allocated, choice.allocation):
        raise PreparationFailed(f"claim {choice.claim} was given other devices meanwhile")
    if allocated is not None and user in users:
        return None
    allocation = choice.allocation if allocated is None else allocated
    return {**status, "allocation": allocation, "reservedFor": [*users, *([] if user in users else [user])]}


def _freed(claim: dict[str, Any], pods: AbstractSet[str]) -> dict[str, Any] | None:
    """The claim's status without these users, and without devices where there are no others; None where it is so already."""
    status: dict[str, Any] = claim.get("status") or {}
    users = status.get("reservedFor") or []
    left = [each for each in users if each["uid"] not in pods]
    if len(left) == len(users):
        return None
    if left:
        return {**status, "reservedFor": left}
    return {name: value for name, value in status.items() if name not in {"reservedFor", "allocation", "devices"}}


def _is_worth_another_try(error: errors.KubeError, tries: int, *, insists: bool) -> bool:
    if insists:
        return not isinstance(error, errors.Invalid | errors.Refused)
    return isinstance(error, errors.Conflict) and tries < CONFLICTS_MAX


def _has_devices(claim: dict[str, Any]) -> bool:
    return bool((claim.get("status") or {}).get("allocation"))


def _version(claim: dict[str, Any]) -> str:
    return str(claim["metadata"]["resourceVersion"])


def _covers(written: Any, wanted: Any) -> bool:
    """Whether everything that was wanted stands there; a server may have added defaults."""
    if isinstance(wanted, dict):
        return isinstance(written, dict) and all(_covers(written.get(key), value) for key, value in wanted.items())
    if isinstance(wanted, list | tuple):
        same_length = isinstance(written, list | tuple) and len(written) == len(wanted)
        return same_length and all(_covers(left, right) for left, right in zip(written, wanted, strict=True))
    return bool(written == wanted)

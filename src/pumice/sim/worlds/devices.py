"""Devices in worlds: what nodes offer of them, a stand-in for the controller that looks after claims, and what must hold."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import msgspec

from pumice.api.pods import ENDED, Pod
from pumice.api.resource import DeviceClass, ResourceClaim, ResourceSlice
from pumice.kube import errors
from pumice.sim.worlds.story import DEVICES_OF_A_NODE
from pumice.values import Mutable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pumice.kube.client import Client
    from pumice.kube.informer import Informers, News
    from pumice.sim.worlds.witness import PodSeen, Witness

DRIVER = "cards.world"
CLASS = "card"
KEPT_S_MAX = 40.0  # so long after the faults devices may be kept for a pod that has not come to their node
SPEC = {"devices": {"requests": [{"name": "one", "exactly": {"deviceClassName": CLASS, "count": 1}}]}}


async def furnish(client: Client, nodes: Sequence[str]) -> None:
    """What a driver on every node tells of it."""
    await client.create(DeviceClass, {"metadata": {"name": CLASS}, "spec": {}})
    for node in nodes:
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        offered = [{"name": f"card-{number}"} for number in range(DEVICES_OF_A_NODE)]
        spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": offered}
        await client.create(ResourceSlice, {"metadata": {"name": f"{node}-cards"}, "spec": spec})


class ClaimKeeper:
    """As kube-controller-manager: pods get the claims that they have a template for; a claim whose pod is over gives its devices back."""

    def __init__(self, client: Client, informers: Informers) -> None:
        self._client = client
        self._pods = informers.of(Pod)
        self._claims = informers.of(ResourceClaim)
        self._news = asyncio.Event()

    async def run(self) -> None:
        for each in (self._pods, self._claims):
            each.subscribe(self._see)
            await each.synced.wait()
        while True:
            await self._news.wait()
            self._news.clear()
            pods = {pod.metadata.uid: pod for pod in self._pods.objects.values()}
            for pod in pods.values():
                with contextlib.suppress(errors.KubeError):  # its next news brings another try
                    await self._make(pod)
            for claim in tuple(self._claims.objects.values()):
                with contextlib.suppress(errors.KubeError):
                    owners = claim.metadata.owner_references
                    await (self._give_back(claim, pods.get(owners[0].uid)) if owners else self._let_go(claim))

    def _see(self, news: Sequence[News]) -> None:
        del news
        self._news.set()

    async def _make(self, pod: Pod) -> None:
        if not pod.spec.resource_claims or pod.status.resource_claim_statuses or pod.metadata.deletion_timestamp:
            return
        metadata, use = pod.metadata, pod.spec.resource_claims[0].name
        if pod.spec.resource_claims[0].resource_claim_name is not None:
            return
        name = f"{metadata.name}-{metadata.uid[:8]}"
        owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata.name, "uid": metadata.uid, "controller": True}
        body = {"metadata": {"name": name, "ownerReferences": [owner]}, "spec": SPEC}
        with contextlib.suppress(errors.AlreadyExists):
            await self._client.create(ResourceClaim, body, namespace=metadata.namespace)
        status = {"resourceClaimStatuses": [{"name": use, "resourceClaimName": name}]}
        patch = {"metadata": {"uid": metadata.uid}, "status": status}
        await self._client.patch(Pod, metadata.name, patch, namespace=metadata.namespace, subresource="status")

    async def _give_back(self, claim: ResourceClaim, pod: Pod | None) -> None:
        if pod is not None and pod.status.phase not in ENDED:
            return
        name, namespace, uid = claim.metadata.name, claim.metadata.namespace, {"uid": claim.metadata.uid}
        if claim.status.allocation is not None or claim.status.reserved_for:
            free: dict[str, Any] = {"metadata": uid, "status": {"allocation": None, "reservedFor": None}}
            await self._client.patch(ResourceClaim, name, free, namespace=namespace, subresource="status")
        if claim.metadata.finalizers:
            loose = {"metadata": {**uid, "finalizers": None}}
            await self._client.patch(ResourceClaim, name, loose, namespace=namespace)
        if pod is None:
            await self._client.delete(ResourceClaim, name, namespace=namespace, uid=claim.metadata.uid)

    async def _let_go(self, claim: ResourceClaim) -> None:
        """Several pods use it; whoever is over uses it no more, and the last one gives the devices back."""
        users = [each for each in claim.status.reserved_for if await self._uses(claim, each.name, each.uid)]
        if len(users) == len(claim.status.reserved_for):
            return
        metadata = {"uid": claim.metadata.uid, "resourceVersion": claim.metadata.resource_version}
        status: dict[str, Any] = {"reservedFor": [msgspec.to_builtins(each) for each in users] or None}
        if not users:
            status["allocation"] = None
        body = {"metadata": metadata, "status": status}
        name, namespace = claim.metadata.name, claim.metadata.namespace
        await self._client.patch(ResourceClaim, name, body, namespace=namespace, subresource="status")

    async def _uses(self, claim: ResourceClaim, name: str, uid: str) -> bool:
        """Whether the pod is there and not over; of one that the watch does not show the server is asked."""
        pod = self._pods.get(claim.metadata.namespace, name)
        if pod is None or pod.metadata.uid != uid:
            try:
                pod = (await self._client.get(Pod, name, namespace=claim.metadata.namespace)).into(Pod)
            except errors.NotFound:
                return False
        return pod.metadata.uid == uid and pod.status.phase not in ENDED


class ClaimSeen(Mutable, eq=False):
    pod: str  # uid of the one that it was made for; none: several may use it
    devices: frozenset[tuple[str, str]]  # node and name
    users: frozenset[str]  # uids of pods
    since: float  # when it got them


class Devices:
    """Sees every claim."""

    def __init__(self, witness: Witness) -> None:
        self._witness = witness
        self.claims: dict[str, ClaimSeen] = {}

    def see(self, key: str, claim: ResourceClaim) -> None:
        allocation, before = claim.status.allocation, self.claims.get(key)
        devices = (
            frozenset((each.pool, each.device) for each in allocation.devices.results) if allocation else frozenset()
        )
        since = before.since if before is not None and before.devices == devices else self._witness.now()
        users = frozenset(each.uid for each in claim.status.reserved_for)
        owners = claim.metadata.owner_references
        self.claims[key] = ClaimSeen(owners[0].uid if owners else "", devices, users, since)
        self._witness.truth.is_stale = True
        for other, seen in self.claims.items():
            for node, name in sorted(seen.devices & devices if other != key else ()):
                self._witness.complain(f"{name} of {node} is given to both {other} and {key}")

    def check_bound(self, pod: PodSeen) -> None:
        """A pod that comes to a node has its devices there."""
        for key, claim in self.claims.items():
            is_its = claim.pod == pod.uid or key in pod.shares
            if is_its and (pod.uid not in claim.users or {where for where, _ in claim.devices} != {pod.node}):
                held = sorted(claim.devices)
                self._witness.complain(
                    f"pod {pod.key} came to node {pod.node}, and its claim {key} has {held} for {len(claim.users)} pods"
                )

    def kept(self, now: float) -> Iterator[str]:
        """Devices are not kept for ever for who does not use them; told once."""
        for key, claim in self.claims.items():
            pods = [self._witness.pods.get(uid) for uid in ([claim.pod] if claim.pod else claim.users)]
            is_used = any(pod is not None and pod.node and not pod.is_over for pod in pods)
            calm = self._witness.calm_since
            if claim.devices and not is_used and calm is not None and max(calm, claim.since) < now - KEPT_S_MAX:
                claim.since = float("inf")
                where = "not there" if not any(pods) else "on no node"
                yield f"claim {key} keeps {sorted(claim.devices)}, and its pod is {where}"

    def free(self) -> dict[str, int]:
        """By node, how many are left."""
        found = dict.fromkeys(self._witness.nodes, DEVICES_OF_A_NODE)
        for claim in self.claims.values():
            for node, _ in claim.devices:
                if node in found:
                    found[node] -= 1
        return found

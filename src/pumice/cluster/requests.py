"""What a pod asks its node for, as the kubelet and kube-scheduler reckon it.

For each resource: the containers together with the sidecars, or the hungriest moment of initialisation if that is more;
pod-level resources replace the sum where they are given; overhead and one pod slot are added. Equal requests are one object.
"""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from pumice.api import meta, pods
from pumice.cluster import amounts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pumice.cluster.amounts import Amounts, MutableAmounts

# kube-scheduler's scores pretend that a container without requests uses a little, or such pods would all pile up on one node.
SCORED_CPU_MILLI = 100
SCORED_MEMORY_BYTES = 200 * 2**20
_SCORED_DEFAULTS: Amounts = {amounts.CPU: SCORED_CPU_MILLI, amounts.MEMORY: SCORED_MEMORY_BYTES}
_NO_DEFAULTS: Amounts = {}

REQUESTS_CACHED_MAX = 65_536


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Request:
    """Equal requests are the same object, so identity is equality and a dictionary look-up is cheap."""

    amounts: Amounts
    scored_cpu_milli: int
    scored_memory_bytes: int
    is_best_effort: bool  # asks for nothing but its slot


class _Asked(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """The parts of a pod that make its request; its encoding is the cache's key."""

    containers: tuple[pods.ResourceRequirements, ...]
    started_first: tuple[tuple[pods.ResourceRequirements, bool], ...] = ()  # init containers; True for a sidecar
    whole_pod: pods.ResourceRequirements | None = None
    overhead: meta.ResourceList = meta.NO_RESOURCES
    in_place: tuple[meta.ResourceList, ...] = ()  # what the kubelet has granted, where that is more
    volumes: tuple[str, ...] = ()  # drivers of counted volumes


_encode = msgspec.msgpack.Encoder(enc_hook=dict).encode  # the shared empty mapping is a read-only view
_decode = msgspec.msgpack.Decoder(_Asked).decode


def request_of(pod: pods.Pod, volume_drivers: Iterable[str] = ()) -> Request:
    """The pod's request; `volume_drivers` names the CSI driver of each volume that counts against an attach limit."""
    spec = pod.spec
    asked = _Asked(
        containers=tuple(container.resources for container in spec.containers),
        started_first=tuple((container.resources, container.is_sidecar) for container in spec.init_containers),
        whole_pod=spec.resources,
        overhead=spec.overhead,
        in_place=tuple(status.allocated_resources for status in pod.status.container_statuses),
        volumes=tuple(volume_drivers),
    )
    return _interned(_encode(asked))


@lru_cache(maxsize=REQUESTS_CACHED_MAX)
def _interned(encoded: bytes) -> Request:
    asked = _decode(encoded)
    total = _total(asked, _NO_DEFAULTS)
    scored = _total(asked, _SCORED_DEFAULTS)
    total[amounts.PODS] = amounts.MILLI
    for driver in asked.volumes:
        amounts.add(total, {f"attachable-volumes-csi-{driver}": amounts.MILLI})
    return _same_request(
        tuple(sorted((name, int(value)) for name, value in total.items() if value)),
        int(scored.get(amounts.CPU, 0)),
        int(scored.get(amounts.MEMORY, 0)),
    )


@lru_cache(maxsize=REQUESTS_CACHED_MAX)
def _same_request(total: tuple[tuple[str, int], ...], scored_cpu_milli: int, scored_memory_bytes: int) -> Request:
    asked = dict(total)
    return Request(asked, scored_cpu_milli, scored_memory_bytes, amounts.is_empty(asked))


def _total(asked: _Asked, missing: Amounts) -> MutableAmounts:
    granted = [*asked.in_place, *([meta.NO_RESOURCES] * (len(asked.containers) - len(asked.in_place)))]
    running: MutableAmounts = {}
    for container, grant in zip(asked.containers, granted, strict=False):
        amounts.add(running, _of_container(container, missing, grant))
    peak: MutableAmounts = {}
    sidecars: MutableAmounts = {}
    for container, is_sidecar in asked.started_first:
        own = _of_container(container, missing)
        if is_sidecar:
            amounts.add(sidecars, own)
            own = dict(sidecars)
        else:
            amounts.add(own, sidecars)
        peak = amounts.at_least(peak, own)
    amounts.add(running, sidecars)
    total = amounts.at_least(running, peak)
    if asked.whole_pod is not None:
        total.update(_of_container(asked.whole_pod, _NO_DEFAULTS))
    amounts.add(total, amounts.read(asked.overhead))
    return total


def _of_container(
    needs: pods.ResourceRequirements, missing: Amounts, granted: meta.ResourceList = meta.NO_RESOURCES
) -> MutableAmounts:
    """A limit without a request is the request: the API server writes it so for pods, and templates mean it so."""
    own = {**missing, **amounts.read(needs.limits), **amounts.read(needs.requests)}
    for name, value in amounts.read(granted).items():
        own[name] = max(own.get(name, 0), value)
    return own

"""What a pod asks its node for, as the kubelet and kube-scheduler reckon it.

For each resource: the containers together with the sidecars, or the hungriest moment of initialisation if that is more;
pod-level resources replace the sum where they are given; overhead and one pod slot are added. A container that is being resized
counts with the larger of its old and its new size. Equal requests are one object.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from pumice.api import meta, pods
from pumice.cluster import amounts
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pumice.cluster.amounts import Amounts, MutableAmounts

# kube-scheduler's scores pretend that a container without requests uses a little, or such pods would all pile up on one node.
SCORED_CPU_MILLI = 100
SCORED_MEMORY_BYTES = 200 * 2**20
_SCORED_DEFAULTS: Amounts = {amounts.CPU: SCORED_CPU_MILLI, amounts.MEMORY: SCORED_MEMORY_BYTES}
_NO_DEFAULTS: Amounts = {}

REQUESTS_CACHED_MAX = 65_536


class Request(Value, eq=False):
    """Equal requests are the same object, so identity is equality and a dictionary look-up is cheap."""

    amounts: Amounts
    scored_cpu_milli: int
    scored_memory_bytes: int
    is_best_effort: bool  # asks for nothing but its slot


class _Container(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    needs: pods.ResourceRequirements
    granted: tuple[
        meta.ResourceList, ...
    ] = ()  # what the kubelet has set aside and what it runs with, which may be more
    is_sidecar: bool = False


class _Asked(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """The parts of a pod that make its request; its encoding is the cache's key."""

    containers: tuple[_Container, ...]
    started_first: tuple[_Container, ...] = ()
    whole_pod: pods.ResourceRequirements | None = None
    overhead: meta.ResourceList = meta.NO_RESOURCES


_encode = msgspec.msgpack.Encoder(enc_hook=dict).encode  # the shared empty mapping is a read-only view
_decode = msgspec.msgpack.Decoder(_Asked).decode


def request_of(pod: pods.Pod) -> Request:
    spec, status = pod.spec, pod.status
    keeps_size = any(each.type == "PodResizePending" and each.reason == "Infeasible" for each in status.conditions)
    asked = _Asked(
        containers=_containers(spec.containers, status.container_statuses, keeps_size=keeps_size),
        started_first=_containers(spec.init_containers, status.init_container_statuses, keeps_size=keeps_size),
        whole_pod=spec.resources,
        overhead=spec.overhead,
    )
    return _intern(_encode(asked))


def asks_the_same(before: pods.PodStatus, after: pods.PodStatus) -> bool:
    """Whether a pod whose spec has not changed certainly asks for the same: it is not being resized."""
    if before is after:
        return True
    statuses = (
        *before.container_statuses, *before.init_container_statuses, *after.container_statuses, *after.init_container_statuses,
    )  # fmt: skip
    return before.conditions is after.conditions and not any(map(_grants, statuses))


def _containers(
    containers: Iterable[pods.Container], statuses: Iterable[pods.ContainerStatus], *, keeps_size: bool
) -> tuple[_Container, ...]:
    """Containers with what they were granted; statuses are found by name, because kubelets sort them."""
    granted = {status.name: grants for status in statuses if (grants := _grants(status))}
    return tuple(
        _Container(
            needs=pods.NO_REQUIREMENTS if keeps_size and each.name in granted else each.resources,
            granted=granted.get(each.name, ()),
            is_sidecar=each.is_sidecar,
        )
        for each in containers
    )


def _grants(status: pods.ContainerStatus) -> tuple[meta.ResourceList, ...]:
    in_use = status.resources.requests if status.resources is not None else meta.NO_RESOURCES
    return tuple(each for each in (status.allocated_resources, in_use) if each)


@lru_cache(maxsize=REQUESTS_CACHED_MAX)
def _intern(encoded: bytes) -> Request:
    asked = _decode(encoded)
    total = _total(asked, _NO_DEFAULTS)
    scored = _total(asked, _SCORED_DEFAULTS)
    total[amounts.PODS] = amounts.MILLI
    return _same_request(
        tuple(sorted((name, _clamp(value)) for name, value in total.items() if value)),
        _clamp(scored.get(amounts.CPU, 0)),
        _clamp(scored.get(amounts.MEMORY, 0)),
    )


@lru_cache(maxsize=REQUESTS_CACHED_MAX)
def _same_request(total: tuple[tuple[str, int], ...], scored_cpu_milli: int, scored_memory_bytes: int) -> Request:
    asked = dict(total)
    return Request(asked, scored_cpu_milli, scored_memory_bytes, amounts.is_empty(asked))


def _clamp(value: float) -> int:
    return min(int(value), amounts.ASKED_MAX)


def _total(asked: _Asked, missing: Amounts) -> MutableAmounts:
    running = amounts.sum_of(_of_container(container, missing) for container in asked.containers)
    peak: MutableAmounts = {}
    sidecars: MutableAmounts = {}
    for container in asked.started_first:
        own = _of_container(container, missing)
        if container.is_sidecar:
            amounts.add(sidecars, own)
            own = dict(sidecars)
        else:
            amounts.add(own, sidecars)
        peak = amounts.at_least(peak, own)
    amounts.add(running, sidecars)
    total = amounts.at_least(running, peak)
    if asked.whole_pod is not None:
        total = {**amounts.read(asked.whole_pod.limits), **total, **amounts.read(asked.whole_pod.requests)}
    amounts.add(total, amounts.read(asked.overhead))
    return total


def _of_container(container: _Container, missing: Amounts) -> MutableAmounts:
    """A limit without a request is the request: the API server writes it so for pods, and templates mean it so."""
    needs = container.needs
    own = {**missing, **amounts.read(needs.limits), **amounts.read(needs.requests)}
    for granted in container.granted:
        own = amounts.at_least(own, amounts.read(granted))
    return own


def is_guaranteed(pod: pods.Pod) -> bool:
    """True where every container has limits of CPU and memory, and asks for exactly that: the best quality of service."""
    return all(_is_bounded(each) for each in (*pod.spec.containers, *pod.spec.init_containers))


def _is_bounded(container: pods.Container) -> bool:
    limits = amounts.read(container.resources.limits)
    requests = {**limits, **amounts.read(container.resources.requests)}
    return all(limits.get(name, 0) > 0 and requests[name] == limits[name] for name in (amounts.CPU, amounts.MEMORY))

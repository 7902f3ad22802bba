"""Manifests of pretend nodes: KWOK plays their kubelets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Manifest = dict[str, Any]

PRETEND = {"kwok.x-k8s.io/node": "fake"}  # the annotation that hands a node to KWOK

CAPACITY = {"cpu": "32", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "110"}
GPU = "nvidia.com/gpu"
READY = {"type": "Ready", "status": "True", "reason": "KubeletReady"}


def pretend_node(
    name: str,
    *,
    gpus: int = 0,
    capacity: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    ready: bool = False,
) -> Manifest:
    """One node; `capacity` is laid over CAPACITY, `labels` over those that a kubelet sets; it comes up by itself, or is `ready`."""
    resources = CAPACITY | ({GPU: str(gpus)} if gpus else {}) | dict(capacity or {})
    kubelet = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": dict(PRETEND), "labels": kubelet | dict(labels or {})},
        "spec": {"taints": [dict(taint) for taint in taints]},
        "status": {"capacity": resources, "allocatable": resources, **({"conditions": [READY]} if ready else {})},
    }


def pretend_nodes(
    count: int,
    *,
    prefix: str = "node-",
    gpus: int = 0,
    capacity: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    ready: bool = False,
) -> list[Manifest]:
    """Equal nodes, named prefix0, prefix1 and so on."""
    return [
        pretend_node(f"{prefix}{i}", gpus=gpus, capacity=capacity, labels=labels, taints=taints, ready=ready)
        for i in range(count)
    ]

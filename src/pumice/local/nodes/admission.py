"""What a kubelet checks before it runs a pod: the scheduler's word is not enough, because two schedulers may share a node.

The checks, their order and their words are the kubelet's (pkg/kubelet/lifecycle/predicate.go): room first, then the node's
labels, host ports, and taints that evict. Users and controllers look for `OutOfcpu` and its siblings by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pumice.api.host_ports import HostPort, host_ports
from pumice.api.tolerations import NO_EXECUTE, tolerates
from pumice.cluster import amounts
from pumice.cluster.matching import compile_terms
from pumice.cluster.requests import request_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from pumice.api.core import Node
    from pumice.api.meta import Json
    from pumice.api.pods import Pod
    from pumice.cluster.amounts import Amounts, MutableAmounts

# In the order in which they are checked.
_BUILT_IN = (
    amounts.PODS,
    amounts.CPU,
    amounts.MEMORY,
    amounts.EPHEMERAL_STORAGE,
)


class Rejection(NamedTuple):
    """Why a pod may not run here, in a kubelet's words."""

    reason: str
    message: str

    @property
    def status(self) -> Json:
        """What the pod's status becomes."""
        return {"phase": "Failed", "reason": self.reason, "message": f"Pod was rejected: {self.message}"}


def judge(pod: Pod, node: Node, used: Amounts, ports: Collection[HostPort] = ()) -> Rejection | None:
    """The first reason for which this node, of which `used` and `ports` are taken, cannot run the pod; None if it can."""
    return _room(pod, node, used) or _labels(pod, node) or _host_ports(pod, ports) or _taints(pod, node)


def _room(pod: Pod, node: Node, used: Amounts) -> Rejection | None:
    capacity = amounts.read(node.status.allocatable)
    asked = request_of(pod).amounts
    others = sorted(asked.keys() - set(_BUILT_IN))
    for name in (*_BUILT_IN, *others):
        if name in others and "/" in name and name not in capacity:
            continue  # a resource that no node has belongs to the cluster, and the kubelet lets it pass
        requested, taken, there = asked.get(name, 0), used.get(name, 0), capacity.get(name, 0)
        if requested > 0 and requested > there - taken:
            message = (
                f"Node didn't have enough resource: {name}, requested: {_kubelet_units(name, requested)}, "
                f"used: {_kubelet_units(name, taken)}, capacity: {_kubelet_units(name, there)}"
            )
            return Rejection(f"OutOf{name}", message)
    return None


def _kubelet_units(name: str, value: float) -> int:
    """A kubelet shows thousandths of cores, and whole units of everything else."""
    is_thousandths = name != amounts.CPU and not amounts.in_bytes(name)
    return int(value) // amounts.MILLI if is_thousandths else int(value)


def _labels(pod: Pod, node: Node) -> Rejection | None:
    labels, spec = node.metadata.labels, pod.spec
    selected = all(labels.get(key) == value for key, value in spec.node_selector.items())
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if selected and affinity is not None and affinity.required is not None:
        selected = compile_terms(affinity.required).matches(labels, node_name=node.metadata.name)
    return None if selected else _rejection("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")


def _host_ports(pod: Pod, taken: Collection[HostPort]) -> Rejection | None:
    if any(mine.conflicts(other) for mine in host_ports(pod.spec) for other in taken):
        return _rejection("NodePorts", "node(s) didn't have free ports for the requested pod ports")
    return None


def _taints(pod: Pod, node: Node) -> Rejection | None:
    for taint in node.spec.taints:
        if taint.effect == NO_EXECUTE and not any(tolerates(each, taint) for each in pod.spec.tolerations):
            return _rejection("TaintToleration", "node(s) had taints that the pod didn't tolerate")
    return None


def _rejection(predicate: str, why: str) -> Rejection:
    return Rejection(predicate, f"Predicate {predicate} failed: {why}")


class Ledger:
    """What one node has given away. A pod is charged once, however often it is admitted, until it is released."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._charged: dict[str, tuple[Amounts, tuple[HostPort, ...]]] = {}  # by the pod's uid
        self._used: MutableAmounts = {}

    def __contains__(self, uid: str) -> bool:
        return uid in self._charged

    def admit(self, pod: Pod) -> Rejection | None:
        """Charges the pod, or says why it does not fit."""
        if pod.metadata.uid in self._charged:
            return None
        ports = [port for _, taken in self._charged.values() for port in taken]
        rejection = judge(pod, self.node, self._used, ports)
        if rejection is None:
            self.charge(pod)
        return rejection

    def charge(self, pod: Pod) -> None:
        """Charges a pod that runs already, fitting or not."""
        if pod.metadata.uid not in self._charged:
            asked = request_of(pod).amounts
            self._charged[pod.metadata.uid] = (asked, tuple(host_ports(pod.spec)))
            amounts.add(self._used, asked)

    def release(self, uid: str) -> None:
        """Gives back what a pod had; one that had nothing is no matter."""
        asked, _ = self._charged.pop(uid, ({}, ()))
        amounts.add(self._used, asked, times=-1)

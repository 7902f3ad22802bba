"""What the command line needs to ask the scheduler of a cluster on one machine: a lease that says where, and an account to ask as."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pumice.api import names

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMESPACE = "kube-system"
_RBAC = "rbac.authorization.k8s.io"


def manifests(address: str, *, has_record: bool = False) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each object with the path of its collection."""
    name = names.VIEWER_ACCOUNT
    rules = [
        {"apiGroups": ["scheduling.volcano.sh"], "resources": ["podgroups", "queues"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list"]},
        {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},  # for the lines that the record keeps
    ]
    subject = {"kind": "ServiceAccount", "namespace": NAMESPACE, "name": name}
    role = {"apiGroup": _RBAC, "kind": "ClusterRole", "name": name}
    yield f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", _object("v1", "ServiceAccount", name)
    yield f"/apis/{_RBAC}/v1/clusterroles", _object(f"{_RBAC}/v1", "ClusterRole", name) | {"rules": rules}
    yield (
        f"/apis/{_RBAC}/v1/clusterrolebindings",
        _object(f"{_RBAC}/v1", "ClusterRoleBinding", name) | {"roleRef": role, "subjects": [subject]},
    )
    yield _lease(names.SCHEDULER_LEASE, names.VIEW_OF_SCHEDULER, address)
    if has_record:
        yield _lease(names.CONTROLLERS_LEASE, names.VIEW_OF_CONTROLLERS, address)


def _lease(name: str, whose: str, address: str) -> tuple[str, dict[str, Any]]:
    """Without a holder: another process may take it at once."""
    lease = _object("coordination.k8s.io/v1", "Lease", name)
    lease["metadata"] |= {"annotations": {names.VIEW_ADDRESS: address}, "labels": {names.VIEW_LABEL: whose}}
    return f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases", lease | {"spec": {"holderIdentity": ""}}


def _object(version: str, kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}}

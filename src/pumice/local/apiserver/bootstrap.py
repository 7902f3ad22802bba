"""What is there from the beginning: namespaces, priority classes, the roles that people and processes expect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pumice.local.apiserver.rbac import CLUSTER_BINDINGS, CLUSTER_ROLES, GROUP

if TYPE_CHECKING:
    from pumice.local.apiserver.backend import Backend
    from pumice.local.apiserver.history import Change
    from pumice.local.apiserver.store import Object

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
ROOT_CERTIFICATE_MAP = "kube-root-ca.crt"
_READ, _WRITE = ["get", "list", "watch"], ["create", "delete", "deletecollection", "patch", "update"]
_USER_GROUPS = [
    "",
    "apps",
    "autoscaling",
    "batch",
    "policy",
    "networking.k8s.io",
    "discovery.k8s.io",
    "coordination.k8s.io",
    "events.k8s.io",
    "resource.k8s.io",
]
_VIEWED = [
    "bindings", "configmaps", "controllerrevisions", "cronjobs", "cronjobs/status", "daemonsets", "daemonsets/status", "deployments",
    "deployments/scale", "deployments/status", "endpoints", "endpointslices", "events", "horizontalpodautoscalers", "ingresses", "jobs",
    "jobs/status", "leases", "limitranges", "namespaces", "namespaces/status", "networkpolicies", "persistentvolumeclaims",
    "persistentvolumeclaims/status", "poddisruptionbudgets", "poddisruptionbudgets/status", "pods", "pods/log", "pods/status", "replicasets",
    "replicasets/scale", "replicasets/status", "replicationcontrollers", "replicationcontrollers/scale", "resourceclaims",
    "resourceclaimtemplates", "resourcequotas", "resourcequotas/status", "serviceaccounts", "services", "services/status", "statefulsets",
    "statefulsets/scale", "statefulsets/status",
]  # fmt: skip
_EDITED = [
    "configmaps", "cronjobs", "daemonsets", "deployments", "deployments/scale", "endpoints", "events", "horizontalpodautoscalers", "ingresses",
    "jobs", "leases", "networkpolicies", "persistentvolumeclaims", "poddisruptionbudgets", "pods", "pods/attach", "pods/eviction", "pods/exec",
    "pods/portforward", "pods/proxy", "replicasets", "replicasets/scale", "replicationcontrollers", "replicationcontrollers/scale",
    "resourceclaims", "resourceclaimtemplates", "secrets", "serviceaccounts", "services", "statefulsets", "statefulsets/scale",
]  # fmt: skip


def _rule(verbs: list[str], groups: list[str], resources: list[str]) -> dict[str, Any]:
    return {"verbs": verbs, "apiGroups": groups, "resources": resources}


def _aggregation_rule(label: str) -> dict[str, Any]:
    return {"clusterRoleSelectors": [{"matchLabels": {f"{GROUP}/aggregate-to-{label}": "true"}}]}


# Name -> (rules, labels, roles aggregated by label)
_ROLES: dict[str, tuple[list[dict[str, Any]], dict[str, str], str]] = {
    "cluster-admin": ([_rule(["*"], ["*"], ["*"]), {"verbs": ["*"], "nonResourceURLs": ["*"]}], {}, ""),
    "admin": ([], {}, "admin"),
    "edit": ([], {f"{GROUP}/aggregate-to-admin": "true"}, "edit"),
    "view": ([], {f"{GROUP}/aggregate-to-edit": "true"}, "view"),
    "system:aggregate-to-admin": (
        [
            _rule(["create"], ["authorization.k8s.io"], ["localsubjectaccessreviews"]),
            _rule([*_READ, *_WRITE], [GROUP], ["rolebindings", "roles"]),
        ],
        {f"{GROUP}/aggregate-to-admin": "true"},
        "",
    ),
    "system:aggregate-to-edit": (
        [
            _rule(_READ, [""], ["secrets"]),
            _rule(_WRITE, _USER_GROUPS, _EDITED),
            _rule(["create"], [""], ["pods/eviction", "serviceaccounts/token"]),
        ],
        {f"{GROUP}/aggregate-to-edit": "true"},
        "",
    ),
    "system:aggregate-to-view": ([_rule(_READ, _USER_GROUPS, _VIEWED)], {f"{GROUP}/aggregate-to-view": "true"}, ""),
    "system:discovery": (
        [
            {
                "verbs": ["get"],
                "nonResourceURLs": [
                    "/api",
                    "/api/*",
                    "/apis",
                    "/apis/*",
                    "/healthz",
                    "/livez",
                    "/openapi",
                    "/openapi/*",
                    "/readyz",
                    "/version",
                    "/version/",
                ],
            }
        ],
        {},
        "",
    ),
    "system:public-info-viewer": (
        [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/livez", "/readyz", "/version", "/version/"]}],
        {},
        "",
    ),
    "system:basic-user": (
        [
            _rule(["create"], ["authorization.k8s.io"], ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]),
            _rule(["create"], ["authentication.k8s.io"], ["selfsubjectreviews"]),
        ],
        {},
        "",
    ),
    "system:auth-delegator": (
        [
            _rule(["create"], ["authentication.k8s.io"], ["tokenreviews"]),
            _rule(["create"], ["authorization.k8s.io"], ["subjectaccessreviews"]),
        ],
        {},
        "",
    ),
    "system:node": (
        [
            _rule([*_READ, "create", "patch", "update"], [""], ["nodes", "nodes/status", "pods/status", "events"]),
            _rule([*_READ, "delete"], [""], ["pods"]),
            _rule(_READ, [""], ["configmaps", "secrets", "services", "persistentvolumeclaims", "persistentvolumes"]),
            _rule(["create", "get", "patch", "update", "delete"], ["coordination.k8s.io"], ["leases"]),
            _rule(
                _READ,
                ["storage.k8s.io", "node.k8s.io"],
                ["csidrivers", "csinodes", "runtimeclasses", "volumeattachments"],
            ),
            _rule(["create"], [""], ["serviceaccounts/token"]),
        ],
        {},
        "",
    ),
    "system:kube-scheduler": (
        [
            _rule(["create", "patch", "update"], ["", "events.k8s.io"], ["events"]),
            _rule(["create"], [""], ["bindings", "pods/binding", "pods/eviction"]),
            _rule(["delete", *_READ], [""], ["pods"]),
            _rule(["patch", "update"], [""], ["pods/status"]),
            _rule(
                _READ,
                [""],
                [
                    "nodes",
                    "namespaces",
                    "services",
                    "replicationcontrollers",
                    "persistentvolumeclaims",
                    "persistentvolumes",
                ],
            ),
            _rule(_READ, ["apps", "policy", "storage.k8s.io", "scheduling.k8s.io", "resource.k8s.io"], ["*"]),
            _rule([*_READ, *_WRITE], ["coordination.k8s.io"], ["leases"]),
        ],
        {},
        "",
    ),
}
_BOUND = (
    ("cluster-admin", "cluster-admin", ("system:masters",)),
    ("system:discovery", "system:discovery", ("system:authenticated",)),
    ("system:basic-user", "system:basic-user", ("system:authenticated",)),
    ("system:public-info-viewer", "system:public-info-viewer", ("system:authenticated", "system:unauthenticated")),
    ("system:node", "system:node", ("system:nodes",)),
)
_PRIORITIES = (("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000))


def initial_objects(address: str, port: int) -> list[tuple[str, Object]]:
    """(collection, object) of everything that a fresh server holds."""
    objects: list[tuple[str, Object]] = [("namespaces", _namespace(name)) for name in NAMESPACES]
    for name, value in _PRIORITIES:
        body = {"value": value, "preemptionPolicy": "PreemptLowerPriority"}
        objects.append(
            ("priorityclasses.scheduling.k8s.io", _object("scheduling.k8s.io/v1", "PriorityClass", name) | body)
        )
    for name, (rules, labels, aggregates) in _ROLES.items():
        role = _object(f"{GROUP}/v1", "ClusterRole", name, {f"{GROUP}/bootstrapping": "rbac-defaults"} | labels)
        role["rules"] = rules
        if aggregates:
            role["aggregationRule"] = _aggregation_rule(aggregates)
        objects.append((CLUSTER_ROLES, role))
    for name, role_name, groups in _BOUND:
        binding = _object(f"{GROUP}/v1", "ClusterRoleBinding", name, {f"{GROUP}/bootstrapping": "rbac-defaults"})
        binding["roleRef"] = {"apiGroup": GROUP, "kind": "ClusterRole", "name": role_name}
        binding["subjects"] = [{"apiGroup": GROUP, "kind": "Group", "name": group} for group in groups]
        objects.append((CLUSTER_BINDINGS, binding))
    objects.append(("services", _kubernetes_service(port)))
    objects.append(("endpoints", _kubernetes_endpoints(address, port)))
    return objects


def _object(
    api_version: str, kind: str, name: str, labels: dict[str, str] | None = None, namespace: str = ""
) -> Object:
    metadata: dict[str, Any] = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    if labels:
        metadata["labels"] = labels
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def _namespace(name: str) -> Object:
    body = {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
    return _object("v1", "Namespace", name, {"kubernetes.io/metadata.name": name}) | body


def _kubernetes_service(port: int) -> Object:
    labels = {"component": "apiserver", "provider": "kubernetes"}
    spec = {
        "type": "ClusterIP",
        "clusterIP": "10.96.0.1",
        "clusterIPs": ["10.96.0.1"],
        "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}],
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "internalTrafficPolicy": "Cluster",
        "sessionAffinity": "None",
    }
    return _object("v1", "Service", "kubernetes", labels, "default") | {"spec": spec, "status": {"loadBalancer": {}}}


def _kubernetes_endpoints(address: str, port: int) -> Object:
    subset = {"addresses": [{"ip": address}], "ports": [{"name": "https", "port": port, "protocol": "TCP"}]}
    return _object("v1", "Endpoints", "kubernetes", None, "default") | {"subsets": [subset]}


class NamespaceDefaults:
    """Every namespace gets its default service account and the map with the server's certificate, the moment it is there."""

    def __init__(self, backend: Backend, certificate: str) -> None:
        self.backend = backend
        self.certificate = certificate
        backend.store.listeners.append(self._add_defaults)

    def _add_defaults(self, change: Change) -> None:
        if change.collection != "namespaces" or change.before is not None or change.after is None:
            return
        name = change.after.name
        self.install("serviceaccounts", _object("v1", "ServiceAccount", "default", None, name))
        if self.certificate:
            data = {"data": {"ca.crt": self.certificate}}
            self.install("configmaps", _object("v1", "ConfigMap", ROOT_CERTIFICATE_MAP, None, name) | data)

    def install(self, collection: str, obj: Object) -> None:
        """Stores an object of the server's own, unless it is there already."""
        metadata = obj["metadata"]
        if self.backend.store.get(collection, metadata.get("namespace", ""), metadata["name"]) is None:
            metadata |= {"uid": self.backend.uid(), "creationTimestamp": self.backend.timestamp()}
            self.backend.store.put(collection, obj, expected=None)

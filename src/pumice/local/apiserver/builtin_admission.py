"""What the server adds or refuses by itself: namespaces must exist, pods get a priority, an account and tolerations."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

from pumice.local.apiserver import failures, pods
from pumice.local.apiserver.store import decode

if TYPE_CHECKING:
    from pumice.local.apiserver.backend import Backend
    from pumice.local.apiserver.request_parsing import Call
    from pumice.local.apiserver.store import Object

PRIORITY_CLASSES = "priorityclasses.scheduling.k8s.io"
SERVICE_NETWORK = ipaddress.ip_network("10.96.0.0/16")
_PROTECTED_NAMESPACES = frozenset({"default", "kube-system", "kube-public"})


def mutate(backend: Backend, call: Call, operation: str, obj: Object, old: Object | None) -> None:
    if operation == "CREATE" and call.resource.namespaced:
        _require_namespace(backend, call)
    collection = call.resource.collection
    if collection == "pods" and operation == "CREATE":
        _account(backend, call, obj)
        _priority(backend, obj)
        pods.tolerate_node_trouble(obj["spec"])
    elif collection == "services" and not call.subresource:
        _service_address(backend, obj, old)
    elif collection == "persistentvolumeclaims" and operation == "CREATE":
        _storage_class(backend, obj)


def validate(call: Call, operation: str) -> None:
    if operation == "DELETE" and call.resource.collection == "namespaces" and call.name in _PROTECTED_NAMESPACES:
        raise failures.forbidden("namespaces", "", call.name, "this namespace may not be deleted")
    if operation == "DELETE" and call.resource.collection == PRIORITY_CLASSES and call.name.startswith("system-"):
        raise failures.forbidden(
            "priorityclasses", call.resource.group, call.name, "this is a system priority class and cannot be deleted"
        )


def _require_namespace(backend: Backend, call: Call) -> None:
    entry = backend.store.get("namespaces", "", call.namespace)
    if entry is None:
        raise failures.not_found("namespaces", "", call.namespace)
    if entry.deleting:
        resource = call.resource
        text = f"unable to create new content in namespace {call.namespace} because it is being terminated"
        refusal = failures.forbidden(resource.plural, resource.group, call.name, text)
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {call.namespace} is being terminated",
            "field": "metadata.namespace",
        }
        refusal.details = (refusal.details or {}) | {"causes": [cause]}
        raise refusal


def _account(backend: Backend, call: Call, pod: Object) -> None:
    spec = pod["spec"]
    name = spec.get("serviceAccountName") or "default"
    if backend.store.get("serviceaccounts", call.namespace, name) is None:
        text = f'error looking up service account {call.namespace}/{name}: serviceaccount "{name}" not found'
        raise failures.forbidden("pods", "", pod["metadata"].get("name", ""), text)
    spec["serviceAccountName"] = spec["serviceAccount"] = name


def _priority(backend: Backend, pod: Object) -> None:
    spec, name = pod["spec"], pod["spec"].get("priorityClassName", "")
    chosen = backend.find(PRIORITY_CLASSES, "", name) if name else default_priority_class(backend)
    if name and chosen is None:
        raise failures.forbidden(
            "pods", "", pod["metadata"].get("name", ""), f"no PriorityClass with name {name} was found"
        )
    value, policy = 0, "PreemptLowerPriority"
    if chosen is not None:
        value, policy = chosen.get("value", 0), chosen.get("preemptionPolicy", policy)
        spec["priorityClassName"] = chosen["metadata"]["name"]
    if "priority" in spec and spec["priority"] != value:
        text = f"the integer value of priority ({spec['priority']}) must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name"
        raise failures.forbidden("pods", "", pod["metadata"].get("name", ""), text)
    spec["priority"] = value
    spec.setdefault("preemptionPolicy", policy)


def default_priority_class(backend: Backend) -> Object | None:
    """The class of pods that name none: of all that call themselves the default, the lowest."""
    entries = backend.store.collection(PRIORITY_CLASSES).entries()
    found: list[Object] = [decode(entry.body) for entry in entries if b'"globalDefault":true' in entry.body]
    return min(found, key=lambda chosen: int(chosen.get("value", 0)), default=None)


def _service_address(backend: Backend, service: Object, old: Object | None) -> None:
    spec = service["spec"]
    if old is not None and not spec.get("clusterIP") and old["spec"].get("clusterIP"):
        spec["clusterIP"], spec["clusterIPs"] = old["spec"]["clusterIP"], old["spec"].get("clusterIPs")
    if spec.get("type") == "ExternalName" or spec.get("clusterIP"):
        if spec.get("clusterIP"):
            spec["clusterIPs"] = [spec["clusterIP"]]
        return
    taken = {_address_of(entry.body) for entry in backend.store.collection("services").entries()}
    span = SERVICE_NETWORK.num_addresses - 2
    start = backend.store.version * 2_654_435_761 % span  # spreads, so that an address is not reused at once
    for step in range(span):
        address = str(SERVICE_NETWORK[1 + (start + step) % span])
        if address not in taken:
            spec["clusterIP"], spec["clusterIPs"] = address, [address]
            return
    raise failures.internal(f"no address is left in {SERVICE_NETWORK} for another service; delete some")


def _address_of(body: bytes) -> str:
    spec: dict[str, Any] = decode(body).get("spec") or {}
    address: str = spec.get("clusterIP", "")
    return address


def _storage_class(backend: Backend, claim: Object) -> None:
    if "storageClassName" in claim["spec"]:
        return
    for entry in backend.store.collection("storageclasses.storage.k8s.io").entries():
        notes = decode(entry.body)["metadata"].get("annotations") or {}
        if notes.get("storageclass.kubernetes.io/is-default-class") == "true":
            claim["spec"]["storageClassName"] = entry.name
            return

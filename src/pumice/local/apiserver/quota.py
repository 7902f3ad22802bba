"""ResourceQuota, exactly: usage is summed over the objects that stand, kept up to date by their changes, and charged at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pumice import quantity
from pumice.api.pods import ENDED
from pumice.local.apiserver import failures
from pumice.local.apiserver.store import decode

if TYPE_CHECKING:
    from pumice.local.apiserver.backend import Backend
    from pumice.local.apiserver.history import Change, Entry
    from pumice.local.apiserver.store import Object
    from pumice.local.apiserver.structures import Resource

COLLECTION = "resourcequotas"
_COUNTED = {
    "services": "services",
    "secrets": "secrets",
    "configmaps": "configmaps",
    "persistentvolumeclaims": "persistentvolumeclaims",
}
Amounts = dict[str, int]  # in thousandths


def pod_usage(pod: Object) -> Amounts:
    """What a pod takes of a quota; finished pods take nothing."""
    if (pod.get("status") or {}).get("phase") in ENDED:
        return {}
    spec = pod.get("spec") or {}
    used: Amounts = {"pods": 1000, "count/pods": 1000}
    for kind in ("requests", "limits"):
        for name, amount in _pod_amounts(spec, kind).items():
            used[f"{kind}.{name}"] = amount
            if kind == "requests" and name in {"cpu", "memory", "ephemeral-storage"}:
                used[name] = amount
    return used


def _pod_amounts(spec: dict[str, Any], kind: str) -> Amounts:
    """The larger of all containers together and any init container alone; sidecars count with the containers."""
    together: Amounts = {}
    largest: Amounts = {}
    initial = spec.get("initContainers") or []
    beside = [container for container in initial if container.get("restartPolicy") == "Always"]
    for container in [*(spec.get("containers") or ()), *beside]:
        for name, amount in ((container.get("resources") or {}).get(kind) or {}).items():
            together[name] = together.get(name, 0) + quantity.parse_milli(amount)
    for container in initial:
        for name, amount in ((container.get("resources") or {}).get(kind) or {}).items():
            largest[name] = max(largest.get(name, 0), quantity.parse_milli(amount))
    return {name: max(together.get(name, 0), largest.get(name, 0)) for name in together.keys() | largest.keys()}


def _in_scope(quota_spec: dict[str, Any], pod: Object) -> bool:
    spec = pod.get("spec") or {}
    best_effort = (pod.get("status") or {}).get("qosClass") == "BestEffort"
    terminating = spec.get("activeDeadlineSeconds") is not None
    plain = {
        "BestEffort": best_effort,
        "NotBestEffort": not best_effort,
        "Terminating": terminating,
        "NotTerminating": not terminating,
    }
    if not all(plain.get(scope, True) for scope in quota_spec.get("scopes") or ()):
        return False
    for expression in (quota_spec.get("scopeSelector") or {}).get("matchExpressions") or ():
        scope, values, name = expression["scopeName"], expression.get("values") or (), spec.get("priorityClassName", "")
        if scope != "PriorityClass":
            holds = plain.get(scope, True)
        else:
            answers = {
                "In": name in values,
                "NotIn": name not in values,
                "Exists": bool(name),
                "DoesNotExist": not name,
            }
            holds = answers.get(expression["operator"], False)
        if not holds:
            return False
    return True


class Quotas:
    """Usage of every quota that has been asked about; `_used` forgets a quota when its spec may have changed."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._used: dict[tuple[str, str], Amounts] = {}
        self._specs: dict[tuple[str, str], dict[str, Any]] = {}
        backend.store.listeners.append(self._follow)

    def _follow(self, change: Change) -> None:
        if change.collection == COLLECTION:
            entry = change.after or change.before
            assert entry is not None
            key = (entry.namespace, entry.name)
            if change.after is None or decode(change.after.body).get("spec") != self._specs.get(key):
                self._used.pop(key, None)
                self._specs.pop(key, None)
                if change.after is not None:
                    self._write(entry.namespace, entry.name)
        elif self._used and change.collection == "pods":
            self._move(change)

    def _move(self, change: Change) -> None:
        entry = change.after or change.before
        assert entry is not None
        for namespace, name in [key for key in self._used if key[0] == entry.namespace]:
            spec, used = self._specs[namespace, name], self._used[namespace, name]
            delta = _difference(self._usage_in_scope(spec, change.after), self._usage_in_scope(spec, change.before))
            for resource, amount in delta.items():
                used[resource] = used.get(resource, 0) + amount
            if any(delta.get(resource) for resource in spec.get("hard") or ()):
                self._write(namespace, name)

    def _usage_in_scope(self, spec: dict[str, Any], entry: Entry | None) -> Amounts:
        if entry is None:
            return {}
        pod = decode(entry.body)
        return pod_usage(pod) if _in_scope(spec, pod) else {}

    def _usage(self, namespace: str, name: str, spec: dict[str, Any]) -> Amounts:
        key = (namespace, name)
        if key not in self._used:
            total: Amounts = {}
            for entry in self.backend.store.collection("pods").entries(namespace):
                for resource, amount in self._usage_in_scope(spec, entry).items():
                    total[resource] = total.get(resource, 0) + amount
            self._used[key], self._specs[key] = total, spec
        counted = {
            name: 1000 * self._count(name, namespace) for name in spec.get("hard") or () if self._collection(name)
        }
        return self._used[key] | counted

    def _collection(self, resource: str) -> str:
        """The collection that a count quota counts, or nothing."""
        if resource == "count/pods":
            return ""
        return resource.removeprefix("count/") if resource.startswith("count/") else _COUNTED.get(resource, "")

    def _count(self, resource: str, namespace: str) -> int:
        return len(self.backend.store.collection(self._collection(resource)).namespaces.get(namespace, {}))

    def _write(self, namespace: str, name: str) -> None:
        """Puts hard and used into the quota's status."""
        entry = self.backend.store.get(COLLECTION, namespace, name)
        if entry is None:
            return
        quota = decode(entry.body)
        spec = quota.get("spec") or {}
        hard = spec.get("hard") or {}
        used = self._usage(namespace, name, spec)
        shown = {resource: _quantity_text(resource, used.get(resource, 0)) for resource in hard}
        status = {"hard": dict(hard), "used": shown} if hard else {}
        if quota.get("status") != status:
            quota["status"] = status
            self.backend.store.put(COLLECTION, quota, expected=entry)

    def charge(self, resource: Resource, obj: Object, *, dry_run: bool) -> None:
        """Refuses an object that its namespace's quotas do not allow."""
        namespace = obj["metadata"].get("namespace", "")
        quotas = list(self.backend.store.collection(COLLECTION).entries(namespace)) if namespace else []
        for entry in quotas:
            spec = decode(entry.body).get("spec") or {}
            hard = spec.get("hard") or {}
            if resource.collection == "pods":
                if not _in_scope(spec, obj):
                    continue
                wanted = pod_usage(obj)
                self._require_amounts(entry, hard, obj)
            else:
                wanted = {name: 1000 for name in hard if self._collection(name) == resource.collection}
            self._compare(resource, entry, obj, wanted, spec)
        if quotas and not dry_run and resource.collection != "pods":
            self._after_count(namespace, quotas)

    def _after_count(self, namespace: str, quotas: list[Entry]) -> None:
        for entry in quotas:
            self._write(namespace, entry.name)

    def _compare(self, resource: Resource, entry: Entry, obj: Object, wanted: Amounts, spec: dict[str, Any]) -> None:
        hard, used = spec.get("hard") or {}, self._usage(entry.namespace, entry.name, spec)
        short = [
            name
            for name in sorted(hard)
            if wanted.get(name) and used.get(name, 0) + wanted[name] > quantity.parse_milli(hard[name])
        ]
        if short:
            asked = ",".join(f"{name}={_quantity_text(name, wanted[name])}" for name in short)
            held = ",".join(f"{name}={_quantity_text(name, used.get(name, 0))}" for name in short)
            limit = ",".join(f"{name}={hard[name]}" for name in short)
            text = f"exceeded quota: {entry.name}, requested: {asked}, used: {held}, limited: {limit}"
            raise failures.forbidden(resource.plural, resource.group, obj["metadata"]["name"], text)

    def _require_amounts(self, entry: Entry, hard: dict[str, Any], pod: Object) -> None:
        """A quota on cpu or memory makes every container say how much it wants."""
        for name in sorted(hard):
            kind, _, resource = name.partition(".") if "." in name else ("requests", "", name)
            if resource not in {"cpu", "memory"} or kind not in {"requests", "limits"}:
                continue
            silent = [
                container["name"]
                for container in (pod["spec"].get("containers") or ())
                if resource not in ((container.get("resources") or {}).get(kind) or {})
            ]
            if silent:
                text = f"failed quota: {entry.name}: must specify {name} for: {','.join(silent)}"
                raise failures.forbidden("pods", "", pod["metadata"]["name"], text)


def _difference(after: Amounts, before: Amounts) -> Amounts:
    return {name: after.get(name, 0) - before.get(name, 0) for name in after.keys() | before.keys()}


def _quantity_text(resource: str, milli: int) -> str:
    return (
        quantity.format_bytes(milli // 1000)
        if "memory" in resource or "storage" in resource
        else quantity.format_milli(milli)
    )

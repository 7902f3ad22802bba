"""What kubectl asks first: which groups, versions and resources there are, group by group or all at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pumice.local.apiserver.registry import Registry
    from pumice.local.apiserver.structures import Resource, Subresource

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def wants_aggregated(accept: str) -> bool:
    """True if the client takes the whole of discovery in one document."""
    for choice in accept.split(","):
        given = {part.strip() for part in choice.split(";")}
        if {"application/json", "g=apidiscovery.k8s.io", "v=v2", "as=APIGroupDiscoveryList"} <= given:
            return True
    return False


def core_versions(address: str) -> dict[str, Any]:
    where = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": where}


def groups(registry: Registry) -> dict[str, Any]:
    listed = [group(registry, name) for name in registry.group_versions() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}


def group(registry: Registry, name: str) -> dict[str, Any] | None:
    versions = registry.group_versions().get(name)
    if not versions:
        return None
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def group_page(registry: Registry, name: str) -> dict[str, Any] | None:
    found = group(registry, name)
    return {"kind": "APIGroup", "apiVersion": "v1"} | found if found else None


def resources(registry: Registry, group_name: str, version: str) -> dict[str, Any] | None:
    found = [r for r in registry.all() if r.group == group_name and r.version == version]
    if not found:
        return None
    listed: list[dict[str, Any]] = []
    for resource in sorted(found, key=lambda resource: resource.plural):
        listed.append(_resource(resource))
        listed += [_subresource(resource, sub) for _, sub in sorted(resource.subresources.items())]
    api_version = f"{group_name}/{version}" if group_name else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": listed}


def _resource(resource: Resource) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    return entry


def _subresource(resource: Resource, sub: Subresource) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": f"{resource.plural}/{sub.name}",
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": sub.kind,
        "verbs": list(sub.verbs),
    }
    if (sub.group, sub.version) != (resource.group, resource.version):
        entry |= {"group": sub.group, "version": sub.version}
    return entry


def aggregated_groups(registry: Registry, *, core: bool) -> dict[str, Any]:
    """All groups with all their resources: `/api` carries the core group, `/apis` the others."""
    items = []
    for name, versions in registry.group_versions().items():
        if (not name) is not core:
            continue
        listed = [
            {"version": version, "resources": _aggregated_resources(registry, name, version), "freshness": "Current"}
            for version in versions
        ]
        items.append({"metadata": {"name": name, "creationTimestamp": None} if name else {}, "versions": listed})
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _aggregated_resources(registry: Registry, group_name: str, version: str) -> list[dict[str, Any]]:
    listed = []
    found = (r for r in registry.all() if r.group == group_name and r.version == version)
    for resource in sorted(found, key=lambda resource: resource.plural):
        entry: dict[str, Any] = {
            "resource": resource.plural,
            "responseKind": {"group": group_name, "version": version, "kind": resource.kind},
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "singularResource": resource.singular,
            "verbs": list(resource.verbs),
        }
        if resource.short_names:
            entry["shortNames"] = list(resource.short_names)
        if resource.categories:
            entry["categories"] = list(resource.categories)
        if resource.subresources:
            entry["subresources"] = [
                {
                    "subresource": sub.name,
                    "responseKind": {"group": sub.group, "version": sub.version, "kind": sub.kind},
                    "verbs": list(sub.verbs),
                }
                for _, sub in sorted(resource.subresources.items())
            ]
        listed.append(entry)
    return listed

"""Forms of one object: events of two API groups share a collection, and so do the versions of a custom kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pumice.local.apiserver.store import Object
    from pumice.local.apiserver.structures import Resource

# events.k8s.io name -> core name
_RENAMED = {
    "note": "message",
    "regarding": "involvedObject",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_NAMED_BACK = {core: new for new, core in _RENAMED.items()}


def stored_form(resource: Resource, obj: Object) -> Object:
    """As the collection keeps it: events in the core form, everything else as it comes."""
    if resource.group != "events.k8s.io":
        return obj
    core = {_RENAMED.get(key, key): value for key, value in obj.items()}
    return core | {"apiVersion": "v1"}


def served_form(resource: Resource, obj: Object) -> Object:
    """As the resource sends it."""
    if obj.get("apiVersion") == resource.api_version:
        return obj
    obj["apiVersion"] = resource.api_version
    if resource.group != "events.k8s.io":
        return obj
    return {_NAMED_BACK.get(key, key): value for key, value in obj.items()}

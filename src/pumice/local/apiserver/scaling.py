"""The scale subresource: replicas of a workload behind one small object that tools can read and write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pumice import jsonpath
from pumice.api.cells import selector_text
from pumice.local.apiserver import failures
from pumice.local.apiserver.decoding import check_types, read_typed
from pumice.local.apiserver.patches.plain import apply_merge_patch
from pumice.local.apiserver.request_parsing import media_type, read_value

if TYPE_CHECKING:
    from pumice.local.apiserver.request_parsing import Call
    from pumice.local.apiserver.store import Object
    from pumice.local.apiserver.writing import Writer

SCALE = "autoscaling.v1.Scale"
_BUILT_IN = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}


def _paths(writer: Writer, call: Call) -> dict[str, str]:
    custom = writer.backend.registry.custom(call.resource)
    return (custom.scale or {}) if custom is not None else _BUILT_IN


def _first(path: str, obj: Object) -> Any:
    found = jsonpath.find(path, obj) if path else []
    return found[0] if found else None


def scale_of(writer: Writer, call: Call, obj: Object) -> Object:
    paths, metadata = _paths(writer, call), obj["metadata"]
    status: dict[str, Any] = {"replicas": _first(paths["statusReplicasPath"], obj) or 0}
    if path := paths.get("labelSelectorPath"):
        status["selector"] = _first(path, obj) or ""
    elif selector := (obj.get("spec") or {}).get("selector"):
        status["selector"] = selector_text(selector if "matchLabels" in selector else {"matchLabels": selector})
    kept = {
        key: metadata[key]
        for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        if key in metadata
    }
    replicas = _first(paths["specReplicasPath"], obj) or 0
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": kept,
        "spec": {"replicas": replicas},
        "status": status,
    }


async def write_scale(writer: Writer, call: Call) -> Object:
    """Sets the replicas by an ordinary update of the object."""
    entry = writer.backend.entry(call.resource, call.namespace, call.name)
    obj = writer.backend.load(call.resource, entry)
    scale = scale_of(writer, call, obj)
    if call.verb == "update":
        wanted = read_typed(call.request, SCALE)
    else:
        media = media_type(call.request)
        merged = apply_merge_patch(
            scale, read_value(call.request.body, "application/json" if media.endswith("+json") else media)
        )
        wanted = check_types(merged if isinstance(merged, dict) else {}, SCALE)
    replicas = (wanted.get("spec") or {}).get("replicas", 0)
    if not isinstance(replicas, int) or replicas < 0:
        text = f"Invalid value: {replicas}: must be greater than or equal to 0"
        raise failures.invalid("Scale", "autoscaling", call.name, [("spec.replicas", "FieldValueInvalid", text)])
    changed = writer.backend.load(call.resource, entry)
    steps = _paths(writer, call)["specReplicasPath"].strip(".").split(".")
    holder = changed
    for step in steps[:-1]:
        holder = holder.setdefault(step, {})
    holder[steps[-1]] = replicas
    if version := (wanted.get("metadata") or {}).get("resourceVersion"):
        changed["metadata"]["resourceVersion"] = version
    await writer.replace(call, entry, obj, changed)
    standing = writer.backend.entry(call.resource, call.namespace, call.name)
    return scale_of(writer, call, writer.backend.load(call.resource, standing))

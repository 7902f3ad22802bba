"""PATCH: which of the four kinds of patch it is, and what it makes of the object."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from pumice.local.apiserver import decoding, failures
from pumice.local.apiserver.apply import merging
from pumice.local.apiserver.apply.layout import layout_of
from pumice.local.apiserver.patches.plain import apply_json_patch, apply_merge_patch
from pumice.local.apiserver.patches.strategic import apply_strategic_patch
from pumice.local.apiserver.request_parsing import media_type, read_value

if TYPE_CHECKING:
    from collections.abc import Callable

    from pumice.local.apiserver.request_parsing import Call
    from pumice.local.apiserver.store import Object
    from pumice.local.apiserver.writing import Writer

JSON, MERGE = "application/json-patch+json", "application/merge-patch+json"
STRATEGIC, APPLY = "application/strategic-merge-patch+json", "application/apply-patch+yaml"
APPLY_TRIES_MAX = 5


async def patch(writer: Writer, call: Call) -> tuple[bytes, bool]:
    """The object after the patch; True if an apply created it."""
    media = media_type(call.request)
    if media == APPLY:
        return await _apply(writer, call)
    body = read_value(call.request.body, "application/json" if media in {JSON, MERGE, STRATEGIC} else media)
    patched = patcher(call, media, body)
    metadata = body.get("metadata") if isinstance(body, dict) else None
    versioned = isinstance(metadata, dict) and bool(metadata.get("resourceVersion"))
    return await writer.patch(call, patched, versioned=versioned), False


def patcher(call: Call, media: str, body: Any) -> Callable[[Object], Object]:
    """What the patch does to an object."""
    if media == JSON:
        return lambda obj: apply_json_patch(obj, body)
    if media == MERGE:
        return lambda obj: _apply_merge(obj, body)
    if media == STRATEGIC and call.resource.type_name:
        return lambda obj: apply_strategic_patch(call.resource.type_name, obj, body)
    kinds = [JSON, MERGE, APPLY] + ([STRATEGIC] if call.resource.type_name else [])
    text = f"the body of the request was in an unknown format - accepted media types include: {', '.join(kinds)}"
    raise failures.Failure(415, "UnsupportedMediaType", text)


def _apply_merge(obj: Object, body: Any) -> Object:
    if not isinstance(body, dict):
        raise failures.bad_request("a merge patch must be an object")
    merged: Object = apply_merge_patch(obj, body)
    return merged


async def _apply(writer: Writer, call: Call) -> tuple[bytes, bool]:
    config = read_value(call.request.body, APPLY)
    if not isinstance(config, dict):
        raise failures.bad_request("an applied configuration must be an object")
    if not call.query.get("fieldManager"):
        cause = ("fieldManager", "FieldValueRequired", "Required value: is required for apply patch")
        raise failures.invalid("PatchOptions", "meta.k8s.io", "", [cause])
    if "apiVersion" not in config or "kind" not in config:
        raise failures.bad_request("an applied configuration must name its apiVersion and kind")
    config = decoding.admit_shape(writer.backend.registry, call, config, whole=False)
    if config["metadata"].pop("managedFields", None):
        raise failures.bad_request("metadata.managedFields must be nil")
    for left in range(APPLY_TRIES_MAX - 1, -1, -1):
        try:
            return await _apply_once(writer, call, config)
        except failures.Failure as failure:
            lost_race = failure.reason == "Conflict" and failures.STALE in failure.message
            if not lost_race or config["metadata"].get("resourceVersion") or not left:
                raise
    raise AssertionError("unreachable: the last try raises")


async def _apply_once(writer: Writer, call: Call, config: Object) -> tuple[bytes, bool]:
    backend = writer.backend
    layout = layout_of(backend.registry, call.resource)
    application = merging.Application(
        manager=call.manager,
        subresource=call.subresource,
        time=backend.timestamp(),
        force=call.flag("force"),
        has_status="status" in call.resource.subresources,
    )
    entry = backend.collection(call.resource).get(call.namespace, call.name)
    if entry is None:
        if call.subresource:
            raise call.not_found()
        if config["metadata"].pop("uid", None):
            raise failures.conflict(
                call.resource.plural, call.resource.group, call.name, "uid mismatch: the object does not exist"
            )
        created = copy.deepcopy(config)
        merging.creation(layout, created, application)
        created = decoding.admit_shape(backend.registry, call, created, tidy=True)
        return await writer.insert(call, created), True
    live = backend.load(call.resource, entry)
    merged = merging.apply_to(layout, live, config, application)
    merged = decoding.admit_shape(backend.registry, call, merged, tidy=True)
    for key in ("uid", "resourceVersion"):
        if given := config["metadata"].get(key):
            merged["metadata"][key] = given
    return await writer.replace(call, entry, live, merged, applied=True), False

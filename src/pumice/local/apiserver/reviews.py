"""AdmissionReview, the question that hooks and webhooks are asked, and how their answers are read."""

from __future__ import annotations

import base64
import binascii
import copy
from typing import TYPE_CHECKING, Any

from pumice.local.apiserver import failures
from pumice.local.apiserver.patches.plain import apply_json_patch
from pumice.local.apiserver.store import decode

if TYPE_CHECKING:
    from pumice.local.apiserver.backend import Backend
    from pumice.local.apiserver.request_parsing import Call
    from pumice.local.apiserver.store import Object

_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions", "CONNECT": ""}


def review_request(
    backend: Backend, call: Call, operation: str, obj: Object | None, old: Object | None
) -> dict[str, Any]:
    resource, caller = call.resource, call.caller
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    plural = {"group": resource.group, "version": resource.version, "resource": resource.plural}
    metadata = (obj or old or {}).get("metadata") or {}
    request: dict[str, Any] = {
        "uid": backend.uid(),
        "kind": kind,
        "resource": plural,
        "requestKind": kind,
        "requestResource": plural,
        "name": call.name or metadata.get("name", ""),
        "operation": operation,
        "userInfo": {"username": caller.name, "groups": list(caller.groups)},
        "object": obj,
        "oldObject": old,
        "dryRun": call.dry_run,
        "options": {"kind": _OPTIONS[operation], "apiVersion": "meta.k8s.io/v1"},
    }
    if caller.uid:
        request["userInfo"]["uid"] = caller.uid
    if call.namespace:
        request["namespace"] = call.namespace
    if call.subresource:
        request |= {"subResource": call.subresource, "requestSubResource": call.subresource}
    return request


def refuse(name: str, response: dict[str, Any]) -> failures.Failure:
    """The refusal that an admission webhook's answer asks for."""
    status = response.get("status") or {}
    code, message = int(status.get("code") or 403), status.get("message") or status.get("reason") or ""
    text = f'admission webhook "{name}" denied the request' + (f": {message}" if message else " without explanation")
    reason = status.get("reason") or ("Forbidden" if code == 403 else "")
    if not 400 <= code < 600:
        code, reason = 403, "Forbidden"
    return failures.Failure(code, reason, text, details=status.get("details"))


def answer_patch(name: str, response: dict[str, Any], obj: Object) -> Object | None:
    """The object after the JSON patch of an answer; None where it has none."""
    encoded = response.get("patch")
    if not encoded:
        return None
    if response.get("patchType", "JSONPatch") != "JSONPatch":
        raise failures.internal(
            f"webhook {name!r} answered with patchType {response['patchType']!r}; only JSONPatch is known"
        )
    try:
        text = base64.b64decode(encoded, validate=True) if isinstance(encoded, str) else encoded
        operations = decode(text) if isinstance(text, bytes) else text
    except (binascii.Error, ValueError) as error:
        raise failures.internal(f"webhook {name!r} answered with a patch that cannot be read: {error}") from error
    return apply_json_patch(copy.deepcopy(obj), operations)

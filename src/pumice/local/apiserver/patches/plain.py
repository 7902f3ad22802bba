"""JSON patch (RFC 6902, by jsonpatch) and merge patch (RFC 7396)."""

from __future__ import annotations

from typing import Any

import jsonpatch
import jsonpointer

from pumice.local.apiserver import failures

OPERATIONS_MAX = 10_000  # a real server's limit


def apply_json_patch(obj: dict[str, Any], operations: Any) -> dict[str, Any]:
    """The object after the operations; a test that fails or a path that is not there refuses all of them."""
    if not isinstance(operations, list):
        raise failures.bad_request("a JSON patch must be a list of operations")
    if len(operations) > OPERATIONS_MAX:
        text = f"The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {len(operations)}"
        raise failures.Failure(413, "RequestEntityTooLarge", text)
    try:
        patched = jsonpatch.apply_patch(obj, operations, in_place=True)
    except jsonpatch.InvalidJsonPatch as error:
        raise failures.bad_request(f"error decoding patch: {error}") from error
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError) as error:
        text = f"the server rejected our request due to an error in our request: {error}"
        raise failures.Failure(422, "Invalid", text) from error
    if not isinstance(patched, dict):
        raise failures.bad_request("the patch does not leave an object")
    return patched


def apply_merge_patch(value: Any, patch: Any) -> Any:
    """RFC 7396: null removes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(value) if isinstance(value, dict) else {}
    for key, change in patch.items():
        if change is None:
            merged.pop(key, None)
        else:
            merged[key] = apply_merge_patch(merged.get(key), change)
    return merged

"""From a body to an object that its kind allows: type checked, unknown fields dropped or refused, defaults filled in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.local.apiserver import builtin_schemas, failures, naming, quantities
from pumice.local.apiserver.behaviours import behaviour_of
from pumice.local.apiserver.request_parsing import read_object

if TYPE_CHECKING:
    from pumice.kube.transport import Request
    from pumice.local.apiserver.registry import Registry
    from pumice.local.apiserver.request_parsing import Call
    from pumice.local.apiserver.store import Object
    from pumice.local.apiserver.violations import Cause

UNKNOWN_FIELDS_SHOWN_MAX = 20


def admit_shape(registry: Registry, call: Call, obj: Object, *, tidy: bool = False, whole: bool = True) -> Object:
    """The object without anything that its kind does not know; what was unknown is refused, told or ignored as asked.

    `tidy` also removes the empty maps and lists of a built-in kind, which costs a walk that most bodies do not need.
    An applied configuration is not `whole`: what is required may be in the live object.
    """
    check_identity(call, obj)
    custom = registry.custom(call.resource)
    if custom is not None:
        if not builtin_schemas.fits("meta.v1.ObjectMeta", obj["metadata"]):
            obj["metadata"], findings = builtin_schemas.walk("meta.v1.ObjectMeta", obj["metadata"])
            _refuse_mistyped(call, findings)
            unknown = [f"metadata.{path}" for path in findings.unknown]
        else:
            unknown = []
        unknown += custom.schema.prune(obj)
    elif builtin_schemas.fits(call.resource.type_name, obj):
        unknown = []
    else:
        obj, findings = builtin_schemas.walk(call.resource.type_name, obj)
        _refuse_mistyped(call, findings)
        if whole:
            _refuse_missing(call, obj, findings)
        unknown = findings.unknown
    if unknown:
        _report_unknown(call, unknown)
    return builtin_schemas.without_empties(call.resource.type_name, obj) if tidy and custom is None else obj


def read_typed(request: Request, type_name: str) -> Object:
    """A body that is not stored (a Binding, options, a review), with everything in it of its type."""
    return check_types(read_object(request), type_name)


def check_types(obj: Object, type_name: str) -> Object:
    if not builtin_schemas.fits(type_name, obj):
        obj, findings = builtin_schemas.walk(type_name, obj)
        if findings.mistyped:
            path, text = findings.mistyped[0]
            raise failures.bad_request(f"{type_name.rpartition('.')[2]} cannot be read: json: {text} ({path})")
    return obj


def check_identity(call: Call, obj: Object) -> None:
    """apiVersion, kind and namespace must be those of the path, or absent."""
    resource = call.resource
    api_version, kind = obj.setdefault("apiVersion", resource.api_version), obj.setdefault("kind", resource.kind)
    if kind != resource.kind or api_version != resource.api_version:
        raise failures.bad_request(
            f"{kind} in version {str(api_version)!r} cannot be handled as a {resource.kind}: the path is for {resource.api_version}"
        )
    metadata = obj.get("metadata")
    if metadata is None:
        metadata = obj["metadata"] = {}
    if not isinstance(metadata, dict):
        raise failures.bad_request("metadata must be an object")
    if not resource.namespaced:
        metadata.pop("namespace", None)
    elif metadata.setdefault("namespace", call.namespace) != call.namespace:
        if metadata["namespace"]:
            raise failures.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        metadata["namespace"] = call.namespace
    if call.name and metadata.setdefault("name", call.name) != call.name:
        raise failures.bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({call.name})"
        )


def _refuse_mistyped(call: Call, findings: builtin_schemas.Findings) -> None:
    if findings.mistyped:
        path, text = findings.mistyped[0]
        if call.verb == "patch":  # the body was fine; what it makes of the object is not
            raise failures.invalid(
                call.resource.kind,
                call.resource.group,
                call.name,
                [(path, "FieldValueInvalid", f"Invalid value: {text}")],
            )
        raise failures.bad_request(
            f'{call.resource.kind} in version "{call.resource.version}" cannot be handled as a {call.resource.kind}: '
            f"json: {text} ({path})"
        )


# Required by the table, but filled in where it is left out.
_DEFAULTED = ("roleRef.apiGroup",)


def _refuse_missing(call: Call, obj: Object, findings: builtin_schemas.Findings) -> None:
    missing = [path for path in findings.missing if path not in _DEFAULTED]
    if missing:
        causes = [(path, "FieldValueRequired", "Required value") for path in missing]
        raise failures.invalid(call.resource.kind, call.resource.group, obj["metadata"].get("name", ""), causes)


def _report_unknown(call: Call, unknown: list[str]) -> None:
    mode = call.query.get("fieldValidation", "Warn")
    texts = [f'unknown field "{path}"' for path in unknown[:UNKNOWN_FIELDS_SHOWN_MAX]]
    if mode == "Strict":
        raise failures.bad_request(
            f'{call.resource.kind} in version "{call.resource.version}" cannot be handled as a {call.resource.kind}: '
            f"strict decoding error: {', '.join(texts)}"
        )
    if mode == "Warn":
        call.warnings += texts


def fill_defaults(registry: Registry, call: Call, obj: Object) -> None:
    custom = registry.custom(call.resource)
    if custom is not None:
        custom.schema.default(obj)
        return
    behaviour_of(call.resource.collection).default(obj)
    quantities.canonicalise(call.resource.type_name, obj)


def check(registry: Registry, call: Call, obj: Object, old: Object | None) -> None:
    """Raises 422 with everything that is wrong."""
    resource = call.resource
    causes: list[Cause] = naming.check_metadata(resource, obj["metadata"])
    custom = registry.custom(resource)
    if custom is not None:
        causes += custom.schema.validate(obj, old)
    elif obj["metadata"].get("name"):
        causes += behaviour_of(resource.collection).check(obj, old)
    if causes:
        raise failures.invalid(resource.kind, resource.group, obj["metadata"].get("name", ""), causes)

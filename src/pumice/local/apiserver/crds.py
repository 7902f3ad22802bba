"""CustomResourceDefinitions: an accepted one is served at once, a removed one takes its objects with it."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Any

from pumice import cel
from pumice.local.apiserver.schema import StructuralSchema
from pumice.local.apiserver.store import decode, encode
from pumice.local.apiserver.structures import Resource, Subresource
from pumice.values import Value

if TYPE_CHECKING:
    from pumice.local.apiserver.violations import Cause

CLEANUP = "customresourcecleanup.apiextensions.k8s.io"  # holds a definition until its objects are gone
COLLECTION = "customresourcedefinitions.apiextensions.k8s.io"
VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
SCHEMAS_KEPT_MAX = 64
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
# What a schema may not contain if pruning and defaulting are to mean anything.
_FORBIDDEN_WORDS = ("$ref", "definitions", "dependencies", "id", "patternProperties", "additionalItems")


class Column(Value):
    name: str
    type: str
    path: str
    format: str = ""
    description: str = ""
    priority: int = 0


class CustomVersion(Value):
    """One served version of a custom kind."""

    resource: Resource
    schema: StructuralSchema
    columns: tuple[Column, ...]
    has_status: bool
    scale: dict[str, str] | None
    selectable: dict[str, tuple[str, ...]]
    is_alone: bool = True  # no other version is served from the same collection


@functools.lru_cache(maxsize=SCHEMAS_KEPT_MAX)
def versions_of(body: bytes) -> tuple[CustomVersion, ...]:
    """Every version that an accepted definition serves. All share one collection, because conversion is `None`."""
    spec, found = decode(body)["spec"], []
    names, group = spec["names"], spec["group"]
    for version in spec["versions"]:
        if not version.get("served"):
            continue
        declared = version.get("subresources") or {}
        subresources = {}
        if "status" in declared:
            verbs = ("get", "patch", "update")
            subresources["status"] = Subresource("status", names["kind"], group, version["name"], verbs)
        if "scale" in declared:
            verbs = ("get", "patch", "update")
            subresources["scale"] = Subresource("scale", "Scale", "autoscaling", "v1", verbs)
        resource = Resource(
            group=group,
            version=version["name"],
            plural=names["plural"],
            singular=names.get("singular") or names["kind"].lower(),
            kind=names["kind"],
            namespaced=spec["scope"] == "Namespaced",
            verbs=VERBS,
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            subresources=subresources,
            collection=f"{names['plural']}.{group}",
        )
        found.append(
            CustomVersion(
                resource=resource,
                schema=_compiled(encode((version.get("schema") or {}).get("openAPIV3Schema") or {})),
                columns=_columns(version),
                has_status="status" in declared,
                scale=declared.get("scale"),
                selectable=_selectable(version),
                is_alone=len(spec["versions"]) == 1,
            )
        )
    return tuple(found)


@functools.lru_cache(maxsize=SCHEMAS_KEPT_MAX)
def _compiled(schema: bytes) -> StructuralSchema:
    """Kept by its text: a server that starts again, or another one in this process, need not translate it anew."""
    return StructuralSchema(decode(schema))


def _columns(version: dict[str, Any]) -> tuple[Column, ...]:
    written = version.get("additionalPrinterColumns")
    if not written:
        return (Column("Age", "date", ".metadata.creationTimestamp"),)
    return tuple(
        Column(
            column["name"],
            column["type"],
            column["jsonPath"],
            column.get("format", ""),
            column.get("description", ""),
            column.get("priority", 0),
        )
        for column in written
    )


def _selectable(version: dict[str, Any]) -> dict[str, tuple[str, ...]]:
    paths = [field["jsonPath"].lstrip(".") for field in version.get("selectableFields") or ()]
    return {path: tuple(path.split(".")) for path in paths}


def default(crd: dict[str, Any]) -> None:
    spec = crd.get("spec") or {}
    names = spec.get("names") or {}
    if isinstance(names.get("kind"), str):
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", names["kind"] + "List")
    spec.setdefault("conversion", {"strategy": "None"})
    for version in spec.get("versions") or ():
        for column in version.get("additionalPrinterColumns") or ():
            if column.get("priority") == 0:
                del column["priority"]


def accepted(crd: dict[str, Any], now: str) -> dict[str, Any]:
    """A definition as it stands in the store; `crd` is changed in place."""
    default(crd)
    crd["metadata"] |= {"generation": 1, "finalizers": [CLEANUP]}
    crd["status"] = accepted_status(crd, now)
    return crd


def validate(crd: dict[str, Any]) -> list[Cause]:
    spec, causes = crd["spec"], []
    names = spec.get("names") or {}
    expected = f"{names.get('plural')}.{spec.get('group')}"
    if crd["metadata"]["name"] != expected:
        text = f'Invalid value: "{crd["metadata"]["name"]}": must be spec.names.plural+"."+spec.group'
        causes.append(("metadata.name", "FieldValueInvalid", text))
    if not _NAME.fullmatch(str(names.get("plural", ""))):
        causes.append(
            ("spec.names.plural", "FieldValueInvalid", f'Invalid value: "{names.get("plural")}": must be a DNS label')
        )
    if spec.get("scope") not in {"Namespaced", "Cluster"}:
        text = f'Unsupported value: "{spec.get("scope")}": supported values: "Cluster", "Namespaced"'
        causes.append(("spec.scope", "FieldValueNotSupported", text))
    versions = spec.get("versions") or []
    if sum(bool(version.get("storage")) for version in versions) != 1:
        text = "Invalid value: must have exactly one version marked as storage version"
        causes.append(("spec.versions", "FieldValueInvalid", text))
    strategy = (spec.get("conversion") or {}).get("strategy", "None")
    if strategy != "None":
        text = f'Unsupported value: "{strategy}": supported values here: "None"; conversion webhooks are not called'
        causes.append(("spec.conversion.strategy", "FieldValueNotSupported", text))
    for index, version in enumerate(versions):
        causes += _validate_version(version, f"spec.versions[{index}]")
    return causes


def _validate_version(version: dict[str, Any], path: str) -> list[Cause]:
    path = f"{path}.schema.openAPIV3Schema"
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if schema is None:
        return [(path, "FieldValueRequired", "Required value: schemas are required")]
    if schema.get("type") != "object":
        return [
            (f"{path}.type", "FieldValueInvalid", f"Invalid value: {schema.get('type')!r}: must be object at the root")
        ]
    causes: list[Cause] = []
    _validate_schema(schema, path, causes)
    if not causes:
        try:
            _ = _compiled(encode(schema)).validator
        except ValueError as error:
            causes.append((path, "FieldValueInvalid", f"Invalid value: the schema cannot be compiled: {error}"))
    return causes


def _validate_schema(schema: Any, path: str, causes: list[Cause]) -> None:
    if not isinstance(schema, dict):
        return
    causes += [
        (f"{path}.{word}", "FieldValueForbidden", f"Forbidden: {word} is not supported")
        for word in _FORBIDDEN_WORDS
        if word in schema
    ]
    untyped = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if not schema.get("type") and not untyped:
        text = "Required value: must not be empty for specified object fields"
        causes.append((f"{path}.type", "FieldValueRequired", text))
    if schema.get("type") == "array" and not isinstance(schema.get("items"), dict):
        causes.append((f"{path}.items", "FieldValueRequired", "Required value: must be specified"))
    causes += _validate_rules(schema, path)
    for name, inner in (schema.get("properties") or {}).items():
        if not (path.endswith("openAPIV3Schema") and name == "metadata"):
            _validate_schema(inner, f"{path}.properties[{name}]", causes)
    for word in ("items", "additionalProperties"):
        _validate_schema(schema.get(word), f"{path}.{word}", causes)


def _validate_rules(schema: dict[str, Any], path: str) -> list[Cause]:
    causes: list[Cause] = []
    for rule in schema.get("x-kubernetes-validations") or ():
        names = ("oldSelf", "self") if "oldSelf" in rule["rule"] else ("self",)
        try:
            cel.compile_expression(rule["rule"], names)
        except cel.CelError as error:
            text = f"Invalid value: {rule['rule']!r}: compilation failed: {error}"
            causes.append((f"{path}.x-kubernetes-validations.rule", "FieldValueInvalid", text))
    return causes


def accepted_status(crd: dict[str, Any], now: str) -> dict[str, Any]:
    """The status of a definition that is served."""
    kept = {condition["type"]: condition for condition in (crd.get("status") or {}).get("conditions") or ()}
    conditions = [
        _condition("NamesAccepted", "NoConflicts", "no conflicts found", now),
        _condition("Established", "InitialNamesAccepted", "the initial names have been accepted", now),
    ]
    stored = [version["name"] for version in crd["spec"].get("versions") or () if version.get("storage")]
    return {
        "conditions": [kept.get(condition["type"], condition) for condition in conditions],
        "acceptedNames": crd["spec"].get("names") or {},
        "storedVersions": stored,
    }


def _condition(kind: str, reason: str, message: str, now: str) -> dict[str, str]:
    return {"lastTransitionTime": now, "message": message, "reason": reason, "status": "True", "type": kind}

"""OpenAPI documents from the table of kinds and the CRDs' schemas: what `kubectl explain`, `apply` and validation read."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from pumice.local.apiserver import descriptions
from pumice.local.apiserver.store import encode
from pumice.local.apiserver.structures import Field, structures

if TYPE_CHECKING:
    from pumice.local.apiserver.registry import Registry
    from pumice.local.apiserver.structures import Resource, Structure

_NAMED_SCALARS: dict[str, tuple[str, dict[str, Any]]] = {
    "quantity": ("api.resource.Quantity", {"oneOf": [{"type": "string"}, {"type": "number"}]}),
    "int-or-string": (
        "util.intstr.IntOrString",
        {"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"},
    ),
    "time": ("meta.v1.Time", {"type": "string", "format": "date-time"}),
}
_PLAIN: dict[str, dict[str, Any]] = {
    "string": {"type": "string"},
    "bytes": {"type": "string", "format": "byte"},
    "integer": {"type": "integer", "format": "int64"},
    "boolean": {"type": "boolean"},
    "number": {"type": "number", "format": "double"},
    "any": {"type": "object"},
}
_V3 = "#/components/schemas/"
_WRITE_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation")
_METHODS = {"get": "get", "list": "get", "create": "post", "update": "put", "patch": "patch", "delete": "delete"}
_PATCH_TYPES = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")
_STRATEGIC = "application/strategic-merge-patch+json"


class Documents:
    """Documents by group and version, built when asked for and kept until a CRD changes."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self._generation = -1
        self._kept: dict[str, bytes] = {}

    def _fresh(self) -> dict[str, bytes]:
        if self._generation != self.registry.generation:
            self._generation, self._kept = self.registry.generation, {}
        return self._kept

    def index(self) -> bytes:
        """/openapi/v3: where the documents are, each with a hash so that clients may keep it."""
        paths = {}
        for group, versions in self.registry.group_versions().items():
            for version in versions:
                key = f"apis/{group}/{version}" if group else f"api/{version}"
                mark = hashlib.sha256(self.v3(group, version) or b"").hexdigest()[:32].upper()
                paths[key] = {"serverRelativeURL": f"/openapi/v3/{key}?hash={mark}"}
        return encode({"paths": paths})

    def v3(self, group: str, version: str) -> bytes | None:
        kept, key = self._fresh(), f"{group}/{version}"
        if key not in kept:
            chosen = [r for r in self.registry.all() if r.group == group and r.version == version]
            if not chosen:
                return None
            paths, schemas = self._content(chosen, _V3, v3=True)
            head = {"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "v1.36.1"}}
            kept[key] = encode(head | {"paths": paths, "components": {"schemas": schemas}})
        return kept[key]

    def v2(self) -> bytes:
        kept = self._fresh()
        if "v2" not in kept:
            paths, schemas = self._content(list(self.registry.all()), "#/definitions/", v3=False)
            head = {"swagger": "2.0", "info": {"title": "Kubernetes", "version": "v1.36.1"}}
            kept["v2"] = encode(head | {"paths": paths, "definitions": schemas})
        return kept["v2"]

    def _content(self, chosen: list[Resource], prefix: str, *, v3: bool) -> tuple[dict[str, Any], dict[str, Any]]:
        paths: dict[str, Any] = {}
        schemas: dict[str, Any] = {}
        for resource in chosen:
            custom = self.registry.custom(resource)
            name = resource.type_name or _custom_name(resource)
            if custom is not None:
                schemas[name] = _custom_schema(custom.schema.schema, prefix)
                _add_structure("meta.v1.ObjectMeta", schemas, prefix)
            else:
                _add_structure(name, schemas, prefix)
            gvk = {"group": resource.group, "version": resource.version, "kind": resource.kind}
            schemas[name].setdefault("x-kubernetes-group-version-kind", []).append(gvk)
            paths |= _paths(resource, gvk, prefix + name, v3=v3)
        return paths, schemas


def _custom_name(resource: Resource) -> str:
    return ".".join(reversed(resource.group.split("."))) + f".{resource.version}.{resource.kind}"


def _custom_schema(schema: dict[str, Any], prefix: str) -> dict[str, Any]:
    properties = dict(schema.get("properties") or {})
    properties["apiVersion"] = {"type": "string"}
    properties["kind"] = {"type": "string"}
    properties["metadata"] = {"$ref": prefix + "meta.v1.ObjectMeta"}
    return schema | {"type": "object", "properties": properties}


def _add_structure(name: str, schemas: dict[str, Any], prefix: str) -> None:
    if name in schemas:
        return
    structure = structures()[name]
    schemas[name] = {}  # structures refer to themselves
    schemas[name] = _structure(name, structure, prefix)
    for field in structure.fields.values():
        if field.type_name:
            _add_structure(field.type_name, schemas, prefix)
        scalar = field.notation.lstrip("[]{}")
        if scalar in _NAMED_SCALARS:
            named, schema = _NAMED_SCALARS[scalar]
            schemas.setdefault(named, schema)


def _structure(name: str, structure: Structure, prefix: str) -> dict[str, Any]:
    properties = {
        field: _describe(_field(each, prefix), descriptions.of_field(name, field), prefix)
        for field, each in structure.fields.items()
    }
    schema = _describe({"type": "object", "properties": properties}, descriptions.of_kind(name), prefix)
    if structure.required:
        schema["required"] = list(structure.required)
    if structure.atomic:
        schema["x-kubernetes-map-type"] = "atomic"
    return schema


def _describe(schema: dict[str, Any], text: str, prefix: str) -> dict[str, Any]:
    if not text:
        return schema
    if "$ref" in schema and prefix == _V3:  # there a reference may not have neighbours; readers of v2 know no allOf
        schema = {"allOf": [schema]}
    return {"description": text} | schema


def _field(field: Field, prefix: str) -> dict[str, Any]:
    schema = _notation(field.notation, prefix)
    extensions: dict[str, Any] = {}
    if field.notation.startswith("[]"):
        extensions["x-kubernetes-list-type"] = "map" if field.keys else "set" if field.is_set else "atomic"
    if field.keys:
        extensions["x-kubernetes-list-map-keys"] = list(field.keys)
    strategies = (["merge"] if field.merge_key is not None else []) + (["retainKeys"] if field.retain_keys else [])
    if strategies:
        extensions["x-kubernetes-patch-strategy"] = ",".join(strategies)
    if field.merge_key:
        extensions["x-kubernetes-patch-merge-key"] = field.merge_key
    if field.atomic:
        extensions["x-kubernetes-map-type"] = "atomic"
    if extensions and "$ref" in schema:  # a reference may not have neighbours
        schema = {"allOf": [schema]}
    return schema | extensions


def _notation(notation: str, prefix: str) -> dict[str, Any]:
    if notation.startswith("[]"):
        return {"type": "array", "items": _notation(notation[2:], prefix)}
    if notation.startswith("{}"):
        return {"type": "object", "additionalProperties": _notation(notation[2:], prefix)}
    if notation.startswith("@"):
        return {"$ref": prefix + notation[1:]}
    if notation in _NAMED_SCALARS:
        return {"$ref": prefix + _NAMED_SCALARS[notation][0]}
    return dict(_PLAIN[notation])


def _paths(resource: Resource, gvk: dict[str, str], reference: str, *, v3: bool) -> dict[str, Any]:
    root = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
    scope = "/namespaces/{namespace}" if resource.namespaced else ""
    whole = {verb for verb in resource.verbs if verb in {"list", "create"}}
    single = {verb for verb in resource.verbs if verb in {"get", "update", "patch", "delete"}}
    found: dict[str, Any] = {}
    if whole:
        found[f"{root}{scope}/{resource.plural}"] = _operations(resource, gvk, reference, sorted(whole), v3=v3)
    if single:
        path = f"{root}{scope}/{resource.plural}/{{name}}"
        found[path] = _operations(resource, gvk, reference, sorted(single), v3=v3)
    return found


def _operations(
    resource: Resource, gvk: dict[str, str], reference: str, verbs: list[str], *, v3: bool
) -> dict[str, Any]:
    operations = {}
    for verb in verbs:
        operation: dict[str, Any] = {
            "operationId": f"{verb}_{resource.group}_{resource.version}_{resource.plural}".replace(".", "_"),
            "x-kubernetes-action": verb,
            "x-kubernetes-group-version-kind": gvk,
            "responses": {"200": _answer(reference, v3=v3)},
        }
        if verb in {"create", "update", "patch"}:
            operation["parameters"] = [_parameter(name, v3=v3) for name in _WRITE_PARAMETERS]
            kinds = _patch_types(resource) if verb == "patch" else ("application/json",)
            if v3:
                operation["requestBody"] = {"content": {kind: {"schema": {"$ref": reference}} for kind in kinds}}
            else:
                operation["consumes"] = list(kinds)
                operation["parameters"].append({"name": "body", "in": "body", "schema": {"$ref": reference}})
        operations[_METHODS[verb]] = operation
    return operations


def _patch_types(resource: Resource) -> tuple[str, ...]:
    """What kubectl reads to learn whether it may send a strategic merge patch; custom kinds have no merge keys."""
    return (*_PATCH_TYPES, _STRATEGIC) if resource.type_name else _PATCH_TYPES


def _answer(reference: str, *, v3: bool) -> dict[str, Any]:
    schema = {"schema": {"$ref": reference}}
    return {"description": "OK", "content": {"application/json": schema}} if v3 else {"description": "OK"} | schema


def _parameter(name: str, *, v3: bool) -> dict[str, Any]:
    kind = {"type": "string", "uniqueItems": True}
    return {"name": name, "in": "query"} | ({"schema": kind} if v3 else kind)

"""Derives src/pumice/local/apiserver/kinds.json, the embedded server's table of kinds, from the Kubernetes module in Go's cache.

    .venv/bin/python tools/apiserver/kinds.py ~/go/pkg/mod/k8s.io/kubernetes@v1.36.1

Only structure is taken (names, types, list and merge keys, required fields), no sentence of the descriptions.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[2] / "src/pumice/local/apiserver/kinds.json"
GROUP_VERSIONS = (
    "v1",
    "admissionregistration.k8s.io/v1",
    "apiextensions.k8s.io/v1",
    "apps/v1",
    "authentication.k8s.io/v1",
    "authorization.k8s.io/v1",
    "autoscaling/v2",
    "batch/v1",
    "coordination.k8s.io/v1",
    "discovery.k8s.io/v1",
    "events.k8s.io/v1",
    "networking.k8s.io/v1",
    "node.k8s.io/v1",
    "policy/v1",
    "rbac.authorization.k8s.io/v1",
    "resource.k8s.io/v1",
    "scheduling.k8s.io/v1",
    "scheduling.k8s.io/v1alpha2",
    "storage.k8s.io/v1",
)
# Connections into a container need a kubelet, and these kinds need a controller of their own to mean anything here.
LEFT_OUT = {
    "pods/attach",
    "pods/exec",
    "pods/portforward",
    "pods/proxy",
    "nodes/proxy",
    "services/proxy",
    "componentstatuses",
    "ipaddresses",
    "ipaddresses/status",
    "servicecidrs",
    "servicecidrs/status",
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "validatingadmissionpolicies",
    "validatingadmissionpolicies/status",
    "validatingadmissionpolicybindings",
    "volumeattributesclasses",
}
PREFIXES = (
    ("io.k8s.apimachinery.pkg.apis.", ""),
    ("io.k8s.apiextensions-apiserver.pkg.apis.", ""),
    ("io.k8s.api.", ""),
)
SCALARS = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "int-or-string",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": "time",
    "io.k8s.apimachinery.pkg.runtime.RawExtension": "any",
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": "any",
}


def short(name: str) -> str:
    for prefix, replacement in PREFIXES:
        if name.startswith(prefix):
            return replacement + name.removeprefix(prefix)
    return name


class Structures:
    """The types that the chosen kinds reach, in the table's own notation."""

    def __init__(self, definitions: dict[str, Any]) -> None:
        self.definitions = definitions
        self.found: dict[str, Any] = {}

    def reference(self, name: str) -> str:
        if name in SCALARS:
            return SCALARS[name]
        definition = self.definitions[name]
        if "properties" not in definition:
            return self.notation(definition) if definition.get("type") else "any"
        if short(name) not in self.found:
            self.found[short(name)] = None  # types refer to themselves
            self.found[short(name)] = self.structure(definition)
        return "@" + short(name)

    def notation(self, schema: dict[str, Any]) -> str:
        if "$ref" in schema:
            return self.reference(schema["$ref"].removeprefix("#/definitions/"))
        match schema.get("type"):
            case "array":
                return "[]" + self.notation(schema["items"])
            case "object" if isinstance(schema.get("additionalProperties"), dict):
                return "{}" + self.notation(schema["additionalProperties"])
            case "string" if schema.get("format") == "byte":
                return "bytes"
            case "string" | "integer" | "boolean" | "number" as scalar:
                return str(scalar)
        return "any"

    def field(self, schema: dict[str, Any]) -> Any:
        notation, traits = self.notation(schema), {}
        if schema.get("x-kubernetes-list-type") == "map":
            traits["keys"] = schema["x-kubernetes-list-map-keys"]
        if schema.get("x-kubernetes-list-type") == "set":
            traits["set"] = True
        if "merge" in schema.get("x-kubernetes-patch-strategy", ""):
            traits["merge"] = schema.get("x-kubernetes-patch-merge-key", "")
        if "retainKeys" in schema.get("x-kubernetes-patch-strategy", ""):
            traits["retain"] = True
        if schema.get("x-kubernetes-map-type") == "atomic":
            traits["atomic"] = True
        return [notation, traits] if traits else notation

    def structure(self, definition: dict[str, Any]) -> dict[str, Any]:
        fields = {name: self.field(schema) for name, schema in sorted(definition["properties"].items())}
        structure: dict[str, Any] = {"fields": fields}
        if definition.get("required"):
            structure["required"] = sorted(definition["required"])
        if definition.get("x-kubernetes-map-type") == "atomic":
            structure["atomic"] = True
        return structure


def kinds_of(definitions: dict[str, Any]) -> dict[tuple[str, str, str], str]:
    return {
        (gvk["group"], gvk["version"], gvk["kind"]): name
        for name, definition in definitions.items()
        for gvk in definition.get("x-kubernetes-group-version-kind", ())
    }


def resources(module: Path, group_version: str) -> list[dict[str, Any]]:
    name = "api__v1" if group_version == "v1" else "apis__" + group_version.replace("/", "__")
    listed: list[dict[str, Any]] = json.loads((module / f"api/discovery/{name}.json").read_text())["resources"]
    return [resource for resource in listed if resource["name"] not in LEFT_OUT]


def main(module: Path) -> None:
    definitions = json.loads((module / "api/openapi-spec/swagger.json").read_text())["definitions"]
    structures, named = Structures(definitions), kinds_of(definitions)
    table: list[dict[str, Any]] = []
    for group_version in GROUP_VERSIONS:
        group, _, version = group_version.rpartition("/")
        rows: dict[str, dict[str, Any]] = {}
        for resource in resources(module, group_version):
            plural, _, subresource = resource["name"].partition("/")
            kind = (resource.get("group", group), resource.get("version", version), resource["kind"])
            structure = structures.reference(named[kind])[1:] if kind in named else ""
            row = {"kind": resource["kind"], "verbs": resource["verbs"], "type": structure}
            if subresource:
                rows[plural].setdefault("subresources", {})[subresource] = row | {"group": kind[0], "version": kind[1]}
                continue
            rows[plural] = row | {
                "group": group,
                "version": version,
                "plural": plural,
                "singular": resource["singularName"],
                "namespaced": resource["namespaced"],
                "short": resource.get("shortNames", []),
                "categories": resource.get("categories", []),
            }
        table += rows.values()
    structures.reference("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions")
    lines = ['{"resources":[', ",\n".join(compact(row) for row in table), '],\n"types":{']
    lines.append(",\n".join(f"{compact(name)}:{compact(body)}" for name, body in sorted(structures.found.items())))
    TARGET.write_text("\n".join([*lines, "}}\n"]))


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


if __name__ == "__main__":
    main(Path(sys.argv[1]).expanduser())

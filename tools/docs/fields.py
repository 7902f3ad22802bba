"""The fields of our kinds as tables, from the schemas of the CRDs."""

from __future__ import annotations

import importlib.resources
import json
from typing import TYPE_CHECKING, Any

from pumice import yamltext
from pumice.api import kinds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

HEAD = "| field | type | default | meaning |\n| --- | --- | --- | --- |\n"
ENVELOPE = frozenset({"apiVersion", "kind", "metadata"})  # of every object
LIMITS = {"minimum": "at least", "maximum": "at most", "maxItems": "items at most", "minItems": "items at least"}
INT32_MAX = 2**31 - 1  # said by the type already

Schema = dict[str, Any]


def sections() -> Iterator[str]:
    """A section for each kind: its fields in the order of the schema, spec before status."""
    schemas = dict(_schemas())
    job = schemas["Job"]["properties"]["spec"]
    for kind in kinds.CUSTOM_KINDS:
        schema = schemas[kind.kind]
        yield f"\n## {kind.kind}\n\n{schema.get('description', '')}\n\n{HEAD}"
        for name, field in schema["properties"].items():
            if name not in ENVELOPE:
                yield from _rows(name, field, job=job if kind.kind != "Job" else None, required=False)


def _schemas() -> Iterator[tuple[str, Schema]]:
    folder = importlib.resources.files("pumice.api") / "crds"
    for file in sorted(folder.iterdir(), key=lambda each: each.name):
        for manifest in yamltext.load_all(file.read_bytes(), source=file.name):
            [version] = manifest["spec"]["versions"]
            yield manifest["spec"]["names"]["kind"], version["schema"]["openAPIV3Schema"]


def _rows(path: str, field: Schema, *, job: Schema | None, required: bool) -> Iterator[str]:
    """A row for the field, and one for each field below it; what Kubernetes or another section describes stays closed."""
    named = _known(field, job)
    yield f"| `{path}` | {named or _type(field)} | {_default(field)} | {_meaning(field, required=required)} |\n"
    if not named:
        inner, mark = _inside(field)
        must = frozenset(inner.get("required", ()))
        for name, below in inner.get("properties", {}).items():
            yield from _rows(f"{path}{mark}.{name}", below, job=job, required=name in must)


def _known(field: Schema, job: Schema | None) -> str:
    properties = field.get("properties", {})
    if "containers" in properties and "restartPolicy" in properties:
        return "PodSpec of Kubernetes"
    if {"accessModes", "storageClassName"} <= properties.keys():
        return "PersistentVolumeClaimSpec of Kubernetes"
    if properties.keys() == {"matchLabels", "matchExpressions"}:
        return "LabelSelector of Kubernetes"
    if job is not None and properties.keys() == job["properties"].keys():
        return "[spec of a Job](#job)"
    return ""


def _inside(field: Schema) -> tuple[Schema, str]:
    """The object that a field, its items or its values are, and what stands for them in a path."""
    if field.get("type") == "array":
        return field["items"], "[]"
    values = field.get("additionalProperties")
    return (values, ".*") if isinstance(values, dict) else (field, "")


def _type(field: Schema) -> str:
    if field.get("x-kubernetes-int-or-string"):
        return "quantity" if "pattern" in field else "number or string"
    if field.get("type") == "array":
        return f"list of {_type(field['items'])}"
    if isinstance(values := field.get("additionalProperties"), dict):
        return f"map to {_type(values)}"
    if field.get("format") in {"date-time", "duration"}:
        return str(field["format"])
    return str(field.get("type", "any"))


def _default(field: Schema) -> str:
    return f"`{json.dumps(field['default'])}`" if "default" in field else ""


def _meaning(field: Schema, *, required: bool) -> str:
    words = [_cell(str(field.get("description", "")))]
    if required:
        words.append("Required.")
    if choices := _choices(field):
        words.append(f"One of {choices}.")
    limits = [f"{word} {field[key]}" for key, word in LIMITS.items() if field.get(key) not in {None, INT32_MAX}]
    if limits:
        words.append(f"{', '.join(limits).capitalize()}.")
    return " ".join(word for word in words if word)


def _choices(field: Mapping[str, Any]) -> str:
    found = field.get("enum") or field.get("items", {}).get("enum") or ()
    return ", ".join(f"`{each}`" if each != "" else "nothing" for each in found)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")

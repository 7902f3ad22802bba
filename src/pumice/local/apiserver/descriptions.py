"""What fields of built-in kinds are for, in the words that our own CRDs use of pods: `kubectl explain pod` prints them."""

from __future__ import annotations

import functools
from importlib import resources
from typing import TYPE_CHECKING, Any

from pumice import yamltext
from pumice.local.apiserver.structures import structures

if TYPE_CHECKING:
    from collections.abc import Mapping

_TEMPLATE = "core.v1.PodTemplateSpec"
# Of every kind, and of what a template has not.
_EVERYWHERE = {
    "apiVersion": "Group and version of the kind.",
    "kind": "The kind of the object.",
    "metadata": "Name, labels and the like.",
    "spec": "What is wanted.",
    "status": "How it stands; written by the cluster.",
}
_KINDS = {
    "core.v1.Pod": "Containers that run together on one node.",
    "core.v1.PodSpec": "What a pod runs, and where it may run.",
    "core.v1.Container": "A program of a pod, in an image of its own.",
    "core.v1.Node": "A machine that runs pods.",
    "core.v1.ConfigMap": "Configuration that pods may read.",
    "core.v1.Secret": "Configuration that few may read.",
    "core.v1.Service": "A stable name and address for pods.",
    "core.v1.Event": "Something that happened to an object.",
    "core.v1.Namespace": "A part of the cluster whose names are its own.",
}
_METADATA = {
    "name": "Name, unique among the objects of its kind and namespace.",
    "generateName": "Beginning of a name that the server completes.",
    "namespace": "The namespace that the object is in.",
    "labels": "Marks by which objects are chosen.",
    "annotations": "Notes that programs leave; nothing is chosen by them.",
    "uid": "Tells this object from earlier ones of the same name.",
    "resourceVersion": "Changes with every write.",
    "generation": "Counts the changes of what is wanted.",
    "creationTimestamp": "When it was made.",
    "deletionTimestamp": "When it will be, or should have been, gone.",
    "deletionGracePeriodSeconds": "Time that it has to end in.",
    "ownerReferences": "What it belongs to, and goes with.",
    "finalizers": "Who has to agree before it is gone.",
    "managedFields": "Who wrote which field last.",
}


def of_kind(name: str) -> str:
    return _KINDS.get(name, "")


def of_field(structure: str, field: str) -> str:
    """What a field of a structure is for; empty where nothing was written of it."""
    if structure == "meta.v1.ObjectMeta":
        return _METADATA.get(field, "")
    return _written().get((structure, field)) or _EVERYWHERE.get(field, "")


@functools.cache
def _written() -> Mapping[tuple[str, str], str]:
    """What the Job's CRD says of a pod template, by structure and field."""
    file = resources.files("pumice.api") / "crds" / "batch.volcano.sh_jobs.yaml"
    (crd,) = yamltext.load_all(file.read_bytes(), source=file.name)
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    found: dict[tuple[str, str], str] = {}
    _collect(_TEMPLATE, spec["properties"]["tasks"]["items"]["properties"]["template"], found)
    return found


def _collect(structure: str, schema: Mapping[str, Any], found: dict[tuple[str, str], str]) -> None:
    """Walk the CRD's schema and the built-in structure side by side; a schema has an end, so the walk has one."""
    for name, field in structures()[structure].fields.items():
        written = (schema.get("properties") or {}).get(name)
        if written is None:
            continue
        if text := written.get("description"):
            found.setdefault((structure, name), text)
        if field.type_name:
            inner = written.get("items") or written.get("additionalProperties") or written
            _collect(field.type_name, inner if isinstance(inner, dict) else {}, found)

"""Metadata that every kind shares: names, labels, annotations, owners."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pumice import selectors

if TYPE_CHECKING:
    from pumice.local.apiserver.structures import Resource
    from pumice.local.apiserver.violations import Cause

NAME_CHARS_MAX = 253
LABEL_CHARS_MAX = 63
ANNOTATIONS_BYTES_MAX = 256 * 2**10

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LABELLED = frozenset({"namespaces", "services"})
_FREE_GROUPS = frozenset({"rbac.authorization.k8s.io"})

LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an "
    "alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


def name_problem(resource: Resource, name: str) -> str:
    """Why an object of this kind cannot bear the name, or ""."""
    if resource.group in _FREE_GROUPS:
        return (
            "may not be '.' or '..', or contain '/' or '%'" if name in {".", ".."} or "/" in name or "%" in name else ""
        )
    if resource.collection in _LABELLED:
        if len(name) > LABEL_CHARS_MAX:
            return f"must be no more than {LABEL_CHARS_MAX} characters"
        return "" if _LABEL.fullmatch(name) else LABEL_RULE
    if len(name) > NAME_CHARS_MAX:
        return f"must be no more than {NAME_CHARS_MAX} characters"
    return "" if selectors.SUBDOMAIN.fullmatch(name) else SUBDOMAIN_RULE


def is_label(text: str) -> bool:
    return len(text) <= LABEL_CHARS_MAX and _LABEL.fullmatch(text) is not None


def is_subdomain(text: str) -> bool:
    return len(text) <= NAME_CHARS_MAX and selectors.SUBDOMAIN.fullmatch(text) is not None


def check_metadata(resource: Resource, metadata: dict[str, Any]) -> list[Cause]:
    causes: list[Cause] = []
    name = metadata.get("name", "")
    if not name:
        causes.append(("metadata.name", "FieldValueRequired", "Required value: name or generateName is required"))
    elif problem := name_problem(resource, name):
        causes.append(("metadata.name", "FieldValueInvalid", f'Invalid value: "{name}": {problem}'))
    labels = metadata.get("labels")
    if labels:
        causes += check_labels(labels, "metadata.labels")
    annotations = metadata.get("annotations")
    if annotations:
        causes += _check_annotations(annotations)
    for index, reference in enumerate(metadata.get("ownerReferences") or ()):
        causes += _check_owner(reference, f"metadata.ownerReferences[{index}]")
    owners = [reference for reference in metadata.get("ownerReferences") or () if reference.get("controller")]
    if len(owners) > 1:
        text = "Invalid value: Only one reference can have Controller set to true"
        causes.append(("metadata.ownerReferences", "FieldValueInvalid", text))
    return causes


def check_labels(labels: dict[str, Any], path: str) -> list[Cause]:
    causes: list[Cause] = []
    for key, value in labels.items():
        if problem := selectors.label_key_problem(key):
            causes.append((path, "FieldValueInvalid", f'Invalid value: "{key}": {problem}'))
        if problem := selectors.label_value_problem(value):
            causes.append((path, "FieldValueInvalid", f'Invalid value: "{value}": {problem}'))
    return causes


def _check_annotations(annotations: dict[str, Any]) -> list[Cause]:
    causes: list[Cause] = []
    size = 0
    for key, value in annotations.items():
        size += len(key) + len(value)
        if problem := selectors.label_key_problem(key.lower()):
            causes.append(("metadata.annotations", "FieldValueInvalid", f'Invalid value: "{key}": {problem}'))
    if size > ANNOTATIONS_BYTES_MAX:
        text = f"Too long: may not be more than {ANNOTATIONS_BYTES_MAX} bytes"
        causes.append(("metadata.annotations", "FieldValueTooLong", text))
    return causes


def _check_owner(reference: dict[str, Any], path: str) -> list[Cause]:
    return [
        (f"{path}.{field}", "FieldValueInvalid", f'Invalid value: "": {field} must not be empty')
        for field in ("apiVersion", "kind", "name", "uid")
        if not reference.get(field)
    ]

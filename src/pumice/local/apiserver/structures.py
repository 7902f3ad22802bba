"""What built-in objects look like: the table that tools/apiserver/kinds.py derives, read into small frozen values.

A notation is "string", "integer", "boolean", "number", "bytes", "quantity", "int-or-string", "time", "any",
"@type", "[]" + notation or "{}" + notation.
"""

from __future__ import annotations

import functools
import json
from importlib import resources as files
from typing import TYPE_CHECKING, Any

import msgspec

from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Mapping


class Field(Value):
    """One field: how it is written, how apply owns it (`keys`, `is_set`, `atomic`) and how a strategic patch merges it."""

    notation: str
    keys: tuple[str, ...] = ()
    is_set: bool = False
    merge_key: str | None = None  # "" merges a list of scalars, None replaces
    retain_keys: bool = False
    atomic: bool = False

    @property
    def type_name(self) -> str:
        """The structure at the end of the notation, or "" for scalars."""
        _, found, name = self.notation.partition("@")
        return name if found else ""


class Structure(Value):
    fields: Mapping[str, Field]
    required: tuple[str, ...] = ()
    atomic: bool = False


class Subresource(Value):
    name: str
    kind: str
    group: str
    version: str
    verbs: tuple[str, ...]
    type_name: str = ""


class Resource(Value):
    """A kind as the API serves it. Two resources may share one `collection` (events of both groups do)."""

    group: str
    version: str
    plural: str
    singular: str
    kind: str
    namespaced: bool
    verbs: tuple[str, ...]
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: Mapping[str, Subresource] = msgspec.field(default_factory=dict)
    type_name: str = ""  # "" for custom kinds
    collection: str = ""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def list_kind(self) -> str:
        return self.kind + "List"


@functools.cache
def _document() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(
        files.files("pumice.local.apiserver").joinpath("kinds.json").read_text("utf-8")
    )
    return document


def _field(written: str | list[Any]) -> Field:
    if isinstance(written, str):
        return Field(written)
    notation, traits = written
    return Field(
        notation,
        keys=tuple(traits.get("keys", ())),
        is_set=traits.get("set", False),
        merge_key=traits.get("merge"),
        retain_keys=traits.get("retain", False),
        atomic=traits.get("atomic", False),
    )


@functools.cache
def structures() -> Mapping[str, Structure]:
    """Every built-in structure by its short name, such as "core.v1.PodSpec"."""
    return {
        name: Structure(
            {key: _field(written) for key, written in body["fields"].items()},
            tuple(body.get("required", ())),
            body.get("atomic", False),
        )
        for name, body in _document()["types"].items()
    }


# Kinds that two group-versions serve from one collection; the collection holds objects as the first one writes them.
_SHARED = {("events.k8s.io", "v1", "events"): "events"}


@functools.cache
def built_in_resources() -> tuple[Resource, ...]:
    found = []
    for row in _document()["resources"]:
        group, version, plural = row["group"], row["version"], row["plural"]
        subresources = {
            name: Subresource(name, sub["kind"], sub["group"], sub["version"], tuple(sub["verbs"]), sub["type"])
            for name, sub in row.get("subresources", {}).items()
        }
        found.append(
            Resource(
                group=group,
                version=version,
                plural=plural,
                singular=row["singular"],
                kind=row["kind"],
                namespaced=row["namespaced"],
                verbs=tuple(row["verbs"]),
                short_names=tuple(row["short"]),
                categories=tuple(row["categories"]),
                subresources=subresources,
                type_name=row["type"],
                collection=_SHARED.get((group, version, plural), f"{plural}.{group}" if group else plural),
            )
        )
    return tuple(found)

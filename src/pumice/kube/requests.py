"""What requests look like on every API server: paths, queries and the small bodies that the server itself defines."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from pumice.api.kinds import Kind, by_struct
from pumice.api.meta import Json, Struct
from pumice.errors import BadInput
from pumice.kube.errors import TooLarge
from pumice.kube.transport import BODY_BYTES_MAX

Body: TypeAlias = Mapping[str, Any] | Sequence[Any] | bytes  # bytes are JSON already
KindLike: TypeAlias = Kind | type[Struct]


class PatchType(enum.Enum):
    """How a patch's body is to be understood; apply() is the fourth way."""

    JSON = "application/json-patch+json"  # a list of operations (RFC 6902)
    MERGE = "application/merge-patch+json"  # nulls delete, lists are replaced (RFC 7396)
    STRATEGIC = "application/strategic-merge-patch+json"  # lists merge by key; built-in kinds only


class Propagation(enum.Enum):
    """What becomes of the objects that a deleted one owns."""

    BACKGROUND = "Background"  # they are deleted afterwards
    FOREGROUND = "Foreground"  # they are deleted first
    ORPHAN = "Orphan"  # they stay


def collection_path(kind: KindLike, namespace: str = "") -> str:
    """Where all objects of a kind are found, in one namespace or in all of them."""
    if not isinstance(kind, Kind):
        kind = by_struct(kind)
    where = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    if namespace and kind.namespaced:
        where = f"{where}/namespaces/{_segment(namespace)}"
    return f"{where}/{kind.plural}"


def object_path(kind: KindLike, namespace: str, name: str, subresource: str = "") -> str:
    """Where one object, or a part of it, is found."""
    where = f"{collection_path(kind, namespace)}/{_segment(name)}"
    return f"{where}/{subresource}" if subresource else where


def _segment(name: str) -> str:
    """The name, unless it would lead elsewhere: a deleted object without a name would be the whole collection."""
    if not name:
        raise BadInput("an object without a name cannot be asked for; give its name")
    if "/" in name or "%" in name or name in {".", ".."}:
        raise BadInput(
            f"{name!r} cannot be the name of an object: it holds a slash or a percent sign, or only dots; correct the name"
        )
    return name


def query(**parts: str | int | None) -> dict[str, str]:
    """A query of what was given; True is `true`, and what is empty, None or False is left out."""
    return {
        key: "true" if value is True else str(value)
        for key, value in parts.items()
        if value or (value == 0 and key == "tailLines")
    }


def write_query(field_manager: str, *, dry_run: bool, strict: bool = False) -> dict[str, str]:
    if not field_manager and not dry_run and not strict:
        return {}
    return query(
        fieldManager=field_manager, dryRun="All" if dry_run else "", fieldValidation="Strict" if strict else ""
    )


def preconditions(uid: str, resource_version: str) -> dict[str, str]:
    return {key: value for key, value in (("uid", uid), ("resourceVersion", resource_version)) if value}


def delete_options(propagation: Propagation | None, grace_s: int | None, preconditions: Json, *, dry_run: bool) -> Json:
    options: Json = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if propagation is not None:
        options["propagationPolicy"] = propagation.value
    if grace_s is not None:
        options["gracePeriodSeconds"] = grace_s
    if preconditions:
        options["preconditions"] = preconditions
    if dry_run:
        options["dryRun"] = ["All"]
    return options


def encode(body: Body | None, where: str) -> bytes:
    if body is None:
        return b""
    encoded = body if isinstance(body, bytes) else msgspec.json.encode(body)
    if len(encoded) > BODY_BYTES_MAX:
        raise TooLarge(
            f"{where}: the object has {len(encoded)} bytes, and API servers take {BODY_BYTES_MAX}; make it smaller"
        )
    return encoded

"""In which form the client wants its answer: plain objects, tables for people, or metadata alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pumice.local.apiserver.store import decode, encode
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pumice.local.apiserver.backend import Backend
    from pumice.local.apiserver.structures import Resource
    from pumice.local.apiserver.tables import TableMaker

ACCEPT_CHARS_MAX = 4_096


class Form(Value):
    """`kind` is "", "Table" or "PartialObjectMetadata"."""

    kind: str = ""
    version: str = "v1"

    @property
    def content_type(self) -> str:
        if not self.kind:
            return "application/json"
        return f"application/json;as={self.kind};v={self.version};g=meta.k8s.io"


PLAIN = Form()


def negotiate(accept: str) -> Form:
    """The first form in an Accept header that this server can give."""
    if "as=" not in accept:
        return PLAIN
    for choice in accept[:ACCEPT_CHARS_MAX].split(","):
        media, *parameters = [part.strip() for part in choice.split(";")]
        if media not in {"application/json", "*/*", "application/*"}:
            continue
        given = dict(parameter.split("=", 1) for parameter in parameters if "=" in parameter)
        kind = given.get("as", "")
        if not kind:
            return PLAIN
        if given.get("g") == "meta.k8s.io" and given.get("v") in {"v1", "v1beta1"}:
            if kind in {"Table", "PartialObjectMetadata"}:
                return Form(kind, given["v"])
            if kind == "PartialObjectMetadataList":
                return Form("PartialObjectMetadata", given["v"])
    return PLAIN


class Renderer:
    """Turns stored bodies into answers of one form for one resource."""

    def __init__(self, backend: Backend, resource: Resource, form: Form, tables: TableMaker, include: str) -> None:
        self.resource = resource
        self.form = form
        self._tables = tables
        self._include = include
        self._convert: Callable[[bytes], bytes] | None = backend.render(resource)

    def one(self, body: bytes) -> bytes:
        if self.form.kind == "Table":
            return self.table([body], {"resourceVersion": _version(body)})
        if self._convert is not None:
            body = self._convert(body)
        return _metadata_only(body, self.form.version) if self.form.kind else body

    def many(self, bodies: Iterable[bytes], metadata: dict[str, Any]) -> bytes:
        if self.form.kind == "Table":
            return self.table(bodies, metadata)
        if self._convert is not None:
            bodies = map(self._convert, bodies)
        kind, api_version = self.resource.list_kind, self.resource.api_version
        if self.form.kind:
            bodies = [_metadata_only(body, self.form.version) for body in bodies]
            kind, api_version = "PartialObjectMetadataList", f"meta.k8s.io/{self.form.version}"
        head = encode({"kind": kind, "apiVersion": api_version, "metadata": metadata})
        return head[:-1] + b',"items":[' + b",".join(bodies) + b"]}"

    def table(self, bodies: Iterable[bytes], metadata: dict[str, Any], *, headed: bool = True) -> bytes:
        objects = [decode(body) for body in bodies]
        table = self._tables.table(self.resource, objects, include=self._include, version=self.form.version)
        if not headed:
            table["columnDefinitions"] = None
        return encode(table | {"metadata": metadata})

    def for_watch(self) -> Callable[[bytes], bytes]:
        """Renders one event's object; of a table's rows only the first brings the column headings."""
        if self.form.kind != "Table":
            return self.one if self.form.kind or self._convert else _same
        headed = True

        def render(body: bytes) -> bytes:
            nonlocal headed
            row = self.table([body], {"resourceVersion": _version(body)}, headed=headed)
            headed = False
            return row

        return render

    def bookmark(self, version: int, *, initial_end: bool) -> bytes:
        metadata: dict[str, Any] = {"resourceVersion": str(version)}
        if initial_end:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        if self.form.kind == "Table":
            marker = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
            table = self._tables.table(self.resource, [], include="None", version=self.form.version)
            return encode(
                table | {"metadata": {"resourceVersion": str(version)}, "rows": [{"cells": [], "object": marker}]}
            )
        kind, api_version = self.resource.kind, self.resource.api_version
        if self.form.kind:
            kind, api_version = "PartialObjectMetadata", f"meta.k8s.io/{self.form.version}"
        return encode({"kind": kind, "apiVersion": api_version, "metadata": metadata})


def _same(body: bytes) -> bytes:
    return body


def _version(body: bytes) -> str:
    version: str = decode(body)["metadata"].get("resourceVersion", "")
    return version


def _metadata_only(body: bytes, version: str) -> bytes:
    metadata = decode(body)["metadata"]
    return encode({"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{version}", "metadata": metadata})

"""Tables: what `kubectl get` prints, computed here as a real server does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pumice import jsonpath
from pumice.api import cells
from pumice.local.apiserver import workload_cells

if TYPE_CHECKING:
    from pumice.local.apiserver.backend import Backend
    from pumice.local.apiserver.crds import Column
    from pumice.local.apiserver.store import Object
    from pumice.local.apiserver.structures import Resource

_NAME = {"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0}


_PRINTERS = cells.CORE | workload_cells.PRINTERS


class TableMaker:
    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    def table(self, resource: Resource, objects: list[Object], *, include: str, version: str) -> dict[str, Any]:
        custom = self.backend.registry.custom(resource)
        if custom is not None:
            heads = [_NAME, *map(_custom_head, custom.columns)]
            rows = [
                [obj["metadata"]["name"], *(self._custom_cell(column, obj) for column in custom.columns)]
                for obj in objects
            ]
        else:
            printer = _PRINTERS.get(resource.collection, cells.DEFAULT)
            heads = [_head(name) for name in printer.columns]
            rows = [printer.cells(obj, self.backend.now()) for obj in objects]
        return {
            "kind": "Table",
            "apiVersion": f"meta.k8s.io/{version}",
            "metadata": {},
            "columnDefinitions": heads,
            "rows": [_row(row, obj, include, version) for row, obj in zip(rows, objects, strict=True)],
        }

    def _custom_cell(self, column: Column, obj: Object) -> Any:
        found = jsonpath.find(column.path, obj)
        if not found or found[0] is None:
            return None
        if column.type == "date":
            return cells.age(found[0], self.backend.now())
        if column.type in _EXPECTED and not (
            isinstance(found[0], _EXPECTED[column.type]) and not _is_bool_as_int(column, found[0])
        ):
            return None
        if column.type == "string" and len(found) > 1:
            return ",".join(cells.text(value) for value in found)
        return cells.text(found[0]) if column.type == "string" else found[0]


_EXPECTED: dict[str, tuple[type, ...]] = {"integer": (int,), "number": (int, float), "boolean": (bool,)}


def _is_bool_as_int(column: Column, value: Any) -> bool:
    return column.type != "boolean" and isinstance(value, bool)


def _custom_head(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }


def _head(name: str) -> dict[str, Any]:
    if name == "Name":
        return _NAME
    wide, name = name.startswith("+"), name.removeprefix("+")
    form = "name" if name == "Name" else ""
    return {"name": name, "type": "string", "format": form, "description": "", "priority": int(wide)}


def _row(row: list[Any], obj: Object, include: str, version: str) -> dict[str, Any]:
    if include == "None":
        return {"cells": row}
    if include == "Object":
        return {"cells": row, "object": obj}
    partial = {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{version}", "metadata": obj["metadata"]}
    return {"cells": row, "object": partial}

"""How apply sees an object: which parts are owned whole, and which lists are really maps or sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pumice.local.apiserver.structures import Field, structures
from pumice.values import Value

if TYPE_CHECKING:
    from pumice.local.apiserver.registry import Registry
    from pumice.local.apiserver.structures import Resource

# Keys of list-maps that a writer may leave out, because they have a default.
_KEY_DEFAULTS = {"protocol": "TCP"}


class Layout(Value):
    """One place in an object. Either `field` (built-in) or `schema` (custom) says what is there; neither: deduced."""

    field: Field | None = None
    schema: dict[str, Any] | None = None
    root: bool = False

    def kind(self, value: Any) -> str:
        """One of map, keyed, set and whole; the last is owned as one."""
        if isinstance(value, dict):
            return "whole" if self._atomic_map() else "map"
        if isinstance(value, list):
            return "keyed" if self.keys() else "set" if self._is_set() else "whole"
        return "whole"

    def keys(self) -> tuple[str, ...]:
        if self.field is not None:
            return self.field.keys
        if self.schema is not None and self.schema.get("x-kubernetes-list-type") == "map":
            return tuple(self.schema.get("x-kubernetes-list-map-keys") or ())
        return ()

    def _is_set(self) -> bool:
        if self.field is not None:
            return self.field.is_set
        return self.schema is not None and self.schema.get("x-kubernetes-list-type") == "set"

    def _atomic_map(self) -> bool:
        if self.field is not None:
            name = self.field.notation.removeprefix("@") if self.field.notation.startswith("@") else ""
            return self.field.atomic or self.field.notation == "any" or bool(name and structures()[name].atomic)
        return self.schema is not None and self.schema.get("x-kubernetes-map-type") == "atomic"

    def child(self, key: str) -> Layout:
        if self.field is not None:
            notation = self.field.notation
            if notation.startswith("@"):
                return Layout(structures()[notation[1:]].fields.get(key))
            return Layout(Field(notation[2:])) if notation.startswith("{}") else Layout()
        if self.schema is None:
            return Layout()
        if self.root and key == "metadata":
            return Layout(Field("@meta.v1.ObjectMeta"))
        properties, additional = self.schema.get("properties") or {}, self.schema.get("additionalProperties")
        inner = properties.get(key, additional if isinstance(additional, dict) else None)
        return Layout(schema=inner)

    def item(self) -> Layout:
        if self.field is not None:
            return Layout(Field(self.field.notation[2:]))
        items = (self.schema or {}).get("items")
        return Layout(schema=items if isinstance(items, dict) else None)

    def key_of(self, item: Any) -> tuple[tuple[str, Any], ...]:
        """What tells an item of a keyed list from the others."""
        if not isinstance(item, dict):
            return ()
        properties = ((self.schema or {}).get("items") or {}).get("properties") or {}
        found = []
        for key in sorted(self.keys()):
            fallback = properties.get(key, {}).get("default", _KEY_DEFAULTS.get(key) if self.field else None)
            value = item.get(key, fallback)
            if value is not None:
                found.append((key, value))
        return tuple(found)


def layout_of(registry: Registry, resource: Resource) -> Layout:
    custom = registry.custom(resource)
    if custom is not None:
        return Layout(schema=custom.schema.schema, root=True)
    return Layout(Field("@" + resource.type_name))

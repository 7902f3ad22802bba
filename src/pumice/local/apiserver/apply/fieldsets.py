"""Sets of fields, as paths of FieldsV1 elements: `f:name`, `k:{"name":"web"}`, `v:"value"`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pumice.local.apiserver.apply.layout import Layout

Path = tuple[str, ...]
FieldSet = set[Path]

# What no manager owns: identity, and what the server itself writes.
_UNOWNED_ROOT = {"f:apiVersion", "f:kind"}
_UNOWNED_METADATA = {
    "f:name",
    "f:namespace",
    "f:uid",
    "f:resourceVersion",
    "f:creationTimestamp",
    "f:deletionTimestamp",
    "f:deletionGracePeriodSeconds",
    "f:selfLink",
    "f:generation",
    "f:managedFields",
}


def element_of(layout: Layout, item: Any) -> str:
    return "k:" + json.dumps(dict(layout.key_of(item)), separators=(",", ":"))


def value_element(item: Any) -> str:
    return "v:" + json.dumps(item, separators=(",", ":"))


def fields_of(layout: Layout, obj: dict[str, Any]) -> FieldSet:
    """Every field that the object sets, without those that no manager owns."""
    found: FieldSet = set()
    _collect(layout, obj, (), found)
    return {path for path in found if not _is_unowned(path)}


def _is_unowned(path: Path) -> bool:
    if path[0] in _UNOWNED_ROOT or path == ("f:metadata",):
        return True
    return len(path) > 1 and path[0] == "f:metadata" and path[1] in _UNOWNED_METADATA


def _collect(layout: Layout, value: Any, path: Path, found: FieldSet) -> None:
    kind = layout.kind(value)
    if kind == "map":
        if not value and path:
            found.add(path)
        for key, item in value.items():
            _collect(layout.child(key), item, (*path, "f:" + key), found)
    elif kind == "keyed":
        if not value:
            found.add(path)
        for item in value:
            step = (*path, element_of(layout, item))
            found.add(step)
            _collect(layout.item(), item, step, found)
    elif kind == "set":
        if not value:
            found.add(path)
        found.update((*path, value_element(item)) for item in value)
    else:
        found.add(path)


def nodes_of(layout: Layout, obj: dict[str, Any]) -> FieldSet:
    """Maps and lists that have something in them, by their own paths: a manager that adds a whole one owns it as such, too."""
    found: FieldSet = set()
    _collect_nodes(layout, obj, (), found)
    return {path for path in found if path and not _is_unowned(path)}


def _collect_nodes(layout: Layout, value: Any, path: Path, found: FieldSet) -> None:
    kind = layout.kind(value)
    if kind == "whole" or not value:
        return
    found.add(path)
    if kind == "map":
        for key, item in value.items():
            _collect_nodes(layout.child(key), item, (*path, "f:" + key), found)
    elif kind == "keyed":
        for item in value:
            _collect_nodes(layout.item(), item, (*path, element_of(layout, item)), found)


def values_of(layout: Layout, obj: dict[str, Any]) -> dict[Path, Any]:
    """The same fields with what they hold; items of keyed lists hold nothing of their own."""
    found: dict[Path, Any] = {}
    for path in fields_of(layout, obj):
        found[path] = None if path[-1].startswith("k:") else look_up(layout, obj, path)
    return found


def look_up(layout: Layout, obj: Any, path: Path) -> Any:
    for step in path:
        if step.startswith("f:"):
            obj, layout = (obj.get(step[2:]) if isinstance(obj, dict) else None), layout.child(step[2:])
        elif step.startswith("k:"):
            obj = next((item for item in obj or () if element_of(layout, item) == step), None)
            layout = layout.item()
        else:
            return next((item for item in obj or () if value_element(item) == step), None)
    return obj


def remove(layout: Layout, obj: Any, path: Path) -> None:
    """Takes one field out of the object; a field that is not there is fine."""
    for index, step in enumerate(path):
        last = index == len(path) - 1
        if step.startswith("f:"):
            if not isinstance(obj, dict) or step[2:] not in obj:
                return
            if last:
                del obj[step[2:]]
                return
            obj, layout = obj[step[2:]], layout.child(step[2:])
            continue
        if not isinstance(obj, list):
            return
        by_key = step.startswith("k:")
        position = next(
            (i for i, item in enumerate(obj) if (element_of(layout, item) if by_key else value_element(item)) == step),
            None,
        )
        if position is None:
            return
        if last:
            del obj[position]
            return
        obj, layout = obj[position], layout.item()


def encode_set(fields: FieldSet) -> dict[str, Any]:
    """FieldsV1: a tree in which an inner path that is itself a member is marked with a dot."""
    tree: dict[str, Any] = {}
    for path in sorted(fields):
        node = tree
        for step in path:
            node = node.setdefault(step, {})
    for path in fields:
        node = tree
        for step in path:
            node = node[step]
        if node and any(key != "." for key in node):
            node["."] = {}
    return tree


def decode_set(tree: Any) -> FieldSet:
    found: FieldSet = set()
    _decode(tree, (), found)
    return found


def _decode(node: Any, path: Path, found: FieldSet) -> None:
    if not isinstance(node, dict):
        return
    steps = [key for key in node if key != "."]
    if path and (not steps or "." in node):
        found.add(path)
    for step in steps:
        _decode(node[step], (*path, _spelling(step)), found)


def _spelling(step: str) -> str:
    """Keys come from other writers too, with blanks or another order."""
    if step.startswith("k:"):
        try:
            return "k:" + json.dumps(dict(sorted(json.loads(step[2:]).items())), separators=(",", ":"))
        except (ValueError, AttributeError):
            return step
    return step

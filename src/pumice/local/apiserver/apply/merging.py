"""What an applied configuration does to a live object: merge, take away what is no longer wanted, find conflicts."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

from pumice.local.apiserver import failures
from pumice.local.apiserver.apply import fieldsets, managers
from pumice.local.apiserver.apply.managers import Managed
from pumice.local.apiserver.store import decode, encode
from pumice.values import Value

if TYPE_CHECKING:
    from pumice.local.apiserver.apply.fieldsets import FieldSet, Path
    from pumice.local.apiserver.apply.layout import Layout
    from pumice.local.apiserver.apply.managers import Key
    from pumice.local.apiserver.store import Object

CONFLICTS_SHOWN_MAX = 50
KUBECTL, LAST_APPLIED = "kubectl", "kubectl.kubernetes.io/last-applied-configuration"


class Application(Value):
    """One apply: who, where, when, and whether others' fields are taken by force."""

    manager: str
    subresource: str
    time: str
    force: bool
    has_status: bool

    @property
    def key(self) -> Key:
        return (self.manager, "Apply", self.subresource)


def apply_to(layout: Layout, live: Object, config: Object, application: Application) -> Object:
    """The object after the apply, with its managers written down; conflicts without force are refused."""
    known = managers.read(layout, live, has_status=application.has_status)
    wanted = fieldsets.fields_of(layout, config)
    merged: Object = _merge(layout, copy.deepcopy(live), config)
    previous = known[application.key].fields if application.key in known else set()
    _drop_unwanted(layout, merged, previous - wanted, _others(known, application.key))
    changed, removed = managers.changed_fields(layout, live, merged)
    contested = changed & wanted
    conflicts = {
        key: managed.fields & contested
        for key, managed in known.items()
        if key != application.key and managed.fields & contested
    }
    if conflicts and not application.force:
        _refuse_conflicts(conflicts, known, _client_side_fields(layout, live, application))
    for key, managed in known.items():
        if key != application.key:
            managed.fields -= conflicts.get(key, set()) | removed
    time = application.time
    if application.key in known and previous == wanted:
        time = known[application.key].time
    known[application.key] = Managed(wanted, config["apiVersion"], time)
    _note_last_applied(merged, config, application)
    managers.write(merged, known)
    return merged


def _last_applied(obj: Object) -> str:
    text: str = (obj["metadata"].get("annotations") or {}).get(LAST_APPLIED, "")
    return text


def _client_side_fields(layout: Layout, live: Object, application: Application) -> FieldSet:
    """Fields that kubectl itself wrote by client-side apply and no manager changed since: it may take them over."""
    text = _last_applied(live) if application.manager == KUBECTL else ""
    if not text:
        return set()
    try:
        written = fieldsets.values_of(layout, decode(text.encode()))
    except (ValueError, AttributeError, TypeError):
        return set()
    standing = fieldsets.values_of(layout, live)
    return {path for path, value in written.items() if path in standing and standing[path] == value}


def _note_last_applied(merged: Object, config: Object, application: Application) -> None:
    """Keeps the annotation of client-side apply true while kubectl applies from the server's side."""
    if application.manager != KUBECTL or not _last_applied(merged):
        return
    bare = copy.deepcopy(config)
    (bare["metadata"].get("annotations") or {}).pop(LAST_APPLIED, None)
    merged["metadata"]["annotations"][LAST_APPLIED] = json.dumps(bare, separators=(",", ":"), sort_keys=True) + "\n"


def _refuse_conflicts(conflicts: dict[Key, FieldSet], known: dict[Key, Managed], inherited: FieldSet) -> None:
    left = {key: fields - inherited for key, fields in conflicts.items() if fields - inherited}
    if left:
        raise _conflict(left, known)


def creation(layout: Layout, config: Object, application: Application) -> None:
    """Writes the first manager into an object that an apply creates."""
    fields = fieldsets.fields_of(layout, config)
    managers.write(config, {application.key: Managed(fields, config["apiVersion"], application.time)})


def _others(known: dict[Key, Managed], key: Key) -> FieldSet:
    return {path for other, managed in known.items() if other != key for path in managed.fields}


def _drop_unwanted(layout: Layout, merged: Object, unwanted: FieldSet, owned: FieldSet) -> None:
    """Removes fields that the applier let go of and that no other manager owns.

    An item of a list goes with all that is in it, also what defaults added and others changed, unless another manager owns
    the item itself; then the keys that name it stay, too.
    """
    for path in sorted(unwanted, key=len):
        if path in owned or (path[-1].startswith("f:") and any(other[: len(path)] == path for other in owned)):
            continue
        if len(path) > 1 and path[-2].startswith("k:") and path[-1][2:] in _object(path[-2][2:]):
            continue
        fieldsets.remove(layout, merged, path)
        _drop_empty(layout, merged, path[:-1], owned)


def _drop_empty(layout: Layout, merged: Object, path: Path, owned: FieldSet) -> None:
    while len(path) > 1 and path not in owned and fieldsets.look_up(layout, merged, path) in ({}, []):
        fieldsets.remove(layout, merged, path)
        path = path[:-1]


def _merge(layout: Layout, live: Any, config: Any) -> Any:
    kind = layout.kind(config)
    if kind == "map" and isinstance(live, dict):
        for key, value in config.items():
            if value is None:
                live.pop(key, None)
            else:
                live[key] = _merge(layout.child(key), live.get(key), value)
        return live
    if kind == "keyed" and isinstance(live, list):
        return _merge_keyed(layout, live, config)
    if kind == "set" and isinstance(live, list):
        return _merge_set(live, config)
    return copy.deepcopy(config)


def _merge_keyed(layout: Layout, live: list[Any], config: list[Any]) -> list[Any]:
    wanted = {fieldsets.element_of(layout, item): item for item in config}
    present = {fieldsets.element_of(layout, item): item for item in live}
    merged = present | {key: _merge(layout.item(), present.get(key), item) for key, item in wanted.items()}
    return [merged[key] for key in merged_order(list(present), list(wanted))]


def _merge_set(live: list[Any], config: list[Any]) -> list[Any]:
    present = {fieldsets.value_element(item): item for item in live}
    wanted = {fieldsets.value_element(item): item for item in config}
    both = present | wanted
    return [both[key] for key in merged_order(list(present), list(wanted))]


def merged_order(live: list[str], config: list[str]) -> list[str]:
    """The configuration's items in its order, with others' items where they stood between them.

    Walks both lists at once, as the real server's merge does: an item that both have, but that is not yet the
    configuration's turn, is left for later.
    """
    wanted, shared = set(config), [key for key in config if key in set(live)]
    order: list[str] = []
    left = right = 0
    while left < len(live) or right < len(config):
        key = live[left] if left < len(live) else ""
        turn = config[right] if right < len(config) else ""
        if key and turn and key != turn and key in wanted and shared and shared[0] != key:
            left += 1
            continue
        if key and key not in wanted:
            order.append(key)
            left += 1
            continue
        if key and (key in order or key == turn):
            left += 1
        if turn:
            order.append(turn)
            if shared and shared[0] == turn:
                shared.pop(0)
            right += 1
    return order


def _conflict(conflicts: dict[Key, FieldSet], known: dict[Key, Managed]) -> failures.Failure:
    causes, lines, total = [], [], 0
    for (manager, operation, subresource), fields in sorted(conflicts.items()):
        using = f" using {known[manager, operation, subresource].api_version}" if operation == "Update" else ""
        beside = f' with subresource "{subresource}"' if subresource else ""
        lines.append(f'conflicts with "{manager}"{beside}{using}:')
        for path in sorted(fields)[:CONFLICTS_SHOWN_MAX]:
            text = _path_text(path)
            lines.append(f"- {text}")
            causes.append(
                {
                    "reason": "FieldManagerConflict",
                    "message": f'conflict with "{manager}"{beside}{using}',
                    "field": text,
                }
            )
        total += len(fields)
    noun = "conflict" if total == 1 else "conflicts"
    if total == 1:
        head = f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        head = f"Apply failed with {total} {noun}: " + "\n".join(lines)
    return failures.Failure(409, "Conflict", head, details={"causes": causes})


def _path_text(path: Path) -> str:
    text = ""
    for step in path:
        body = step[2:]
        if step.startswith("f:"):
            text += f".{body}"
        elif step.startswith("k:"):
            inner = ",".join(f"{key}={_json(value)}" for key, value in sorted(_object(body).items()))
            text += f"[{inner}]"
        else:
            text += f"[={body}]"
    return text


def _object(text: str) -> dict[str, Any]:
    found: dict[str, Any] = decode(text.encode())
    return found


def _json(value: Any) -> str:
    return encode(value).decode()

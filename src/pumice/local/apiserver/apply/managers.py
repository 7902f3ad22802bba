"""Who manages which fields, kept in metadata.managedFields.

Tracking starts with an object's first server-side apply; until then one entry without fields names its creator, which then
owns everything that is there. Gangs of ten thousand pods are never applied this way, and a real server's books about
them would double their size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pumice.local.apiserver.apply import fieldsets
from pumice.local.apiserver.apply.layout import layout_of
from pumice.values import Mutable

if TYPE_CHECKING:
    from pumice.local.apiserver.apply.fieldsets import FieldSet
    from pumice.local.apiserver.apply.layout import Layout
    from pumice.local.apiserver.backend import Backend
    from pumice.local.apiserver.request_parsing import Call
    from pumice.local.apiserver.store import Object

MANAGERS_MAX = 40  # entries of plain updates are folded into one beyond that, as a real server does beyond ten
BEFORE_FIRST_APPLY = "before-first-apply"

Key = tuple[str, str, str]  # manager, operation, subresource


class Managed(Mutable):
    """One manager's fields."""

    fields: FieldSet
    api_version: str
    time: str


def note_creation(call: Call, obj: Object, now: str) -> None:
    obj["metadata"]["managedFields"] = [
        {
            "manager": call.manager,
            "operation": "Update",
            "apiVersion": obj["apiVersion"],
            "time": now,
            "fieldsType": "FieldsV1",
            "fieldsV1": {},
        }
    ]


def is_tracked(obj: Object) -> bool:
    return any(entry.get("fieldsV1") for entry in obj["metadata"].get("managedFields") or ())


def read(layout: Layout, obj: Object, *, has_status: bool) -> dict[Key, Managed]:
    """All managers of an object; for one that is not tracked yet, its creator owns all but the status."""
    found: dict[Key, Managed] = {}
    entries = obj["metadata"].get("managedFields") or ()
    for entry in entries:
        key = (entry.get("manager", ""), entry.get("operation", "Update"), entry.get("subresource", ""))
        fields = fieldsets.decode_set(entry.get("fieldsV1"))
        found[key] = Managed(fields, entry.get("apiVersion", obj["apiVersion"]), entry.get("time", ""))
    if is_tracked(obj):
        return found
    everything = fieldsets.fields_of(layout, obj) | fieldsets.nodes_of(layout, obj)
    if has_status:
        everything = {path for path in everything if path[0] != "f:status"}
    creator = next(iter(found), (BEFORE_FIRST_APPLY, "Update", ""))
    time = found[creator].time if creator in found else obj["metadata"].get("creationTimestamp", "")
    return {creator: Managed(everything, obj["apiVersion"], time)}


def write(obj: Object, managers: dict[Key, Managed]) -> None:
    entries: list[dict[str, Any]] = []
    for (manager, operation, subresource), managed in managers.items():
        if not managed.fields:
            continue
        entry = {
            "manager": manager,
            "operation": operation,
            "apiVersion": managed.api_version,
            "time": managed.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": fieldsets.encode_set(managed.fields),
        }
        if subresource:
            entry["subresource"] = subresource
        entries.append(entry)
    entries.sort(key=lambda entry: (entry["operation"] != "Apply", entry["time"], entry["manager"]))
    obj["metadata"].pop("managedFields", None)
    if entries:
        obj["metadata"]["managedFields"] = entries


def changed_fields(layout: Layout, old: Object, new: Object) -> tuple[FieldSet, FieldSet]:
    """Fields that were added or got another value, and fields that went away."""
    before, after = fieldsets.values_of(layout, old), fieldsets.values_of(layout, new)
    missing = object()
    changed = {path for path, value in after.items() if before.get(path, missing) != value}
    gone = fieldsets.nodes_of(layout, old) - fieldsets.nodes_of(layout, new)
    return changed, (before.keys() | gone) - after.keys()


def _differing(old: Object, new: Object) -> tuple[Object, Object]:
    """Both without the parts in which they agree: most writes touch metadata, spec or status, and not all of them."""
    same = {key for key, value in old.items() if key in new and new[key] == value}
    first, second = ({key: value for key, value in each.items() if key not in same} for each in (old, new))
    return first, second


def note_update(backend: Backend, call: Call, old: Object, obj: Object) -> None:
    """Gives the caller what it changed, and takes that from all other managers."""
    metadata = obj["metadata"]
    given = metadata.get("managedFields")
    if given is None:
        if "managedFields" in old["metadata"]:
            metadata["managedFields"] = old["metadata"]["managedFields"]
    elif not any(given):  # [] or [{}] is how a client asks to forget the managers
        del metadata["managedFields"]
    if not is_tracked(obj):
        return
    layout = layout_of(backend.registry, call.resource)
    former, fresh = _differing(old, obj)
    changed, removed = changed_fields(layout, former, fresh)
    if not changed and not removed:
        return
    before = fieldsets.nodes_of(layout, former)
    changed |= {path for path in fieldsets.nodes_of(layout, fresh) if path not in before}
    managers = read(layout, obj, has_status="status" in call.resource.subresources)
    for managed in managers.values():
        managed.fields -= changed | removed
    key = (call.manager, "Update", call.subresource)
    mine = managers.setdefault(key, Managed(set(), obj["apiVersion"], ""))
    if changed:
        mine.fields |= changed
        mine.time = backend.timestamp()
    while len(managers) > MANAGERS_MAX:
        oldest = min((k for k in managers if k[1] == "Update"), key=lambda k: managers[k].time, default=None)
        if oldest is None or oldest == ("ancient-changes", "Update", ""):
            break
        folded = managers.setdefault(
            ("ancient-changes", "Update", ""), Managed(set(), obj["apiVersion"], managers[oldest].time)
        )
        folded.fields |= managers.pop(oldest).fields
    write(obj, managers)


def same_but_times(obj: Object, old: Object) -> bool:
    """True if only the times in managedFields differ: nothing happened then."""

    def bare(value: Object) -> Object:
        entries = [{k: v for k, v in e.items() if k != "time"} for e in value["metadata"].get("managedFields") or ()]
        entries.sort(key=str)
        return value | {"metadata": value["metadata"] | {"managedFields": entries}}

    return bare(obj) == bare(old)

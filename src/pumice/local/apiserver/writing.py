"""create, update and patch: one path into the store.

body -> shape -> defaults -> mutating admission -> checks -> validating admission -> compare-and-swap -> answer
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pumice.local.apiserver import decoding, failures
from pumice.local.apiserver.apply import managers
from pumice.local.apiserver.behaviours import behaviour_of
from pumice.local.apiserver.request_parsing import read_object
from pumice.local.apiserver.store import copied, encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from pumice.local.apiserver.admission import Admission
    from pumice.local.apiserver.backend import Backend
    from pumice.local.apiserver.history import Entry
    from pumice.local.apiserver.request_parsing import Call
    from pumice.local.apiserver.store import Object

GENERATED_NAME_TRIES_MAX = 8
PATCH_TRIES_MAX = 5  # a real server's: a patch without a version is applied again to what another client wrote
_SYSTEM_METADATA = (
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
)


class Writer:
    """Writes objects; what it returns are the bytes of the object as it now stands."""

    def __init__(self, backend: Backend, admission: Admission) -> None:
        self.backend = backend
        self.admission = admission

    async def create(self, call: Call) -> bytes:
        body = call.request.body
        obj = read_object(call.request)
        obj = decoding.admit_shape(self.backend.registry, call, obj, tidy=b"{}" in body or b"[]" in body)
        return await self.insert(call, obj)

    async def insert(self, call: Call, obj: Object) -> bytes:
        """A new object, from one whose shape is known to be right."""
        metadata = obj["metadata"]
        if metadata.pop("resourceVersion", "") not in {"", "0"}:
            raise failures.Failure(500, "InternalError", "resourceVersion should not be set on objects to be created")
        for key in _SYSTEM_METADATA:
            metadata.pop(key, None)
        generated = not metadata.get("name") and bool(metadata.get("generateName"))
        if generated:
            metadata["name"] = self.backend.generated_name(metadata["generateName"])
        metadata["uid"] = self.backend.uid()
        metadata["creationTimestamp"] = self.backend.timestamp()
        self._prepare_new(call, obj)
        obj = await self._admit(call, "CREATE", obj, None)
        if not managers.is_tracked(obj):
            managers.note_creation(call, obj, self.backend.timestamp())
        return self._insert_admitted(call, obj, generated=generated)

    def _insert_admitted(self, call: Call, obj: Object, *, generated: bool) -> bytes:
        resource, metadata = call.resource, obj["metadata"]
        collection = self.backend.collection(resource)
        tries = GENERATED_NAME_TRIES_MAX if generated else 1
        while tries and collection.get(metadata.get("namespace", ""), metadata["name"]) is not None:
            tries -= 1
            if not generated:
                break
            metadata["name"] = self.backend.generated_name(metadata["generateName"])
        if collection.get(metadata.get("namespace", ""), metadata["name"]) is not None:
            raise failures.already_exists(resource.plural, resource.group, metadata["name"])
        self.admission.charge(call, obj, None)
        if call.dry_run:
            return encode(obj)
        entry = self.backend.put(resource, obj, expected=None)
        return self._answer(call, entry)

    def _prepare_new(self, call: Call, obj: Object) -> None:
        resource, behaviour = call.resource, behaviour_of(call.resource.collection)
        custom = self.backend.registry.custom(resource)
        if custom is not None:
            obj["metadata"]["generation"] = 1
            if custom.has_status:
                obj.pop("status", None)
            decoding.fill_defaults(self.backend.registry, call, obj)
            return
        if behaviour.counts_generations:
            obj["metadata"]["generation"] = 1
        decoding.fill_defaults(self.backend.registry, call, obj)
        if "status" in resource.subresources and not behaviour.keeps_given_status:
            obj.pop("status", None)
            status = behaviour.status(obj) if behaviour.status else None
            if status is not None:
                obj["status"] = status

    async def _admit(self, call: Call, operation: str, obj: Object, old: Object | None) -> Object:
        """Admission and checks; defaults are filled in again where a webhook changed the object."""
        changed = await self.admission.mutate(call, operation, obj, old)
        if changed is not None:
            obj = decoding.admit_shape(self.backend.registry, call, changed)
            decoding.fill_defaults(self.backend.registry, call, obj)
        decoding.check(self.backend.registry, call, obj, old)
        await self.admission.validate(call, operation, obj, old)
        return obj

    async def update(self, call: Call) -> tuple[bytes, bool]:
        """Replaces an object; True if it had to be created."""
        obj = decoding.admit_shape(self.backend.registry, call, read_object(call.request))
        entry = self.backend.collection(call.resource).get(call.namespace, call.name)
        if entry is None:
            if behaviour_of(call.resource.collection).created_by_update and not call.subresource:
                return await self.insert(call, obj), True
            raise call.not_found()
        custom = self.backend.registry.custom(call.resource)
        if custom is not None and not obj["metadata"].get("resourceVersion"):
            cause = (
                "metadata.resourceVersion",
                "FieldValueInvalid",
                "Invalid value: 0x0: must be specified for an update",
            )
            raise failures.invalid(call.resource.kind, call.resource.group, call.name, [cause])
        return await self.replace(call, entry, self.backend.load(call.resource, entry), obj), False

    async def patch(self, call: Call, patched: Callable[[Object], Object], *, versioned: bool) -> bytes:
        """Applies a patch to what stands, again if another client was faster, unless the patch names its version."""
        for left in range(PATCH_TRIES_MAX - 1, -1, -1):
            entry = self.backend.entry(call.resource, call.namespace, call.name)
            old = self.backend.load(call.resource, entry)
            obj = decoding.admit_shape(self.backend.registry, call, patched(copied(old)), tidy=True)
            try:
                return await self.replace(call, entry, old, obj)
            except failures.Failure as failure:
                if failure.reason != "Conflict" or versioned or not left or self._stands(call, entry):
                    raise
        raise AssertionError("unreachable: the last try raises")

    def _stands(self, call: Call, entry: Entry) -> bool:
        return self.backend.collection(call.resource).get(call.namespace, call.name) is entry

    async def replace(self, call: Call, entry: Entry, old: Object, obj: Object, *, applied: bool = False) -> bytes:
        """Puts `obj` in the place of `old`, with what a client may not change carried over."""
        self._check_preconditions(call, entry, obj)
        obj = self._keep_system_fields(call, old, obj)
        decoding.fill_defaults(self.backend.registry, call, obj)
        obj = await self._admit(call, "UPDATE", obj, old)
        self._count_generation(call, old, obj)
        if not applied:
            managers.note_update(self.backend, call, old, obj)
        obj["metadata"]["resourceVersion"] = str(entry.version)
        if obj == old or (applied and managers.same_but_times(obj, old)):
            return encode(old)
        self.admission.charge(call, obj, old)
        if call.dry_run:
            return encode(obj)
        if is_finished(obj):
            return self.backend.remove(call.resource, obj, expected=entry)
        return self._answer(call, self.backend.put(call.resource, obj, expected=entry))

    def _answer(self, call: Call, entry: Entry) -> bytes:
        render = self.backend.render(call.resource)
        return render(entry.body) if render else entry.body

    def _check_preconditions(self, call: Call, entry: Entry, obj: Object) -> None:
        resource, metadata = call.resource, obj["metadata"]
        uid = metadata.get("uid")
        if uid and uid != entry.uid:
            text = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {entry.uid}"
            raise failures.conflict(resource.plural, resource.group, entry.name, text)
        version = metadata.get("resourceVersion")
        if version and version != "0" and version != str(entry.version):
            raise failures.conflict(resource.plural, resource.group, entry.name, failures.STALE)

    def _keep_system_fields(self, call: Call, old: Object, obj: Object) -> Object:
        metadata, before = obj["metadata"], old["metadata"]
        for key in _SYSTEM_METADATA:
            metadata.pop(key, None)
            if key in before:
                metadata[key] = before[key]
        if "deletionTimestamp" in before and metadata.get("finalizers"):
            metadata["finalizers"] = [name for name in metadata["finalizers"] if name in before.get("finalizers", ())]
        if not metadata.get("finalizers"):
            metadata.pop("finalizers", None)
        custom = self.backend.registry.custom(call.resource)
        if call.subresource == "status":
            return _status_only(old, obj, whole_metadata=custom is None)
        split = custom.has_status if custom is not None else "status" in call.resource.subresources
        if split:
            obj.pop("status", None)
            if "status" in old:
                obj["status"] = copied(old["status"])
        return obj

    def _count_generation(self, call: Call, old: Object, obj: Object) -> None:
        custom = self.backend.registry.custom(call.resource)
        if custom is None and not behaviour_of(call.resource.collection).counts_generations:
            return
        ignored = {"metadata", "apiVersion"}
        if custom is None or custom.has_status:
            ignored.add("status")
        if {key: obj[key] for key in obj.keys() - ignored} != {key: old[key] for key in old.keys() - ignored}:
            obj["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1


def _status_only(old: Object, obj: Object, *, whole_metadata: bool) -> Object:
    merged: dict[str, Any] = copied(old)
    if whole_metadata:
        for key in ("labels", "annotations", "finalizers"):
            merged["metadata"].pop(key, None)
            if key in obj["metadata"]:
                merged["metadata"][key] = obj["metadata"][key]
    if "managedFields" in obj["metadata"]:
        merged["metadata"]["managedFields"] = obj["metadata"]["managedFields"]
    merged.pop("status", None)
    if "status" in obj:
        merged["status"] = obj["status"]
    return merged


def is_finished(obj: Object) -> bool:
    """True for an object that is being deleted and that nothing holds any longer."""
    metadata = obj["metadata"]
    if "deletionTimestamp" not in metadata or metadata.get("finalizers"):
        return False
    if obj["kind"] == "Namespace" and obj["apiVersion"] == "v1" and (obj.get("spec") or {}).get("finalizers"):
        return False
    return not metadata.get("deletionGracePeriodSeconds")

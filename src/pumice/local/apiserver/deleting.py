"""delete and deletecollection: grace, finalizers, propagation.

present -> terminating (deletionTimestamp set; finalizers, a pod's node or a namespace's content hold it) -> gone
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pumice import instant
from pumice.api.pods import ENDED
from pumice.local.apiserver import failures
from pumice.local.apiserver.decoding import read_typed
from pumice.local.apiserver.selection import compile_selection
from pumice.local.apiserver.store import decode, encode
from pumice.local.apiserver.writing import is_finished
from pumice.values import Value

if TYPE_CHECKING:
    from pumice.local.apiserver.admission import Admission
    from pumice.local.apiserver.backend import Backend
    from pumice.local.apiserver.history import Entry
    from pumice.local.apiserver.request_parsing import Call
    from pumice.local.apiserver.store import Object
    from pumice.local.apiserver.structures import Resource

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
_FINALIZERS = {"Orphan": ORPHAN, "Foreground": FOREGROUND}
# Kinds whose deletion is answered with the object, as generated clients expect.
_ANSWERED_WITH_OBJECT = frozenset(
    {
        "pods",
        "services",
        "persistentvolumeclaims",
        "persistentvolumes",
        "resourcequotas",
        "podtemplates",
        "serviceaccounts",
    }
)


class Options(Value):
    """What a caller wants of a deletion."""

    grace_s: int | None = None
    propagation: str = ""
    uid: str = ""
    version: str = ""
    dry_run: bool = False


def read_options(call: Call) -> Options:
    body: dict[str, Any] = {}
    if call.request.body:
        body = read_typed(call.request, "meta.v1.DeleteOptions")
    grace = body.get("gracePeriodSeconds", call.query.get("gracePeriodSeconds"))
    propagation = body.get("propagationPolicy") or call.query.get("propagationPolicy", "")
    if body.get("orphanDependents") or call.flag("orphanDependents"):
        propagation = "Orphan"
    if propagation not in {"", "Orphan", "Background", "Foreground"}:
        cause = f'Unsupported value: "{propagation}": supported values: "Background", "Foreground", "Orphan"'
        raise failures.invalid(
            "DeleteOptions", "meta.k8s.io", "", [("propagationPolicy", "FieldValueNotSupported", cause)]
        )
    try:
        grace_s = None if grace in {None, ""} else int(grace)
    except (TypeError, ValueError):
        raise failures.bad_request(f"gracePeriodSeconds must be a whole number, not {grace!r}") from None
    conditions = body.get("preconditions") or {}
    return Options(
        grace_s=grace_s,
        propagation=propagation,
        uid=conditions.get("uid") or "",
        version=conditions.get("resourceVersion") or "",
        dry_run=call.dry_run or bool(body.get("dryRun")),
    )


class Remover:
    """Ends objects. `finish` and `terminate` are synchronous, so the garbage collector uses them too."""

    def __init__(self, backend: Backend, admission: Admission) -> None:
        self.backend = backend
        self.admission = admission

    async def delete(self, call: Call, options: Options) -> bytes:
        entry = self.backend.entry(call.resource, call.namespace, call.name)
        await self.admission.validate(call, "DELETE", None, self.backend.load(call.resource, entry))
        entry = self.backend.entry(call.resource, call.namespace, call.name)  # admission may have taken a while
        self.check_preconditions(call.resource, entry, options)
        obj, gone = self.terminate(call.resource, entry, options)
        if not gone or call.resource.collection in _ANSWERED_WITH_OBJECT:
            return encode(obj)
        return encode(deleted_status(call.resource, entry))

    async def delete_collection(self, call: Call, options: Options) -> list[bytes]:
        fields = self.backend.selectable(call.resource)
        chosen = compile_selection(call.query, namespace=call.namespace, name="", fields=fields)
        collection, ended = self.backend.collection(call.resource), []
        for entry in [entry for entry in collection.entries(call.namespace) if chosen(entry)]:
            await self.admission.validate(call, "DELETE", None, self.backend.load(call.resource, entry))
            standing = collection.get(entry.namespace, entry.name)
            if standing is not None:
                obj, _ = self.terminate(call.resource, standing, options)
                ended.append(encode(obj))
        return ended

    def check_preconditions(self, resource: Resource, entry: Entry, options: Options) -> None:
        if options.uid and options.uid != entry.uid:
            text = f"Precondition failed: UID in precondition: {options.uid}, UID in object meta: {entry.uid}"
            raise failures.conflict(resource.plural, resource.group, entry.name, text)
        if options.version and options.version != str(entry.version):
            text = (
                "Precondition failed: ResourceVersion in precondition: "
                f"{options.version}, ResourceVersion in object meta: {entry.version}"
            )
            raise failures.conflict(resource.plural, resource.group, entry.name, text)

    def terminate(self, resource: Resource, entry: Entry, options: Options) -> tuple[Object, bool]:
        """Removes the object, or marks it as terminating where something holds it; True if it is gone."""
        obj = decode(entry.body)
        metadata = obj["metadata"]
        grace = self._grace(resource, obj, options)
        wanted = _FINALIZERS.get(options.propagation)
        finalizers = [name for name in metadata.get("finalizers", ()) if name not in {ORPHAN, FOREGROUND}]
        if wanted:
            finalizers.append(wanted)
        elif not options.propagation:
            finalizers = list(metadata.get("finalizers", ()))
        namespace = resource.collection == "namespaces"
        if not finalizers and not grace and not (namespace and (obj.get("spec") or {}).get("finalizers")):
            return self._remove(resource, obj, entry, options), True
        if "deletionTimestamp" in metadata:
            if grace >= metadata.get("deletionGracePeriodSeconds", 0) and finalizers == metadata.get("finalizers", []):
                return obj, False
            grace = min(grace, metadata.get("deletionGracePeriodSeconds", 0))
        self._mark(obj, grace, finalizers)
        if namespace:
            obj.setdefault("status", {})["phase"] = "Terminating"
        if options.dry_run:
            return obj, False
        self.backend.put(resource, obj, expected=entry)
        return obj, False

    def _remove(self, resource: Resource, obj: Object, entry: Entry, options: Options) -> Object:
        obj["metadata"].pop("finalizers", None)
        if options.dry_run:
            return obj
        last: Object = decode(self.backend.remove(resource, obj, expected=entry))
        return last

    def _mark(self, obj: Object, grace: int, finalizers: list[str]) -> None:
        metadata = obj["metadata"]
        if "deletionTimestamp" not in metadata and "generation" in metadata:
            metadata["generation"] += 1
        metadata["deletionTimestamp"] = instant.format_instant(self.backend.now() + grace * instant.SECOND)
        metadata["deletionGracePeriodSeconds"] = grace
        metadata.pop("finalizers", None)
        if finalizers:
            metadata["finalizers"] = finalizers

    def _grace(self, resource: Resource, obj: Object, options: Options) -> int:
        """How long a pod may take to end. No node runs an unbound or finished pod, so there is nothing to wait for."""
        if resource.collection != "pods":
            return 0
        spec, phase = obj.get("spec") or {}, (obj.get("status") or {}).get("phase")
        if not spec.get("nodeName") or phase in ENDED:
            return 0
        grace = spec.get("terminationGracePeriodSeconds", 30) if options.grace_s is None else options.grace_s
        return max(int(grace), 0)

    def finish(self, resource: Resource, entry: Entry, obj: Object) -> None:
        """Stores a terminating object whose holders changed, or removes it where none is left."""
        if is_finished(obj):
            self.backend.remove(resource, obj, expected=entry)
        else:
            self.backend.put(resource, obj, expected=entry)


def deleted_status(resource: Resource, entry: Entry) -> dict[str, Any]:
    details = {"name": entry.name, "kind": resource.plural, "uid": entry.uid}
    if resource.group:
        details["group"] = resource.group
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}

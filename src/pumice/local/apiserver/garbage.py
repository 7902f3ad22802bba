"""Housekeeping: dependents follow their owners, namespaces end with their content, definitions with their objects.

One task, fed by the store's changes. What it still has to look at is a set of keys, so a change is never worked on twice
at once, and a failure (another writer was faster) puts the key back.
"""

from __future__ import annotations

import asyncio
import collections
from typing import TYPE_CHECKING, Any

from pumice.local.apiserver import crds, failures
from pumice.local.apiserver.deleting import FOREGROUND, ORPHAN, Options
from pumice.local.apiserver.store import Stale, decode

if TYPE_CHECKING:
    from pumice.local.apiserver.backend import Backend
    from pumice.local.apiserver.deleting import Remover
    from pumice.local.apiserver.disruption import Budgets
    from pumice.local.apiserver.history import Change, Entry
    from pumice.local.apiserver.store import Object
    from pumice.local.apiserver.structures import Resource

SLICE_KEYS_MAX = 50  # keys handled before others get the event loop
Key = tuple[str, str, str]  # collection, namespace, name


class Housekeeping:
    def __init__(self, backend: Backend, remover: Remover, budgets: Budgets) -> None:
        self.backend = backend
        self.remover = remover
        self.budgets = budgets
        self._waiting: collections.OrderedDict[Key, None] = collections.OrderedDict()
        self._news = asyncio.Event()
        backend.store.listeners.append(self._notice)

    def _notice(self, change: Change) -> None:
        """Decides in a few comparisons whether a change can matter; most do not."""
        before, after = change.before, change.after
        if after is None:
            assert before is not None
            for key in self.backend.store.dependents.get(before.uid, ()):
                self._add(key)
            if before.deleting or before.owners:
                self._owners_of(before)
            self._namespace_of(before)
            self._definition_of(change.collection)
        elif after.deleting or (after.owners and (before is None or before.owners != after.owners)):
            self._add((change.collection, after.namespace, after.name))
        if self.budgets.stale:
            self._news.set()

    def _owners_of(self, entry: Entry) -> None:
        for uid in entry.owners:
            key = self.backend.store.by_uid.get(uid)
            if key is not None:
                self._add(key)

    def _namespace_of(self, entry: Entry) -> None:
        holder = self.backend.store.get("namespaces", "", entry.namespace) if entry.namespace else None
        if holder is not None and holder.deleting:
            self._add(("namespaces", "", entry.namespace))

    def _definition_of(self, collection: str) -> None:
        holder = self.backend.store.get(crds.COLLECTION, "", collection)
        if holder is not None and holder.deleting:
            self._add((crds.COLLECTION, "", collection))

    def _add(self, key: Key) -> None:
        self._waiting[key] = None
        self._news.set()

    def look_at_everything(self) -> None:
        """After a restart: what was left half done is found by looking."""
        for collection in self.backend.store.collections():
            for entry in collection.entries():
                if entry.deleting or entry.owners:
                    self._add((collection.name, entry.namespace, entry.name))

    async def run(self) -> None:
        while True:
            await self._news.wait()
            await self.settle()

    async def settle(self) -> None:
        """Works until nothing is waiting; tests call it instead of waiting for `run`."""
        self._news.clear()
        handled = 0
        while self._waiting or self.budgets.stale:
            for namespace in list(self.budgets.stale):
                self.budgets.refresh(namespace)
            if self._waiting:
                key, _ = self._waiting.popitem(last=False)
                try:
                    self._look_at(key)
                except Stale:
                    self._add(key)
                except failures.Failure as failure:
                    if failure.reason == "Conflict":  # another client wrote in between: look again
                        self._add(key)
            handled += 1
            if handled % SLICE_KEYS_MAX == 0:
                await asyncio.sleep(0)

    def _look_at(self, key: Key) -> None:
        collection, namespace, name = key
        entry = self.backend.store.get(collection, namespace, name)
        if entry is None:
            return
        resource = self.backend.registry.of_collection(collection)
        if entry.deleting:
            if collection == "namespaces":
                self._end_namespace(resource, entry)
            elif collection == crds.COLLECTION:
                self._end_definition(resource, entry)
            self._end_owner(resource, entry)
        elif entry.owners:
            self._check_owners(resource, entry)

    # ------------------------------------------------------------------------------------------------- owners

    def _check_owners(self, resource: Resource, entry: Entry) -> None:
        """An object all of whose owners are gone goes too; one that still has an owner loses the dead references."""
        obj = decode(entry.body)
        references = obj["metadata"].get("ownerReferences") or []
        states = [self._owner_state(reference, entry.namespace) for reference in references]
        if "unknown" in states or "gone" not in states:
            return
        alive = [ref for ref, state in zip(references, states, strict=True) if state == "alive"]
        foreground = [ref for ref, state in zip(references, states, strict=True) if state == "ending"]
        if not alive and not foreground:
            self.remover.terminate(resource, entry, Options(propagation=_propagation(obj)))
        elif alive:
            obj["metadata"]["ownerReferences"] = alive + foreground
            self.backend.put(resource, obj, expected=entry)

    def _owner_state(self, reference: dict[str, Any], namespace: str) -> str:
        """alive, ending (deleted in the foreground), gone, or unknown where its kind is not served."""
        resource = self.backend.registry.of_kind(reference["apiVersion"], reference["kind"])
        if resource is None:
            return "unknown"
        # An owner in another namespace does not exist for its dependent: references carry no namespace.
        owner = self.backend.store.get(resource.collection, namespace if resource.namespaced else "", reference["name"])
        if owner is None or owner.uid != reference["uid"]:
            return "gone"
        return "ending" if owner.deleting and FOREGROUND.encode() in owner.body else "alive"

    def _end_owner(self, resource: Resource, entry: Entry) -> None:
        standing = self.backend.store.get(resource.collection, entry.namespace, entry.name)
        if standing is None:
            return
        obj = decode(standing.body)
        finalizers = obj["metadata"].get("finalizers") or []
        if ORPHAN in finalizers:
            self._orphan(standing.uid)
            self._let_go(resource, standing, obj, ORPHAN)
        elif FOREGROUND in finalizers:
            blocking = self._delete_dependents(standing.uid)
            if not blocking:
                self._let_go(resource, standing, obj, FOREGROUND)

    def _let_go(self, resource: Resource, entry: Entry, obj: Object, finalizer: str) -> None:
        left = [name for name in obj["metadata"].get("finalizers") or () if name != finalizer]
        obj["metadata"].pop("finalizers", None)
        if left:
            obj["metadata"]["finalizers"] = left
        self.remover.finish(resource, entry, obj)

    def _orphan(self, uid: str) -> None:
        for collection, namespace, name in list(self.backend.store.dependents.get(uid, ())):
            entry = self.backend.store.get(collection, namespace, name)
            if entry is None:
                continue
            obj = decode(entry.body)
            left = [ref for ref in obj["metadata"].get("ownerReferences") or () if ref.get("uid") != uid]
            obj["metadata"].pop("ownerReferences", None)
            if left:
                obj["metadata"]["ownerReferences"] = left
            self.backend.put(self.backend.registry.of_collection(collection), obj, expected=entry)

    def _delete_dependents(self, uid: str) -> bool:
        """Deletes what the owner holds; True while one that blocks its owner's deletion is still there."""
        blocking = False
        for collection, namespace, name in list(self.backend.store.dependents.get(uid, ())):
            entry = self.backend.store.get(collection, namespace, name)
            if entry is None:
                continue
            references = decode(entry.body)["metadata"].get("ownerReferences") or ()
            others = [r for r in references if r.get("uid") != uid and self._owner_state(r, namespace) == "alive"]
            if others:
                continue
            resource = self.backend.registry.of_collection(collection)
            if not entry.deleting:
                self.remover.terminate(resource, entry, Options(propagation="Foreground"))
            still = self.backend.store.get(collection, namespace, name) is not None
            blocks = any(r.get("uid") == uid and r.get("blockOwnerDeletion") for r in references)
            blocking |= still and blocks
        return blocking

    # ------------------------------------------------------------------------------- namespaces and definitions

    def _end_namespace(self, resource: Resource, entry: Entry) -> None:
        left = 0
        for collection in self.backend.store.collections():
            for inside in list(collection.namespaces.get(entry.name, {}).values()):
                if not inside.deleting:
                    kind = self.backend.registry.of_collection(collection.name)
                    self.remover.terminate(kind, inside, Options(propagation="Background"))
            left += len(collection.namespaces.get(entry.name, {}))
        standing = self.backend.store.get("namespaces", "", entry.name)
        if left or standing is None:
            return
        obj = decode(standing.body)
        obj.get("spec", {}).pop("finalizers", None)
        self.remover.finish(resource, standing, obj)

    def _end_definition(self, resource: Resource, entry: Entry) -> None:
        collection = self.backend.store.collection(entry.name)
        for inside in list(collection.entries()):
            if not inside.deleting:
                kind = self.backend.registry.of_collection(collection.name)
                self.remover.terminate(kind, inside, Options(propagation="Background"))
        if len(collection):
            return  # each of them that goes brings us back here
        standing = self.backend.store.get(crds.COLLECTION, "", entry.name)
        if standing is not None:
            self._let_go(resource, standing, decode(standing.body), crds.CLEANUP)


def _propagation(obj: Object) -> str:
    finalizers = obj["metadata"].get("finalizers") or ()
    return "Orphan" if ORPHAN in finalizers else "Foreground" if FOREGROUND in finalizers else "Background"

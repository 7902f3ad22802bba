"""Events are kept for an hour after they were last written, and of very many only the newest."""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING

from pumice import instant
from pumice.local.apiserver.store import decode

if TYPE_CHECKING:
    from pumice.local.apiserver.backend import Backend
    from pumice.local.apiserver.history import Change

COLLECTION = "events"
EVENT_LIFE = instant.HOUR  # kube-apiserver's own --event-ttl
EVENTS_MAX = 20_000


class EventRetention:
    """Follows the events in the order in which they were last written; the oldest go first."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        now = backend.now()
        entries = backend.store.collection(COLLECTION).entries()
        self._written = collections.OrderedDict(((entry.namespace, entry.name), now) for entry in entries)
        backend.store.listeners.append(self._follow)

    def _follow(self, change: Change) -> None:
        if change.collection != COLLECTION:
            return
        entry = change.after or change.before
        assert entry is not None
        key = (entry.namespace, entry.name)
        self._written.pop(key, None)
        if change.after is not None:
            self._written[key] = self.backend.now()
            self._clear()

    def _clear(self) -> None:
        """Runs when an event is written: where none are written, none need to be cleared."""
        oldest_kept = self.backend.now() - EVENT_LIFE
        while self._written:
            key, written = next(iter(self._written.items()))
            if written > oldest_kept and len(self._written) <= EVENTS_MAX:
                return
            entry = self.backend.store.get(COLLECTION, *key)
            if entry is None:
                del self._written[key]
            else:
                self.backend.store.remove(COLLECTION, decode(entry.body), expected=entry)  # comes back to _follow

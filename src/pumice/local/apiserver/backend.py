"""What all verbs stand on: the store, the kinds, a clock, a source of chance, and the way an object gets into the store."""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING

from pumice import instant
from pumice.local.apiserver import failures, selection
from pumice.local.apiserver.events import served_form, stored_form
from pumice.local.apiserver.registry import Registry
from pumice.local.apiserver.store import Oversized, Stale, Store, decode, encode

if TYPE_CHECKING:
    from collections.abc import Callable

    from pumice.local.apiserver.history import Entry
    from pumice.local.apiserver.store import Collection, Object
    from pumice.local.apiserver.structures import Resource

NAME_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # no vowels: generated names shall not read as words
GENERATED_PREFIX_CHARS_MAX = 58  # so that a generated name is a DNS label


class Backend:
    """One server's state. Nothing here decides anything: verbs, admission and controllers do."""

    def __init__(
        self,
        store: Store,
        *,
        now: Callable[[], instant.Instant] = time.time_ns,
        chance: random.Random | None = None,
        alpha: frozenset[str] = frozenset(),
    ) -> None:
        self.store = store
        self.registry = Registry(alpha=alpha)
        self.now = now
        self.chance = chance or random.SystemRandom()
        self._settling: list[tuple[int, asyncio.Future[None]]] = []
        self._second, self._text = 0, ""
        for name, fields in selection.FIELDS.items():
            store.collection(name).field_paths = tuple(fields.values())
        store.settle_listeners.append(self._release)

    def collection(self, resource: Resource) -> Collection:
        return self.store.collection(resource.collection)

    def selectable(self, resource: Resource) -> dict[str, tuple[str, ...]]:
        custom = self.registry.custom(resource)
        return custom.selectable if custom else dict(selection.FIELDS.get(resource.collection, {}))

    def find(self, collection: str, namespace: str, name: str) -> Object | None:
        """The object as it stands, decoded; the caller may change its copy."""
        entry = self.store.get(collection, namespace, name)
        return decode(entry.body) if entry else None

    def entry(self, resource: Resource, namespace: str, name: str) -> Entry:
        entry = self.collection(resource).get(namespace, name)
        if entry is None:
            raise failures.not_found(resource.plural, resource.group, name)
        return entry

    def load(self, resource: Resource, entry: Entry) -> Object:
        """An entry as the resource writes it; the caller may change its copy."""
        return served_form(resource, decode(entry.body))

    def render(self, resource: Resource) -> Callable[[bytes], bytes] | None:
        """How stored bytes become what this resource sends; None where they are the same."""
        custom = self.registry.custom(resource)
        if resource.group == "events.k8s.io" or (custom is not None and not custom.is_alone):
            return lambda body: encode(served_form(resource, decode(body)))
        return None

    def put(self, resource: Resource, obj: Object, *, expected: Entry | None) -> Entry:
        """Stores an object, or says in the API's words why not."""
        name = obj["metadata"]["name"]
        try:
            return self.store.put(resource.collection, stored_form(resource, obj), expected=expected)
        except Stale:
            if expected is None:
                raise failures.already_exists(resource.plural, resource.group, name) from None
            raise failures.conflict(resource.plural, resource.group, name, failures.STALE) from None
        except Oversized:
            text = f'{resource.kind} "{name}" is larger than the store takes; make it smaller or split it'
            raise failures.Failure(413, "RequestEntityTooLarge", text) from None

    def remove(self, resource: Resource, obj: Object, *, expected: Entry) -> bytes:
        try:
            return self.store.remove(resource.collection, obj, expected=expected)
        except Stale:
            raise failures.conflict(resource.plural, resource.group, expected.name, failures.STALE) from None

    def timestamp(self) -> str:
        """Now, as objects carry it; computed once a second."""
        now = self.now()
        if now // instant.SECOND != self._second or not self._text:
            self._second, self._text = now // instant.SECOND, instant.format_instant(now)
        return self._text

    def uid(self) -> str:
        text = f"{self.chance.getrandbits(128):032x}"
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"

    def generated_name(self, prefix: str) -> str:
        suffix = "".join(self.chance.choice(NAME_ALPHABET) for _ in range(5))
        return prefix[:GENERATED_PREFIX_CHARS_MAX] + suffix

    async def wait_settled(self) -> None:
        """Returns when everything stored so far is safe from a crash; at once where there is no journal."""
        if self.store.settled >= self.store.version:
            return
        if self.store.failure is not None:
            raise failures.internal(str(self.store.failure))
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._settling.append((self.store.version, future))
        await future

    def _release(self) -> None:
        waiting, self._settling = self._settling, []
        for version, future in waiting:
            if future.done():
                continue
            if version <= self.store.settled:
                future.set_result(None)
            elif self.store.failure is not None:
                future.set_exception(failures.internal(str(self.store.failure)))
            else:
                self._settling.append((version, future))

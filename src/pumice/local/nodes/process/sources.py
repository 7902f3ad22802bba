"""ConfigMaps and Secrets that pods refer to: each is watched as long as some pod here needs it, and only then.

A watch per object, as kubelets do it: a node may read what its pods refer to, and need not hold all secrets of the cluster.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from pumice.api.core import ConfigMap, Secret
from pumice.kube.informer import Informer
from pumice.values import Mutable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pumice.kube.client import Client
    from pumice.runtime import Runtime

Content: TypeAlias = "dict[str, bytes]"


class MissingSource(Exception):
    """A ConfigMap, a Secret, a key or a claim that a container needs is not there yet; it may still come."""


class SourceKey(NamedTuple):
    struct: type[ConfigMap | Secret]
    namespace: str
    name: str


class _Watched(Mutable):
    informer: Informer[Any]
    task: asyncio.Task[None]
    readers: dict[str, Callable[[], None]]  # by the pod's uid: called at changes


class SourceWatches:
    """One watch for each object, shared by all pods of this node that refer to it."""

    def __init__(self, client: Client, runtime: Runtime) -> None:
        self._client = client
        self._clock = runtime.clock
        self._chance = runtime.chance
        self._log = runtime.log
        self._watched: dict[SourceKey, _Watched] = {}

    def hold(self, key: SourceKey, uid: str, changed: Callable[[], None]) -> Informer[Any]:
        """Watches an object for a pod, until release()."""
        watched = self._watched.get(key)
        if watched is None:
            watched = self._watched[key] = self._begin(key)
        watched.readers[uid] = changed
        return watched.informer

    def _begin(self, key: SourceKey) -> _Watched:
        informer: Informer[Any] = Informer(
            self._client,
            key.struct,
            clock=self._clock,
            chance=self._chance,
            namespace=key.namespace,
            fields=f"metadata.name={key.name}",
            log=self._log,
        )
        watched = _Watched(informer, asyncio.create_task(informer.run()), {})

        def tell(_: object) -> None:
            for changed in tuple(watched.readers.values()):
                changed()

        informer.subscribe(tell)
        return watched

    def release(self, uid: str) -> None:
        """The pod needs nothing any more."""
        for key, watched in tuple(self._watched.items()):
            watched.readers.pop(uid, None)
            if not watched.readers:
                watched.task.cancel()
                del self._watched[key]

    async def close(self) -> None:
        tasks = [watched.task for watched in self._watched.values()]
        self._watched.clear()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


class PodSources:
    """What one pod refers to in its namespace."""

    def __init__(self, watches: SourceWatches, *, namespace: str, uid: str) -> None:
        self._watches = watches
        self._namespace = namespace
        self._uid = uid
        self.changed: Callable[[], None] = lambda: None  # called when one of them may have changed

    async def config_map(self, name: str, *, optional: bool = False) -> Content | None:
        """A ConfigMap's keys; None if it is optional and not there."""
        return await self._content(ConfigMap, name, optional=optional)

    async def secret(self, name: str, *, optional: bool = False) -> Content | None:
        """A Secret's keys; None if it is optional and not there."""
        return await self._content(Secret, name, optional=optional)

    async def _content(self, struct: type[ConfigMap | Secret], name: str, *, optional: bool) -> Content | None:
        informer = self._watches.hold(SourceKey(struct, self._namespace, name), self._uid, self.changed)
        await informer.synced.wait()
        found = informer.get(self._namespace, name)
        if found is not None:
            return content_of(found)
        if optional:
            return None
        raise MissingSource(f'{struct.__name__.lower()} "{name}" not found')

    def release(self) -> None:
        self._watches.release(self._uid)


def content_of(source: ConfigMap | Secret) -> Content:
    """All keys with their bytes."""
    if isinstance(source, Secret):
        return _decode(source.data)
    return {key: text.encode() for key, text in source.data.items()} | _decode(source.binary_data)


def _decode(data: Mapping[str, str]) -> Content:
    decoded = {}
    for key, text in data.items():
        try:
            decoded[key] = base64.b64decode(text, validate=True)
        except binascii.Error:
            continue  # no API server stores such a value
    return decoded

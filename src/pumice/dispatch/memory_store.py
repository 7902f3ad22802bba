"""Persistent slots of the scheduler's memory, one ConfigMap each: read when leadership begins, written when changed and at shutdown.

    load(slots) -> Memory            what a former leader has left; a slot that cannot be read is set aside
    offer(memory)                    after each cycle; written at most once in WRITE_S
    flush()                          at shutdown

Every write carries the version that we read or wrote last. A deposed leader's meets its successor's version and fails, and is not
repeated before WRITE_S have passed: by then it knows that it does not lead. Nothing waits for a write, and none of them ends
the scheduler.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from pumice.api import names
from pumice.api.core import ConfigMap
from pumice.api.meta import ObjectReference
from pumice.kube import errors
from pumice.scheduling.core.memory import EMPTY, Memory, UnreadableSlot, object_name
from pumice.values import Mutable, Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import msgspec

    from pumice.kube.client import Client
    from pumice.kube.recorder import Recorder
    from pumice.runtime import Runtime
    from pumice.scheduling.core.memory import Slot

WRITE_S = 60.0  # between two writes of one slot
RETRY_S = 1.0  # until a server that does not answer is asked again for what a former leader has left
FLUSH_S_MAX = 3.0  # a process that is told to stop does not wait for a dead server
KEY = names.MEMORY_KEY


class MemoryPlace(Value):
    """Where the objects are: `<prefix>-memory-<slot>` in the namespace."""

    namespace: str
    prefix: str

    def name(self, slot: str) -> str:
        return object_name(self.prefix, slot)


class _Kept(Mutable):
    """One slot as it stands in the cluster; `version` None: it has to be looked up, empty: there is no object."""

    slot: Slot[Any]
    version: str | None
    data: bytes


class MemoryStore:
    """The only writer of these objects; belongs to one term of leadership."""

    def __init__(self, client: Client, recorder: Recorder, runtime: Runtime, place: MemoryPlace | None) -> None:
        self._client = client
        self._recorder = recorder
        self._clock = runtime.clock
        self._log = runtime.log
        self._guard = runtime.guard
        self._place = place
        self._kept: dict[str, _Kept] = {}
        self._memory = EMPTY
        self._changed = asyncio.Event()

    async def load(self, slots: Iterable[Slot[Any]]) -> Mapping[str, msgspec.Struct]:
        """The values of those slots that are persistent and have not been loaded yet, by slot."""
        values = {}
        for slot in slots:
            if self._place is not None and slot.persistent and slot.name not in self._kept:
                value = await self._load(slot, self._place)
                if value is not None:
                    values[slot.name] = value
        return values

    async def _load(self, slot: Slot[Any], place: MemoryPlace) -> msgspec.Struct | None:
        while True:
            try:
                found = (await self._client.get(ConfigMap, place.name(slot.name), namespace=place.namespace)).into(
                    ConfigMap
                )
                break
            except errors.NotFound:
                # The object is made even for an empty value: a former leader's that arrives late is refused then.
                self._kept[slot.name] = _Kept(slot, "", b"")
                return None
            except errors.Refused as error:
                self._log("memory_not_kept", slot=slot.name, error=str(error))
                return None
            except errors.KubeError as error:
                self._log("memory_not_read", slot=slot.name, error=str(error))
                await self._clock.sleep(RETRY_S)
        data = found.data.get(KEY, "").encode()
        self._kept[slot.name] = _Kept(slot, found.metadata.resource_version, data)
        value: msgspec.Struct | None = None
        try:
            value = slot.decode(data)
        except UnreadableSlot as error:
            self.set_aside(slot.name, str(error))
        return value

    def set_aside(self, slot: str, why: str) -> None:
        """Say that a value is not used, in the log and as an event about its object."""
        self._log("memory_set_aside", slot=slot, error=why)
        if self._place is not None:
            name, namespace = self._place.name(slot), self._place.namespace
            about = ObjectReference(kind="ConfigMap", api_version="v1", name=name, namespace=namespace)
            self._recorder.record(about, "Warning", "MemorySetAside", f"slot {slot} of the scheduler's memory: {why}")

    def offer(self, memory: Memory) -> None:
        """The memory as it is now; what changed is written soon."""
        if memory is not self._memory:
            self._memory = memory
            self._changed.set()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._write()
            await self._clock.sleep(WRITE_S)

    async def flush(self) -> None:
        """Write what is left, within a time; not what conflicted before: that is for who leads now."""
        try:
            async with asyncio.timeout(FLUSH_S_MAX):
                await self._write(settle_conflicts=False)
        except TimeoutError:
            self._log("memory_not_written", error=f"no answer within {FLUSH_S_MAX:g} s")

    async def _write(self, *, settle_conflicts: bool = True) -> None:
        assert self._place is not None or not self._kept
        for kept in self._kept.values():
            data = kept.slot.encode(self._memory.of(kept.slot))
            if data == kept.data or (kept.version is None and not settle_conflicts):
                continue
            try:
                self._guard()
                await self._put(kept, data)
            except (errors.Conflict, errors.AlreadyExists, errors.NotFound) as error:
                kept.version = None
                self._changed.set()
                self._log("memory_conflict", slot=kept.slot.name, error=str(error))
            except errors.KubeError as error:
                # It may have been written all the same: the next value is, even if it is the former one.
                kept.data = b""
                self._changed.set()
                self._log("memory_not_written", slot=kept.slot.name, error=str(error))

    async def _put(self, kept: _Kept, data: bytes) -> None:
        assert self._place is not None
        name, namespace = self._place.name(kept.slot.name), self._place.namespace
        if kept.version is None:
            kept.version = await self._version(name, namespace)
        metadata = {
            "name": name,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/managed-by": self._place.prefix},
        }
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {KEY: data.decode()}}
        if kept.version:
            body["metadata"] = {**metadata, "resourceVersion": kept.version}
            reply = await self._client.update(ConfigMap, name, body, namespace=namespace)
        else:
            reply = await self._client.create(ConfigMap, body, namespace=namespace)
        kept.version, kept.data = reply.into(ConfigMap).metadata.resource_version, data

    async def _version(self, name: str, namespace: str) -> str:
        try:
            return (
                (await self._client.get(ConfigMap, name, namespace=namespace)).into(ConfigMap).metadata.resource_version
            )
        except errors.NotFound:
            return ""

"""Events for people: what happened to an object and why, written once and counted afterwards.

The same reason and message about the same object is one Event whose count rises. A caller of record() never waits and never
fails: run() writes behind its back, and what is beyond the limits is dropped and counted in `dropped`.
"""

from __future__ import annotations

import asyncio
import collections
from typing import TYPE_CHECKING, Literal, NamedTuple

from pumice import instant
from pumice.api.events import CoreEvent
from pumice.api.kinds import by_struct
from pumice.api.meta import Json, ObjectReference, Struct
from pumice.kube import errors
from pumice.kube.watch import metadata_of
from pumice.runtime import Log, silent
from pumice.values import Mutable

if TYPE_CHECKING:
    from collections.abc import Callable

    from pumice.clock import Clock
    from pumice.kube.client import Client

MESSAGE_BYTES_MAX = 1_024  # API servers refuse more
NAME_CHARS_MAX = 253
SERIES_MAX = 4_096  # events that can still be counted up; the least recent is forgotten first
PENDING_MAX = 1_024  # events that wait to be written
EVENTS_PER_S = 50.0  # new events of this process
EVENTS_BURST = 500
OBJECT_EVENTS_PER_S = 1 / 300  # new events about one object, as client-go: 25 at once, then one in five minutes
OBJECT_EVENTS_BURST = 25
WRITE_S = 1.0  # pause between two rounds of writing
COUNT_S_MIN = 10.0  # a count that rises fast is written this often
LAST_WRITES_S_MAX = 3.0  # a process that is told to stop does not wait for a dead server


class _EventKey(NamedTuple):
    regarding: ObjectReference
    type: str
    reason: str
    message: str


class _Series(Mutable):
    what: _EventKey
    name: str
    action: str
    first: instant.Instant
    last: instant.Instant
    count: int = 1
    written_count: int = 0
    written_at: float = float("-inf")


class TokenBucket:
    """`rate` tokens a second, at most `burst` of them saved up."""

    def __init__(self, *, rate: float, burst: int, monotonic: Callable[[], float]) -> None:
        assert rate > 0, "a bucket that never fills is not a limit but a wall"
        assert burst >= 1, "a bucket must be able to hold one token"
        self._rate = rate
        self._burst = float(burst)
        self._monotonic = monotonic
        self._tokens = float(burst)
        self._filled_at = monotonic()

    def try_take(self) -> bool:
        """Takes a token if there is one."""
        self._fill()
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def _fill(self) -> None:
        now = self._monotonic()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._rate)
        self._filled_at = now


class Recorder:
    """Records for one component; belongs to the event loop in which it runs."""

    def __init__(self, client: Client, *, component: str, clock: Clock, instance: str = "", log: Log = silent) -> None:
        self._client = client
        self._component = component
        self._instance = instance
        self._clock = clock
        self._log = log
        self._series: collections.OrderedDict[_EventKey, _Series] = collections.OrderedDict()
        self._pending: dict[_EventKey, _Series] = {}
        self._bucket = TokenBucket(rate=EVENTS_PER_S, burst=EVENTS_BURST, monotonic=clock.monotonic)
        self._buckets: collections.OrderedDict[ObjectReference, TokenBucket] = collections.OrderedDict()
        self._wake = asyncio.Event()
        self._serial = 0
        self.dropped = 0

    def record(
        self, regarding: Struct, type_: Literal["Normal", "Warning"], reason: str, message: str, *, action: str = ""
    ) -> None:
        """Says of an object, or of what an ObjectReference names, what happened to it; `reason` is one CamelCase word."""
        what = _EventKey(reference_to(regarding), type_, reason, shorten(message))
        series = self._series.get(what)
        now = self._clock.now()
        if series is not None:
            self._series.move_to_end(what)
            series.count += 1
            series.last = now
        else:
            if len(self._pending) >= PENDING_MAX or not self._may_add(what.regarding):
                self.dropped += 1
                return
            series = self._series[what] = _Series(what, self._name(what, now), action, now, now)
            if len(self._series) > SERIES_MAX:
                self._series.popitem(last=False)
        if len(self._pending) < PENDING_MAX:  # a count that does not fit is written with the next one
            self._pending[what] = series
            self._wake.set()

    async def run(self) -> None:
        """Writes what was recorded, until cancelled; then what is left: what happened last is what people will look for."""
        try:
            while True:
                await self._wake.wait()
                await self.write()
                if not self._pending:
                    self._wake.clear()
                await self._clock.sleep(WRITE_S)
        finally:
            await self._write_the_rest()

    async def _write_the_rest(self) -> None:
        """As far as the server answers in time."""
        try:
            async with asyncio.timeout(LAST_WRITES_S_MAX):
                while self._pending:
                    await self.write(everything=True)
        except TimeoutError:
            self._log(
                "events_not_written", events=len(self._pending), error=f"no answer within {LAST_WRITES_S_MAX:g} s"
            )

    async def write(self, *, everything: bool = False) -> None:
        """Writes what is due, or everything."""
        now = self._clock.monotonic()
        due = [series for series in self._pending.values() if everything or now >= series.written_at + COUNT_S_MIN]
        for series in due:
            del self._pending[series.what]
            series.written_at = now
            try:
                await self._write(series)
            except asyncio.CancelledError:  # who ends now writes everything; at worst this one is there already
                self._pending.setdefault(series.what, series)
                raise

    async def _write(self, series: _Series) -> None:
        count = series.count
        try:
            if series.written_count:
                try:
                    await self._count_up(series)
                except errors.NotFound:  # events live for an hour: begin it anew
                    await self._create(series)
            else:
                await self._create(series)
            series.written_count = count
        except errors.KubeError as error:
            self.dropped += 1
            self._series.pop(series.what, None)  # the next of its kind begins anew
            self._log("event_dropped", reason=series.what.reason, object=series.what.regarding.name, error=str(error))

    async def _create(self, series: _Series) -> None:
        regarding = series.what.regarding
        namespace = regarding.namespace or "default"
        event: Json = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": series.name, "namespace": namespace},
            "involvedObject": {key: value for key, value in _camel(regarding).items() if value},
            "type": series.what.type,
            "reason": series.what.reason,
            "message": series.what.message,
            "action": series.action,
            "count": series.count,
            "firstTimestamp": instant.format_instant(series.first),
            "lastTimestamp": instant.format_instant(series.last),
            "source": {"component": self._component, "host": self._instance},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
        }
        await self._client.create(CoreEvent, event, namespace=namespace)

    async def _count_up(self, series: _Series) -> None:
        patch = {"count": series.count, "lastTimestamp": instant.format_instant(series.last)}
        namespace = series.what.regarding.namespace or "default"
        await self._client.patch(CoreEvent, series.name, patch, namespace=namespace)

    def _may_add(self, regarding: ObjectReference) -> bool:
        bucket = self._buckets.get(regarding)
        if bucket is None:
            bucket = TokenBucket(rate=OBJECT_EVENTS_PER_S, burst=OBJECT_EVENTS_BURST, monotonic=self._clock.monotonic)
            self._buckets[regarding] = bucket
            if len(self._buckets) > SERIES_MAX:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(regarding)
        return bucket.try_take() and self._bucket.try_take()

    def _name(self, what: _EventKey, now: instant.Instant) -> str:
        """Unique among the object's events: by time, and by number within this process."""
        self._serial += 1
        suffix = f".{now:x}{self._serial & 0xFFFF:04x}"
        return what.regarding.name[: NAME_CHARS_MAX - len(suffix)] + suffix


def reference_to(regarding: Struct) -> ObjectReference:
    """The reference by which an Event names an object."""
    if isinstance(regarding, ObjectReference):
        return regarding
    kind = by_struct(type(regarding))
    metadata = metadata_of(regarding)
    return ObjectReference(
        api_version=kind.api_version, kind=kind.kind, namespace=metadata.namespace, name=metadata.name, uid=metadata.uid
    )


def shorten(message: str) -> str:
    """The message in at most MESSAGE_BYTES_MAX bytes, never ending within a character."""
    encoded = message.encode()
    if len(encoded) <= MESSAGE_BYTES_MAX:
        return message
    return encoded[: MESSAGE_BYTES_MAX - 3].decode(errors="ignore") + "..."


def _camel(reference: ObjectReference) -> dict[str, str]:
    return {
        "apiVersion": reference.api_version,
        "kind": reference.kind,
        "namespace": reference.namespace,
        "name": reference.name,
        "uid": reference.uid,
        "resourceVersion": reference.resource_version,
        "fieldPath": reference.field_path,
    }

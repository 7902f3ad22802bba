"""What the record and the scheduler tell each other: run times of the past for estimates, and forecasts to be kept. Imports no database.

Both are ConfigMaps beside the scheduler's memory, looked at once a minute. So the scheduler needs no database, and neither waits for the
other (docs/adr/0024-what-the-record-teaches.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pumice.api import names
from pumice.api.core import ConfigMap
from pumice.kube import errors
from pumice.record.rows import Forecast
from pumice.scheduling.core.memory import UnreadableSlot, object_name
from pumice.scheduling.time import accuracy, run_times
from pumice.scheduling.time.run_times import Remembered, Runs

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pumice.kube.client import Client
    from pumice.record.settings import RecordSettings

GANGS_MAX = 20_000  # completed gangs that are looked at in one go; the newest when the record is opened


class Completed(NamedTuple):
    """A gang that has done what it came for, in one attempt; times in seconds."""

    uid: str
    user: str
    queue: str
    name: str
    started: int
    ended: int


class RunTimesByKind:
    """Run times by kind, folded from completed gangs as they come."""

    def __init__(self) -> None:
        self._kinds: dict[str, Runs] = {}
        self.until = 0  # gangs that ended before are in it
        self._last: set[str] = set()  # those that ended in that very second

    def fold(self, gangs: Iterable[Completed]) -> None:
        """In the order of their ends; one that was folded before does not count again."""
        for gang in gangs:
            if gang.ended < self.until or gang.uid in self._last:
                continue
            if gang.ended > self.until:
                self.until, self._last = gang.ended, set()
            self._last.add(gang.uid)
            kind = run_times.kind(gang.user, gang.queue, gang.name)
            self._kinds[kind] = self._kinds.get(kind, Runs()).after(max(gang.ended - gang.started, 0), gang.ended)
        self._kinds = run_times.newest(self._kinds)

    def encoded(self) -> str:
        """As the scheduler reads it: kinds of which too little is known are left out."""
        known = {kind: runs for kind, runs in self._kinds.items() if runs.past() is not None}
        return run_times.SLOT.encode(Remembered(known)).decode()


class Exchange:
    """The ConfigMaps on both sides."""

    def __init__(self, client: Client, settings: RecordSettings) -> None:
        self._client = client
        self._namespace = settings.namespace
        self._scores = object_name(settings.scheduler, accuracy.SCORE.name)
        self._written: str | None = None  # as it was last written

    async def write(self, encoded: str) -> bool:
        """Whether anything was new, and is written."""
        if encoded == self._written:
            return False
        body = {"data": {names.MEMORY_KEY: encoded}}
        try:
            await self._client.patch(ConfigMap, names.RECORDED_RUN_TIMES, body, namespace=self._namespace)
        except errors.NotFound:
            metadata = {"name": names.RECORDED_RUN_TIMES, "namespace": self._namespace}
            whole = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **body}
            await self._client.create(ConfigMap, whole, namespace=self._namespace)
        self._written = encoded
        return True

    async def forecasts(self) -> list[Forecast]:
        """Those that the scheduler has given and that wait for their gangs to start, by the uids of their groups."""
        try:
            found = (await self._client.get(ConfigMap, self._scores, namespace=self._namespace)).into(ConfigMap)
            score = accuracy.SCORE.decode(found.data.get(names.MEMORY_KEY, "").encode())
        except (errors.NotFound, UnreadableSlot):
            return []
        return [Forecast(each.gang, each.made, each.p50, each.p90) for each in score.open if each.p50]

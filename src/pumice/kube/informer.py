"""What is there now, kind by kind: a list, then a watch for ever, and every change passed on in order.

    list --> watch --> (ended, broken, silent) --> watch again from the last version
      ^                       |
      +------- 410 -----------+   what vanished meanwhile is found by comparing, and passed on as Deleted

A subscriber sees each object's changes in the order in which they happened. It may see the same state twice, never a gap: an
object that was deleted and made again under its name is first Deleted, then Upserted. Each list, the first one too, ends with
Relisted.

Informers of one process talk to one server: the first that hears of it again after a failure wakes those that sleep in their back-off.
"""

from __future__ import annotations

import asyncio
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self, TypeAlias, TypeVar, cast

from pumice.api.changes import Deleted, Relisted, Upserted
from pumice.api.meta import Struct
from pumice.api.pods import Pod
from pumice.api.sharing import Siblings
from pumice.kube import errors, requests
from pumice.kube.transport import Request
from pumice.kube.watch import Event, metadata_of, watch
from pumice.runtime import Log, silent

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pumice.clock import Clock
    from pumice.kube.client import Client
    from pumice.kube.paging import BadObject

RETRY_S_FIRST = 0.2
RETRY_S_MAX = 30.0
WATCH_S_MIN = 300.0  # as client-go: servers with many watchers see them come back spread over time
WATCH_S_MAX = 600.0
SHORT_WATCH_S = 1.0  # a watch that ended sooner without a word is a failure, however politely it ended

_INITIAL_EVENTS_END = "k8s.io/initial-events-end"

T = TypeVar("T", bound=Struct)
News: TypeAlias = Upserted | Deleted | Relisted


def objects_in(news: Iterable[News], struct: type[T]) -> Iterator[tuple[T, bool]]:
    """The objects of a kind that news is about, each with whether it is gone."""
    for change in news:
        if not isinstance(change, Relisted) and isinstance(change.object, struct):
            yield change.object, isinstance(change, Deleted)


class Key(NamedTuple):
    """Where an object is found; the namespace is empty for kinds that have none."""

    namespace: str
    name: str

    @classmethod
    def parse(cls, text: str) -> Self:
        """The key that `namespace/name` means."""
        namespace, _, name = text.partition("/")
        return cls(namespace, name)


class Sleepers:
    """Informers that could not reach the server and sleep until they try again, unless one of them finds it back sooner."""

    def __init__(self) -> None:
        self._woken: dict[asyncio.Event, None] = {}  # in the order in which they fell asleep

    async def sleep(self, clock: Clock, seconds: float) -> None:
        """Returns after so many seconds, or when it is woken."""
        woken = asyncio.Event()
        self._woken[woken] = None
        waits = [asyncio.ensure_future(clock.sleep(seconds)), asyncio.ensure_future(woken.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._woken.pop(woken, None)
            for wait in waits:
                wait.cancel()

    def wake(self) -> None:
        for woken in self._woken:
            woken.set()


class Informer(Generic[T]):
    """The latest objects of one kind, kept by run()."""

    def __init__(
        self,
        client: Client,
        struct: type[T],
        *,
        clock: Clock,
        chance: random.Random,
        namespace: str = "",
        fields: str = "",
        log: Log = silent,
    ) -> None:
        self._client = client
        self._struct = struct
        self._clock = clock
        self._chance = chance
        self._where = requests.collection_path(struct, namespace)
        self._namespace = namespace
        self._fields = fields
        self._log = log
        self._objects: dict[Key, T] = {}
        self._siblings = Siblings()
        self._unreadable: set[Key] = set()  # there, but not as their Struct: not to be taken for deleted
        self._subscribers: list[Callable[[Sequence[News]], None]] = []
        self._version = ""  # empty: must list
        self._arriving: dict[Key, T] | None = None  # a list that comes through the watch, until its end
        self._streams_lists = True  # until the server says that it cannot
        self._failures = 0
        self._heard = False  # anything at all, since the last call
        self.synced = asyncio.Event()  # set for good once the first list was passed on
        self.sleepers = Sleepers()  # shared by those who watch the same server

    @property
    def objects(self) -> Mapping[Key, T]:
        """All objects as last heard of; a view that changes with them."""
        return MappingProxyType(self._objects)

    def get(self, namespace: str, name: str) -> T | None:
        return self._objects.get(Key(namespace, name))

    def subscribe(self, receive: Callable[[Sequence[News]], None]) -> Callable[[], None]:
        """Calls `receive` with all changes from now on, in batches, after one batch with all that is known; returns the way out.

        It is called on the event loop and must be quick and must not raise: all other tasks wait for it.
        """
        if self.synced.is_set():
            receive([*map(Upserted, self._objects.values()), self._relist_change()])
        self._subscribers.append(receive)
        return lambda: self._subscribers.remove(receive)

    # ------------------------------------------------------------------------------------------------------ running

    async def run(self) -> None:
        """Lists and watches until cancelled; whatever the network or the server does, it goes on."""
        while True:
            began = self._clock.monotonic()
            self._heard = False
            try:
                await self._list_or_watch()
                ended_early = not self._heard and self._clock.monotonic() - began < SHORT_WATCH_S
                delay = self._delay() if ended_early else 0.0
            except errors.Expired as error:
                self._log("watch_expired", path=self._where, version=self._version, error=str(error))
                self._version = ""
                delay = self._delay() if self._failures else 0.0
                self._failures += 1
            except errors.KubeError as error:
                delay = self._delay()
                self._log("watch_failed", path=self._where, error=str(error), retry_s=round(delay, 3))
                if isinstance(error, errors.Unreachable | errors.ServerError):
                    await self.sleepers.sleep(self._clock, delay)
                    continue
            if delay:
                await self._clock.sleep(delay)

    async def _list_or_watch(self) -> None:
        if self._version:
            await self._watch({"resourceVersion": self._version})
        elif self._streams_lists:
            await self._list_by_watch()
        else:
            await self._list()

    async def _list(self) -> None:
        self._unreadable.clear()
        listing = await self._client.list(
            self._struct, namespace=self._namespace, fields=self._fields, bad=self._unread
        )
        self._hear()
        self._replace({_key(item): self._shared(item) for item in listing.items}, listing.resource_version)

    async def _list_by_watch(self) -> None:
        """A list as the first events of a watch, ended by a bookmark: the server need not hold it in memory whole."""
        self._unreadable.clear()
        self._arriving = {}
        try:
            await self._watch({"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"})
        except errors.Invalid:
            self._hear()
            self._streams_lists = False
        except errors.Stalled:
            # A server from before this way of listing begins to watch and never marks an end.
            self._streams_lists = self._arriving is None
            raise
        finally:
            self._arriving = None

    async def _watch(self, start: Mapping[str, str]) -> None:
        query = {
            **requests.query(fieldSelector=self._fields),
            **start,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(round(self._chance.uniform(WATCH_S_MIN, WATCH_S_MAX))),
        }
        request = Request("GET", self._where, query, {"accept": "application/json"})
        await watch(self._client, request, self._struct, self._receive, bad=self._unread)

    def _delay(self) -> float:
        self._failures += 1
        return min(RETRY_S_MAX, RETRY_S_FIRST * 2.0 ** min(self._failures - 1, 20)) * (0.5 + self._chance.random())

    def _hear(self) -> None:
        self._heard = True
        if self._failures:
            self._failures = 0
            self.sleepers.wake()

    def _unread(self, bad: BadObject) -> None:
        namespace, _, name = bad.key.rpartition("/")
        self._unreadable.add(Key(namespace, name))
        self._log("object_unreadable", path=self._where, key=bad.key, error=str(bad))

    # ------------------------------------------------------------------------------------------------------ changing

    def _receive(self, events: Sequence[Event[T]]) -> None:
        self._hear()
        news: list[News] = []
        for event in events:
            if event.type == "BOOKMARK":
                self._bookmark(event.object, news)
            elif self._arriving is None:
                self._apply(event, news)
            elif event.type == "DELETED":
                self._arriving.pop(_key(event.object), None)
            else:
                self._arriving[_key(event.object)] = self._shared(event.object)
        self._publish(news)

    def _bookmark(self, mark: T, news: list[News]) -> None:
        """A version to resume from, though nothing changed; or the end of a list that came through the watch."""
        metadata = metadata_of(mark)
        if self._arriving is None:
            self._version = metadata.resource_version
        elif metadata.annotations.get(_INITIAL_EVENTS_END) == "true":
            self._publish(news)  # in order, though nothing can have been put there yet
            news.clear()
            arrived, self._arriving = self._arriving, None
            self._replace(arrived, metadata.resource_version)

    def _apply(self, event: Event[T], news: list[News]) -> None:
        fresh = event.object
        metadata = metadata_of(fresh)
        self._version = metadata.resource_version
        key = Key(metadata.namespace, metadata.name)
        known = self._objects.get(key)
        if known is not None and metadata_of(known).uid != metadata.uid:
            news.append(self._deleted(known))
        if event.type == "DELETED":
            self._objects.pop(key, None)
            news.append(self._deleted(fresh))
            return
        fresh = self._objects[key] = self._shared(fresh)
        news.append(Upserted(fresh))

    def _shared(self, fresh: T) -> T:
        """The same object; of pods there are so many that what is equal in them is kept once."""
        return cast("T", self._siblings.share(fresh)) if isinstance(fresh, Pod) else fresh

    def _deleted(self, gone: T) -> Deleted:
        if isinstance(gone, Pod):
            self._siblings.forget(gone)
        return Deleted(gone)

    def _replace(self, listed: dict[Key, T], version: str) -> None:
        """Makes the objects those of a list, and tells what that changed."""
        news: list[News] = []
        for key, known in self._objects.items():
            fresh = listed.get(key)
            if fresh is None and key in self._unreadable:
                # It is still there: better its last readable state than a death that did not happen.
                listed[key] = known
            elif fresh is None or metadata_of(fresh).uid != metadata_of(known).uid:
                news.append(self._deleted(known))
        for key, fresh in listed.items():
            known_before = self._objects.get(key)
            if (
                known_before is None
                or metadata_of(known_before).resource_version != metadata_of(fresh).resource_version
            ):
                news.append(Upserted(fresh))
        self._objects = listed
        self._version = version
        news.append(self._relist_change())
        self._publish(news)
        if not self.synced.is_set():
            self._log("informer_synced", path=self._where, objects=len(listed))
            self.synced.set()

    def _relist_change(self) -> Relisted:
        return Relisted(self._struct, frozenset(metadata_of(each).uid for each in self._objects.values()))

    def _publish(self, news: Sequence[News]) -> None:
        if news:
            for receive in tuple(self._subscribers):
                receive(news)


class Informers:
    """One informer per kind for the whole process, begun when it is first asked for."""

    def __init__(self, client: Client, *, clock: Clock, chance: random.Random, log: Log = silent) -> None:
        self._client = client
        self._clock = clock
        self._chance = chance
        self._log = log
        self._informers: dict[type[Struct], Informer[Any]] = {}
        self._running: asyncio.TaskGroup | None = None
        self._sleepers = Sleepers()

    def of(self, struct: type[T]) -> Informer[T]:
        if struct not in self._informers:
            made = Informer(self._client, struct, clock=self._clock, chance=self._chance, log=self._log)
            made.sleepers = self._sleepers
            self._informers[struct] = made
            if self._running is not None:
                self._running.create_task(made.run(), name=f"informer-{struct.__name__}")
        return cast("Informer[T]", self._informers[struct])

    async def run(self) -> None:
        """Runs all informers, those that are still to come too, until cancelled."""
        try:
            async with asyncio.TaskGroup() as self._running:
                for struct, informer in self._informers.items():
                    self._running.create_task(informer.run(), name=f"informer-{struct.__name__}")
                await asyncio.get_running_loop().create_future()
        finally:
            self._running = None

    async def synced(self) -> None:
        """Returns once every kind that was asked for so far has been listed."""
        for informer in tuple(self._informers.values()):
            await informer.synced.wait()


def _key(each: Struct) -> Key:
    metadata = metadata_of(each)
    return Key(metadata.namespace, metadata.name)

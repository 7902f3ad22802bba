"""What a controller may look at: the informers' objects, and our own writes before any watch has shown them.

The API server's answer to a write is news like any other. It is taken in at once, and the watch, which brings it a moment
later, changes nothing any more; older news about that object is ignored. So a plan that follows a write sees it, and asks for
nothing a second time. How versions are compared is said in pumice.api.versions.

    unknown --our write--> learnt --shown by the watch--> known --deleted--> unknown
                              |
                              +--not shown in time: forgotten, because it was deleted while there was no watch
"""

from __future__ import annotations

import collections
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, cast

from pumice.api import versions
from pumice.api.changes import Deleted, Upserted
from pumice.api.core import Namespace
from pumice.api.meta import Struct
from pumice.kube.informer import Key
from pumice.kube.watch import metadata_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pumice.clock import Clock
    from pumice.kube.informer import Informers, News

NO_ANNOTATIONS: Mapping[str, str] = MappingProxyType({})
LEARNT_S_MAX = 30.0  # a watch that has shown later things and not our write by then never will
LAGGING_S_MAX = 600.0  # and neither will one that has shown nothing later by then
DELETED_UIDS_MAX = 16_384  # uids of the deleted, so that an answer that comes late does not bring them back
DELETED_KEPT_MAX = 2_048  # the deleted as they were last seen, which says why they went
ABSENT_S_MAX = 5.0  # for so long the server's own word that there is no such object is good

T = TypeVar("T", bound=Struct)
Concerns: TypeAlias = "Callable[[T, T], bool]"


def everything(known: Struct, fresh: Struct) -> bool:
    """Every change of an object concerns the subscriber."""
    del known, fresh
    return True


class Store(Generic[T]):
    """The objects of one kind, found by name, by owner and by the indexes that controllers declare."""

    def __init__(self, struct: type[T], clock: Clock) -> None:
        self._struct = struct
        self._clock = clock
        self._objects: dict[Key, T] = {}
        self._indexes: dict[str, _Index[T]] = {}
        self._deleted_indexes: dict[str, _Index[T]] = {}
        self._shown = 0  # the latest version that the watch has shown, of any object
        self._learnt: dict[Key, float] = {}  # our writes that no watch has shown, and when we learnt of them
        self._deleted_uids: collections.OrderedDict[str, None] = collections.OrderedDict()
        self._deleted: collections.OrderedDict[Key, T] = collections.OrderedDict()
        self._absent: dict[Key, float] = {}  # names that the server itself says no object has, and when it said so
        self._subscribers: list[tuple[Callable[[Sequence[T]], None], Concerns[T]]] = []
        self.index("owner", _controller_uid)

    def get(self, namespace: str, name: str) -> T | None:
        return self._objects.get(Key(namespace, name))

    def recently_deleted(self, index: str, value: str) -> list[T]:
        """What an index held under a value and is gone, as it was last seen; the last of each name, forgotten when there are too many.

        Another object may have the name since.
        """
        keys = self._deleted_indexes[index].keys.get(value, ())
        return [self._deleted[key] for key in sorted(keys)]

    def is_absent(self, namespace: str, name: str) -> bool:
        """True if the server itself, and not only a watch that may lag, has just said that there is no such object."""
        return self._clock.monotonic() - self._absent.get(Key(namespace, name), float("-inf")) < ABSENT_S_MAX

    def all(self) -> Iterable[T]:
        return self._objects.values()

    def __len__(self) -> int:
        """How many objects are known; what is kept of those that are gone is not counted, but has a limit."""
        return len(self._objects)

    def owned_by(self, uid: str) -> list[T]:
        """What the object of this uid controls, by name."""
        return self.find("owner", uid)

    def find(self, index: str, value: str) -> list[T]:
        """What an index holds under a value, by namespace and name."""
        keys = self._indexes[index].keys.get(value, ())
        return [self._objects[key] for key in sorted(keys)]

    def index(self, name: str, values: Callable[[T], Iterable[str]]) -> None:
        """From now on `find(name, value)` gives the objects for which `values` gives that value; a second time changes nothing."""
        if name not in self._indexes:
            for indexes, objects in ((self._indexes, self._objects), (self._deleted_indexes, self._deleted)):
                made = indexes[name] = _Index(values)
                for key, each in objects.items():
                    made.add(key, each)

    def subscribe(self, receive: Callable[[Sequence[T]], None], concerns: Concerns[T] = everything) -> None:
        """Calls `receive` with objects that have changed or gone, and first with all that are there.

        `concerns` is given an object as the subscriber knows it and as it is now: only if it says so it has changed.
        """
        if self._objects:
            receive(tuple(self._objects.values()))
        self._subscribers.append((receive, concerns))

    # ------------------------------------------------------------------------------------------------- our writes

    def learn(self, fresh: T) -> None:
        """Takes in an object as a write of ours has left it; all who depend on it are told now, and not once more by the watch."""
        metadata = metadata_of(fresh)
        if metadata.uid in self._deleted_uids or self._is_stale(fresh):
            return
        key = Key(metadata.namespace, metadata.name)
        known = self._objects.get(key)
        if known is not None and metadata_of(known).resource_version == metadata.resource_version:
            return  # the watch was faster than the answer: it will not show this again, so nothing must wait for that
        self._put(key, fresh)
        self._learnt[key] = self._clock.monotonic()
        self._tell([(_predecessor(known, fresh), fresh)])

    def note_absence(self, namespace: str, name: str) -> None:
        """Takes in that the server has no object of that name."""
        now = self._clock.monotonic()
        self._absent = {key: at for key, at in self._absent.items() if now - at < ABSENT_S_MAX}
        self._absent[Key(namespace, name)] = now
        self.lose(namespace, name, "")

    def lose(self, namespace: str, name: str, uid: str) -> None:
        """Takes in that a write of ours has deleted an object for good."""
        key = Key(namespace, name)
        known = self._objects.get(key)
        if known is not None and (not uid or metadata_of(known).uid == uid):
            self._drop(key)

    def forget_unseen(self) -> None:
        """Gives up what we wrote and no watch has shown in time; the controllers that depend on it are told."""
        now = self._clock.monotonic()
        for key, at in list(self._learnt.items()):
            gone = self._objects[key]
            is_passed = _version(metadata_of(gone).resource_version) <= self._shown
            if now - at >= (LEARNT_S_MAX if is_passed else LAGGING_S_MAX):
                self._remove(key)  # not buried: a watch that lags even more may still show it
                self._tell([(None, gone)])

    # ------------------------------------------------------------------------------------------------- the watch's news

    def receive(self, news: Sequence[News]) -> None:
        changed: list[tuple[T | None, T]] = []  # as subscribers know it, where they do, and as it is now
        for each in news:
            if isinstance(each, Upserted):
                fresh = cast("T", each.object)
                metadata = metadata_of(fresh)
                self._shown = max(self._shown, _version(metadata.resource_version))
                if not self._is_stale(fresh):
                    key = Key(metadata.namespace, metadata.name)
                    known = _predecessor(self._objects.get(key), fresh)
                    self._put(key, fresh)
                    self._learnt.pop(key, None)
                    if known is None or metadata_of(known).resource_version != metadata.resource_version:
                        changed.append((known, fresh))
            elif isinstance(each, Deleted):
                gone = cast("T", each.object)
                metadata = metadata_of(gone)
                key = Key(metadata.namespace, metadata.name)
                known = self._objects.get(key)
                if known is not None and metadata_of(known).uid == metadata.uid:
                    self._drop(key)
                self._bury(key, gone)
                changed.append((None, gone))
        if changed:
            self._tell(changed)

    def _is_stale(self, fresh: T) -> bool:
        metadata = metadata_of(fresh)
        known = self._objects.get(Key(metadata.namespace, metadata.name))
        return known is not None and versions.is_older(
            metadata.resource_version, than=metadata_of(known).resource_version
        )

    def _put(self, key: Key, fresh: T) -> None:
        known = self._objects.get(key)
        for index in self._indexes.values():
            if known is not None:
                index.replace(key, known, fresh)
            else:
                index.add(key, fresh)
        self._objects[key] = fresh
        self._absent.pop(key, None)

    def _drop(self, key: Key) -> None:
        self._bury(key, self._remove(key))

    def _remove(self, key: Key) -> T:
        gone = self._objects.pop(key)
        self._learnt.pop(key, None)
        for index in self._indexes.values():
            index.remove(key, gone)
        return gone

    def _bury(self, key: Key, gone: T) -> None:
        self._deleted_uids[metadata_of(gone).uid] = None
        if len(self._deleted_uids) > DELETED_UIDS_MAX:
            self._deleted_uids.popitem(last=False)
        self._forget_deleted(key)
        self._deleted[key] = gone
        for index in self._deleted_indexes.values():
            index.add(key, gone)
        if len(self._deleted) > DELETED_KEPT_MAX:
            self._forget_deleted(next(iter(self._deleted)))

    def _forget_deleted(self, key: Key) -> None:
        if key in self._deleted:
            known = self._deleted.pop(key)
            for index in self._deleted_indexes.values():
                index.remove(key, known)

    def _tell(self, changed: Sequence[tuple[T | None, T]]) -> None:
        for receive, concerns in self._subscribers:
            told = [fresh for known, fresh in changed if known is None or concerns(known, fresh)]
            if told:
                receive(told)


class Cache:
    """One store per kind for all controllers of a process."""

    def __init__(self, informers: Informers, clock: Clock) -> None:
        self._informers = informers
        self.clock = clock
        self._stores: dict[type[Struct], Store[Any]] = {}

    def of(self, struct: type[T]) -> Store[T]:
        """The store of a kind; from the first call on it is kept up to date."""
        if struct not in self._stores:
            made = self._stores[struct] = Store(struct, self.clock)
            self._informers.of(struct).subscribe(made.receive)
        return cast("Store[T]", self._stores[struct])

    @property
    def stores(self) -> Mapping[type[Struct], Store[Any]]:
        return self._stores

    async def synced(self) -> None:
        await self._informers.synced()


class _Index(Generic[T]):
    def __init__(self, values: Callable[[T], Iterable[str]]) -> None:
        self._values = values
        self.keys: dict[str, dict[Key, None]] = {}  # in the order in which they came

    def add(self, key: Key, each: T) -> None:
        for value in self._values(each):
            self.keys.setdefault(value, {})[key] = None

    def replace(self, key: Key, known: T, fresh: T) -> None:
        if tuple(self._values(known)) != tuple(self._values(fresh)):  # what an object is found by seldom changes
            self.remove(key, known)
            self.add(key, fresh)

    def remove(self, key: Key, each: T) -> None:
        for value in self._values(each):
            keys = self.keys.get(value)
            if keys is not None:
                keys.pop(key, None)
                if not keys:
                    del self.keys[value]


def _controller_uid(each: Struct) -> Iterable[str]:
    controller = metadata_of(each).controller
    return (controller.uid,) if controller is not None else ()


def _predecessor(known: T | None, fresh: T) -> T | None:
    """What is known, if that is the same object and not merely one of that name."""
    return known if known is not None and metadata_of(known).uid == metadata_of(fresh).uid else None


def _version(text: str) -> int:
    """A version as a number; one that is none is older than all."""
    return versions.number_of(text) or 0


def annotations_of_namespace(cache: Cache, namespace: str) -> Mapping[str, str]:
    """What a namespace says of itself, as far as its watch has shown it."""
    found = cache.of(Namespace).get("", namespace)
    return found.metadata.annotations if found is not None else NO_ANNOTATIONS

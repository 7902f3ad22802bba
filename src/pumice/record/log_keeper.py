"""The last lines of containers that have ended, fetched before their pod is gone.

A pod that is being taken away is asked at once, while its containers still have their grace time, and one that has failed, too: who
restarts a Job deletes its pods, and their logs go with them. A pod that succeeded stays until its Job goes: it is asked later, a few a
second, because thousands of them would cost more than all the rest of the record. What cannot be fetched is let go.
"""

from __future__ import annotations

import asyncio
import collections
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from pumice import instant
from pumice.api.changes import Upserted
from pumice.api.native import NativePodGroup
from pumice.api.pods import ENDED, Pod
from pumice.api.scheduling import PodGroup
from pumice.kube import requests
from pumice.kube.errors import KubeError, NotFound
from pumice.kube.transport import Request
from pumice.record import facts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pumice.api.groups import Group
    from pumice.kube.client import Client
    from pumice.kube.informer import Informers, News
    from pumice.runtime import Runtime

LINES_BYTES_MAX = 64 * 2**10  # of one container, uncompressed
FETCHED_BYTES_MAX = 2**20  # servers count a limit from the beginning of the lines that were asked for
FETCHED_LINES = 1_000
WAITING_BYTES_MAX = 16 * 2**20  # fetched and not yet written
WAITING_PODS_MAX = 2_000  # to be fetched; the oldest are let go first
SEEN_MAX = 50_000  # pods that were asked, so that their further news is none
FETCHERS = 8
WAITED_FOR_S_MAX = 2.0  # by who is about to delete a pod
# Pods to be fetched; with more of them nobody waits: a gang of thousands must not start later for its lines.
WAITED_FOR_MAX = 64
CONTAINERS_MAX = 16  # of one pod
CALM_S = 0.2  # between two pods that succeeded and are not about to go
REST_S = 60.0  # of a node that gave no logs
FRESH_S = 60  # lines of a pod that ended so shortly ago cannot be in the record yet
_LEAVING, _CALM, _LAST = 1, 2, 3  # what a pod was last seen as: each is asked once in each


class Lines(msgspec.Struct, frozen=True):
    """What one container wrote last."""

    pod_uid: str
    container: str
    gang: str
    attempt: int
    pod: str
    task: str
    at: int
    text: bytes


class _Wanted(NamedTuple):
    pod: Pod
    gang: str
    attempt: int


class LogKeeper:
    """`run` fetches until cancelled; `take` gives what has been fetched. `is_kept` says whether the record has lines since that time."""

    def __init__(
        self, client: Client, informers: Informers, runtime: Runtime, is_kept: Callable[[str, int], bool]
    ) -> None:
        self._client = client
        self._informers = informers
        self._clock = runtime.clock
        self._is_kept = is_kept
        self._wanted: collections.OrderedDict[str, _Wanted] = collections.OrderedDict()
        self._calm: collections.OrderedDict[str, _Wanted] = collections.OrderedDict()
        self._seen: collections.OrderedDict[str, int] = collections.OrderedDict()
        self._resting: dict[str, float] = {}  # nodes, and until when they are not asked
        self._fetched: list[Lines] = []
        self._bytes = 0
        self._arrived = asyncio.Event()
        self._under_way: dict[str, asyncio.Future[None]] = {}  # for who waits for a pod
        self.idle = asyncio.Event()  # set while nothing is left to fetch
        self.idle.set()
        self.dropped = 0

    def hear(self, news: Sequence[News]) -> None:
        """On the event loop; most news is of pods that go on."""
        for change in news:
            if isinstance(change, Upserted) and isinstance(change.object, Pod):
                self._look(change.object)

    def _look(self, pod: Pod) -> None:
        stage = _stage(pod)
        uid = pod.metadata.uid
        if self._seen.get(uid, 0) >= stage:
            return
        if not any(each.state.running or each.state.terminated for each in pod.status.container_statuses):
            return
        member = facts.membership(pod)
        gang = member.job or self._gang_of(pod.metadata.namespace, member.group)
        if not gang:
            return
        self._seen[uid] = stage
        if len(self._seen) > SEEN_MAX:
            self._seen.popitem(last=False)
        wanted = _Wanted(pod, gang, member.attempt)
        if stage == _CALM:
            self._calm[uid] = wanted
            if len(self._calm) > WAITING_PODS_MAX:
                self._calm.popitem(last=False)
                self.dropped += 1
        else:
            self._hurry(uid, wanted)

    def _gang_of(self, namespace: str, group: Group) -> str:
        kind: type[PodGroup | NativePodGroup] = NativePodGroup if group.is_native else PodGroup
        found = self._informers.of(kind).get(namespace, group.name) if group.name else None
        return "" if found is None else found.metadata.uid

    def _hurry(self, uid: str, wanted: _Wanted) -> None:
        self._calm.pop(uid, None)
        self._wanted[uid] = wanted
        if len(self._wanted) > WAITING_PODS_MAX:
            self._done(self._wanted.popitem(last=False)[0])
            self.dropped += 1
        self._under_way.setdefault(uid, asyncio.get_running_loop().create_future())
        self._arrived.set()
        self.idle.clear()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as crew:
            crew.create_task(self._fetch_calmly())
            for _ in range(FETCHERS):
                crew.create_task(self._fetch_all())

    async def _fetch_calmly(self) -> None:
        while True:
            await self._clock.sleep(CALM_S if self._calm else 10 * CALM_S)
            if self._calm:
                await self._fetch(self._calm.popitem(last=False)[1])

    async def _fetch_all(self) -> None:
        while True:
            await self._arrived.wait()
            while self._wanted:
                uid, wanted = self._wanted.popitem(last=True)  # who ended last is the next to be gone
                try:
                    await self._fetch(wanted)
                finally:
                    self._done(uid)
            self._arrived.clear()

    def _done(self, uid: str) -> None:
        future = self._under_way.pop(uid, None)
        if future is not None and not future.done():
            future.set_result(None)
        if not self._under_way:
            self.idle.set()

    async def keep_first(self, uid: str) -> None:
        """Returns when the lines of a pod that has ended are fetched, if they are about to be: it is going to be deleted."""
        if uid in self._calm:
            self._hurry(uid, self._calm[uid])
        future = self._under_way.get(uid)
        if future is not None and len(self._under_way) <= WAITED_FOR_MAX:
            await asyncio.wait([future], timeout=WAITED_FOR_S_MAX)

    async def _fetch(self, wanted: _Wanted) -> None:
        pod = wanted.pod
        if self._resting.get(pod.spec.node_name, 0.0) > self._clock.monotonic():
            self.dropped += 1
            return
        now = int(self._clock.now() // instant.SECOND)
        ended = facts.ended(pod, None)
        if (
            ended is not None
            and now - ended > FRESH_S
            and await asyncio.to_thread(self._is_kept, pod.metadata.uid, ended)
        ):
            return
        for container in pod.spec.containers[:CONTAINERS_MAX]:
            query = {"container": container.name, "tailLines": str(FETCHED_LINES), "limitBytes": str(FETCHED_BYTES_MAX)}
            where = requests.object_path(Pod, pod.metadata.namespace, pod.metadata.name, "log")
            try:
                text = (await self._client.call(Request("GET", where, query), retry=False)).body
            except NotFound:
                self.dropped += 1
                return
            except KubeError:
                self._rest(pod.spec.node_name)
                self.dropped += 1
                return
            self._keep(wanted, container.name, last_lines(text))

    def _rest(self, node: str) -> None:
        """A node that gives no logs is not asked for a while: it is gone, or no kubelet keeps any there."""
        now = self._clock.monotonic()
        self._resting = {name: until for name, until in self._resting.items() if until > now}
        self._resting[node] = now + REST_S

    def _keep(self, wanted: _Wanted, container: str, text: bytes) -> None:
        if not text:
            return
        if self._bytes + len(text) > WAITING_BYTES_MAX:
            self.dropped += 1
            return
        metadata = wanted.pod.metadata
        self._bytes += len(text)
        self._fetched.append(
            Lines(
                pod_uid=metadata.uid,
                container=container,
                gang=wanted.gang,
                attempt=wanted.attempt,
                pod=metadata.name,
                task=facts.task_of(metadata),
                at=int(self._clock.now() // instant.SECOND),
                text=text,
            )
        )

    @property
    def has_any(self) -> bool:
        return bool(self._fetched)

    def take(self) -> list[Lines]:
        """What has been fetched since the last call."""
        fetched, self._fetched, self._bytes = self._fetched, [], 0
        return fetched

    def put_back(self, lines: Sequence[Lines]) -> None:
        """They could not be written."""
        for each in lines:
            if self._bytes + len(each.text) <= WAITING_BYTES_MAX:
                self._fetched.append(each)
                self._bytes += len(each.text)
            else:
                self.dropped += 1


def _stage(pod: Pod) -> int:
    """0 while it goes on."""
    if pod.metadata.deletion_timestamp is not None:
        return _LAST if pod.status.phase in ENDED else _LEAVING
    return {"Failed": _LAST, "Succeeded": _CALM}.get(pod.status.phase, 0)


def last_lines(text: bytes) -> bytes:
    """The end of a text, from the beginning of a line, of at most the bytes that are kept."""
    if len(text) <= LINES_BYTES_MAX:
        return text
    end = text[-LINES_BYTES_MAX:]
    first = end.find(b"\n") + 1
    return end[first:] if 0 < first < len(end) else end

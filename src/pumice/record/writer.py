"""The loop that keeps the record: news from informers, folded into rows, written in batches by a thread.

    news --(a dictionary: the latest state of each object)--> fold --> buffer --> write --> sum up, trim

Nobody waits for it. A database that is away or slow fills the buffer, which has a limit; what it gives up is counted. Only the leader runs
it, and each batch asks the lease first.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from pumice import instant
from pumice.api.changes import Deleted, Upserted
from pumice.api.core import Namespace
from pumice.api.native import NativePodGroup
from pumice.api.pods import Pod
from pumice.errors import BadInput, PumiceError
from pumice.kube.discovery import served_kinds
from pumice.kube.errors import KubeError
from pumice.record.buffer import BATCH_MAX, Buffer
from pumice.record.learned import GANGS_MAX, Exchange, RunTimesByKind
from pumice.record.log_keeper import LogKeeper
from pumice.record.observer import KINDS, News, Observer
from pumice.record.rounds import Rounds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pumice.kube.client import Client
    from pumice.kube.informer import Informers
    from pumice.kube.informer import News as Change
    from pumice.record.settings import RecordSettings
    from pumice.record.store import Store
    from pumice.runtime import Runtime
    from pumice.telemetry.meters import Meters

TICK_S = 2.0  # a batch has a cost of its own
GATHER_S = 6.0  # news of what is still there: of all that a gang goes through meanwhile one state is written
READER_S_MAX = 0.2  # how long a question waits for what has been heard and not yet written
LINES_S = 10.0  # how long fetched lines wait for more of them
RETRY_S_FIRST = 1.0
RETRY_S_MAX = 30.0
SUM_UP_S = 60.0
SUM_UP_S_ASKED = 15.0  # while somebody asks for sums
TRIM_S = 600.0
LAST_WRITE_S = 20.0  # for what still waits when the process is told to end; kubelets wait for 30
AFTER_FAULT_S = 30.0

T = TypeVar("T")


class Writer:
    """`run` keeps the record until cancelled; belongs to one event loop."""

    def __init__(
        self, client: Client, informers: Informers, settings: RecordSettings, runtime: Runtime, meters: Meters
    ) -> None:
        self._client = client
        self._informers = informers
        self._settings = settings
        self._clock = runtime.clock
        self._guard = runtime.guard
        self._log = runtime.log
        self._meters = meters
        self._news: dict[tuple[type, str], News] = {}
        self._observer = Observer(trusts_label=settings.trusts_label)
        self._buffer = Buffer(settings.buffer_rows)
        self._lines = LogKeeper(client, informers, runtime, self._has_lines) if settings.keeps_logs else None
        self._run_times = RunTimesByKind()
        self._exchange = Exchange(client, settings)
        self._forecasts: set[tuple[str, int]] = set()  # that wait for their gangs, and are in the record
        self._folding = ThreadPoolExecutor(1, "record-fold")
        self._database = ThreadPoolExecutor(1, "record-write")
        self._due = {"fold": 0.0, "sum": 0.0, "exchange": 0.0, "trim": 0.0, "lines": 0.0}
        self._has_gone = False  # news of objects that nobody could read again
        self._is_closed_off = False  # what ended while nobody looked has been ended in the record, too
        self.store: Store | None = None  # once it is open
        self._rounds = Rounds()
        self._first = 1  # the round with all that was there when keeping began
        self._knows_all = False  # that round has ended well

    async def keep_lines_first(self, pod_uid: str) -> None:
        """To be awaited before a pod is deleted: its last lines go with it."""
        if self._lines is not None:
            await self._lines.keep_first(pod_uid)

    async def flush(self) -> None:
        """Returns once everything that has been heard by now is in the record, last lines too."""
        if self._lines is not None:
            await self._lines.idle.wait()
        await self._rounds.next_written()

    async def catch_up(self, *, sums: bool = False) -> None:
        """For who is about to read: what has been heard by now is in the record, and in its sums, unless that takes long."""
        at = self._clock.monotonic()
        if sums and self._due["sum"] - at <= SUM_UP_S - SUM_UP_S_ASKED:
            self._due["sum"] = at
        if self._news or len(self._buffer) or at >= self._due["sum"]:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(READER_S_MAX):
                    await self._rounds.next_written()

    async def run(self) -> None:
        """Keep the record; a database that is of no use ends it, a fault of ours starts it anew."""
        while True:
            try:
                await self._keep()
            except BadInput as error:
                self._log("record_refused", error=str(error))
                self._meters.set("pumice_record_refused", 1)
                return
            except Exception as error:  # noqa: BLE001  the controllers go on
                self._log("record_failed", error=repr(error), trace=traceback.format_exc(limit=-3))
                self._meters.count("pumice_record_failures_total")
                await self._clock.sleep(AFTER_FAULT_S)

    async def _keep(self) -> None:
        self._observer = Observer(trusts_label=self._settings.trusts_label)
        self._is_closed_off = self._knows_all = False
        self._first = self._rounds.begun + 1
        native = await served_kinds(self._client, [NativePodGroup])  # not every server has Kubernetes' own groups
        kinds = [kind for kind in KINDS if kind is not NativePodGroup or native]
        leaves = [self._informers.of(kind).subscribe(functools.partial(self._hear, kind)) for kind in kinds]
        self._informers.of(Namespace)
        writing: asyncio.Task[None] | None = None
        fetching: asyncio.Task[None] | None = None
        if self._lines is not None:
            leaves.append(self._informers.of(Pod).subscribe(self._lines.hear))
            fetching = asyncio.create_task(self._lines.run())
        try:
            await self._informers.synced()
            while True:
                await self._fold()
                for task in (fetching, writing):
                    if task is not None and task.done():
                        task.result()
                if writing is None or writing.done():
                    writing = asyncio.create_task(self._write()) if self._is_due() else None
                self._tell()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(TICK_S):
                        await self._rounds.asked.wait()
                self._rounds.asked.clear()
        finally:
            for leave in leaves:
                leave()
            if fetching is not None:
                fetching.cancel()
                await asyncio.gather(fetching, return_exceptions=True)
            await self._end(writing)

    def _hear(self, kind: type, news: Sequence[Change]) -> None:
        """On the event loop, for every change of every pod: as little as can be."""
        for change in news:
            if isinstance(change, Upserted):
                self._news[kind, change.object.metadata.uid] = News(change.object)  # type: ignore[attr-defined,arg-type]
            elif isinstance(change, Deleted):
                gone: Any = change.object
                self._news[kind, gone.metadata.uid] = News(gone, gone_at=int(self._now()))
                self._has_gone = True

    async def _fold(self, *, is_last: bool = False) -> None:
        """What is gone at once, because after a crash nobody could read it again; the rest when it has gathered."""
        at = self._clock.monotonic()
        is_due = at >= self._due["sum"] or (self._news and at >= self._due["fold"])
        if not (is_due or self._has_gone or self._rounds.waiting or is_last):
            return
        news, self._news, self._has_gone = self._news, {}, False
        self._due["fold"] = at + GATHER_S
        self._rounds.begun += 1
        # Who is told to end meanwhile folds once more, behind this: no row is lost that the observer takes for told.
        await asyncio.shield(self._fold_news(news.values(), self._rounds.begun))

    async def _fold_news(self, news: Iterable[News], number: int) -> None:
        now = self._now()
        rows = await self._in(self._folding, self._observer.fold, news, int(now))
        self._drop(self._buffer.put(rows, now))
        self._rounds.folded = number
        self._knows_all |= number == self._first

    def _drop(self, rows: int) -> None:
        if rows:
            self._log("record_thinned", rows=rows, limit="the buffer is full: the database is away or too slow")
            self._meters.count("pumice_record_dropped_total", rows)

    def _now(self) -> float:
        return self._clock.now() / instant.SECOND

    async def _in(self, threads: ThreadPoolExecutor, work: Callable[..., T], *arguments: Any, **named: Any) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(threads, functools.partial(work, *arguments, **named))

    # ------------------------------------------------------------------------------------------------- writing

    def _is_due(self) -> bool:
        """Whether there is anything to write, somebody who waits for it, or a time that has come."""
        at = self._clock.monotonic()
        has_lines = self._lines is not None and self._lines.has_any
        dues = [self._due["sum"], self._due["trim"], *([self._due["lines"]] if has_lines else [])]
        return bool(len(self._buffer) or self._rounds.waiting) or at >= min(dues)

    async def _write(self) -> None:
        """Everything that waits, and then what is due; while the database is away, one try after the other, ever more rarely."""
        delay = RETRY_S_FIRST
        while True:
            try:
                folded = self._rounds.folded
                await self._drain()
                await self._keep_lines()
                await self._maintain()
                await self._rounds.note_written(folded)
            except BadInput:
                raise
            except PumiceError as error:  # the database is away, or another process leads
                self._meters.count("pumice_record_failures_total")
                self._log("record_delayed", error=str(error), waiting=len(self._buffer), retry_s=delay)
                await self._clock.sleep(delay)
                delay = min(2 * delay, RETRY_S_MAX)
            else:
                if not self._rounds.waiting or self._rounds.folded == folded:
                    return

    async def _drain(self) -> None:
        self._guard()
        if self.store is None:
            store = await self._in(self._database, _open, self._settings, _uid_of_cluster(self._informers))
            self.store = store
            self._log("record_opened", place=store.place)
        if not self._is_closed_off:
            await self._close_off(self.store)
        while len(self._buffer):
            self._guard()
            rows, gap = self._buffer.take(BATCH_MAX), self._buffer.gap
            try:
                refused = await self._in(self._database, self.store.write, rows, now=int(self._now()), gap=gap)
            except BaseException:
                self._drop(self._buffer.put_back(self._now()))
                raise
            self._buffer.written(gap)
            for table, number in Counter(row.TABLE for row in rows).items():
                self._meters.count("pumice_record_rows_total", number, table=table)
            for row in refused:
                self._log("record_row_refused", table=row.TABLE, key=str(row.key))
            if refused:
                self._meters.count("pumice_record_dropped_total", len(refused))

    async def _close_off(self, store: Store) -> None:
        """Before anything else is written, because from then on the record is up to date, and nobody could say until when it was."""
        gangs, runs = await self._in(self._folding, self._observer.known)
        ended = await self._in(self._database, store.close_missing, gangs, runs, now=int(self._now()))
        self._is_closed_off = True
        if ended:
            self._log("record_closed_off", rows=ended)

    def _has_lines(self, pod_uid: str, since: int) -> bool:
        """In a thread; where the database cannot be asked, they are fetched again."""
        try:
            return self.store is not None and self.store.has_lines(pod_uid, since)
        except PumiceError:
            return False

    async def _keep_lines(self, *, is_last: bool = False) -> None:
        at = self._clock.monotonic()
        if self._lines is None or not (self._rounds.waiting or is_last or at >= self._due["lines"]):
            return
        lines = self._lines.take()
        if not lines:
            return
        assert self.store is not None
        self._due["lines"] = at + LINES_S
        try:
            await self._in(self._database, self.store.keep_lines, lines)
        except BaseException:
            self._lines.put_back(lines)
            raise

    async def _maintain(self) -> None:
        assert self.store is not None
        now, at = int(self._now()), self._clock.monotonic()
        if at >= self._due["sum"]:
            is_behind = await self._in(self._database, self.store.sum_up, now)
            self._due["sum"] = at if is_behind else at + SUM_UP_S
            if not is_behind and at >= self._due["exchange"]:
                self._due["exchange"] = at + SUM_UP_S
                await self.exchange()
        if at >= self._due["trim"]:
            trimmed = await self._in(self._database, self.store.trim, self._settings, now)
            self._due["trim"] = at + (1.0 if trimmed else TRIM_S)

    async def exchange(self) -> None:
        """Tell the scheduler what was learned, and keep the forecasts that it has given; once a minute, and never twice for a failure."""
        assert self.store is not None
        gangs = await self._in(self._database, self.store.completed, since=self._run_times.until, limit=GANGS_MAX)
        await self._in(self._folding, self._run_times.fold, gangs)
        try:
            self._guard()
            await self._exchange.write(await self._in(self._folding, self._run_times.encoded))
            given = await self._exchange.forecasts()
        except KubeError as error:
            self._log("record_not_exchanged", error=str(error))
            return
        rows = await self._in(self._folding, self._observer.of_gangs, given)
        fresh = [row for row in rows if row.key not in self._forecasts]
        self._forecasts = {row.key for row in rows}
        self._drop(self._buffer.put(fresh, self._now()))

    def _tell(self) -> None:
        since = self._buffer.since()
        self._meters.set("pumice_record_lag_seconds", 0.0 if since is None else max(self._now() - since, 0.0))
        self._meters.set("pumice_record_waiting", len(self._buffer))
        if self._lines is not None and self._lines.dropped:
            self._meters.count("pumice_record_lines_dropped_total", self._lines.dropped)
            self._lines.dropped = 0

    async def _end(self, writing: asyncio.Task[None] | None) -> None:
        """Write what still waits, if that is quick."""
        if writing is not None:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
        if self._rounds.begun < self._first:
            return  # who has not heard of all there is cannot say what is gone
        try:
            async with asyncio.timeout(LAST_WRITE_S):
                await self._fold(is_last=True)
                if self._knows_all:  # nor can who failed over it
                    await self._drain()
                    await self._keep_lines(is_last=True)
        except (PumiceError, TimeoutError) as error:  # who keeps the record next ends what is gone by then
            self._log("record_not_finished", error=str(error) or "no time was left", waiting=len(self._buffer))

    def close(self) -> None:
        """No more reads and writes: for the end of the process."""
        self._folding.shutdown(wait=False, cancel_futures=True)
        self._database.shutdown(wait=False, cancel_futures=True)
        if self.store is not None:
            self.store.close()


def _uid_of_cluster(informers: Informers) -> str:
    """What tells this cluster from all others, as many programs do it."""
    found = informers.of(Namespace).get("", "kube-system")
    return found.metadata.uid if found is not None else ""


def _open(settings: RecordSettings, cluster: str) -> Store:
    """In the thread that writes: the imports alone take as long as many cycles."""
    from pumice.record.store import Store

    store = Store(settings.url)
    store.open()
    if cluster:
        store.adopt(cluster, adopts=settings.adopts)
    return store

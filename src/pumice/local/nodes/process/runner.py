"""One container of a pod, attempt after attempt.

waiting for its sources --> running --> ended --(restart policy)--> backing off --> running ...
                               ^ terminate(): SIGTERM, and no further attempt      kill(): SIGKILL
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal, Protocol

from pumice.errors import BadInput
from pumice.kube import errors
from pumice.local.nodes.containers import (
    BACK_OFF_RESET_S,
    BACK_OFF_S_FIRST,
    MESSAGE_CHARS_MAX,
    Ended,
    back_off_s,
    restarts,
)
from pumice.local.nodes.process import launch, orders
from pumice.local.nodes.process.environment import Asking
from pumice.local.nodes.process.sources import MissingSource
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from pathlib import Path
    from signal import Signals

    from pumice.clock import Clock
    from pumice.local.nodes.containers import ContainerRecord
    from pumice.local.nodes.process.downward import Facts
    from pumice.local.nodes.process.launch import Process
    from pumice.local.nodes.process.leftovers import Leftovers
    from pumice.local.nodes.process.logs import PodLogs
    from pumice.local.nodes.process.podspec import Container, ProcessPod
    from pumice.local.nodes.process.sources import PodSources
    from pumice.local.nodes.process.volumes import PodVolumes

RETRY_S = 1.0  # for what may come without a word: a claim, a token, the API server itself
NOT_STARTED = 128  # the exit code of a container that could not be started
FALLBACK_BYTES_MAX, FALLBACK_LINES_MAX = 2_048, 80  # of a log that stands in for a termination message


class Tell(Protocol):
    """Told of what a person wants to know of a pod, as an Event."""

    def __call__(self, type_: Literal["Normal", "Warning"], reason: str, message: str) -> None: ...


class Surroundings(Value, kw_only=True):
    """What a pod's life needs of its node."""

    folder: Path  # the pod's own
    clock: Clock
    facts: Facts
    sources: PodSources
    volumes: PodVolumes
    logs: PodLogs
    records: Leftovers
    given: Mapping[str, Mapping[str, str]]  # environment by container: the API server's address, its GPUs
    changed: Callable[[], None]
    tell: Tell
    back_off_s_first: float = BACK_OFF_S_FIRST


class ContainerRunner:
    """Runs a container as its pod's restart policy has it."""

    def __init__(self, container: Container, record: ContainerRecord, at: Surroundings) -> None:
        self.container = container
        self.record = record
        self.started = asyncio.Event()  # set for good once it ran for the first time
        self._at = at
        self._process: Process | None = None
        self._stopping = asyncio.Event()
        self._killed = False
        self._news = asyncio.Event()  # a source changed
        self._folder = at.folder / "containers" / container.name
        (self._folder / "root").mkdir(parents=True, exist_ok=True)

    @property
    def init(self) -> int | None:
        """The process id of its init, while it runs."""
        return self._process.init if self._process is not None else None

    def terminate(self) -> None:
        """Asks the command to end; there will be no further attempt."""
        self._stopping.set()
        if self._process is not None:
            self._process.terminate()

    def signal(self, number: Signals) -> bool:
        """Sends a signal to the command; False where none runs."""
        if self._process is None or self._stopping.is_set():
            return False
        self._process.signal(number)
        return True

    def kill(self) -> None:
        self._stopping.set()
        self._killed = True
        if self._process is not None:
            self._process.kill()

    def source_changed(self) -> None:
        self._news.set()

    async def keep(self, pod: Callable[[], ProcessPod]) -> None:
        """Runs the container again and again; returns when its end is final. `pod` says what the pod is like by then."""
        ends = 0
        while not self._stopping.is_set():
            began = self._at.clock.monotonic()
            code = await self._attempt(pod)
            if code is None or self._stopping.is_set():
                return
            if not restarts(self.record.role, pod().spec.restart_policy, code):
                return
            ends = 1 if self._at.clock.monotonic() - began >= BACK_OFF_RESET_S else ends + 1
            if delay_s := back_off_s(ends, first_s=self._at.back_off_s_first):
                message = f"back-off {delay_s:g}s restarting failed container {self.container.name}"
                self._wait("CrashLoopBackOff", message)
                self._at.tell("Warning", "BackOff", message)
                await self._until(self._at.clock.sleep(delay_s))

    async def _attempt(self, pod: Callable[[], ProcessPod]) -> int | None:
        """One run, and its exit code; None if the pod is to end before it came to one."""
        place = orders.Place(
            root=self._folder / "root",
            hosts=self._at.folder / "hosts",
            termination_message=self._folder / "termination-log",
        )
        place.termination_message.write_bytes(b"")
        place.termination_message.chmod(0o666)
        try:
            order = await self._order(pod, place)
            if order is None:
                return None
            await self._start(pod().metadata.uid, order)
        except (BadInput, launch.StartFailed) as error:
            return self._fail(str(error))
        code = await self._wait_for_end()
        self.record.end(code, self._at.clock.now(), message=self._termination_message(place, code))
        self._at.changed()
        return code

    async def _order(self, pod: Callable[[], ProcessPod], place: orders.Place) -> dict[str, Any] | None:
        """What to run, once all that it takes is there; None if the pod is to end first."""
        while not self._stopping.is_set():
            self._news.clear()
            asking = Asking(pod(), self.container, self._at.facts, self._at.sources)
            try:
                return await orders.order(asking, self._at.volumes, place, self._at.given[self.container.name])
            except (MissingSource, errors.KubeError) as error:
                self._wait("CreateContainerConfigError", str(error))
                self._at.tell("Warning", "Failed", f"Error: {error}")
            await self._until(self._news.wait(), self._at.clock.sleep(RETRY_S))
        return None

    async def _start(self, uid: str, order: dict[str, Any]) -> None:
        had_one = self.record.last is not None or isinstance(self.record.state, Ended)
        attempt = self.record.restarts + int(had_one)
        log = self._at.logs.open(self.container.name, attempt)
        try:
            self._process = await launch.start(order, log, self._at.records)
        except launch.StartFailed:
            log.close()
            raise
        self.record.id = f"process://{uid}/{self.container.name}/{attempt}"
        self.record.start(self._at.clock.now())
        self.started.set()
        self._at.tell("Normal", "Started", f"Container started: {self.container.name}")
        self._at.changed()

    async def _wait_for_end(self) -> int:
        assert self._process is not None
        if self._killed:
            self._process.kill()
        elif self._stopping.is_set():
            self._process.terminate()
        try:
            return await self._process.wait()
        finally:
            self._process = None

    def _fail(self, why: str) -> int:
        now = self._at.clock.now()
        self.record.start(now)
        self.record.end(NOT_STARTED, now, reason="StartError", message=why)
        self._at.tell("Warning", "Failed", f"Error: {self.container.name}: {why}")
        self._at.changed()
        return NOT_STARTED

    def _wait(self, reason: str, message: str) -> None:
        self.record.wait(reason, message)
        self._at.changed()

    def _termination_message(self, place: orders.Place, code: int) -> str:
        """What the container left for its status; where it may, the end of its log if it failed without a word."""
        with place.termination_message.open("rb") as file:
            text = file.read(MESSAGE_CHARS_MAX).decode(errors="replace")
        if not text and code != 0 and self.container.termination_message_policy == "FallbackToLogsOnError":
            text = self._at.logs.tail(self.container.name, bytes_max=FALLBACK_BYTES_MAX, lines_max=FALLBACK_LINES_MAX)
        return text

    async def _until(self, *events: Coroutine[Any, Any, Any]) -> None:
        """Returns as soon as one of these has happened, or the container is to end."""
        await first_of(*events, self._stopping.wait())


async def first_of(*events: Coroutine[Any, Any, Any]) -> None:
    tasks = [asyncio.ensure_future(event) for event in events]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)

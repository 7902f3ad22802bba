"""What pages need beyond the view: one gang's details, the record, the engine's answers. Asked once for all who look, kept for a moment."""

from __future__ import annotations

import asyncio
import collections
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from pumice.errors import PumiceError
from pumice.kube.transport import Request
from pumice.readmodel.model import GangDetail
from pumice.record import model as record
from pumice.scheduling.whatif.outcome import Outcome
from pumice.scheduling.whatif.suggestion import Suggestions
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.clock import Clock
    from pumice.dashboard.source import Asked, Source, Upstream
    from pumice.kube.client import Client

KEPT_MAX = 500  # answers; the oldest give way
RECORD_S = 20.0  # the record is behind by more than that anyway
FAILURE_S = 5.0  # who cannot be asked is not asked again at once
SUGGESTIONS_S = 60.0  # each costs the scheduler's machine seconds of a core
SUGGESTIONS_AT_ONCE = 2
METRICS_S = 2.0
RATES_S = 60.0  # over which rates are told, where somebody has looked for so long
SAMPLES_MAX = 64
EVENTS_S = 5.0
EVENTS_MAX = 100  # of one object
T = TypeVar("T")


class Metrics(Value):
    """Each metric's samples together, whatever their labels; rates by second are empty until they have been seen for a while."""

    sums: Mapping[str, float]
    per_s: Mapping[str, float]


class _Sample(Value):
    at: float
    body: bytes
    sums: Mapping[str, float]


class Answers:
    """Belongs to one event loop."""

    def __init__(self, leader: Upstream, controllers: Upstream, source: Source, client: Client, clock: Clock) -> None:
        self._leader = leader
        self._api = _ApiServer(client)
        self._controllers = controllers
        self._source = source
        self._clock = clock
        self._kept: dict[tuple[Any, ...], tuple[float, asyncio.Task[bytes]]] = {}
        self._turns = asyncio.Semaphore(SUGGESTIONS_AT_ONCE)
        self._samples: dict[bool, collections.deque[_Sample]] = {}

    async def gang(self, namespace: str, name: str) -> GangDetail | None:
        """One gang as the last cycle saw it; None where it did not, or cannot be asked."""
        try:
            body = await self._ask(self._leader, f"/v1/gangs/{namespace}/{name}", {}, 3600.0, self._source.version)
        except PumiceError:
            return None
        return msgspec.json.decode(body, type=GangDetail)

    def suggestions(self, namespace: str, name: str, stamp: object) -> Suggestions | str | None:
        """Single changes that would start a gang; None while the engine is at it, a sentence where it could not."""
        path = f"/v1/gangs/{namespace}/{name}/suggestions"
        task = self._task(self._leader, path, {}, SUGGESTIONS_S, stamp, turns=self._turns)
        if not task.done():
            task.add_done_callback(lambda _: self._source.wake())
            return None
        if (error := task.exception()) is not None:
            return str(error)
        return msgspec.json.decode(task.result(), type=Suggestions)

    async def what_if(self, query: Mapping[str, str]) -> Outcome:
        return msgspec.json.decode(await self._leader.ask(("/v1/what-if", query)), type=Outcome)

    async def history(self, query: Mapping[str, str]) -> record.History:
        return await self._record("/v1/history", query, record.History)

    async def past(self, namespace: str, name: str) -> record.Detail | None:
        """What the record knows of a gang; None where it knows nothing, or there is none."""
        try:
            return await self._record(f"/v1/history/{namespace}/{name}", {}, record.Detail)
        except PumiceError:
            return None

    async def logs(self, namespace: str, name: str, attempt: int = 0) -> record.Logs | None:
        """Of an attempt, or (0) of the last that has any."""
        query = {"attempt": str(attempt)} if attempt else {}
        try:
            return await self._record(f"/v1/logs/{namespace}/{name}", query, record.Logs)
        except PumiceError:
            return None

    async def forecasts(self, query: Mapping[str, str]) -> record.ForecastRecord:
        return await self._record("/v1/forecasts", query, record.ForecastRecord)

    async def report(self, query: Mapping[str, str]) -> record.Usage:
        return await self._record("/v1/report", query, record.Usage)

    async def events(self, namespace: str, name: str) -> list[dict[str, Any]]:
        """What was said of an object of this name, whatever its kind; nothing where the API server does not tell."""
        path = f"/api/v1/namespaces/{namespace}/events"
        query = {"fieldSelector": f"involvedObject.name={name}", "limit": str(EVENTS_MAX)}
        try:
            body = await self._ask(self._api, path, query, EVENTS_S)
        except PumiceError:
            return []
        items: list[dict[str, Any]] = msgspec.json.decode(body).get("items") or []
        return items

    async def metrics(self, *, of_controllers: bool = False) -> Metrics:
        """Sums of the process's metrics, and how fast they rise; raises PumiceError where it cannot be asked."""
        upstream = self._controllers if of_controllers else self._leader
        body = await self._ask(upstream, "/metrics", {}, METRICS_S)
        samples = self._samples.setdefault(of_controllers, collections.deque(maxlen=SAMPLES_MAX))
        if not samples or samples[-1].body is not body:
            samples.append(_Sample(self._clock.monotonic(), body, _sums(body.decode())))
        while len(samples) > 2 and samples[1].at <= samples[-1].at - RATES_S:
            samples.popleft()
        first, last = samples[0], samples[-1]
        rose = {name: value - first.sums.get(name, 0.0) for name, value in last.sums.items()}
        is_new = last.at - first.at < METRICS_S or any(rose[each] < 0 for each in rose if each.endswith("_total"))
        return Metrics(last.sums, {} if is_new else {name: by / (last.at - first.at) for name, by in rose.items()})

    async def _record(self, path: str, query: Mapping[str, str], answer: type[T]) -> T:
        return msgspec.json.decode(await self._ask(self._controllers, path, query, RECORD_S), type=answer)

    async def _ask(
        self, upstream: Asked, path: str, query: Mapping[str, str], seconds: float, stamp: object = None
    ) -> bytes:
        return await asyncio.shield(self._task(upstream, path, query, seconds, stamp))

    def _task(
        self,
        upstream: Asked,
        path: str,
        query: Mapping[str, str],
        seconds: float,
        stamp: object,
        *,
        turns: asyncio.Semaphore | None = None,
    ) -> asyncio.Task[bytes]:
        """The question under way or answered; asked anew when it is too old or was about something else."""
        key, now = (id(upstream), path, *sorted(query.items()), stamp), self._clock.monotonic()
        known = self._kept.get(key)
        if known is not None:
            began, task = known
            failed = task.done() and (task.cancelled() or task.exception() is not None)
            if now - began < (FAILURE_S if failed else seconds):
                return task
            del self._kept[key]
        while len(self._kept) >= KEPT_MAX:
            del self._kept[next(iter(self._kept))]
        task = asyncio.create_task(_one(upstream, path, query, turns))
        self._kept[key] = (now, task)
        return task

    async def close(self) -> None:
        tasks = [task for _, task in self._kept.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _ApiServer:
    """The API server, asked as a leader is."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def ask(self, question: tuple[str, Mapping[str, str]]) -> bytes:
        return (await self._client.call(Request("GET", *question))).body


def _sums(text: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name] = found.get(sample.name, 0.0) + sample.value
    return found


async def _one(upstream: Asked, path: str, query: Mapping[str, str], turns: asyncio.Semaphore | None) -> bytes:
    if turns is None:
        return await upstream.ask((path, query))
    async with turns:
        return await upstream.ask((path, query))

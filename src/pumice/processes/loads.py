"""What nodes really use, asked of the system that measures it: Prometheus, a custom metrics API, or Elasticsearch.

The policy's `metrics` map says which. One or two questions answer for all nodes, each within a time and a size. An answer replaces all
loads at once; without one the last loads stay with their time, so a plugin that reads them knows how old they are.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any, Protocol

import aiohttp
import msgspec

from pumice import quantity
from pumice.api.decoding import UNREADABLE
from pumice.errors import PumiceError
from pumice.kube import errors
from pumice.kube.transport import Request
from pumice.processes.load_settings import settings_of
from pumice.scheduling.core.ports import NodeLoad

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pumice.clock import Clock
    from pumice.kube.client import Client
    from pumice.processes.load_settings import Settings
    from pumice.runtime import Log
    from pumice.scheduling.core.policy import Policy

LOOK_S = 1.0  # how soon another policy is noticed
ANSWER_S_MAX = 10.0
ANSWER_BYTES_MAX = 10 * 2**20
NODES_MAX = 10_000  # of one Elasticsearch answer
CAUSE_CHARS_MAX = 256

# Ten minutes, as everywhere. `instance` has to be the node's name.
CPU_QUERY = '100 - 100 * avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[10m]))'
MEMORY_QUERY = (
    "100 * avg by (instance) "
    "(avg_over_time((1 - node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes)[10m:30s]))"
)
CUSTOM_VERSIONS = ("v1beta2", "v1beta1")
CUSTOM_METRICS = ("node_cpu_usage_avg", "node_memory_usage_avg")


class Percentages(Protocol):
    """Asks once: percent of cpu and of memory in use, by node."""

    async def __call__(self) -> tuple[Mapping[str, float], Mapping[str, float]]: ...


class NotMeasured(PumiceError):
    """The source did not answer, or answered something else than measurements."""


class SourceLog:
    """Tells once per change how a source of measurements fares: one that is down for a night is one line in the log."""

    def __init__(self, log: Log, *, well: str, ill: str) -> None:
        self._log = log
        self._well = well
        self._ill = ill
        self._failure: str | None = None  # None before the first answer, empty while all is well

    def forget(self) -> None:
        """It is another source now."""
        self._failure = None

    def answered(self, **counts: int) -> None:
        if self._failure != "":
            self._failure = ""
            self._log(self._well, **counts)

    def failed(self, source: str, error: Exception, *, known: int) -> None:
        failure = f"{source}: {str(error) or type(error).__name__}"[:CAUSE_CHARS_MAX]
        if failure != self._failure:
            self._failure = failure
            self._log(self._ill, error=failure, known=known)


class MeasuredLoads:
    """`current` is replaced as a whole, and never changed."""

    def __init__(
        self, client: Client, chosen: Callable[[], Policy], *, clock: Clock, log: Log, tell: Callable[[], None]
    ) -> None:
        """`tell` hears of each new measurement."""
        self._client = client
        self._policy = chosen
        self._clock = clock
        self._source = SourceLog(log, well="loads_measured", ill="loads_not_measured")
        self._tell_of_loads = tell
        self._settings: Settings | None = None
        self.current: Mapping[str, NodeLoad] = {}

    async def run(self) -> None:
        """Ask at the policy's interval until cancelled."""
        asked_at = -math.inf
        while True:
            settings = settings_of(self._policy())
            if settings != self._settings:
                self._settings, asked_at = settings, -math.inf
                self._source.forget()
            if settings is None:
                self.current = {}
            elif self._clock.monotonic() - asked_at >= settings.interval_s:
                asked_at = self._clock.monotonic()
                await self.measure(settings)
            await self._clock.sleep(LOOK_S)

    async def measure(self, settings: Settings) -> None:
        """Ask once; what was known stays where there is no answer."""
        now = self._clock.now()
        try:
            cpu, memory = await _SOURCES[settings.type](settings, self._client)()
        except (PumiceError, aiohttp.ClientError, OSError, ValueError, TimeoutError) as error:
            self._source.failed(f"{settings.type} {settings.address}", error, known=len(self.current))
            return
        self.current = {
            node: NodeLoad(cpu_percent=cpu[node], memory_percent=memory[node], measured_at=now)
            for node in sorted(cpu.keys() & memory.keys())
        }
        self._tell_of_loads()
        self._source.answered(nodes=len(self.current))


# ------------------------------------------------------------------------------------------------------------ sources


class Prometheus:
    def __init__(self, settings: Settings, client: Client) -> None:
        del client
        self._settings = settings

    async def __call__(self) -> tuple[Mapping[str, float], Mapping[str, float]]:
        return await self._query(CPU_QUERY), await self._query(MEMORY_QUERY)

    async def _query(self, query: str) -> Mapping[str, float]:
        found = await ask_prometheus(self._settings, query)
        return _percentages((item.metric.get("instance", ""), item.value[1]) for item in found)


class CustomMetrics:
    """Fractions from the custom metrics API, which an adaptor serves through the API server."""

    def __init__(self, settings: Settings, client: Client) -> None:
        del settings
        self._client = client

    async def __call__(self) -> tuple[Mapping[str, float], Mapping[str, float]]:
        cpu, memory = CUSTOM_METRICS
        return await self._query(cpu), await self._query(memory)

    async def _query(self, metric: str) -> Mapping[str, float]:
        for version in CUSTOM_VERSIONS:
            path = f"/apis/custom.metrics.k8s.io/{version}/nodes/*/{metric}"
            try:
                async with asyncio.timeout(ANSWER_S_MAX):
                    response = await self._client.call(Request("GET", path))
            except errors.NotFound:
                continue
            if len(response.body) > ANSWER_BYTES_MAX:
                raise NotMeasured(f"the answer is longer than {ANSWER_BYTES_MAX} bytes")
            items = _read(_CustomAnswer, response.body).items
            return _percentages((item.node.name, quantity.parse_milli(item.value) / 10) for item in items)
        raise NotMeasured(
            f"the API server knows no custom metric {metric} of nodes; install a metrics adaptor that serves it"
        )


class Elasticsearch:
    def __init__(self, settings: Settings, client: Client) -> None:
        del client
        self._settings = settings

    async def __call__(self) -> tuple[Mapping[str, float], Mapping[str, float]]:
        parts = {
            "cpu": {"avg": {"field": "host.cpu.usage"}},
            "memory": {"avg": {"field": "system.memory.actual.used.pct"}},
        }
        by_node = {"terms": {"field": self._settings.host_field, "size": NODES_MAX}, "aggs": parts}
        recent = {"range": {"@timestamp": {"gte": "now-10m"}}}
        question = {"size": 0, "query": {"bool": {"filter": [recent]}}, "aggs": {"nodes": by_node}}
        answer = await _fetch(self._settings, "POST", f"/{self._settings.index}/_search", body=question)
        buckets = _read(_ElasticAnswer, answer).aggregations.nodes.buckets
        return (
            _percentages((each.key, 100 * each.cpu.value) for each in buckets if each.cpu.value is not None),
            _percentages((each.key, 100 * each.memory.value) for each in buckets if each.memory.value is not None),
        )


_SOURCES: dict[str, Callable[[Settings, Client], Percentages]] = {
    "prometheus": Prometheus,
    "prometheus_adaptor": CustomMetrics,
    "elasticsearch": Elasticsearch,
}


class Sample(msgspec.Struct):
    """One series of a Prometheus answer at one moment."""

    metric: dict[str, str]
    value: tuple[float, str]


class _Vector(msgspec.Struct):
    result: list[Sample] = []


class _PrometheusAnswer(msgspec.Struct):
    status: str
    error: str = ""
    data: _Vector = msgspec.field(default_factory=_Vector)


class _Named(msgspec.Struct):
    name: str


class _CustomItem(msgspec.Struct):
    node: _Named = msgspec.field(name="describedObject")
    value: str | float


class _CustomAnswer(msgspec.Struct):
    items: list[_CustomItem]


class _Average(msgspec.Struct):
    value: float | None = None


class _Bucket(msgspec.Struct):
    key: str
    cpu: _Average
    memory: _Average


class _Buckets(msgspec.Struct):
    buckets: list[_Bucket]


class _Aggregations(msgspec.Struct):
    nodes: _Buckets


class _ElasticAnswer(msgspec.Struct):
    aggregations: _Aggregations


def _read(kind: type[Any], answer: bytes) -> Any:
    try:
        return msgspec.json.decode(answer, type=kind)
    except UNREADABLE as error:
        raise NotMeasured(f"the answer cannot be read: {error}") from error


def _percentages(pairs: Iterable[tuple[str, str | float]]) -> Mapping[str, float]:
    """What is a number between 0 and 100, or a rounding error outside; a node that was not measured says NaN."""
    found = ((node, float(value)) for node, value in pairs)
    return {node: min(100.0, max(0.0, value)) for node, value in found if node and math.isfinite(value)}


async def ask_prometheus(settings: Settings, query: str) -> list[Sample]:
    """The answer to an instant query, within a time and a size."""
    answer = await _fetch(settings, "GET", "/api/v1/query", query={"query": query})
    found = _read(_PrometheusAnswer, answer)
    if found.status != "success":
        raise NotMeasured(f"the query failed: {found.error or found.status}")
    samples: list[Sample] = found.data.result
    return samples


async def _fetch(
    settings: Settings, method: str, path: str, *, query: Mapping[str, str] | None = None, body: Any = None
) -> bytes:
    """The body of a 200; redirects are not followed, they might lead a password astray."""
    headers = {"accept-encoding": "identity"}
    headers |= {"content-type": "application/json"} if body is not None else {}
    headers |= {"authorization": settings.login} if settings.login else {}
    async with (
        aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=ANSWER_S_MAX),
            auto_decompress=False,  # the limit counts what would be unpacked
        ) as http,
        http.request(
            method,
            settings.address + path,
            params=query,
            data=None if body is None else msgspec.json.encode(body),
            headers=headers,
            ssl=settings.is_verified,
            allow_redirects=False,
        ) as response,
    ):
        if response.status != 200:
            raise NotMeasured(f"answered {response.status} instead of 200")
        pieces = bytearray()
        async for piece in response.content.iter_any():
            pieces += piece
            if len(pieces) > ANSWER_BYTES_MAX:
                raise NotMeasured(f"the answer is longer than {ANSWER_BYTES_MAX} bytes")
        return bytes(pieces)

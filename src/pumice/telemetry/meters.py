"""The catalogue as living numbers, and their text for Prometheus."""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from pumice.telemetry.catalogue import PUMICE, VOLCANO, Metric, MetricKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

disable_created_metrics()  # type: ignore[no-untyped-call]  # a second series for every counter, which is of no use here

CONTENT_TYPE = CONTENT_TYPE_LATEST
SERIES_MAX = 20_000  # of one metric; a label that grows without bound must not take the scheduler with it


class Meters:
    """Names are those of the catalogue; anything else is a bug. Volcano's own can be left out of the text."""

    is_read = True

    def __init__(self, *, with_volcano_names: bool = True) -> None:
        self._registry = CollectorRegistry()
        # What is left out is counted all the same, in a registry that is never read.
        unread = CollectorRegistry()
        volcano = self._registry if with_volcano_names else unread
        self._meters = {metric.name: _make(metric, volcano) for metric in VOLCANO}
        self._meters |= {metric.name: _make(metric, self._registry) for metric in PUMICE}
        # Found once: they are fed in every cycle.
        self._series: dict[tuple[object, ...], Counter | Gauge | Histogram] = {}
        # As they were last given, of gauges whose series are not made yet: series are costly, and cycles are many more than scrapes.
        self._replaced: dict[str, tuple[tuple[tuple[str, ...], float], ...]] = {}

    def add(self, metric: Metric) -> None:
        """One that is in no catalogue: a plugin's own gauge."""
        if metric.name not in self._meters:
            assert metric.kind is MetricKind.GAUGE, f"{metric.name}: plugins publish gauges"
            self._meters[metric.name] = _make(metric, self._registry)

    def count(self, name: str, by: float = 1, **labels: str) -> None:
        meter = self._labelled(name, labels)
        assert isinstance(meter, Counter)
        meter.inc(by)

    def set(self, name: str, value: float, **labels: str) -> None:
        meter = self._meters[name]
        assert isinstance(meter, Gauge)
        (meter.labels(**labels) if labels else meter).set(value)

    def observe(self, name: str, value: float, **labels: str) -> None:
        meter = self._labelled(name, labels)
        assert isinstance(meter, Histogram)
        meter.observe(value)

    def _labelled(self, name: str, labels: Mapping[str, str]) -> Counter | Gauge | Histogram:
        if not labels:
            return self._meters[name]
        key = (name, *labels.items())
        found = self._series.get(key)
        if found is None:
            found = self._series[key] = self._meters[name].labels(**labels)
        return found

    def forget(self, name: str, **labels: str) -> None:
        """The series with these labels is no longer exported; none is fine, too."""
        self._series = {key: series for key, series in self._series.items() if key[0] != name}
        with contextlib.suppress(KeyError):
            self._meters[name].remove(*labels.values())

    def replace(self, name: str, values: Iterable[tuple[tuple[str, ...], float]]) -> None:
        """All series of a gauge at once: what is no longer there is no longer exported."""
        assert isinstance(self._meters[name], Gauge)
        self._replaced[name] = tuple(itertools.islice(values, SERIES_MAX))

    def text(self) -> bytes:
        for name, wanted in self._replaced.items():
            meter = self._meters[name]
            assert isinstance(meter, Gauge)
            meter.clear()
            for labels, value in wanted:
                (meter.labels(*labels) if labels else meter).set(value)
        self._replaced.clear()
        return generate_latest(self._registry)


class Unread(Meters):
    """Where nobody asks for the numbers, as in simulated worlds: none are kept."""

    is_read = False

    def __init__(self) -> None:
        """Nothing is made."""

    def add(self, metric: Metric) -> None: ...

    def count(self, name: str, by: float = 1, **labels: str) -> None: ...

    def set(self, name: str, value: float, **labels: str) -> None: ...

    def observe(self, name: str, value: float, **labels: str) -> None: ...

    def forget(self, name: str, **labels: str) -> None: ...

    def replace(self, name: str, values: Iterable[tuple[tuple[str, ...], float]]) -> None: ...

    def text(self) -> bytes:
        return b""


def _make(metric: Metric, registry: CollectorRegistry) -> Counter | Gauge | Histogram:
    # The client appends _total to counters by itself; the catalogue has the full name.
    if metric.kind is MetricKind.COUNTER:
        return Counter(metric.name.removesuffix("_total"), metric.help, metric.labels, registry=registry)
    if metric.kind is MetricKind.GAUGE:
        return Gauge(metric.name, metric.help, metric.labels, registry=registry)
    return Histogram(metric.name, metric.help, metric.labels, registry=registry, buckets=metric.buckets)

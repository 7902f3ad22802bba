"""Traces by OpenTelemetry: spans of cycles, actions, gangs' attempts, evictions and releases.

They need the extra `otel` and an endpoint in the standard variables (OTEL_EXPORTER_OTLP_ENDPOINT, or its sister for traces alone);
everything else those variables say is left to the SDK. Without either, OFF stands in: it does nothing, and OpenTelemetry is not even
imported.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from typing import TYPE_CHECKING, Any, Protocol

from pumice import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from typing import Self

    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter
    from opentelemetry.trace import Span as OpenTelemetrySpan

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
PROTOCOL = "http/protobuf"
CLOSE_S_MAX = 5.0  # what cannot be delivered in this time when a process ends is dropped
PREFIX = "pumice."  # of every attribute

Fact = str | int | float | bool


class Span(Protocol):
    """What happens between two moments."""

    def note(self, **facts: Fact) -> None: ...

    def event(self, name: str, /, **facts: Fact) -> None: ...

    def fail(self, reason: str) -> None: ...


class Tracing(Protocol):
    """Spans lie within the span in which they are begun, also those of tasks that are started there and end later."""

    def span(self, name: str, /, **facts: Fact) -> AbstractContextManager[Span]: ...

    def close(self) -> None: ...


class _NoSpan:
    """A span that is not recorded."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def note(self, **facts: Fact) -> None:
        pass

    def event(self, name: str, /, **facts: Fact) -> None:
        pass

    def fail(self, reason: str) -> None:
        pass


_NO_SPAN = _NoSpan()


class _Off:
    def span(self, name: str, /, **facts: Fact) -> AbstractContextManager[Span]:
        del name, facts
        return _NO_SPAN

    def close(self) -> None:
        pass


OFF: Tracing = _Off()


class _RecordedSpan:
    """A span of OpenTelemetry's, with our names for its attributes."""

    __slots__ = ("_span",)

    def __init__(self, span: OpenTelemetrySpan) -> None:
        self._span = span

    def note(self, **facts: Fact) -> None:
        self._span.set_attributes(_prefix_names(facts))

    def event(self, name: str, /, **facts: Fact) -> None:
        self._span.add_event(name, _prefix_names(facts))

    def fail(self, reason: str) -> None:
        from opentelemetry.trace import Status, StatusCode

        self._span.set_status(Status(StatusCode.ERROR, reason))


class OpenTelemetry:
    """Spans for an exporter of OpenTelemetry's; `close` ends it."""

    def __init__(self, provider: TracerProvider, exporter: SpanExporter) -> None:
        self._provider = provider
        self._exporter = exporter
        self._tracer = provider.get_tracer("pumice", __version__)

    @contextlib.contextmanager
    def span(self, name: str, /, **facts: Fact) -> Iterator[Span]:
        with self._tracer.start_as_current_span(name, attributes=_prefix_names(facts)) as span:
            yield _RecordedSpan(span)

    def close(self) -> None:
        """Deliver what is left, within CLOSE_S_MAX."""
        ending = threading.Thread(target=self._provider.shutdown, name="traces-end", daemon=True)
        ending.start()
        ending.join(CLOSE_S_MAX)
        if ending.is_alive():
            self._exporter.shutdown()  # the collector does not answer: stop trying again
            ending.join(CLOSE_S_MAX)


def _prefix_names(facts: Mapping[str, Fact]) -> dict[str, Fact]:
    return {f"{PREFIX}{key}": value for key, value in facts.items()}


def from_environment(service: str, log: Callable[..., object], environment: Mapping[str, str] = os.environ) -> Tracing:
    """Traces as the standard variables want them; OFF where they want none, or, with a line in the log, where they cannot be had."""
    if (
        not any(environment.get(name) for name in ENDPOINTS)
        or environment.get("OTEL_SDK_DISABLED", "").lower() == "true"
        or environment.get("OTEL_TRACES_EXPORTER", "otlp") != "otlp"
    ):
        return OFF
    protocol = next((environment[name] for name in PROTOCOLS if environment.get(name)), PROTOCOL)
    if protocol != PROTOCOL:
        log(
            "traces_off",
            reason=f"{protocol} is not spoken here; set {PROTOCOLS[1]}={PROTOCOL} and the port for it, 4318",
        )
        return OFF
    try:
        return _open(service, log)
    except ImportError as error:
        log("traces_off", reason=f"an endpoint is set, but not all is installed: {error}; pip install 'pumice[otel]'")
        return OFF


def _open(service: str, log: Callable[..., object]) -> OpenTelemetry:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    told = logging.getLogger("opentelemetry")
    told.handlers = [_LogHandler(log)]
    told.propagate = False
    own = Resource({"service.name": service, "service.version": __version__})
    exporter = OTLPSpanExporter()
    provider = TracerProvider(resource=own.merge(OTELResourceDetector().detect()), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    log("traces_on")
    return OpenTelemetry(provider, exporter)


class _LogHandler(logging.Handler):
    """Writes what OpenTelemetry logs as events of our own log."""

    def __init__(self, log: Callable[..., object]) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        facts: dict[str, Any] = {"message": record.getMessage()}
        self._log("traces_complaint", **facts)

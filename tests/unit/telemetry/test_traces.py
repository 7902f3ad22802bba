"""Traces with the real SDK: into its memory, and over HTTP to a collector of the test's own."""

import http.server
import subprocess
import sys
import threading

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from pumice.telemetry import traces
from pumice.telemetry.traces import OFF, OpenTelemetry, from_environment

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


class Heard(list):
    def __call__(self, event, /, **facts):
        self.append((event, facts))


@pytest.fixture
def memory():
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing = OpenTelemetry(provider, exporter)
    yield tracing, exporter
    tracing.close()


def test_spans_lie_in_one_another_with_what_is_noted_of_them(memory):
    tracing, exporter = memory
    with tracing.span("cycle", number=3) as cycle:
        with tracing.span("attempt", gang="a/b") as attempt:
            attempt.event("bind_failed", pod="a/b-0")
            attempt.fail("1 of 2 binds failed")
        cycle.note(binds=2)
    attempt, cycle = exporter.get_finished_spans()
    assert (attempt.name, attempt.parent.span_id) == ("attempt", cycle.context.span_id)
    assert dict(attempt.attributes) == {"pumice.gang": "a/b"}
    assert [(event.name, dict(event.attributes)) for event in attempt.events] == [
        ("bind_failed", {"pumice.pod": "a/b-0"})
    ]
    assert (attempt.status.is_ok, attempt.status.description) == (False, "1 of 2 binds failed")
    assert dict(cycle.attributes) == {"pumice.number": 3, "pumice.binds": 2}
    assert cycle.parent is None


def test_without_an_endpoint_nothing_is_traced_and_nothing_is_said():
    heard = Heard()
    assert from_environment("pumice", heard, {}) is OFF
    with OFF.span("cycle", number=1) as span:
        span.note(binds=1)
        span.event("x")
        span.fail("x")
    OFF.close()
    assert heard == []


@pytest.mark.parametrize(
    "setting", [{"OTEL_SDK_DISABLED": "true"}, {"OTEL_TRACES_EXPORTER": "none"}, {"OTEL_TRACES_EXPORTER": "console"}]
)
def test_the_standard_switches_turn_traces_off(setting):
    heard = Heard()
    assert from_environment("pumice", heard, {ENDPOINT: "http://127.0.0.1:4318", **setting}) is OFF
    assert heard == []


@pytest.mark.parametrize("name", ["OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"])
def test_another_protocol_is_said_to_be_none_of_ours(name):
    heard = Heard()
    assert from_environment("pumice", heard, {ENDPOINT: "http://127.0.0.1:4317", name: "grpc"}) is OFF
    ((event, facts),) = heard
    assert event == "traces_off"
    assert facts["reason"].startswith("grpc is not spoken here; set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf")


def test_an_endpoint_without_the_extra_is_said_with_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    heard = Heard()
    assert from_environment("pumice", heard, {ENDPOINT: "http://127.0.0.1:4318"}) is OFF
    ((event, facts),) = heard
    assert event == "traces_off"
    assert facts["reason"].endswith("pip install 'pumice[otel]'")


def test_a_scheduler_that_traces_nothing_does_not_even_import_opentelemetry():
    code = "import sys, pumice.cli.scheduler; print(sorted(each for each in sys.modules if 'opentelemetry' in each))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


class Collector(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.received.append((self.path, ExportTraceServiceRequest.FromString(body)))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def collector():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector) as server:
        server.daemon_threads = False
        server.received = []
        serving = threading.Thread(target=server.serve_forever, args=(0.05,))
        serving.start()
        yield server
        server.shutdown()
        serving.join()


def facts_of(thing):
    return {each.key: each.value.string_value for each in thing.attributes}


def test_what_is_traced_reaches_the_collector_when_it_is_closed(collector, monkeypatch):
    monkeypatch.setenv(ENDPOINT, f"http://127.0.0.1:{collector.server_port}")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
    tracing = from_environment("pumice-scheduler", Heard())
    with tracing.span("cycle", gang="a/b"):
        pass
    tracing.close()
    ((path, sent),) = collector.received
    (resource,) = sent.resource_spans
    (span,) = resource.scope_spans[0].spans
    assert (path, span.name, facts_of(span)) == ("/v1/traces", "cycle", {"pumice.gang": "a/b"})
    found = facts_of(resource.resource)
    assert (found["service.name"], found["deployment.environment"]) == ("pumice-scheduler", "test")


def test_the_environment_names_the_service(collector, monkeypatch):
    monkeypatch.setenv(ENDPOINT, f"http://127.0.0.1:{collector.server_port}")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "gangs-of-berlin")
    tracing = from_environment("pumice-scheduler", Heard())
    with tracing.span("cycle"):
        pass
    tracing.close()
    ((_, sent),) = collector.received
    assert facts_of(sent.resource_spans[0].resource)["service.name"] == "gangs-of-berlin"


def test_a_collector_that_does_not_answer_holds_nobody_up_and_is_told_in_our_log(monkeypatch):
    monkeypatch.setattr(traces, "CLOSE_S_MAX", 0.2)
    monkeypatch.setenv(ENDPOINT, "http://127.0.0.1:9")  # discard: nobody listens there
    heard = Heard()
    tracing = from_environment("pumice-scheduler", heard)
    with tracing.span("cycle"):
        pass
    tracing.close()
    for thread in threading.enumerate():
        if thread.name == "traces-end":  # on a busy machine it may need a moment more to end
            thread.join(60)
            assert not thread.is_alive()
    assert {event for event, _ in heard} == {"traces_on", "traces_complaint"}

"""What a trace of the scheduler's work looks like, with the real SDK's exporter into memory."""

import random

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.bodies.beside import scheduler_beside
from tests.bodies.scheduler import World

from pumice.api.core import Namespace
from pumice.clock import RealClock
from pumice.kube import errors
from pumice.kube.client import Client
from pumice.telemetry.traces import OpenTelemetry


class Refusing:
    """A transport that refuses the first bind of one pod."""

    def __init__(self, inner):
        self.inner = inner
        self.refused = ""

    async def call(self, request):
        if self.refused and request.path.endswith(f"/{self.refused}/binding"):
            self.refused = ""
            raise errors.from_status(errors.Status(code=403, message="no"), asked="bind")
        return await self.inner.call(request)

    async def close(self):
        await self.inner.close()


@pytest.fixture
async def traced(client):
    await client.create(Namespace, {"metadata": {"name": "team"}})
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing = OpenTelemetry(provider, exporter)
    transport = Refusing(client._transport)
    own = Client(transport, clock=RealClock(), chance=random.Random(1))
    async with scheduler_beside(own, tracing=tracing) as scheduler:
        yield World(client, "team", scheduler), exporter.get_finished_spans, transport
    tracing.close()


def named(spans, name):
    return [span for span in spans if span.name == name]


async def test_a_cycle_holds_its_actions_and_the_attempts_that_it_began(traced):
    world, spans, _ = traced
    await world.node("a", gpus=2)
    await world.gang("train", size=2)
    await world.until_bound("train", 2)
    await world.scheduler.dispatcher.settle()
    (attempt,) = named(spans(), "attempt")
    facts = {key: value for key, value in attempt.attributes.items() if key != "pumice.attempt"}
    assert facts == {
        "pumice.gang": "team/train", "pumice.pods": 2, "pumice.needed": 2, "pumice.mends": False, "pumice.bound": 2,
        "pumice.failed": 0,
    }  # fmt: skip
    pods = await world.pods("train")
    assert {pod["metadata"]["annotations"]["pumice.dev/attempt"] for pod in pods} == {
        attempt.attributes["pumice.attempt"]
    }

    async def its_cycle():
        return next((span for span in named(spans(), "cycle") if span.context == attempt.parent), None)

    cycle = await world.until(its_cycle, "the cycle that began the attempt should have ended")
    assert (cycle.attributes["pumice.binds"], cycle.attributes["pumice.gangs"]) == (2, 1)
    inside = [span.name for span in spans() if span.parent == cycle.context]
    assert [name for name in inside if name.startswith("action")] == [
        "action enqueue", "action allocate", "action preempt", "action reclaim", "action lend", "action backfill",
    ]  # fmt: skip
    assert {"plugin gang", "plugin predicates", "close session"} <= set(inside)


async def test_a_bind_that_fails_is_seen_in_its_attempt(traced):
    world, spans, transport = traced
    transport.refused = "train-worker-1"
    await world.node("a", gpus=2)
    await world.gang("train", size=2)
    await world.until_bound("train", 2)
    await world.scheduler.dispatcher.settle()
    first, second = named(spans(), "attempt")
    assert (first.status.is_ok, first.status.description) == (False, "1 of 2 binds failed")
    (event,) = first.events
    assert (event.name, event.attributes["pumice.pod"]) == ("bind_failed", "team/train-worker-1")
    assert (second.attributes["pumice.pods"], second.attributes["pumice.bound"]) == (1, 1)

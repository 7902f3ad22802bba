"""Measured loads from programs that answer like Prometheus, a metrics adaptor and Elasticsearch, over real sockets."""

import asyncio
import base64
import json
import random
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.unit.processes.peers import Peer, always, answer

from pumice import instant
from pumice.clock import RealClock, VirtualClock
from pumice.kube.client import Client
from pumice.kube.transport import Response
from pumice.processes import loads
from pumice.processes.load_settings import settings_of
from pumice.processes.loads import ANSWER_BYTES_MAX, MeasuredLoads
from pumice.scheduling.core import builtin
from pumice.scheduling.core.policy import PolicyError

NOON = instant.parse_instant("2026-01-31T12:00:00Z")


def a_policy(**metrics):
    return builtin.parse(builtin.TEXT + f"\nmetrics: {json.dumps(metrics)}\n", "test policy")


class Heard:
    def __init__(self):
        self.lines = []

    def __call__(self, event, /, **facts):
        self.lines.append((event, facts))


class Measuring:
    """A MeasuredLoads that asks when told to."""

    def __init__(self, client=None, **metrics):
        self.policy = a_policy(**metrics)
        self.heard = Heard()
        self.measurements = 0
        self.loads = MeasuredLoads(client, lambda: self.policy, clock=RealClock(), log=self.heard, tell=self.count)

    def count(self):
        self.measurements += 1

    async def __call__(self):
        await self.loads.measure(settings_of(self.policy))
        return {name: (load.cpu_percent, load.memory_percent) for name, load in self.loads.current.items()}

    @property
    def told(self):
        return [event for event, _ in self.heard.lines]


def prometheus(cpu, memory):
    """Answers instant queries about all nodes as Prometheus does."""

    def serve(peer, connection):
        first, _, _ = peer.request(connection)
        query = parse_qs(urlsplit(first.split()[1]).query)["query"][0]
        values = memory if "memory" in query else cpu
        result = [{"metric": {"instance": node}, "value": [1.5, value]} for node, value in values.items()]
        body = {"status": "success", "data": {"resultType": "vector", "result": result}}
        connection.sendall(answer(json.dumps(body).encode()))

    return serve


async def test_prometheus_is_asked_two_questions_for_all_nodes():
    with Peer(prometheus({"n1": "12.5", "n2": "80", "n3": "NaN"}, {"n1": "50", "n2": "-0.0001", "n3": "5"})) as peer:
        measuring = Measuring(type="prometheus", address=peer.address)
        assert await measuring() == {"n1": (12.5, 50.0), "n2": (80.0, 0.0)}
        queries = [parse_qs(urlsplit(first.split()[1]).query)["query"] for first, _, _ in peer.requests]
    assert queries == [[loads.CPU_QUERY], [loads.MEMORY_QUERY]]
    assert {first.split("?")[0] for first, _, _ in peer.requests} == {"GET /api/v1/query"}
    assert measuring.told == ["loads_measured"]
    assert measuring.measurements == 1  # so that a scheduler plans with them


async def test_elasticsearch_is_asked_one_question_with_its_login_and_index():
    buckets = [
        {"key": "n1", "doc_count": 9, "cpu": {"value": 0.25}, "memory": {"value": 0.5}},
        {"key": "n2", "doc_count": 9, "cpu": {"value": None}, "memory": {"value": 0.5}},
    ]
    body = json.dumps({"took": 3, "aggregations": {"nodes": {"buckets": buckets}}}).encode()
    with Peer(always(answer(body))) as peer:
        measuring = Measuring(
            **{
                "type": "elasticsearch",
                "address": peer.address,
                "elasticsearch.index": "beats-*",
                "elasticsearch.username": "me",
                "elasticsearch.password": "secret",
                "elasticsearch.hostnameFieldName": "host.name",
            }
        )
        assert await measuring() == {"n1": (25.0, 50.0)}
        first, headers, asked = peer.requests[0]
    assert first == "POST /beats-*/_search HTTP/1.1"
    assert headers["authorization"] == "Basic " + base64.b64encode(b"me:secret").decode()
    by_node = json.loads(asked)["aggs"]["nodes"]
    assert by_node["terms"]["field"] == "host.name"
    assert by_node["aggs"] == {
        "cpu": {"avg": {"field": "host.cpu.usage"}},
        "memory": {"avg": {"field": "system.memory.actual.used.pct"}},
    }


class Adaptor:
    """An API server whose metrics adaptor serves one version of the custom metrics API."""

    def __init__(self, version, values):
        self.version = version
        self.values = values

    async def call(self, request):
        prefix = f"/apis/custom.metrics.k8s.io/{self.version}/nodes/*/"
        if not request.path.startswith(prefix):
            return Response(404, {}, b'{"kind": "Status", "reason": "NotFound", "code": 404}')
        named = self.values[request.path.removeprefix(prefix)]
        items = [{"describedObject": {"kind": "Node", "name": name}, "value": value} for name, value in named.items()]
        return Response(200, {}, json.dumps({"kind": "MetricValueList", "items": items}).encode())

    async def close(self):
        pass


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
async def test_an_adaptors_fractions_are_read_through_the_api_server(version):
    values = {"node_cpu_usage_avg": {"n1": "250m"}, "node_memory_usage_avg": {"n1": "0.5"}}
    client = Client(Adaptor(version, values), clock=RealClock(), chance=random.Random(0))
    assert await Measuring(client, type="prometheus_adaptor")() == {"n1": (25.0, 50.0)}


async def test_without_an_adaptor_the_log_says_what_is_missing():
    measuring = Measuring(
        Client(Adaptor("none", {}), clock=RealClock(), chance=random.Random(0)), type="prometheus_adaptor"
    )
    assert await measuring() == {}
    assert "no custom metric node_cpu_usage_avg" in measuring.heard.lines[0][1]["error"]


async def test_a_failure_keeps_what_was_known_with_its_time_and_is_logged_once_per_change():
    good = prometheus({"n1": "10"}, {"n1": "20"})
    down, confused = always(answer(b"", "503 Service Unavailable")), always(answer(b"no"))
    mood = good

    def moody(peer, connection):
        mood(peer, connection)

    with Peer(moody) as peer:
        measuring = Measuring(type="prometheus", address=peer.address)
        first = await measuring()
        measured = measuring.loads.current
        for mood in (down, down, down, confused, confused):  # noqa: B007  read by the peer
            assert await measuring() == first
        assert measuring.loads.current is measured
        assert measuring.told == ["loads_measured", "loads_not_measured", "loads_not_measured"]
        errors = [facts["error"] for event, facts in measuring.heard.lines if event == "loads_not_measured"]
        assert ["503" in errors[0], "cannot be read" in errors[1]] == [True, True]
        mood = good
        await measuring()
        assert measuring.told[-1] == "loads_measured"
        assert measuring.loads.current["n1"].measured_at > measured["n1"].measured_at


async def test_an_endless_answer_is_cut_off_at_the_limit():
    def endless(peer, connection):
        peer.request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n[")
        while True:
            connection.sendall(b"1," * 2**19)

    with Peer(endless) as peer:
        measuring = Measuring(type="prometheus", address=peer.address)
        assert await measuring() == {}
    assert f"longer than {ANSWER_BYTES_MAX} bytes" in measuring.heard.lines[0][1]["error"]


async def test_a_source_that_says_nothing_is_given_up(monkeypatch):
    monkeypatch.setattr(loads, "ANSWER_S_MAX", 0.05)

    def dumb(peer, connection):
        peer.request(connection)
        peer.ended.wait()

    with Peer(dumb) as peer:
        measuring = Measuring(type="prometheus", address=peer.address)
        assert await measuring() == {}
    assert measuring.told == ["loads_not_measured"]


async def test_a_redirect_does_not_carry_the_login_elsewhere():
    with Peer(always(answer(b"{}"))) as elsewhere:
        sent_on = answer(b"", "307 Temporary Redirect", headers=[f"location: {elsewhere.address}/"])
        with Peer(always(sent_on)) as peer:
            login = {"elasticsearch.username": "me", "elasticsearch.password": "secret"}
            measuring = Measuring(type="elasticsearch", address=peer.address, **login)
            assert await measuring() == {}
        assert elsewhere.requests == []
    assert "answered 307" in measuring.heard.lines[0][1]["error"]


def test_the_source_is_asked_at_its_interval_and_another_policy_at_once():
    clock = VirtualClock(NOON)
    asked = []

    class Counting(Adaptor):
        async def call(self, request):
            asked.append(clock.monotonic())
            return await super().call(request)

    values = {"node_cpu_usage_avg": {"n1": "250m"}, "node_memory_usage_avg": {"n1": "0.5"}}
    policies = [a_policy(type="prometheus_adaptor", interval="1m")]

    async def main():
        client = Client(Counting("v1beta2", values), clock=clock, chance=random.Random(0))
        measuring = MeasuredLoads(client, lambda: policies[-1], clock=clock, log=Heard(), tell=bool)
        task = asyncio.create_task(measuring.run())
        await clock.sleep(125)
        assert measuring.current["n1"].measured_at == NOON + 120 * instant.SECOND
        policies.append(a_policy(type="prometheus_adaptor", interval="1h"))
        await clock.sleep(1000)
        policies.append(a_policy())
        await clock.sleep(2)
        assert measuring.current == {}
        task.cancel()

    clock.run(main())
    assert sorted(set(asked)) == [0, 60, 120, 125]


@pytest.mark.parametrize(
    ("metrics", "cause"),
    [
        ({"type": "graphite"}, "metrics: type 'graphite': use one of prometheus, "),
        ({"type": "prometheus"}, "metrics: '' is no address"),
        ({"type": "prometheus", "address": "ftp://x"}, "metrics: 'ftp://x' is no address"),
        ({"type": "prometheus_adaptor", "interval": "soon"}, "metrics: interval: "),
        ({"type": "prometheus_adaptor", "interval": "0s"}, "metrics: interval: 0s is not longer than zero"),
    ],
)
def test_metrics_that_cannot_be_asked_for_are_refused_with_the_policy(metrics, cause):
    with pytest.raises(PolicyError, match=f"test policy: {cause}"):
        settings_of(a_policy(**metrics))


def test_a_policy_without_a_type_measures_nothing():
    assert settings_of(a_policy(address="http://127.0.0.1:9090")) is None

"""HTTPS: what is answered, what is refused, and that nobody can fill the memory or the time of others."""

import asyncio
import contextlib
import datetime as dt
import io
import ssl
import threading

import aiohttp
import msgspec
import pytest
from tests.bodies.patience import PATIENCE_S
from tests.cases import admission
from tests.unit.webhooks.reviews import request

from pumice.api import defaults, validation
from pumice.errors import BadInput
from pumice.telemetry.meters import Meters
from pumice.webhooks import serving
from pumice.webhooks.admission import Admission, Verdict
from pumice.webhooks.certificate_store import ServingContext
from pumice.webhooks.keys import Lives, renew
from pumice.webhooks.reviews import Reviewer
from pumice.webhooks.serving import BODY_BYTES_MAX, ReviewServer

JSON = {"content-type": "application/json"}
HEAD = b"POST /jobs/validate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
SLOW_BODIES = 100
IDLE_CONNECTIONS = 1000


def review(subject=None, **fields):
    body = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": request(subject or admission.JOB),
        **fields,
    }
    return msgspec.json.encode(body)


class Place:
    """A server, and a client that trusts it."""

    def __init__(self, server, session, context, port):
        self.server = server
        self.session = session
        self.context = context
        self.port = port

    async def post(self, body, path="/jobs/validate", headers=JSON):
        url = f"https://127.0.0.1:{self.port}{path}"
        async with self.session.post(url, data=io.BytesIO(body), headers=headers, ssl=self.context) as answer:
            return answer.status, await answer.read()

    async def connect(self):
        return await asyncio.open_connection("127.0.0.1", self.port, ssl=self.context, server_hostname="127.0.0.1")


class Admitting(Admission):
    """An admission that may be told to think for ever."""

    thinks = False

    async def authorise(self, verdict):
        if self.thinks:
            await asyncio.Event().wait()
        return await super().authorise(verdict)


@pytest.fixture
async def place():
    made = renew(None, ["127.0.0.1"], now=dt.datetime.now(dt.UTC), lives=Lives(), trusted=b"")
    context = ServingContext()
    context.take_up(made.pair)
    server = ReviewServer(Admitting(Reviewer(admission.World(admission.QUEUES))), Meters())
    port = await server.start("127.0.0.1:0", context.context)
    try:
        async with aiohttp.ClientSession() as session:
            yield Place(server, session, ssl.create_default_context(cadata=made.bundle.decode()), port)
    finally:
        await server.stop()


async def test_a_review_is_answered_with_its_uid(place):
    status, body = await place.post(review())
    answer = msgspec.json.decode(body)
    assert status == 200
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    assert answer["response"] == {"uid": "1", "allowed": True}


async def test_a_refusal_is_an_answer_too(place):
    _, body = await place.post(review(admission.job({"spec.tasks": []})))
    response = msgspec.json.decode(body)["response"]
    assert not response["allowed"]
    assert response["status"]["code"] == 403


async def test_reviews_are_counted_by_path_and_verdict(place):
    await place.post(review())
    await place.post(review(admission.job({"spec.tasks": []})))
    await place.post(b"no")
    text = place.server._meters.text().decode()
    for verdict in ("allowed", "refused", "failed"):
        assert f'pumice_admission_reviews_total{{path="/jobs/validate",verdict="{verdict}"}} 1.0' in text


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"no", JSON, 400),
        (b"{}", JSON, 400),
        (b"[" * 100_000, JSON, 400),
        (b"\xff", JSON, 400),
        (review(apiVersion="admission.k8s.io/v1beta1"), JSON, 400),
        (review(kind="Pod"), JSON, 400),
        (review(request={"uid": 1}), JSON, 400),
        (review(), {"content-type": "text/plain"}, 415),
    ],
    ids=["text", "empty", "deep", "bytes", "old version", "other kind", "bad request", "content type"],
)
async def test_what_is_no_review_is_refused(place, body, headers, status):
    assert (await place.post(body, headers=headers))[0] == status


async def test_unknown_paths_and_methods_are_refused(place):
    assert (await place.post(review(), path="/nodes/mutate"))[0] == 404
    url = f"https://127.0.0.1:{place.port}/jobs/validate"
    async with place.session.get(url, ssl=place.context) as answer:
        assert answer.status == 405


@pytest.mark.parametrize(
    ("head", "body"),
    [
        (b"Content-Length: 4194304", b""),
        (b"Transfer-Encoding: chunked", b"%x\r\n%s" % (BODY_BYTES_MAX + 1, b" " * (BODY_BYTES_MAX + 1))),
    ],
    ids=["announced", "not announced"],
)
async def test_a_body_of_four_megabytes_is_not_read(place, head, body):
    reader, writer = await place.connect()
    try:
        async with asyncio.timeout(PATIENCE_S):
            writer.write(HEAD + head + b"\r\n\r\n" + body)
            assert (await reader.readline()).startswith(b"HTTP/1.1 413")
    finally:
        await _close(writer)
    assert (await place.post(review()))[0] == 200
    assert place.server._buffered == 0


async def test_all_bodies_together_have_a_limit(place, monkeypatch):
    monkeypatch.setattr(serving, "BUFFERED_BYTES_MAX", 1000)
    assert (await place.post(review() + b" " * 2000))[0] == 503


async def test_slow_bodies_keep_nobody_waiting_and_are_given_up(place, monkeypatch):
    monkeypatch.setattr(serving, "BODY_S_MAX", 3.0)
    async with contextlib.AsyncExitStack() as stack, asyncio.timeout(PATIENCE_S):
        readers = []
        for _ in range(SLOW_BODIES):
            reader, writer = await place.connect()
            stack.push_async_callback(_close, writer)
            writer.write(HEAD + b"Content-Length: 1000000\r\n\r\n{")
            readers.append(reader)
        assert (await place.post(review()))[0] == 200
        assert all([(await reader.readline()).startswith(b"HTTP/1.1 408") for reader in readers])
    assert place.server._buffered == 0


async def _close(writer):
    writer.close()
    with contextlib.suppress(OSError, ssl.SSLError):
        await writer.wait_closed()


async def test_a_review_that_takes_too_long_is_given_up(place, monkeypatch):
    monkeypatch.setattr(serving, "REVIEW_S_MAX", 0.05)
    monkeypatch.setattr(Admitting, "thinks", True)
    assert (await place.post(review()))[0] == 503


async def test_a_thousand_idle_connections_keep_no_review_waiting(place):
    async with contextlib.AsyncExitStack() as stack, asyncio.timeout(PATIENCE_S):
        for _ in range(IDLE_CONNECTIONS):
            _, writer = await asyncio.open_connection("127.0.0.1", place.port)  # not even a handshake
            stack.push_async_callback(_close, writer)
        assert (await place.post(review()))[0] == 200
        assert place.server._listener.connections <= serving.LIMITS.connections


CROWDED = {"spec": {"tasks": [{"name": "t", "template": {"spec": {"containers": [{}] * 950_000}}}]}}


@pytest.mark.parametrize("path", ["/jobs/mutate", "/jobs/validate"])
async def test_a_million_containers_are_refused_before_anything_is_looked_at(place, monkeypatch, path):
    def looked_at(*_, **__):
        raise AssertionError("the object was looked at")

    monkeypatch.setattr(validation, "review", looked_at)
    monkeypatch.setattr(defaults, "job_patch", looked_at)
    status, body = await place.post(review({**admission.JOB, **CROWDED}), path=path)
    response = msgspec.json.decode(body)["response"]
    assert status == 200
    assert response["allowed"] == path.endswith("mutate"), "what validates refuses it afterwards"
    if not response["allowed"]:
        said = "spec.tasks[0].template.spec.containers: 950000 entries, at most 256 (CONTAINERS_MAX)"
        assert said in response["status"]["message"]


async def test_large_reviews_are_judged_beside_the_loop_and_small_ones_in_it(place, monkeypatch):
    seen = []

    def judge(*_):
        seen.append(threading.current_thread() is threading.main_thread())
        return Verdict({"uid": "1", "allowed": True})

    monkeypatch.setattr(place.server._admission, "judge", judge)
    await place.post(review())
    await place.post(review() + b" " * serving.SMALL_BYTES_MAX)
    assert seen == [True, False]


async def test_plain_http_is_not_spoken(place):
    with pytest.raises(aiohttp.ClientError):
        async with place.session.post(f"http://127.0.0.1:{place.port}/jobs/validate", data=review()):
            pass


async def test_an_address_without_a_port_is_refused():
    server = ReviewServer(Admission(Reviewer(admission.World(()))), Meters())
    with pytest.raises(BadInput, match="--bind"):
        await server.start("localhost", ServingContext().context)

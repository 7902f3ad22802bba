"""Asking, over real sockets on loopback; and how often, by a stand-in for the network under virtual time."""

import asyncio
import contextlib

import pytest
from aiohttp import web
from tests.bodies.beside import beside

from pumice.clock import VirtualClock
from pumice.controllers.jobflow.prober import Network, Prober
from pumice.controllers.jobflow.probes import Question
from pumice.kube.informer import Key

FLOW = Key("team", "f")


@contextlib.asynccontextmanager
async def serving(handler):
    runner = web.ServerRunner(web.Server(handler), shutdown_timeout=0.01)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield site._server.sockets[0].getsockname()[1]
    await runner.cleanup()


async def asked(handler, path="/ready", header=None, **settings):
    async with serving(handler) as port:
        return await Network(**settings)(Question("127.0.0.1", port, path, header))


@pytest.mark.parametrize(("status", "good"), [(200, True), (204, True), (302, True), (404, False), (500, False)])
async def test_an_answer_counts_by_its_status_and_redirects_are_not_followed(status, good):
    calls = []

    async def handler(request):
        calls.append(request.path_qs)
        return web.Response(status=status, headers={"location": "/elsewhere"} if status == 302 else {})

    assert await asked(handler, "/ready?x=1") is good
    assert calls == ["/ready?x=1"]


async def test_a_header_is_sent_along():
    async def handler(request):
        return web.Response(status=200 if request.headers.get("X-Key") == "v" else 403)

    assert await asked(handler, header=("X-Key", "v"))
    assert not await asked(handler)


@pytest.mark.parametrize("header", [("X-Key", "a\r\nb: c"), ("bad name", "x"), ("", "x")])
async def test_a_header_that_is_none_is_a_no_and_no_crash(header):
    async def handler(request):
        assert "b" not in request.headers
        return web.Response(status=500)

    assert not await asked(handler, header=header)


async def test_an_endless_answer_is_not_read():
    written = 0

    async def handler(request):
        nonlocal written
        response = web.StreamResponse()
        await response.prepare(request)
        with contextlib.suppress(OSError, asyncio.CancelledError):
            while True:
                await response.write(b"x" * 2**16)
                written += 2**16
        return response

    assert await asked(handler)
    assert written < 2**26


async def test_silence_is_a_no():
    async def handler(request):
        await asyncio.Event().wait()

    assert not await asked(handler, answer_s_max=0.05)


async def test_a_listener_is_a_yes_and_a_closed_port_a_no():
    async def handler(request):
        return web.Response()

    async with serving(handler) as port:
        assert await Network()(Question("127.0.0.1", port))
    assert not await Network()(Question("127.0.0.1", port))
    assert not await Network()(Question("127.0.0.1", port, "/"))


async def test_who_does_not_speak_http_says_no():
    async def babble(reader, writer):
        writer.write(b"SSH-2.0-nothing\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(babble, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        assert not await Network()(Question("127.0.0.1", port, "/"))
        assert await Network()(Question("127.0.0.1", port))


@pytest.mark.parametrize("address", ["nowhere.invalid", "", "999.1.1.1"])
async def test_an_address_that_is_none_is_a_no(address):
    assert not await Network(answer_s_max=1.0)(Question(address, 80, "/"))


def under_virtual_time(body):
    clock = VirtualClock()

    async def run():
        answers, calls, woken = {}, [], []

        async def ask(question):
            calls.append((clock.monotonic(), question))
            return answers.get(question, False)

        prober = Prober(ask)
        async with beside(prober.run(woken.append)):
            await body(prober, answers, calls, woken, clock)

    clock.run(run())


def test_a_flow_is_woken_when_an_answer_changes_and_asked_for_no_longer_than_it_wants():
    async def body(prober, answers, calls, woken, clock):
        question = Question("10.0.0.1", 80, "/")
        prober.want(FLOW, [question])
        await clock.sleep(2.5)
        assert woken == [FLOW]  # now it knows that the answer is no
        assert len(calls) == 3
        answers[question] = True
        await clock.sleep(1.0)
        assert woken == [FLOW, FLOW]
        assert prober.answers == {question: True}
        prober.want(FLOW, [])
        await clock.sleep(10)
        assert len(calls) <= 5

    under_virtual_time(body)


def test_nobody_is_asked_where_nobody_wants_to_know():
    async def body(prober, answers, calls, woken, clock):
        await clock.sleep(60)
        assert calls == []

    under_virtual_time(body)


def test_two_flows_with_one_question_share_its_answer():
    async def body(prober, answers, calls, woken, clock):
        question = Question("10.0.0.1", 80, "/")
        other = Key("team", "g")
        prober.want(FLOW, [question])
        prober.want(other, [question, Question("10.0.0.2", 80)])
        await clock.sleep(0.5)
        assert sorted(woken) == [FLOW, other]
        assert len(calls) == 2

    under_virtual_time(body)

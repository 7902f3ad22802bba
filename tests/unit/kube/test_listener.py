"""Connections of our own servers: idle ones keep nobody out, and a request must come soon."""

import asyncio
import contextlib
import resource

import pytest
from aiohttp import web
from tests.bodies.patience import PATIENCE_S

from pumice.kube.listener import Limits, Listener

ASK = b"GET /%s HTTP/1.1\r\nHost: x\r\n\r\n"


class Place:
    """A server with one page that answers at once and one that waits."""

    def __init__(self, limits):
        self.waiting = asyncio.Event()
        self.goes_on = asyncio.Event()
        application = web.Application()
        application.router.add_get("/now", self._now)
        application.router.add_get("/later", self._later)
        self.listener = Listener(application, limits)
        self.port = 0

    async def _now(self, _):
        return web.Response(text="ok")

    async def _later(self, _):
        self.waiting.set()
        await self.goes_on.wait()
        return web.Response(text="ok")

    async def connect(self, stack):
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        stack.push_async_callback(close, writer)
        return reader, writer

    async def ask(self, stack, page=b"now"):
        reader, writer = await self.connect(stack)
        writer.write(ASK % page)
        return reader


async def close(writer):
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


@contextlib.asynccontextmanager
async def serving(limits):
    place = Place(limits)
    place.port = await place.listener.start("127.0.0.1:0")
    try:
        async with asyncio.timeout(PATIENCE_S), contextlib.AsyncExitStack() as stack:
            yield place, stack
    finally:
        await place.listener.stop()


async def test_a_thousand_idle_connections_keep_no_request_out():
    async with serving(Limits(connections=16)) as (place, stack):
        for _ in range(1000):
            await place.connect(stack)
        reader = await place.ask(stack)
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        assert place.listener.connections <= 16


async def test_the_connection_that_has_been_idle_for_longest_gives_way():
    async with serving(Limits(connections=2)) as (place, stack):
        first = await place.ask(stack)
        second = await place.ask(stack)
        for reader in (first, second):
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        third = await place.ask(stack)
        assert (await third.readline()).startswith(b"HTTP/1.1 200")
        assert b"ok" in await first.read(), "it was answered, and then closed"
        assert not second.at_eof()


async def test_a_connection_is_idle_since_its_last_answer():
    async with serving(Limits(connections=2)) as (place, stack):
        first, writer = await place.connect(stack)
        writer.write(ASK % b"now")
        assert b"ok" in await first.readuntil(b"\r\n\r\nok")
        second = await place.ask(stack)
        assert b"ok" in await second.readuntil(b"\r\n\r\nok")
        writer.write(ASK % b"now")
        assert b"ok" in await first.readuntil(b"\r\n\r\nok")
        third = await place.ask(stack)
        assert (await third.readline()).startswith(b"HTTP/1.1 200")
        assert await second.read() == b"", "it gave way"
        assert not first.at_eof()


async def test_a_request_under_way_is_never_cut_off_and_new_connections_wait_for_it():
    async with serving(Limits(connections=1)) as (place, stack):
        busy = await place.ask(stack, b"later")
        await place.waiting.wait()
        waits = await place.ask(stack)
        place.goes_on.set()
        assert (await busy.readline()).startswith(b"HTTP/1.1 200")
        assert (await waits.readline()).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("said", [b"", b"GET /now HTTP/1.1\r\nHost"], ids=["nothing", "half a header"])
async def test_a_connection_without_a_request_is_closed(said):
    async with serving(Limits(connections=4, request_s=0.05)) as (place, stack):
        reader, writer = await place.connect(stack)
        writer.write(said)
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""


async def test_a_connection_that_has_asked_is_kept():
    async with serving(Limits(connections=4, request_s=0.05)) as (place, stack):
        kept, writer = await place.connect(stack)
        writer.write(ASK % b"now")
        assert (await kept.readuntil(b"\r\n\r\nok")).startswith(b"HTTP/1.1 200")
        # Opened later, and closed for its silence: the deadline of the first is over.
        silent, _ = await place.connect(stack)
        with contextlib.suppress(ConnectionError):
            assert await silent.read() == b""
        writer.write(ASK % b"now")
        assert (await kept.readline()).startswith(b"HTTP/1.1 200")


async def test_the_limit_of_descriptors_is_raised_as_far_as_the_system_allows():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    low = min(512, before[0])
    resource.setrlimit(resource.RLIMIT_NOFILE, (low, before[1]))
    try:
        async with serving(Limits(connections=4)):
            assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(2**16, before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)

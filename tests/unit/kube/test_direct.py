"""What only the transport without a library has to prove: it reads HTTP itself. All else is in test_http.py, for both."""

import asyncio
import contextlib
import subprocess
import sys

import pytest
from aiohttp import web

from pumice.kube import answers, direct
from pumice.kube.connection import Connection
from pumice.kube.credentials import Access
from pumice.kube.direct import DirectTransport
from pumice.kube.errors import Malformed, Unreachable
from pumice.kube.transport import HEADER_BYTES_MAX, Request

VERSION = Request("GET", "/version")


@contextlib.asynccontextmanager
async def peer(*answers):
    """A listener that answers each connection's calls with these bytes, in turn, and then hangs up; with a transport to it."""

    async def talk(reader, writer):
        for answer in answers:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
        writer.close()

    listener = await asyncio.start_server(talk, "127.0.0.1", 0)
    address = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    async with listener, DirectTransport(Connection(server=address), user_agent="x") as transport:
        yield transport


async def test_an_answer_in_chunks_is_put_together_and_the_connection_serves_again():
    chunked = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\none\r\n4\r\n two\r\n0\r\nX-Late: y\r\n\r\n"
    )
    plain = b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone"
    async with peer(chunked, plain) as transport:
        assert (await transport.call(VERSION)).body == b"one two"
        second = await transport.call(VERSION)
    assert (second.status, second.body) == (404, b"none")


async def test_an_answer_without_a_body_has_none():
    async with peer(b"HTTP/1.1 204 No Content\r\n\r\n") as transport:
        assert (await transport.call(VERSION)).body == b""


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "is no HTTP: it begins with 'SSH-2.0-OpenSSH_9.6'"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n", "is garbled"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "is garbled"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", "is garbled"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc", "is garbled"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", "is beyond"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFF\r\n", "is beyond"),
    ],
)
async def test_what_is_no_proper_http_is_told_as_such(answer, said):
    async with peer(answer) as transport:
        with pytest.raises(Malformed, match=f"the answer to GET /version {said}"):
            await transport.call(VERSION)


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 200 OK\r\nContent-Le", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf"]
)
async def test_an_answer_that_breaks_off_is_no_answer(answer):
    async with peer(answer) as transport:
        with pytest.raises(Unreachable, match="the server closed the connection") as caught:
            await transport.call(VERSION)
    assert caught.value.acted is True


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * (HEADER_BYTES_MAX + 10) + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;" + b"x" * (HEADER_BYTES_MAX + 10) + b"\r\n",
    ],
)
async def test_lines_beyond_the_limit_are_not_read(answer):
    async with peer(answer) as transport:
        with pytest.raises(Malformed, match=f"the answer to GET /version is garbled: .* is beyond {HEADER_BYTES_MAX}"):
            await transport.call(VERSION)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_an_answer_is_the_same_in_whatever_pieces_it_comes(size):
    chunked = (
        b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\none\r\n4\r\n two\r\n0\r\nX-Late: y\r\n\r\n"
    )
    plain = b"HTTP/1.1 201 Created\r\nContent-Length: 7\r\n\r\none two"
    early = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    for whole in (chunked, plain, early + plain):
        answer = answers.Answer("GET /version")
        pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
        *before, last = [answer.feed(each) for each in pieces]
        assert before == [None] * (len(pieces) - 1)
        assert (last.status, last.body, answer.has_more) == (201, b"one two", False)


async def test_an_answer_that_names_no_length_ends_with_the_connection():
    async with peer(b"HTTP/1.1 200 OK\r\n\r\nall of it") as transport:
        assert (await transport.call(VERSION)).body == b"all of it"


async def test_what_comes_after_an_answer_is_nobodys_answer():
    """Else the next call would have it for its own."""
    plain = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nmyHTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"
    async with peer(plain) as transport:
        answers = [await transport.call(VERSION) for _ in range(2)]
    assert [answer.body for answer in answers] == [b"my", b"my"]


async def test_calls_side_by_side_have_a_connection_each_and_leave_it_to_the_next(server):
    peers = set()

    async def handler(request):
        peers.add(request.transport.get_extra_info("peername"))
        return web.Response(text=request.path)

    server.handler = handler
    async with DirectTransport(Connection(server=server.url), user_agent="x", connections_max=2) as transport:
        for _ in range(2):
            answers = await asyncio.gather(*(transport.call(Request("GET", f"/{number}")) for number in range(5)))
            assert [answer.body for answer in answers] == [b"/0", b"/1", b"/2", b"/3", b"/4"]
    assert len(peers) == 2


async def test_a_call_that_finds_no_free_connection_in_time_was_never_sent(server, monkeypatch):
    """Else a leader's write could leave long after he was asked whether he still is one."""
    asked = asyncio.Event()

    async def handler(_request):
        asked.set()
        return await asyncio.get_running_loop().create_future()

    server.handler = handler
    async with DirectTransport(Connection(server=server.url), user_agent="x", connections_max=1) as transport:
        slow = asyncio.create_task(transport.call(VERSION))
        await asked.wait()
        monkeypatch.setattr(direct, "CONNECT_S_MAX", 0.05)
        with pytest.raises(Unreachable, match="no connection within") as caught:
            await transport.call(Request("POST", "/api/v1/pods"))
        slow.cancel()
    assert caught.value.acted is False
    assert [seen.method for seen in server.requests] == ["GET"]


async def test_a_connection_that_has_rested_for_long_is_not_used_again(server, monkeypatch):
    """The server may be closing it at this very moment."""
    monkeypatch.setattr(direct, "KEEP_ALIVE_S", 0.0)
    peers = set()

    async def handler(request):
        peers.add(request.transport.get_extra_info("peername"))
        return web.Response()

    server.handler = handler
    async with DirectTransport(Connection(server=server.url), user_agent="x") as transport:
        await transport.call(VERSION)
        await transport.call(VERSION)
    assert len(peers) == 2


async def test_after_a_call_that_was_broken_off_the_next_one_does_not_read_its_answer(server):
    asked = asyncio.Event()

    async def handler(request):
        if request.path == "/slow":
            asked.set()
            await asyncio.get_running_loop().create_future()
        return web.Response(text=request.path)

    server.handler = handler
    async with DirectTransport(Connection(server=server.url), user_agent="x") as transport:
        slow = asyncio.create_task(transport.call(Request("GET", "/slow")))
        await asked.wait()
        slow.cancel()
        with pytest.raises(asyncio.CancelledError):
            await slow
        assert (await transport.call(Request("GET", "/fast"))).body == b"/fast"


async def test_a_server_that_closes_after_its_answer_is_called_anew(server):
    async def handler(_request):
        return web.Response(text="bye", headers={"connection": "close"})

    server.handler = handler
    async with DirectTransport(Connection(server=server.url), user_agent="x") as transport:
        assert [(await transport.call(VERSION)).body for _ in range(2)] == [b"bye", b"bye"]


class Broken:
    async def access(self):
        return Access("Bearer a\r\nx-other: b")

    def rejected(self, _access):
        return False


async def test_a_line_break_in_a_token_smuggles_no_header(server):
    async with DirectTransport(Connection(server=server.url, credentials=Broken()), user_agent="x") as transport:
        with pytest.raises(Malformed, match="a header holds a line break"):
            await transport.call(VERSION)
    assert server.requests == []


def test_it_is_there_without_the_library():
    code = "import sys, pumice.kube.direct, pumice.kube.client, pumice.kube.config; print('aiohttp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"

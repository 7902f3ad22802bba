"""Questions that are answered in a child process."""

import asyncio
import os
import signal
import threading

import pytest

from pumice.errors import BadInput, NotFound, PumiceError
from pumice.processes import fork


async def test_the_answer_comes_from_another_process():
    assert int(await fork.answer(lambda: str(os.getpid()).encode(), limit_s=60)) != os.getpid()


async def test_an_answer_may_be_larger_than_a_pipe_holds():
    assert await fork.answer(lambda: b"x" * 3_000_000, limit_s=60) == b"x" * 3_000_000


@pytest.mark.parametrize("kind", [BadInput, NotFound, PumiceError])
async def test_an_error_for_people_keeps_its_kind_and_text(kind):
    def fails():
        raise kind("queue 'a' does not exist")

    with pytest.raises(kind, match="queue 'a' does not exist") as caught:
        await fork.answer(fails, limit_s=60)
    assert type(caught.value) is kind


async def test_a_fault_of_ours_is_told_with_its_name():
    with pytest.raises(PumiceError, match="ZeroDivisionError"):
        await fork.answer(lambda: bytes(1 // 0), limit_s=60)


async def test_a_child_that_dies_is_told():
    with pytest.raises(PumiceError, match="has died"):
        await fork.answer(lambda: os.kill(os.getpid(), signal.SIGKILL), limit_s=60)


async def test_a_child_that_takes_too_long_is_ended(monkeypatch):
    children, real = [], os.fork

    def recorded():
        children.append(real())
        return children[-1]

    monkeypatch.setattr(os, "fork", recorded)
    with pytest.raises(PumiceError, match="took longer than"):
        await fork.answer(threading.Event().wait, limit_s=0.01)
    with pytest.raises(ProcessLookupError):
        os.kill(children[0], 0)


async def test_sockets_of_the_parent_go_on_and_close_when_the_parent_closes_them():
    async def echo(reader, writer):
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        asked = asyncio.create_task(fork.answer(lambda: os.urandom(1), limit_s=60))
        writer.write(b"hello\n")
        assert await reader.read() == b"hello\n"  # to the end: no child keeps the connection open
        writer.close()
        await asked

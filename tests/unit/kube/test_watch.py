import asyncio
import random

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.kube.peers import LiveStream, Scripted, added, bookmark, failure, modified, pod, streaming

from pumice.api.pods import Pod
from pumice.clock import VirtualClock
from pumice.kube import errors
from pumice.kube.client import Client
from pumice.kube.transport import Request
from pumice.kube.watch import Decoder, Lines, watch

REQUEST = Request("GET", "/api/v1/pods", {"watch": "true"})


# ------------------------------------------------------------------------------------------------------ lines


@given(st.lists(st.binary(min_size=1).filter(lambda line: b"\n" not in line)), st.data())
def test_lines_come_out_whole_wherever_the_chunks_were_cut(lines, data):
    text = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)))))
    chunks = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    splitter = Lines()
    assert [line for chunk in chunks for line in splitter.feed(chunk)] == lines
    assert splitter.begun_bytes == 0


def test_a_line_that_has_not_ended_is_kept_and_counted():
    splitter = Lines()
    assert splitter.feed(b"one\ntw") == [b"one"]
    assert splitter.begun_bytes == 2
    assert splitter.feed(b"o\n\n") == [b"two"]
    assert splitter.begun_bytes == 0


@pytest.mark.parametrize("chunks", [[b"x" * 11], [b"x" * 6, b"x" * 5], [b"x" * 6, b"xxxxx\n"], [b"x" * 11 + b"\n"]])
def test_a_line_beyond_the_limit_is_refused_wherever_it_ends(chunks):
    *first, last = chunks
    splitter = Lines(bytes_max=10)
    for chunk in first:
        splitter.feed(chunk)
    with pytest.raises(errors.Malformed, match="a line of more than 10 bytes"):
        splitter.feed(last)


# ------------------------------------------------------------------------------------------------------ events


def decode(line, bad=None):
    return Decoder(Pod, "WATCH /api/v1/pods", bad or pytest.fail).decode(line)


def test_an_event_is_decoded_into_the_fields_that_we_read():
    event = decode(
        b'{"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"p","managedFields":[{}]},"spec":{"nodeName":"n"}}}'
    )
    assert (event.type, event.object.metadata.name, event.object.spec.node_name) == ("ADDED", "p", "n")


def test_an_error_event_raises_what_it_stands_for():
    line = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old resource version: 1 (9)"}}'
    with pytest.raises(
        errors.Expired,
        match=r"too old resource version: 1 \(9\) \(WATCH /api/v1/pods: 410 Expired\); list again from now",
    ):
        decode(line)
    with pytest.raises(errors.ServerError):
        decode(b'{"object":{"metadata":7,"code":500,"message":"x"},"type":"ERROR"}')


def test_an_object_that_cannot_be_read_is_reported_and_skipped():
    told = []
    assert (
        decode(b'{"type":"ADDED","object":{"metadata":{"name":"p","namespace":"team"},"spec":7}}', told.append) is None
    )
    assert [bad.key for bad in told] == ["team/p"]


def test_nulls_count_as_absent():
    event = decode(b'{"type":"ADDED","object":{"metadata":{"name":"p","labels":null},"spec":{"containers":null}}}')
    assert event.object.metadata.name == "p"


@pytest.mark.parametrize("line", [b"<html>", b"7", b'{"type":', b'{"type":7,"object":{}}'])
def test_a_line_that_is_no_event_is_malformed(line):
    with pytest.raises(errors.Malformed, match="sent a line that is no watch event"):
        decode(line)


# ------------------------------------------------------------------------------------------------------ one watch


def run_watch(stream, script, **settings):
    """Watches `stream` while `script()` writes it; gives the batches of names that came, and the clock."""
    clock = VirtualClock()
    batches = []

    async def main():
        client = Client(Scripted(streaming(stream)), clock=clock, chance=random.Random(0))
        watching = asyncio.create_task(
            watch(
                client,
                REQUEST,
                Pod,
                lambda events: batches.append([(e.type, e.object.metadata.name) for e in events]),
                bad=pytest.fail,
            )
        )
        await script(clock)
        await watching

    try:
        clock.run(main())
    finally:
        stream.clock = clock
    return batches


def test_events_that_came_together_are_passed_on_together():
    stream = LiveStream()

    async def script(clock):
        stream.send(added(pod("a", 1)), added(pod("b", 2)))
        await clock.sleep(1)
        stream.send(modified(pod("a", 3)))
        stream.end()

    assert run_watch(stream, script) == [[("ADDED", "a"), ("ADDED", "b")], [("MODIFIED", "a")]]
    assert stream.closed.is_set()


def test_silence_for_too_long_is_a_dead_connection_but_any_word_is_a_sign_of_life():
    stream = LiveStream()

    async def script(clock):
        for _ in range(3):
            await clock.sleep(100)
            stream.send(bookmark(1))

    with pytest.raises(errors.Stalled, match="WATCH /api/v1/pods: no word from the server for 120 s; watch again"):
        run_watch(stream, script)
    assert stream.clock.monotonic() == 300 + 120
    assert stream.closed.is_set()


def test_a_stream_that_ends_in_the_middle_of_a_line_lost_something():
    stream = LiveStream(b'{"type":"ADDED"', None)

    async def script(_clock):
        pass

    with pytest.raises(errors.Unreachable, match="ended in the middle of a line"):
        run_watch(stream, script)


async def test_over_http_a_connection_that_drops_in_mid_watch_is_told_after_all_whole_lines_were_passed_on(
    server, client
):
    async def handler(request):
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"type":"ADDED","object":{"metadata":{"name":"a"}}}\n{"type":"ADDED","obj')
        await asyncio.sleep(0.05)
        request.transport.abort()
        return response

    server.handler = handler
    seen = []
    with pytest.raises(errors.Unreachable):
        await watch(client, REQUEST, Pod, seen.extend, bad=pytest.fail)
    assert [event.object.metadata.name for event in seen] == ["a"]


async def test_over_http_half_lines_and_slow_bodies_are_put_together(server, client):
    line = b'{"type":"ADDED","object":{"metadata":{"name":"slow"}}}\n'

    async def handler(request):
        response = web.StreamResponse()
        await response.prepare(request)
        for at in range(0, len(line), 7):
            await response.write(line[at : at + 7])
            await asyncio.sleep(0.001)
        return response

    server.handler = handler
    seen = []
    await watch(client, REQUEST, Pod, seen.extend, bad=pytest.fail)
    assert [event.object.metadata.name for event in seen] == ["slow"]


async def test_over_http_a_version_that_is_too_old_is_expired(server, client):
    answer = failure(410, "Expired", "too old resource version")

    async def handler(_request):
        return web.Response(body=answer.body, status=answer.status)

    server.handler = handler
    with pytest.raises(errors.Expired):
        await watch(client, REQUEST, Pod, pytest.fail, bad=pytest.fail)
    assert len(server.requests) == 1

import asyncio

import pytest

from pumice.errors import BadInput
from pumice.instant import SECOND, parse_instant
from pumice.local.nodes.process import logs
from pumice.local.nodes.process.logs import LogOptions, LogWriter, PodLogs, read_options

NOON = parse_instant("2026-01-31T12:00:00Z")


class Clock:
    def __init__(self):
        self.now_ = NOON

    def now(self):
        return self.now_


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def writer(tmp_path, clock):
    made = LogWriter(tmp_path / "0", clock.now)
    yield made
    made.close()


async def text(folder, writer=None, **options):
    return b"".join([chunk async for chunk in logs.read(folder, LogOptions(**options), writer)]).decode()


async def test_what_was_said_is_read_back(writer):
    writer.feed("stdout", b"one\ntw")
    writer.feed("stderr", b"aside\n")
    writer.feed("stdout", b"o\n\nthree")
    writer.close()
    assert await text(writer.folder) == "one\naside\ntwo\n\nthree"


async def test_lines_are_kept_as_a_runtime_keeps_them(writer):
    writer.feed("stdout", b"hello world\n")
    writer.feed("stderr", b"half")
    writer.close()
    assert (writer.folder / "0.log").read_text() == (
        "2026-01-31T12:00:00.000000000Z stdout F hello world\n2026-01-31T12:00:00.000000000Z stderr P half\n"
    )


@pytest.mark.parametrize("chunk", [1_000, 20_000, 100_000])
async def test_a_long_line_is_kept_in_pieces_and_read_whole(writer, chunk):
    line = bytes(range(48, 58)) * 10_000
    for start in range(0, len(line), chunk):
        writer.feed("stdout", line[start : start + chunk])
    writer.feed("stdout", b"\nnext\n")
    writer.close()
    assert await text(writer.folder) == line.decode() + "\nnext\n"
    longest = max(map(len, (writer.folder / "0.log").read_bytes().split(b"\n")))
    assert longest <= logs.LINE_BYTES_MAX + 50


@pytest.mark.parametrize(("count", "expected"), [(0, ""), (1, "3\n"), (2, "2\n3\n"), (9, "0\n1\n2\n3\n")])
async def test_the_last_lines(writer, count, expected):
    writer.feed("stdout", b"0\n1\n2\n3\n")
    assert await text(writer.folder, tail_lines=count) == expected


async def test_the_last_lines_of_a_log_of_many_blocks_and_segments(writer, monkeypatch):
    monkeypatch.setattr(logs, "SEGMENT_BYTES_MAX", 4_000)
    monkeypatch.setattr(logs, "READ_BYTES", 512)
    for number in range(500):
        writer.feed("stdout", f"line {number}\n".encode())
    for count in (1, 7, 60, 120):
        assert await text(writer.folder, tail_lines=count) == "".join(f"line {n}\n" for n in range(500 - count, 500))


async def test_a_log_never_takes_more_than_its_share_of_the_disk(writer, monkeypatch):
    monkeypatch.setattr(logs, "SEGMENT_BYTES_MAX", 2_000)
    for number in range(2_000):
        writer.feed("stdout", f"line {number}\n".encode())
    assert sum(path.stat().st_size for path in writer.folder.iterdir()) <= logs.SEGMENTS_MAX * 2_000
    assert (await text(writer.folder)).endswith("line 1998\nline 1999\n")


async def test_timestamps_and_times(writer, clock):
    writer.feed("stdout", b"old\n")
    clock.now_ += 10 * SECOND
    writer.feed("stdout", b"new\n")
    assert await text(writer.folder, timestamps=True) == (
        "2026-01-31T12:00:00.000000000Z old\n2026-01-31T12:00:10.000000000Z new\n"
    )
    for query in ({"sinceSeconds": "5"}, {"sinceTime": "2026-01-31T12:00:05Z"}):
        options = read_options(query, clock.now_)
        assert b"".join([chunk async for chunk in logs.read(writer.folder, options)]) == b"new\n"


async def test_one_stream_and_a_limit(writer):
    writer.feed("stdout", b"out\n")
    writer.feed("stderr", b"err\n")
    assert await text(writer.folder, stream="stderr") == "err\n"
    assert await text(writer.folder, limit_bytes=5) == "out\ne"


async def test_a_follower_reads_what_comes_until_the_end(writer, monkeypatch):
    monkeypatch.setattr(logs, "SEGMENT_BYTES_MAX", 200)
    writer.feed("stdout", b"first\n")
    following = logs.read(writer.folder, LogOptions(follow=True), writer)
    assert await anext(following) == b"first\n"
    waiting = asyncio.ensure_future(anext(following))
    await asyncio.sleep(0)
    assert not waiting.done()
    for number in range(10):  # over the edges of segments
        writer.feed("stdout", f"{number}\n".encode())
    heard = await waiting
    writer.close()
    heard += b"".join([chunk async for chunk in following])
    assert heard == b"".join(f"{number}\n".encode() for number in range(10))


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ({"tailLines": "many"}, "tailLines 'many' is no number"),
        ({"tailLines": "-1"}, "tailLines '-1' is no number"),
        ({"stream": "Both"}, "stream 'Both' is not known"),
        ({"sinceTime": "noon"}, "time 'noon'"),
    ],
)
def test_options_that_make_no_sense_are_refused(query, problem):
    with pytest.raises(BadInput, match=problem):
        read_options(query, NOON)


def test_options_are_read_as_kubectl_writes_them():
    query = {"follow": "true", "previous": "true", "timestamps": "true", "limitBytes": "9", "stream": "Stdout"}
    read = read_options(query, NOON)
    assert read == LogOptions(follow=True, previous=True, timestamps=True, limit_bytes=9, stream="stdout")


async def test_a_pod_keeps_the_logs_of_its_last_two_attempts(tmp_path, clock):
    pod = PodLogs(tmp_path, clock.now)
    assert pod.read("main", LogOptions()) is None
    for attempt in range(4):
        writer = pod.open("main", attempt)
        writer.feed("stdout", f"try {attempt}\n".encode())
        writer.close()
    assert pod.attempts("main") == [2, 3]
    now, before = pod.read("main", LogOptions()), pod.read("main", LogOptions(previous=True))
    assert [chunk async for chunk in now] == [b"try 3\n"]
    assert [chunk async for chunk in before] == [b"try 2\n"]
    assert pod.tail("main", bytes_max=4, lines_max=10) == "y 3\n"
    assert pod.tail("other", bytes_max=4, lines_max=10) == ""

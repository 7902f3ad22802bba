"""When news becomes rows: at once for what is gone, else after it has gathered."""

import asyncio
import random
import threading

from tests.unit.record.test_observer import a_job, a_pod

from pumice.api.batch import Job
from pumice.api.changes import Deleted, Upserted
from pumice.api.pods import Pod
from pumice.clock import VirtualClock
from pumice.record.settings import RecordSettings
from pumice.record.writer import GATHER_S, Writer
from pumice.runtime import Runtime, silent
from pumice.telemetry.meters import Meters


def a_writer(clock):
    runtime = Runtime(clock=clock, chance=random.Random(1), log=silent)
    return Writer(None, None, RecordSettings("sqlite:///unused.db", keeps_logs=False), runtime, Meters())


async def test_news_gathers_and_what_is_gone_does_not_wait():
    clock = VirtualClock()
    writer = a_writer(clock)
    writer._due["sum"] = 1000.0

    async def rows_after(seconds, kind, change):
        writer._hear(kind, [change])
        clock.jump(seconds)
        await writer._fold()
        rows = writer._buffer.take()
        writer._buffer.written(None)
        return [type(row).__name__ for row in rows]

    assert await rows_after(1, Job, Upserted(a_job())) == ["Gang"]
    assert await rows_after(GATHER_S / 2, Pod, Upserted(a_pod(0))) == []
    assert await rows_after(GATHER_S / 2, Pod, Upserted(a_pod(1))) == ["Gang", "Attempt", "Run", "Run"]
    assert await rows_after(1, Pod, Deleted(a_pod(0))) == ["Run"]
    writer.close()


async def test_rows_that_are_made_while_the_writer_is_told_to_end_are_kept():
    writer = a_writer(VirtualClock())
    begun, may_end, fold = threading.Event(), threading.Event(), writer._observer.fold

    def slowly(news, now):
        begun.set()
        may_end.wait()
        return fold(news, now)

    writer._observer.fold = slowly
    writer._hear(Job, [Upserted(a_job())])
    folding = asyncio.create_task(writer._fold())
    await asyncio.to_thread(begun.wait)
    folding.cancel()
    await asyncio.gather(folding, return_exceptions=True)
    may_end.set()
    await writer._fold(is_last=True)
    assert [type(row).__name__ for row in writer._buffer.take()] == ["Gang"]
    writer.close()

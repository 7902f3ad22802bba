"""When news becomes rows: at once for what is gone, else after it has gathered."""

import random

from tests.unit.record.test_observer import a_job, a_pod

from pumice.api.batch import Job
from pumice.api.changes import Deleted, Upserted
from pumice.api.pods import Pod
from pumice.clock import VirtualClock
from pumice.record.settings import RecordSettings
from pumice.record.writer import GATHER_S, Writer
from pumice.runtime import Runtime, silent
from pumice.telemetry.meters import Meters


async def test_news_gathers_and_what_is_gone_does_not_wait():
    clock = VirtualClock()
    runtime = Runtime(clock=clock, chance=random.Random(1), log=silent)
    writer = Writer(None, None, RecordSettings("sqlite:///unused.db", keeps_logs=False), runtime, Meters())
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

"""kill -9 of `pumice controllers` at random moments, on the real API server: no Job loses anything, nothing is made twice.

Jobs of four pods run, are evicted, suspended and resumed while the controllers' process dies again and again; tests/bodies/job_deaths.py
says what must have become of each. A few deaths here, a hundred in `make soak`.
"""

import asyncio
import contextlib
import random
import signal
import sys

import pytest
from tests.bodies import job_deaths, jobs
from tests.bodies.patience import PATIENCE_S

from pumice.clock import RealClock
from pumice.kube import config
from pumice.kube.http import HttpTransport

STEP_S_MAX = 300.0  # for one step of one Job, while its controllers are dead more often than not


@contextlib.asynccontextmanager
async def controlling(plane, log, extra=(), ready=b"controllers_started"):
    """`pumice controllers` at work, from the line of its log that says it is ready; when this ends, so does it."""
    arguments = ["--kubeconfig", str(plane.kubeconfig), "--no-leader-elect", "--listen", "127.0.0.1:0", *extra]
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pumice.cli", "controllers", *arguments, stderr=asyncio.subprocess.PIPE
    )
    reading = None
    try:
        async with asyncio.timeout(PATIENCE_S):
            async for line in process.stderr:
                log.write(line)
                if ready in line:
                    break
        reading = asyncio.create_task(read(process.stderr, log))
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        if reading is not None:
            await reading


async def read(stream, log):
    async for line in stream:
        log.write(line)


async def die_again_and_again(plane, log, *, deaths, chance, over, extra=(), ready=b"controllers_started"):
    """The process is killed at random moments; then one lives until all is over."""
    for _ in range(deaths):
        async with controlling(plane, log, extra) as process:
            await asyncio.sleep(chance.uniform(0.2, 1.2))  # not to wait for anything: the moment of death is the point
            process.send_signal(signal.SIGKILL)
            assert await process.wait() == -signal.SIGKILL
    async with controlling(plane, log, extra, ready) as process:
        await over.wait()
        process.terminate()
        assert await process.wait() == 0


async def suffer(plane, tmp_path, *, count, deaths, seed):
    namespace = f"crash-{seed}"
    await asyncio.to_thread(plane.create_namespace, namespace)
    connection = config.find(str(plane.kubeconfig), clock=RealClock())
    over = asyncio.Event()
    with (tmp_path / "controllers.log").open("wb") as log:
        async with (
            HttpTransport(connection, user_agent="pumice") as transport,
            HttpTransport(connection, user_agent="pumice-test") as other,
            jobs.job_world(transport, other, namespace, nodes=2, gpus=64, controls=False) as world,
            asyncio.TaskGroup() as crowd,
        ):
            world.patience_s = STEP_S_MAX
            killing = die_again_and_again(plane, log, deaths=deaths, chance=random.Random(seed), over=over)
            dying = crowd.create_task(killing)
            await job_deaths.nothing_is_lost_or_made_twice(world, count=count, seed=seed)
            over.set()
            await dying
            assert len(await world.pods()) == count * job_deaths.SIZE


@pytest.mark.timeout(300)
async def test_jobs_survive_the_deaths_of_their_controllers(empty_plane, tmp_path):
    await suffer(empty_plane, tmp_path, count=8, deaths=4, seed=1)


@pytest.mark.soak
@pytest.mark.timeout(3600)
async def test_jobs_survive_a_hundred_deaths_of_their_controllers(empty_plane, tmp_path):
    await suffer(empty_plane, tmp_path, count=200, deaths=100, seed=100)

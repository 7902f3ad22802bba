"""kill -9 of `pumice controllers` at random moments, on the real API server: no Job loses anything, nothing is made twice.

Jobs of four pods run while the controllers' process dies again and again; each pod must have been made exactly once, each Job must
complete without a retry, and nothing must be left but finished pods. A few deaths here, a hundred in `make soak`.
"""

import asyncio
import collections
import random
import signal
import sys

import pytest
from tests.bodies import jobs
from tools.kube.control_plane import ControlPlane

from pumice.api import kinds
from pumice.api.changes import Upserted
from pumice.api.pods import Pod
from pumice.api.scheduling import PodGroup
from pumice.cli.crds import manifests
from pumice.clock import RealClock
from pumice.kube import config
from pumice.kube.http import HttpTransport

SIZE = 4


@pytest.fixture(scope="module")
def crash_plane(binaries):
    with ControlPlane(nodes=()) as plane:
        plane.kubectl("apply", "--server-side", "-f", "-", input=manifests())
        names = [f"crd/{kind.resource}" for kind in kinds.CUSTOM_KINDS]
        plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", *names)
        yield plane


class Process:
    """`pumice controllers`, which dies and comes back."""

    def __init__(self, plane, log) -> None:
        self._arguments = [sys.executable, "-m", "pumice.cli", "controllers", "--kubeconfig", str(plane.kubeconfig)]
        self._arguments += ["--no-leader-elect", "--listen", "127.0.0.1:0"]
        self._log = log

    async def start(self) -> None:
        """Returns when it has begun to control."""
        self._process = await asyncio.create_subprocess_exec(*self._arguments, stderr=asyncio.subprocess.PIPE)
        async for line in self._process.stderr:
            self._log.write(line)
            if b"controllers_started" in line:
                break
        self._draining = asyncio.create_task(self._drain(self._process.stderr))

    async def _drain(self, stream) -> None:
        async for line in stream:
            self._log.write(line)

    async def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        await self._process.wait()

    async def stop(self) -> int:
        self._process.terminate()
        return await self._process.wait()


async def suffer(plane, tmp_path, *, count, deaths, seed):
    chance = random.Random(seed)
    namespace = f"crash-{seed}"
    await asyncio.to_thread(plane.create_namespace, namespace)
    connection = config.find(str(plane.kubeconfig), clock=RealClock())
    made = collections.defaultdict(set)  # name of a pod -> uids under which it was seen
    with (tmp_path / "controllers.log").open("wb") as log:
        async with (
            HttpTransport(connection, user_agent="pumice") as transport,
            HttpTransport(connection, user_agent="pumice-test") as other,
            jobs.job_world(transport, other, namespace, nodes=4, gpus=count * SIZE, controls=False) as world,
        ):
            world.informers.of(Pod).subscribe(
                lambda news: [
                    made[each.object.metadata.name].add(each.object.metadata.uid)
                    for each in news
                    if isinstance(each, Upserted)
                ]
            )
            process = Process(plane, log)
            await process.start()
            submitting = asyncio.create_task(submit_all(world, count, chance))
            for _ in range(deaths):
                await asyncio.sleep(
                    chance.uniform(0.3, 1.5)
                )  # not to wait for anything: the moment of death is the point
                await process.kill()
                await process.start()
            await submitting
            for number in range(count):
                job = await world.phase("Completed", name=f"job-{number}")
                assert job["status"].get("retryCount", 0) == 0
                assert job["status"]["succeeded"] == SIZE

            async def no_group_is_left():
                return not await world.all(PodGroup)

            await world.until(no_group_is_left, "the end of the groups")
            assert len(await world.pods()) == count * SIZE
            assert await process.stop() == 0
    twice = {name: uids for name, uids in made.items() if len(uids) > 1}
    assert twice == {}
    assert len(made) == count * SIZE


async def submit_all(world, count, chance):
    for number in range(count):
        tasks = [world.task("master", 1, run="2s"), world.task("worker", SIZE - 1, run="2s")]
        policies = [{"event": "PodEvicted", "action": "RestartJob"}, {"event": "PodFailed", "action": "RestartJob"}]
        await world.submit(f"job-{number}", tasks=tasks, plugins={"svc": []}, policies=policies)
        await asyncio.sleep(chance.uniform(0.0, 0.2))  # Jobs arrive over time, so that deaths find them in all phases


async def test_jobs_survive_the_deaths_of_their_controllers(crash_plane, tmp_path):
    await suffer(crash_plane, tmp_path, count=10, deaths=4, seed=1)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(100, 105))
async def test_jobs_survive_a_hundred_deaths(crash_plane, tmp_path, seed):
    await suffer(crash_plane, tmp_path, count=60, deaths=20, seed=seed)

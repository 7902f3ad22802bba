"""Jobs whose controllers die again and again: nothing is lost, nothing is made twice, whatever was under way at that moment.

Who kills the controllers is somebody else's business (`deaths`): within the process at a random write, which is sent or not, and whose
answer nobody hears; or kill -9 of the whole process at a random moment.
"""

import asyncio
import collections
import dataclasses
import logging
import random

from pumice.api.batch import Job
from pumice.api.bus import Command
from pumice.api.changes import Upserted
from pumice.api.core import ConfigMap, Service
from pumice.api.pods import Pod
from pumice.api.scheduling import PodGroup
from pumice.clock import RealClock
from pumice.kube.client import Client
from pumice.kube.informer import Informers
from pumice.processes.controllers import Controllers
from pumice.runtime import Runtime

log = logging.getLogger(__name__)

SIZE = 4
KINDS = ("plain", "evicted whole", "evicted alone", "suspended")
AT_ONCE = 16  # Jobs under way
RESTARTS = [{"event": "PodFailed", "action": "RestartJob"}]


class Register:
    """Under which uids each name has been seen: one for each time that it was made."""

    def __init__(self, world) -> None:
        self.uids: dict[type, dict[str, set[str]]] = {}
        for struct in (Pod, PodGroup):
            self.uids[struct] = collections.defaultdict(set)
            world.informers.of(struct).subscribe(lambda news, struct=struct: self._see(struct, news))

    def _see(self, struct, news) -> None:
        for change in news:
            if isinstance(change, Upserted):
                metadata = change.object.metadata
                self.uids[struct][metadata.name].add(metadata.uid)

    def made(self, struct, prefix: str) -> collections.Counter[int]:
        """How many names that begin so were made how often."""
        return collections.Counter(len(uids) for name, uids in self.uids[struct].items() if name.startswith(prefix))


@dataclasses.dataclass
class Story:
    """One Job, what befalls it, and what must have become of it."""

    world: object
    register: Register
    name: str
    kind: str

    async def live(self) -> None:
        event = {"evicted whole": "RestartJob", "evicted alone": "RestartPod"}.get(self.kind)
        policies = [*RESTARTS, *([{"event": "PodEvicted", "action": event}] if event else [])]
        run = "1s" if self.kind == "plain" else ""
        tasks = [self.world.task("master", 1, run=run), self.world.task("worker", SIZE - 1, run=run)]
        await self.world.submit(self.name, tasks=tasks, plugins={"svc": []}, policies=policies)
        if self.kind != "plain":
            await self._running()
        await getattr(self, "_" + self.kind.replace(" ", "_"))()
        job = await self.world.phase("Completed", name=self.name, succeeded=SIZE)
        self._check(job)

    async def _running(self, **status) -> None:
        await self.world.phase("Running", name=self.name, running=SIZE, **status)

    async def _end(self) -> None:
        names = [f"{self.name}-master-0", *(f"{self.name}-worker-{index}" for index in range(SIZE - 1))]
        await self.world.end(*names)

    async def _plain(self) -> None:
        """Runs and ends."""

    async def _evicted_whole(self) -> None:
        await self.world.evict(f"{self.name}-worker-1")
        await self._running(retryCount=1, version=1)
        await self._end()

    async def _evicted_alone(self) -> None:
        await self.world.evict(f"{self.name}-worker-1")
        await self._running(retryCount=1)
        await self._end()

    async def _suspended(self) -> None:
        await self.world.command("AbortJob", self.name)
        await self.world.phase("Aborted", name=self.name)
        await self.world.command("ResumeJob", self.name)
        await self._running()
        await self._end()

    def _check(self, job) -> None:
        status = job["status"]
        wanted = {  # retries, versions, pods by how often they were made, groups likewise
            "plain": (0, 0, {1: SIZE}, {1: 1}),
            "evicted whole": (1, 1, {2: SIZE}, {2: 1}),
            "evicted alone": (1, 0, {1: SIZE - 1, 2: 1}, {1: 1}),
            "suspended": (0, 2, {2: SIZE}, {2: 1}),
        }[self.kind]
        pods, groups = self.register.made(Pod, f"{self.name}-"), self.register.made(PodGroup, f"{self.name}-")
        found = (status.get("retryCount", 0), status.get("version", 0), dict(pods), dict(groups))
        assert found == wanted, (self.kind, job)


async def nothing_is_lost_or_made_twice(world, *, count: int, seed: int) -> None:
    """Jobs of all kinds, one after the other and many at once; each tells its own story."""
    log.info("seed %d", seed)
    chance = random.Random(seed)
    register = Register(world)
    window = asyncio.Semaphore(AT_ONCE)

    async def live(number: int) -> None:
        async with window:
            await Story(world, register, f"j{number:04}x", chance.choice(KINDS)).live()

    async with asyncio.TaskGroup() as crowd:
        for number in range(count):
            crowd.create_task(live(number))

    async def only_finished_pods_are_left():
        left = [each for struct in (PodGroup, Service, Command) for each in await world.all(struct)]
        left += [each for each in await world.all(ConfigMap) if each["metadata"]["name"].endswith("-svc")]
        phases = {pod["status"]["phase"] for pod in (await world.pods()).values()}
        return not left and phases == {"Succeeded"}

    await world.until(only_finished_pods_are_left, "an end without leftovers")
    assert len(await world.all(Job)) == count
    assert len(await world.pods()) == count * SIZE


# ------------------------------------------------------------------------------------------- deaths within the process


class Severed:
    """A transport that dies at a certain write: it is sent or not, and nobody hears the answer to it or to any other."""

    def __init__(self, inner, writes: int, *, sends_last: bool) -> None:
        self._inner = inner
        self._left = writes
        self._sends_last = sends_last
        self.dead = asyncio.Event()

    async def call(self, request):
        if request.method != "GET" and not self.dead.is_set():
            self._left -= 1
            if self._left == 0:
                self.dead.set()
                if self._sends_last:
                    await self._inner.call(request)
        if self.dead.is_set():
            await asyncio.get_running_loop().create_future()  # for ever: whoever waits is about to be cancelled
        return await self._inner.call(request)

    async def close(self) -> None:
        """The inner one is somebody else's."""


class MortalControllers:
    """Controllers that die `deaths` times, each time at a random write, and come back; at last they live on."""

    def __init__(self, transport, *, deaths: int, writes_of_a_life: int, seed: int) -> None:
        self._transport = transport
        self._chance = random.Random(seed)
        self._left = deaths
        self._writes_max = writes_of_a_life
        self.deaths = 0

    async def run(self) -> None:
        while True:
            lasting = self._left <= 0
            writes = 0 if lasting else self._chance.randint(1, self._writes_max)
            severed = Severed(self._transport, writes, sends_last=self._chance.random() < 0.5)
            await self._life(severed)
            self._left -= 1
            self.deaths += 1

    async def _life(self, transport: Severed) -> None:
        clock, chance = RealClock(), random.Random(self._chance.random())
        client = Client(transport, clock=clock, chance=chance)
        informers = Informers(client, clock=clock, chance=chance)
        controllers = Controllers(client, informers, Runtime(clock=clock, chance=chance))
        tasks = [asyncio.create_task(each) for each in (informers.run(), controllers.run(), transport.dead.wait())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

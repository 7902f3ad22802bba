"""Many small Jobs come, run and go, on every API server: what that costs is counted, and nothing of them is left anywhere."""

import asyncio
import logging
import time

from pumice.api import kinds
from pumice.api.batch import Job
from pumice.api.changes import Deleted
from pumice.api.core import ConfigMap, Secret, Service
from pumice.api.pods import Pod
from pumice.api.scheduling import PodGroup
from pumice.controllers.job.plugins.svc import NETWORK_POLICY

log = logging.getLogger(__name__)

SIZE = 4
AT_ONCE = 32  # submissions under way: a client, not an attack
PODS_OF_A_NODE = 110  # what a pretend node takes
OF_A_POD = 2  # writes: its making and its binding
OF_A_GANG = 8  # over its life, the scheduler's among them
OF_PLUGINS = {"POST configmaps", "POST services", "POST networkpolicies", "POST secrets"}
PATIENCE_S = 180.0  # without any news of a Job
SERVERS_OWN = {"kube-root-ca.crt"}  # a ConfigMap that Kubernetes puts into every namespace


def room_for(count: int) -> dict[str, int]:
    """Nodes for all pods of so many Jobs at once, as arguments of job_world."""
    return {"nodes": -(-count * SIZE // PODS_OF_A_NODE), "gpus": PODS_OF_A_NODE}


class Lives:
    """How long each Job lived, by this process's clock: from before its submission until its end was heard of."""

    def __init__(self, world) -> None:
        self._world = world
        self._born: dict[str, float] = {}
        self._gone: dict[str, float] = {}
        self._news = asyncio.Event()
        watched = [world.informers.of(struct) for struct in (Pod, PodGroup)]
        leave = [each.subscribe(lambda _: self._news.set()) for each in watched]
        self._leave = [world.informers.of(Job).subscribe(self._see), *leave]

    def leave(self) -> None:
        for each in self._leave:
            each()

    def born(self, name: str) -> None:
        self._born[name] = time.monotonic()

    def lasted_s(self, name: str) -> float:
        return self._gone[name] - self._born[name]

    def _see(self, news) -> None:
        self._news.set()
        self._gone |= {each.object.metadata.name: time.monotonic() for each in news if isinstance(each, Deleted)}

    async def all_over(self) -> None:
        """Returns when no Job is left; while there is news of Jobs, groups or pods, there is hope."""
        while await self._world.all(Job):
            self._news.clear()
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await self._news.wait()
            except TimeoutError:
                left = [(each["metadata"]["name"], each.get("status")) for each in await self._world.all(Job)]
                raise AssertionError(f"nothing happens any more to {len(left)} jobs, such as {left[:3]}") from None
        # A watch that began anew does not tell of those that came and went meanwhile.
        for name in self._born.keys() - self._gone.keys():
            self._gone[name] = time.monotonic()


async def jobs_come_run_and_go(world, count: int) -> None:
    """Each Job is a gang of four with the svc and ssh plugins; when it is over it is collected."""
    lives = Lives(world)
    window = asyncio.Semaphore(AT_ONCE)
    # A pair of keys for each of a thousand Jobs would be all that this costs.
    plugins = {"svc": [], "ssh": ["--ssh-private-key=secret", "--ssh-public-key=public"]}

    async def submit(name: str) -> None:
        async with window:
            lives.born(name)
            tasks = [world.task("master", 1, run="0s"), world.task("worker", SIZE - 1, run="0s")]
            await world.submit(name, tasks=tasks, plugins=plugins, ttlSecondsAfterFinished=0)

    async with asyncio.TaskGroup() as crowd:
        for number in range(count):
            crowd.create_task(submit(f"job-{number}"))
    await lives.all_over()
    lives.leave()
    await _nothing_is_left(world)
    _the_budget_is_kept(world, count, lives)
    await _nothing_is_remembered(world)


async def _nothing_is_left(world) -> None:
    async def empty():
        left = [each for struct in (Pod, PodGroup, Service, ConfigMap, Secret) for each in await world.all(struct)]
        left += await world.client.list_json(NETWORK_POLICY, namespace=world.namespace)
        return all(each["metadata"]["name"] in SERVERS_OWN for each in left)

    await world.until(empty, "a namespace with nothing of the jobs in it")


def _the_budget_is_kept(world, count: int, lives: Lives) -> None:
    """Two writes a pod and one more if it waited, eight a gang, one to make and one to end each object of a plugin.

    The Job's own end is its owner's wish, here written down beforehand: it is not counted.

    What only counts comes on top of that where a machine is slow: once a second and object at most.
    """
    writes, numbers = world.counted.writes, world.counted.numbers
    log.info("%d jobs cost %s, of these only numbers: %d", count, dict(writes), sum(numbers.values()))
    assert writes["POST pods"] == writes["POST binding"] == count * SIZE
    assert writes["POST podgroups"] == writes["DELETE jobs"] == count
    assert all(writes[what] == count for what in OF_PLUGINS)
    plugins = sum(number for what, number in writes.items() if what.replace("DELETE", "POST") in OF_PLUGINS)
    waited, collected = writes["PATCH pods"], writes["DELETE jobs"]
    assert waited <= count * SIZE
    budget = count * (SIZE * OF_A_POD + OF_A_GANG)
    assert writes.total() - plugins - waited - collected - sum(numbers.values()) <= budget, writes
    for (resource, name), number in numbers.items():
        job = name if resource == "jobs" else name[: -len("-00000000-0000-0000-0000-000000000000")]
        assert number <= lives.lasted_s(job) + 1, (resource, name, number, lives.lasted_s(job))


async def _nothing_is_remembered(world) -> None:
    """The controllers know as little of the Jobs as before they came; what they keep of the dead is bounded by names."""

    def remembered():
        controllers = world.controllers
        stores = {
            f"known {kinds.by_struct(struct).kind}": len(store)
            for struct, store in controllers.cache.stores.items()
            if struct in {Job, Pod, PodGroup, Service, ConfigMap, Secret}
        }
        drivers = {f"keys of {each.name}": each.remembered() for each in controllers.drivers if each.name != "queue"}
        return {what: number for what, number in {**stores, **drivers}.items() if number}

    try:
        async with asyncio.timeout(PATIENCE_S):
            while remembered():  # noqa: ASYNC110 - a queue that falls idle tells nobody
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"controllers still remember {remembered()}") from None

"""How often the scheduler writes: one bind a pod, a handful a gang, and one more for a pod that had to wait."""

import collections
import contextlib
import random

from tests.bodies.beside import scheduler_beside
from tests.bodies.scheduler import World

from pumice.api.core import Namespace
from pumice.clock import RealClock
from pumice.kube.client import Client

SIZE = 50
GANG_WRITES_MAX = 8  # over its life; the Job controller's are counted in its own tests


class Counting:
    """A Transport that counts what changes something, by what it is about."""

    def __init__(self, transport):
        self._transport = transport
        self.writes = collections.Counter()

    async def call(self, request):
        if request.method != "GET":
            parts = request.path.strip("/").split("/")
            kind = next(part for part in reversed(parts) if part in KINDS) if set(parts) & KINDS else parts[-1]
            self.writes[f"{kind}/{parts[-1]}" if parts[-1] in {"binding", "status", "eviction"} else kind] += 1
        return await self._transport.call(request)

    async def close(self):
        await self._transport.close()


KINDS = {"pods", "podgroups", "queues", "events", "leases", "nodes"}


@contextlib.asynccontextmanager
async def counted(client):
    await client.create(Namespace, {"metadata": {"name": "team"}})
    counting = Counting(client._transport)
    async with scheduler_beside(Client(counting, clock=RealClock(), chance=random.Random(1))) as scheduler:
        yield World(client, "team", scheduler), counting.writes


async def live_and_die(world, name):
    await world.gang(name, size=SIZE)
    await world.until_bound(name, SIZE)
    await world.run_bound(name)
    await world.finish(name)

    async def completed():
        return (await world.group(name))["status"]["phase"] == "Completed"

    await world.until(completed, "the gang should be completed")


async def test_a_gang_that_finds_room_costs_one_bind_a_pod_and_a_handful_of_writes(client):
    async with counted(client) as (world, writes):
        await world.node("a", gpus=2 * SIZE, cpu="640")
        await live_and_die(world, "first")
        await live_and_die(world, "second")
        await world.stir()
        assert writes["pods/binding"] == 2 * SIZE
        assert writes["pods/status"] == 0, writes
        # Inqueue, Running, Completed, and counters in between.
        assert writes["podgroups"] <= 2 * 5, writes
        assert writes["podgroups"] + writes["events"] <= 2 * GANG_WRITES_MAX, writes
        assert writes["queues/status"] <= 8, writes


async def test_a_pod_that_waits_costs_one_write_more(client):
    async with counted(client) as (world, writes):
        await world.node("a", gpus=SIZE - 2, cpu="640")
        await world.gang("train", size=SIZE)
        await world.until_said("train", f"can never run here: {SIZE} such pods")
        await world.stir()
        await world.node("b", gpus=2)
        await world.until_bound("train", SIZE)
        await world.stir()
        assert writes["pods/binding"] == SIZE
        assert writes["pods/status"] <= SIZE, writes
        assert writes["podgroups"] + writes["events"] <= GANG_WRITES_MAX + 4, writes

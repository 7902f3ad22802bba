"""Calls that take effect late and news that arrives late, on every API server: no node is ever charged beyond what it may hand out.

A body gets a Place, as those of tests/bodies/mishaps.py do. A witness watches every version of every pod over a connection of its own.
"""

import asyncio
import random

import msgspec
from tests.bodies.crashes import witnessed
from tests.bodies.mishaps import SIZE, Line, Skewed, leads, scheduling, until_running, work_ends

from pumice.api.coordination import Lease
from pumice.api.pods import Pod
from pumice.api.priority import PriorityClass
from pumice.kube import lease
from pumice.kube.errors import Unreachable
from pumice.kube.lease import NotLeading

GANGS = 6
FAULTS_S = 4.0  # how long the network lies; afterwards everything must come to rest


class Cut:
    """A Transport that cuts the client off from its binds; they are delivered when `deliver` is called, and not before."""

    def __init__(self, transport):
        self._transport = transport
        self._cut = []
        self.is_cut = True
        self.reached = asyncio.Event()

    async def call(self, request):
        if not self.is_cut or not request.path.endswith("/binding"):
            return await self._transport.call(request)
        self._cut.append(request)
        if len(self._cut) >= SIZE:
            self.reached.set()
        raise Unreachable("the connection broke", acted=True)

    async def deliver(self):
        """All that was sent arrives; the server's answers."""
        return [(await self._transport.call(request)).status for request in self._cut]

    async def hang_up(self):
        """Nothing is on the way but what `deliver` would bring."""

    async def close(self):
        await self._transport.close()


async def a_gang_of_higher_rank(world):
    body = {"metadata": {"name": f"{world.namespace}-first"}, "value": 1000}
    await world.client.create(PriorityClass, body)
    await world.gang("second", size=SIZE, priorityClassName=f"{world.namespace}-first")


async def test_room_of_a_bind_that_nobody_has_answered_is_given_to_nobody_else(place):
    """The client is cut off, one look says `not bound`, a gang of higher rank wants the room, and then the binds arrive."""
    line = Cut(place.connect())
    async with witnessed(place.connect(), place.namespace, {"a": SIZE}) as (world, witness):
        async with scheduling(line) as (_, world.scheduler):
            await world.gang("first", size=SIZE)
            await line.reached.wait()
            await a_gang_of_higher_rank(world)
            await world.until_said("second", "tasks in gang unschedulable")
            assert await world.bound() == {}
            answers = await line.deliver()
            assert answers.count(201) == SIZE
            line.is_cut = False
            await until_running(world, "first")
            assert await world.bound("second") == {}
        assert (witness.wrong, witness.lost) == ([], set())


class Meddling:
    """A Transport before whose first bind somebody changes the pod."""

    def __init__(self, transport, meddle):
        self._transport = transport
        self._meddle = meddle
        self.answers = []
        self.accepted = asyncio.Event()

    async def call(self, request):
        if not request.path.endswith("/binding"):
            return await self._transport.call(request)
        if not self.answers:
            await self._meddle(request.path.split("/")[-2])
        answer = await self._transport.call(request)
        self.answers.append(answer.status)
        if answer.status == 201:
            self.accepted.set()
        return answer

    async def hang_up(self):
        """Nothing is on the way."""

    async def close(self):
        await self._transport.close()


async def test_a_pod_that_has_changed_since_it_was_looked_at_is_bound_all_the_same(place):
    async with witnessed(place.connect(), place.namespace, {"a": 1}) as (world, _):

        async def label(pod):
            await world.client.patch(Pod, pod, {"metadata": {"labels": {"new": "yes"}}}, namespace=world.namespace)

        line = Meddling(place.connect(), label)
        async with scheduling(line):
            await world.gang("train", size=1)
            await world.until_bound("train", 1)
            await line.accepted.wait()  # a watch may tell of the bind before its answer is here
            assert line.answers == [409, 201]


async def test_binds_of_a_dead_leader_are_refused_however_late_they_arrive(place):
    """None of its binds has arrived when another leads and gives the room to a gang of higher rank."""
    slow, quick = Skewed(), Skewed()
    one, two = Line(place.connect(), hold_from=1), Line(place.connect())
    async with witnessed(place.connect(), place.namespace, {"a": SIZE}) as (world, witness):
        async with scheduling(one, clock=slow, identity="one") as (work, _):
            await leads(world, "one")
            await world.gang("first", size=SIZE)
            await one.reached.wait()
            slow.ahead_s = lease.RENEW_S
            await work_ends(work, NotLeading)
            await a_gang_of_higher_rank(world)
            async with scheduling(two, clock=quick, identity="two"):
                quick.ahead_s = lease.LEASE_S
                await world.until_bound("second", SIZE)
                await one.arrived()
                assert set(one.answers) == {409}
                assert await world.bound("first") == {}
        assert (witness.wrong, witness.lost) == ([], set())
        await world.client.delete(Lease, "mishaps", namespace="default")


# ------------------------------------------------------------------------------------------------- anything, at random


class Unreliable:
    """A Transport that drops writes, delivers them late, loses answers, and lets watches lag; as chance says, until `calm`."""

    def __init__(self, transport, seed):
        self._transport = transport
        self._chance = random.Random(seed)
        self._late = set()
        self.calm = False
        self.done = dict.fromkeys(("dropped", "late", "lost", "lagged"), 0)

    async def call(self, request):
        if request.method == "GET":
            answer = await self._transport.call(request)
            return answer if answer.stream is None else msgspec.structs.replace(answer, stream=self._lag(answer.stream))
        roll = 1.0 if self.calm or "/leases" in request.path else self._chance.random()
        if roll < 0.1:
            self.done["dropped"] += 1
            raise Unreachable("the connection broke, and nothing arrived", acted=True)
        if roll < 0.5:
            self.done["late"] += 1
            task = asyncio.create_task(self._deliver(request, self._chance.uniform(0.05, 2.0)))
            self._late.add(task)
            raise Unreachable("the connection broke, and the call is on its way", acted=True)
        answer = await self._transport.call(request)
        if roll < 0.6:
            self.done["lost"] += 1
            raise Unreachable("the answer was lost", acted=True)
        return answer

    async def _deliver(self, request, delay_s):
        await asyncio.sleep(delay_s)
        await self._transport.call(request)

    async def _lag(self, stream):
        try:
            async for chunk in stream:
                if not self.calm and self._chance.random() < 0.3:
                    self.done["lagged"] += 1
                    await asyncio.sleep(self._chance.uniform(0.0, 0.5))
                yield chunk
        finally:
            await stream.aclose()

    async def hang_up(self):
        for task in self._late:
            task.cancel()
        if self._late:
            await asyncio.wait(self._late)

    async def arrived(self):
        if self._late:
            await asyncio.wait(self._late)

    async def close(self):
        await self._transport.close()


async def no_node_is_ever_charged_beyond_what_it_has(place, seed):
    """Twice as many gangs as fit, each ended by the test once it is whole, over a network that does anything but lie about yes."""
    print(f"seed={seed}")  # noqa: T201  a random test says its seed
    chance = random.Random(seed)
    line = Unreliable(place.connect(), seed)
    async with witnessed(place.connect(), place.namespace, {"a": SIZE, "b": SIZE}) as (world, witness):
        async with scheduling(line):
            body = {"metadata": {"name": f"{world.namespace}-first"}, "value": 1000}
            await world.client.create(PriorityClass, body)
            for number in range(GANGS):
                rank = chance.choice(({}, {"priorityClassName": f"{world.namespace}-first"}))
                await world.gang(f"g{number}", size=chance.choice((4, SIZE)), **rank)
                await asyncio.sleep(chance.uniform(0.0, 0.2))
            left = {f"g{number}" for number in range(GANGS)}
            sizes = {gang: len(await world.pods(gang)) for gang in left}

            async def one_is_whole():
                whole = [gang for gang in sorted(left) if len(await world.bound(gang)) == sizes[gang]]
                return whole[0] if whole else None

            calming = asyncio.get_running_loop().call_later(FAULTS_S, setattr, line, "calm", True)
            while left:
                gang = await world.until(one_is_whole, f"one of {sorted(left)} should start, seed={seed}")
                left.discard(gang)
                for pod in await world.pods(gang):
                    await world.client.delete(Pod, pod["metadata"]["name"], namespace=world.namespace, grace_s=0)
                assert witness.wrong == [], f"seed={seed}"
            calming.cancel()
            await line.arrived()
        assert witness.wrong == [], f"seed={seed}"
        return line.done

"""The API server dies, or is restarted in good order, while a scheduler binds: every gang ends whole, and nothing twice.

A body gets a server that can be killed, stopped and started again on its port and data, and a way to open connections to it.
"""

import asyncio
import contextlib

from tests.bodies.crashes import witnessed
from tests.bodies.mishaps import SIZE, Line, scheduling, until_running

from pumice.api.core import Node
from pumice.kube import errors

GANGS = 3  # side by side, as many as the nodes hold exactly
FATAL = 5  # the bind of a wave at which it happens


class Fuse(Line):
    """A Line on which, once it is set, a certain bind and the end of the server leave at the same moment."""

    def __init__(self, transport):
        super().__init__(transport)
        self._left = None
        self._end = None
        self.ending = None

    def set(self, binds, end):
        self._left, self._end, self.ending = binds, end, None

    async def is_lit(self):
        return self.ending is not None

    async def call(self, request):
        if request.path.endswith("/binding") and self._left is not None:
            self._left -= 1
            if self._left == 0:
                self.ending = asyncio.create_task(self._end())
        return await super().call(request)


async def every_gang_ends_whole(server, connect, namespace, *, ends):
    """`ends` are ways in which the server goes down, one after the other, each in the middle of a wave of gangs."""
    line = Fuse(connect())
    async with witnessed(connect(), namespace, {}) as (world, witness), scheduling(line):
        for wave, end in enumerate(ends):
            gangs = [f"w{wave}g{number}" for number in range(GANGS)]
            node = await world.node(f"n{wave}", gpus=0)
            witness.room[node] = GANGS * SIZE
            for gang in gangs:
                await world.gang(gang, size=SIZE)
            line.set(FATAL, end)
            with contextlib.suppress(errors.Unreachable):  # it may be the last thing that the server heard
                await open_up(world, node)
            await world.until(line.is_lit, "the fatal bind should leave")
            await line.ending
            await server.start()
            await open_up(world, node)
            for gang in gangs:
                await world.until_bound(gang, SIZE)
                await until_running(world, gang)
        assert (witness.wrong, witness.lost) == ([], set())
        assert len(set(line.bound)) == len(line.bound)


async def open_up(world, node):
    """All at once there is room for a whole wave, by one call."""
    room = {"nvidia.com/gpu": str(GANGS * SIZE)}
    await world.client.patch(Node, node, {"status": {"allocatable": room, "capacity": room}}, subresource="status")

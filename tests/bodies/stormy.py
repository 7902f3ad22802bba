"""A scheduler whose network lies: replies are lost, calls are refused, answered with 409, 429 and 500, watches break off.

Whatever happens, every gang ends whole: nothing is bound twice, no node holds more than it has. The seed is printed.
"""

import asyncio
import json
import random

import msgspec
from tests.bodies.scheduler import World

from pumice.kube.errors import Unreachable
from pumice.kube.transport import Response

GANGS, SIZE = 6, 8


class Storm:
    """A Transport that does to each write what chance says; reads and lists go through, watches live a random while."""

    def __init__(self, transport, seed):
        self._transport = transport
        self._chance = random.Random(seed)
        self.calm = False
        self.done = {"lost": 0, "refused": 0, "409": 0, "429": 0, "500": 0, "cut": 0}

    async def call(self, request):
        if request.method == "GET":
            return self._shortened(await self._transport.call(request))
        roll = 1.0 if self.calm else self._chance.random()
        if roll < 0.08:
            self.done["refused"] += 1
            raise Unreachable("connection refused", acted=False)
        for code, limit in (("409", 0.14), ("429", 0.20), ("500", 0.26)):
            if roll < limit:
                self.done[code] += 1
                return _failure(int(code))
        answer = await self._transport.call(request)
        if roll < 0.36:
            self.done["lost"] += 1
            raise Unreachable("the reply was lost", acted=True)
        return answer

    def _shortened(self, answer):
        if answer.stream is None or self.calm:
            return answer
        return msgspec.structs.replace(answer, stream=self._cut(answer.stream, self._chance.randrange(1, 40)))

    async def _cut(self, stream, chunks):
        try:
            async for chunk in stream:
                yield chunk
                chunks -= 1
                if chunks <= 0 and not self.calm:
                    self.done["cut"] += 1
                    raise Unreachable("the connection broke")
        finally:
            await stream.aclose()

    async def close(self):
        await self._transport.close()


def _failure(code):
    reason = {409: "Conflict", 429: "TooManyRequests", 500: "InternalError"}[code]
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": "a storm",
    }
    return Response(code, {"content-type": "application/json"}, json.dumps(status).encode())


async def every_gang_ends_whole(client, namespace, scheduler, storm):
    """The client is calm; only the scheduler's own network is not."""
    world = World(client, namespace, scheduler)
    nodes = [await world.node(f"n{number}", gpus=SIZE, cpu="640") for number in range(GANGS)]
    await asyncio.gather(*(world.gang(f"g{number}", size=SIZE) for number in range(GANGS)))
    for number in range(GANGS):
        await world.until_bound(f"g{number}", SIZE)
    storm.calm = True
    held = dict.fromkeys(nodes, 0)
    for pod in await world.pods():
        held[pod["spec"]["nodeName"]] += 1
    assert max(held.values()) <= SIZE, held
    assert sum(held.values()) == GANGS * SIZE

    async def all_running():
        groups = [await world.group(f"g{number}") for number in range(GANGS)]
        return all(group.get("status", {}).get("phase") == "Running" for group in groups)

    await world.until(all_running, "every group should say Running once the storm is over")
    await world.leave()

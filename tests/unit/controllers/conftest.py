"""An embedded server under virtual time, and the controllers' machinery over it."""

import asyncio
import contextlib
import random

import pytest
from tests.bodies.beside import end

from pumice.api import kinds
from pumice.api.core import Namespace
from pumice.clock import VirtualClock
from pumice.controllers.cache import Cache
from pumice.controllers.executor import Executor
from pumice.kube.client import Client
from pumice.kube.informer import Informers
from pumice.kube.recorder import Recorder
from pumice.local.apiserver.local import LocalTransport
from pumice.local.apiserver.server import Server, Settings

START = 1_760_000_000 * 10**9


class Bench:
    """Everything a controller gets; `run` is a test's world."""

    def __init__(self) -> None:
        self.clock = VirtualClock(START)

    def run(self, body):
        """Runs `body(self)` under virtual time; what runs beside it ends with it."""
        return self.clock.run(self._run(body))

    async def _run(self, body):
        async with (
            Server(Settings(now=self.clock.now, chance=random.Random(0))) as server,
            contextlib.AsyncExitStack() as stack,
        ):
            self.stack = stack
            self.client = Client(LocalTransport(server), clock=self.clock, chance=random.Random(0))
            await self.client.create(Namespace, {"metadata": {"name": "team"}})
            self.informers = Informers(self.client, clock=self.clock, chance=random.Random(0))
            self.known = Cache(self.informers, self.clock)
            self.recorder = Recorder(self.client, component="test", clock=self.clock)
            self.executor = Executor(self.client, self.known, self.recorder)
            self.beside(self.informers.run())
            return await body(self)

    def beside(self, work):
        task = asyncio.create_task(work)
        self.stack.push_async_callback(end, task)

    async def json(self, struct, name):
        return (await self.client.get(struct, name, namespace="team")).json()

    async def names(self, struct):
        listed = await self.client.list_json(kinds.by_struct(struct), namespace="team")
        return sorted(each["metadata"]["name"] for each in listed)


@pytest.fixture
def bench():
    return Bench()

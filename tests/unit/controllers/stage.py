"""A stage for controllers: the embedded server with the kinds they need, under virtual time; they may die at any write.

stage = Stage(queue.controller, kinds=(Queue, PodGroup, Command))
stage.run(body)                            # body(stage) makes objects, lets time pass and looks
outcomes_of_every_crash(stage, body, look) # the same, once for each write before which the controllers die
"""

import asyncio
import contextlib
import functools
import importlib.resources
import random

import msgspec
from tests.bodies.beside import end

from pumice import yamltext
from pumice.api import kinds as table
from pumice.api.core import Namespace
from pumice.api.events import CoreEvent
from pumice.clock import VirtualClock
from pumice.controllers.cache import Cache
from pumice.controllers.driver import Driver
from pumice.controllers.executor import Executor
from pumice.kube import errors
from pumice.kube.client import Client
from pumice.kube.informer import Informers
from pumice.kube.recorder import Recorder
from pumice.kube.requests import PatchType
from pumice.kube.transport import Request
from pumice.local.apiserver.local import LocalTransport
from pumice.local.apiserver.registry import ALPHA
from pumice.local.apiserver.server import Server, Settings
from pumice.runtime import Runtime

START = 1_774_699_200 * 10**9  # 2026-03-28T12:00:00Z, the day before clocks change in Europe
SETTLED_S = 90.0  # longer than the longest back-off of a work queue
CRASHES_MAX = 50  # writes of one story; more is a loop
_OF_NO_ACCOUNT = ("uid", "resourceVersion", "managedFields", "generation", "creationTimestamp")


@functools.cache
def definition(struct):
    kind = table.by_struct(struct)
    text = (importlib.resources.files("pumice.api") / "crds" / f"{kind.group}_{kind.plural}.yaml").read_bytes()
    (manifest,) = yamltext.load_all(text, source=kind.resource)
    return msgspec.json.encode(manifest)


def patches_of(kind, monkeypatch):
    """Every patch of such an object from now on, to be sent once more: late, as it were."""
    patch, sent = Client.patch, []

    async def noting(self, *what, **how):
        if what[0] is kind:
            sent.append((functools.partial(patch, self, *what, **how), what))
        return await patch(self, *what, **how)

    monkeypatch.setattr(Client, "patch", noting)
    return sent


class Crash(errors.KubeError):
    """The process is gone."""


class Stage:
    def __init__(self, *makers, kinds, start=START):
        self.makers = makers
        self.kinds = kinds
        self.start_at = start
        self.crash_before = None  # the number of the write that is never made

    def run(self, body):
        """Runs `body(self)` under virtual time; what runs beside it ends with it."""
        self.clock = VirtualClock(self.start_at)
        self.failures = []  # what controllers could not do; a test that expects some takes them away
        result = self.clock.run(self._run(body))
        assert self.failures == []
        return result

    async def _run(self, body):
        settings = Settings(now=self.clock.now, chance=random.Random(0), alpha=ALPHA)
        async with Server(settings) as server:
            self.client = Client(LocalTransport(server), clock=self.clock, chance=random.Random(0))
            for struct in self.kinds:
                path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
                await self.client.call(
                    Request("POST", path, {}, {"content-type": "application/json"}, definition(struct))
                )
            await self.client.create(Namespace, {"metadata": {"name": "team"}})
            self.written = 0
            self.dead = asyncio.Event()
            self.start()
            try:
                return await body(self)
            finally:
                await self.stop()

    # ------------------------------------------------------------------------------------------------- the process

    def start(self):
        """The controllers' process begins."""
        self.stack = contextlib.AsyncExitStack()
        chance = random.Random(0)
        informers = Informers(self.client, clock=self.clock, chance=chance)
        self.known = Cache(informers, self.clock)
        self.recorder = Recorder(self.client, component="test", clock=self.clock)
        self.executor = Executor(self.client, self.known, self.recorder, fail_point=self._fail_point)
        controllers = [maker(self.known) for maker in self.makers]
        self.drivers = [
            Driver(each, self.known, self.executor, Runtime(clock=self.clock, chance=chance, log=self._tell))
            for each in controllers
        ]
        self.beside(informers.run())
        for driver in self.drivers:
            self.beside(driver.run())

    def beside(self, work):
        task = asyncio.create_task(work)
        self.stack.push_async_callback(end, task)

    async def stop(self):
        await self.stack.aclose()

    def _fail_point(self, point):
        if self.dead.is_set():
            raise Crash("dead: nothing leaves any more")
        self.written += 1
        if self.written == self.crash_before:
            self.dead.set()
            raise Crash(f"dead before it could {point}")

    def _tell(self, event, **facts):
        if not str(facts["error"]).startswith("dead"):
            self.failures.append((event, facts))

    async def settle(self, seconds=SETTLED_S):
        """Lets time pass until everything that will happen has happened; a process that dies meanwhile begins anew."""
        until = self.clock.monotonic() + seconds
        while self.clock.monotonic() < until:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(until - self.clock.monotonic()):
                    await self.dead.wait()
            if self.dead.is_set():
                await self.stop()
                self.dead.clear()
                self.start()

    # ------------------------------------------------------------------------------------------------- objects

    async def make(self, struct, name, *, namespace="team", metadata=None, **fields):
        kind = table.by_struct(struct)
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name, **(metadata or {})}}
        where = namespace if kind.namespaced else ""
        made = (await self.client.create(struct, {**body, **fields}, namespace=where)).json()
        if "status" in fields and kind.has_status:
            made = await self.patch(struct, name, {"status": fields["status"]}, subresource="status", namespace=where)
        return made

    async def patch(self, struct, name, body, *, namespace="team", subresource="", json=False):
        where = namespace if table.by_struct(struct).namespaced else ""
        how = PatchType.JSON if json else PatchType.MERGE
        return (await self.client.patch(struct, name, body, namespace=where, subresource=subresource, how=how)).json()

    async def get(self, struct, name, *, namespace="team"):
        where = namespace if table.by_struct(struct).namespaced else ""
        try:
            return (await self.client.get(struct, name, namespace=where)).json()
        except errors.NotFound:
            return None

    async def remove(self, struct, name, *, namespace="team"):
        await self.client.delete(struct, name, namespace=namespace if table.by_struct(struct).namespaced else "")

    async def all(self, struct):
        return await self.client.list_json(table.by_struct(struct))

    async def names(self, struct):
        return sorted(each["metadata"]["name"] for each in await self.all(struct))

    async def events(self):
        """Reasons and messages of all events, in the order in which they were first recorded."""
        await self.recorder.write(everything=True)
        listed = sorted(await self.all(CoreEvent), key=lambda each: each["metadata"]["name"].rpartition(".")[2])
        return [(each["reason"], each["message"]) for each in listed]


async def outcome(stage, structs):
    """All objects of some kinds, without what differs between two runs that end alike."""
    found = {}
    for struct in structs:
        for each in await stage.all(struct):
            metadata = {key: value for key, value in each["metadata"].items() if key not in _OF_NO_ACCOUNT}
            found[struct.__name__, metadata["name"]] = {**each, "metadata": metadata}
    return found


def same_after_every_crash(stage, body, structs, forget=lambda found: found):
    """Runs `body(stage)` undisturbed, and once more for each of its writes with a death before it; all must end alike.

    `forget` takes away what a delay may change. Returns how many deaths there were.
    """

    async def story(stage):
        await body(stage)
        await stage.settle()
        return forget(await outcome(stage, structs))

    wanted = stage.run(story)
    writes = stage.written
    assert writes, "a story in which nothing is written cannot be cut"
    for number in range(1, writes + 1):
        assert number < CRASHES_MAX, "too many writes for such a story: do they end?"
        stage.crash_before = number
        assert stage.run(story) == wanted, f"after a death before write {number} of {writes}"
    stage.crash_before = None
    return writes

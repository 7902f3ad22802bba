"""The API server of a world: the embedded one, unchanged, over a journal in memory that outlives it.

What the journal has taken survives a restart; what the server had only in memory does not, and nobody was told of it.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
from typing import TYPE_CHECKING

from pumice.clock import VirtualClock
from pumice.kube.client import Client
from pumice.kube.errors import Unreachable
from pumice.local.apiserver.local import LocalTransport
from pumice.local.apiserver.server import Server, Settings
from pumice.local.apiserver.store import Broken, Store
from pumice.local.up import install_kinds

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from pumice.kube.transport import Request, Response
    from pumice.local.apiserver.history import Change
    from pumice.local.apiserver.request_parsing import Caller
    from pumice.local.apiserver.webhooks import Dispatch

SETTLE_S_MAX = 0.004  # how long the disk takes
VERSION_GAP = 100_000  # as after a real restart: a version that was given out and lost is not given out again
START = 1_767_225_600 * 10**9  # 2026-01-01T00:00:00Z
_OUTSIDE = contextvars.Context()  # the server belongs to no process of ours

Bodies = dict[tuple[str, str, str], bytes]


class Journal:
    """Takes the changes of a store, in groups, a moment later; `told` hears of each once it is safe."""

    def __init__(self, bodies: Bodies, chance: random.Random, told: Callable[[Change], None]) -> None:
        self.bodies = bodies
        self.version = 1
        self.is_full = False
        self._chance = chance
        self._told = told
        self._store: Store | None = None
        self._queue: list[Change] = []

    def open_store(self) -> Store:
        """What survived, in a new store."""
        self._queue = []
        self.version += VERSION_GAP
        store = self._store = Store(version=self.version, journal=self)
        for (collection, _, _), body in self.bodies.items():
            store.load(collection, body)
        return store

    def require_room(self) -> None:
        if self.is_full:
            raise Broken("journal: the disk is full; nothing more can be written")

    def append(self, change: Change) -> None:
        if not self._queue:
            delay = self._chance.uniform(0.0, SETTLE_S_MAX)
            asyncio.get_running_loop().call_later(delay, self._write, self._store, context=_OUTSIDE.copy())
        self._queue.append(change)

    def _write(self, store: Store | None) -> None:
        if store is None or store is not self._store:
            return  # of a server that has died meanwhile
        group, self._queue = self._queue, []
        for change in group:
            entry = change.after or change.before
            assert entry is not None
            key = (change.collection, entry.namespace, entry.name)
            if change.after is not None:
                self.bodies[key] = change.after.body
            else:
                self.bodies.pop(key, None)
            self.version = change.version
            self._told(change)
        store.settle(self.version)


class ApiServer:
    """Answers requests while it is up. `restart` is a crash: what was not in the journal is gone, and so are all watches."""

    def __init__(self, clock: VirtualClock, chance: random.Random, told: Callable[[Change], None]) -> None:
        self._clock = clock
        self._chance = chance
        self.journal = Journal(dict(furnished()), chance, told)
        self._server: Server | None = None
        self._under_way: dict[asyncio.Task[object], asyncio.Future[Response]] = {}
        self.on_crash: Callable[[], None] = lambda: None
        self.dispatch: Dispatch | None = None  # how webhooks are called

    async def start(self) -> None:
        settings = Settings(now=self._clock.now, chance=self._chance, dispatch=self.dispatch)
        self._server = await Server(settings, store=self.journal.open_store()).__aenter__()

    async def crash(self) -> None:
        server, self._server = self._server, None
        if server is None:
            return
        under_way, self._under_way = self._under_way, {}
        for task, reply in under_way.items():
            task.cancel()
            _refuse(reply, Unreachable("the server died before it answered"))
        self.on_crash()
        await server.__aexit__()

    @property
    def is_up(self) -> bool:
        return self._server is not None

    @property
    def store(self) -> Store:
        assert self._server is not None
        return self._server.backend.store

    def serve(self, request: Request, caller: Caller, after_s: float) -> asyncio.Future[Response]:
        """The answer, when it comes; the request is on its way whether or not anybody still waits for it."""
        loop = asyncio.get_running_loop()
        reply: asyncio.Future[Response] = loop.create_future()
        loop.call_later(after_s, self._arrive, request, caller, reply, context=_OUTSIDE.copy())
        return reply

    def _arrive(self, request: Request, caller: Caller, reply: asyncio.Future[Response]) -> None:
        if self._server is None:
            _refuse(reply, Unreachable("connection refused", acted=False))
            return
        task = asyncio.get_running_loop().create_task(self._serve(self._server, request, caller, reply))
        self._under_way[task] = reply
        task.add_done_callback(self._under_way.pop)

    async def _serve(self, server: Server, request: Request, caller: Caller, reply: asyncio.Future[Response]) -> None:
        response = await server.handle(request, caller)
        if not reply.done():
            reply.set_result(response)


def _refuse(reply: asyncio.Future[Response], why: Unreachable) -> None:
    if not reply.done():
        reply.set_exception(why)


@functools.cache
def furnished() -> Bodies:
    """What a server holds on which our kinds are installed, the same for all worlds."""
    import random

    clock, bodies = VirtualClock(START), Bodies()
    chance = random.Random(0)  # noqa: S311  as everywhere in a world

    async def install() -> None:
        journal = Journal(bodies, chance, lambda _: None)
        async with Server(Settings(now=clock.now, chance=chance), store=journal.open_store()) as server:
            await install_kinds(Client(LocalTransport(server), clock=clock, chance=chance))

    clock.run(install())
    return bodies

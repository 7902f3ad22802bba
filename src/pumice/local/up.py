"""A whole cluster in one process: the embedded API server, our kinds, the scheduler, the controllers, and nodes.

Everything inside talks to the server without a socket; all others use the kubeconfig that it writes.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.resources
import random
from typing import TYPE_CHECKING, Self

import msgspec

from pumice.api.scheduling import Queue
from pumice.clock import RealClock
from pumice.dispatch.memory_store import MemoryPlace
from pumice.flight.unrecorded import NOBODY, Unrecorded
from pumice.kube import errors
from pumice.kube.client import Client
from pumice.kube.informer import Informers
from pumice.kube.transport import Request
from pumice.local import viewer
from pumice.local.apiserver.admission import Hook
from pumice.local.apiserver.local import LocalTransport
from pumice.local.apiserver.server import Settings
from pumice.local.apiserver.serving import EmbeddedServer
from pumice.local.nodes.claims import FolderClaims
from pumice.local.nodes.lifecycle import NodeLifecycle
from pumice.local.nodes.ordinary import OrdinaryPods
from pumice.local.nodes.pretend import PretendAgent
from pumice.processes import lifecycle
from pumice.processes.controllers import DEFAULT_SETTINGS, Controllers, record_server
from pumice.processes.health import HealthServer
from pumice.processes.scheduler import Scheduler, Served
from pumice.processes.view_server import ViewServer
from pumice.readmodel.build import Views
from pumice.runtime import Runtime
from pumice.scheduling.core import builtin
from pumice.webhooks.lookups import InformerLookup
from pumice.webhooks.reviews import PATHS, Path, Reviewer

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable, Coroutine, Sequence
    from typing import Any

    from pumice.errors import PumiceError
    from pumice.kube.informer import News
    from pumice.local.apiserver.serving import Place
    from pumice.local.nodes.process.machine import ProcessSettings
    from pumice.local.nodes.registration import NodeFacts
    from pumice.processes.controller_settings import ControllerSettings
    from pumice.runtime import Log
    from pumice.scheduling.core.policy import Policy

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
READY_S_MAX = 60.0
MEMORY_PLACE = MemoryPlace("kube-system", "pumice-scheduler")


class Up:
    """`async with` starts the cluster and ends it; nothing of it is left behind but what `place` keeps."""

    def __init__(
        self,
        place: Place,
        nodes: Sequence[NodeFacts],
        *,
        log: Log,
        policy: Callable[[], Policy] | None = None,
        settings: ControllerSettings = DEFAULT_SETTINGS,
        flight: Unrecorded = NOBODY,
    ) -> None:
        self._reviewer: Reviewer | None = None
        hooks = [self._hook(path) for path in PATHS if path.operations]
        self._embedded = EmbeddedServer(place, Settings(hooks=hooks, definitions=kinds()))
        self._nodes = nodes
        self._runtime = Runtime(clock=RealClock(), chance=random.Random(), log=log)  # noqa: S311  jitter, not secrets
        self._policy = policy or _builtin()
        self._settings = settings
        self._flight = flight
        self._stack = contextlib.AsyncExitStack()
        self._informers: Informers
        self.client: Client
        self.scheduler: Scheduler
        self.controllers: Controllers
        self.port = 0  # of the scheduler's view, once it is there

    @property
    def kubeconfig(self) -> pathlib.Path:
        return self._embedded.kubeconfig

    @property
    def url(self) -> str:
        return self._embedded.url

    async def broken(self) -> PumiceError:
        """Returns when the journal can take nothing more: why, and what to do."""
        store = self._embedded.server.backend.store
        await store.broken.wait()
        assert store.failure is not None, "it is set first"
        return store.failure

    async def __aenter__(self) -> Self:
        async with self._stack:
            await self._start()
            self._stack = self._stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _start(self) -> None:
        await self._stack.enter_async_context(self._embedded)
        runtime, clock, chance = self._runtime, self._runtime.clock, self._runtime.chance
        self.client = Client(LocalTransport(self._embedded.server), clock=clock, chance=chance)
        informers = Informers(self.client, clock=clock, chance=chance, log=self._runtime.log)
        self._reviewer = Reviewer(InformerLookup(informers))
        self._run(informers.run())
        self.scheduler = Scheduler(
            self.client,
            informers,
            self._policy,
            runtime,
            Served(memory_place=MEMORY_PLACE, prices=self._settings.prices, flight=self._flight),
        )
        self.controllers = Controllers(self.client, informers, runtime, self._settings, self.scheduler.meters)
        self._stack.callback(self.controllers.close)
        await self._serve_view()
        self._run(self.scheduler.run())
        self._run(self.controllers.run())
        self._run(NodeLifecycle(self.client, informers, runtime).run())
        self._run(OrdinaryPods(self.client, informers, runtime).run())
        self._run(FolderClaims(self.client, informers, runtime).run())
        self._informers = informers
        async with asyncio.timeout(READY_S_MAX):
            await self.add_nodes(self._nodes)
            await informers.synced()
            await self._default_queue()

    async def _default_queue(self) -> None:
        """Returns when admission knows the default queue: the first Job of a new cluster would be refused before that."""
        queues, known = self._informers.of(Queue), asyncio.Event()

        def look(_: Sequence[News]) -> None:
            if queues.get("", Served().default_queue) is not None:
                known.set()

        leave = queues.subscribe(look)
        await known.wait()
        leave()

    async def _serve_view(self) -> None:
        """What the scheduler knows, for commands on this machine; the lease tells where, as a real scheduler's does."""
        view = ViewServer(Views(), self.client)
        self.scheduler.tell(view.publish)
        record = record_server(self.controllers, self.client, self._runtime, self._settings)
        health = HealthServer(self.scheduler.pulse, self.scheduler.meters, view=view, record=record)
        self.port = await health.start("127.0.0.1:0")
        self._stack.push_async_callback(health.stop)
        address = lifecycle.address("127.0.0.1:0", self.port)
        for path, manifest in viewer.manifests(address, has_record=record is not None):
            await self._replace(path, manifest)

    async def _replace(self, path: str, manifest: dict[str, Any]) -> None:
        """A data folder may have it from before, with another address."""
        content = {"content-type": "application/json"}
        with contextlib.suppress(errors.NotFound):
            await self.client.call(Request("DELETE", f"{path}/{manifest['metadata']['name']}"))
        await self.client.call(Request("POST", path, {}, content, msgspec.json.encode(manifest)))

    def _hook(self, path: Path) -> Hook:
        """Our admission rules, in process. They come with the informers; until then there is no other writer."""

        def review(request: dict[str, Any]) -> dict[str, Any]:
            if self._reviewer is None:
                return {"uid": request["uid"], "allowed": True}
            return self._reviewer.answer(path)(request)

        return Hook(path.path, frozenset({path.collection}), path.operations, path.mutates, review)

    async def add_nodes(self, nodes: Sequence[NodeFacts]) -> None:
        """More pretend nodes, registered when this returns."""
        agent = PretendAgent(self.client, self._informers, nodes, self._runtime)
        self._run(agent.run())
        await agent.ready.wait()

    async def add_process_node(self, settings: ProcessSettings) -> None:
        """A node that really runs the commands of its pods, on this machine; registered when this returns."""
        from pumice.local.nodes.process.agent import ProcessAgent  # few have one, and it needs many modules

        authority = (self.kubeconfig.parent / "ca.crt").read_bytes()
        settings = msgspec.structs.replace(settings, server=self.url, authority=authority)
        agent = ProcessAgent(self.client, self._informers, settings, self._runtime)
        running = self._run(agent.run())
        ready = asyncio.create_task(agent.ready.wait())
        await asyncio.wait({running, ready}, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if running.done():
            running.result()  # it could not start; its error says why

    def _run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._stack.push_async_callback(_end, task)
        return task


def _builtin() -> Callable[[], Policy]:
    chosen = builtin.parse(builtin.TEXT, "built-in policy")
    return lambda: chosen


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def kinds() -> list[bytes]:
    """Our CRDs: those of `pumice crds`, as JSON, which is read in less time."""
    return (importlib.resources.files("pumice.local") / "crds.jsonl").read_bytes().splitlines()


async def install_kinds(client: Client) -> None:
    """Our CRDs by the way that people take, where they are not there yet."""
    for body in kinds():
        with contextlib.suppress(errors.AlreadyExists):
            await client.call(Request("POST", CRDS, {}, {"content-type": "application/json"}, body))

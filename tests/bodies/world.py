"""A place for tests that run on the embedded server and on the real one alike: a client, a namespace, and patience.

Nothing here sleeps: who waits for a pod looks at it whenever the watch says that something changed.
"""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Callable
from typing import Any

from tests.bodies.patience import PATIENCE_S

from pumice.api.core import ConfigMap, Node
from pumice.api.pods import Pod
from pumice.kube import errors
from pumice.kube.client import Client
from pumice.kube.informer import Informers

Json = dict[str, Any]


class World:
    def __init__(self, client: Client, clock, namespace: str, informers: Informers, patience_s: float) -> None:
        self.patience_s = patience_s
        self.client = client
        self.clock = clock
        self.namespace = namespace
        self.informers = informers
        self.authority = b""  # PEM, and the server's address: for agents whose pods or whose API server need them
        self.server = ""
        self.kubeconfig = ""

    async def submit(self, name: str, node: str, **fields: Any) -> Json:
        """Creates a pod that is bound to a node already; `fields` are laid over metadata and spec by their names."""
        metadata = {"name": name, "labels": fields.pop("labels", {}), "annotations": fields.pop("annotations", {})}
        container = {"name": "main", "image": "none"} | fields.pop("container", {})
        spec = {"nodeName": node, "restartPolicy": "Never", "containers": [container]} | fields
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        return (await self.client.create(Pod, pod, namespace=self.namespace)).json()

    async def pod(self, name: str) -> Json | None:
        try:
            return (await self.client.get(Pod, name, namespace=self.namespace)).json()
        except errors.NotFound:
            return None

    async def until(self, name: str, test: Callable[[Json | None], Any]) -> Json:
        """The pod as soon as `test` holds for it (for None once it is gone)."""
        return await self._until(Pod, lambda: self.pod(name), test)

    async def phase(self, name: str, *phases: str) -> Json:
        """The pod's status once it is in one of the phases."""
        pod = await self.until(name, lambda pod: pod is not None and pod["status"].get("phase") in phases)
        return pod["status"]

    async def gone(self, name: str) -> None:
        await self.until(name, lambda pod: pod is None)

    async def node(self, name: str) -> Json:
        return (await self.client.get(Node, name)).json()

    async def node_until(self, name: str, test: Callable[[Json], Any]) -> Json:
        return await self._until(Node, lambda: self.node(name), test)

    async def _until(self, struct, look, test):
        changed = asyncio.Event()
        leave = self.informers.of(struct).subscribe(lambda _: changed.set())
        seen = None
        try:
            async with asyncio.timeout(self.patience_s) as patience:
                while True:
                    changed.clear()
                    seen = await look()
                    if test(seen):
                        return seen
                    await changed.wait()
                    patience.reschedule(asyncio.get_running_loop().time() + self.patience_s)
        except TimeoutError:
            raise AssertionError(f"it did not come about; last seen: {seen}") from None
        finally:
            leave()

    async def config(self, name: str, **data: str) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
        await self.client.create(ConfigMap, body, namespace=self.namespace)


@contextlib.asynccontextmanager
async def world(transport, clock, namespace: str, *, patience_s: float = PATIENCE_S) -> AsyncIterator[World]:
    """A world over any transport; its informers run as long as it is open."""
    chance = random.Random(0)
    client = Client(transport, clock=clock, chance=chance)
    informers = Informers(client, clock=clock, chance=chance)
    informers.of(Pod)
    running = asyncio.create_task(informers.run())
    try:
        yield World(client, clock, namespace, informers, patience_s)
    finally:
        running.cancel()
        await asyncio.wait({running})
        await client.close()


@contextlib.asynccontextmanager
async def running(agent) -> AsyncIterator[Any]:
    """An agent at work; what it died of fails the test."""
    task = asyncio.create_task(agent.run())
    try:
        ready = asyncio.create_task(agent.ready.wait())
        await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        yield agent
    finally:
        ready.cancel()
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            task.result()

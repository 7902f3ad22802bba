"""Webhooks at work on any API server that is reached over HTTP: the same bodies run on the embedded server and on the real one.

The process runs here, in the test; the server calls it over TLS. Who waits asks again until the answer is the one; nothing sleeps
for a fixed time.
"""

import asyncio
import contextlib
import dataclasses
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
from tests.bodies.beside import beside
from tests.bodies.patience import PATIENCE_S

from pumice.api import kinds, names
from pumice.api.core import Namespace, ServiceAccount
from pumice.clock import RealClock
from pumice.kube import errors
from pumice.kube.client import Client
from pumice.kube.informer import Informers
from pumice.kube.transport import Request, Response, Transport
from pumice.processes.controllers import Controllers
from pumice.processes.webhooks import Webhooks, WebhookSettings
from pumice.runtime import Runtime
from pumice.webhooks.ca_bundle import CONFIGURATIONS
from pumice.webhooks.registration import Registration

ASK_AGAIN_S = 0.02
HOME = "pumice-system"
CONTROLLERS = f"system:serviceaccount:{HOME}:pumice-controllers"

Json = dict[str, Any]


class Impersonating:
    """A transport through which everything is asked for as somebody else."""

    def __init__(self, inner: Transport, user: str, group: str = "") -> None:
        self._inner = inner
        self._headers = {"impersonate-user": user} | ({"impersonate-group": group} if group else {})

    async def call(self, request: Request) -> Response:
        headers = {**request.headers, **self._headers}
        return await self._inner.call(msgspec.structs.replace(request, headers=headers))

    async def close(self) -> None:
        """The inner one is somebody else's."""


def client_of(transport: Transport) -> Client:
    return Client(transport, clock=RealClock(), chance=random.Random(0))


async def until(look: Callable[[], Awaitable[Any]], what: str) -> Any:
    """What `look` says once that is true."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not (seen := await look()):  # noqa: ASYNC110  the answer comes from elsewhere
                await asyncio.sleep(ASK_AGAIN_S)
    except TimeoutError:
        raise AssertionError(f"in {PATIENCE_S:.0f} s it did not come about that {what}") from None
    return seen


async def namespace_for_pods(client: Client, name: str) -> None:
    """The namespace, whoever made it, with the account that a real server wants for pods."""

    async def has_account() -> bool:
        try:
            await client.get(ServiceAccount, "default", namespace=name)
        except errors.NotFound:
            return False
        return True

    with contextlib.suppress(errors.AlreadyExists):
        await client.create(Namespace, {"metadata": {"name": name}})
    await until(has_account, f"namespace {name} has its account")


@dataclasses.dataclass
class Hooked:
    """An API server that asks us."""

    transport: Transport
    client: Client
    webhooks: Webhooks
    informers: Informers
    registration: Registration

    def as_user(self, user: str, group: str = "") -> Client:
        return client_of(Impersonating(self.transport, user, group))

    async def knows(self, struct: type, name: str, namespace: str = "") -> Any:
        """The object, once reviews see it."""

        async def look():
            return self.informers.of(struct).get(namespace, name)

        return await until(look, f"{struct.__name__} {name} is known")


@contextlib.asynccontextmanager
async def running(client: Client, settings: WebhookSettings) -> AsyncIterator[tuple[Webhooks, Informers]]:
    """The process, serving."""
    clock, chance = RealClock(), random.Random(0)
    informers = Informers(client, clock=clock, chance=chance)
    webhooks = Webhooks(client, informers, settings, Runtime(clock=clock, chance=chance))

    async with beside(informers.run(), webhooks.run()) as tasks:

        async def ready() -> bool:
            for task in tasks:
                if task.done():
                    task.result()
            return webhooks.pulse.ready

        await until(ready, "the webhooks serve")
        yield webhooks, informers


@contextlib.asynccontextmanager
async def hooked(
    transport: Transport, settings: WebhookSettings, edit: Callable[[list[Json]], list[Json]] = lambda same: same
) -> AsyncIterator[Hooked]:
    """The process, serving, and the API server asking it; afterwards it asks nobody."""
    client = client_of(transport)
    with contextlib.suppress(errors.AlreadyExists):
        await client.create(Namespace, {"metadata": {"name": settings.namespace}})
    settings = msgspec.structs.replace(settings, bind="127.0.0.1:0", hosts=("127.0.0.1",), look_s=0.1)
    async with running(client, settings) as (webhooks, informers):
        registration = Registration(
            namespace=settings.namespace,
            configuration=settings.configuration,
            url=f"https://127.0.0.1:{webhooks.port}",
            scheduler_names=settings.rules.scheduler_names,
            access=settings.access,
            controllers=settings.controllers,
        )
        here = Hooked(transport, client, webhooks, informers, registration)
        try:
            for kind, manifest in zip(CONFIGURATIONS, edit(registration.manifests()), strict=True):
                await client.create(kind, manifest)
            await until(lambda: asks(client), "the API server asks")
            yield here
        finally:
            await unregister(client, settings.configuration)


@contextlib.asynccontextmanager
async def controlling(transport: Transport) -> AsyncIterator[None]:
    """The controllers, under the name that the webhook configurations know."""
    client = client_of(Impersonating(transport, CONTROLLERS, "system:masters"))
    clock, chance = RealClock(), random.Random(0)
    informers = Informers(client, clock=clock, chance=chance)
    controllers = Controllers(client, informers, Runtime(clock=clock, chance=chance))
    async with beside(informers.run(), controllers.run()):
        yield


async def unregister(client: Client, name: str) -> None:
    for kind in CONFIGURATIONS:
        with contextlib.suppress(errors.NotFound):
            await client.delete(kind, name)
    # Whoever comes next must not be asked about by a server that has not heard of it yet.
    await until(lambda: asks_nobody(client), "the API server asks nobody")


async def asks(client: Client) -> bool:
    return await _answers(client) == (True, True)


async def asks_nobody(client: Client) -> bool:
    return await _answers(client) == (False, False)


async def _answers(client: Client) -> tuple[bool, bool] | None:
    """Whether queues are mutated, and whether bad HyperNodes are refused; None while the server cannot reach us."""
    annotations = {names.HIERARCHY: "a/b", names.HIERARCHY_WEIGHTS: "1/1"}
    pattern = {"type": "Node", "selector": {"regexMatch": {"pattern": "("}}}
    queue = manifest(QUEUE, "canary", {}, annotations=annotations)
    try:
        made = (await client.create(QUEUE, queue, dry_run=True)).json()
    except errors.StatusError:
        return None
    try:
        await client.create(HYPER_NODE, manifest(HYPER_NODE, "canary", {"tier": 1, "members": [pattern]}), dry_run=True)
        is_refused = False
    except errors.Refused:
        is_refused = True
    except errors.StatusError:
        return None
    return made["metadata"]["annotations"][names.HIERARCHY].startswith("root/"), is_refused


QUEUE = kinds.by_kind("scheduling.volcano.sh/v1beta1", "Queue")
HYPER_NODE = kinds.by_kind("topology.volcano.sh/v1alpha1", "HyperNode")


def manifest(kind: kinds.Kind, name: str, spec: Json, **metadata: Any) -> Json:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name, **metadata}, "spec": spec}

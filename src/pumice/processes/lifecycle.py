"""How a process lives: connect, work until told to stop, then end the work first and what it stands on after it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import socket
from typing import TYPE_CHECKING, Any

import msgspec

from pumice import __version__
from pumice.api import names
from pumice.api.coordination import Lease
from pumice.api.kinds import type_meta
from pumice.kube import errors
from pumice.kube.client import Client
from pumice.kube.direct import DirectTransport
from pumice.kube.informer import Informers
from pumice.kube.lease import Election
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence

    from pumice.kube.connection import Connection
    from pumice.processes.health import HealthServer
    from pumice.runtime import Log, Runtime


class Process(Value):
    """A process that has a connection; with an election its work begins once it leads, and `runtime.guard` asks the lease."""

    client: Client
    informers: Informers
    runtime: Runtime
    election: Election | None = None
    notice: tuple[str, str] | None = None  # namespace and name of a lease that tells where to ask, without an election
    whose: str = names.VIEW_OF_SCHEDULER  # what the lease's label says of who can be asked there

    async def work(
        self,
        run: Callable[[], Coroutine[Any, Any, None]],
        health: HealthServer,
        listen: str,
        beside: Sequence[Callable[[], Coroutine[Any, Any, None]]],
    ) -> None:
        """Run until stopped, with informers and `beside`, and serve health on the address meanwhile."""
        port = await health.start(listen)
        self.runtime.log("listening", port=port)
        where = address(listen, port)
        if self.election is not None:
            self.election.annotations, self.election.labels = (
                {names.VIEW_ADDRESS: where},
                {names.VIEW_LABEL: self.whose},
            )
        elif self.notice is not None:
            await announce(self.client, self.notice, where, self.runtime.log, whose=self.whose)
        try:
            work = run() if self.election is None else self.election.lead(run)
            await until_stopped(work, [self.informers.run(), *(start() for start in beside)])
        finally:
            await health.stop()


@contextlib.asynccontextmanager
async def connect(
    connection: Connection,
    component: str,
    runtime: Runtime,
    lease: tuple[str, str] | None = None,
    *,
    notice: tuple[str, str] | None = None,
) -> AsyncIterator[Process]:
    """`lease`: namespace and name of the lease that decides which replica works; None: each of them, and `notice` tells where."""
    clock, chance, log = runtime.clock, runtime.chance, runtime.log
    whose = component.removeprefix("pumice-")
    async with DirectTransport(connection, user_agent=f"{component}/{__version__}") as transport:
        client = Client(transport, clock=clock, chance=chance)
        informers = Informers(client, clock=clock, chance=chance, log=log)
        if lease is None:
            yield Process(client, informers, runtime, notice=notice, whose=whose)
            return
        namespace, name = lease
        election = Election(
            client, namespace=namespace, name=name, identity=identity(), clock=clock, chance=chance, log=log
        )
        yield Process(client, informers, msgspec.structs.replace(runtime, guard=election.check), election, whose=whose)


async def announce(
    client: Client, notice: tuple[str, str], where: str, log: Log, *, whose: str = names.VIEW_OF_SCHEDULER
) -> None:
    """Say in a lease that nobody holds where this process can be asked; one that somebody holds is his, and stays as it is."""
    namespace, name = notice
    told = {"annotations": {names.VIEW_ADDRESS: where}, "labels": {names.VIEW_LABEL: whose}}
    try:
        try:
            found = (await client.get(Lease, name, namespace=namespace)).json()
        except errors.NotFound:
            lease = {**type_meta(Lease), "metadata": {"name": name, **told}, "spec": {"holderIdentity": ""}}
            await client.create(Lease, lease, namespace=namespace)
            return
        if (found.get("spec") or {}).get("holderIdentity"):
            log("view_not_announced", lease=f"{namespace}/{name}", reason="another process holds it")
            return
        meta = found["metadata"]
        for part, own in told.items():
            meta = meta | {part: (meta.get(part) or {}) | own}
        await client.update(Lease, name, found | {"metadata": meta}, namespace=namespace)
    except errors.KubeError as error:
        log("view_not_announced", lease=f"{namespace}/{name}", reason=str(error))  # the command line lists instead


def identity() -> str:
    """Who we are in a lease: no two processes are the same, whatever host and number they have."""
    return f"{socket.gethostname()}_{os.getpid()}_{secrets.token_hex(4)}"


def address(listen: str, port: int) -> str:
    """Where a process can be asked: through the API server if it is a pod and knows its name, else from its own machine."""
    namespace, pod = os.environ.get("KUBE_POD_NAMESPACE", ""), os.environ.get("KUBE_POD_NAME", "")
    if namespace and pod:
        return f"pods/{namespace}/{pod}:{port}"
    host = listen.rpartition(":")[0]
    return f"http://{host if host not in {'', '0.0.0.0', '[::]'} else '127.0.0.1'}:{port}"  # noqa: S104  compared


async def until_stopped(work: Coroutine[Any, Any, None], beside: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Run `work` with everything `beside` it until SIGTERM or SIGINT; an error of any of them ends all and is raised."""
    with stop_signals() as stop:
        standing = [asyncio.create_task(each) for each in beside]
        working = asyncio.create_task(work)
        stopping: asyncio.Task[Any] = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({working, stopping, *standing}, return_when=asyncio.FIRST_COMPLETED)
            for task in (working, *standing):
                if task.done():
                    task.result()
        finally:
            await _end([working])  # it may still need the rest: to release a lease, to finish a write
            await _end([*standing, stopping])


@contextlib.contextmanager
def stop_signals() -> Iterator[asyncio.Event]:
    """What SIGTERM and SIGINT set. Once told to stop, the process ends in its own time: more signals change nothing."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGTERM, signal.SIGINT)
    for number in numbers:
        loop.add_signal_handler(number, stop.set)
    try:
        yield stop
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
            if stop.is_set():
                signal.signal(number, signal.SIG_IGN)  # one that came while the loop closes would end in a traceback


async def _end(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

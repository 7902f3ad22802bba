"""`pumice scheduler`: the scheduler process."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from pumice import __version__
from pumice.clock import RealClock
from pumice.dispatch.rim import Rim
from pumice.errors import BadInput
from pumice.kube import config
from pumice.kube.client import Client
from pumice.kube.http import HttpTransport
from pumice.kube.informer import Informers
from pumice.kube.lease import Election
from pumice.processes.scheduler import Scheduler, Served
from pumice.scheduling import builtin
from pumice.telemetry import logs

if TYPE_CHECKING:
    from pumice.kube.connection import Connection
    from pumice.kube.informer import Log
    from pumice.scheduling.policy import Policy


@click.command()
@click.option(
    "--kubeconfig", default="", help="Kubeconfig file; without it $KUBECONFIG, ~/.kube/config or the pod's own account."
)
@click.option("--context", default="", help="Context of the kubeconfig.")
@click.option(
    "--policy", "policy_file", type=click.Path(dir_okay=False), help="Policy file; without it the built-in policy."
)
@click.option("--scheduler-name", "names", multiple=True, default=("volcano", "pumice"), show_default=True)
@click.option("--default-queue", default="default", show_default=True)
@click.option("--leader-elect/--no-leader-elect", default=True, show_default=True)
@click.option("--lease-namespace", default="kube-system", show_default=True)
@click.option("--lease-name", default="pumice-scheduler", show_default=True)
def scheduler(
    kubeconfig: str,
    context: str,
    policy_file: str | None,
    names: tuple[str, ...],
    default_queue: str,
    leader_elect: bool,  # noqa: FBT001  click passes it by name
    lease_namespace: str,
    lease_name: str,
) -> None:
    """Schedule gangs on a cluster until stopped."""
    clock = RealClock()
    connection = config.find(kubeconfig, clock=clock, context=context)
    chosen = _policy(policy_file)
    lease = (lease_namespace, lease_name) if leader_elect else None
    asyncio.run(_run(connection, chosen, frozenset(names), default_queue, lease))


def _policy(path: str | None) -> Policy:
    if path is None:
        return builtin.parse(builtin.TEXT, "built-in policy")
    try:
        return builtin.parse(Path(path).read_bytes(), path)
    except OSError as error:
        raise BadInput(f"policy {path}: cannot be read: {error.strerror}; check the name") from error


async def _run(
    connection: Connection, chosen: Policy, names: frozenset[str], default_queue: str, lease: tuple[str, str] | None
) -> None:
    clock, chance = RealClock(), random.Random()  # noqa: S311  jitter, not secrets
    log = cast("Log", logs.configure().info)
    async with HttpTransport(connection, user_agent=f"pumice-scheduler/{__version__}") as transport:
        client = Client(transport, clock=clock, chance=chance)
        informers = Informers(client, clock=clock, chance=chance, log=log)
        election = None
        if lease is not None:
            identity = f"{socket.gethostname()}_{os.getpid()}"
            election = Election(
                client, namespace=lease[0], name=lease[1], identity=identity, clock=clock, chance=chance, log=log
            )
        guard = election.check if election is not None else (lambda: None)
        rim = Rim(clock=clock, chance=chance, log=log, guard=guard)
        worker = Scheduler(client, informers, lambda: chosen, rim, Served(names, default_queue))
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        watching = asyncio.create_task(informers.run())
        working = asyncio.create_task(election.lead(worker.run) if election is not None else worker.run())
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({watching, working, stopping}, return_when=asyncio.FIRST_COMPLETED)
            for task in (watching, working):
                if task.done() and not task.cancelled():
                    task.result()
        finally:
            stopping.cancel()
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            watching.cancel()
            await asyncio.gather(watching, stopping, return_exceptions=True)

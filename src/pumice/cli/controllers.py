"""`pumice controllers`: the controllers' process."""

from __future__ import annotations

import asyncio
import dataclasses
import random
from typing import TYPE_CHECKING, cast

import click

from pumice import __version__
from pumice.clock import RealClock
from pumice.dispatch.rim import Rim
from pumice.kube import config
from pumice.kube.client import Client
from pumice.kube.http import HttpTransport
from pumice.kube.informer import Informers
from pumice.kube.lease import Election
from pumice.processes import life
from pumice.processes.controllers import Controllers
from pumice.processes.health import HealthServer
from pumice.processes.neighbours import VOLCANO_LEASES, VOLCANO_NAME, refuse_two_masters
from pumice.telemetry import logs

if TYPE_CHECKING:
    from pumice.kube.connection import Connection
    from pumice.kube.informer import Log


@click.command()
@click.option(
    "--kubeconfig", default="", help="Kubeconfig file; without it $KUBECONFIG, ~/.kube/config or the pod's own account."
)
@click.option("--context", default="", help="Context of the kubeconfig.")
@click.option("--leader-elect/--no-leader-elect", default=True, show_default=True)
@click.option("--lease-namespace", default="kube-system", show_default=True)
@click.option("--lease-name", default="pumice-controllers", show_default=True)
@click.option("--listen", default="127.0.0.1:8081", show_default=True, help="Address of /metrics, /livez and /readyz.")
def controllers(
    *, kubeconfig: str, context: str, leader_elect: bool, lease_namespace: str, lease_name: str, listen: str
) -> None:
    """Run Jobs and everything around them until stopped."""
    connection = config.find(kubeconfig, clock=RealClock(), context=context)
    lease = (lease_namespace, lease_name) if leader_elect else None
    asyncio.run(_run(connection, lease, listen, cast("Log", logs.configure().info)))


async def _run(connection: Connection, lease: tuple[str, str] | None, listen: str, log: Log) -> None:
    clock, chance = RealClock(), random.Random()  # noqa: S311  jitter, not secrets
    async with HttpTransport(connection, user_agent=f"pumice-controllers/{__version__}") as transport:
        client = Client(transport, clock=clock, chance=chance)
        await refuse_two_masters(client, frozenset({VOLCANO_NAME}), clock=clock, lease=VOLCANO_LEASES[1])
        informers = Informers(client, clock=clock, chance=chance, log=log)
        rim = Rim(clock=clock, chance=chance, log=log)
        election = None
        if lease is not None:
            namespace, name = lease
            election = Election(
                client, namespace=namespace, name=name, identity=life.identity(), clock=clock, chance=chance, log=log
            )
            rim = dataclasses.replace(rim, guard=election.check)
        worker = Controllers(client, informers, rim)
        health = HealthServer(worker.pulse, worker.meters, election=election)
        log("listening", port=await health.start(listen))
        work = election.lead(worker.run) if election is not None else worker.run()
        try:
            await life.until_stopped(work, [informers.run(), worker.beat()])
        finally:
            await health.stop()

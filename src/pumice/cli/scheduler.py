"""`pumice scheduler`: the scheduler process."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import TYPE_CHECKING, Any, cast

import click

from pumice.api import names
from pumice.api.scheduling import SCHEDULER_NAMES
from pumice.cli.flight_options import flight_option
from pumice.cli.numbers import Between
from pumice.cli.process_options import reaches_cluster
from pumice.cli.record_options import price_option, prices_of
from pumice.clock import RealClock
from pumice.dispatch.evictor import EvictionSettings
from pumice.dispatch.memory_store import MemoryPlace
from pumice.flight.recorder import LIMIT_MIB, FlightRecorder
from pumice.flight.unrecorded import NOBODY
from pumice.kube import config
from pumice.processes import lifecycle
from pumice.processes.entry_points import plugins_from_outside
from pumice.processes.failpoints import from_environment
from pumice.processes.health import HealthServer
from pumice.processes.policies import PolicyFile
from pumice.processes.queues import make_queues, read_queues
from pumice.processes.scheduler import Scheduler, Served
from pumice.processes.view_server import ViewServer
from pumice.processes.volcano_guard import VOLCANO_LEASES, refuse_two_masters
from pumice.readmodel.build import Views
from pumice.runtime import Runtime
from pumice.scheduling.core.cycle import GRACE_SECONDS
from pumice.telemetry import logs, traces

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.kube.connection import Connection
    from pumice.runtime import Log


@click.command()
@reaches_cluster
@click.option(
    "--policy", "policy_file", type=click.Path(dir_okay=False), help="Policy file; without it the built-in policy."
)
@click.option("--scheduler-name", "scheduler_names", multiple=True, default=SCHEDULER_NAMES, show_default=True)
@click.option("--default-queue", default="default", show_default=True)
@click.option(
    "--queues",
    "queue_file",
    type=click.Path(dir_okay=False),
    help="File with queues, name: spec, that are made where they are missing.",
)
@click.option("--leader-elect/--no-leader-elect", default=True, show_default=True)
@click.option("--lease-namespace", default="kube-system", show_default=True)
@click.option(
    "--listen", default="127.0.0.1:8080", show_default=True, help="Address of /metrics, /livez, /readyz and /v1."
)
@price_option
@click.option(
    "--volcano-metrics/--no-volcano-metrics", default=True, show_default=True, help="Export Volcano's metric names too."
)
@click.option("--lease-name", default=names.SCHEDULER_LEASE, show_default=True)
@click.option(
    "--gang-grace",
    "grace_s",
    type=click.IntRange(min=1),
    default=GRACE_SECONDS,
    show_default=True,
    help="Seconds after which a gang that is bound in part, because its commit was cut short, is released.",
)
@click.option(
    "--eviction-patience",
    "patience_s",
    type=Between(min=0),
    default=EvictionSettings().patience_s,
    show_default=True,
    help="Seconds for which a PodDisruptionBudget may refuse an eviction.",
)
@click.option(
    "--eviction-fallback",
    "fallback",
    type=click.Choice(["none", "delete"]),
    default="none",
    show_default=True,
    help="What becomes of a pod whose budget refuses for longer, or whose server knows no evictions: it stays, or is deleted.",
)
@flight_option
@click.option(
    "--flight-recorder-limit",
    "flight_mib",
    type=click.IntRange(min=1),
    default=LIMIT_MIB,
    show_default=True,
    metavar="MIB",
    help="Most MiB that both files of the flight recorder have together.",
)
def scheduler(
    kubeconfig: str,
    context: str,
    policy_file: str | None,
    scheduler_names: tuple[str, ...],
    default_queue: str,
    queue_file: str | None,
    leader_elect: bool,
    lease_namespace: str,
    lease_name: str,
    listen: str,
    prices: tuple[str, ...],
    volcano_metrics: bool,
    grace_s: int,
    patience_s: float,
    fallback: str,
    flight_file: str | None,
    flight_mib: int,
) -> None:
    """Schedule gangs on a cluster until stopped."""
    clock = RealClock()
    connection = config.find(kubeconfig, clock=clock, context=context)
    log = cast("Log", logs.configure().info)
    extra = plugins_from_outside()
    policies = PolicyFile(policy_file, extra=extra, log=log)
    flight = FlightRecorder(flight_file, limit_mib=flight_mib, extra_plugins=extra, log=log) if flight_file else NOBODY
    served = Served(
        scheduler_names=frozenset(scheduler_names),
        default_queue=default_queue,
        extra_plugins=extra,
        volcano_metrics=volcano_metrics,
        prices=prices_of(prices),
        grace_s=grace_s,
        memory_place=MemoryPlace(lease_namespace, lease_name),
        eviction_settings=EvictionSettings(patience_s, delete_then=fallback == "delete"),
        flight=flight,
    )
    queues = read_queues(queue_file) if queue_file else {}
    lease = (lease_namespace, lease_name) if leader_elect else None
    with contextlib.closing(traces.from_environment("pumice-scheduler", log)) as tracing:
        runtime = Runtime(clock=clock, chance=random.Random(), log=log, fail_point=from_environment(), tracing=tracing)  # noqa: S311  jitter, not secrets
        notice = (lease_namespace, lease_name)
        asyncio.run(
            _run(connection, policies, served, runtime, queues=queues, lease=lease, notice=notice, listen=listen)
        )


async def _run(
    connection: Connection,
    policies: PolicyFile,
    served: Served,
    runtime: Runtime,
    *,
    queues: Mapping[str, Any],
    lease: tuple[str, str] | None,
    notice: tuple[str, str],
    listen: str,
) -> None:
    clock = runtime.clock
    async with lifecycle.connect(connection, "pumice-scheduler", runtime, lease, notice=notice) as here:
        client = here.client
        await refuse_two_masters(client, served.scheduler_names, clock=clock, lease=VOLCANO_LEASES[0])
        worker = Scheduler(client, here.informers, lambda: policies.current, here.runtime, served)
        view = ViewServer(Views(), client, here.election)
        worker.tell(view.publish)
        health = HealthServer(worker.pulse, worker.meters, election=here.election, view=view)
        beside = [
            lambda: policies.run(clock, worker.policy_refused),
            worker.idle_pulse,
            lambda: make_queues(client, queues, clock=clock, log=runtime.log),
        ]
        await here.work(worker.run, health, listen, beside)

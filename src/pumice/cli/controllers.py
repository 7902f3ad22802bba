"""`pumice controllers`: the controllers' process."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any, cast

import click

from pumice import instant
from pumice.api import names as api_names
from pumice.api.scheduling import SCHEDULER_NAMES, VOLCANO
from pumice.cli.process_options import reaches_cluster
from pumice.cli.record_options import NONE, keeps_record, prices_of, record_settings
from pumice.clock import RealClock
from pumice.errors import BadInput
from pumice.kube import config
from pumice.processes import controller_settings, lifecycle
from pumice.processes.controller_settings import ControllerSettings
from pumice.processes.controllers import Controllers, record_server
from pumice.processes.health import HealthServer
from pumice.processes.volcano_guard import VOLCANO_LEASES, refuse_two_masters
from pumice.runtime import Runtime
from pumice.telemetry import logs

if TYPE_CHECKING:
    from pumice.instant import Duration
    from pumice.kube.connection import Connection
    from pumice.runtime import Log

_WORKERS = click.IntRange(1, controller_settings.WORKERS_MAX)
_THREADS = {  # option, and the controller whose workers it counts
    "worker_threads": "job",
    "worker_threads_for_podgroup": "podgroup",
    "worker_threads_for_queue": "queue",
    "worker_threads_for_cronjob": "cronjob",
    "worker_threads_for_gc": "garbage",
}


@click.command()
@reaches_cluster
@click.option("--leader-elect/--no-leader-elect", default=True, show_default=True)
@click.option("--lease-namespace", default="kube-system", show_default=True)
@click.option("--lease-name", default=api_names.CONTROLLERS_LEASE, show_default=True)
@click.option(
    "--listen",
    default="127.0.0.1:8081",
    show_default=True,
    help="Address of /metrics, /livez, /readyz and, with a record, /v1.",
)
@click.option(
    "--scheduler-name",
    "names",
    multiple=True,
    default=SCHEDULER_NAMES,
    show_default=True,
    help="Whose pods get a PodGroup where they name none.",
)
@click.option(
    "--inherit-owner-annotations/--no-inherit-owner-annotations",
    default=True,
    show_default=True,
    help="PodGroups take over the annotations of their pods' workloads.",
)
@click.option(
    "--controllers",
    "wanted",
    default="*",
    show_default=True,
    help=f"Which run: '*', NAME, -NAME, separated by commas. Names: {', '.join(controller_settings.NAMES)}.",
)
@click.option("--worker-threads", type=_WORKERS, help="Jobs that are looked at side by side.")
@click.option("--worker-threads-for-podgroup", type=_WORKERS, help="The same for PodGroups.")
@click.option("--worker-threads-for-queue", type=_WORKERS, help="The same for Queues.")
@click.option("--worker-threads-for-cronjob", type=_WORKERS, help="The same for CronJobs.")
@click.option("--worker-threads-for-gc", type=_WORKERS, help="The same for finished Jobs that are to go.")
@click.option(
    "--silent-node-grace",
    default="10m",
    show_default=True,
    help="How long pods that are to go wait for a node that says nothing, before they are removed by force; 0: for ever.",
)
@click.option(
    "--record",
    envvar="PUMICE_RECORD",
    default=NONE,
    show_default=True,
    metavar="URL",
    help="Where what happened is kept: sqlite:////PATH or postgresql://USER:PASSWORD@HOST/DATABASE; none: nowhere.",
)
@keeps_record
def controllers(
    *,
    kubeconfig: str,
    context: str,
    leader_elect: bool,
    lease_namespace: str,
    lease_name: str,
    listen: str,
    names: tuple[str, ...],
    inherit_owner_annotations: bool,
    wanted: str,
    silent_node_grace: str,
    record: str,
    prices: tuple[str, ...],
    **others: Any,
) -> None:
    """Run Jobs and everything around them until stopped."""
    settings = ControllerSettings(
        scheduler_names=frozenset(names),
        inherits_annotations=inherit_owner_annotations,
        enabled=controller_settings.enabled(wanted),
        record=record_settings(record, others, namespace=lease_namespace),
        workers={_THREADS[option]: number for option, number in others.items() if number is not None},
        silence=_grace(silent_node_grace),
        prices=prices_of(prices),
    )
    connection = config.find(kubeconfig, clock=RealClock(), context=context)
    lease = (lease_namespace, lease_name) if leader_elect else None
    notice = (lease_namespace, lease_name) if settings.record is not None else None
    asyncio.run(_run(connection, settings, lease, notice, listen, cast("Log", logs.configure().info)))


def _grace(text: str) -> Duration:
    try:
        grace = instant.parse_duration(text)
    except instant.DurationError as error:
        raise BadInput(f"--silent-node-grace {text!r}: {error}; give a duration such as 10m, or 0 for never") from error
    if grace < 0:
        raise BadInput(f"--silent-node-grace {text!r} is negative; give a duration such as 10m, or 0 for never")
    return grace


async def _run(
    connection: Connection,
    settings: ControllerSettings,
    lease: tuple[str, str] | None,
    notice: tuple[str, str] | None,
    listen: str,
    log: Log,
) -> None:
    runtime = Runtime(clock=RealClock(), chance=random.Random(), log=log)  # noqa: S311  jitter, not secrets
    async with lifecycle.connect(connection, "pumice-controllers", runtime, lease, notice=notice) as here:
        guarded = frozenset({VOLCANO})
        await refuse_two_masters(here.client, guarded, clock=runtime.clock, lease=VOLCANO_LEASES[1])
        worker = Controllers(here.client, here.informers, here.runtime, settings)
        record = record_server(worker, here.client, here.runtime, settings, here.election)
        health = HealthServer(worker.pulse, worker.meters, election=here.election, record=record)
        try:
            await here.work(worker.run, health, listen, [worker.pulse.keep_beating])
        finally:
            worker.close()

"""`pumice webhooks`: the admission webhooks' process, and the manifests that make an API server call it."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, cast

import click

from pumice import yamltext
from pumice.api.scheduling import SCHEDULER_NAMES
from pumice.api.validation import Settings as RuleSettings
from pumice.cli.process_options import reaches_cluster
from pumice.clock import RealClock
from pumice.kube import config
from pumice.processes import lifecycle
from pumice.processes.health import HealthServer
from pumice.processes.webhooks import Webhooks, WebhookSettings, read_resource_groups
from pumice.runtime import Runtime
from pumice.telemetry import logs
from pumice.webhooks import policies
from pumice.webhooks.registration import CONFIGURATION, AccessMode, Registration

if TYPE_CHECKING:
    from pumice.kube.connection import Connection
    from pumice.runtime import Log

CONTROLLERS = "pumice-controllers"  # the controllers' service account, in the same namespace

_namespace = click.option(
    "--namespace", envvar="KUBE_POD_NAMESPACE", default="pumice-system", show_default=True, help="Our own namespace."
)
_service = click.option("--service", default=CONFIGURATION, show_default=True, help="The Service that leads here.")
_configuration = click.option(
    "--configuration", default=CONFIGURATION, show_default=True, help="Name of both webhook configurations."
)
_names = click.option("--scheduler-name", "names", multiple=True, default=SCHEDULER_NAMES, show_default=True)
_access = click.option(
    "--queue-access",
    type=click.Choice([mode.value for mode in AccessMode]),
    default=AccessMode.OFF.value,
    show_default=True,
    help="Who may submit: everybody, or with a warning or a refusal only those with the verb `use` on the queue.",
)
_controllers = click.option(
    "--controller-user",
    "controllers",
    multiple=True,
    help=f"User that makes objects for submitters.  [default: the service account {CONTROLLERS} of --namespace]",
)
_admission_conf = click.option(
    "--admission-conf", type=click.Path(dir_okay=False), default="", help="File with resourceGroups for pods."
)


@click.group(invoke_without_command=True)
@click.pass_context
@reaches_cluster
@click.option("--bind", default="127.0.0.1:8443", show_default=True, help="Address of the reviews (HTTPS).")
@click.option("--listen", default="127.0.0.1:8082", show_default=True, help="Address of /metrics, /livez and /readyz.")
@_namespace
@_service
@click.option("--host", "hosts", multiple=True, help="Further name or address for our certificate.")
@click.option("--secret", default="pumice-webhooks-tls", show_default=True, help="The Secret that replicas share.")
@click.option(
    "--certificate-folder",
    type=click.Path(file_okay=False),
    default="",
    help="Serve with tls.crt and tls.key of this folder, which somebody else renews, instead of our own.",
)
@_configuration
@click.option("--inject-ca/--no-inject-ca", default=True, show_default=True, help="Write our CA into them.")
@_names
@_access
@_controllers
@_admission_conf
@click.option("--queue-gate/--no-queue-gate", default=False, show_default=True, help="Hold pods that ask for the gate.")
@click.option("--max-queue-depth", default=5, show_default=True, help="How deep the tree of queues may grow.")
@click.option(
    "--root-queue-protection/--no-root-queue-protection",
    default=True,
    show_default=True,
    help="Refuse to change the resources of the root queue.",
)
@click.option(
    "--allocated-pods-check/--no-allocated-pods-check",
    default=False,
    show_default=True,
    help="Refuse to delete queues in which pods run.",
)
def webhooks(
    ctx: click.Context,
    /,
    *,
    kubeconfig: str,
    context: str,
    listen: str,
    namespace: str,
    names: tuple[str, ...],
    queue_access: str,
    controllers: tuple[str, ...],
    inject_ca: bool,
    max_queue_depth: int,
    root_queue_protection: bool,
    allocated_pods_check: bool,
    **rest: object,
) -> None:
    """Review what is written to an API server until stopped."""
    if ctx.invoked_subcommand is not None:
        return
    settings = WebhookSettings(
        namespace=namespace,
        injects=inject_ca,
        rules=RuleSettings(
            scheduler_names=names,
            queue_depth_max=max_queue_depth,
            protect_root_queue=root_queue_protection,
            check_allocated_pods=allocated_pods_check,
        ),
        access=AccessMode(queue_access),
        controllers=_users(controllers, namespace),
        **rest,  # type: ignore[arg-type]  # the flags that are named as the settings are
    )
    connection = config.find(kubeconfig, clock=RealClock(), context=context)
    asyncio.run(_run(connection, settings, listen, cast("Log", logs.configure().info)))


def _users(given: tuple[str, ...], namespace: str) -> tuple[str, ...]:
    return given or (f"system:serviceaccount:{namespace}:{CONTROLLERS}",)


async def _run(connection: Connection, settings: WebhookSettings, listen: str, log: Log) -> None:
    runtime = Runtime(clock=RealClock(), chance=random.Random(), log=log)  # noqa: S311  jitter, not secrets
    async with lifecycle.connect(connection, "pumice-webhooks", runtime) as here:
        worker = Webhooks(here.client, here.informers, settings, runtime)
        await here.work(worker.run, HealthServer(worker.pulse, worker.meters), listen, [worker.pulse.keep_beating])


@webhooks.command("manifests")
@click.option(
    "--mode",
    type=click.Choice(["webhooks", "policies"]),
    default="webhooks",
    show_default=True,
    help="Webhook configurations, or the admission policies that stand in for them.",
)
@_namespace
@_service
@_configuration
@click.option("--url", default="", help="Call https://host:port instead of the Service.")
@_names
@_access
@_controllers
@_admission_conf
def manifests(
    *,
    mode: str,
    namespace: str,
    service: str,
    configuration: str,
    url: str,
    names: tuple[str, ...],
    queue_access: str,
    controllers: tuple[str, ...],
    admission_conf: str,
) -> None:
    """Print what makes an API server ask us, for kubectl apply."""
    registration = Registration(
        namespace=namespace,
        service=service,
        configuration=configuration,
        url=url,
        scheduler_names=names,
        access=AccessMode(queue_access),
        controllers=_users(controllers, namespace),
        groups=read_resource_groups(admission_conf) if admission_conf else (),
    )
    documents = registration.manifests() if mode == "webhooks" else policies.manifests(registration)
    click.echo("".join(f"---\n{yamltext.dump(each)}" for each in documents), nl=False)

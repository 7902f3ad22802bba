"""`pumice dashboard`: the pages, for any cluster that a kubeconfig or the pod's own account reaches."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click
import msgspec

from pumice.cli.process_options import reaches_cluster
from pumice.errors import BadInput
from pumice.runtime import silent

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from pumice.cli.cluster_command import ClusterAccess
    from pumice.dashboard.people import Authentication
    from pumice.dashboard.server import Dashboard, Settings
    from pumice.kube.connection import Connection
    from pumice.runtime import Log

LINK, TOKEN = "link", "token"


@click.command()
@reaches_cluster
@click.option("-n", "--namespace", default="", help="Whose viewer account is asked for a token first.")
@click.option("--listen", default="127.0.0.1:8090", show_default=True, help="Address of the pages.")
@click.option(
    "--auth",
    type=click.Choice([LINK, TOKEN]),
    help="link: whoever has the printed one-time link looks with the rights of the kubeconfig; token: everybody shows a token of their "
    "own. Without it link on this machine's own address, else token.",
)
@click.option(
    "--host", "hosts", multiple=True, metavar="NAME", help="A name under which browsers come here; may be repeated."
)
@click.option(
    "--writes",
    is_flag=True,
    help="Let people suspend, resume, delete and rank Jobs and open and close queues, each with their own rights. Without it pages only show.",
)
@click.option("--title", default="", help="What the cluster is called on the pages; else the context's name.")
@click.option("--link-file", type=click.Path(dir_okay=False), help="Write the one-time link here as well.")
@click.option("--no-browser", is_flag=True, help="Open no browser.")
def dashboard(
    kubeconfig: str,
    context: str,
    namespace: str,
    listen: str,
    auth: str | None,
    hosts: tuple[str, ...],
    writes: bool,
    title: str,
    link_file: str | None,
    no_browser: bool,
) -> None:
    """Serve pages that show queues, gangs, nodes and reasons, until stopped."""
    from pumice.dashboard.server import Settings, is_local
    from pumice.kube.listener import host_and_port

    host_and_port(listen)
    auth = auth or (LINK if is_local(listen) else TOKEN)
    if auth == LINK and not is_local(listen):
        raise BadInput(
            f"--auth link with --listen {listen}: a link is for one person on this machine; listen on 127.0.0.1, or take --auth token"
        )
    if not is_local(listen) and not hosts:
        raise BadInput(f"--listen {listen}: name the host under which browsers come, such as --host pumice.example.org")
    settings = Settings(listen=listen, hosts=hosts, title=title or context, writes=writes)
    asyncio.run(_run(kubeconfig, context, namespace, settings, auth, link_file, opens=not no_browser))


async def _run(
    kubeconfig: str,
    context: str,
    namespace: str,
    settings: Settings,
    auth: str,
    link_file: str | None,
    *,
    opens: bool,
) -> None:
    from pumice import __version__
    from pumice.cli.cluster_command import ClusterAccess
    from pumice.clock import RealClock
    from pumice.dashboard.people import LinkAuthentication, TokenAuthentication
    from pumice.kube import config
    from pumice.kube.client import Client
    from pumice.kube.http import HttpTransport
    from pumice.processes import lifecycle
    from pumice.telemetry import logs

    clock = RealClock()
    connection = config.find(kubeconfig, clock=clock, context=context)
    agent = f"pumice-dashboard/{__version__}"
    async with (
        HttpTransport(connection, user_agent=agent) as transport,
        HttpTransport(bare(connection), user_agent=agent) as without_us,
    ):
        client = Client(transport, clock=clock, chance=random.Random())  # noqa: S311  jitter, not secrets
        access = ClusterAccess(client, connection, clock, namespace or connection.namespace)
        with lifecycle.stop_signals() as stop:
            links = Links(link_file, opens=opens and auth == LINK)
            authentication: Authentication = (
                LinkAuthentication(client, clock, name=context or "you", tell=links.tell)
                if auth == LINK
                else TokenAuthentication(client, clock, without_us)
            )
            log = cast("Log", logs.configure().info)
            async with serving(access, authentication, settings, log=log) as served:
                links.port = served.port
                click.echo(f"dashboard ready at http://{_shown(settings.listen, served.port)}")
                if isinstance(authentication, LinkAuthentication):
                    authentication.renew()
                telling = asyncio.create_task(_tell_problems(served))
                await stop.wait()
                telling.cancel()
    click.echo("dashboard ended")


async def _tell_problems(served: Dashboard) -> None:
    """Who started it sees on the terminal why its pages are empty."""
    async for problem in served.problems():
        click.echo(f"the scheduler cannot be asked: {problem}" if problem else "the scheduler answers again", err=True)


@contextlib.asynccontextmanager
async def serving(
    access: ClusterAccess, authentication: Authentication, settings: Settings, *, log: Log = silent
) -> AsyncIterator[Dashboard]:
    """The pages, for as long as the block lasts; `log` is told of what people do."""
    from pumice.cli.leader import CONTROLLERS, Leader
    from pumice.dashboard.server import Dashboard
    from pumice.dashboard.source import Source

    leader, controllers = Leader(access), Leader(access, CONTROLLERS)
    source = Source(leader, access.clock)
    served = Dashboard(
        source, leader, controllers, access.client, authentication, clock=access.clock, settings=settings, log=log
    )
    await served.start()
    following = asyncio.create_task(source.run())
    try:
        yield served
    finally:
        following.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await following
        await served.stop()


def bare(connection: Connection) -> Connection:
    """The same server without our credentials: no token, no certificate, no impersonation."""
    from pumice.kube.credentials import Anonymous

    return msgspec.structs.replace(connection, credentials=Anonymous(), headers=())


class Links:
    """Tells one-time links: on the terminal, in a file, and the first one to the browser."""

    def __init__(self, file: str | Path | None, *, opens: bool) -> None:
        self._file = Path(file) if file is not None else None
        if self._file is not None and self._file.exists() and not self._file.is_file():
            raise BadInput(f"--link-file {file}: not a regular file; name another, which is made anew for each link")
        self._opens = opens
        self._told = False
        self.port = 0

    def tell(self, secret: str) -> None:
        link = f"http://127.0.0.1:{self.port}/sign-in#token={secret}"
        if self._file is not None:
            self._file.unlink(missing_ok=True)  # whoever had it open reads no further
            descriptor = os.open(self._file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                file.write(f"{link}\n")
        click.echo(f"{'look    ' if not self._told else 'next    '} {link}")
        if self._opens and not self._told:
            open_browser(link)
        self._told = True


def open_browser(link: str) -> None:
    """Where there is a screen, and somebody at it."""
    import sys
    import webbrowser

    if sys.stdout.isatty() and (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        with contextlib.suppress(webbrowser.Error):
            webbrowser.open(link)


def _shown(listen: str, port: int) -> str:
    return f"{listen.rpartition(':')[0] or '0.0.0.0'}:{port}"  # noqa: S104  as it was asked for

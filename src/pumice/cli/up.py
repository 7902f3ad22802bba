"""`pumice up`, `down` and `status`: a gang-scheduling cluster on this machine, in seconds."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
import socket
import sys
import tempfile
import time
import urllib.parse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from pumice.cli.disk_errors import naming
from pumice.cli.entry import import_beside, importing
from pumice.cli.flight_options import flight_option
from pumice.cli.gpu_options import AUTO, Count, check_shared, find, shared_option
from pumice.cli.record_options import keeps_record, prices_of, record_settings
from pumice.cli.results import output_option
from pumice.digits import counted
from pumice.errors import BadInput, Conflict, NotFound, PumiceError
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from structlog.typing import FilteringBoundLogger

    from pumice.flight.unrecorded import Unrecorded
    from pumice.local.nodes.process.machine import ProcessSettings
    from pumice.local.nodes.registration import NodeFacts
    from pumice.local.up import Up
    from pumice.record.settings import RecordSettings
    from pumice.runtime import Log

DOWN_S_MAX = 15.0
NODES_MAX = 100_000
NODES = 4
PORT_MAX = 65_535
# Told without --verbose, too: what a flag asked for is not being kept.
_TOLD = frozenset({"flight_recorder_stopped", "record_delayed", "record_failed", "record_refused"})


class Running(msgspec.Struct, frozen=True):
    """An embedded cluster that runs on this machine, as its process recorded it."""

    pid: int
    started: str  # of its process, so that another process of the same number is not mistaken for it
    url: str
    kubeconfig: str
    nodes: int


class WantedNodes(Value):
    """The nodes that the command line asks for: pretend ones, and this machine where its GPUs are to be found."""

    pretend: int
    gpus: int | str
    shared: int | str

    @property
    def count(self) -> int:
        return self.pretend + (self.gpus == AUTO)

    def __str__(self) -> str:
        if self.gpus != AUTO:
            if not self.pretend:
                return "no nodes yet"
            each = " each" if self.pretend != 1 else ""
            return f"{counted(self.pretend, 'node')} with {counted(int(self.gpus), 'GPU')}{each}"
        return "this machine with its GPUs" + (f" and {counted(self.pretend, 'pretend node')}" if self.pretend else "")

    def pretend_nodes(self) -> Sequence[NodeFacts]:
        from pumice.local.nodes.pretend import pretend_nodes

        return pretend_nodes(self.pretend, gpus=0 if isinstance(self.gpus, str) else self.gpus)

    def machine(self, folder: Path, log: Log) -> ProcessSettings | None:
        """The node that this machine is; None where its GPUs are not asked for."""
        if self.gpus != AUTO:
            return None
        from pumice.local.nodes.process.machine import ProcessSettings

        nvml, gpus = find(self.shared, log)
        return ProcessSettings(name=socket.gethostname().lower(), folder=folder / "node", gpus=gpus, nvml=nvml)


@click.command()
@click.option(
    "--nodes", type=click.IntRange(0, NODES_MAX), default=None, help="Pretend nodes; 4, or none with --gpus auto."
)
@click.option(
    "--gpus",
    type=Count(AUTO),
    default=8,
    show_default=True,
    help="GPUs of each pretend node; auto: one node that is this machine, with its NVIDIA GPUs.",
)
@shared_option
@click.option(
    "--policy", "policy_file", type=click.Path(dir_okay=False), help="Policy file; without it the built-in policy."
)
@click.option(
    "--port",
    type=click.IntRange(0, PORT_MAX),
    default=0,
    help="Port of the API server; 0 takes a free one, and with --data-dir the one of before.",
)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False),
    help="Keep everything here, for the next start; without it in memory.",
)
@click.option(
    "--record",
    default="",
    metavar="URL",
    help="Where what happened is kept, instead of beside the data: sqlite:///PATH, postgresql://..., or none.",
)
@keeps_record
@flight_option
@click.option("--kubeconfig-out", type=click.Path(dir_okay=False), help="Write the kubeconfig here as well.")
@click.option("--no-dashboard", is_flag=True, help="Serve no dashboard.")
@click.option(
    "--writes", is_flag=True, help="Whoever has the dashboard's link may act there as well: suspend, delete, close, ..."
)
@click.option("--no-browser", is_flag=True, help="Open no browser.")
@click.option("--verbose", "-v", is_flag=True, help="Log what the parts do.")
def up(
    nodes: int | None,
    gpus: int | str,
    shared_gpus: int | str,
    policy_file: str | None,
    port: int,
    data_dir: str | None,
    flight_file: str | None,
    kubeconfig_out: str | None,
    no_dashboard: bool,
    writes: bool,
    no_browser: bool,
    verbose: bool,
    record: str,
    prices: tuple[str, ...],
    **kept_options: Any,
) -> None:
    """Start a cluster: API server, scheduler and nodes in one process, until Ctrl-C."""
    _check_target(kubeconfig_out)
    check_shared(gpus, shared_gpus)
    wanted = WantedNodes(NODES if nodes is None and gpus != AUTO else nodes or 0, gpus, shared_gpus)
    with contextlib.ExitStack() as stack:
        folder = (
            Path(data_dir).absolute()
            if data_dir
            else Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pumice-up-")))
        )
        kept = data_dir is not None
        port = port or (_former_port(folder) if kept else 0)
        place = record or f"sqlite:///{folder / 'record.db'}"
        found = record_settings(place, kept_options, adopts=True), prices_of(prices)
        stack.enter_context(naming(folder))
        asyncio.run(
            _run(
                folder,
                wanted,
                port,
                policy=policy_file,
                durable=kept,
                out=kubeconfig_out,
                flight_file=flight_file,
                verbose=verbose,
                record=found,
                pages=None if no_dashboard else Pages(opens=not no_browser, writes=writes),
            )
        )


async def _run(
    folder: Path,
    wanted: WantedNodes,
    port: int,
    *,
    policy: str | None,
    durable: bool,
    out: str | None,
    flight_file: str | None,
    verbose: bool,
    record: tuple[RecordSettings | None, dict[str, float]],
    pages: Pages | None,
) -> None:
    # Said inside the loop: before it runs, Ctrl-C would break it in the making.
    click.echo(f"starting a cluster of {wanted}{f' in {folder}' if durable else ''} ...")
    sys.stdout.flush()
    with importing():
        import_beside("aiohttp")  # half of its time OpenSSL reads the system's certificates
        from pumice.cli import progress
        from pumice.local.apiserver.serving import Place
        from pumice.local.nodes.process.leftovers import start_time
        from pumice.local.up import Up
        from pumice.processes import lifecycle
        from pumice.processes.controller_settings import ControllerSettings
        from pumice.processes.policies import PolicyFile

    log = _log if verbose else _log_what_is_not_kept
    began = time.perf_counter()
    machine = wanted.machine(folder, log)
    chosen = PolicyFile(policy, extra={}, log=log).current
    place = Place(folder, port=port, durable=durable)
    settings = ControllerSettings(record=record[0], prices=record[1])
    async with contextlib.AsyncExitStack() as stack:
        stop = stack.enter_context(lifecycle.stop_signals())
        with progress.show(f"starting a cluster of {wanted}"):
            made = Up(
                place,
                wanted.pretend_nodes(),
                log=log,
                policy=lambda: chosen,
                settings=settings,
                flight=_flight(flight_file, log),
            )
            cluster = await stack.enter_async_context(made)
            if machine is not None:
                await cluster.add_process_node(machine)
        took = time.perf_counter() - began
        if out:
            with naming(out):
                _copy_kubeconfig(cluster.kubeconfig, Path(out))
        with _record_running(
            Running(os.getpid(), str(start_time(os.getpid())), cluster.url, str(cluster.kubeconfig), wanted.count)
        ):
            click.echo(f"cluster ready after {took:.1f} s: {wanted}, {cluster.url}")
            click.echo(f"files    {folder}{'' if durable else ' (gone when it ends)'}")
            click.echo(f"use it   export KUBECONFIG={out or cluster.kubeconfig}")
            click.echo("         kubectl get nodes,queues")
            if pages is not None:
                await stack.enter_async_context(_serving(cluster, folder, pages))
            click.echo("end it   Ctrl-C, or `pumice down`")
            sys.stdout.flush()
            broken = await _until_stopped(stop, cluster)
    click.echo("cluster ended")
    if broken is not None:
        raise broken


def _flight(file: str | None, log: Log) -> Unrecorded:
    from pumice.flight.unrecorded import NOBODY

    if not file:
        return NOBODY
    from pumice.flight.recorder import FlightRecorder

    return FlightRecorder(file, extra_plugins={}, log=log)


def _log(event: str, /, **facts: object) -> None:
    _logger().info(event, **facts)


def _log_what_is_not_kept(event: str, /, **facts: object) -> None:
    if event in _TOLD:
        _log(event, **facts)


@functools.cache
def _logger() -> FilteringBoundLogger:
    """Set up with its first line: most clusters never write one, and what makes logs readable takes long to import."""
    from pumice.telemetry import logs

    return logs.configure(as_json=False)


async def _until_stopped(stop: asyncio.Event, cluster: Up) -> PumiceError | None:
    """Goes on when the journal breaks: what pods run, runs on; only nothing is taken any more, and the terminal says so."""
    stopped, breaking = asyncio.create_task(stop.wait()), asyncio.create_task(cluster.broken())
    try:
        await asyncio.wait({stopped, breaking}, return_when=asyncio.FIRST_COMPLETED)
        if breaking.done():
            click.echo(f"pumice: {breaking.result()}", err=True)
        await stopped
        return breaking.result() if breaking.done() else None
    finally:
        stopped.cancel()
        breaking.cancel()


class Pages(Value):
    """How the dashboard is served: whether a browser is opened, and whether people may act there."""

    opens: bool
    writes: bool


@contextlib.asynccontextmanager
async def _serving(cluster: Up, folder: Path, pages: Pages) -> AsyncIterator[None]:
    """The dashboard, for whoever has the one-time link: on the terminal, or in the file `dashboard` beside the kubeconfig."""
    with importing():
        from pumice.cli import dashboard
        from pumice.cli.cluster_command import ClusterAccess
        from pumice.clock import RealClock
        from pumice.dashboard.people import LinkAuthentication
        from pumice.dashboard.server import Settings
        from pumice.kube import config

    clock = RealClock()
    access = ClusterAccess(cluster.client, config.find(str(cluster.kubeconfig), clock=clock), clock, "kube-system")
    links = dashboard.Links(folder / "dashboard", opens=pages.opens)
    authentication = LinkAuthentication(cluster.client, clock, name="you", tell=links.tell)
    settings = Settings(title="on this machine", writes=pages.writes)
    # What people do and what breaks is told in any case.
    async with dashboard.serving(access, authentication, settings, log=_log) as served:
        links.port = served.port
        authentication.renew()
        yield


def _check_target(path: str | None) -> None:
    """Refuses what cannot be written, before anything is started."""
    if path is not None and not Path(path).absolute().parent.is_dir():
        raise BadInput(f"--kubeconfig-out {path}: its folder does not exist; make it first, or name another file")


def _former_port(folder: Path) -> int:
    """The port that the cluster in this folder had when it last ran, which other people's kubeconfigs name; 0 where none is known."""
    from pumice import yamltext

    try:
        [document] = yamltext.load_all((folder / "kubeconfig").read_bytes(), source="kubeconfig")
        return urllib.parse.urlsplit(document["clusters"][0]["cluster"]["server"]).port or 0
    except (OSError, PumiceError, KeyError, IndexError, TypeError, ValueError):
        return 0


def _copy_kubeconfig(source: Path, target: Path) -> None:
    """The kubeconfig with its keys inside, so that it works from anywhere."""
    import base64

    from pumice.local.apiserver.serving import write_kubeconfig

    document = msgspec.json.decode(source.read_bytes())  # as the server has just written it
    for part in (document["clusters"][0]["cluster"], document["users"][0]["user"]):
        for key in ("certificate-authority", "client-certificate", "client-key"):
            if key in part:
                part[f"{key}-data"] = base64.b64encode((source.parent / part.pop(key)).read_bytes()).decode()
    write_kubeconfig(target, document)


@click.command()
@click.option("--pid", type=int, help="The one to end; without it the only one that runs.")
def down(pid: int | None) -> None:
    """End a cluster that `pumice up` started."""
    running = {each.pid: each for each in _running()}
    if not running:
        raise NotFound("no embedded cluster runs here; start one with `pumice up`")
    if pid is None and len(running) > 1:
        listed = ", ".join(str(number) for number in sorted(running))
        raise BadInput(f"several clusters run here ({listed}); name one with --pid")
    chosen = running.get(pid) if pid is not None else next(iter(running.values()))
    if chosen is None:
        raise NotFound(f"no embedded cluster runs as process {pid}; `pumice status` lists them")
    os.kill(chosen.pid, signal.SIGTERM)
    deadline = time.monotonic() + DOWN_S_MAX
    while _is_alive(chosen):
        if time.monotonic() > deadline:
            raise Conflict(f"cluster {chosen.pid} did not end within {DOWN_S_MAX:.0f} s; look at its terminal")
        time.sleep(0.05)
    click.echo(f"cluster {chosen.pid} ended")


@click.command()
@output_option
def status(output: str) -> None:
    """List the clusters that run on this machine."""
    from pumice.cli import printing

    running = list(_running())
    if output != "table":
        printing.echo_data({"clusters": running}, output)
        return
    if not running:
        click.echo("no embedded cluster runs here; start one with `pumice up`", err=True)
        return
    rows = [(str(each.pid), str(each.nodes), each.url, each.kubeconfig) for each in running]
    click.echo(printing.align([("PID", "NODES", "URL", "KUBECONFIG"), *rows]), nl=False)


# ------------------------------------------------------------------------------------------------ who runs here


def _registry() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "pumice" / "up"


@contextlib.contextmanager
def _record_running(running: Running) -> Iterator[None]:
    note = _registry() / f"{running.pid}.json"
    try:
        note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        note.write_bytes(msgspec.json.encode(running))
    except OSError as error:  # a home that is read-only, or none: the cluster does not need it
        why = f"{error.filename or note}: {error.strerror}"
        step = "`pumice status` and `pumice down` will not find this cluster: end it with Ctrl-C"
        click.echo(f"Warning: {why}; {step}", err=True)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            note.unlink(missing_ok=True)


def _running() -> Iterator[Running]:
    """Clusters that are alive; notes of dead ones are swept away."""
    folder = _registry()
    for note in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        try:
            running = msgspec.json.decode(note.read_bytes(), type=Running)
        except (OSError, msgspec.MsgspecError):
            continue
        if _is_alive(running):
            yield running
        else:
            note.unlink(missing_ok=True)


def _is_alive(running: Running) -> bool:
    from pumice.local.nodes.process.leftovers import start_time

    return str(start_time(running.pid)) == running.started

"""`pumice node`: nodes for any API server, made of this machine (--process) or of nothing at all (--pretend)."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click
import msgspec

from pumice import quantity
from pumice.cli.gpu_options import AUTO, Count, check_shared, find, shared_option
from pumice.cli.numbers import Between
from pumice.errors import BadInput
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pumice.kube.connection import Connection
    from pumice.local.nodes.pretend import PretendAgent
    from pumice.local.nodes.process.agent import ProcessAgent
    from pumice.processes.lifecycle import Process
    from pumice.runtime import Log

NODES_MAX = 100_000  # that one command pretends to have
PREFIX = "pretend-"  # other than that of `pumice up`, whose nodes are node-0 and so on
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


class NodeOptions(Value, kw_only=True):
    """What the command line says."""

    name: str
    gpus: int | str
    shared_gpus: int | str
    capacity: dict[str, str]
    labels: dict[str, str]
    taints: list[dict[str, str]]
    lease_s: int
    pretend: int | None
    seed: int | None
    start: str
    run: str
    stop: str
    failure_rate: float
    data_dir: str | None
    claims_dir: str | None
    host_roots: tuple[str, ...]


@click.command()
@click.option("-k", "--kubeconfig", default="", help="Kubeconfig file; without it $KUBECONFIG or ~/.kube/config.")
@click.option("--context", default="", help="Context of the kubeconfig.")
@click.option(
    "--name", default="", help="Name of the node; for pretend nodes what comes before their numbers (pretend-)."
)
@click.option("--process", is_flag=True, help="One node that runs pods as processes of this machine (the default).")
@click.option(
    "--pretend", type=click.IntRange(1, NODES_MAX), metavar="COUNT", help="COUNT nodes that only pretend to run pods."
)
@click.option(
    "--gpus",
    type=Count(AUTO),
    default=0,
    show_default=True,
    help="GPUs of each node, all fake; auto: the NVIDIA GPUs of this machine.",
)
@shared_option
@click.option("--capacity", multiple=True, metavar="NAME=QUANTITY", help="What each node has, such as cpu=64.")
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="A label of each node.")
@click.option("--taint", "taints", multiple=True, metavar="KEY[=VALUE]:EFFECT", help="A taint of each node.")
@click.option(
    "--lease", "lease_s", type=click.IntRange(4), default=40, show_default=True, help="Seconds of a heartbeat."
)
@click.option("--data-dir", help="Process: where pods' files and logs are kept.")
@click.option("--claims-dir", help="Process: where claims are kept; nodes that share it share their claims.")
@click.option("--host-path-root", "host_roots", multiple=True, help="Process: hostPath volumes may lie beneath this.")
@click.option("--start", default="0s", show_default=True, help="Pretend: how long pods take to start.")
@click.option(
    "--run", default="", help="Pretend: how long pods run, such as 90s or exponential:60s; without it for ever."
)
@click.option("--stop", default="0s", show_default=True, help="Pretend: how long deleted pods take to go.")
@click.option("--failure-rate", type=Between(0, 1), default=0.0, show_default=True, help="Pretend: share that fails.")
@click.option("--seed", type=int, help="Pretend: draw the same times and failures again.")
@click.option("--log-level", default="info", show_default=True, help="debug, info, warning or error.")
def node(
    kubeconfig: str,
    context: str,
    process: bool,
    log_level: str,
    capacity: tuple[str, ...],
    labels: tuple[str, ...],
    taints: tuple[str, ...],
    **given: object,
) -> None:
    """Join a cluster as a node, or as many, until stopped.

    A process node runs the commands of pods on this machine. Images are not pulled: a container must give its command,
    and the command must exist here. It is no sandbox: run only pods that you would run yourself.

    A pretend node runs nothing; its pods go through their phases on timers. Annotations of a pod decide over its fate:
    pumice.dev/pretend-run, pretend-exit-code and pretend-stop.
    """
    if process and given["pretend"] is not None:
        raise BadInput("--process and --pretend exclude each other; choose one of them")
    options = NodeOptions(
        capacity=dict(_pair(text, "--capacity", quantity.canonical) for text in capacity),
        labels=dict(_pair(text, "--label", str) for text in labels),
        taints=[_taint(text) for text in taints],
        **given,  # type: ignore[arg-type]  # click has checked them
    )
    if options.pretend is None and sys.platform != "linux":
        raise BadInput("process nodes need Linux; use --pretend COUNT here")
    if options.pretend is not None and options.gpus == AUTO:
        raise BadInput("--gpus auto is for a process node; give pretend nodes a number of GPUs")
    check_shared(options.gpus, options.shared_gpus)
    _start(kubeconfig, context, options, log_level)


def _pair(text: str, option: str, check: Callable[[str], str]) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise BadInput(f"{option} {text!r} is not of the form NAME=VALUE; write for example {option} cpu=64")
    return key, check(value)


def _taint(text: str) -> dict[str, str]:
    rest, colon, effect = text.rpartition(":")
    key, _, value = rest.partition("=")
    if not colon or not key or effect not in _EFFECTS:
        raise BadInput(f"--taint {text!r} is not KEY[=VALUE]:EFFECT; effects are {', '.join(_EFFECTS)}")
    return {"key": key, "effect": effect} | ({"value": value} if value else {})


def _start(kubeconfig: str, context: str, options: NodeOptions, log_level: str) -> None:
    from pumice.clock import RealClock
    from pumice.kube import config
    from pumice.telemetry import logs

    log = cast("Log", logs.configure(level=log_level).info)
    plugins = config.kubectl_plugin_policy()
    connection = config.find(kubeconfig, clock=RealClock(), context=context, plugins=plugins)
    asyncio.run(_join(connection, options, log))


async def _join(connection: Connection, options: NodeOptions, log: Log) -> None:
    from pumice.clock import RealClock
    from pumice.processes import lifecycle
    from pumice.runtime import Runtime

    runtime = Runtime(clock=RealClock(), chance=random.Random(), log=log)  # noqa: S311 - jitter, not secrets
    async with lifecycle.connect(connection, "pumice-node", runtime) as here:
        log("joining", server=connection.server, origin=connection.origin)
        agent = _pretend(here, options) if options.pretend else _process(here, connection, options)
        await lifecycle.until_stopped(agent.run(), [here.informers.run()])


def _pretend(here: Process, options: NodeOptions) -> PretendAgent:
    from pumice.local.nodes import distributions
    from pumice.local.nodes.pretend import PretendAgent, pretend_nodes
    from pumice.local.nodes.pretend_pods import Behaviour

    behaviour = Behaviour(
        start=distributions.parse(options.start),
        run=distributions.parse(options.run) if options.run else None,
        stop=distributions.parse(options.stop),
        failure_rate=options.failure_rate,
    )
    nodes = pretend_nodes(
        options.pretend or 0,
        prefix=options.name or PREFIX,
        gpus=int(options.gpus),
        capacity=options.capacity,
        labels=options.labels,
        taints=options.taints,
    )
    chance = random.Random(options.seed)  # noqa: S311 - run times, not secrets
    runtime = msgspec.structs.replace(here.runtime, chance=chance)
    return PretendAgent(here.client, here.informers, nodes, runtime, behaviour=behaviour, lease_s=options.lease_s)


def _process(here: Process, connection: Connection, options: NodeOptions) -> ProcessAgent:
    from pumice.local.nodes.process.agent import ProcessAgent
    from pumice.local.nodes.process.devices import fake
    from pumice.local.nodes.process.machine import ProcessSettings

    nvml, gpus = (
        find(options.shared_gpus, here.runtime.log) if options.gpus == AUTO else (None, fake(int(options.gpus)))
    )
    name = options.name or socket.gethostname().lower()
    settings = ProcessSettings(
        name=name,
        folder=Path(options.data_dir) if options.data_dir else _state_folder() / name,
        gpus=gpus,
        nvml=nvml,
        capacity=options.capacity,
        labels=options.labels,
        taints=options.taints,
        claims=Path(options.claims_dir) if options.claims_dir else None,
        host_roots=_roots(options.host_roots),
        server=connection.server,
        authority=connection.authority.read() if connection.authority is not None else b"",
        lease_s=options.lease_s,
    )
    return ProcessAgent(here.client, here.informers, settings, here.runtime)


def _roots(given: Sequence[str]) -> tuple[Path, ...]:
    roots = tuple(Path(text) for text in given)
    for root in roots:
        if not root.is_dir():
            raise BadInput(f"--host-path-root {root} is no folder; make it first, or name another one")
    return roots


def _state_folder() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(state) / "pumice" / "nodes"

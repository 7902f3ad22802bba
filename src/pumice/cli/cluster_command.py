"""How a command reaches its cluster: the options that all such commands share, and what a command's body gets."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import os
import random
from typing import TYPE_CHECKING, Any

import click

from pumice import __version__
from pumice.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from pumice.cli.results import Answer
    from pumice.clock import Clock
    from pumice.kube.client import Client
    from pumice.kube.connection import Connection

NAMESPACE = ("-n", "--namespace")
# vcctl takes these on every command; scripts that give them go on working, and they change nothing.
LOGGING_FLAGS = (("-v", "--v"), ("--vmodule",), ("--log-flush-frequency",))
_SHOWN = ("output", "headers", "watch")
OUTPUTS = "table, wide, json, yaml, name or jsonpath=TEMPLATE"


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """Which cluster, and where in it; empty is what the kubeconfig says."""

    kubeconfig: str = ""
    context: str = ""
    master: str = ""
    namespace: str = ""
    everywhere: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class ClusterAccess:
    """A client of the chosen cluster, and the chosen namespace."""

    client: Client
    connection: Connection
    clock: Clock
    namespace: str
    everywhere: bool = False
    named_namespace: bool = False  # the user wrote it, so it wins over what a file says

    @property
    def scope(self) -> str:
        """The namespace for lists: empty for all of them."""
        return "" if self.everywhere else self.namespace


@contextlib.asynccontextmanager
async def connect(target: Target) -> AsyncIterator[ClusterAccess]:
    """The cluster that the target means, for as long as the block lasts."""
    from pumice.clock import RealClock
    from pumice.kube import config
    from pumice.kube.client import Client
    from pumice.kube.one_shot import BriefTransport

    clock, chance = RealClock(), random.Random()  # noqa: S311  jitter, not secrets
    connection = config.find(
        target.kubeconfig, clock=clock, context=target.context, plugins=config.kubectl_plugin_policy(os.environ)
    )
    if target.master:
        connection = dataclasses.replace(connection, server=target.master)
    async with BriefTransport(connection, user_agent=f"pumice-cli/{__version__}") as transport:
        client = Client(transport, clock=clock, chance=chance)
        namespace = target.namespace or connection.namespace
        yield ClusterAccess(client, connection, clock, namespace, target.everywhere, bool(target.namespace))


def asks(
    *, namespace: Sequence[str] = NAMESPACE, everywhere: bool = False, watch: bool = False, output: bool = True
) -> Callable[[Callable[..., Awaitable[Answer]]], Callable[..., None]]:
    """A body that asks a cluster becomes a command: with the usual options, run to its end, its answer printed.

    The body gets a ClusterAccess and its own options. An empty `namespace` is for kinds that have none.
    """

    def decorate(body: Callable[..., Awaitable[Answer]]) -> Callable[..., None]:
        @functools.wraps(body)
        def run(**options: Any) -> None:
            target = Target(*(options.pop(field.name, field.default) for field in dataclasses.fields(Target)))
            shown: dict[str, Any] = {key: options.pop(key) for key in _SHOWN if key in options}
            asyncio.run(_run(target, shown, functools.partial(body, **options)))

        for option in reversed(_options(namespace, everywhere=everywhere, watch=watch, output=output)):
            run = option(run)
        return run

    return decorate


async def _run(target: Target, shown: dict[str, Any], body: Callable[[ClusterAccess], Awaitable[Answer]]) -> None:
    from pumice.cli import printing

    form = printing.Form.parse(**shown)  # before anything is done, so that a wrong -o changes nothing
    async with connect(target) as access:
        answer = await body(access)
        if answer is not None:
            await printing.show(answer, access, form)


def _options(
    namespace: Sequence[str], *, everywhere: bool, watch: bool, output: bool
) -> list[Callable[[Callable[..., None]], Callable[..., None]]]:
    options = []
    if namespace:
        options.append(click.option(*namespace, "namespace", default="", help="Namespace; else that of the context."))
    if everywhere:
        options.append(click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="In all namespaces."))
    if output:
        options += [
            click.option("-o", "--output", default="table", show_default=True, metavar="FORM", help=f"{OUTPUTS}."),
            click.option("--no-headers", "headers", is_flag=True, flag_value=False, default=True, help="No head line."),
        ]
    if watch:
        options.append(click.option("-w", "--watch", is_flag=True, help="Go on printing what changes, until Ctrl-C."))
    return [
        *options,
        click.option("--context", default="", help="Context of the kubeconfig."),
        click.option("-k", "--kubeconfig", default="", help="Kubeconfig file; else $KUBECONFIG or ~/.kube/config."),
        click.option("-s", "--master", default="", help="Address of the API server, instead of the kubeconfig's."),
        *(_ignored_option(*flags) for flags in LOGGING_FLAGS),
    ]


def _ignored_option(*flags: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(*flags, default="", hidden=True, expose_value=False)


def name_argument(
    *flags: str, required: bool = True, kind: str = ""
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """NAME as an argument or, as vcctl has it, behind a flag; exactly one of both where it is required."""

    def decorate(body: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(body)
        async def run(access: ClusterAccess, *, name: str | None, name_flag: str, **options: Any) -> Any:
            if name and name_flag:
                raise BadInput(f"two names: {name!r} and {flags[0]} {name_flag!r}; give one of them")
            if required and not (name or name_flag):
                raise BadInput(f"no name was given; write it behind the command, or as {flags[0]} NAME")
            return await body(access, name=name or name_flag, **options)

        complete = _live(kind) if kind else None
        run = click.argument("name", required=False, shell_complete=complete)(run)
        return click.option(
            *flags,
            "name_flag",
            default="",
            metavar="NAME",
            help="The name, as vcctl writes it.",
            shell_complete=complete,
        )(run)

    return decorate


def _live(kind: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        from pumice.cli import completion

        return completion.live(kind)(ctx, param, incomplete)

    return complete

"""How a command reaches its cluster: the options that all such commands share, and what a command's body gets."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import random
from typing import TYPE_CHECKING, Any

import click
import msgspec

from pumice import __version__
from pumice.cli import invocation
from pumice.cli.entry import importing
from pumice.errors import BadInput, PumiceError
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from pumice.cli.results import Answer
    from pumice.clock import Clock
    from pumice.kube.client import Client
    from pumice.kube.connection import Connection

NAMESPACE = ("-n", "--namespace")
# vcctl takes these on every command; scripts that give them go on working, and they change nothing.
LOGGING_FLAGS = (("--vmodule",), ("--log-flush-frequency",))
_SHOWN = ("output", "headers", "watch")
OUTPUTS = "table, wide, json, yaml, name or jsonpath=TEMPLATE"


class Target(Value):
    """Which cluster, and where in it; empty is what the kubeconfig says."""

    kubeconfig: str = ""
    context: str = ""
    master: str = ""
    namespace: str = ""
    everywhere: bool = False


class ClusterAccess(Value):
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
    with importing():
        from pumice.clock import RealClock
        from pumice.kube import config
        from pumice.kube.client import Client
        from pumice.kube.direct import DirectTransport

    clock, chance = RealClock(), random.Random()  # noqa: S311  jitter, not secrets
    connection = config.find(
        target.kubeconfig, clock=clock, context=target.context, plugins=config.kubectl_plugin_policy(os.environ)
    )
    if target.master:
        connection = msgspec.structs.replace(connection, server=target.master)
    async with DirectTransport(connection, user_agent=f"pumice-cli/{__version__}") as transport:
        client = Client(transport, clock=clock, chance=chance, warn=functools.cache(warn))  # each text once
        namespace = target.namespace or connection.namespace
        yield ClusterAccess(client, connection, clock, namespace, target.everywhere, bool(target.namespace))


def warn(text: str) -> None:
    from pumice.cli.cells import without_control_characters

    click.echo(f"Warning: {without_control_characters(text)}", err=True)


def asks(
    *, namespace: Sequence[str] = NAMESPACE, everywhere: bool = False, watch: bool = False, output: bool = True
) -> Callable[[Callable[..., Awaitable[Answer | Several]]], Callable[..., None]]:
    """A body that asks a cluster becomes a command: with the usual options, run to its end, its answer printed.

    The body gets a ClusterAccess and its own options. An empty `namespace` is for kinds that have none.
    """

    def decorate(body: Callable[..., Awaitable[Answer | Several]]) -> Callable[..., None]:
        @functools.wraps(body)
        def run(**options: Any) -> None:
            target = Target(*(options.pop(field.name, field.default) for field in msgspec.structs.fields(Target)))
            shown: dict[str, Any] = {key: options.pop(key) for key in _SHOWN if key in options}
            found = click.get_current_context().find_object(invocation.Invocation)
            volcano = found is not None and found.volcano
            asyncio.run(_run(target, shown, functools.partial(body, **options), volcano=volcano))

        for option in reversed(_options(namespace, everywhere=everywhere, watch=watch, output=output)):
            run = option(run)
        return run

    return decorate


def targets(*, everywhere: bool = False) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The usual options for a command that may do without a cluster: its body gets a Target, and connects by itself."""

    def decorate(body: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(body)
        def run(**options: Any) -> None:
            target = Target(*(options.pop(field.name, field.default) for field in msgspec.structs.fields(Target)))
            body(target, **options)

        for option in reversed(_options(NAMESPACE, everywhere=everywhere, watch=False, output=False)):
            run = option(run)
        return run

    return decorate


async def _run(
    target: Target,
    shown: dict[str, Any],
    body: Callable[[ClusterAccess], Awaitable[Answer | Several]],
    *,
    volcano: bool,
) -> None:
    from pumice.cli import colours, printing

    form = printing.Form.parse(**shown)  # before anything is done, so that a wrong -o changes nothing
    async with connect(target) as access:
        answer = await body(access)
        several = answer if isinstance(answer, Several) else Several([answer])
        for each in several.answers:
            if each is not None and volcano and form.name == "table" and not form.watch:
                from pumice.cli import vcctl_tables

                await vcctl_tables.show(each, access)
            elif each is not None:
                await printing.show(each, access, form)
        for error in several.errors[:-1]:
            colours.error("pumice", error.plain)
        if several.errors:
            raise several.errors[-1]


class Several(Value):
    """What a command answered for each of several names; one that fails does not keep it from the others."""

    answers: list[Answer]
    errors: list[PumiceError] = msgspec.field(default_factory=list)


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
        click.option(
            "-v",
            "--v",
            is_flag=False,
            flag_value="1",
            default="",
            metavar="[LEVEL]",
            expose_value=False,
            callback=invocation.set_verbose,
            help="Errors name the request that failed.",
        ),
        *(_ignored_option(*flags) for flags in LOGGING_FLAGS),
    ]


def _ignored_option(*flags: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(*flags, default="", hidden=True, expose_value=False)


labelled = click.option(
    "-l", "--selector", "labels", default="", metavar="LABELS", help="Only with such labels: a=b,c!=d."
)


def name_argument(
    *flags: str, required: bool = True, kind: str = "", several: bool = False, letter: str = ""
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """NAME as an argument or, as vcctl has it, behind a flag; exactly one of both where it is required.

    With `several`, the body runs for each name in turn. `letter` is a flag that means the name where there is no other, and
    else is the namespace of a kind that has none, as kubectl takes it.
    """

    def decorate(body: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(body)
        async def run(
            access: ClusterAccess, *, name: tuple[str, ...], name_flag: str, lettered: str = "", **options: Any
        ) -> Any:
            flag = flags[0]
            if lettered and not name and not name_flag:
                name_flag, flag = lettered, letter
            if name and name_flag:
                raise BadInput(f"two names: {name[0]!r} and {flag} {name_flag!r}; give one of them")
            if required and not (name or name_flag):
                raise BadInput(f"no name was given; write it behind the command, or as {letter or flag} NAME")
            chosen = name or (name_flag,)
            if len(chosen) == 1:
                return await body(access, name=chosen[0], **options)
            return await for_each(chosen, functools.partial(body, access, **options))

        complete = _live(kind) if kind else None
        run = click.argument(
            "name", nargs=-1 if several else 1, callback=_tuple, required=False, shell_complete=complete
        )(run)
        if letter:
            run = click.option(
                letter,
                "--namespace",
                "lettered",
                default="",
                metavar="NAME",
                help="The name, as vcctl writes it.",
                shell_complete=complete,
            )(run)
        return click.option(
            *flags,
            "name_flag",
            default="",
            metavar="NAME",
            help="The name, as vcctl writes it.",
            shell_complete=complete,
        )(run)

    return decorate


def _tuple(_: click.Context, __: click.Parameter, value: str | tuple[str, ...] | None) -> tuple[str, ...]:
    if isinstance(value, tuple):
        return value
    return (value,) if value else ()


async def for_each(chosen: Sequence[str], body: Callable[..., Awaitable[Answer]]) -> Several:
    """Runs the body for each name in turn; several objects of a query are one table."""
    from pumice.cli.results import Query

    several = Several([])
    for name in dict.fromkeys(chosen):
        try:
            several.answers.append(await body(name=name))
        except PumiceError as error:
            several.errors.append(error)
    first = several.answers[0] if several.answers else None
    if isinstance(first, Query):
        names = tuple(dict.fromkeys(chosen))
        together = msgspec.structs.replace(
            first, name="", names=names, keep=lambda each: each["metadata"]["name"] in names
        )
        return Several([together], several.errors)
    return several


def _live(kind: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        from pumice.cli import completion

        return completion.live(kind)(ctx, param, incomplete)

    return complete

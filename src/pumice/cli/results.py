"""What commands answer: data, which printers turn into text in the form that was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import click

from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pumice.api.kinds import Kind
    from pumice.api.meta import Json
    from pumice.cli.colours import Paint
    from pumice.instant import Instant

output_option = click.option(  # of commands that ask no cluster
    "-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True
)


def everything(_: Json) -> bool:
    return True


class Column(Value):
    """One column of a table: its head, and what stands under it for an object."""

    name: str
    cell: Callable[[Json, Instant], object]
    wide: bool = False


class Query(Value, kw_only=True):
    """Objects to list, or one to get, and how a person reads them; the printer fetches them, once or as they change."""

    kind: Kind
    columns: tuple[Column, ...]
    namespace: str = ""
    name: str = ""
    names: tuple[str, ...] = ()  # several, instead of one
    labels: str = ""
    keep: Callable[[Json], bool] = everything
    before: Callable[[], Awaitable[object]] | None = None  # reads again what the columns need beside the objects
    before_wide: Callable[[], Awaitable[object]] | None = None  # ... what only the wide ones need
    # Adds to the objects what the cluster's scheduler knows of them; vcctl's tables do without.
    enrich: Callable[[list[Json]], Awaitable[list[Json]]] | None = None


class Report(Value):
    """Something to be read by a person, and the same as data for a program."""

    text: str | Callable[[Paint], str]  # with colours where the person's terminal has them
    data: Any
    names: tuple[str, ...] = ()  # what `-o name` prints, where the report is a list of objects


class Live(Value):
    """A report that can be asked for again and again: with a watch it is, until the user ends it."""

    report: Callable[[], Awaitable[Report]]
    again_s: float


class Done(Value):
    """Something was changed: what, and how it stands now."""

    kind: Kind
    object: Json
    deed: str  # a participle: created, deleted; suspending where controllers do it in a moment


Answer: TypeAlias = Query | Report | Live | Done | None  # None: the command has said everything itself

"""Printers: the answer of a command as a table, as whole objects, as names or through a template."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from pumice.cli import colours, fetching
from pumice.cli.results import Done, Live, Query, Report
from pumice.errors import BadInput
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pumice.api.kinds import Kind
    from pumice.api.meta import Json
    from pumice.cli.cluster_command import ClusterAccess
    from pumice.cli.colours import Paint
    from pumice.cli.results import Answer

_GAP = 3
_NARROWEST = 6  # as kubectl's tables have it
_FORMS = ("table", "wide", "json", "yaml", "name", "jsonpath")


class Form(Value):
    """How an answer is wanted."""

    name: str = "table"
    template: str = ""
    headers: bool = True
    watch: bool = False
    coloured: bool = False

    @staticmethod
    def parse(output: str = "table", *, headers: bool = True, watch: bool = False) -> Form:
        name, _, template = output.partition("=")
        if name not in _FORMS or (name == "jsonpath") != bool(template):
            raise BadInput(f"-o {output}: no such form; take table, wide, json, yaml, name or jsonpath=TEMPLATE")
        return Form(name, template, headers, watch, coloured=colours.should_colour(sys.stdout))

    @property
    def is_table(self) -> bool:
        return self.name in {"table", "wide"}


async def show(answer: Answer, access: ClusterAccess, form: Form) -> None:
    """Print the answer; with a watch, until the user ends it."""
    match answer:
        case Query():
            await _show_query(answer, access, form)
        case Report():
            _show_report(answer, form)
        case Live():
            await _show_live(answer, form)
        case Done():
            name = f"{_word(answer.kind)}/{answer.object['metadata']['name']}"
            if form.is_table:
                click.echo(f"{name} {answer.deed}")
            else:
                click.echo(_whole(answer.kind, answer.object, form), nl=form.name != "jsonpath")


async def _show_live(answer: Live, form: Form) -> None:
    if form.watch:
        from pumice.cli import live

        await live.follow(answer, form, _show_report, report_text)
    else:
        _show_report(await answer.report(), form)


def _show_report(answer: Report, form: Form) -> None:
    if form.is_table:
        echo(report_text(answer, form), form)
    elif form.name == "name" and answer.names:
        click.echo("\n".join(answer.names))
    else:
        click.echo(document(answer.data, form), nl=form.name != "jsonpath")


def report_text(answer: Report, form: Form) -> str:
    """The text of a report, with colours where they are wanted."""
    if isinstance(answer.text, str):
        return answer.text
    return answer.text(colours.PAINT if form.coloured else colours.PLAIN)


def echo(text: str, form: Form, *, nl: bool = True) -> None:
    """Text for a person: colours stay in it where they are wanted, on whatever stream that is."""
    click.echo(text, nl=nl, color=form.coloured)


async def _prepare(query: Query, form: Form) -> None:
    if query.before is not None and form.is_table:
        await query.before()
    if query.before_wide is not None and form.name == "wide":
        await query.before_wide()


async def _show_query(query: Query, access: ClusterAccess, form: Form) -> None:
    await _prepare(query, form)
    if form.watch:
        await _follow(query, access, form)
        return
    objects = await _enriched(query, await fetching.fetch(query, access.client), form)
    if form.is_table:
        if objects:
            echo(Table(query, form).text(objects, access.clock.now()), form, nl=False)
        else:
            where = f" in {query.namespace} namespace" if query.namespace else ""
            click.echo(f"No resources found{where}.", err=True)
    elif form.name == "name":
        for each in objects:
            click.echo(f"{_word(query.kind)}/{each['metadata']['name']}")
    else:
        items = [without_managed_fields(each) for each in objects]
        click.echo(document(items[0] if query.name else _list(items), form), nl=form.name != "jsonpath")


async def _enriched(query: Query, objects: list[Json], form: Form) -> list[Json]:
    return await query.enrich(objects) if query.enrich is not None and form.name != "name" else objects


async def _follow(query: Query, access: ClusterAccess, form: Form) -> None:
    """First all objects, then each that changes."""
    table = Table(query, form)
    async for changed in fetching.follow(query, access.client):
        objects = await _enriched(query, changed, form)
        if form.is_table:
            await _prepare(query, form)
            echo(table.text(objects, access.clock.now()), form, nl=False)
        else:
            for each in objects:
                click.echo(_whole(query.kind, each, form), nl=form.name != "jsonpath")


def _word(kind: Kind) -> str:
    return f"{kind.singular}.{kind.group}" if kind.group else kind.singular


def without_managed_fields(obj: Json) -> Json:
    """The whole object but for managedFields, which kubectl hides as well."""
    meta = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    return {**obj, "metadata": meta}


def _list(items: list[Json]) -> Json:
    return {"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}}


def _whole(kind: Kind, obj: Json, form: Form) -> str:
    if form.name == "name":
        return f"{_word(kind)}/{obj['metadata']['name']}"
    return document({"apiVersion": kind.api_version, "kind": kind.kind, **without_managed_fields(obj)}, form)


def document(data: Any, form: Form) -> str:
    match form.name:
        case "json":
            return json.dumps(data, indent=4, ensure_ascii=False)
        case "yaml":
            from pumice import yamltext

            return yamltext.dump(data).rstrip("\n")
        case "jsonpath":
            from pumice.cli import templates

            return templates.render(form.template, data)
    raise BadInput("-o name: this answer has no name; take table, json or yaml")


def echo_data(data: Any, output: str) -> None:
    """What a command that asks no cluster has found, for programs."""
    import msgspec

    click.echo(document(msgspec.to_builtins(data), Form(output)))


class Table:
    """Rows under heads, with kubectl's gaps; rows that come later keep the widths of those before."""

    def __init__(self, query: Query, form: Form) -> None:
        self._columns = [each for each in query.columns if form.name == "wide" or not each.wide]
        self._heads = [each.name for each in self._columns] if form.headers else None
        self._widths = [_NARROWEST] * len(self._columns)
        self._paint = colours.PAINT if form.coloured else colours.PLAIN
        self._phases = {place for place, each in enumerate(self._columns) if each.name in colours.PAINTED}

    def text(self, objects: Sequence[Json], now: int) -> str:
        rows = [[str(column.cell(each, now)) for column in self._columns] for each in objects]
        if self._heads and rows:
            rows.insert(0, self._heads)
            self._heads = None
        return align(rows, self._widths, phases=self._phases, paint=self._paint)


def align(
    rows: Sequence[Sequence[str]],
    widths: list[int] | None = None,
    *,
    phases: Collection[int] = frozenset(),
    paint: Paint | None = None,
) -> str:
    """Rows as lines, each column as wide as its widest cell; `widths` are the least, and are widened.

    The columns in `phases` hold phases and states, which are painted.
    """
    if widths is None:
        widths = [_NARROWEST] * max(map(len, rows), default=0)
    for row in rows:
        for index, cell in enumerate(row):
            widths[index] = max(widths[index], len(cell) + _GAP)
    lines = []
    for row in rows:
        padded = [
            (paint.phase(cell) if paint is not None and place in phases else cell) + " " * (widths[place] - len(cell))
            for place, cell in enumerate(row)
        ]
        lines.append("".join(padded).rstrip() + "\n")
    return "".join(lines)

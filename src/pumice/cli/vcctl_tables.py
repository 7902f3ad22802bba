"""What vcctl prints of an answer: fixed columns, its own sentences, and nothing where it says nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pumice.api import cells
from pumice.cli import fetching, printing, tables
from pumice.cli.results import Column, Done, Query

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.api.meta import Json
    from pumice.cli.cluster_command import ClusterAccess
    from pumice.cli.results import Answer

_GAP = 3
# Kind -> its columns: our column's head, vcctl's, and its width; 0 is as wide as the longest and a gap.
_COLUMNS: dict[str, tuple[tuple[str, str, int], ...]] = {
    "Job": (
        ("NAME", "Name", 0),
        ("CREATION", "Creation", 15),
        ("PHASE", "Phase", 12),
        ("JOBTYPE", "JobType", 12),
        ("REPLICAS", "Replicas", 12),
        ("MIN", "Min", 6),
        ("PENDING", "Pending", 10),
        ("RUNNING", "Running", 10),
        ("SUCCEEDED", "Succeeded", 12),
        ("FAILED", "Failed", 10),
        ("UNKNOWN", "Unknown", 12),
        ("RETRYCOUNT", "RetryCount", 10),
    ),
    "Queue": (
        ("NAME", "Name", 25),
        *((head.upper(), head, 8) for head in ("Weight", "State", "Parent", *tables.PHASES)),
    ),
    "JobFlow": (("NAME", "Name", 0), ("NAMESPACE", "Namespace", 0), ("PHASE", "Phase", 0), ("AGE", "Age", 0)),
    "JobTemplate": (("NAME", "Name", 0), ("NAMESPACE", "Namespace", 0)),
    "Pod": (("NAME", "Name", 0), ("READY", "Ready", 0), ("STATUS", "Status", 0), ("RESTARTS", "Restart", 0), ("AGE", "Age", 0)),
}  # fmt: skip
_SENTENCES = {
    ("Job", "created"): "run job {name} successfully",
    ("Job", "deleted"): "delete job {name} successfully",
    ("JobFlow", "created"): "Created JobFlow: {namespace}/{name}",
    ("JobFlow", "deleted"): "Deleted JobFlow: {namespace}/{name}",
    ("JobTemplate", "created"): "Created JobTemplate: {namespace}/{name}",
    ("JobTemplate", "deleted"): "Deleted JobTemplate: {namespace}/{name}",
}


async def show(answer: Answer, access: ClusterAccess) -> None:
    match answer:
        case Query():
            await _show_query(answer, access)
        case Done():
            meta = answer.object["metadata"]
            sentence = _SENTENCES.get((answer.kind.kind, answer.deed))
            if sentence:  # what vcctl does to queues, and by Commands, it does without a word
                click.echo(sentence.format(name=meta["name"], namespace=meta.get("namespace", "")))
        case _:
            await printing.show(answer, access, printing.Form())


async def _show_query(query: Query, access: ClusterAccess) -> None:
    if query.before is not None:
        await query.before()
    objects = await fetching.fetch(query, access.client)
    if objects:
        click.echo(table(query, objects, access.clock.now(), everywhere=access.everywhere), nl=False)
    else:
        click.echo("No resources found")


def table(query: Query, objects: Sequence[Json], now: int, *, everywhere: bool = False) -> str:
    chosen = _COLUMNS[query.kind.kind]
    if everywhere and chosen[1][1] != "Namespace":
        chosen = (("NAMESPACE", "Namespace", 0), *chosen)
    own: dict[str, Column] = {tables.NAMESPACE.name: tables.NAMESPACE, **{each.name: each for each in query.columns}}
    rows: list[list[str]] = [[head for _, head, _ in chosen]]
    rows += [[_text(own[name].cell(each, now)) for name, _, _ in chosen] for each in objects]
    widths = [width or max(len(row[index]) for row in rows) + _GAP for index, (_, _, width) in enumerate(chosen)]
    return "".join("".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)) + "\n" for row in rows)


def _text(value: Any) -> str:
    text = str(value)
    return "" if text == cells.NONE else text

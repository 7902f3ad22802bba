"""`pumice queue`: queues and what waits in them, in vcctl's words (where -n is the queue's name)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pumice.api.kinds import type_meta
from pumice.api.scheduling import Queue
from pumice.cli.cluster_command import ClusterAccess, asks, labelled, name_argument
from pumice.cli.results import Done, Query
from pumice.cli.suggestions import SuggestingGroup
from pumice.errors import BadInput

if TYPE_CHECKING:
    from collections import Counter

    from pumice.api.meta import Json

COMMANDS_NAMESPACE = "default"  # queues have no namespace, Commands must have one, and vcctl takes this
KIND = "queues.scheduling.volcano.sh"


@click.group(cls=SuggestingGroup)
def queue() -> None:
    """Look at queues, make them, open and close them."""


def queues(access: ClusterAccess, name: str = "", *, labels: str = "") -> Query:
    """All queues or one, with the PodGroups in them counted."""
    from pumice.api.kinds import by_struct
    from pumice.api.scheduling import PodGroup
    from pumice.cli import tables

    counted: dict[str, Counter[str]] = {}

    async def count() -> None:
        groups = await access.client.list_json(by_struct(PodGroup))
        counted.clear()
        counted.update(tables.count_phases(groups))

    return Query(kind=by_struct(Queue), columns=tables.queue_columns(counted), name=name, labels=labels, before=count)


@queue.command("list")
@asks(namespace=(), watch=True)
@click.option(
    "-A", "--all-namespaces", is_flag=True, hidden=True, expose_value=False
)  # queues are in none: as in kubectl
@click.option("-n", "--namespace", default="", hidden=True, expose_value=False)
@labelled
async def list_queues(access: ClusterAccess, labels: str) -> Query:
    """List queues, with how many PodGroups are in which phase."""
    return queues(access, labels=labels)


@queue.command()
@asks(namespace=(), watch=True)
@name_argument("-N", "--name", letter="-n", kind=KIND, several=True)
async def get(access: ClusterAccess, name: str) -> Query:
    """Show one queue."""
    return queues(access, name)


@queue.command()
@asks(namespace=())
@name_argument("-N", "--name", letter="-n")
@click.option("-w", "--weight", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("-S", "--state", default="", expose_value=False, help="Taken for vcctl's sake; a new queue is open.")
@click.option("--parent", default="", help="Queue that it takes its share from.")
@click.option("--capability", default="", help="What it may use at most, such as cpu=8,nvidia.com/gpu=4.")
@click.option("--deserved", default="", help="What it can claim back from others.")
@click.option("--reclaimable/--not-reclaimable", default=True, show_default=True)
async def create(
    access: ClusterAccess, name: str, weight: int, parent: str, capability: str, deserved: str, reclaimable: bool
) -> Done:
    """Make a queue."""
    from pumice.api.kinds import by_struct
    from pumice.cli import submitting

    spec: Json = {"weight": weight, "reclaimable": reclaimable}
    if parent:
        spec["parent"] = parent
    if capability:
        spec["capability"] = submitting.resources(capability, "--capability")
    if deserved:
        spec["deserved"] = submitting.resources(deserved, "--deserved")
    body = {**type_meta(Queue), "metadata": {"name": name}, "spec": spec}
    made = await access.client.create(Queue, body)
    return Done(by_struct(Queue), made.json(), "created")


@queue.command()
@asks(namespace=())
@name_argument("-N", "--name", letter="-n", kind=KIND)
@click.option("-a", "--action", type=click.Choice(["open", "close", "update"]), required=True)
@click.option("-w", "--weight", type=click.IntRange(min=1), help="The new weight, for update.")
async def operate(access: ClusterAccess, name: str, action: str, weight: int | None) -> Done:
    """Open or close a queue, or change its weight."""
    from pumice.api.kinds import by_struct
    from pumice.cli import commands_api

    if (action == "update") != (weight is not None):
        raise BadInput("--weight goes with `-a update`, and with nothing else; give both or neither")
    if weight is not None:
        written = await access.client.patch(Queue, name, {"spec": {"weight": weight}})
        return Done(by_struct(Queue), written.json(), "updated")
    found = (await access.client.get(Queue, name)).json()
    verb, deed = {"open": ("OpenQueue", "opening"), "close": ("CloseQueue", "closing")}[action]
    await commands_api.command(access.client, by_struct(Queue), found, verb, namespace=COMMANDS_NAMESPACE)
    return Done(by_struct(Queue), found, deed)


@queue.command()
@asks(namespace=())
@name_argument("-N", "--name", letter="-n", kind=KIND, several=True)
async def delete(access: ClusterAccess, name: str) -> Done:
    """Delete a queue; the server refuses while it is open or in use."""
    from pumice.api.kinds import by_struct

    await access.client.delete(Queue, name)
    return Done(by_struct(Queue), {"metadata": {"name": name}}, "deleted")

"""`pumice queue`: queues and what waits in them, in vcctl's words (where -n is the queue's name)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pumice.api.kinds import type_meta
from pumice.api.scheduling import WEIGHT_MAX, Queue
from pumice.cli.cluster_command import ClusterAccess, asks, labelled, name_argument, warn
from pumice.cli.results import Done, Query, Report
from pumice.cli.suggestions import SuggestingGroup
from pumice.digits import counted
from pumice.errors import BadInput, PumiceError, Refused

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from pumice.api.meta import Json
    from pumice.readmodel.model import Policy

KIND = "queues.scheduling.volcano.sh"


@click.group(cls=SuggestingGroup)
def queue() -> None:
    """Look at queues, make them, open and close them."""


def queues(access: ClusterAccess, name: str = "", *, labels: str = "", resource: str = "") -> Query:
    """All queues or one, with the PodGroups in them counted, and what each has of the resource."""
    from pumice.api.kinds import by_struct
    from pumice.api.scheduling import PodGroup
    from pumice.cli import tables

    counted: dict[str, Counter[str]] = {}
    shares = Shares(access, resource)

    async def count() -> None:
        groups = await access.client.list_json(by_struct(PodGroup))
        counted.clear()
        counted.update(tables.count_phases(groups))

    columns = tables.queue_columns(counted, lambda: shares.resource)
    return Query(kind=by_struct(Queue), columns=columns, name=name, labels=labels, before=count, enrich=shares.add_to)


class Shares:
    """What queues have under the policy in force, as the scheduler tells it; asked for again with each listing."""

    def __init__(self, access: ClusterAccess, resource: str = "") -> None:
        from pumice.cli.sources import States

        self._states = States(access, "queues")
        self._wanted = resource
        self.resource = resource or "-"  # which one is shown
        self.policy: Policy | None = None  # in force, once the leading scheduler has told it

    async def add_to(self, objects: list[Json]) -> list[Json]:
        """The same queues with their `share`; without it where the user may see neither the view nor the cluster."""
        from pumice.cli import sources, usage

        try:
            state, source = await self._states.state()
        except Refused as error:
            click.echo(f"pumice: what queues have left is not known: {error}", err=True)
            return objects
        self.policy = state.policy if source == sources.LEADER else None
        self.resource = usage.resource_of(state.totals, self._wanted).resource
        known = {each.name: usage.share_of(each) for each in state.queues}
        return [
            {**each, "share": known[name]} if (name := each["metadata"]["name"]) in known else each for each in objects
        ]


_RESOURCE = click.option(
    "--resource", default="", help="What to show of; else the GPU that the nodes have most of, else cpu."
)


@queue.command("list")
@asks(namespace=(), watch=True)
# Queues are in none: as in kubectl.
@click.option("-A", "--all-namespaces", is_flag=True, hidden=True, expose_value=False)
@click.option("-n", "--namespace", default="", hidden=True, expose_value=False)
@_RESOURCE
@labelled
async def list_queues(access: ClusterAccess, resource: str, labels: str) -> Query:
    """List queues: what each uses, deserves, may use at most and has left, and how many PodGroups are in which phase.

    Deserved, limit and left are what the scheduler's policy makes of weights, or of what was written. The leading scheduler is
    asked; where none answers, the same engine plans one cycle over a listing.
    """
    return queues(access, labels=labels, resource=resource)


@queue.command()
@asks(namespace=(), watch=True)
@name_argument("-N", "--name", letter="-n", kind=KIND, several=True)
@_RESOURCE
async def get(access: ClusterAccess, name: str, resource: str) -> Query:
    """Show one queue as `queue list` does."""
    return queues(access, name, resource=resource)


@queue.command()
@asks(namespace=())
@name_argument("-N", "--name", letter="-n", kind=KIND, several=True)
async def view(access: ClusterAccess, name: str) -> Report:
    """Show one queue: what was written, what that means under the policy in force, and what happened to it."""
    from pumice.cli import describe, printing, queue_changes

    found = (await access.client.get(Queue, name)).json()
    shares = Shares(access)
    [found] = await shares.add_to([found])
    if shares.policy is not None:
        queue_changes.say_without_effect(name, found.get("spec") or {}, shares.policy)
    events = await describe.events_of(access.client, found)
    now = access.clock.now()
    return Report(lambda paint: describe.queue_text(found, events, now, paint), printing.without_managed_fields(found))


_SHAPE = (
    click.option("--parent", help="Queue that it takes its share from."),
    click.option("--guarantee", metavar="AMOUNTS", help="What is kept for it, such as cpu=8,nvidia.com/gpu=4."),
    click.option("--deserved", metavar="AMOUNTS", help="What it can claim back from others; at least its guarantee."),
    click.option("--capability", metavar="AMOUNTS", help="What it may use at most."),
    click.option(
        "--reclaimable/--not-reclaimable", default=None, help="Whether others may take back what it borrowed."
    ),
)


def _shaped(body: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_SHAPE):
        body = option(body)
    return body


@queue.command()
@asks(namespace=())
@name_argument("-N", "--name", letter="-n")
@click.option("-w", "--weight", type=click.IntRange(1, WEIGHT_MAX), default=1, show_default=True)
@click.option("-S", "--state", default="", expose_value=False, help="Taken for vcctl's sake; a new queue is open.")
@_shaped
async def create(access: ClusterAccess, name: str, weight: int, reclaimable: bool | None, **shape: Any) -> Done:
    """Make a queue."""
    from pumice.api.kinds import by_struct
    from pumice.cli import queue_changes

    spec = queue_changes.spec(weight=weight, reclaimable=reclaimable is not False, **shape)
    body = {**type_meta(Queue), "metadata": {"name": name}, "spec": spec}
    await queue_changes.check(access.client, body)
    made = await access.client.create(Queue, body)
    await queue_changes.warn(access, name, spec)
    return Done(by_struct(Queue), made.json(), "created")


@queue.command("set")
@asks(namespace=())
@name_argument("-N", "--name", letter="-n", kind=KIND)
@click.option("-w", "--weight", type=click.IntRange(1, WEIGHT_MAX))
@_shaped
async def set_queue(
    access: ClusterAccess, name: str, weight: int | None, reclaimable: bool | None, **shape: Any
) -> Done:
    """Change a queue: what is named, and nothing else. In AMOUNTS, NAME=AMOUNT sets one resource and NAME- removes it."""
    from pumice.api.kinds import by_struct
    from pumice.cli import queue_changes

    change = queue_changes.spec(weight=weight, reclaimable=reclaimable, **shape, removing=True)
    if not change:
        raise BadInput(
            "nothing to change; give --weight, --parent, --guarantee, --deserved, --capability or --reclaimable"
        )
    found = (await access.client.get(Queue, name)).json()
    await queue_changes.check(access.client, queue_changes.changed(found, change), found)
    written = await access.client.patch(Queue, name, {"spec": change})
    await queue_changes.warn(access, name, change)
    return Done(by_struct(Queue), written.json(), "updated")


@queue.command()
@asks(namespace=())
@name_argument("-N", "--name", letter="-n", kind=KIND)
@click.option("-a", "--action", type=click.Choice(["open", "close", "update"]), required=True)
@click.option("-w", "--weight", type=click.IntRange(1, WEIGHT_MAX), help="The new weight, for update.")
async def operate(access: ClusterAccess, name: str, action: str, weight: int | None) -> Done:
    """Open or close a queue, or change its weight."""
    from pumice.api.kinds import by_struct
    from pumice.kube import commands

    if (action == "update") != (weight is not None):
        raise BadInput("--weight goes with `-a update`, and with nothing else; give both or neither")
    if weight is not None:
        written = await access.client.patch(Queue, name, {"spec": {"weight": weight}})
        return Done(by_struct(Queue), written.json(), "updated")
    found = (await access.client.get(Queue, name)).json()
    verb, deed = {"open": ("OpenQueue", "opening"), "close": ("CloseQueue", "closing")}[action]
    await commands.command(access.client, by_struct(Queue), found, verb, namespace=commands.QUEUES_NAMESPACE)
    return Done(by_struct(Queue), found, deed)


@queue.command()
@asks(namespace=())
@name_argument("-N", "--name", letter="-n", kind=KIND, several=True)
async def delete(access: ClusterAccess, name: str) -> Done:
    """Delete a queue; the server refuses while pods run in it or other queues are below it."""
    from pumice.api.kinds import by_struct

    await access.client.delete(Queue, name)
    if waiting := await _gangs_of(access, name):
        gangs = f"{counted(waiting, 'gang')} of it still {'waits' if waiting == 1 else 'wait'}"
        warn(
            f"queue {name}: {gangs}, and will until there is a queue of that name: create it again, or delete their Jobs"
        )
    return Done(by_struct(Queue), {"metadata": {"name": name}}, "deleted")


async def _gangs_of(access: ClusterAccess, name: str) -> int:
    """How many gangs name the queue and are not over; 0 also for whoever may not list them."""
    from pumice.api.kinds import by_struct
    from pumice.api.scheduling import PodGroup

    try:
        groups = await access.client.list_json(by_struct(PodGroup))
    except PumiceError:
        return 0
    phases = [(each.get("status") or {}).get("phase") for each in groups if each["spec"].get("queue") == name]
    return sum(phase != "Completed" for phase in phases)

"""`pumice nodes`: where cards are free, and the largest gang that would start now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pumice.cli.cluster_command import ClusterAccess, asks
from pumice.cli.record_options import price_option, prices_of
from pumice.cli.results import Report
from pumice.digits import counted
from pumice.errors import NotFound

if TYPE_CHECKING:
    from pumice.cli.room import Rooms


@click.command()
@asks(namespace=())
@click.option("--resource", default="", help="What to count, such as cpu; else the GPU that the nodes have most of.")
@click.option("--each", default="", metavar="AMOUNTS", help="Count workers like cpu=4,nvidia.com/gpu=2 instead.")
@price_option
async def nodes(access: ClusterAccess, resource: str, each: str, prices: tuple[str, ...]) -> Report:
    """Show free, used and fragmented GPUs of each node, and the largest gang that fits now.

    Fragmented GPUs are free, but beside used ones: a worker that wants all GPUs of a node cannot have them. Nodes that are not
    ready, cordoned or tainted do not count for the largest gang, and are named. With --price, the line about GPUs that are free and
    of no use to workers of a whole node says what they cost.
    """
    from pumice.api.core import Node
    from pumice.api.pods import Pod
    from pumice.cli import room, submitting
    from pumice.cluster import amounts

    worker = amounts.read(submitting.resources(each, "--each"))
    found = (await access.client.list(Node)).items
    pods = (await access.client.list(Pod)).items
    session = room.session_of(found, pods, access.clock.now())
    total = session.room.table.total()
    if resource and not total.get(resource):
        known = ", ".join(sorted(name for name, value in total.items() if value)) or "nothing at all"
        raise NotFound(f"--resource {resource}: no node has any; the nodes have {known}")
    seen = room.rooms(session, resource, prices_of(prices))
    data, text = seen.data(), rooms_text(seen)
    if worker:
        count = room.workers(session, worker)
        data["largestGangs"] = [{"each": amounts.text(worker), "workers": count}]
        gang = f"Largest gang that fits now: {counted(count, 'worker')} of {amounts.text(worker)}"
        text = f"{cards_text(seen)}\n{gang}{_left_out_text(seen)}"
    return Report(text, data, tuple(f"node/{each.name}" for each in seen.nodes))


def cards_text(seen: Rooms) -> str:
    """One line a node, and their sum."""
    from pumice.cli.printing import align

    counted_as = "GPUS" if "/" in seen.resource else seen.resource.upper()
    rows = [("NAME", "STATUS", counted_as, "USED", "FREE", "FRAGMENTED", "PODS")]
    for node in seen.nodes:
        numbers = (node.cards, node.used, node.free, node.fragmented, node.pods)
        rows.append((node.name, node.state, *map(str, numbers)))  # type: ignore[arg-type]
    summed = ("cards", "used", "free", "fragmented", "pods")
    sums = [str(sum(getattr(node, name) for node in seen.nodes)) for name in summed]
    rows.append((f"({counted(len(seen.nodes), 'node')})", "", *sums))  # type: ignore[arg-type]
    return align(rows)


def rooms_text(seen: Rooms) -> str:
    gangs = ", ".join(f"{count} of {size}" for size, count in seen.gangs.items())
    if not gangs:
        return f"{cards_text(seen)}\nNo node has any {seen.resource}."
    return f"{cards_text(seen)}\nLargest gang that fits now, by {seen.resource} of each worker: {gangs}{_left_out_text(seen)}{stranded_text(seen)}"


def stranded_text(seen: Rooms) -> str:
    """What is free and of no use to the largest workers; nothing where all of it is."""
    lines = []
    for each in seen.stranded:
        if each.unusable:
            usable = "none" if not each.usable else str(each.usable)
            cost = "" if seen.dollars is None else f": ${each.unusable * seen.dollars:,.2f} an hour"
            lines.append(f"\n{each.free} {each.resource} free, {usable} usable for workers of {each.each}{cost}")
    return "".join(lines)


def _left_out_text(seen: Rooms) -> str:
    if not seen.left_out:
        return ""
    listed = ", ".join(f"{counted(count, 'node')} ({why})" for why, count in seen.left_out.items())
    return f"\nNot counted in it: {listed}"

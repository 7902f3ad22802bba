"""`pumice what-if`: what the scheduler would do if the cluster were different. Nothing is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from pumice.cli import gang_names
from pumice.cli.cluster_command import ClusterAccess, asks
from pumice.cli.results import Report
from pumice.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pumice.scheduling.whatif.outcome import Outcome

GANGS_SHOWN_MAX = 20


@click.command("what-if")
@asks()
@click.option("--add-nodes", type=click.IntRange(min=1), default=None, help="So many more nodes, like that of --like.")
@click.option("--like", default="", help="The node that added ones are like.")
@click.option(
    "--drain",
    multiple=True,
    metavar="NODE",
    help="This node takes no pods, and gangs on it start anew; may be repeated.",
)
@click.option(
    "--queue", "queues", multiple=True, metavar="QUEUE.FIELD=VALUE",
    help="Another weight or priority, or capability.RESOURCE, deserved.RESOURCE or guarantee.RESOURCE; may be repeated.",
)  # fmt: skip
@click.option("--without", multiple=True, metavar="JOB", help="This Job, or PodGroup, has ended; may be repeated.")
@click.option("--policy", "new_policy", type=click.Path(dir_okay=False), help="The scheduler has this policy file.")
@click.option(
    "--current-policy",
    "policy_file",
    type=click.Path(dir_okay=False),
    help="The policy in force; else the built-in one.",
)
async def what_if(
    access: ClusterAccess, add_nodes: int | None, like: str, drain: tuple[str, ...], queues: tuple[str, ...],
    without: tuple[str, ...], new_policy: str | None, policy_file: str | None,
) -> Report:  # fmt: skip
    """Say which gangs would start, wait or be evicted if nodes, queues, Jobs or the policy were different.

    Two cycles are planned, as things are and as they would be, and nothing is written: by the leading scheduler, or where none answers or
    a policy is given, by the same engine over a listing. Jobs of other namespaces are given as NAMESPACE/NAME.
    """
    from pumice.cli import sources
    from pumice.scheduling.whatif import scenario

    if bool(add_nodes) != bool(like):
        raise BadInput("--add-nodes and --like belong together: --add-nodes 4 --like gpu-1")
    if not (add_nodes or drain or queues or without or new_policy):
        raise BadInput("nothing is different: give --add-nodes, --drain, --queue, --without or --policy")
    names = tuple(each if "/" in each else f"{access.namespace}/{each}" for each in without)
    complaint = ""
    if new_policy is None and policy_file is None:
        query = {"add-nodes": str(add_nodes or 0), "like": like, "drain": ",".join(drain), "queue": ",".join(queues)}
        answer = await sources.what_if(access, {**query, "without": ",".join(names)})
        if not isinstance(answer, str):
            return Report(text(answer), msgspec.to_builtins(answer))
        complaint = answer
    question = await sources.question(access, policy_file)  # a server that is not there is told once
    changes = tuple(scenario.queue_change(each) for each in queues)
    wanted = scenario.Scenario(add_nodes or 0, like, drain, changes, names)
    found = scenario.compare(question, wanted, sources.policy_of(new_policy) if new_policy else None)
    if complaint:  # not before: a question that makes no sense is refused by the leader too, for the same reason
        click.echo(complaint, err=True)
    return Report(text(found), msgspec.to_builtins(found))


def text(found: Outcome) -> str:
    """The difference, a line for each gang that it makes one for."""
    lines = [
        *_lines(found.starts, "would start: {pods} of {gang}"),
        *_lines(
            found.admitted, "would be admitted, and start if its pods, which are made then, find room: {gang} ({pods})"
        ),
        *_lines(found.starts_no_more, "would not start, as it does now: {gang}"),
        *_lines(found.evicted, "would be evicted: {pods} of {gang}"),
        *_lines(found.evicted_no_more, "would stay, and is evicted now: {pods} of {gang}"),
        *(
            f"has to leave a drained node, and {'starts elsewhere' if starts else 'waits then'}: {gang_names.by_job(gang)}"
            for gang, starts in found.displaced.items()
        ),
    ]
    waiting = f"{found.waiting} gang{'s go' if found.waiting != 1 else ' goes'} on waiting"
    return "\n".join([*(lines or ["no gang would start, wait or be evicted that does not now"]), waiting])


def _lines(gangs: Mapping[str, int], pattern: str) -> Iterable[str]:
    for gang, count in list(gangs.items())[:GANGS_SHOWN_MAX]:
        yield pattern.format(gang=gang_names.by_job(gang), pods=f"{count} pod{'s' if count != 1 else ''}")
    if len(gangs) > GANGS_SHOWN_MAX:
        yield f"... and {len(gangs) - GANGS_SHOWN_MAX} more gangs; -o json has all"

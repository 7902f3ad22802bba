"""`pumice what-if`: what the scheduler would do if the cluster were different. Nothing is written."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click
import msgspec

from pumice.cli.cluster_command import ClusterAccess, asks
from pumice.cli.results import Report
from pumice.errors import BadInput, NotFound

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pumice.cluster.state import Snapshot
    from pumice.scheduling.whatif.scenario import Outcome

_QUEUE_CHANGE = re.compile(r"([^.=]+)\.([^=]+)=(.+)")
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

    Two cycles are planned by the scheduler's engine over a listing of the cluster: as things are, and as they would be. Names of Jobs
    are looked up in the namespace, or given as NAMESPACE/NAME.
    """
    from pumice.cli import sources
    from pumice.scheduling.whatif import scenario

    if bool(add_nodes) != bool(like):
        raise BadInput("--add-nodes and --like belong together: --add-nodes 4 --like gpu-1")
    if not (add_nodes or drain or queues or without or new_policy):
        raise BadInput("nothing is different: give --add-nodes, --drain, --queue, --without or --policy")
    question = await sources.question(access, policy_file)
    wanted = scenario.Scenario(
        add_nodes=add_nodes or 0,
        like=like,
        drain=drain,
        queues=tuple(_queue_change(each) for each in queues),
        without=tuple(_gang_of(question.snapshot, each, access.namespace) for each in without),
    )
    other = sources.policy_of(new_policy) if new_policy else None
    found = scenario.compare(question, wanted, other)
    return Report(text(found), msgspec.to_builtins(found))


def _queue_change(text: str) -> tuple[str, str, str]:
    match = _QUEUE_CHANGE.fullmatch(text)
    if match is None:
        raise BadInput(f"--queue {text}: expected QUEUE.FIELD=VALUE, such as research.weight=3")
    return match[1], match[2], match[3]


def _gang_of(snapshot: Snapshot, name: str, namespace: str) -> str:
    """The gang of a Job or PodGroup by its name."""
    place, _, own = name.rpartition("/")
    place = place or namespace
    for gang in snapshot.gangs.values():
        if gang.spec.namespace == place and own in {gang.spec.job, gang.spec.name}:
            return gang.key
    raise NotFound(f"job {place}/{own}: no gang of that name in the cluster; see `pumice job list`")


def text(found: Outcome) -> str:
    """The difference, a line for each gang that it makes one for."""
    lines = [
        *_lines(found.starts, "would start: {pods} of {gang}"),
        *_lines(found.starts_no_more, "would not start, as it does now: {gang}"),
        *_lines(found.evicted, "would be evicted: {pods} of {gang}"),
        *_lines(found.evicted_no_more, "would stay, and is evicted now: {pods} of {gang}"),
        *(
            f"has to leave a drained node, and {'starts elsewhere' if starts else 'waits then'}: {gang}"
            for gang, starts in found.displaced.items()
        ),
    ]
    waiting = f"{found.waiting} gang{'s go' if found.waiting != 1 else ' goes'} on waiting"
    return "\n".join([*(lines or ["no gang would start, wait or be evicted that does not now"]), waiting])


def _lines(gangs: Mapping[str, int], pattern: str) -> Iterable[str]:
    for gang, count in list(gangs.items())[:GANGS_SHOWN_MAX]:
        yield pattern.format(gang=gang, pods=f"{count} pod{'s' if count != 1 else ''}")
    if len(gangs) > GANGS_SHOWN_MAX:
        yield f"... and {len(gangs) - GANGS_SHOWN_MAX} more gangs; -o json has all"

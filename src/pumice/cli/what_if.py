"""`pumice what-if`: what the scheduler would do if the cluster were different. Nothing is written."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click
import msgspec

from pumice import instant
from pumice.cli import gang_names
from pumice.cli.cluster_command import ClusterAccess, asks
from pumice.cli.forecast import at
from pumice.cli.printing import align
from pumice.cli.results import Report
from pumice.digits import counted
from pumice.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pumice.instant import Instant
    from pumice.scheduling.whatif.outcome import Outcome, When

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
    """Say which gangs would start, wait or be evicted if nodes, queues, Jobs or the policy were different, and when those that wait would start.

    Two cycles are planned, as things are and as they would be, and the engine is run ahead from both; nothing is written. The leading
    scheduler does that, or where none answers or a policy is given, the same engine over a listing. Jobs of other namespaces are given as
    NAMESPACE/NAME.
    """
    from pumice.cli import progress, sources
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
    world = await sources.listed(access, policy_file)  # a server that is not there is told once
    changes = tuple(scenario.queue_change(each) for each in queues)
    policy = sources.policy_of(new_policy) if new_policy else None
    wanted = scenario.Scenario(add_nodes or 0, like, drain, changes, names, policy)
    with progress.show("running ahead"):
        found = scenario.compare(world, wanted, cpu=time.process_time)
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
        *_lines(found.evicted, "would be evicted: {pods} of {gang}", lambda gang: _again(found, gang)),
        *_lines(found.evicted_no_more, "would stay, and is evicted now: {pods} of {gang}"),
        *(
            f"has to leave a drained node, and {'starts elsewhere' if starts else 'waits then'}: {gang_names.by_job(gang)}"
            for gang, starts in found.displaced.items()
        ),
    ]
    lines = lines or ["no gang would start, wait or be evicted that does not now"]
    if found.waiting:
        lines.append(f"{counted(found.waiting, 'gang')} would go on waiting")
    return "\n".join([*lines, *_times(found)])


def _times(found: Outcome) -> Iterable[str]:
    """When gangs that wait start, as things are and then; and what of it nobody can know."""
    if found.no_forecast:
        yield f"when they start is not known: {found.no_forecast}"
    if not found.forecasts:
        return
    now = instant.parse_instant(found.at)
    rows = [("GANG", "STARTS AS THINGS ARE", "WOULD START", "IN 9 OF 10 CASES BY")]
    for gang, each in found.forecasts.items():
        before = _time(each.before, "p50", now) if each.before is not None else "runs"
        rows.append((gang_names.by_job(gang), before, _time(each.after, "p50", now), _time(each.after, "p90", now)))
    yield ""
    yield align(rows).rstrip()
    told = [when for each in found.forecasts.values() for when in (each.before, each.after) if when is not None]
    if found.not_forecast:
        yield f"... and {found.not_forecast} more in line, for whom nobody looked ahead"
    if any(when.p50 is None and not when.complete for when in told):
        yield "not known: the cluster is too large to look so far ahead in the time that a question has"
    if any(when.without_estimate for when in told):
        yield "some running gangs have no estimate of their end: what starts after them is a guess by the policy's default"


def _time(when: When | None, which: str, now: Instant) -> str:
    if when is None:
        return "not known"
    text = when.p50 if which == "p50" else when.p90
    if text is None:
        return "not within a week" if when.complete else "not known"
    return at(instant.parse_instant(text), now)


def _again(found: Outcome, gang: str) -> str:
    """When a gang that is evicted starts again; nothing of one that only gives back what it has beyond its minimum."""
    told = found.forecasts.get(gang)
    return f"; starts again {_time(told.after, 'p50', instant.parse_instant(found.at))}" if told is not None else ""


def _lines(gangs: Mapping[str, int], pattern: str, more: Callable[[str], str] = lambda _: "") -> Iterable[str]:
    for gang, count in list(gangs.items())[:GANGS_SHOWN_MAX]:
        yield pattern.format(gang=gang_names.by_job(gang), pods=counted(count, "pod")) + more(gang)
    if len(gangs) > GANGS_SHOWN_MAX:
        yield f"... and {len(gangs) - GANGS_SHOWN_MAX} more gangs; -o json has all"

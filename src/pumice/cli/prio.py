"""`pumice prio`: who is next in each queue, and what makes up the rank of each gang."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pumice.cli.cluster_command import ClusterAccess, asks
from pumice.cli.results import Live, Report
from pumice.errors import NotFound

if TYPE_CHECKING:
    from pumice.readmodel import model

ROWS_SHOWN = 50
AGAIN_S = 2.0
AGAIN_LISTED_S = 10.0  # a listing of the whole cluster costs more than a question to the leader
# In the order of the columns: the name in the policy file, and in the view.
FACTORS = {
    "priority-class": "priority_class",
    "fair-share": "fair_share",
    "age": "age",
    "size": "size",
    "queue": "queue",
}
FACTOR_HEADS = ("PRIORITY-CLASS", "FAIR-SHARE", "AGE", "SIZE", "QUEUE-PRIORITY")  # the first column is QUEUE already


@click.command()
@asks(watch=True)
@click.argument("job", default="")
@click.option("-q", "--queue", default="", help="Only gangs of this queue.")
@click.option("-u", "--user", default="", help="Only gangs of this user.")
@click.option("--rows", type=click.IntRange(min=1), default=ROWS_SHOWN, show_default=True, help="Gangs shown, at most.")
@click.option(
    "--policy",
    "policy_file",
    type=click.Path(dir_okay=False),
    help="Ask no scheduler: plan one cycle over a listing of the cluster with this policy file, and write nothing.",
)
async def prio(access: ClusterAccess, job: str, queue: str, user: str, rows: int, policy_file: str | None) -> Live:
    """Show the gangs that wait, in the order in which their queue serves them, with each factor of their rank.

    JOB is the name of a Job or a PodGroup. A factor is between 0 and 1; RANK is their sum by the weights of the policy's plugin
    fairshare. USED is the part of the cluster that the gang's user has used through the queue, recent use counting most. In the
    built-in policy priority classes are strict: they decide before the rank does, and between queues the tree of queues decides.
    """
    from pumice.cli import sources

    states = sources.States(access, "queues,gangs", policy_file)

    async def report() -> Report:
        state, source = await states.state()
        found = waiting(state, job=job, queue=queue, user=user)
        return Report(lambda _: text(state, found, rows, source), data(state, found, source))

    return Live(report, AGAIN_S if policy_file is None else AGAIN_LISTED_S)


def waiting(state: model.State, *, job: str = "", queue: str = "", user: str = "") -> list[model.Gang]:
    """Gangs that wait, queue by queue, the next one first."""
    found = [
        gang
        for gang in state.gangs
        if gang.position and queue in {"", gang.queue} and user in {"", gang.user} and job in {"", gang.job, gang.name}
    ]
    if job and not found:
        known = any(job in {gang.job, gang.name} for gang in state.gangs)
        why = "does not wait" if known else "is not known to the scheduler"
        raise NotFound(f"{job} {why}; `pumice top --by job` lists what there is")
    return sorted(found, key=lambda gang: (gang.queue, gang.position))


def data(state: model.State, gangs: list[model.Gang], source: str) -> Any:
    """What `-o json` prints."""
    return {
        "at": state.at,
        "source": source,
        "policy": state.policy.source,
        "weights": dict(state.policy.factors),
        "gangs": [
            {
                "namespace": gang.namespace,
                "name": gang.name,
                "job": gang.job,
                "user": gang.user,
                "queue": gang.queue,
                "position": gang.position,
                "priority": gang.priority,
                "rank": gang.factors.total if gang.factors is not None else None,
                "used": gang.factors.used if gang.factors is not None else None,
                "factors": {name: getattr(gang.factors, field) for name, field in FACTORS.items()}
                if gang.factors is not None
                else {},
            }
            for gang in gangs
        ],
    }


def text(state: model.State, gangs: list[model.Gang], rows: int, source: str) -> str:
    from pumice.cli.printing import align
    from pumice.cli.sources import LEADER

    weights = state.policy.factors
    if not gangs:
        return "no gang waits"
    said = "the scheduler says now" if source == LEADER else f"one cycle over a listing finds, by {state.policy.source}"
    parts = [f"As {said}. {_order(state)}\n"]
    heads = ["QUEUE", "POSITION", "JOB", "NAMESPACE", "USER", "PRIORITY"]
    if weights:
        heads += ["RANK", *FACTOR_HEADS, "USED"]
    parts.append(align([heads, *(_row(gang, heads) for gang in gangs[:rows])]))
    if len(gangs) > rows:
        parts.append(f"... and {len(gangs) - rows} more; --rows shows them")
    return "\n".join(parts).rstrip("\n")


def _order(state: model.State) -> str:
    if not state.policy.factors:
        return "Plugin fairshare is not in the policy: priority and age decide, and there are no factors."
    counted = ", ".join(f"{name} {weight:g}" for name, weight in state.policy.factors.items() if weight)
    first = "PRIORITY decides first, then " if "priority" in state.policy.plugins else ""
    return f"{first}RANK, with the weights {counted or 'of nothing'}."


def _row(gang: model.Gang, heads: list[str]) -> list[str]:
    row = [gang.queue, str(gang.position), gang.job or gang.name, gang.namespace, gang.user, str(gang.priority)]
    own = gang.factors
    if own is not None and "RANK" in heads:
        row += [f"{own.total:.4g}", *(f"{getattr(own, field):.4g}" for field in FACTORS.values()), f"{own.used:.2%}"]
    return row

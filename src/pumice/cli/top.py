"""`pumice top`: who uses the GPUs, and what each queue has left."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pumice.cli.cluster_command import ClusterAccess, asks
from pumice.cli.record_options import price_option, prices_of
from pumice.cli.results import Live, Report
from pumice.digits import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pumice.cli.colours import Paint
    from pumice.cli.usage import JobUsage, Usage
    from pumice.instant import Instant

    Number = Callable[[float | None], str]

ROWS_SHOWN = 20  # of users, and of jobs
AGAIN_S = 2.0
AGAIN_LISTED_S = 10.0  # a listing of the whole cluster costs more than a question to the leader


@click.command()
@asks(watch=True)
@click.option("--by", type=click.Choice(["queue", "user", "job"]), help="Only this table, instead of all three.")
@click.option("-q", "--queue", default="", help="Only this queue, and the users and jobs in it.")
@click.option("-u", "--user", default="", help="Only this user, and its jobs.")
@click.option("--resource", default="", help="What to count; else the GPU that the nodes have most of, else cpu.")
@click.option(
    "--idle",
    is_flag=True,
    help="Only jobs that hold GPUs and have used less than 5 % of them for ten minutes, as far as that is measured.",
)
@price_option
@click.option(
    "--rows", type=click.IntRange(min=1), default=ROWS_SHOWN, show_default=True, help="Users and jobs shown, at most."
)
@click.option(
    "--policy",
    "policy_file",
    type=click.Path(dir_okay=False),
    help="Ask no scheduler: plan one cycle over a listing of the cluster with this policy file, and write nothing.",
)
async def top(
    access: ClusterAccess,
    by: str | None,
    queue: str,
    user: str,
    resource: str,
    idle: bool,
    prices: tuple[str, ...],
    rows: int,
    policy_file: str | None,
) -> Live:
    """Show who uses the GPUs, by queue, by user and by job.

    What a queue deserves and may hold at most is what the scheduler's policy makes of its weight, or of what its owner wrote. Left
    is what its gangs may still start: what is free within its limit, and at least what it can take back of what it deserves. The
    leading scheduler is asked; where none answers, the same engine plans one cycle over a listing. Who may see one namespace only
    sees its users and jobs, and the sums of the rest; -n asks for that.

    What jobs use of their GPUs is shown where it is measured: by the agents of nodes that give out this machine's own (--gpus auto), and by
    DCGM where the policy names a Prometheus. --idle names those who use next to nothing, and with --price what that costs.
    """
    from pumice.cli import sources, usage

    known_prices = prices_of(prices)
    states = sources.States(access, "queues,gangs", policy_file)
    namespace = access.namespace if access.named_namespace else ""

    async def report() -> Report:
        state, source = await states.state()
        found = usage.usage(
            state, source, resource=resource, queue=queue, user=user, namespace=namespace, prices=known_prices
        )
        now = access.clock.now()
        if idle:
            lazy = usage.idle(found)
            return Report(lambda paint: idle_text(lazy, now, rows=rows, paint=paint), usage.data(lazy, "job"))
        return Report(lambda paint: text(found, now, by=by or "", rows=rows, paint=paint), usage.data(found, by or ""))

    return Live(report, AGAIN_S if policy_file is None else AGAIN_LISTED_S)


def text(found: Usage, now: Instant, *, by: str, rows: int, paint: Paint) -> str:
    from pumice.cli.sources import LEADER
    from pumice.cli.usage import shown

    def number(value: float | None) -> str:
        return shown(found.resource, value)

    said = "the scheduler says now" if found.source == LEADER else f"one cycle over a listing finds, by {found.policy}"
    parts = [
        f"{found.resource}: {number(found.used)} of {number(found.total)} used, {number(found.free)} free, as {said}\n"
    ]
    if by in {"", "queue"}:
        parts.append(_queues(found, number, paint))
    if by in {"", "user"}:
        parts.append(_users(found, number, rows))
    if by in {"", "job"}:
        parts.append(_jobs(found, number, now, rows, paint))
    return "\n".join(parts).rstrip("\n")


def idle_text(found: Usage, now: Instant, *, rows: int, paint: Paint) -> str:
    """Who holds GPUs for nothing, the most expensive first."""
    from pumice.cli.usage import shown

    if not found.jobs:
        return "No job that is measured holds GPUs for nothing."
    jobs = _jobs(found, lambda value: shown(found.resource, value), now, rows, paint)
    dollars = [each.dollars_per_hour for each in found.jobs if each.dollars_per_hour is not None]
    cost = f", ${sum(dollars):,.2f} an hour" if dollars else ""
    below = f"{counted(len(found.jobs), 'job')} below 5 % of {'its' if len(found.jobs) == 1 else 'their'} GPUs"
    return f"{jobs}\n{below} for ten minutes{cost}"


def percent(share: float) -> str:
    return f"{share * 100:.0f}%"


def _queues(found: Usage, number: Number, paint: Paint) -> str:
    heads = (
        "QUEUE", "STATE", "WEIGHT", "HELD", "SHARE", "DESERVED", "BORROWED", "LIMIT", "LEFT", "RUNNING", "WAITING",
    )  # fmt: skip
    rows = [
        (
            each.name,
            each.state,
            str(each.weight),
            number(each.held),
            percent(each.share),
            *map(number, (each.deserved, each.borrowed, each.limit, each.left)),
            str(each.running),
            str(each.waiting),
        )
        for each in found.queues
    ]
    return _table(heads, rows, paint, {1})


def _users(found: Usage, number: Number, most: int) -> str:
    rows: list[tuple[str, ...]] = [
        (
            each.name,
            number(each.held),
            percent(each.share),
            str(each.running),
            str(each.waiting),
            ",".join(each.queues),
        )
        for each in found.users[:most]
    ]
    if found.others.gangs:
        rows.append((f"(others, not in {found.namespace})", number(found.others.gangs)))
    if found.others.pods:
        rows.append(("(pods of no queue)", number(found.others.pods)))
    return _table(("USER", "HELD", "SHARE", "RUNNING", "WAITING", "QUEUES"), rows) + _more(found.users, most)


def _jobs(found: Usage, number: Number, now: Instant, most: int, paint: Paint) -> str:
    from pumice import instant

    def age(created: str) -> str:
        return instant.human_duration(now - instant.parse_instant(created)) if created else "-"

    heads: tuple[str, ...] = ("JOB", "NAMESPACE", "USER", "QUEUE", "PHASE", "HELD", "SHARE", "PODS", "POSITION", "AGE")
    measured = any(each.gpu_percent is not None for each in found.jobs)
    priced = any(each.dollars_per_hour is not None for each in found.jobs)
    heads += ("GPU", "GPU-MEMORY") if measured else ()
    heads += ("$/HOUR",) if priced else ()
    rows = [
        (
            each.name,
            each.namespace,
            each.user,
            each.queue,
            each.phase,
            number(each.held),
            percent(each.share),
            f"{each.running}/{each.running + each.waiting}",
            str(each.position or "-"),
            age(each.created),
            *(_gpu_cells(each) if measured else ()),
            *((_dollars_cell(each),) if priced else ()),
        )
        for each in found.jobs[:most]
    ]
    return _table(heads, rows, paint, {4}) + _more(found.jobs, most)


def _gpu_cells(job: JobUsage) -> tuple[str, str]:
    if job.gpu_percent is None or job.gpu_memory_mib is None:
        return "-", "-"
    return f"{job.gpu_percent:.0f}%", f"{job.gpu_memory_mib / 1024:.1f}Gi"


def _dollars_cell(job: JobUsage) -> str:
    return "-" if job.dollars_per_hour is None else f"{job.dollars_per_hour:,.2f}"


def _table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], paint: Paint | None = None, phases: Iterable[int] = ()
) -> str:
    from pumice.cli.printing import align

    return align([heads, *rows], phases=set(phases), paint=paint) if rows else ""


def _more(rows: Sequence[object], most: int) -> str:
    return f"... and {len(rows) - most} more; --rows shows them\n" if len(rows) > most else ""

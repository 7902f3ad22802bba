"""`pumice squeue`, `sinfo` and `scancel`: for people who are used to Slurm."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import click

from pumice.cli.cluster_command import ClusterAccess, Several, asks, for_each
from pumice.cli.results import Report
from pumice.errors import BadInput, NotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.cli.slurm_tables import QueueRow

JOBS_CANCELLED_MAX = 1_000  # by one command that names none of them


def _listed(_: click.Context, __: click.Parameter, text: str) -> tuple[str, ...]:
    return tuple(filter(None, (part.strip() for part in text.split(","))))


def _wanted_states(ctx: click.Context, parameter: click.Parameter, text: str) -> frozenset[str]:
    from pumice.cli.slurm_tables import LONG_STATES

    found = set()
    for word in _listed(ctx, parameter, text):
        short = LONG_STATES.get(word.upper(), word.upper())
        if word.lower() == "all":
            found |= set(LONG_STATES.values())
        elif short not in LONG_STATES.values():
            known = ", ".join(f"{short} ({long.lower()})" for long, short in LONG_STATES.items())
            raise BadInput(f"-t {word}: no such state; take all, or some of {known}")
        else:
            found.add(short)
    return frozenset(found)


_STATES = click.option(
    "-t", "--states", callback=_wanted_states, default="", metavar="LIST", help="Only in these states: PD,R or all."
)
_PARTITION = click.option("-p", "--partition", callback=_listed, default="", metavar="LIST", help="Only these queues.")
_USER = click.option("-u", "--user", callback=_listed, default="", metavar="LIST", help="Only of these users.")


@click.command()
@asks(everywhere=True)
@click.option("-j", "--jobs", callback=_listed, default="", metavar="LIST", help="Only these Jobs.")
@_PARTITION
@_USER
@_STATES
@click.option("--start", is_flag=True, help="When those that wait are expected to start.")
async def squeue(
    access: ClusterAccess,
    jobs: tuple[str, ...],
    partition: tuple[str, ...],
    user: tuple[str, ...],
    states: frozenset[str],
    start: bool,
) -> Report:
    """List Jobs that run or wait, as Slurm's squeue does.

    A partition is a queue, a JOBID is a Job's name. Of one that waits the reason is the scheduler's code; `pumice explain` says more.
    """
    import msgspec

    from pumice.cli import slurm_tables
    from pumice.cli.forecast import leaders_state
    from pumice.cli.printing import align

    rows = await _rows(access, jobs, partition, user, states)
    if start:
        rows = [row for row in rows if row.state == "PD"]
        state = None if all(row.start for row in rows) else await leaders_state(access, access.scope)
        rows = slurm_tables.with_forecasts(rows, state.gangs if state is not None else ())
    table = slurm_tables.queue_table(rows, starts=start, everywhere=access.everywhere)
    return Report(align(table).rstrip("\n"), {"jobs": msgspec.to_builtins(rows)}, _names(rows))


def _names(rows: Sequence[QueueRow]) -> tuple[str, ...]:
    return tuple(f"job.batch.volcano.sh/{row.job}" for row in rows)


async def _rows(
    access: ClusterAccess,
    jobs: tuple[str, ...],
    partitions: tuple[str, ...],
    users: tuple[str, ...],
    states: frozenset[str],
) -> list[QueueRow]:
    from pumice.api.batch import Job
    from pumice.api.pods import Pod
    from pumice.api.scheduling import PodGroup
    from pumice.cli import slurm_tables

    client, scope = access.client, access.scope
    found = (await client.list(Job, namespace=scope)).items
    known = {job.metadata.name for job in found}
    if missing := [name for name in jobs if name not in known]:
        raise NotFound(
            f"there is no job {', '.join(missing)} in {scope or 'any namespace'}; `pumice squeue -A -t all` lists all"
        )
    groups = (await client.list(PodGroup, namespace=scope)).items
    pods = (await client.list(Pod, namespace=scope)).items
    rows = slurm_tables.queue_rows(found, groups, pods, access.clock.now())
    return [
        row
        for row in rows
        if (row.job in jobs if jobs else True)
        and (row.partition in partitions if partitions else True)
        and (row.user in users if users else True)
        and (row.state in states if states else row.state not in slurm_tables.OVER or row.job in jobs)
    ]


@click.command()
@asks(namespace=())
@click.option("-N", "--Node", "by_node", is_flag=True, help="One line for each node.")
@_PARTITION
async def sinfo(access: ClusterAccess, by_node: bool, partition: tuple[str, ...]) -> Report:
    """List queues and the state of nodes, as Slurm's sinfo does.

    Every queue may use every node, so each has the same nodes below it. A node is idle, mix or alloc by its GPUs, or by its cores
    where it has none.
    """
    import msgspec

    from pumice.api.core import Node
    from pumice.api.pods import Pod
    from pumice.api.scheduling import Queue
    from pumice.cli import room, slurm_tables
    from pumice.cli.printing import align

    queues = [
        each for each in (await access.client.list(Queue)).items if not partition or each.metadata.name in partition
    ]
    if missing := set(partition) - {each.metadata.name for each in queues}:
        raise NotFound(f"there is no queue {', '.join(sorted(missing))}; `pumice queue list` lists them")
    found, pods = (await access.client.list(Node)).items, (await access.client.list(Pod)).items
    session = room.session_of(found, pods, access.clock.now())
    cores = {each.name: each for each in room.rooms(session, "cpu").nodes}
    cards = {each.name: each for each in room.rooms(session).nodes if each.cards}
    states = {name: slurm_tables.node_state(each) for name, each in {**cores, **cards}.items()}
    if by_node:
        listed = [{"node": name, "state": state} for name, state in sorted(states.items())]
        names = tuple(f"node/{name}" for name in sorted(states))
        return Report(align(slurm_tables.node_table(states)).rstrip("\n"), {"nodes": listed}, names)
    rows = slurm_tables.partition_rows(queues, states)
    names = tuple(dict.fromkeys(f"queue.scheduling.volcano.sh/{row.partition}" for row in rows))
    data = {"partitions": msgspec.to_builtins(rows)}
    return Report(align(slurm_tables.partition_table(rows)).rstrip("\n"), data, names)


@click.command()
@asks()
@click.argument("jobs", nargs=-1, metavar="JOBID...")
@_PARTITION
@_USER
@_STATES
async def scancel(
    access: ClusterAccess,
    jobs: tuple[str, ...],
    partition: tuple[str, ...],
    user: tuple[str, ...],
    states: frozenset[str],
) -> Several:
    """Delete Jobs with their pods: those that are named, or all of a user, a queue or a state."""
    from pumice.cli.job import delete_job

    if not (jobs or partition or user or states):
        raise BadInput("no job was named; write its name, or -u USER, -p PARTITION or -t STATE")
    chosen = jobs
    if partition or user or states:
        chosen = tuple(row.job for row in await _rows(access, jobs, partition, user, states))
        if len(chosen) > JOBS_CANCELLED_MAX:
            raise BadInput(f"{len(chosen)} jobs are meant, at most {JOBS_CANCELLED_MAX} at a time; choose fewer")
    return await for_each(chosen, functools.partial(delete_job, access))
